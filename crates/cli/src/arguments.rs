//! The command line.
use crate::schedules::SchedulesArguments;
use crate::settings::SettingsArguments;
use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;
use run_model::ScheduleEdit;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  refrain cc -g -O2 -pthread bank.c -o bank       build with the recorder inside
  refrain cc -O2 --why bank.c:12 -c bank.c        which accesses of a line will be recorded, and why
  make CC=\"refrain cc\" CXX=\"refrain c++\"          the same for a whole project
  refrain record -- ./bank 4                      run it and keep the run
  refrain record --chaos --until-failure ./bank   run it until it fails; keep the failing run
  refrain replay                                  the latest run again, verified
  refrain replay bank-3 --times 100               a certain run, a hundred times
  refrain pack bank-3                             one file with all it takes to replay it elsewhere
  refrain replay --gdb --goto-failure             the latest run in gdb, just before it fails
  refrain explain bank-3                          why it failed, in source lines
  refrain fleet --help                            many clients record a part each; a server puts them together

Runs live in $REFRAIN_DIR, else $XDG_DATA_HOME/refrain, else ~/.local/share/refrain.";

/// Records multithreaded programs while they run in parallel, and brings the run back.
#[derive(Debug, Parser)]
#[command(name = "refrain", version, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile and link C; takes the arguments of clang (CC="refrain cc")
    #[command(disable_help_flag = true)]
    Cc {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compile and link C++; takes the arguments of clang++ (CXX="refrain c++")
    #[command(name = "c++", alias = "cxx", disable_help_flag = true)]
    Cxx {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Build, run or test a Rust package; the same as `cargo refrain`, which has its own --help
    #[command(disable_help_flag = true)]
    Cargo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Many clients record a part each of a failure, and a server puts them together; has its own --help
    #[command(disable_help_flag = true)]
    Fleet {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Record(RecordArguments),
    Run(RunArguments),
    Replay(ReplayArguments),
    Explain(ExplainArguments),
    Ls(ListArguments),
    Info(InfoArguments),
    Dump(DumpArguments),
    Solve(SolveArguments),
    Spes(SpesArguments),
    Trace(TraceArguments),
    Units(UnitsArguments),
    Pack(PackArguments),
    Unpack(UnpackArguments),
    Rm(RemoveArguments),
    Schedules(SchedulesArguments),
    /// Kill what is left of replays when the command that made them was killed; for the command itself
    #[command(hide = true)]
    Guard {
        name: String,
    },
    /// Become the program of a session of gdb; for `replay --gdb` itself
    #[command(hide = true)]
    GdbEnter {
        session: PathBuf,
        /// The program, as gdb names it; the session knows better
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
}

const RECORD_EXAMPLES: &str = "\
The program's input, output and exit status are passed through (death by signal S: 128+S; --timeout: 124).

Examples:
  refrain record -- ./server --port 80
  refrain record --chaos=7 --timeout 10 ./stress       a hang becomes a kept run
  refrain record --until-failure=1000 --chaos ./test   at most 1000 runs; only the failing one is kept
  refrain record --scope inputs -- sort names.txt      a program that was not built with refrain
  refrain record --scope inputs -- python3 crawl.py
                                                       the same, with threads that hand work to each other
  refrain record --keep on-failure -o crash ./test     the run directory is ./crash, if the program fails";

/// Run a program built with refrain (at scope inputs, any program), and keep the run
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub struct RecordArguments {
    #[command(flatten)]
    pub settings: SettingsArguments,
    /// Use DIR as the run directory; it must not exist yet
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Repeat until a run fails (at most N times) and keep only that one; its output is shown at its end
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "N")]
    pub until_failure: Option<Option<u64>>,
    /// Kill the program after S seconds and count that as a failure; the run is kept
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Which runs are kept
    #[arg(long, value_enum, default_value = "always", value_name = "WHEN")]
    pub keep: KeepWhen,
    /// Stop logging after S seconds, when a log next grows; the program runs on
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub max_time: Option<Duration>,
    /// Wait S seconds for processes that the program has left running when it ended (2 if not given)
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub wait: Option<Duration>,
    /// The program gets these variables as they are, the run holds as many 'x' instead of their values; names, with commas between them, or several
    /// times. In a replay the program finds the 'x': if it printed a value or depended on it, the replay diverges
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub redact: Vec<OsString>,
    #[command(flatten)]
    pub upload: UploadFlags,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
    pub command: Vec<OsString>,
}

/// Whether and where a run is sent when it is over
#[derive(Clone, Debug, Default, Args)]
pub struct UploadFlags {
    /// With --method coop: send what was recorded to the server of a fleet; it waits on the disk if that is away
    #[arg(long)]
    pub upload: bool,
    /// The server, instead of REFRAIN_FLEET_URL
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// A file with the token that the server knows, instead of REFRAIN_FLEET_TOKEN_FILE
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Send arguments, environment, standard input and the files that were read as well
    #[arg(long)]
    pub with_inputs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepWhen {
    Always,
    OnFailure,
}

const REPLAY_EXAMPLES: &str = "\
Exit status: 0 every verification passed, 1 diverged, 2 wrong usage, 3 the run cannot be read.

Examples:
  refrain replay                     the latest run
  refrain replay ./crash             a run directory
  refrain replay bank-3 --times 100  shows the output once, then a tally
  refrain replay --gdb               in gdb: set breakpoints, then type run, again and again
  refrain replay --gdb --goto-failure
                                     in gdb, just before the failure
  refrain replay --gdb -x commands.gdb -- --batch
                                     gdb does what the file says, and ends

With --gdb: 0 the replay met the recording as far as it went, 1 diverged.";

/// Bring a run back and verify that it is the same
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// Replay N times
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub times: u64,
    /// Say nothing unless something is different
    #[arg(long)]
    pub quiet: bool,
    /// Print the verdict as one JSON object instead of the program's output
    #[arg(long)]
    pub json: bool,
    /// Give up when no thread moves for S seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub patience: Option<Duration>,
    /// Threads in the recorded order, but system calls are made for real: the program reads the real clock, files and input, and
    /// acts on the world. The outcome, the threads, their events and their records are compared; what it reads and prints is not, as it may
    /// differ. Only for runs of one process, at scope memory or sync
    #[arg(long)]
    pub live_inputs: bool,
    /// Replay inside gdb, as often as you type 'run' there
    #[arg(long, conflicts_with_all = ["times", "json", "patience", "live_inputs"])]
    pub gdb: bool,
    /// Read gdb commands from FILE; may be given several times
    #[arg(short = 'x', value_name = "FILE", requires = "gdb")]
    pub scripts: Vec<PathBuf>,
    /// Let gdb run to the failure before its first prompt
    #[arg(long, requires = "gdb")]
    pub goto_failure: bool,
    /// More arguments of gdb
    #[arg(last = true, requires = "gdb", value_name = "GDB ARGUMENTS")]
    pub gdb_arguments: Vec<OsString>,
    /// Delay threads at random gates, which must not change anything; for testing refrain itself
    #[arg(long, value_name = "SEED", hide = true, default_value_t = 0)]
    pub jitter: u64,
    /// Scope inputs, several threads: depart from the order of inputs so, as in the file `moves` of a run; may be given several times. For tests
    #[arg(long = "edit", alias = "move", value_name = "EDIT", hide = true, value_parser = one_edit, conflicts_with = "gdb")]
    pub edits: Vec<ScheduleEdit>,
    /// The same runs: print where another thread could have gone on, and who did
    #[arg(long, hide = true, conflicts_with = "gdb")]
    pub switch_points: bool,
    /// The same runs: print every access to memory that threads may share, from where on each thread has had so many inputs; slow
    #[arg(
        long,
        hide = true,
        conflicts_with = "gdb",
        value_name = "INPUTS,…",
        value_delimiter = ','
    )]
    pub accesses: Option<Vec<u64>>,
}

fn one_edit(text: &str) -> Result<ScheduleEdit, String> {
    log_format::edits::parse(text).ok_or_else(|| format!("'{text}' is no edit, such as 'preempt 1.4.2 to 3'"))
}

const EXPLAIN_EXAMPLES: &str = "\
The run is replayed once, slowly, and every access is written down. Shown are the two accesses nearest to the failure that
nothing in the program orders, what the failing thread read last and who wrote it, and all other such pairs. Of a hang:
where each thread stands, what it waits for, and who holds it.

Exit status: 0 explained, 1 the replay diverged, 2 wrong usage, 3 the run cannot be read.

Examples:
  refrain record --chaos --until-failure ./bank && refrain ls
  refrain explain bank-3
  refrain explain bank-3 --json | jq .conclusion";

const RUN_EXAMPLES: &str = "\
The first time, the program is recorded, and a schedule is learned from that run: a total order of its synchronisation, and
the order of the accesses that raced. From then on it follows that schedule, in parallel and with live inputs, as long as
program, arguments and environment are the same. It must be built with `refrain cc --det`.

Exit status: the program's; 123 it left its schedule and was stopped, 125 it could not be started, 2 wrong usage.

Examples:
  refrain cc --det -O2 -g -pthread prog.c -o prog
  refrain run -- ./prog 4 data
  refrain run --report -- ./prog 4 data
  refrain schedules ls";

/// Run a program deterministically, with live inputs; learn how on the first run
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArguments {
    /// Where schedules are kept, instead of `schedules` where runs live
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Say whether a schedule was found, which, and what it cost
    #[arg(long)]
    pub report: bool,
    /// Enforce the order of synchronisation only, not that of races: to see what that is good for
    #[arg(long)]
    pub sync_only: bool,
    /// Delay threads at random where the schedule holds them, which must not change anything
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "SEED")]
    pub delays: Option<Option<u64>>,
    /// How a thread waits for its turn: it looks, and sleeps if that takes long (auto); it looks until it has it (flag); it sleeps at once (semaphore)
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub relay: RelayArgument,
    /// What becomes of a program that leaves its schedule: it is stopped, with status 123; or it goes on without one (free)
    #[arg(long, value_enum, default_value = "stop", value_name = "WHAT")]
    pub on_divergence: OnDivergenceArgument,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RelayArgument {
    Auto,
    Flag,
    Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnDivergenceArgument {
    Stop,
    Free,
}

/// Say in source lines why a run failed: what was read, who wrote it, what was unordered
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// List the runs
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

/// Say everything that is known about a run
#[derive(Debug, Args)]
pub struct InfoArguments {
    /// A run's name or directory, or a packed run; the latest run if absent
    pub run: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print also the values of variables whose names look secret (TOKEN, PASSWORD, KEY …)
    #[arg(long)]
    pub show_secrets: bool,
}

/// Print what the threads logged, in source lines
#[derive(Debug, Args)]
pub struct DumpArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// Only this thread (0 is the main thread)
    #[arg(long, value_name = "T")]
    pub thread: Option<u32>,
    /// Only the records around this event
    #[arg(long, value_name = "EVENT")]
    pub around: Option<u64>,
    /// At most N records of each thread
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// The inputs instead of the records: system calls and signals, with their results
    #[arg(long)]
    pub inputs: bool,
    /// Only how many records of each kind there are, and from how many sources
    #[arg(long, conflicts_with_all = ["around", "limit", "inputs"])]
    pub count: bool,
    /// Print one JSON object per record and line; with --count, one
    #[arg(long)]
    pub json: bool,
}

const SOLVE_EXAMPLES: &str = "\
A schedule is kept beside the run, for replays, as long as the logs are the same. `replay`, `explain` and `--gdb` compute it
themselves if need be.

Examples:
  refrain solve                       the latest run; if its schedule is there already, say how hard it was
  refrain solve --again bank-3        compute it anew
  refrain solve --no-hints bank-3     how hard is it if the order of recording is not known? an experiment: nothing is kept
  refrain solve --max-memory 8G       it may take 8 GB, whatever seems to be available
  refrain solve --emit-smt2 f.smt2    of a run of stride or oreo: write what an SMT solver would be asked, and do not solve";

/// Compute a run's schedule, have it checked, and say how hard it was
#[derive(Debug, Args)]
#[command(after_help = SOLVE_EXAMPLES)]
pub struct SolveArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// Compute the schedule even if it is there
    #[arg(long)]
    pub again: bool,
    /// Solve without looking at the order in which things were recorded, and keep nothing
    #[arg(long)]
    pub no_hints: bool,
    /// Scope inputs, several threads: stop searching after S seconds; what is known by then is kept, and the next search goes on from there
    #[arg(long, value_name = "S")]
    pub max_time: Option<u64>,
    /// Scope inputs, several threads: go on where the last search stopped, which is what happens without this option, too
    #[arg(long, conflicts_with = "again")]
    pub resume: bool,
    /// Scope inputs, several threads: search in another way, to compare
    #[arg(long, value_enum, value_name = "WAY", default_value = "full", hide = true)]
    pub tuning: SearchTuning,
    /// Scope inputs, several threads: each attempt is a replay from the beginning, not from a copy of a process that stands further on
    #[arg(long, hide = true)]
    pub no_checkpoints: bool,
    /// The same, of attempts that are made from such a copy as well: for tests
    #[arg(long, hide = true)]
    pub compare_checkpoints: bool,
    /// Write to FILE the formula for an SMT solver (SMT-LIB 2) instead of solving; for runs of stride and oreo
    #[arg(long, value_name = "FILE")]
    pub emit_smt2: Option<PathBuf>,
    /// Begin if B bytes (K, M, G) are enough; otherwise as much as is available has to be
    #[arg(long, value_name = "B", value_parser = bytes)]
    pub max_memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Ways to search: `cargo xtask bench search` compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchTuning {
    Full,
    NoCache,
    NoWindows,
    /// Nothing that the paper does not have.
    NoAdvances,
    NoReduction,
    PresLike,
}

const SPES_EXAMPLES: &str = "\
A shared program element is what an access means in the source: a global variable, a field of a struct (in all objects of that
type), what is allocated at one place, a lock. Its id is the same in every run and every object. Shown are all that instrumented
code names, where they are declared, and how many sites access them. Accesses through a plain pointer (int *p) name none: such
a site belongs to the element of the memory it meets.

Examples:
  refrain spes ./bank                      id, kind, name, declaration, number of sites
  refrain spes ./server ./libstore.so      a program and its library: what has the same name is one element
  refrain spes ./bank --json | jq '.spes[] | select(.kind == \"lock\")'";

/// List the shared program elements of programs and libraries built with refrain
#[derive(Debug, Args)]
#[command(after_help = SPES_EXAMPLES)]
pub struct SpesArguments {
    /// Programs, shared libraries or object files
    #[arg(required = true, value_name = "PROG")]
    pub objects: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const TRACE_EXAMPLES: &str = "\
The program is recorded, and replayed once; that replay is traced: which blocks every thread came to, what it accessed and loaded, what calls
returned, its synchronisation, and what system calls brought where. It must be built with `refrain cc --det`. DIR has a file for each thread,
and the run. Blocks and values have the numbers of the bitcode that is kept in the program (`refrain units`).

Exit status: the program's; with --check, 1 if a thread goes where its code does not; 2 wrong usage, 3 it cannot be traced or read.

Examples:
  refrain trace -o trace -- ./prog 4 data     trace one run
  refrain trace --text trace --thread 1       what thread 1 did, with lines of the source
  refrain trace --check trace                 follow all threads through the code that is kept";

/// Write down everything that the threads of one run do, for analyses
#[derive(Debug, Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub struct TraceArguments {
    /// Keep the trace in DIR, which must not exist
    #[arg(short, long, value_name = "DIR", requires = "command")]
    pub output: Option<PathBuf>,
    /// Show the trace in DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "command", "check"])]
    pub text: Option<PathBuf>,
    /// With --text: only this thread
    #[arg(long, value_name = "T", requires = "text")]
    pub thread: Option<u32>,
    /// Does every thread of the trace in DIR go from block to block as its code allows?
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "command"])]
    pub check: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROG")]
    pub command: Vec<OsString>,
}

const UNITS_EXAMPLES: &str = "\
A program that was built with `refrain cc --det` has the bitcode of its translation units with it, as it was before anything was done to it, and
numbers for functions, blocks and values that traces use.

Examples:
  refrain units ./prog                        what is kept, and how much it is
  refrain units ./prog -o units && llvm-link-22 units/*.bc -o prog.bc
                                              one module with all of the program";

/// List, or write to files, the bitcode that is kept in a program built with `--det`
#[derive(Debug, Args)]
#[command(after_help = UNITS_EXAMPLES)]
pub struct UnitsArguments {
    /// A program, shared library or object file
    #[arg(value_name = "PROG")]
    pub program: PathBuf,
    /// Write the bitcode of each unit to a file in DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const PACK_EXAMPLES: &str = "\
The file holds the run, the program and the libraries it used; the program's whole environment and output, too.
It is an uncompressed tar archive: `tar tf` lists it, and it compresses well.

Examples:
  refrain pack                            the latest run, into NAME.refrain here
  refrain pack bank-3 -o crash.refrain    a certain run
  refrain unpack crash.refrain            on the other machine, then: refrain replay";

/// Put a run, its program and its libraries into one file, to be replayed elsewhere
#[derive(Debug, Args)]
#[command(after_help = PACK_EXAMPLES)]
pub struct PackArguments {
    /// A run's name or directory; the latest run if absent
    pub run: Option<OsString>,
    /// Write FILE, which must not exist yet; NAME.refrain in this directory if absent
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const UNPACK_EXAMPLES: &str = "\
To replay it is to run the program in it: unpack only what comes from people whose programs you would run.

Examples:
  refrain unpack crash.refrain && refrain replay --times 20
  refrain unpack crash.refrain -o crash && refrain replay ./crash";

/// Unpack a run that `refrain pack` wrote, ready to be replayed
#[derive(Debug, Args)]
#[command(after_help = UNPACK_EXAMPLES)]
pub struct UnpackArguments {
    /// A file that `refrain pack` wrote
    pub file: PathBuf,
    /// Use DIR as the run directory; it must not exist yet
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Delete runs
#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// Names or directories of runs
    #[arg(required_unless_present = "all")]
    pub runs: Vec<OsString>,
    /// Delete all runs that `refrain ls` lists
    #[arg(long, conflicts_with = "runs")]
    pub all: bool,
    /// Print the names of the deleted runs as a JSON array
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a number of seconds, such as 10 or 0.5");
    let seconds: f64 = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() {
        Err("it must be more than 0 seconds".to_owned())
    } else {
        Ok(time)
    }
}

pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size, such as 4096, 64M or 2G");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err(wrong()),
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .ok_or_else(wrong)?;
    if bytes == 0 {
        Err("it must be more than 0 bytes".to_owned())
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_and_times_are_understood() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("2gib"), Ok(2 << 30));
        for wrong in ["", "M", "0", "12X", "99999999999999G", "-1"] {
            assert!(bytes(wrong).is_err(), "{wrong} was accepted");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("10s"), Ok(Duration::from_secs(10)));
        for wrong in ["", "0", "-1", "nan", "inf", "ten"] {
            assert!(seconds(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn arguments_after_the_program_are_the_programs() {
        let parsed = Arguments::parse_from(["refrain", "record", "--chaos", "./p", "--json", "-o", "--", "x"]);
        let Command::Record(record) = parsed.command else {
            panic!("not a record command")
        };
        assert_eq!(record.command, ["./p", "--json", "-o", "--", "x"]);
        assert_eq!((record.settings.chaos, record.output), (Some(None), None));
        let parsed = Arguments::parse_from(["refrain", "record", "--until-failure=9", "--chaos=3", "--", "-p"]);
        let Command::Record(record) = parsed.command else {
            panic!("not a record command")
        };
        assert_eq!(
            (record.until_failure, record.settings.chaos),
            (Some(Some(9)), Some(Some(3)))
        );
        assert_eq!(record.command, ["-p"]);
        assert!(Arguments::try_parse_from(["refrain", "record", "--no-such", "./p"]).is_err());
    }

    #[test]
    fn what_follows_two_dashes_is_for_gdb() {
        let line = [
            "refrain", "replay", "p-0", "--gdb", "-x", "a", "-x", "b", "--", "--batch", "-x",
        ];
        let Command::Replay(replay) = Arguments::parse_from(line).command else {
            panic!("not a replay command")
        };
        assert_eq!(replay.run.as_deref(), Some("p-0".as_ref()));
        assert_eq!(replay.scripts, ["a", "b"].map(PathBuf::from));
        assert_eq!(replay.gdb_arguments, ["--batch", "-x"]);
        assert!(replay.gdb && !replay.goto_failure);
    }
}
