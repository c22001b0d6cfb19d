//! A gate that threads wait at with `park`.
//!
//! `wait` looks at the flag first and writes itself down as waiting second. When the gate opens between the two, `open`
//! finds nobody to wake, and the waiter parks for ever. At fault is `wait`: it has to look at the flag once more after
//! it has written itself down. (The token of `unpark` does not help here: nobody calls `unpark`.)

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::Thread;

#[derive(Default)]
pub struct Gate {
    is_open: AtomicBool,
    waiting: Mutex<Option<Thread>>,
}

impl Gate {
    pub fn wait(&self) {
        // Acquire: pairs with the Release in `open`.
        while !self.is_open.load(Ordering::Acquire) {
            *self.waiting.lock().unwrap() = Some(thread::current());
            thread::park();
        }
    }

    pub fn open(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.is_open.store(true, Ordering::Release);
        if let Some(thread) = self.waiting.lock().unwrap().take() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use starting_line::StartingLine;
    use std::thread;

    const GATES: usize = 10;

    /// Hangs when the bug shows.
    #[test]
    fn lost_wake_up() {
        let gates: Vec<Gate> = (0..GATES).map(|_| Gate::default()).collect();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                for gate in &gates {
                    line.wait();
                    gate.wait();
                }
            });
            scope.spawn(|| {
                for gate in &gates {
                    line.wait();
                    gate.open();
                }
            });
        });
    }
}
