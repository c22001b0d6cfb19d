//! What a program prints: passed on at once, and kept (recording) or compared with what was kept (replaying).
use crate::sys;
use run_store::Captured;
use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
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
    /// Bytes of the recorded stream that other processes wrote, which are not there in replay. Where they are among the
    /// others is not known; each of the program's own writes is compared when it is made.
    others_bytes: u64,
    /// Of these, found so far.
    passed_over: u64,
    replayed_bytes: u64,
    first_difference: Option<u64>,
}

/// How two streams relate, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub recorded_bytes: u64,
    /// Of these, written by other processes.
    pub others_bytes: u64,
    pub replayed_bytes: u64,
    /// Offset of the first byte that differs, or at which one of the two has ended.
    pub first_difference: Option<u64>,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.first_difference.is_none()
    }

    /// One is the beginning of the other: as good as a recording that was cut off allows.
    pub fn is_prefix(&self) -> bool {
        self.first_difference
            .is_none_or(|offset| offset == (self.recorded_bytes - self.others_bytes).min(self.replayed_bytes))
    }
}

impl Compare {
    pub fn new(recorded: File, others_bytes: u64, pass: PassTo) -> Compare {
        Compare {
            recorded: BufReader::new(recorded),
            pass,
            others_bytes,
            passed_over: 0,
            replayed_bytes: 0,
            first_difference: None,
        }
    }

    /// So many bytes of the stream went before, with their first difference; there are no other processes.
    pub fn after(mut recorded: File, shown: u64, first_difference: Option<u64>, pass: PassTo) -> io::Result<Compare> {
        recorded.seek(SeekFrom::Start(shown))?;
        Ok(Compare {
            replayed_bytes: shown,
            first_difference,
            ..Compare::new(recorded, 0, pass)
        })
    }

    pub fn finish(self) -> io::Result<Comparison> {
        let recorded_bytes = self.recorded.get_ref().metadata()?.len();
        let replayed_bytes = self.replayed_bytes;
        let others_bytes = self.others_bytes.min(recorded_bytes);
        let own_bytes = recorded_bytes - others_bytes;
        let first_difference = match self.first_difference {
            None if own_bytes != replayed_bytes => Some(own_bytes.min(replayed_bytes)),
            known => known,
        };
        Ok(Comparison {
            recorded_bytes,
            others_bytes,
            replayed_bytes,
            first_difference,
        })
    }
}

impl Compare {
    /// How many of `bytes` are next in the recorded stream, when what others wrote is passed over.
    fn same_among_others(&mut self, bytes: &[u8]) -> usize {
        for (same, byte) in bytes.iter().enumerate() {
            loop {
                let mut recorded = [0];
                if self.recorded.read_exact(&mut recorded).is_err() {
                    return same;
                }
                if recorded[0] == *byte {
                    break;
                }
                self.passed_over += 1;
                if self.passed_over > self.others_bytes {
                    return same;
                }
            }
        }
        bytes.len()
    }

    /// How many of `bytes` are next in the recorded stream.
    fn same(&mut self, bytes: &[u8]) -> usize {
        let mut expected = Vec::new();
        // A read error shows as a difference at the place where it happened.
        let _ = self
            .recorded
            .by_ref()
            .take(bytes.len() as u64)
            .read_to_end(&mut expected);
        bytes.iter().zip(&expected).take_while(|(a, b)| a == b).count()
    }
}

impl Sink for Compare {
    fn take(&mut self, bytes: &[u8]) {
        self.pass.write(bytes);
        if self.first_difference.is_none() {
            let same = match self.others_bytes {
                0 => self.same(bytes),
                _ => self.same_among_others(bytes),
            };
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

    fn compare(recorded: &[u8], chunks: &[&[u8]]) -> Comparison {
        compare_among(0, recorded, chunks)
    }

    fn compare_among(others_bytes: u64, recorded: &[u8], chunks: &[&[u8]]) -> Comparison {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(recorded).expect("written");
        file.rewind().expect("rewound");
        let mut compare = Compare::new(file, others_bytes, PassTo::Nowhere);
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
    fn a_prefix_is_told_from_a_difference() {
        assert!(compare(b"hello", &[b"hel"]).is_prefix());
        assert!(compare(b"hel", &[b"hello"]).is_prefix());
        assert!(!compare(b"hello", &[b"heL"]).is_prefix());
    }

    #[test]
    fn what_other_processes_wrote_is_passed_over() {
        for recorded in [
            &b"child\none\ntwo\n"[..],
            b"one\nchild\ntwo\n",
            b"one\ntwo\nchild\n",
            b"one\ntchild\nwo\n",
        ] {
            assert_eq!(compare_among(6, recorded, &[b"one\n", b"two\n"]).first_difference, None);
            assert_eq!(
                compare_among(6, recorded, &[b"one\n", b"tWo\n"]).first_difference,
                Some(5)
            );
            assert_eq!(compare_among(6, recorded, &[b"one\n"]).first_difference, Some(4));
            assert_eq!(compare_among(6, recorded, &[b"one\ntwo\n!"]).first_difference, Some(8));
        }
    }
}
