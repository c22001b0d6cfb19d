//! A log writer with one channel for lines and another for "that is all".
//!
//! Finding no line, the writer asks whether it may go. A last line sent between the two questions, followed by the
//! "that is all", stays in the channel for ever. At fault is `run`: told to stop, it has to drain the lines once more
//! (or the lines have to end by dropping their sender).

use std::sync::mpsc::Receiver;
use std::sync::mpsc::TryRecvError;
use std::thread;

pub struct LogWriter {
    pub lines: Receiver<String>,
    pub stop: Receiver<()>,
}

impl LogWriter {
    /// Everything written until `stop`.
    pub fn run(self) -> String {
        let mut written = String::new();
        loop {
            match self.lines.try_recv() {
                Ok(line) => written.extend([line.as_str(), "\n"]),
                Err(TryRecvError::Disconnected) => return written,
                Err(TryRecvError::Empty) if self.stop.try_recv().is_ok() => return written,
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LogWriter;
    use std::sync::mpsc;
    use std::thread;

    const REQUESTS: usize = 10;

    #[test]
    fn channel_shutdown() {
        for request in 0..REQUESTS {
            let (line_sender, lines) = mpsc::channel();
            let (stop_sender, stop) = mpsc::channel();
            let handler = thread::spawn(move || {
                line_sender.send(format!("request {request}")).unwrap();
                line_sender.send("answered".into()).unwrap();
                stop_sender.send(()).unwrap();
                line_sender
            });
            let written = LogWriter { lines, stop }.run();
            let _still_open = handler.join().unwrap();
            assert_eq!(
                written.lines().last(),
                Some("answered"),
                "a line of request {request} was not written"
            );
        }
    }
}
