//! The control file, seen from outside: written before the program starts, read while it runs and after it died.
//!
//! The program writes into it at any moment, and a dead or hostile one may have left anything, so it is never mapped
//! onto the `repr(C)` types: numbers are read little-endian at the offsets those types have, and each is checked.
use crate::Error;
use crate::Result;
use crate::Truncated;
use runtime_abi::ABI_VERSION;
use runtime_abi::CALL_SITES_OFFSET;
use runtime_abi::CONTROL_BYTES;
use runtime_abi::CONTROL_MAGIC;
use runtime_abi::CONTROL_STRIDE;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::QUESTION_PATH_BYTES_MAX;
use runtime_abi::RUN_DIRECTORY_BYTES_MAX;
use runtime_abi::RunSettings;
use runtime_abi::SHOWN_MAX;
use runtime_abi::THREADS_MAX;
use runtime_abi::ThreadSlot;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::IDENTITY_BYTES;
use runtime_abi::call_sites::OBJECTS_MAX;
use runtime_abi::call_sites::Object;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::Table;
use runtime_abi::call_sites::state;
use runtime_abi::divergence;
use runtime_abi::ended;
use runtime_abi::origin;
use runtime_abi::settings;
use runtime_abi::settings::NoSuchValue;
use runtime_abi::thread_state;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::mem::offset_of;
use std::mem::size_of;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

/// What is read of the header; the question and the path of the run directory come after it.
const NUMBERS_BYTES: usize = offset_of!(ControlHeader, question);
/// What is written of it, before the path.
const BEFORE_DIRECTORY: usize = offset_of!(ControlHeader, run_directory);

/// Room for the header and the slots of the first 1024 threads is on the disk before the program starts.
pub const CONTROL_DISK_BYTES: usize = HEADER_BYTES + 1024 * size_of::<ThreadSlot>();

/// What the tool tells the runtime.
#[derive(Clone, Debug)]
pub struct ControlSetup<'a> {
    pub settings: RunSettings,
    /// Absolute. Where logs are created (record), or the schedule and the inputs are (replay).
    pub run_directory: &'a Path,
    /// Where the program's libc enters the kernel: a `runtime_abi::call_sites::Table`, or as much of it as is used; empty
    /// if system calls are to be left alone.
    pub call_sites: &'a [u8],
    /// Replay: the recorded process's id.
    pub pid: u32,
    /// Replay: which of the run's processes it is.
    pub beginning: Beginning,
    /// Recording: what the program's stack is limited to, if it is executed with another limit.
    pub stack_limit: Option<u64>,
}

/// Replay: what a process has from its recording before it does anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    pub process: u32,
    /// Of the first descriptors: 1, 2: is the recorded standard output, error.
    pub shown: Vec<u8>,
    /// Forked: the threads of its parent, and what each had completed; as they do nothing here, that is all they will.
    pub left_behind: Vec<u64>,
}

/// How a process of a run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    First,
    Forked { parent: u32 },
    Executed,
}

/// How a process ended, as far as it said so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Unknown,
    Exited(i32),
    Signaled(i32),
    /// It became another program.
    Replaced,
}

/// Where a replay under a debugger is to stop: before this event, when the others have come as far as they get without
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailurePoint {
    pub thread: u32,
    pub event: u64,
}

/// A process of a recording wants to know where an object enters the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its number in the run.
    pub process: u32,
    pub pid: u32,
    /// The object is a program that the runtime hosts.
    pub is_of_guest: bool,
    /// As the process knows it: perhaps relative.
    pub path: PathBuf,
}

/// An object of a program, in the table of call sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallObject {
    pub identity: [u8; IDENTITY_BYTES],
    /// Which of the table's entries are about it.
    pub entries: Range<usize>,
    /// Its calls come to the runtime.
    pub is_replaced: bool,
}

/// What the runtime tells the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSnapshot {
    pub settings: RunSettings,
    pub attached: bool,
    pub threads: u32,
    pub truncated: Option<Truncated>,
    pub log_bytes: u64,
    pub epoch: u64,
    pub forked: bool,
    pub pid: u32,
    /// Number of the first system call that the runtime did not know.
    pub unknown_call: Option<u32>,
    /// The same of the first one that was refused.
    pub refused_call: Option<u32>,
    /// Recorded one thread at a time: how often others went on beside a thread that made no call.
    pub overruns: u32,
    /// It has memory in common with other processes of the run.
    pub shares_memory: bool,
    /// Bytes logged as going to standard output and to standard error.
    pub shown_bytes: [u64; 2],
    pub divergence: Option<DivergenceReport>,
    /// The file that a divergence is about, if that is known.
    pub divergence_name: Vec<u8>,
    /// A deterministic run: calls and bytes that were compared.
    pub compared: [u64; 2],
    /// The same, if it was asked for: how often threads waited at gates, and for how many nanoseconds.
    pub waited: [u64; 2],
    pub origin: Origin,
    pub ended: Ended,
    /// Threads there were when it began.
    pub first_threads: u32,
    /// The thread it began with, and what that had completed before.
    pub main_thread: u32,
    pub main_count: u64,
    /// System calls are recorded.
    pub calls: bool,
    pub shown: Vec<u8>,
    /// First process only: how many there were in all, and how many programs were started by `posix_spawn` and its kin.
    pub processes: u32,
    pub spawned: u32,
    /// Replay of one thread at a time.
    pub turns: TurnsSnapshot,
}

/// How far a replay of one thread at a time has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnsSnapshot {
    /// Inputs of the recorded order that have happened.
    pub reached: u64,
    /// Places at which another thread could have gone on.
    pub points: u64,
    /// Edits that could not be made where they were due.
    pub missed: u64,
    /// Switch points that were written down.
    pub points_written: u64,
    pub accesses_written: u64,
    /// How often a thread had to give way because it ran on and on.
    pub budgets_spent: u64,
}

/// The first divergence of a replay, in the runtime's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivergenceReport {
    /// One of `runtime_abi::divergence`.
    pub kind: u32,
    pub thread: u32,
    pub event: u64,
    /// `run_model::Kind` in the low byte, `run_model::Op` in the next.
    pub actual: u32,
    pub site: u32,
    pub object: u64,
    pub value: u64,
    pub other_thread: u32,
    pub other_count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    Unused,
    Running,
    Exited,
    Stopped,
    Waiting,
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSnapshot {
    pub count: u64,
    pub gate: u64,
    pub state: ThreadState,
    pub wait_thread: u32,
    pub wait_count: u64,
    pub records: u64,
    pub parent: u32,
    pub os_thread: u32,
    /// The signal that killed the process in this thread; 0: none.
    pub signal: u32,
    /// The first event whose record could not be written.
    pub lost: Option<u64>,
}

/// An open control file; `path` is for messages.
#[derive(Debug)]
pub struct ControlFile {
    file: File,
    path: PathBuf,
    /// Where in the file it begins: in replay, one file has the control memory of all processes.
    offset: u64,
}

impl ControlFile {
    /// Fills a file, whatever it held before. Most slots take no space until a thread uses them.
    pub fn initialise(file: File, path: &Path, setup: &ControlSetup<'_>) -> Result<ControlFile> {
        let failed = |e| Error::io("write", path, e);
        file.set_len(0).map_err(failed)?;
        file.set_len(CONTROL_BYTES as u64).map_err(failed)?;
        let control = ControlFile {
            file,
            path: path.to_owned(),
            offset: 0,
        };
        control.fill(setup)?;
        Ok(control)
    }

    /// The same for the processes of a run, each at its place in the file.
    pub fn initialise_all(file: &File, path: &Path, setups: &[ControlSetup<'_>]) -> Result<Vec<ControlFile>> {
        let failed = |e| Error::io("write", path, e);
        let places = setups.iter().map(|setup| setup.beginning.process as u64 + 1).max();
        file.set_len(0).map_err(failed)?;
        file.set_len(places.unwrap_or(0) * CONTROL_STRIDE as u64)
            .map_err(failed)?;
        let fill = |setup: &ControlSetup<'_>| {
            let control = ControlFile {
                file: file.try_clone().map_err(failed)?,
                path: path.to_owned(),
                offset: u64::from(setup.beginning.process) * CONTROL_STRIDE as u64,
            };
            control.fill(setup)?;
            Ok(control)
        };
        setups.iter().map(fill).collect()
    }

    fn fill(&self, setup: &ControlSetup<'_>) -> Result<()> {
        let header = encode_header(setup)?;
        // The program maps the file, and a page that a full disk has no room for would kill it: be refused here instead.
        self.write(&vec![0; CONTROL_DISK_BYTES], 0)?;
        self.write(&header, 0)?;
        assert!(
            setup.call_sites.len() <= CONTROL_BYTES - CALL_SITES_OFFSET,
            "too many call sites"
        );
        self.write(setup.call_sites, CALL_SITES_OFFSET)?;
        for (thread, count) in setup.beginning.left_behind.iter().enumerate() {
            let slot = HEADER_BYTES + thread * size_of::<ThreadSlot>();
            self.write(&count.to_le_bytes(), slot + offset_of!(ThreadSlot, count))?;
            let exited = thread_state::EXITED.to_le_bytes();
            self.write(&exited, slot + offset_of!(ThreadSlot, state))?;
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: usize) -> Result<()> {
        self.file
            .write_all_at(bytes, self.offset + offset as u64)
            .map_err(|e| Error::io("write", &self.path, e))
    }

    fn read(&self, bytes: &mut [u8], offset: usize) -> Result<()> {
        self.file
            .read_exact_at(bytes, self.offset + offset as u64)
            .map_err(|e| Error::io("read", &self.path, e))
    }

    /// Opens what a recording left behind, and checks that it is a control file this build understands.
    pub fn open(path: &Path) -> Result<ControlFile> {
        let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
        let bytes = file.metadata().map_err(|e| Error::io("read", path, e))?.len();
        if bytes != CONTROL_BYTES as u64 {
            return Err(Error::corrupt(
                path,
                "size",
                format!("{CONTROL_BYTES} bytes"),
                format!("{bytes} bytes"),
            ));
        }
        let control = ControlFile {
            file,
            path: path.to_owned(),
            offset: 0,
        };
        control.header()?;
        Ok(control)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn header(&self) -> Result<HeaderSnapshot> {
        let mut bytes = [0; NUMBERS_BYTES];
        self.read(&mut bytes, 0)?;
        decode_header(&bytes, &self.path)
    }

    /// The same, to answer what the process asks.
    pub fn open_to_write(path: &Path) -> Result<ControlFile> {
        ControlFile::open(path)?;
        let file = File::options().read(true).write(true).open(path);
        Ok(ControlFile {
            file: file.map_err(|e| Error::io("write", path, e))?,
            path: path.to_owned(),
            offset: 0,
        })
    }

    /// The object that a process of the run asks about; valid while `question` says so.
    pub fn question(&self) -> Result<Question> {
        let mut bytes = vec![0; offset_of!(ControlHeader, question.path) + QUESTION_PATH_BYTES_MAX];
        self.read(&mut bytes, 0)?;
        let length = u32_at(&bytes, offset_of!(ControlHeader, question.path_bytes)) as usize;
        let path = &bytes[offset_of!(ControlHeader, question.path)..][..length.min(QUESTION_PATH_BYTES_MAX)];
        Ok(Question {
            process: u32_at(&bytes, offset_of!(ControlHeader, question.process)),
            pid: u32_at(&bytes, offset_of!(ControlHeader, question.pid)),
            is_of_guest: u32_at(&bytes, offset_of!(ControlHeader, question.is_of_guest)) != 0,
            path: PathBuf::from(OsStr::from_bytes(path)),
        })
    }

    /// Appends an object to the table of call sites. False: there is no room for it.
    ///
    /// `entries`: as many `runtime_abi::call_sites::Entry`.
    pub fn add_object(&self, identity: &[u8; IDENTITY_BYTES], entries: &[u8]) -> Result<bool> {
        let table = self.call_sites()?;
        let objects = objects_of(&table);
        let first = objects.last().map_or(0, |last| last.entries.end);
        let count = entries.len() / size_of::<Entry>();
        if objects.len() == OBJECTS_MAX || first + count > SITES_MAX {
            return Ok(false);
        }
        let object = encode_object(identity, first, count);
        let at = |offset: usize| CALL_SITES_OFFSET + offset;
        self.write(entries, at(offset_of!(Table, entries) + first * size_of::<Entry>()))?;
        self.write(
            &object,
            at(offset_of!(Table, objects) + objects.len() * size_of::<Object>()),
        )?;
        // Last: what is counted is whole.
        let count = (objects.len() as u32 + 1).to_le_bytes();
        self.write(&count, at(offset_of!(Table, count)))?;
        Ok(true)
    }

    /// The objects in the table of call sites.
    pub fn objects(&self) -> Result<Vec<CallObject>> {
        Ok(objects_of(&self.call_sites()?))
    }

    /// The table of call sites, to be given to a replay as it is.
    pub fn call_sites(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; CONTROL_BYTES - CALL_SITES_OFFSET];
        self.read(&mut bytes, CALL_SITES_OFFSET)?;
        Ok(bytes)
    }

    /// The slots of all threads the program has had so far, by index.
    pub fn slots(&self) -> Result<Vec<SlotSnapshot>> {
        let threads = self.header()?.threads as usize;
        let mut bytes = vec![0; threads * size_of::<ThreadSlot>()];
        self.read(&mut bytes, HEADER_BYTES)?;
        bytes
            .chunks_exact(size_of::<ThreadSlot>())
            .zip(0..)
            .map(|(slot, i)| decode_slot(slot, i, &self.path))
            .collect()
    }

    /// Replay: `thread` is to go on past its last recorded event, because that is where `signal` hit it.
    pub fn expect_signal(&self, thread: u32, signal: u32) -> Result<()> {
        let slot = HEADER_BYTES + thread as usize * size_of::<ThreadSlot>();
        self.write(&signal.to_le_bytes(), slot + offset_of!(ThreadSlot, signal))
    }

    /// Replay: a debugger watches, and wants to be told of the failure.
    pub fn expect_debugger(&self, failure: Option<FailurePoint>) -> Result<()> {
        let (thread, event) = failure.map_or((0, u64::MAX), |failure| (failure.thread, failure.event));
        let numbers: [(usize, &[u8]); 3] = [
            (offset_of!(ControlHeader, debugger.debugged), &1u32.to_le_bytes()),
            (
                offset_of!(ControlHeader, debugger.failure_thread),
                &thread.to_le_bytes(),
            ),
            (offset_of!(ControlHeader, debugger.failure_event), &event.to_le_bytes()),
        ];
        numbers
            .into_iter()
            .try_for_each(|(offset, bytes)| self.write(bytes, offset))
    }

    /// Replay: if the next turn to write to standard output, or to standard error, is one of those that nobody will use, the one behind it is next.
    pub fn pass_turns(&self, unused: &[BTreeSet<u32>; 2]) -> Result<()> {
        for (stream, unused) in unused.iter().enumerate().filter(|(_, unused)| !unused.is_empty()) {
            let offset = offset_of!(ControlHeader, shared.stream_turns) + stream * size_of::<u32>();
            let mut bytes = [0; size_of::<u32>()];
            self.read(&mut bytes, offset)?;
            let next = u32::from_le_bytes(bytes);
            let used = (next..).find(|turn| !unused.contains(turn)).unwrap_or(next);
            // Nobody else writes it meanwhile: all wait for a later turn.
            if used != next {
                self.write(&used.to_le_bytes(), offset)?;
            }
        }
        Ok(())
    }

    /// Recording: so much of `--max-size` is used up before the program begins, and so much by each further process.
    pub fn begin_disk_count(&self, used: u64, process: u64) -> Result<()> {
        self.write(&used.to_le_bytes(), offset_of!(ControlHeader, shared.disk_bytes))?;
        self.write(&process.to_le_bytes(), offset_of!(ControlHeader, shared.process_bytes))
    }

    /// Lowers the limit of a recording under way; the runtime looks at it whenever a log grows.
    pub fn set_log_bytes_max(&self, bytes_max: u64) -> Result<()> {
        self.write(
            &bytes_max.to_le_bytes(),
            offset_of!(ControlHeader, settings.log_bytes_max),
        )
    }
}

/// A table of call sites with one object.
pub fn call_sites_of(identity: &[u8; IDENTITY_BYTES], entries: &[u8]) -> Vec<u8> {
    let mut table = vec![0; offset_of!(Table, entries)];
    table[..4].copy_from_slice(&1u32.to_le_bytes());
    let object = encode_object(identity, 0, entries.len() / size_of::<Entry>());
    table[offset_of!(Table, objects)..][..object.len()].copy_from_slice(&object);
    table.extend(entries);
    table
}

fn encode_object(identity: &[u8; IDENTITY_BYTES], first: usize, entries: usize) -> Vec<u8> {
    let mut bytes = identity.to_vec();
    for number in [first as u32, entries as u32, state::NEW] {
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

/// Up to the first that makes no sense.
fn objects_of(table: &[u8]) -> Vec<CallObject> {
    let count = (u32_at(table, offset_of!(Table, count)) as usize).min(OBJECTS_MAX);
    let objects = table[offset_of!(Table, objects)..].chunks_exact(size_of::<Object>());
    let decode = |bytes: &[u8]| {
        let first = u32_at(bytes, offset_of!(Object, first)) as usize;
        let end = first.checked_add(u32_at(bytes, offset_of!(Object, entries)) as usize)?;
        (end <= SITES_MAX).then_some(CallObject {
            identity: bytes[..IDENTITY_BYTES].try_into().ok()?,
            entries: first..end,
            is_replaced: u32_at(bytes, offset_of!(Object, state)) == state::REPLACED,
        })
    };
    objects.take(count).map_while(decode).collect()
}

fn encode_header(setup: &ControlSetup<'_>) -> Result<Vec<u8>> {
    let directory = setup.run_directory.as_os_str().as_bytes();
    // One byte less than there is room for, so that the runtime always finds a NUL.
    if directory.len() >= RUN_DIRECTORY_BYTES_MAX {
        return Err(Error::PathTooLong {
            path: setup.run_directory.to_owned(),
            bytes_max: RUN_DIRECTORY_BYTES_MAX - 1,
        });
    }
    assert!(
        setup.run_directory.is_absolute(),
        "the program may change its directory: {:?}",
        setup.run_directory
    );
    let mut bytes = vec![0; BEFORE_DIRECTORY + directory.len() + 1];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(offset_of!(ControlHeader, magic), &CONTROL_MAGIC.to_le_bytes());
    put(offset_of!(ControlHeader, abi_version), &ABI_VERSION.to_le_bytes());
    for (at, word) in word_offsets().zip(setup.settings.to_words()) {
        put(at, &word.to_le_bytes());
    }
    let length = (directory.len() as u32).to_le_bytes();
    put(offset_of!(ControlHeader, identity.run_directory_bytes), &length);
    put(offset_of!(ControlHeader, identity.pid), &setup.pid.to_le_bytes());
    let tool = std::process::id().to_le_bytes();
    put(offset_of!(ControlHeader, identity.tool), &tool);
    if let Some(limit) = setup.stack_limit {
        put(offset_of!(ControlHeader, shared.stack_limit), &limit.to_le_bytes());
    }
    let beginning = &setup.beginning;
    let process = beginning.process.to_le_bytes();
    put(offset_of!(ControlHeader, identity.process), &process);
    let threads = (beginning.left_behind.len() as u32).to_le_bytes();
    put(offset_of!(ControlHeader, progress.threads), &threads);
    let shown = &beginning.shown[..beginning.shown.len().min(SHOWN_MAX)];
    put(offset_of!(ControlHeader, identity.shown), shown);
    put(BEFORE_DIRECTORY, directory);
    Ok(bytes)
}

/// Where the words of the settings are.
fn word_offsets() -> impl Iterator<Item = usize> {
    let start = offset_of!(ControlHeader, settings);
    (0..settings::COUNT).map(move |index| start + index * size_of::<u64>())
}

fn decode_header(bytes: &[u8; NUMBERS_BYTES], path: &Path) -> Result<HeaderSnapshot> {
    let wrong = |place: &str, expected: String, found: String| Error::corrupt(path, place, expected, found);
    let magic = u64_at(bytes, offset_of!(ControlHeader, magic));
    if magic != CONTROL_MAGIC {
        return Err(wrong(
            "magic at byte 0",
            format!("{CONTROL_MAGIC:#018x}"),
            format!("{magic:#018x}"),
        ));
    }
    let abi = u32_at(bytes, offset_of!(ControlHeader, abi_version));
    if abi > ABI_VERSION {
        let (found, known) = (u64::from(abi), u64::from(ABI_VERSION));
        return Err(Error::Newer {
            file: path.to_owned(),
            what: "ABI version",
            found,
            known,
        });
    }
    if abi < ABI_VERSION {
        return Err(wrong("ABI version", ABI_VERSION.to_string(), abi.to_string()));
    }
    let threads = u32_at(bytes, offset_of!(ControlHeader, progress.threads));
    if threads as usize > THREADS_MAX {
        return Err(wrong(
            "number of threads",
            format!("at most {THREADS_MAX}"),
            threads.to_string(),
        ));
    }
    let mut offsets = word_offsets();
    let words = core::array::from_fn(|_| u64_at(bytes, offsets.next().expect("as many")));
    let no_such = |refusal: NoSuchValue| wrong(refusal.setting, "a known value".to_owned(), "another".to_owned());
    Ok(HeaderSnapshot {
        settings: RunSettings::from_words(words).map_err(no_such)?,
        attached: u32_at(bytes, offset_of!(ControlHeader, progress.attached)) != 0,
        threads,
        truncated: Truncated::from_abi(
            u32_at(bytes, offset_of!(ControlHeader, progress.truncated)),
            u32_at(bytes, offset_of!(ControlHeader, progress.truncated_errno)),
        ),
        log_bytes: u64_at(bytes, offset_of!(ControlHeader, progress.log_bytes)),
        epoch: u64_at(bytes, offset_of!(ControlHeader, progress.epoch)),
        forked: u32_at(bytes, offset_of!(ControlHeader, progress.forked)) != 0,
        pid: u32_at(bytes, offset_of!(ControlHeader, identity.pid)),
        unknown_call: u32_at(bytes, offset_of!(ControlHeader, progress.unknown_call)).checked_sub(1),
        refused_call: u32_at(bytes, offset_of!(ControlHeader, progress.refused_call)).checked_sub(1),
        overruns: u32_at(bytes, offset_of!(ControlHeader, progress.overruns)),
        shares_memory: u32_at(bytes, offset_of!(ControlHeader, progress.shares_memory)) != 0,
        shown_bytes: [0, 8].map(|stream| u64_at(bytes, offset_of!(ControlHeader, progress.shown_bytes) + stream)),
        divergence: decode_divergence(bytes),
        divergence_name: text_at(
            &bytes[offset_of!(ControlHeader, divergence.name)..][..runtime_abi::DIVERGENCE_NAME_BYTES],
        ),
        compared: [
            u64_at(bytes, offset_of!(ControlHeader, progress.compared_calls)),
            u64_at(bytes, offset_of!(ControlHeader, progress.compared_bytes)),
        ],
        waited: [
            u64_at(bytes, offset_of!(ControlHeader, progress.waits)),
            u64_at(bytes, offset_of!(ControlHeader, progress.waited_ns)),
        ],
        origin: match u32_at(bytes, offset_of!(ControlHeader, identity.origin)) {
            origin::FIRST => Origin::First,
            origin::FORKED => Origin::Forked {
                parent: u32_at(bytes, offset_of!(ControlHeader, identity.parent)),
            },
            origin::EXECUTED => Origin::Executed,
            other => return Err(wrong("origin of the process", "0 to 2".to_owned(), other.to_string())),
        },
        ended: match u32_at(bytes, offset_of!(ControlHeader, progress.ended)) {
            ended::NOT_SAID => Ended::Unknown,
            ended::REPLACED => Ended::Replaced,
            status @ 1..=256 => Ended::Exited(status as i32 - 1),
            other => match other.checked_sub(ended::BY_SIGNAL) {
                Some(signal @ 1..=64) => Ended::Signaled(signal as i32),
                _ => {
                    return Err(wrong(
                        "end of the process",
                        "a known number".to_owned(),
                        other.to_string(),
                    ));
                }
            },
        },
        first_threads: u32_at(bytes, offset_of!(ControlHeader, identity.first_threads)).clamp(1, THREADS_MAX as u32),
        main_thread: u32_at(bytes, offset_of!(ControlHeader, identity.main_thread)),
        main_count: u64_at(bytes, offset_of!(ControlHeader, identity.main_count)),
        calls: u32_at(bytes, offset_of!(ControlHeader, progress.calls)) != 0,
        shown: bytes[offset_of!(ControlHeader, identity.shown)..][..SHOWN_MAX].to_vec(),
        processes: u32_at(bytes, offset_of!(ControlHeader, shared.processes)),
        spawned: u32_at(bytes, offset_of!(ControlHeader, shared.spawned)),
        turns: TurnsSnapshot {
            reached: u64_at(bytes, offset_of!(ControlHeader, turns.order_reached)),
            points: u64_at(bytes, offset_of!(ControlHeader, turns.switch_points)),
            missed: u64_at(bytes, offset_of!(ControlHeader, turns.edits_missed)),
            points_written: u64_at(bytes, offset_of!(ControlHeader, turns.points_written)),
            accesses_written: u64_at(bytes, offset_of!(ControlHeader, turns.accesses_written)),
            budgets_spent: u64_at(bytes, offset_of!(ControlHeader, turns.budgets_spent)),
        },
    })
}

fn decode_divergence(bytes: &[u8]) -> Option<DivergenceReport> {
    let kind = u32_at(bytes, offset_of!(ControlHeader, divergence.kind));
    (kind != divergence::NONE).then(|| DivergenceReport {
        kind,
        thread: u32_at(bytes, offset_of!(ControlHeader, divergence.thread)),
        event: u64_at(bytes, offset_of!(ControlHeader, divergence.event)),
        actual: u32_at(bytes, offset_of!(ControlHeader, divergence.actual)),
        site: u32_at(bytes, offset_of!(ControlHeader, divergence.site)),
        object: u64_at(bytes, offset_of!(ControlHeader, divergence.object)),
        value: u64_at(bytes, offset_of!(ControlHeader, divergence.value)),
        other_thread: u32_at(bytes, offset_of!(ControlHeader, divergence.other_thread)),
        other_count: u64_at(bytes, offset_of!(ControlHeader, divergence.other_count)),
    })
}

fn decode_slot(bytes: &[u8], index: usize, path: &Path) -> Result<SlotSnapshot> {
    let state = match u32_at(bytes, offset_of!(ThreadSlot, state)) {
        thread_state::UNUSED => ThreadState::Unused,
        thread_state::RUNNING => ThreadState::Running,
        thread_state::EXITED => ThreadState::Exited,
        thread_state::STOPPED => ThreadState::Stopped,
        thread_state::WAITING => ThreadState::Waiting,
        thread_state::BLOCKED => ThreadState::Blocked,
        other => {
            return Err(Error::corrupt(
                path,
                format!("state of thread {index}"),
                "0 to 5",
                other.to_string(),
            ));
        }
    };
    Ok(SlotSnapshot {
        count: u64_at(bytes, offset_of!(ThreadSlot, count)),
        gate: u64_at(bytes, offset_of!(ThreadSlot, gate)),
        state,
        wait_thread: u32_at(bytes, offset_of!(ThreadSlot, wait_thread)),
        wait_count: u64_at(bytes, offset_of!(ThreadSlot, wait_count)),
        records: u64_at(bytes, offset_of!(ThreadSlot, records)),
        parent: u32_at(bytes, offset_of!(ThreadSlot, parent)),
        os_thread: u32_at(bytes, offset_of!(ThreadSlot, os_thread)),
        signal: u32_at(bytes, offset_of!(ThreadSlot, signal)),
        lost: u64_at(bytes, offset_of!(ThreadSlot, lost)).checked_sub(1),
    })
}

/// Up to its NUL.
fn text_at(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|byte| *byte != 0).collect()
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}
