//! State that one at a time may be inside of.
use core::cell::Cell;
use core::cell::UnsafeCell;

/// A value that one at a time may be inside of. Not `Sync`: it belongs to one thread.
#[repr(C)]
pub struct OwnedCell<T> {
    is_owned: Cell<bool>,
    value: UnsafeCell<T>,
}

impl<T> OwnedCell<T> {
    pub const fn new(value: T) -> OwnedCell<T> {
        OwnedCell {
            is_owned: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Does `action` with the value, which nobody else may be inside of meanwhile.
    ///
    /// If `action` unwinds, the value stays owned: it is half changed, and the next one is told.
    ///
    /// # Panics
    /// If somebody is inside: on this thread, further up the stack.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        if self.is_owned.replace(true) {
            is_owned_twice();
        }
        // SAFETY: `is_owned` was false, so no other reference to the value is alive: each lives inside of this function only, while it is true;
        // and no other thread has one, since an `UnsafeCell` is not `Sync`.
        let result = action(unsafe { &mut *self.value.get() });
        self.is_owned.set(false);
        result
    }

    /// Puts `value` in the place of what is there.
    #[track_caller]
    pub fn set(&self, value: T) {
        self.with(|place| *place = value);
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn is_owned_twice() -> ! {
    panic!("state of this thread is used while it is being changed: a mistake of Refrain's, not of the program");
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::OwnedCell;
    use std::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::string::String;

    #[test]
    fn what_is_changed_stays_changed() {
        let cell = OwnedCell::new([0u32; 3]);
        cell.with(|value| value[1] = 5);
        assert_eq!(cell.with(|value| *value), [0, 5, 0]);
        cell.set([7; 3]);
        assert_eq!(cell.with(|value| value[2]), 7);
    }

    #[test]
    fn one_after_the_other_may_be_inside() {
        let cell = OwnedCell::new(String::new());
        for letter in ["a", "b", "c"] {
            cell.with(|text| text.push_str(letter));
        }
        assert_eq!(cell.with(|text| text.clone()), "abc");
    }

    #[test]
    fn a_second_one_inside_is_told() {
        let cell = OwnedCell::new(1);
        let nested = || cell.with(|_| catch_unwind(AssertUnwindSafe(|| cell.with(|inner| *inner += 1))));
        let told = nested().expect_err("two were inside at once");
        let sentence = told.downcast_ref::<&str>().expect("a sentence");
        assert!(sentence.starts_with("state of this thread is used while it is being changed"));
    }

    #[test]
    fn other_cells_may_be_used_inside() {
        let (one, other) = (OwnedCell::new(1), OwnedCell::new(2));
        let sum = one.with(|one| other.with(|other| *one + *other));
        assert_eq!(sum, 3);
    }

    #[test]
    fn what_was_left_by_unwinding_stays_closed() {
        let cell = OwnedCell::new(0);
        let left = catch_unwind(AssertUnwindSafe(|| cell.with(|_| panic!("on purpose"))));
        assert!(left.is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| cell.with(|value| *value))).is_err());
    }
}
