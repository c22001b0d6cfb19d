//! Words that threads share: each operation on one is a step.
use crate::explore::processor;
use crate::explore::processor::Operation;
use crate::explore::processor::Update;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;
use machine::Word;

/// What both sizes have in common: a first value, and a number within the execution, given when it is first used.
#[derive(Debug)]
pub(crate) struct Place {
    first: u64,
    /// The execution in the upper half, one more than the number in the lower.
    number: AtomicU64,
}

impl Place {
    const fn new(first: u64) -> Place {
        Place {
            first,
            number: AtomicU64::new(0),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        let execution = processor::execution();
        // Relaxed: a memory of what `number_of` says.
        let known = self.number.load(Relaxed);
        if known >> 32 == u64::from(execution) {
            return known as u32 - 1;
        }
        // Another thread of the operating system's may use the same static, in an execution of its own.
        let number = processor::number_of(self as *const Place as usize, self.first);
        self.number
            .store(u64::from(execution) << 32 | u64::from(number + 1), Relaxed);
        number
    }
}

macro_rules! words {
    ($($name:ident: $value:ty;)*) => {$(
        /// A word of the simulated machine.
        #[derive(Debug)]
        pub struct $name(pub(crate) Place);

        impl $name {
            pub const fn new(first: $value) -> $name {
                $name(Place::new(first as u64))
            }

            fn update(&self, update: Update) -> $value {
                processor::step(Operation::Update(self.0.number(), update)) as $value
            }

            /// Stores some of the bytes.
            pub fn store_masked(&self, value: $value, mask: $value) {
                processor::step(Operation::Store(self.0.number(), value as u64, mask as u64));
            }
        }

        impl Word for $name {
            type Value = $value;
            const ZERO: $name = $name::new(0);

            fn load(&self, _: Ordering) -> $value {
                processor::step(Operation::Load(self.0.number())) as $value
            }

            fn store(&self, value: $value, order: Ordering) {
                // As compiled for x86: a plain store, or a locked exchange.
                if order == SeqCst {
                    self.update(Update::Swap(value as u64));
                } else {
                    self.store_masked(value, <$value>::MAX);
                }
            }

            fn swap(&self, value: $value, _: Ordering) -> $value {
                self.update(Update::Swap(value as u64))
            }

            fn compare_exchange(&self, current: $value, new: $value, _: Ordering, _: Ordering) -> Result<$value, $value> {
                let found = self.update(Update::CompareExchange(current as u64, new as u64));
                if found == current { Ok(found) } else { Err(found) }
            }

            fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                self.update(Update::Add(value as u64, <$value>::MAX as u64))
            }

            fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                self.update(Update::Add(value.wrapping_neg() as u64, <$value>::MAX as u64))
            }

            fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                self.update(Update::Or(value as u64))
            }

            fn fetch_min(&self, value: $value, _: Ordering) -> $value {
                self.update(Update::Min(value as u64))
            }

            fn fetch_max(&self, value: $value, _: Ordering) -> $value {
                self.update(Update::Max(value as u64))
            }
        }
    )*};
}

words! {
    Word32: u32;
    Word64: u64;
}

/// A word on which nothing depends but speed: its operations are no steps.
#[derive(Debug)]
pub struct Hint32(Place);

impl Hint32 {
    pub const fn new(first: u32) -> Hint32 {
        Hint32(Place::new(first as u64))
    }

    fn update(&self, update: Update) -> u32 {
        processor::step_at_once(Operation::Update(self.0.number(), update)) as u32
    }
}

impl Word for Hint32 {
    type Value = u32;
    const ZERO: Hint32 = Hint32::new(0);

    fn load(&self, _: Ordering) -> u32 {
        processor::step_at_once(Operation::Load(self.0.number())) as u32
    }

    fn store(&self, value: u32, _: Ordering) {
        self.update(Update::Swap(u64::from(value)));
    }

    fn swap(&self, value: u32, _: Ordering) -> u32 {
        self.update(Update::Swap(u64::from(value)))
    }

    fn compare_exchange(&self, current: u32, new: u32, _: Ordering, _: Ordering) -> Result<u32, u32> {
        let found = self.update(Update::CompareExchange(u64::from(current), u64::from(new)));
        if found == current { Ok(found) } else { Err(found) }
    }

    fn fetch_add(&self, value: u32, _: Ordering) -> u32 {
        self.update(Update::Add(u64::from(value), u64::from(u32::MAX)))
    }

    fn fetch_sub(&self, value: u32, _: Ordering) -> u32 {
        self.update(Update::Add(u64::from(value.wrapping_neg()), u64::from(u32::MAX)))
    }

    fn fetch_or(&self, value: u32, _: Ordering) -> u32 {
        self.update(Update::Or(u64::from(value)))
    }

    fn fetch_min(&self, value: u32, _: Ordering) -> u32 {
        self.update(Update::Min(u64::from(value)))
    }

    fn fetch_max(&self, value: u32, _: Ordering) -> u32 {
        self.update(Update::Max(u64::from(value)))
    }
}
