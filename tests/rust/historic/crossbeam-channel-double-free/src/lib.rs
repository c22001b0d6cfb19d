//! RUSTSEC-2025-0024: crossbeam-channel 0.5.12 to 0.5.14 free a block of messages twice.
//!
//! The first sender of an unbounded channel installs the first block in two steps: as the tail's, then as the head's. A
//! second sender may send in between. When the last receiver leaves at that moment, `discard_all_messages` waits for the
//! head's block and frees it, but takes it by `load` where the common path takes it by `swap`; the drop of the channel
//! finds the pointer again and frees the block again. Here two senders send their first message while the receiver
//! leaves; the thread of the receiver drops the channel too, so that the allocator sees both frees on one thread and
//! aborts.

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;
    use starting_line::StartingLine;
    use std::thread;

    const CHANNELS: usize = 2000;
    const SENDERS: usize = 2;

    #[test]
    fn crossbeam_channel_double_free() {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..CHANNELS).map(|_| unbounded::<usize>()).unzip();
        let line = StartingLine::new(SENDERS + 1);
        thread::scope(|scope| {
            for _ in 0..SENDERS {
                let (senders, line) = (senders.clone(), &line);
                scope.spawn(move || {
                    for sender in senders {
                        line.wait();
                        // Fails when the receiver was faster.
                        let _is_heard = sender.send(1);
                        drop(sender);
                        line.wait();
                    }
                });
            }
            for (sender, receiver) in senders.into_iter().zip(receivers) {
                line.wait();
                drop(receiver);
                line.wait();
                drop(sender);
            }
        });
    }
}
