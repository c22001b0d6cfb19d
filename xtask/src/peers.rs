//! `cargo xtask peers`: other people's test programs, natively, recorded at scope inputs, and replayed.
//!
//! Nothing is fetched, and nothing of theirs is in this repository: the folder with their sources is given. A program counts as recorded if it ends as
//! natively and prints the same; as replayed if `refrain replay` finds nothing that differs.
pub mod det;
mod program;

use crate::command::Failure;
use crate::signals;
use crate::target;
use program::Ended;
use program::Limits;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Native runs that say whether a program prints the same each time.
const NATIVE_RUNS: usize = 3;
const NATIVE_LIMIT_S: u64 = 20;
const RECORD_LIMIT_S: u64 = 60;
const REPLAY_LIMIT_S: u64 = 90;
/// What rr looks for in the output of a program; however it ends.
const SUCCESS: &str = "EXIT-SUCCESS";
/// What is said about a failure, at most.
const CAUSE_CHARACTERS: usize = 150;

/// How a program fared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It is no program here: the compiler refused it.
    NotCompiled,
    /// It fails without us, too.
    FailsNatively(String),
    Recorded {
        /// Why it does not count as recorded.
        differs: Option<String>,
        /// Why it does not count as replayed.
        diverges: Option<String>,
    },
}

struct Options {
    only: Vec<String>,
    json: bool,
    jobs: usize,
    refrain: PathBuf,
}

pub fn rr(arguments: &[&str]) -> Result<(), Failure> {
    let [folder, options @ ..] = arguments else {
        return Err(Failure::new("peers rr needs the folder with rr's sources"));
    };
    signals::outlive_interrupts_of_programs();
    let options = Options::read(options)?;
    let folder = fs::canonicalize(folder).map_err(|e| Failure::new(format!("cannot open {folder}: {e}")))?;
    let work = target().join("peers/rr");
    fs::create_dir_all(&work)?;
    generate(&folder, &work)?;
    let mut names = basic_tests(&folder)?;
    names.retain(|name| options.only.is_empty() || options.only.iter().any(|only| only == base(name)));
    let fates = try_all(&names, &options, |name| {
        try_program(&folder, &work, name, &options.refrain)
    });
    match options.json {
        true => println!("{}", as_json(&fates)),
        false => print!("{}", summary(&fates)),
    }
    Ok(())
}

impl Options {
    fn read(words: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            only: Vec::new(),
            json: false,
            jobs: thread::available_parallelism().map_or(1, usize::from),
            refrain: crate::refrain(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let missing = || Failure::new(format!("{word} needs a value"));
                words.next().ok_or_else(missing)
            };
            match *word {
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--json" => options.json = true,
                "--jobs" => {
                    let jobs = value()?;
                    let wrong = |_| Failure::new(format!("'{jobs}' is not a number of jobs"));
                    options.jobs = jobs.parse().map_err(wrong)?;
                }
                "--refrain" => options.refrain = PathBuf::from(value()?),
                _ => return Err(Failure::new(format!("peers rr does not know '{word}'"))),
            }
        }
        match options.refrain.exists() {
            true => Ok(options),
            false => Err(Failure::new("there is no refrain yet: cargo xtask build")),
        }
    }
}

/// The file that rr's build makes of its list of system calls, for its tests.
fn generate(folder: &Path, work: &Path) -> Result<(), Failure> {
    let made = work.join("SyscallEnumsForTestsX64.generated");
    if made.exists() {
        return Ok(());
    }
    let script = folder.join("src/generate_syscalls.py");
    let status = Command::new("python3").arg(&script).arg(&made).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("{} ended with {status}", script.display()))),
    }
}

/// The programs that rr's build calls basic tests, those for other processors left out.
fn basic_tests(folder: &Path) -> Result<Vec<String>, Failure> {
    let list = folder.join("CMakeLists.txt");
    let text = fs::read_to_string(&list).map_err(|e| Failure::new(format!("cannot read {}: {e}", list.display())))?;
    let (_, text) = text
        .split_once("set(BASIC_TESTS\n")
        .ok_or_else(|| Failure::new(format!("{} has no list of basic tests", list.display())))?;
    let (tests, _) = text.split_once(')').unwrap_or((text, ""));
    // Those that the build adds if the headers they need are there.
    let optional = ["mq", "fanotify", "robust_futex"];
    let lines = tests.lines().map(str::trim).chain(optional);
    let mut names: Vec<String> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("arm/"))
        .map(str::to_owned)
        .collect();
    names.retain(|name| folder.join(format!("src/test/{name}.c")).exists());
    Ok(names)
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// All of them, several at a time; each is told when it is done.
fn try_all(
    names: &[String],
    options: &Options,
    try_one: impl Fn(&str) -> Result<Fate, Failure> + Sync,
) -> BTreeMap<String, Fate> {
    let (next, fates) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
            let fate = try_one(name).unwrap_or_else(|failure| Fate::FailsNatively(failure.to_string()));
            eprintln!("{:<36} {}", base(name), told(&fate));
            if let Ok(mut fates) = fates.lock() {
                fates.insert(base(name).to_owned(), fate);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(work);
        }
    });
    fates.into_inner().unwrap_or_default()
}

fn try_program(folder: &Path, work: &Path, name: &str, refrain: &Path) -> Result<Fate, Failure> {
    let place = work.join(base(name));
    _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place)?;
    let program = place.join(base(name));
    if !compile(folder, work, name, &program)? {
        return Ok(Fate::NotCompiled);
    }
    let natively = || program::run(&place, Command::new(&program), Limits::seconds(NATIVE_LIMIT_S));
    let native = natively()?;
    if !native.is_over || !native.stdout.contains(SUCCESS) {
        return Ok(Fate::FailsNatively(native.told()));
    }
    let run = place.join("run");
    let mut record = Command::new(refrain);
    record
        .args(["record", "--scope", "inputs", "-o"])
        .arg(&run)
        .arg("--")
        .arg(&program);
    let recorded = program::run(&place, record, Limits::seconds(RECORD_LIMIT_S))?;
    let mut differs = difference(&native, &recorded);
    for _ in 1..NATIVE_RUNS {
        if differs.is_some() && recorded.code() == native.code() {
            // It may print something else each time.
            let again = natively()?;
            let varies = again.code() == native.code() && again.stdout != native.stdout;
            differs = match varies && last_line(&again.stdout) == last_line(&recorded.stdout) {
                true => None,
                false => difference(&again, &recorded).and(differs),
            };
        }
    }
    let mut replay = Command::new(refrain);
    replay.arg("replay").arg(&run);
    let replayed = program::run(&place, replay, Limits::seconds(REPLAY_LIMIT_S))?;
    let diverges = (!replayed.is_success()).then(|| why(&replayed));
    Ok(Fate::Recorded { differs, diverges })
}

/// As rr's build does it.
fn compile(folder: &Path, work: &Path, name: &str, program: &Path) -> Result<bool, Failure> {
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-D_FILE_OFFSET_BITS=64",
        "-pthread",
        "-msse2",
        "-D__MMX__",
        "-D__SSE__",
        "-D__SSE2__",
    ])
    .args(["-std=gnu11", "-DDEBUG", "-UNDEBUG", "-g3", "-O0", "-w"]);
    for include in ["include", "src/preload", "src"] {
        gcc.arg("-I").arg(folder.join(include));
    }
    gcc.arg("-I").arg(work);
    gcc.arg("-o")
        .arg(program)
        .arg(folder.join(format!("src/test/{name}.c")));
    gcc.args(["-lrt", "-ldl"]);
    Ok(gcc.output()?.status.success())
}

fn difference(native: &Ended, recorded: &Ended) -> Option<String> {
    if native.code() != recorded.code() || !recorded.is_over {
        return Some(recorded.told());
    }
    if native.stdout == recorded.stdout {
        return None;
    }
    let lines = native.stdout.lines().zip(recorded.stdout.lines());
    let line = lines.clone().find(|(native, recorded)| native != recorded);
    let (native, recorded) = line.unwrap_or(("", "another number of lines"));
    Some(short(&format!("prints '{recorded}' instead of '{native}'")))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or("")
}

/// What a replay says about itself.
fn why(replayed: &Ended) -> String {
    let lines = || replayed.stderr.lines().map(str::trim);
    let is_about_it =
        |line: &&str| line.starts_with("refrain:") || line.starts_with("DIFF") || line.starts_with("differs");
    let said = lines()
        .find(is_about_it)
        .or_else(|| lines().next_back())
        .unwrap_or("says nothing");
    match replayed.is_over {
        true => short(said),
        false => short(&format!("not over in time: {said}")),
    }
}

fn short(text: &str) -> String {
    let text = text.trim_start_matches("refrain: ");
    text.chars().take(CAUSE_CHARACTERS).collect()
}

fn told(fate: &Fate) -> String {
    match fate {
        Fate::NotCompiled => "not compiled".to_owned(),
        Fate::FailsNatively(why) => format!("not natively: {why}"),
        Fate::Recorded { differs, diverges } => {
            let part = |what: &str, why: &Option<String>| match why {
                None => what.to_owned(),
                Some(why) => format!("NOT {what} ({why})"),
            };
            format!("{}, {}", part("recorded", differs), part("replayed", diverges))
        }
    }
}

/// Programs, natively, recorded, replayed; and what is missing.
fn summary(fates: &BTreeMap<String, Fate>) -> String {
    let count = |is: &dyn Fn(&Fate) -> bool| fates.values().filter(|fate| is(fate)).count();
    let mut text = format!(
        "\n{} programs: {} are not compiled here, {} fail natively\n{} tried: {} recorded as natively, {} replayed\n",
        fates.len(),
        count(&|fate| *fate == Fate::NotCompiled),
        count(&|fate| matches!(fate, Fate::FailsNatively(_))),
        count(&|fate| matches!(fate, Fate::Recorded { .. })),
        count(&|fate| matches!(fate, Fate::Recorded { differs: None, .. })),
        count(&|fate| matches!(
            fate,
            Fate::Recorded {
                diverges: None,
                differs: None
            }
        )),
    );
    for (name, fate) in fates {
        if let Fate::Recorded { differs, diverges } = fate
            && (differs.is_some() || diverges.is_some())
        {
            text.push_str(&format!("  {name}: {}\n", told(fate)));
        }
    }
    text
}

fn as_json(fates: &BTreeMap<String, Fate>) -> String {
    let all: Vec<_> = fates
        .iter()
        .map(|(name, fate)| match fate {
            Fate::NotCompiled => json!({ "name": name, "compiled": false }),
            Fate::FailsNatively(why) => json!({ "name": name, "compiled": true, "native": why }),
            Fate::Recorded { differs, diverges } => json!({
                "name": name,
                "compiled": true,
                "native": "ok",
                "recorded": differs.is_none(),
                "replayed": diverges.is_none(),
                "differs": differs,
                "diverges": diverges,
            }),
        })
        .collect();
    json!(all).to_string()
}
