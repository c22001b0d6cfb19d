//! `cargo xtask torture`: commands killed at random moments, full disks, damaged files; and what is left afterwards.
//!
//! Every command works in a store of its own below the target directory, with programs that end by themselves within a moment. After each trial the world
//! is looked at (`checks`): nobody runs on, nothing is left that `ls` hides, modes are private, and every command on what is there ends with a documented
//! status. What happens is decided by the seed alone, but for the moment at which the system lets a killed process be.
mod checks;
mod faults;
mod kills;

use crate::command::Failure;
use crate::target;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// No command here has any business taking longer, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(60);

struct Options {
    kills: u64,
    faults: u64,
    seconds: Option<u64>,
    seed: u64,
    refrain: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut options = Options {
            kills: 0,
            faults: 0,
            seconds: None,
            seed: now.as_nanos() as u64 & 0xffff_ffff,
            refrain: None,
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let value = rest.next();
            if *name == "--refrain" {
                options.refrain = value.map(PathBuf::from);
                continue;
            }
            let value = value.and_then(|value| value.parse().ok());
            let value = value.ok_or_else(|| Failure::new(format!("{name} wants a number")))?;
            match *name {
                "--kills" => options.kills = value,
                "--faults" => options.faults = value,
                "--seconds" => options.seconds = Some(value),
                "--seed" => options.seed = value,
                other => return Err(Failure::new(format!("torture has no option {other}"))),
            }
        }
        Ok(options)
    }
}

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// Where a torture takes place.
struct Chamber {
    refrain: PathBuf,
    root: PathBuf,
    dice: Dice,
    /// What a trial did so far, to be told if something is wrong.
    transcript: Vec<String>,
    /// Stores with one run each, by their scripts: a copy is made in less time than a recording.
    ready: BTreeMap<&'static str, PathBuf>,
}

/// How a command ended.
struct Ended {
    /// Exit status, or 128 + signal.
    status: i32,
    stdout: String,
    stderr: String,
}

/// A program that forks and executes; its children end with it.
const FAMILY: &str = "for i in 1 2 3; do (echo child $i; /bin/true); done; /bin/ls / > /dev/null; sleep 0.05; echo end";
/// One that fails, alone.
const ALONE: &str = "echo begun; sleep 0.03; echo ended; exit 3";

impl Chamber {
    fn new(seed: u64, refrain: PathBuf) -> Result<Chamber, Failure> {
        let root = target().join(format!("tmp/torture-{}", std::process::id()));
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let chamber = Chamber {
            refrain,
            root,
            dice: Dice(seed),
            transcript: Vec::new(),
            ready: BTreeMap::new(),
        };
        for folder in [chamber.store(), chamber.temporary(), chamber.work()] {
            fs::create_dir_all(folder)?;
        }
        Ok(chamber)
    }

    /// `REFRAIN_DIR` of all commands.
    fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    fn temporary(&self) -> PathBuf {
        self.root.join("temporary")
    }

    /// Where commands and programs are; whoever is there is one of ours.
    fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    fn spawn(&mut self, arguments: &[&OsStr]) -> Result<Child, Failure> {
        let words: Vec<String> = arguments.iter().map(|word| format!("{word:?}")).collect();
        self.transcript.push(format!("refrain {}", words.join(" ")));
        let child = Command::new(&self.refrain)
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("REFRAIN_DIR", self.store())
            .env("TMPDIR", self.temporary())
            .env("API_TOKEN", "not for everybody")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        child.map_err(|e| Failure::new(format!("cannot start {}: {e}", self.refrain.display())))
    }

    fn run(&mut self, arguments: &[&str]) -> Result<Ended, Failure> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let child = self.spawn(&arguments)?;
        let (id, started) = (child.id(), Instant::now());
        let output = child.wait_with_output()?;
        if started.elapsed() >= LONGEST {
            return Err(Failure::new(format!("process {id} took {:?}", started.elapsed())));
        }
        let ended = Ended {
            status: checks::status_of(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if ended.stderr.contains("panicked") {
            return Err(Failure::new(format!("it panicked: {}", ended.stderr)));
        }
        Ok(ended)
    }

    /// The same, and it is known how it has to end.
    fn expect(&mut self, arguments: &[&str], statuses: &[i32]) -> Result<Ended, Failure> {
        let ended = self.run(arguments)?;
        if statuses.contains(&ended.status) {
            return Ok(ended);
        }
        Err(Failure::new(format!(
            "refrain {} ended with {}, not {statuses:?}: {}",
            arguments.join(" "),
            ended.status,
            ended.stderr
        )))
    }

    /// Records one of the programs into the store, whole.
    fn record(&mut self, script: &str) -> Result<(), Failure> {
        self.expect(&["record", "--scope", "inputs", "--", "/bin/sh", "-c", script], &[0, 3])?;
        Ok(())
    }

    /// Puts a run of this program into the store, which is empty: recorded the first time, and a copy of that from then on.
    fn put_run(&mut self, script: &'static str) -> Result<(), Failure> {
        let store = self.store();
        let copy = |from: &Path, to: &Path| {
            let line = Command::new("cp").args(["-a", "-T"]).arg(from).arg(to).status()?;
            match line.success() {
                true => Ok(()),
                false => Err(Failure::new(format!("cannot copy {}", from.display()))),
            }
        };
        if let Some(ready) = self.ready.get(script) {
            self.transcript.push(format!("# a copy of {}", ready.display()));
            return copy(ready, &store);
        }
        self.record(script)?;
        let ready = self.root.join(format!("ready-{}", self.ready.len()));
        copy(&store, &ready)?;
        self.ready.insert(script, ready);
        Ok(())
    }

    fn removed(&self) -> Result<(), Failure> {
        Ok(fs::remove_dir_all(&self.root)?)
    }
}

/// What was done how often, and what was wrong with it.
#[derive(Default)]
struct Tally {
    done: BTreeMap<String, u64>,
    violations: Vec<String>,
}

impl Tally {
    fn add(&mut self, trial: u64, chamber: &mut Chamber, what: Result<String, Failure>) {
        let transcript = std::mem::take(&mut chamber.transcript);
        match what {
            Ok(name) => *self.done.entry(name).or_default() += 1,
            Err(failure) => {
                let violation = format!("trial {trial}: {failure}\n    {}", transcript.join("\n    "));
                eprintln!("xtask: {violation}");
                self.violations.push(violation);
                // The next trial begins anew.
                checks::clean(chamber);
            }
        }
    }
}

pub fn torture(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    let seed = options.seed;
    println!("seed {seed}");
    let refrain = match options.refrain {
        Some(refrain) => refrain,
        None => crate::build().map(|()| crate::refrain())?,
    };
    let mut chamber = Chamber::new(seed, refrain)?;
    let mut tally = Tally::default();
    let deadline = options
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut victims = kills::Victims::prepare(&mut chamber)?;
    let mut damages = faults::Damages::prepare(&mut chamber)?;
    let (mut kills, mut faults) = (0, 0);
    // By turns, so that a limit of time cuts both.
    while (kills < options.kills || faults < options.faults) && !is_over() {
        if kills < options.kills {
            kills += 1;
            let done = victims.kill_one(&mut chamber);
            tally.add(kills, &mut chamber, done);
        }
        if faults < options.faults && !is_over() {
            faults += 1;
            let done = damages.do_one(&mut chamber);
            tally.add(faults, &mut chamber, done);
        }
    }
    println!(
        "{kills} kills, {faults} faults, {} violations (seed {seed})",
        tally.violations.len()
    );
    for (name, count) in &tally.done {
        println!("{count:>7}  {name}");
    }
    if !tally.violations.is_empty() {
        return Err(Failure::new(format!(
            "{} violations; what is left is in {}; again: cargo xtask torture --kills {kills} --faults {faults} --seed {seed}",
            tally.violations.len(),
            chamber.root.display()
        )));
    }
    chamber.removed()
}
