//! A mailbox of one letter: senders wait until it is empty, receivers until it is full, all on one condition variable.
//!
//! Both sides loop as they should, but they call `notify_one`, and that one may be of the wrong kind: a sender wakes
//! another sender, who goes back to sleep, and nobody wakes a receiver. At fault is the one variable for two conditions:
//! `notify_all`, or two variables.

use parking_lot::Condvar;
use parking_lot::Mutex;

#[derive(Default)]
pub struct Mailbox {
    letter: Mutex<Option<u32>>,
    changed: Condvar,
}

impl Mailbox {
    pub fn send(&self, letter: u32) {
        let mut slot = self.letter.lock();
        self.changed.wait_while(&mut slot, |slot| slot.is_some());
        *slot = Some(letter);
        self.changed.notify_one();
    }

    pub fn receive(&self) -> u32 {
        let mut slot = self.letter.lock();
        loop {
            if let Some(letter) = slot.take() {
                self.changed.notify_one();
                return letter;
            }
            self.changed.wait(&mut slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mailbox;
    use std::thread;

    const LETTERS_EACH: u32 = 3;

    /// Hangs when the bug shows.
    #[test]
    fn wrong_waiter_woken() {
        let mailbox = Mailbox::default();
        let received: u32 = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..LETTERS_EACH).for_each(|letter| mailbox.send(letter)));
            }
            let receive = || (0..LETTERS_EACH).map(|_| mailbox.receive()).sum::<u32>();
            let receivers = [scope.spawn(receive), scope.spawn(receive)];
            receivers.map(|receiver| receiver.join().unwrap()).iter().sum()
        });
        assert_eq!(received, LETTERS_EACH * (LETTERS_EACH - 1));
    }
}
