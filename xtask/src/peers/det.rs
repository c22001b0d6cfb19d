//! `cargo xtask peers det FOLDER`: programs that nobody here wrote, under `refrain run`.
//!
//! The folder has their sources and a file `programs` that says how they are built and run (`list`). Each is built natively and with `--det`,
//! learned once, and enforced many times; what counts is the output of the run that it was learned from, not that later runs agree with each other.
mod list;
mod subject;

use crate::bench::det::guest::enforced_s;
use crate::bench::det::guest::hand_overs;
use crate::bench::table;
use crate::command::Failure;
use crate::command::Run;
use crate::signals;
use crate::target;
use list::Listed;
use serde_json::Value;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use subject::Seen;
use subject::Subject;

const NATIVE_LIMIT_S: u64 = 60;
const LEARN_LIMIT_S: u64 = 900;
const ENFORCE_LIMIT_S: u64 = 60;
/// Runs with the order of synchronisations alone, at most: a control.
const CONTROLS_MAX: u64 = 20;
/// As many that are not over in time are enough to know.
const LATE_MAX: u32 = 3;
/// What is said about a failure, at most.
const CAUSE_CHARACTERS: usize = 240;

struct Options {
    only: Vec<String>,
    times: u64,
    repetitions: u32,
    json: bool,
    refrain: PathBuf,
}

/// How a program fared.
enum Fate {
    /// Not built, or not learned.
    Failed(String),
    Learned(Box<Learned>),
}

struct Learned {
    /// What `refrain schedules info` has of it.
    learned: Value,
    hand_overs: u64,
    enforced: Enforced,
    /// With the order of synchronisations alone.
    sync_only: Enforced,
    /// Native runs that did, of how many.
    native: (u64, u64),
    times: Times,
}

/// What became of the enforced runs.
#[derive(Default)]
struct Enforced {
    times: u64,
    /// Those that did what was recorded.
    came_back: u64,
    /// Those that were made to follow the learned schedule, as `refrain run --report` says: whoever learns anew may do the same by chance.
    hits: u64,
    /// What the first other one did.
    first_other: Option<String>,
}

/// In seconds, one of each for every repetition.
#[derive(Default)]
struct Times {
    native: Vec<f64>,
    hybrid: Vec<f64>,
    sync_only: Vec<f64>,
}

pub fn det(arguments: &[&str]) -> Result<(), Failure> {
    let [folder, options @ ..] = arguments else {
        return Err(Failure::new(
            "peers det needs the folder with the programs, and a file `programs` in it that lists them",
        ));
    };
    signals::outlive_interrupts_of_programs();
    let options = Options::read(options)?;
    let folder = fs::canonicalize(folder).map_err(|e| Failure::new(format!("cannot open {folder}: {e}")))?;
    let list = folder.join("programs");
    let text = fs::read_to_string(&list).map_err(|e| Failure::new(format!("cannot read {}: {e}", list.display())))?;
    let mut programs = list::read(&text)?;
    if let Some(unknown) = options
        .only
        .iter()
        .find(|only| programs.iter().all(|p| p.name != **only))
    {
        return Err(Failure::new(format!("{} has no program '{unknown}'", list.display())));
    }
    programs.retain(|program| options.only.is_empty() || options.only.contains(&program.name));
    let mut fates = Vec::new();
    for program in &programs {
        let fate = try_program(&folder, program, &options).unwrap_or_else(|failure| Fate::Failed(failure.to_string()));
        eprintln!("{:<20} {}", program.name, told(&fate));
        fates.push(fate);
    }
    match options.json {
        true => println!("{}", as_json(&programs, &fates)),
        false => println!("{}", as_table(&programs, &fates)),
    }
    match fates.iter().all(Fate::is_as_recorded) {
        true => Ok(()),
        false => Err(Failure::new("not every program came back each time")),
    }
}

impl Options {
    fn read(words: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            only: Vec::new(),
            times: 100,
            repetitions: 9,
            json: false,
            refrain: crate::refrain(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let missing = || Failure::new(format!("{word} needs a value"));
                words.next().ok_or_else(missing)
            };
            let number = |text: &str| {
                let wrong = |_| Failure::new(format!("'{text}' is not a number of runs"));
                text.parse::<u32>().map_err(wrong)
            };
            match *word {
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--json" => options.json = true,
                "--times" => options.times = u64::from(number(value()?)?),
                "--repetitions" => options.repetitions = number(value()?)?,
                "--refrain" => options.refrain = PathBuf::from(value()?),
                _ => return Err(Failure::new(format!("peers det does not know '{word}'"))),
            }
        }
        options.refrain = fs::canonicalize(&options.refrain)
            .map_err(|_| Failure::new("there is no refrain yet: cargo xtask build"))?;
        Ok(options)
    }
}

fn try_program(folder: &Path, listed: &Listed, options: &Options) -> Result<Fate, Failure> {
    let place = target().join("peers/det").join(&listed.name);
    let subject = Subject::new(listed, place, &options.refrain);
    eprintln!("xtask: {} is built", listed.name);
    subject.build(folder)?;
    eprintln!("xtask: {} is learned", listed.name);
    let (recorded, ended) = subject.run(&[], LEARN_LIMIT_S)?;
    if !ended.is_over {
        return Err(Failure::new("learning it was not over in time"));
    }
    let (learned, directory) = learned(&subject, &options.refrain)
        .map_err(|failure| Failure::new(format!("{failure}: {}", said(&ended.stderr))))?;
    if let Some(why) = learned["sealed"].as_str() {
        return Err(Failure::new(format!("its schedule is sealed: {why}")));
    }
    eprintln!("xtask: {} is enforced", listed.name);
    let name = schedule_name(&directory)?;
    let hybrid = enforced(&subject, &recorded, options.times, &[], &name)?;
    let controls = options.times.min(CONTROLS_MAX);
    let sync_only = enforced(&subject, &recorded, controls, &["--sync-only"], &name)?;
    let (times, native) = measured(&subject, &recorded, options.repetitions)?;
    Ok(Fate::Learned(Box::new(Learned {
        learned,
        hand_overs: hand_overs(&fs::read_to_string(directory.join("steps"))?),
        enforced: hybrid,
        sync_only,
        native,
        times,
    })))
}

/// What the only schedule in the program's cache says about itself, and where it is.
fn learned(subject: &Subject, refrain: &Path) -> Result<(Value, PathBuf), Failure> {
    let schedules = |words: &[&str]| -> Result<Value, Failure> {
        let mut command = Command::new(refrain);
        command
            .args(["schedules", "--json"])
            .args(words)
            .env("REFRAIN_DIR", subject.store());
        let text = Run::output(&mut command)?;
        serde_json::from_str(&text).map_err(|e| Failure::new(format!("refrain wrote malformed JSON: {e}")))
    };
    let all = schedules(&["ls"])?;
    let name = all[0]["name"].as_str();
    let name = name.ok_or_else(|| Failure::new("no schedule was learned"))?;
    let info = schedules(&["info", name])?;
    let directory = PathBuf::from(info["directory"].as_str().unwrap_or_default());
    Ok((info["meta"]["learned"].clone(), directory))
}

/// A schedule is called like its directory.
fn schedule_name(directory: &Path) -> Result<String, Failure> {
    let name = directory.file_name().and_then(OsStr::to_str);
    name.map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("{} has no name of a schedule", directory.display())))
}

/// So many runs, every other one delayed: what became of those that were made. `name` is that of the schedule that they are to follow.
fn enforced(subject: &Subject, recorded: &Seen, times: u64, with: &[&str], name: &str) -> Result<Enforced, Failure> {
    let (mut enforced, mut late) = (Enforced::default(), 0);
    for seed in 1..=times {
        let delays = format!("--delays={seed}");
        let mut words = with.to_vec();
        if seed % 2 == 1 {
            words.push(&delays);
        }
        let (seen, ended) = subject.run(&words, ENFORCE_LIMIT_S)?;
        let difference = match ended.is_over {
            false => Some("not over in time".to_owned()),
            true => seen.difference(recorded),
        };
        let is_hit = is_hit(&ended.stderr, name);
        enforced.times += 1;
        enforced.came_back += u64::from(difference.is_none());
        enforced.hits += u64::from(is_hit);
        let other = difference.or_else(|| (!is_hit).then(|| format!("did not follow schedule {name}")));
        if let Some(why) = other {
            let told = || short(&format!("{why} ({}; {})", words.join(" "), said(&ended.stderr)));
            enforced.first_other.get_or_insert_with(told);
        }
        late += u32::from(!ended.is_over);
        if late >= LATE_MAX {
            break;
        }
    }
    Ok(enforced)
}

/// Does the report say that the run was made to follow this schedule?
fn is_hit(report: &str, name: &str) -> bool {
    let hit = format!("refrain: hit: schedule {name} enforced: ");
    report.lines().any(|line| line.starts_with(&hit))
}

/// Every variant once, one after the other, as often as asked; and how many native runs did what was recorded.
fn measured(subject: &Subject, recorded: &Seen, repetitions: u32) -> Result<(Times, (u64, u64)), Failure> {
    let (mut times, mut as_recorded) = (Times::default(), 0);
    for _ in 0..repetitions {
        let (seen, ended) = subject.run_natively(NATIVE_LIMIT_S)?;
        times.native.push(ended.elapsed.as_secs_f64());
        as_recorded += u64::from(seen == *recorded);
        for (options, samples) in [
            (&[][..], &mut times.hybrid),
            (&["--sync-only"][..], &mut times.sync_only),
        ] {
            let (_, ended) = subject.run(options, ENFORCE_LIMIT_S)?;
            // A run that left its schedule has no time that means anything.
            samples.push(enforced_s(&ended.stderr).filter(|_| ended.is_over).unwrap_or(f64::NAN));
        }
    }
    Ok((times, (as_recorded, u64::from(repetitions))))
}

/// The last thing that refrain said which is no report.
fn said(stderr: &str) -> String {
    let mut lines = stderr.lines().filter_map(|line| line.strip_prefix("refrain: "));
    let is_report = |line: &&str| line.starts_with("hit: ") || line.starts_with("when it was learned");
    short(lines.rfind(|line| !is_report(line)).unwrap_or("refrain says nothing"))
}

fn short(text: &str) -> String {
    text.replace('\n', " ").chars().take(CAUSE_CHARACTERS).collect()
}

impl Fate {
    fn is_as_recorded(&self) -> bool {
        match self {
            Fate::Failed(_) => false,
            Fate::Learned(learned) => learned.enforced.is_as_recorded(),
        }
    }
}

impl Enforced {
    fn is_as_recorded(&self) -> bool {
        self.first_other.is_none() && self.came_back == self.times && self.hits == self.times
    }
}

impl Learned {
    fn count(&self, field: &str) -> u64 {
        self.learned[field].as_u64().unwrap_or(0)
    }

    fn offline_ms(&self) -> u64 {
        ["solving_ms", "tracing_ms", "relaxing_ms"]
            .map(|field| self.count(field))
            .iter()
            .sum()
    }
}

impl Times {
    /// Against the native run that was its neighbour.
    fn ratio(&self, samples: &[f64]) -> f64 {
        table::median(samples.iter().zip(&self.native).map(|(sample, native)| sample / native))
    }

    fn native_ms(&self) -> f64 {
        table::median(self.native.iter().copied()) * 1000.0
    }
}

fn told(fate: &Fate) -> String {
    match fate {
        Fate::Failed(why) => format!("NOT learned: {why}"),
        Fate::Learned(learned) => {
            let Enforced {
                times,
                came_back,
                hits,
                first_other,
            } = &learned.enforced;
            let other = first_other.as_ref().map(|why| format!("; first other: {why}"));
            format!(
                "enforced {came_back} of {times}, {hits} hits{}",
                other.unwrap_or_default()
            )
        }
    }
}

fn as_table(programs: &[Listed], fates: &[Fate]) -> String {
    let mut lines = vec![
        "| program | threads | synchronisations | accesses | races | constraints | pruned | hand-overs | enforced | hits | sync only | native | native time | hybrid | sync only | recorded to learn | learned offline |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (program, fate) in programs.iter().zip(fates) {
        let Fate::Learned(learned) = fate else {
            lines.push(format!("| {} | {} |", program.name, told(fate)));
            continue;
        };
        let count = |field: &str| table::grouped(learned.count(field));
        let of = |some: u64, all: u64| format!("{some} of {all}");
        let (hybrid, sync_only) = (&learned.enforced, &learned.sync_only);
        let times = &learned.times;
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} ms | {:.2}× | {:.2}× | {} ms | {} ms |",
            program.name,
            count("threads"),
            count("steps"),
            count("accesses"),
            count("races"),
            count("constraints"),
            count("pruned"),
            table::grouped(learned.hand_overs),
            of(hybrid.came_back, hybrid.times),
            of(hybrid.hits, hybrid.times),
            of(sync_only.came_back, sync_only.times),
            of(learned.native.0, learned.native.1),
            times.native_ms(),
            times.ratio(&times.hybrid),
            times.ratio(&times.sync_only),
            count("recording_ms"),
            table::grouped(learned.offline_ms()),
        ));
    }
    lines.join("\n")
}

fn as_json(programs: &[Listed], fates: &[Fate]) -> String {
    let all: Vec<_> = programs
        .iter()
        .zip(fates)
        .map(|(program, fate)| match fate {
            Fate::Failed(why) => json!({ "name": program.name, "failed": why }),
            Fate::Learned(learned) => json!({
                "name": program.name,
                "learned": learned.learned,
                "hand_overs": learned.hand_overs,
                "enforced": learned.enforced.times,
                "as_recorded": learned.enforced.came_back,
                "hits": learned.enforced.hits,
                "first_other": learned.enforced.first_other,
                "sync_only": learned.sync_only.times,
                "sync_only_as_recorded": learned.sync_only.came_back,
                "sync_only_hits": learned.sync_only.hits,
                "native_as_recorded": learned.native.0,
                "native_s": learned.times.native,
                "hybrid_s": learned.times.hybrid,
                "sync_only_s": learned.times.sync_only,
            }),
        })
        .collect();
    json!(all).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn only_the_learned_schedule_is_a_hit() {
        let report = "refrain: hit: schedule 3ba8 enforced: 2 threads, 13 synchronisations, 1 constraint in 3.1 ms\nrefrain: order: 2 hand-overs\n";
        assert!(is_hit(report, "3ba8"));
        assert!(!is_hit(report, "3ba"), "the beginning of a name");
        assert!(!is_hit(
            "refrain: miss: learned schedule 3ba8 from this run: 2 threads\n",
            "3ba8"
        ));
        assert!(!is_hit("", "3ba8"));
    }

    /// A program of our own, as if it were somebody else's. It races, so its output says which run it was.
    #[test]
    fn a_listed_program_is_learned_and_comes_back() {
        let refrain = crate::refrain();
        if !refrain.exists() {
            eprintln!("skipped: there is no refrain yet: cargo xtask build");
            return;
        }
        let folder = root().join("tests/guests");
        let list = "[xtask-test]\nsources: guest.h deterministic\nbuild: $CC -O2 -g -pthread deterministic/counters.c -o counters\nrun: ./counters\n";
        let programs = list::read(list).expect("a list");
        let options = Options {
            only: Vec::new(),
            times: 4,
            repetitions: 1,
            json: false,
            refrain,
        };
        let fate = try_program(&folder, &programs[0], &options);
        let fate = fate.unwrap_or_else(|failure| Fate::Failed(failure.to_string()));
        let Fate::Learned(learned) = &fate else {
            panic!("{}", told(&fate));
        };
        let Enforced {
            times, came_back, hits, ..
        } = learned.enforced;
        assert_eq!((times, came_back, hits), (4, 4, 4), "{}", told(&fate));
        assert!(learned.count("threads") > 1 && learned.count("steps") > 0 && learned.count("accesses") > 0);
        assert_eq!(learned.times.native.len(), 1);
        let table = as_table(&programs, std::slice::from_ref(&fate));
        assert!(
            table.contains("| xtask-test |") && table.contains("| 4 of 4 | 4 of 4 |"),
            "{table}"
        );
        let json: Value = serde_json::from_str(&as_json(&programs, &[fate])).expect("JSON");
        assert_eq!((&json[0]["as_recorded"], &json[0]["hits"]), (&json!(4), &json!(4)));
    }
}
