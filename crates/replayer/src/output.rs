//! What a program prints: passed on at once, and kept (recording) or compared with what was kept (replaying).
use crate::sys;
use run_store::Captured;
use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a pipe that somebody else (a child the program left behind) keeps open may be silent before we let go.
const IDLE_AFTER_END: Duration = Duration::from_millis(200);

/// Where the bytes of one stream go.
pub trait Sink: Send + 'static {
    fn take(&mut self, bytes: &[u8]);
}

/// A thread that empties one pipe into a sink, so that the program never blocks on us.
pub struct Pump<S> {
    thread: JoinHandle<S>,
}

impl<S: Sink> Pump<S> {
    /// Once `program_ended`, the pipe is read only until it is closed or silent.
    pub fn start(pipe: OwnedFd, sink: S, program_ended: Arc<AtomicBool>) -> Pump<S> {
        Pump {
            thread: thread::spawn(move || pump(pipe, sink, &program_ended)),
        }
    }

    /// Call after the program ended: takes what is still in the pipe and gives the sink back.
    pub fn finish(self) -> S {
        match self.thread.join() {
            Ok(sink) => sink,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn pump<S: Sink>(pipe: OwnedFd, mut sink: S, program_ended: &AtomicBool) -> S {
    let mut pipe = File::from(pipe);
    let mut buffer = vec![0; 1 << 16];
    loop {
        // Looked at before waiting: a pipe that stays silent for the whole wait *after* the end is left.
        // Relaxed: a lone flag, nothing is published through it.
        let ended = program_ended.load(Relaxed);
        match sys::wait_readable(pipe.as_fd(), Some(IDLE_AFTER_END)) {
            Ok(true) => match pipe.read(&mut buffer) {
                Ok(0) => return sink,
                Ok(bytes) => sink.take(&buffer[..bytes]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return sink,
            },
            Ok(false) if ended => return sink,
            Ok(false) => {}
            Err(_) => return sink,
        }
    }
}

/// Our own stdout or stderr, or nothing.
#[derive(Debug)]
pub enum PassTo {
    Stdout,
    Stderr,
    Nowhere,
}

impl PassTo {
    pub fn write(&mut self, bytes: &[u8]) {
        let written = match self {
            PassTo::Stdout => whole(&mut io::stdout().lock(), bytes),
            PassTo::Stderr => whole(&mut io::stderr().lock(), bytes),
            PassTo::Nowhere => Ok(()),
        };
        // Whoever read our output has gone (`| head`). The program's own pipe stays open: it must run on as recorded.
        if written.is_err() {
            *self = PassTo::Nowhere;
        }
    }
}

fn whole(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

/// Keeps a stream in a file of the run directory.
pub struct Capture {
    file: File,
    pass: PassTo,
    captured: Captured,
}

impl Capture {
    pub fn new(file: File, pass: PassTo) -> Capture {
        Capture {
            file,
            pass,
            captured: Captured {
                bytes: 0,
                complete: true,
            },
        }
    }

    pub fn captured(&self) -> Captured {
        self.captured
    }
}

impl Sink for Capture {
    fn take(&mut self, bytes: &[u8]) {
        self.pass.write(bytes);
        if self.captured.complete {
            match self.file.write_all(bytes) {
                Ok(()) => self.captured.bytes += bytes.len() as u64,
                // A full disk ends the copy, not the program; the run says so.
                Err(_) => self.captured.complete = false,
            }
        }
    }
}

/// Compares a stream with the recorded one while it passes.
pub struct Compare {
    recorded: BufReader<File>,
    pass: PassTo,
    /// Programs that are not recorded may have written in between; there are none of them in a replay.
    others: Others,
    replayed_bytes: u64,
    first_difference: Option<u64>,
    left_out: u64,
}

/// Can something that is not replayed have written to the recorded stream?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    WroteNothing,
    MayHaveWritten,
}

/// How two streams relate, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub recorded_bytes: u64,
    pub replayed_bytes: u64,
    /// Offset of the first byte that differs, or at which one of the two has ended.
    pub first_difference: Option<u64>,
    /// Recorded bytes that somebody else must have written.
    pub left_out: u64,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.first_difference.is_none()
    }

    /// One is the beginning of the other: as good as a recording that was cut off allows.
    pub fn is_prefix(&self) -> bool {
        self.first_difference
            .is_none_or(|offset| offset == self.recorded_bytes.min(self.replayed_bytes))
    }
}

impl Compare {
    pub fn new(recorded: File, pass: PassTo, others: Others) -> Compare {
        Compare {
            recorded: BufReader::new(recorded),
            pass,
            others,
            replayed_bytes: 0,
            first_difference: None,
            left_out: 0,
        }
    }

    /// Goes on to where the recording has this byte. False: it has no more.
    fn find(&mut self, byte: u8) -> bool {
        let mut next = [0];
        while self.recorded.read_exact(&mut next).is_ok() {
            if next[0] == byte {
                return true;
            }
            self.left_out += 1;
        }
        false
    }

    pub fn finish(self) -> io::Result<Comparison> {
        let recorded_bytes = self.recorded.get_ref().metadata()?.len();
        let replayed_bytes = self.replayed_bytes;
        let (first_difference, left_out) = match (self.first_difference, self.others) {
            (None, Others::MayHaveWritten) => (None, recorded_bytes - replayed_bytes),
            (None, Others::WroteNothing) if recorded_bytes != replayed_bytes => {
                (Some(recorded_bytes.min(replayed_bytes)), 0)
            }
            (known, _) => (known, self.left_out),
        };
        Ok(Comparison {
            recorded_bytes,
            replayed_bytes,
            first_difference,
            left_out,
        })
    }
}

impl Sink for Compare {
    fn take(&mut self, bytes: &[u8]) {
        self.pass.write(bytes);
        if self.first_difference.is_none() && self.others == Others::MayHaveWritten {
            let same = bytes.iter().take_while(|byte| self.find(**byte)).count();
            if same < bytes.len() {
                self.first_difference = Some(self.replayed_bytes + same as u64);
            }
        } else if self.first_difference.is_none() {
            let mut expected = Vec::new();
            // A read error shows as a difference at the place where it happened.
            let _ = self
                .recorded
                .by_ref()
                .take(bytes.len() as u64)
                .read_to_end(&mut expected);
            let same = bytes.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            if same < bytes.len() {
                self.first_difference = Some(self.replayed_bytes + same as u64);
            }
        }
        self.replayed_bytes += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;

    fn compare(recorded: &[u8], chunks: &[&[u8]]) -> Comparison {
        compare_with(Others::WroteNothing, recorded, chunks)
    }

    fn compare_with(others: Others, recorded: &[u8], chunks: &[&[u8]]) -> Comparison {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(recorded).expect("written");
        file.rewind().expect("rewound");
        let mut compare = Compare::new(file, PassTo::Nowhere, others);
        for chunk in chunks {
            compare.take(chunk);
        }
        compare.finish().expect("finished")
    }

    #[test]
    fn the_first_difference_is_found_across_chunks() {
        assert_eq!(compare(b"hello", &[b"he", b"llo"]).first_difference, None);
        assert_eq!(compare(b"hello", &[b"he", b"lLo"]).first_difference, Some(3));
        assert_eq!(compare(b"hello", &[b"hel"]).first_difference, Some(3));
        assert_eq!(compare(b"hello", &[b"hello", b"!"]).first_difference, Some(5));
        assert_eq!(compare(b"", &[]).first_difference, None);
    }

    #[test]
    fn what_others_wrote_is_left_out() {
        let compare = |chunks: &[&[u8]]| compare_with(Others::MayHaveWritten, b"one\nTWO\nthree\nFOUR\n", chunks);
        assert!(compare(&[b"one\n", b"three\n"]).is_same());
        assert_eq!(compare(&[b"one\n", b"three\n"]).left_out, 9);
        assert_eq!(compare(&[]).left_out, 19);
        assert_eq!(compare(&[b"one\n", b"three\nfive\n"]).first_difference, Some(10));
        assert_eq!(compare(&[b"three\n", b"one\n"]).first_difference, Some(6));
    }

    #[test]
    fn a_prefix_is_told_from_a_difference() {
        assert!(compare(b"hello", &[b"hel"]).is_prefix());
        assert!(compare(b"hel", &[b"hello"]).is_prefix());
        assert!(!compare(b"hello", &[b"heL"]).is_prefix());
    }
}
