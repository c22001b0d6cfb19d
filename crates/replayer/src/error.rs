//! Why a program cannot be recorded or a run not be replayed: sentences that name the thing and the remedy.
use run_store::Text;
use run_store::plain;
use run_store::shown_path;
use std::fmt;
use std::io;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// `--max-size` below what every run has on the disk.
    CapTooSmall {
        least: u64,
    },
    /// The names of `--redact` do not fit.
    TooManyRedacted {
        bytes_max: usize,
    },
    Store(run_store::Error),

    // The program.
    ProgramNotInPath {
        name: String,
        is_here: bool,
    },
    ProgramNotFound {
        path: PathBuf,
        source: io::Error,
    },
    NotExecutable {
        path: PathBuf,
        why: &'static str,
    },
    /// One whose interpreter cannot be recorded at this scope.
    Script {
        path: PathBuf,
        interpreter: PathBuf,
    },
    NoInterpreter {
        script: PathBuf,
        interpreter: PathBuf,
        source: Box<Error>,
    },
    StaticProgram {
        path: PathBuf,
    },
    /// `refrain run` needs functions that count.
    NotCounted {
        path: PathBuf,
    },
    /// The recording for a schedule was not kept.
    NothingToLearn,
    /// The traced replay of what was recorded for a schedule was another run.
    NotTracedAgain {
        why: String,
    },
    NoHybridSchedule {
        why: String,
    },
    /// The same for a trace that was to be kept.
    NoWholeTrace {
        why: String,
    },
    /// The library that hosts programs that cannot load it.
    RuntimeNotExecutable {
        path: PathBuf,
    },
    /// The library that an unmodified program needs to be recorded.
    NoRuntime {
        path: PathBuf,
    },
    /// There is no order of inputs to search by.
    NoTurns {
        run: String,
    },
    /// The order of inputs makes no sense.
    UnusableOrder {
        run: String,
        why: String,
    },
    /// The edits that are kept with a run are not such as a search finds.
    UnusableEdits {
        run: String,
        why: String,
    },
    /// The late resume in this line of those that are kept with a run is at a place that the run does not have.
    UnusableLateResumes {
        run: String,
        line: usize,
    },
    /// Recorded at scope inputs, with several threads.
    OrderUnknown {
        run: String,
        threads: usize,
    },
    NotInstrumented {
        path: PathBuf,
    },
    /// Built by cargo refrain for its default scope.
    BuiltForSync {
        path: PathBuf,
    },
    NeverAttached {
        path: PathBuf,
    },
    /// The runtime has said why.
    CannotBegin {
        path: PathBuf,
    },
    NoDirectory {
        source: io::Error,
    },
    /// One process of a run cannot be replayed without the others.
    PartOfARun {
        path: PathBuf,
    },

    // The system.
    AddressesNotFixed,
    /// Files may be so large only (`ulimit -f`).
    FileLimit {
        bytes: u64,
        least: u64,
    },
    /// The directory that the program ran in when it was recorded.
    NoRecordedDirectory {
        path: PathBuf,
    },
    CannotStart {
        path: PathBuf,
        source: io::Error,
    },
    Wait(io::Error),
    /// A process that stands at a checkpoint could not be copied.
    CannotCopy(io::Error),
    /// An unpacked run needs a mount namespace, and the system refuses one.
    NoNamespace {
        /// A file that is not here as it was where the run was recorded.
        example: PathBuf,
        source: io::Error,
    },
    CannotStage {
        doing: String,
        source: io::Error,
    },
    NoDebugger {
        source: io::Error,
    },
    NotInDebugger,
    /// gdb knows nothing of a program that the runtime loads.
    HostedInDebugger {
        program: Text,
    },
    /// An unpacked run whose files are not at their places.
    DebuggedElsewhere {
        program: Text,
    },

    // The run.
    NothingFailed {
        run: String,
    },
    BeingRecorded {
        path: PathBuf,
    },
    Log {
        file: PathBuf,
        damage: log_format::Corrupt,
    },
    Inputs {
        file: PathBuf,
        damage: log_format::inputs::Damage,
    },
    LogMissing {
        file: PathBuf,
        records: u64,
    },
    LogDoesNotFit {
        file: PathBuf,
        place: String,
        expected: String,
        found: String,
    },
    Changed {
        path: Text,
        what: &'static str,
        recorded: String,
        found: String,
    },
    Gone {
        path: Text,
        what: &'static str,
        source: io::Error,
    },
    /// It cannot be replayed in this way.
    Refused {
        run: String,
        why: String,
    },
    OtherAbi {
        recorded: u32,
        known: u32,
    },
    /// The program was stopped before the recorder had started in it.
    NothingRecorded {
        path: PathBuf,
    },
    /// Recorded whole, and its replay does not say what is in access vectors.
    NotFollowed {
        path: PathBuf,
        why: String,
    },
    /// What it was given cannot be sent.
    InputsStayHere {
        path: PathBuf,
        why: String,
    },
    /// Nobody saw how it ended.
    Unended {
        path: PathBuf,
    },
    /// Recorded by coop: a part of what a replay needs.
    PartialRun {
        path: PathBuf,
    },
    Unsolvable {
        run: PathBuf,
        why: String,
    },
    /// To read, solve and check the logs of a run.
    TooLittleMemory {
        run: String,
        records: u64,
        needed: u64,
        available: u64,
    },
    Rejected {
        run: PathBuf,
        why: String,
    },
    NotTraced {
        file: PathBuf,
        source: io::Error,
    },
}

impl Error {
    /// 2: the command was wrong; 3: the run, or what it needs, cannot be used; 125: the system does not let the program be recorded, as when
    /// the runtime finds that out.
    pub fn exit_status(&self) -> i32 {
        match self {
            Error::Store(
                run_store::Error::BadName { .. }
                | run_store::Error::Exists { .. }
                | run_store::Error::PackExists { .. },
            ) => 2,
            Error::ProgramNotInPath { .. }
            | Error::ProgramNotFound { .. }
            | Error::NotExecutable { .. }
            | Error::Script { .. }
            | Error::NoInterpreter { .. }
            | Error::StaticProgram { .. }
            | Error::RuntimeNotExecutable { .. }
            | Error::NotInstrumented { .. }
            | Error::BuiltForSync { .. }
            | Error::NotCounted { .. }
            | Error::NoRuntime { .. }
            | Error::NeverAttached { .. }
            | Error::NoDebugger { .. }
            | Error::NotInDebugger
            | Error::CapTooSmall { .. }
            | Error::TooManyRedacted { .. }
            | Error::NothingFailed { .. } => 2,
            Error::FileLimit { .. } | Error::CannotBegin { .. } => 125,
            _ => 3,
        }
    }
}

impl From<run_store::Error> for Error {
    fn from(error: run_store::Error) -> Error {
        Error::Store(error)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotCounted { path } => write!(
                f,
                "{} cannot be run deterministically: not all of it was built with `refrain cc --det` or `refrain c++ --det`; build it so, with a clean build",
                shown_path(path)
            ),
            Error::NothingToLearn => write!(f, "nothing was kept of the run, so no schedule can be learned from it"),
            Error::NotTracedAgain { why } => write!(
                f,
                "no schedule was learned: the run did not come back when it was replayed to be traced{why}"
            ),
            Error::NoWholeTrace { why } => write!(f, "there is no trace: {why}"),
            Error::NoHybridSchedule { why } => write!(f, "no schedule was learned: {why}"),
            Error::CapTooSmall { least } => write!(
                f,
                "a run of this program takes {} KB on the disk before anything is logged; give --max-size that much or more",
                least >> 10
            ),
            Error::TooManyRedacted { bytes_max } => {
                write!(f, "the names of --redact have more than {bytes_max} bytes; give fewer")
            }
            Error::Store(error) => error.fmt(f),
            Error::ProgramNotInPath { name, is_here: true } => {
                write!(
                    f,
                    "there is no program '{name}' in PATH; for the file in this directory write ./{name}"
                )
            }
            Error::ProgramNotInPath { name, is_here: false } => {
                write!(
                    f,
                    "there is no program '{name}' in PATH; check the spelling, or give its path"
                )
            }
            Error::ProgramNotFound { path, source } => {
                write!(f, "cannot read the program {}: {}", shown_path(path), plain(source))
            }
            Error::CannotBegin { path } => write!(
                f,
                "the recorder cannot work inside {}, for the reason above",
                shown_path(path)
            ),
            Error::FileLimit { bytes, least } => write!(
                f,
                "files may have {} KiB here (ulimit -f), and a recording needs one of {} KiB: raise that limit",
                bytes / 1024,
                least / 1024
            ),
            Error::NotExecutable { path, why } => write!(f, "{} cannot be recorded: it {why}", shown_path(path)),
            Error::Script { path, interpreter } => write!(
                f,
                "{} is a script for {}, which was not built with refrain cc or refrain c++, so its threads cannot be observed: put \
                 `refrain record --` in front of the program inside the script, or record the script as it is with --scope inputs",
                shown_path(path),
                shown_path(interpreter)
            ),
            // In quotes, with what cannot be seen spelled out: the end of a line made by another system, for instance.
            Error::NoInterpreter {
                script,
                interpreter,
                source,
            } => {
                write!(f, "{} is a script for {interpreter:?}, ", shown_path(script))?;
                match &**source {
                    Error::ProgramNotFound { source, .. } => write!(f, "which cannot be read: {}", plain(source)),
                    Error::NotExecutable { why, .. } => write!(f, "which {why}"),
                    other => write!(f, "but {other}"),
                }
            }
            Error::StaticProgram { path } => write!(
                f,
                "{} is linked statically, or by musl, so its threads cannot be observed; \
                 link it with glibc and without -static, or record it as it is with --scope inputs",
                shown_path(path)
            ),
            Error::RuntimeNotExecutable { path } => write!(
                f,
                "{} has no execute permission, and has to be executed to record a program that is linked statically or by \
                 musl: chmod a+x it",
                shown_path(path)
            ),
            Error::NotInstrumented { path } => write!(
                f,
                "{} was not built with refrain cc or refrain c++, so its threads cannot be observed; \
                 rebuild it with CC=\"refrain cc\" CXX=\"refrain c++\", or record it as it is with --scope inputs",
                shown_path(path)
            ),
            Error::BuiltForSync { path } => write!(
                f,
                "{} was built for scope sync, so its plain accesses to memory cannot be observed; record it with \
                 --scope sync, or build it with cargo refrain build --scope memory",
                shown_path(path)
            ),
            Error::NoRuntime { path } => write!(
                f,
                "a program that was not built with refrain is given {} when it starts, and there is no such file, or its path \
                 has a space or a colon; keep it beside refrain",
                shown_path(path)
            ),
            Error::NoTurns { run } => write!(
                f,
                "{run} is not a run of several threads at scope inputs: there is nothing to search for"
            ),
            Error::UnusableOrder { run, why } => {
                write!(f, "the inputs of {run} are in no usable order: {why}; record it again")
            }
            Error::UnusableEdits { run, why } => {
                write!(
                    f,
                    "the file `moves` of {run} was not written for it: {why}; remove it, and search again: refrain solve {run}"
                )
            }
            Error::UnusableLateResumes { run, line } => write!(
                f,
                "the file `pauses` of {run} was not written for it: the run has no place as in line {line}; remove it, and search again: \
                 refrain solve --again {run}"
            ),
            Error::OrderUnknown { run, threads } => write!(
                f,
                "{run} was recorded at scope inputs and had {threads} threads: what came from outside is known, but not what \
                 they did to each other, so there is nothing to explain; build the program with refrain cc and \
                 record it with --scope sync or --scope memory"
            ),
            Error::NeverAttached { path } => write!(
                f,
                "the recorder did not start inside {}: if it said why, that is above; if not, rebuild the program with this \
                 version of refrain cc or refrain c++",
                shown_path(path)
            ),
            Error::NoDirectory { source } => {
                write!(
                    f,
                    "cannot tell the current directory ({}); change into one that exists",
                    plain(source)
                )
            }
            Error::AddressesNotFixed => write!(
                f,
                "this system does not let programs run without address-space randomisation (personality is refused), \
                 which replay needs; in Docker, add --security-opt seccomp=unconfined"
            ),
            Error::PartOfARun { path } => write!(
                f,
                "{} is the part of one process of a run, which is replayed as a whole: refrain replay {}",
                shown_path(path),
                shown_path(path.parent().unwrap_or(path))
            ),
            Error::NoRecordedDirectory { path } => write!(
                f,
                "the program was recorded in {}, which does not exist; make it, it may be empty",
                shown_path(path)
            ),
            Error::CannotStart { path, source } => write!(f, "cannot start {}: {}", shown_path(path), plain(source)),
            Error::NoNamespace { example, source } => write!(
                f,
                "the run brought its files with it ({} is another one here, or missing), and this system does not let refrain \
                 put them in place for the replay ({}): allow user namespaces (sysctl user.max_user_namespaces above 0, \
                 kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in Docker, \
                 --cap-add SYS_ADMIN --security-opt apparmor=unconfined), replay as root, or replay in a container made \
                 from the image the run was recorded in",
                shown_path(example),
                plain(source)
            ),
            Error::CannotStage { doing, source } => write!(
                f,
                "cannot put the files of the run in place for its replay: {doing}: {}",
                plain(source)
            ),
            Error::CannotCopy(source) => write!(f, "cannot copy a process of the replay: {}", plain(source)),
            Error::Wait(source) => write!(f, "cannot wait for the program: {}", plain(source)),
            Error::NoDebugger { source } => write!(
                f,
                "cannot start gdb: {}; install it (Debian: apt-get install gdb), or leave --gdb out",
                plain(source)
            ),
            Error::HostedInDebugger { program } => write!(
                f,
                "{program} is linked statically or by musl, and was loaded by the runtime, where gdb does not find it; replay it without \
                 --gdb, or record it linked with glibc and without -static"
            ),
            Error::DebuggedElsewhere { program } => write!(
                f,
                "this run was recorded elsewhere, and {} or one of its libraries is not here as it was there; gdb needs \
                 them at their places, `refrain replay` without --gdb does not",
                shown_path(std::path::Path::new(program.as_os_str()))
            ),
            Error::NotInDebugger => write!(
                f,
                "this command is for gdb, inside a session that `refrain replay --gdb` began"
            ),
            Error::NothingFailed { run } => write!(
                f,
                "{run} did not fail: its program ended with exit status 0; leave --goto-failure out"
            ),
            Error::BeingRecorded { path } => {
                write!(
                    f,
                    "{} is being recorded right now; wait for its program to end",
                    shown_path(path)
                )
            }
            Error::Log { file, damage } => write!(f, "cannot read {}: {damage}", shown_path(file)),
            Error::Inputs { file, damage } => write!(f, "cannot read {}: {damage}", shown_path(file)),
            Error::LogMissing { file, records } => {
                write!(
                    f,
                    "cannot read {}: the file is missing, and should hold {records} records",
                    shown_path(file)
                )
            }
            Error::LogDoesNotFit {
                file,
                place,
                expected,
                found,
            } => write!(
                f,
                "cannot use {}: {place}: expected {expected}, found {found}; the files of the run do not belong together",
                shown_path(file)
            ),
            Error::Changed {
                path,
                what,
                recorded,
                found,
            } => write!(
                f,
                "{what} {path} is not the one that was recorded (then {recorded}, now {found}); \
                 put the recorded one back, or record again"
            ),
            Error::Gone { path, what, source } => write!(
                f,
                "{what} {path}, which the recorded program used, cannot be read: {}; put it back, or record again",
                plain(source)
            ),
            Error::Refused { run, why } => write!(f, "{run} cannot be replayed so: {why}"),
            Error::OtherAbi { recorded, known } => write!(
                f,
                "the run was recorded with version {recorded} of the runtime interface, and this refrain has \
                 version {known}; use the refrain that recorded it, or record again"
            ),
            Error::NothingRecorded { path } => write!(
                f,
                "{} has nothing to replay: the program was stopped before it began (`refrain info` says by what); record again",
                shown_path(path)
            ),
            Error::NotFollowed { path, why } => write!(
                f,
                "{} was recorded whole, and cannot be made a log of its elements: {why}; record with --method coop --share 100%",
                shown_path(path)
            ),
            Error::InputsStayHere { path, why } => write!(
                f,
                "the inputs of {} cannot be sent: {why}. Upload it without --with-inputs, and try merged logs here with `refrain fleet fetch`",
                shown_path(path)
            ),
            Error::Unended { path } => write!(
                f,
                "nobody saw how {} ended: its recorder was killed; record again",
                shown_path(path)
            ),
            Error::PartialRun { path } => write!(
                f,
                "{0} has the order of a part of the elements only, and cannot be replayed by itself; `refrain fleet upload {0}` gives it to a server that \
                 merges it with others (docs/fleet.md)",
                shown_path(path)
            ),
            Error::Unsolvable { run, why } => {
                write!(f, "no schedule explains the logs of {}: {why}", shown_path(run))
            }
            Error::TooLittleMemory {
                run,
                records,
                needed,
                available,
            } => write!(
                f,
                "the schedule of {run}, which has {records} records, may take {} of memory to compute, and {} can be had: close \
                 other programs or raise the limit (ulimit -v, the container's), try all the same with \
                 `refrain solve --max-memory {}G {run}`, or record less of the program (--max-time, --max-size)",
                megabytes(*needed),
                megabytes(*available),
                needed.div_ceil(1 << 30)
            ),
            Error::NotTraced { file, source } => write!(
                f,
                "cannot write the trace {}: {}; traces go to the temporary directory: set TMPDIR to one that has more room",
                shown_path(file),
                plain(source)
            ),
            Error::Rejected { run, why } => write!(
                f,
                "the schedule computed for {} does not explain its logs: {why}; this is a bug in refrain",
                shown_path(run)
            ),
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1 << 20))
}
