//! Everyday commands of this repository: `cargo xtask <command>`.
//!
//! Needs nothing but Rust: `setup` installs the rest. Everything built goes to `target/`.
mod all_tests;
mod bench;
mod command;
mod counts;
mod cycles;
mod debian;
mod demo;
mod fuzz;
mod layering;
mod methods;
mod peers;
mod promises;
mod setup;
mod signals;
mod soak;
mod tidy;
mod torture;

use command::Cargo;
use command::Failure;
use command::Run;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  setup                 install what is missing: clang 22, LLVM 22, lld, gdb, cmake, make, libz3 (Debian packages)
  build                 setup, and build everything optimised: target/release/refrain with runtime and compiler pass beside it
  demo                  build, catch a real heisenbug, replay it 100 times
  check                 format, lints, tidiness, who may depend on whom, tests of all promises
  test                  setup, build, and all tests; what CI runs
  guests [NAME]         the guest programs alone, or those whose name contains NAME
  counts [CHECKOUT...]  how entangled the runtime is: mode tests, statics, unsafe blocks, circles of imports
  properties [CASES]    property tests of decoders, solver and recorder with many cases (default 20000)
  fuzz [OPTION]         every reader of bytes with inputs that coverage guides
        --seconds N       for all targets together (default 60)
        --targets A,B     only these
  torture [OPTION]      kill commands at random moments, fill disks, flip bytes: is everything in order afterwards?
        --kills N         commands killed (0)
        --faults N        full disks, caps, damaged runs and archives (0)
        --seconds S       at most (no limit)
        --seed X          of a torture before
        --refrain FILE    another refrain than target/release/refrain, which is built if need be
  soak --minutes N      record a server under load at each scope: does its memory grow, does the cap hold, does it come back?
        --cap MEGABYTES   of the run directory (64)
  bench record [OPTION] what recording costs, against native code and ThreadSanitizer
        --guests A,B      only these (then docs/benchmarks.md is left alone)
        --threads A,B     numbers of threads (default 2,4)
        --floor           one thread, too: what checks cost by themselves
        --repetitions N   runs of each variant, interleaved (default 3)
        --no-write        print the table, leave docs/benchmarks.md alone
  bench build [OPTION]  what compiling costs, in time and size, against clang and ThreadSanitizer; what each version of functions has of it
        --guests A,B      only these (then docs/benchmarks.md is left alone)
        --folder FOLDER   the C and C++ sources in there instead (the same)
        --flags FLAGS     for clang (default -O2)
        --repetitions N   of every source, interleaved (default 3)
        --no-write        print the table, leave docs/benchmarks.md alone
  bench inputs [OPTION] what recording at scope inputs costs programs as Debian ships them
        --programs A,B    only these (then docs/benchmarks.md is left alone)
        --repetitions N   turns of each, native and recorded (default 40)
        --no-write        print the table, leave docs/benchmarks.md alone
  bench det [OPTION]    what deterministic runs cost, against native code, and what learning them does: PEREGRINE's figures 11 to 13
        --guests A,B      only these (then docs/benchmarks.md is left alone)
        --repetitions N   runs of each variant, interleaved (default 15)
        --no-write        print the tables, leave docs/ alone
  bench fleet [OPTION]  partial logs of many clients, merged until a failure comes back: CoopREP's tables II to IV, figures 3 and 5
        --guests A,B      only these (then docs/benchmarks.md is left alone)
        --failing N       complete logs of failing runs of each (500); they are kept in target/bench/fleet
        --passing N       the same of passing runs (50)
        --shares 10,25    how much partial logs have, in percent (the paper's)
        --quick           fewer ways and attempts (then docs/benchmarks.md is left alone)
        --no-write        print the tables, leave docs/benchmarks.md alone
  bench search [OPTION] what the search for edits costs, in several ways
        --guests A,B      only these (then docs/benchmarks.md is left alone)
        --repetitions N   searches of each recording (3)
        --limit SECONDS   after which a search is stopped (60)
        --no-write        print the table, leave docs/benchmarks.md alone
  bench rust [OPTION]   what recording Rust programs costs, against native code and ThreadSanitizer
        --programs A,B    only these (then docs/benchmarks.md is left alone)
        --repetitions N   of every program (15)
        --no-write        print the table, leave docs/benchmarks.md alone
  bench solve [OPTION]  what solving costs, with hints and without, against Z3
        --repetitions N   seeds of each size (default 3)
        --limit SECONDS   for one solution of Z3 (default 60)
        --large           up to 10,000,000 dependences; needs about 10 GB
        --no-write        print the tables, leave docs/ alone
  bench methods [OPTION] Light against LEAP, STRIDE and OREO: what recording costs, which bugs come back (Light, §5; OREO, §IV)
        --parts A,B       of speed, bugs, oreo (default: all)
        --guests A,B      only these, of speed and bugs (then docs/ is left alone)
        --threads A,B     even numbers of threads (default 2,4,8)
        --repetitions N   runs of each variant, interleaved (default 3; five times as many of the shortest)
        --limit SECONDS   for one solution of Z3 (default 60)
        --quick           once, two threads, the papers' bugs; docs/ is left alone
        --no-write        print the tables, leave docs/ alone
  bench coop [OPTION]   what recording a part of the elements costs, against all of them: CoopREP, table VI and figures 4 to 6
        --guests A,B      only these (then docs/benchmarks.md is left alone)
        --repetitions N   runs of each of ten patterns (default 1)
        --no-write        print the table, leave docs/benchmarks.md alone
  bench against REFRAIN [OPTION] another build of refrain against this one, by turns: recording and replaying
        --cases A,B       only those with one of these in their names (then docs/benchmarks.md is left alone)
        --repetitions N   pairs of each case (default 5)
        --no-write        print the table, leave docs/benchmarks.md alone
  peers debian [OPTION] ordinary command lines (tests/debian/lines): natively, recorded at scope inputs, replayed
        --only TEXT       only those with TEXT in them
        --replays N       of each (default 3)
        --refrain FILE    another refrain than target/release/refrain
  peers rr FOLDER [OPTION] the test programs of rr, whose sources are in FOLDER: natively, recorded at scope inputs, replayed
        --only A,B        only these
        --json            one value for all of them
        --jobs N          at a time (default: as many as there are processors)
        --refrain FILE    another refrain than target/release/refrain
  peers det FOLDER [OPTION] programs that the file `programs` in FOLDER lists (docs/testing.md): built with --det, learned, enforced
        --only A,B        only these
        --times N         enforced runs of each, every other one with delays (default 100)
        --repetitions N   timed runs of each variant, interleaved (default 9)
        --json            one value for all of them
        --refrain FILE    another refrain than target/release/refrain";

fn main() -> ExitCode {
    signals::as_at_a_terminal();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match words.as_slice() {
        ["setup"] => setup::setup(),
        ["build"] => setup::setup().and_then(|()| build()),
        ["demo"] => setup::setup()
            .and_then(|()| build_for_demo())
            .and_then(|()| demo::demo()),
        ["check"] => check(),
        ["test"] => test(),
        ["guests"] => guests(None),
        ["guests", name] => guests(Some(name)),
        ["counts", checkouts @ ..] => counts::counts(checkouts),
        ["properties"] => properties("20000"),
        ["properties", cases] => properties(cases),
        ["fuzz", options @ ..] => fuzz::fuzz(options),
        ["soak", options @ ..] => build().and_then(|()| soak::soak(options)),
        ["torture", options @ ..] => torture::torture(options),
        ["bench", "record", options @ ..] => bench::record::record(options),
        ["bench", "build", options @ ..] => bench::build::build(options),
        ["bench", "inputs", options @ ..] => bench::inputs::inputs(options),
        ["bench", "det", options @ ..] => bench::det::det(options),
        ["bench", "fleet", options @ ..] => bench::fleet::fleet(options),
        ["bench", "search", options @ ..] => bench::search::search(options),
        ["bench", "rust", options @ ..] => bench::rust::rust(options),
        ["bench", "solve", options @ ..] => bench::solve::solve(options),
        ["bench", "methods", options @ ..] => bench::methods::methods(options),
        ["bench", "coop", options @ ..] => bench::coop::coop(options),
        ["bench", "against", options @ ..] => bench::against::against(options),
        ["peers", "debian", options @ ..] => debian::debian(options),
        ["peers", "rr", arguments @ ..] => peers::rr(arguments),
        ["peers", "det", arguments @ ..] => peers::det::det(arguments),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the repository: this crate's parent, wherever cargo was called from.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The optimised `refrain`, built by `build`.
pub fn refrain() -> PathBuf {
    target().join("release/refrain")
}

/// What is no part of the tool.
const NOT_BUILT: [&str; 4] = ["--exclude", "xtask", "--exclude", "refrain-solver-lab"];
/// The server of a fleet, with SQLite, TLS and HTTP: nobody needs it to record and replay.
const SERVER: [&str; 4] = ["--exclude", "collector", "--exclude", "fleet"];

fn build() -> Result<(), Failure> {
    Cargo::new("build")
        .args(["--release", "--workspace"])
        .args(NOT_BUILT)
        .run()
}

fn build_for_demo() -> Result<(), Failure> {
    Cargo::new("build")
        .args(["--release", "--workspace"])
        .args(NOT_BUILT)
        .args(SERVER)
        .run()
}

fn check() -> Result<(), Failure> {
    layering::check()?;
    cycles::check()?;
    tidy::tidy()?;
    promises::check()?;
    methods::check()?;
    Cargo::new("fmt").args(["--all", "--check"]).run()?;
    methods::check_format()?;
    Cargo::new("clippy")
        .args(["--workspace", "--all-targets", "--", "-D", "warnings"])
        .run()
}

fn test() -> Result<(), Failure> {
    setup::setup()?;
    setup::install(&setup::TESTED)?;
    build()?;
    layering::check()?;
    cycles::check()?;
    tidy::tidy()?;
    promises::check()?;
    methods::check()?;
    // All parts, whatever comes of those before: a run that fails says all that is wrong.
    let tests = all_tests::run();
    let fuzz = fuzz::fuzz(&["--seconds", fuzz::SECONDS_IN_TESTS]);
    // So many as take about half a minute, with a seed that is printed: what is found is found again by it.
    let torture = torture::torture(&["--kills", "40", "--faults", "40"]);
    for name in tests.iter().flatten() {
        eprintln!("xtask: NOTE: {name} failed beside others, and passed by itself: look into it");
    }
    let failures: Vec<Failure> = [tests.map(drop), fuzz, torture]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    let sentences: Vec<String> = failures.iter().map(Failure::to_string).collect();
    match sentences.as_slice() {
        [] => Ok(()),
        sentences => Err(Failure::new(sentences.join("; "))),
    }
}

fn guests(name: Option<&str>) -> Result<(), Failure> {
    build()?;
    Cargo::new("test")
        .args(["--release", "--package", "refrain-suite", "--"])
        .args(name)
        .env("REFRAIN_BIN", refrain())
        .run()
}

fn properties(cases: &str) -> Result<(), Failure> {
    if cases.parse::<u32>().is_err() {
        return Err(Failure::new(format!("'{cases}' is not a number of cases")));
    }
    Cargo::new("test")
        .args(["--release", "--package", "log-format", "--package", "constraint-solver"])
        .args(["--package", "schedule-checker", "--package", "simulated-machine"])
        .env("PROPTEST_CASES", cases)
        .run()
}
