//! Two peers that tell each other rumours, a batch at a time, and listen between batches.
//!
//! Each mailbox is bounded, and the two form a ring. When both are nearly full as both peers begin a batch, each waits
//! in `send` for the other to listen. At fault is the ring: one direction has to be unbounded, or a peer has to listen
//! while it waits to be heard (`select!`).

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;

pub const BATCH: usize = 3;

/// Tells `batches` batches of rumours; the number of rumours heard.
pub fn gossip(batches: usize, mouth: Sender<usize>, ear: Receiver<usize>) -> usize {
    let mut heard = 0;
    for batch in 0..batches {
        for rumour in 0..BATCH {
            mouth
                .send(batch * BATCH + rumour)
                .expect("a peer listens until the other has no more to tell");
        }
        heard += ear.try_iter().count();
    }
    drop(mouth);
    heard + ear.iter().count()
}

#[cfg(test)]
mod tests {
    use super::BATCH;
    use super::gossip;
    use crossbeam_channel::bounded;
    use starting_line::StartingLine;
    use std::sync::Arc;
    use std::thread;

    const BATCHES: usize = 20;
    const ROOM: usize = BATCH + 1;

    /// Hangs when the bug shows.
    #[test]
    fn bounded_channel_cycle() {
        let (to_left, left) = bounded(ROOM);
        let (to_right, right) = bounded(ROOM);
        let line = Arc::new(StartingLine::new(2));
        let peer = thread::spawn({
            let line = Arc::clone(&line);
            move || {
                line.wait();
                gossip(BATCHES, to_right, left)
            }
        });
        line.wait();
        let heard = gossip(BATCHES, to_left, right);
        assert_eq!((heard, peer.join().unwrap()), (BATCHES * BATCH, BATCHES * BATCH));
    }
}
