//! RUSTSEC-2021-0124: a closed `oneshot` channel of tokio 1.13.0 lets both ends take the value.
//!
//! `send` puts the value in place, marks it as sent, and takes it back when the channel turns out to be closed. `try_recv`
//! after `close` sees the mark and takes the value too. Here one thread sends while the other closes and looks. What
//! shows is the `unwrap` of nothing in `Sender::send`, a value received twice, or an abort by the allocator.

#[cfg(test)]
mod tests {
    use starting_line::StartingLine;
    use std::thread;
    use tokio::sync::oneshot;

    const CHANNELS: usize = 50;

    #[test]
    fn tokio_oneshot_close() {
        for channel in 0..CHANNELS {
            let (sender, mut receiver) = oneshot::channel();
            let line = StartingLine::new(2);
            let (is_sent, is_received) = thread::scope(|scope| {
                let sending = scope.spawn(|| {
                    line.wait();
                    sender.send(Box::new(channel)).is_ok()
                });
                line.wait();
                receiver.close();
                let is_received = receiver.try_recv().is_ok();
                (sending.join().unwrap(), is_received)
            });
            assert_eq!(
                is_sent, is_received,
                "the ends of channel {channel} do not agree on who has the value"
            );
        }
    }
}
