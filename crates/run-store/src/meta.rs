//! What `run.json` says: how the program was started, and how it ended.
use crate::Text;
use crate::error::plain;
use runtime_abi::RunSettings;
use runtime_abi::truncated;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

/// Version of the metadata this build writes; it reads all up to this one.
pub const META_VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMeta {
    pub version: u32,
    /// Version of the tool that recorded.
    pub refrain: String,
    /// `runtime_abi::ABI_VERSION` of the recorder.
    pub abi_version: u32,
    pub argv: Vec<Text>,
    pub cwd: Text,
    /// Sorted by name, as the program got it: addresses on the stack depend on every byte of it.
    pub env: Vec<(Text, Text)>,
    /// Variables whose values are not the program's: as many `x` stand for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<Text>,
    pub executable: FileIdentity,
    /// Shared libraries the program had mapped; known once the run is sealed.
    #[serde(default)]
    pub libraries: Vec<FileIdentity>,
    /// How it was recorded: a field for each setting, beside the others.
    #[serde(flatten, with = "crate::settings_text")]
    pub settings: RunSettings,
    /// Files with system calls that are not recorded. Known once the run is sealed.
    #[serde(default)]
    pub unrecorded_calls: Vec<UnrecordedCalls>,
    /// How much of the code is observed; absent where none has to be. Known once the run is sealed.
    #[serde(default)]
    pub instrumentation: Option<Instrumentation>,
    /// Absent for the first process of a run.
    #[serde(default)]
    pub process: Option<ProcessMeta>,
    /// The limit of the stack with which it was executed, in bytes: where libraries are depends on it. Absent in runs of older versions.
    #[serde(default)]
    pub stack_limit: Option<u64>,
    /// BLAKE3, hexadecimal, of files beside this that say how the program was started. Known once the run is sealed.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Unix time in seconds.
    pub started: u64,
    /// Absent while recording, and for ever if the recorder was killed.
    #[serde(default)]
    pub ending: Option<Ending>,
}

/// How much of a program, and of the libraries that are its own, was compiled to be observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrumentation {
    /// Of all their code.
    pub code_bytes: u64,
    /// Places in it that are observed.
    pub sites: u64,
    /// Plain accesses are none of these, in a part of it at least.
    pub sync_only: bool,
}

impl Instrumentation {
    /// Code that was compiled for the purpose has a site in every few hundred bytes, if not for synchronisation alone.
    const SPARSE_BYTES: u64 = 2048;
    /// In less code there may be nothing to observe.
    const MUCH_BYTES: u64 = 16 << 10;

    /// Was nearly none of it compiled to be observed?
    pub fn is_slight(&self) -> bool {
        self.sites == 0
            || (!self.sync_only
                && self.code_bytes >= Instrumentation::MUCH_BYTES
                && self.sites.saturating_mul(Instrumentation::SPARSE_BYTES) < self.code_bytes)
    }
}

/// Arguments in front of those of a program that the runtime loads.
const BEFORE: usize = 2;

impl RunMeta {
    /// The arguments, from the program's name on. If the runtime had to load the program, two are in front of them: the
    /// runtime's own name, and the program's path.
    pub fn program_arguments(&self) -> &[Text] {
        match self.is_hosted() {
            true => &self.argv[BEFORE..],
            false => &self.argv,
        }
    }

    /// Did the runtime have to load the program?
    pub fn is_hosted(&self) -> bool {
        let runs = Path::new(self.executable.path.as_os_str());
        let is_runtime = runs
            .file_name()
            .is_some_and(|name| name == runtime_abi::RUNTIME_LIBRARY);
        is_runtime && self.argv.len() > BEFORE
    }
}

/// A file of the program's that enters the kernel where nothing could be put in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedCalls {
    pub path: Text,
    /// In how many places.
    pub places: u64,
}

/// A process of a run that the recorder did not start itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMeta {
    pub number: u32,
    /// The process that forked it; absent if it is a program that was executed.
    #[serde(default)]
    pub forked_by: Option<u32>,
    /// The path it was executed by, which the kernel puts above its stack.
    #[serde(default)]
    pub executed_as: Text,
    /// The signals that were blocked when it was executed, and those that were ignored: a bit for each, the first one's the lowest.
    #[serde(default)]
    pub blocked_signals: u64,
    #[serde(default)]
    pub ignored_signals: u64,
    /// Its directory has the executable, which may not be where it was.
    #[serde(default)]
    pub has_program: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    pub path: Text,
    /// BLAKE3, hexadecimal.
    pub hash: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub duration_ms: u64,
    /// Processor time of all its threads.
    #[serde(default)]
    pub cpu_ms: u64,
    /// The most memory it had at once.
    #[serde(default)]
    pub memory_bytes: u64,
    pub outcome: Outcome,
    /// Why the log ends before the program did.
    #[serde(default)]
    pub truncated: Option<Truncated>,
    /// Why the log of one of the processes that it started ends before that did.
    #[serde(default)]
    pub others_truncated: Option<Truncated>,
    /// The program started processes that were not recorded.
    #[serde(default)]
    pub forked: bool,
    /// Number of the first system call that the runtime did not know: what it wrote is not recorded.
    #[serde(default)]
    pub unknown_call: Option<u32>,
    /// Number of the first system call that cannot be recorded: the program was told that there is none.
    #[serde(default)]
    pub refused_call: Option<u32>,
    /// Recorded one thread at a time: how often others went on beside a thread that made no call.
    #[serde(default)]
    pub overruns: u32,
    /// Processes that it started and that were still running when the recording ended.
    #[serde(default)]
    pub left_running: u32,
    /// Threads that were seen in the system, and of which the recorder knows nothing.
    #[serde(default)]
    pub unknown_threads: u32,
    pub threads: u32,
    pub events: u64,
    pub records: u64,
    pub log_bytes: u64,
    /// What system calls brought in.
    #[serde(default)]
    pub input_bytes: u64,
    pub stdout: Captured,
    pub stderr: Captured,
}

/// How much of a stream was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    pub bytes: u64,
    /// False when the copy in the run directory does not have all of it.
    pub complete: bool,
    /// It ends where `--max-size` was reached.
    #[serde(default)]
    pub capped: bool,
    /// Whoever read it went away before the program ended.
    #[serde(default)]
    pub reader_gone: bool,
    /// Some of it could not be passed on to where it was to go, such as a full disk.
    #[serde(default)]
    pub refused: bool,
    /// It came through a terminal, with what that adds: what was typed, and returns of the carriage.
    #[serde(default)]
    pub on_terminal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Exited(i32),
    Signaled(i32),
    /// Killed by `--timeout`.
    TimedOut,
    /// Became another program. Of processes other than the first.
    Replaced,
    /// Ended without a word, killed perhaps. Of processes other than the first.
    Lost,
}

impl Outcome {
    pub fn is_failure(self) -> bool {
        self != Outcome::Exited(0)
    }

    /// The exit status a shell would see; a hang is reported like coreutils' `timeout` does.
    pub fn exit_status(self) -> i32 {
        match self {
            Outcome::Exited(code) => code,
            Outcome::Signaled(signal) => 128 + signal,
            Outcome::TimedOut => 124,
            Outcome::Replaced | Outcome::Lost => 0,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Outcome::Exited(code) => write!(f, "exit {code}"),
            Outcome::Signaled(signal) => match signal_name(signal) {
                Some(name) => write!(f, "{name}"),
                None => write!(f, "signal {signal}"),
            },
            Outcome::TimedOut => write!(f, "timeout"),
            Outcome::Replaced => write!(f, "became another program"),
            Outcome::Lost => write!(f, "ended without a word"),
        }
    }
}

/// Names of the signals programs usually die of; numbers are those of Linux on x86-64.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [(i32, &str); 16] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (24, "SIGXCPU"),
        (25, "SIGXFSZ"),
        (31, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == signal)
        .map(|(_, name)| *name)
}

/// Why recording stopped before the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncated {
    NoSpace {
        errno: i32,
    },
    SizeLimit,
    TimeLimit,
    Threads,
    LogFile {
        errno: i32,
    },
    /// A reason this build does not know.
    Other {
        code: u32,
    },
}

impl Truncated {
    pub fn from_abi(code: u32, errno: u32) -> Option<Truncated> {
        let errno = errno as i32;
        match code {
            truncated::NO => None,
            truncated::NO_SPACE => Some(Truncated::NoSpace { errno }),
            truncated::SIZE_LIMIT => Some(Truncated::SizeLimit),
            truncated::THREADS => Some(Truncated::Threads),
            truncated::LOG_FILE => Some(Truncated::LogFile { errno }),
            code => Some(Truncated::Other { code }),
        }
    }
}

/// Linux's number for a file that would be too large.
const EFBIG: i32 = 27;

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = |errno: i32| plain(&io::Error::from_raw_os_error(errno));
        match *self {
            Truncated::NoSpace { errno: EFBIG } => {
                write!(f, "a log reached the limit of the sizes of files (ulimit -f)")
            }
            Truncated::NoSpace { errno } => write!(f, "the file system refused more space ({})", system(errno)),
            Truncated::SizeLimit => write!(f, "--max-size was reached"),
            Truncated::TimeLimit => write!(f, "--max-time was reached"),
            Truncated::Threads => write!(f, "the program created more than {} threads", runtime_abi::THREADS_MAX),
            Truncated::LogFile { errno } => write!(f, "a log could not be created or mapped ({})", system(errno)),
            Truncated::Other { code } => write!(f, "reason {code}, unknown to this build"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Instrumentation;

    #[test]
    fn programs_of_which_little_was_compiled_for_the_purpose_are_told() {
        let slight = |sites, code_bytes, sync_only| {
            let instrumentation = Instrumentation {
                code_bytes,
                sites,
                sync_only,
            };
            instrumentation.is_slight()
        };
        // As `demo_heisenbug.c` has it, and ten times that.
        assert!(!slight(20, 4760, false));
        assert!(!slight(200, 47_600, false));
        // Linked to a library that somebody else has compiled; and where nothing but synchronisation has sites.
        assert!(slight(20, 1 << 20, false));
        assert!(!slight(20, 1 << 20, true));
        assert!(slight(0, 4760, false));
    }
}
