//! State that a signal handler may look at or change between any two instructions of its thread.
//!
//! Atomic, so that the compiler keeps no old value in a register and that either sees a whole one; relaxed, since both are one thread: an
//! instruction of its own for each, and no lock. Changing what was read is two steps, between which a handler may come: then its change is lost, or
//! ours. So either the handler puts back what it found, or only one of the two changes the value, or signals are blocked meanwhile, or both change it to the same.
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

#[derive(Default)]
#[repr(transparent)]
pub struct HandlerFlag(AtomicBool);

impl HandlerFlag {
    pub const fn new(value: bool) -> HandlerFlag {
        HandlerFlag(AtomicBool::new(value))
    }

    #[inline]
    pub fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    #[inline]
    pub fn set(&self, value: bool) {
        self.0.store(value, Relaxed);
    }

    /// In two steps; returns what it was.
    #[inline]
    pub fn replace(&self, value: bool) -> bool {
        let before = self.get();
        self.set(value);
        before
    }
}

#[derive(Default)]
#[repr(transparent)]
pub struct HandlerWord(AtomicU64);

impl HandlerWord {
    pub const fn new(value: u64) -> HandlerWord {
        HandlerWord(AtomicU64::new(value))
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// In two steps; returns what it was.
    #[inline]
    pub fn replace(&self, value: u64) -> u64 {
        let before = self.get();
        self.set(value);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::HandlerFlag;
    use super::HandlerWord;

    #[test]
    fn what_is_replaced_is_given_back() {
        let (flag, word) = (HandlerFlag::new(false), HandlerWord::new(3));
        assert!(!flag.replace(true) && flag.get());
        assert_eq!((word.replace(5), word.get()), (3, 5));
        flag.set(false);
        word.set(7);
        assert_eq!((flag.get(), word.get()), (false, 7));
    }

    /// A handler that puts back what it found is not noticed by what it interrupts.
    #[test]
    fn what_a_handler_puts_back_is_as_it_was() {
        let flag = HandlerFlag::new(true);
        let handler = || {
            let before = flag.replace(false);
            flag.set(before);
        };
        handler();
        assert!(flag.get());
    }
}
