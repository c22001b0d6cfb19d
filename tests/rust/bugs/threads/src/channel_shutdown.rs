//! A log writer with one channel for lines and another for "that is all".
//!
//! Finding no line, the writer flushes what it has and asks whether it may go. A last line sent between the two
//! questions, followed by the "that is all", stays in the channel for ever. At fault is `run`: told to stop, it has to
//! drain the lines once more (or the lines have to end by dropping their sender).

use std::sync::mpsc::Receiver;
use std::sync::mpsc::TryRecvError;
use std::thread;

pub struct LogWriter {
    pub lines: Receiver<&'static str>,
    pub stop: Receiver<()>,
}

impl LogWriter {
    /// Everything written until `stop`.
    pub fn run(self) -> String {
        let mut file = String::new();
        let mut buffer = Vec::new();
        loop {
            match self.lines.try_recv() {
                Ok(line) => buffer.push(line),
                Err(TryRecvError::Empty) => {
                    for line in buffer.drain(..) {
                        file += &format!("{}: {line}\n", file.len());
                    }
                    if self.stop.try_recv().is_ok() {
                        return file;
                    }
                    thread::yield_now();
                }
                Err(TryRecvError::Disconnected) => panic!("the handler left without a word"),
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
    const LINES: [&str; 4] = ["request", "found", "answered", "closed"];

    #[test]
    fn channel_shutdown() {
        for request in 0..REQUESTS {
            let (line_sender, lines) = mpsc::sync_channel(LINES.len());
            let (stop_sender, stop) = mpsc::sync_channel(1);
            let handler = thread::spawn(move || {
                for line in LINES {
                    line_sender.send(line).unwrap();
                }
                stop_sender.send(()).unwrap();
                (line_sender, stop_sender)
            });
            let file = LogWriter { lines, stop }.run();
            let _still_open = handler.join().unwrap();
            assert_eq!(
                file.lines().count(),
                LINES.len(),
                "lines of request {request} were not written"
            );
        }
    }
}
