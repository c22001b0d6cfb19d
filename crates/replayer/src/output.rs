//! What a program prints: passed on at once, and kept (recording) or compared with what was kept (replaying).
use crate::sys;
use crate::sys::SharedWord;
use run_store::Captured;
use runtime_abi::ControlHeader;
use runtime_abi::disk;
use runtime_abi::output;
use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// How long a pipe that somebody else (a child the program left behind) keeps open may be silent before we let go.
const IDLE_AFTER_END: Duration = Duration::from_millis(200);

/// How long it is read at all.
const OTHERS_AFTER_END: Duration = Duration::from_secs(1);

/// Where the bytes of one stream go.
pub trait Sink: Send + 'static {
    /// There is something in the pipe, and it is about to be taken out of there.
    fn begin(&mut self) {}

    fn take(&mut self, bytes: &[u8]) -> Taken;
}

/// What became of bytes that a sink took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    GoOn,
    /// Whoever the stream is for has gone. The program is to learn of it as it would without us: its pipe has no reader any more.
    ReaderGone,
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
    let mut rest: Option<Rest> = None;
    loop {
        // Looked at before waiting: a pipe that stays silent for the whole wait *after* the end is left.
        // Relaxed: a lone flag, nothing is published through it.
        let ended = program_ended.load(Relaxed);
        if ended && rest.get_or_insert_with(|| Rest::in_pipe(&pipe)).is_enough() {
            return sink;
        }
        match sys::wait_readable(pipe.as_fd(), Some(IDLE_AFTER_END)) {
            Ok(true) => {
                sink.begin();
                match pipe.read(&mut buffer) {
                    Ok(0) => return sink,
                    Ok(bytes) => {
                        if let Some(rest) = &mut rest {
                            rest.read(bytes);
                        }
                        if sink.take(&buffer[..bytes]) == Taken::ReaderGone {
                            return sink;
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return sink,
                }
            }
            Ok(false) if ended => return sink,
            Ok(false) => {}
            Err(_) => return sink,
        }
    }
}

/// What was in the pipe when the program had ended, however long it takes to pass that on; and what comes within a moment behind it.
struct Rest {
    bytes: usize,
    all_read: Option<Instant>,
}

impl Rest {
    fn in_pipe(pipe: &File) -> Rest {
        Rest {
            bytes: sys::bytes_to_read(pipe.as_fd()),
            all_read: None,
        }
    }

    fn read(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Somebody else may print for ever.
    fn is_enough(&mut self) -> bool {
        self.bytes == 0 && self.all_read.get_or_insert_with(Instant::now).elapsed() >= OTHERS_AFTER_END
    }
}

/// Our own stdout or stderr, or nothing. Without a buffer: what cannot be written must not be tried again behind what comes later.
#[derive(Debug)]
pub struct PassTo(Option<File>);

impl PassTo {
    pub fn stdout() -> PassTo {
        PassTo(io::stdout().as_fd().try_clone_to_owned().ok().map(File::from))
    }

    pub fn stderr() -> PassTo {
        PassTo(io::stderr().as_fd().try_clone_to_owned().ok().map(File::from))
    }

    pub fn nowhere() -> PassTo {
        PassTo(None)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    /// What cannot be shown is not; whoever prints it runs on as recorded.
    pub fn show(&mut self, bytes: &[u8]) {
        if self.write(bytes).is_err() {
            self.0 = None;
        }
    }
}

/// How often a file that the output goes to is looked at: may it soon be full?
const LOOK_EVERY_BYTES: u64 = 16 << 20;

/// Keeps a stream in a file of the run directory.
pub struct Capture {
    file: File,
    pass: PassTo,
    captured: Captured,
    /// What the program is told of where its output goes.
    news: OutputWord,
    until_look: u64,
    room: Room,
}

/// What `--max-size` leaves to the copies of the output.
pub struct Room {
    used: SharedWord,
    most: u64,
}

impl Room {
    /// `most`: 0 is no limit.
    pub fn map(control: &File, most: u64) -> io::Result<Room> {
        Ok(Room {
            used: SharedWord::map(control, offset_of!(ControlHeader, shared.disk_bytes))?,
            most,
        })
    }

    /// Is there room for a file that has so many bytes to have so many more?
    fn reserve(&self, has: u64, more: u64) -> bool {
        let blocks = |bytes: u64| bytes.next_multiple_of(4096);
        let is_there = disk::reserve(self.used.long(), self.most, blocks(has + more) - blocks(has));
        if !is_there {
            // Logs end here, too: what is recorded ends where its output does. Relaxed: a sum that nothing else depends on.
            self.used.long().store(u64::MAX / 2, Relaxed);
        }
        is_there
    }
}

impl Capture {
    pub fn new(file: File, pass: PassTo, news: OutputWord, room: Room) -> Capture {
        let capture = Capture {
            file,
            pass,
            captured: Captured {
                complete: true,
                ..Captured::default()
            },
            news,
            until_look: LOOK_EVERY_BYTES,
            room,
        };
        capture.look();
        capture
    }

    pub fn captured(&self) -> Captured {
        self.captured
    }

    /// Is every write to be waited for, because it may fail?
    fn look(&self) {
        let file = self.pass.0.as_ref();
        self.news
            .set_checked(file.is_some_and(|file| sys::may_refuse(file.as_fd())));
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.captured.complete && !self.room.reserve(self.captured.bytes, bytes.len() as u64) {
            self.captured.complete = false;
            self.captured.capped = true;
        }
        if self.captured.complete {
            match self.file.write_all(bytes) {
                Ok(()) => self.captured.bytes += bytes.len() as u64,
                // A full disk ends the copy, not the program; the run says so.
                Err(_) => self.captured.complete = false,
            }
        }
    }
}

impl Sink for Capture {
    fn begin(&mut self) {
        self.news.set_busy(true);
    }

    fn take(&mut self, bytes: &[u8]) -> Taken {
        let passed = self.pass.write(bytes);
        let taken = match passed {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.keep(bytes);
                // What is still in the pipe goes with it.
                self.captured.complete = false;
                self.captured.reader_gone = true;
                Taken::ReaderGone
            }
            Err(e) => {
                // One who waits is told that nothing was written. To others it counts as written; their next write fails.
                if !self.news.is_checked() {
                    self.keep(bytes);
                }
                self.news.set_error(e.raw_os_error().unwrap_or(sys::INPUT_OUTPUT_ERROR));
                self.captured.refused = true;
                Taken::GoOn
            }
            Ok(()) => {
                self.keep(bytes);
                self.until_look = self.until_look.saturating_sub(bytes.len() as u64);
                if self.until_look == 0 {
                    self.until_look = LOOK_EVERY_BYTES;
                    self.look();
                }
                Taken::GoOn
            }
        };
        self.news.set_busy(false);
        taken
    }
}

/// The word of the control file that says of one stream what became of the program's output: `runtime_abi::output`.
pub struct OutputWord(Arc<SharedWord>);

impl OutputWord {
    /// `stream`: 0 is standard output, 1 standard error.
    pub fn map(control: &File, stream: usize) -> io::Result<OutputWord> {
        let offset = offset_of!(ControlHeader, shared.output) + stream * size_of::<u32>();
        Ok(OutputWord(Arc::new(SharedWord::map(control, offset)?)))
    }

    fn set(&self, bit: u32, is_set: bool) {
        // Release: pairs with the Acquire in the runtime's `passed_on.rs`; an error is there before nobody is busy any more.
        match is_set {
            true => self.0.word().fetch_or(bit, Release),
            false => self.0.word().fetch_and(!bit, Release),
        };
    }

    fn set_checked(&self, is_checked: bool) {
        self.set(output::CHECKED, is_checked);
    }

    fn is_checked(&self) -> bool {
        // Relaxed: written by this thread alone.
        self.0.word().load(Relaxed) & output::CHECKED != 0
    }

    fn set_busy(&self, is_busy: bool) {
        self.set(output::BUSY, is_busy);
    }

    fn set_error(&self, errno: i32) {
        self.set(output::ERRNO, false);
        self.set(errno as u32 & output::ERRNO, true);
    }
}

/// How many bytes of a stream no replay writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByOthers {
    Exactly(u64),
    /// Which of them is not known before the replay.
    AtMost(u64),
}

impl Default for ByOthers {
    fn default() -> ByOthers {
        ByOthers::Exactly(0)
    }
}

/// Compares a stream with the recorded one while it passes.
pub struct Compare {
    recorded: BufReader<File>,
    pass: PassTo,
    /// Bytes of the recorded stream that other processes wrote, which are not there in replay. Where they are among the
    /// others is not known; each of the program's own writes is compared when it is made.
    others: ByOthers,
    /// Of these, found so far.
    passed_over: u64,
    replayed_bytes: u64,
    first_difference: Option<u64>,
    /// The recorded stream had ended when more came.
    has_more: bool,
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
    /// That is where the recorded one had ended.
    pub has_more: bool,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.first_difference.is_none()
    }

    /// One is the beginning of the other: as good as a recording that was cut off allows.
    pub fn is_prefix(&self) -> bool {
        let shorter = (self.recorded_bytes - self.others_bytes).min(self.replayed_bytes);
        self.has_more || self.first_difference.is_none_or(|offset| offset == shorter)
    }
}

impl Compare {
    pub fn new(recorded: File, others: ByOthers, pass: PassTo) -> Compare {
        Compare {
            recorded: BufReader::new(recorded),
            pass,
            others,
            passed_over: 0,
            replayed_bytes: 0,
            first_difference: None,
            has_more: false,
        }
    }

    /// So many bytes of the stream went before, with their first difference; there are no other processes.
    pub fn after(mut recorded: File, shown: u64, first_difference: Option<u64>, pass: PassTo) -> io::Result<Compare> {
        recorded.seek(SeekFrom::Start(shown))?;
        Ok(Compare {
            replayed_bytes: shown,
            first_difference,
            ..Compare::new(recorded, ByOthers::Exactly(0), pass)
        })
    }

    pub fn finish(self) -> io::Result<Comparison> {
        let recorded_bytes = self.recorded.get_ref().metadata()?.len();
        let replayed_bytes = self.replayed_bytes;
        let others_bytes = match self.others {
            ByOthers::Exactly(bytes) => bytes.min(recorded_bytes),
            ByOthers::AtMost(bytes) => bytes.min(recorded_bytes.saturating_sub(replayed_bytes)),
        };
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
            has_more: self.has_more,
        })
    }
}

impl Compare {
    /// How many of `bytes` are next in the recorded stream, when what others wrote is passed over.
    fn same_among_others(&mut self, bytes: &[u8], most: u64) -> usize {
        for (same, byte) in bytes.iter().enumerate() {
            loop {
                let mut recorded = [0];
                if self.recorded.read_exact(&mut recorded).is_err() {
                    self.has_more = true;
                    return same;
                }
                if recorded[0] == *byte {
                    break;
                }
                self.passed_over += 1;
                if self.passed_over > most {
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
    fn take(&mut self, bytes: &[u8]) -> Taken {
        self.pass.show(bytes);
        if self.first_difference.is_none() {
            let same = match self.others {
                ByOthers::Exactly(0) => self.same(bytes),
                ByOthers::Exactly(most) | ByOthers::AtMost(most) => self.same_among_others(bytes, most),
            };
            if same < bytes.len() {
                self.first_difference = Some(self.replayed_bytes + same as u64);
            }
        }
        self.replayed_bytes += bytes.len() as u64;
        Taken::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(recorded: &[u8], chunks: &[&[u8]]) -> Comparison {
        compare_among(ByOthers::Exactly(0), recorded, chunks)
    }

    fn compare_among(others: ByOthers, recorded: &[u8], chunks: &[&[u8]]) -> Comparison {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(recorded).expect("written");
        file.rewind().expect("rewound");
        let mut compare = Compare::new(file, others, PassTo::nowhere());
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
            assert_eq!(
                compare_among(ByOthers::Exactly(6), recorded, &[b"one\n", b"two\n"]).first_difference,
                None
            );
            assert_eq!(
                compare_among(ByOthers::Exactly(6), recorded, &[b"one\n", b"tWo\n"]).first_difference,
                Some(5)
            );
            assert_eq!(
                compare_among(ByOthers::Exactly(6), recorded, &[b"one\n"]).first_difference,
                Some(4)
            );
            assert_eq!(
                compare_among(ByOthers::Exactly(6), recorded, &[b"one\ntwo\n!"]).first_difference,
                Some(8)
            );
        }
    }
    #[test]
    fn it_may_be_unknown_how_much_others_wrote() {
        let at_most = |chunks: &[&[u8]]| compare_among(ByOthers::AtMost(14), b"child\none\ntwo\n", chunks);
        for chunks in [
            &[&b"one\n"[..], b"two\n"][..],
            &[b"two\n"],
            &[b"child\n", b"two\n"],
            &[],
        ] {
            assert!(at_most(chunks).is_same(), "{chunks:?}");
        }
        assert_eq!(at_most(&[b"two\n"]).others_bytes, 10);
        assert!(!at_most(&[b"two\n", b"one\n"]).is_same(), "in another order");
        assert!(!at_most(&[b"three\n"]).is_same());
        // As good as a copy that could not be kept in full allows.
        assert!(at_most(&[b"one\n", b"two\n", b"three\n"]).is_prefix());
    }
}
