//! Ticket numbers from an atomic counter.
//!
//! `take` reads the counter with one atomic operation and writes it with another. Two threads in between draw the same
//! number. At fault is `take`: it has to be one `fetch_add`.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub struct Tickets {
    next: AtomicU32,
}

impl Tickets {
    pub fn take(&self) -> u32 {
        let ticket = self.next.load(Ordering::SeqCst);
        self.next.store(ticket + 1, Ordering::SeqCst);
        ticket
    }
}

#[cfg(test)]
mod tests {
    use super::Tickets;
    use starting_line::StartingLine;
    use std::collections::HashSet;
    use std::thread;

    const TICKETS_EACH: usize = 10;

    #[test]
    fn split_update() {
        let tickets = Tickets::default();
        let line = StartingLine::new(2);
        let draw = || {
            line.wait();
            (0..TICKETS_EACH).map(|_| tickets.take()).collect::<Vec<u32>>()
        };
        let drawn = thread::scope(|scope| {
            let visitors = [scope.spawn(draw), scope.spawn(draw)];
            visitors.map(|visitor| visitor.join().unwrap()).concat()
        });
        let mut seen = HashSet::new();
        for ticket in drawn {
            assert!(seen.insert(ticket), "ticket {ticket} was handed out twice");
        }
    }
}
