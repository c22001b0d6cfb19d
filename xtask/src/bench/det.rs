//! What deterministic runs cost: speed guests as native code, and under `refrain run` with all of their schedule and with the order
//! of synchronisations alone; interleaved in one run. And what was paid for it once, when the schedule was learned.
//!
//! Compared is the wall time of the program itself, since waiting for its turn is what a thread does here. Learning looks at every
//! access, so the guests have less to do than in the other benchmarks. How fast a schedule is depends on the run that it was learned
//! from: two of the same guest had hand-overs that differ by a factor of 20 and more. One is learned of each guest, so the table is
//! printed and not kept.
use super::Options;
use super::directive;
use super::limited;
use super::measure;
use super::table;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Guests, and how much they have to do.
const GUESTS: [(&str, &[&str]); 6] = [
    ("bank", &["-DSCALE=1/100"]),
    ("crypt", &["-DSIZE=(64<<10)"]),
    ("hash_table", &["-DSCALE=1/100"]),
    ("lufact", &["-DSIZE=120"]),
    ("pipeline", &["-DSCALE=1/100"]),
    ("radix", &["-DSIZE=30000"]),
];
/// For one run, and for learning.
const LIMIT: Duration = Duration::from_secs(120);

struct Guest {
    name: &'static str,
    native: PathBuf,
    deterministic: PathBuf,
    /// Where its schedules are.
    store: PathBuf,
}

/// What was learned, and what that took.
struct Lesson {
    recording_ms: f64,
    offline_ms: f64,
    steps: u64,
    hand_overs: u64,
    constraints: u64,
}

/// Wall times in seconds, one of each for every repetition.
#[derive(Default)]
struct Measured {
    native: Vec<f64>,
    hybrid: Vec<f64>,
    sync_only: Vec<f64>,
}

pub fn det(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("det", "--guests", 15, arguments)?;
    if let Some(name) = options
        .names
        .iter()
        .find(|name| !GUESTS.iter().any(|(guest, _)| guest == *name))
    {
        return Err(Failure::new(format!("'{name}' is not among the measured guests")));
    }
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench-det");
    fs::create_dir_all(&folder)?;
    let mut guests = Vec::new();
    for (name, size) in GUESTS {
        if options.names.is_empty() || options.names.iter().any(|chosen| chosen == name) {
            guests.push(build(name, size, &folder)?);
        }
    }
    let mut lessons = Vec::new();
    for guest in &guests {
        eprintln!("xtask: {} is learned", guest.name);
        lessons.push(learn(guest)?);
    }
    let mut results: Vec<Measured> = guests.iter().map(|_| Measured::default()).collect();
    for repetition in 0..options.repetitions {
        for (guest, measured) in guests.iter().zip(&mut results) {
            eprintln!("xtask: {} ({} of {})", guest.name, repetition + 1, options.repetitions);
            measure_all(guest, measured)?;
        }
    }
    let text = lines(&guests, &lessons, &results);
    println!("{text}");
    Ok(())
}

fn build(name: &'static str, size: &[&str], folder: &Path) -> Result<Guest, Failure> {
    let source = root().join("tests/bench").join(format!("{name}.c"));
    let text = fs::read_to_string(&source)?;
    let flags = directive(&text, "flags").unwrap_or_else(|| "-O2".to_owned());
    let link = directive(&text, "link").unwrap_or_default();
    let compile = |mut compiler: Command, suffix: &str| {
        let program = folder.join(format!("{name}.{suffix}"));
        compiler
            .args(flags.split_whitespace())
            .args(["-g", "-pthread"])
            .args(size)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .args(link.split_whitespace())
            .arg("-lm");
        compiler.run().map(|()| program)
    };
    let mut ours = Command::new(refrain());
    ours.args(["cc", "--det"]);
    Ok(Guest {
        name,
        native: compile(Command::new("clang-22"), "native")?,
        deterministic: compile(ours, "det")?,
        store: folder.join(format!("{name}.store")),
    })
}

/// `refrain run` with these options: what the program printed, and what was reported.
fn run(guest: &Guest, options: &[&str]) -> Result<(String, String), Failure> {
    let mut command = Command::new(refrain());
    command
        .args(["run", "--report"])
        .args(options)
        .arg("--")
        .arg(&guest.deterministic)
        .env("REFRAIN_DIR", &guest.store);
    let ended = limited::run(command, LIMIT)?;
    match ended.status {
        Some(0) => Ok((ended.stdout, ended.stderr)),
        _ => Err(Failure::new(format!(
            "`refrain run` of {}: {}",
            guest.name,
            ended.reason()
        ))),
    }
}

fn learn(guest: &Guest) -> Result<Lesson, Failure> {
    if guest.store.exists() {
        fs::remove_dir_all(&guest.store)?;
    }
    let (_, report) = run(guest, &[])?;
    let schedules = |words: &[&str]| -> Result<Value, Failure> {
        let mut command = Command::new(refrain());
        command
            .args(["schedules", "--json"])
            .args(words)
            .env("REFRAIN_DIR", &guest.store);
        let text = Run::output(&mut command)?;
        serde_json::from_str(&text).map_err(|e| Failure::new(format!("refrain wrote malformed JSON: {e}")))
    };
    let all = schedules(&["ls"])?;
    let name = all[0]["name"].as_str();
    let name = name.ok_or_else(|| Failure::new(format!("no schedule of {} was learned: {report}", guest.name)))?;
    let info = schedules(&["info", name])?;
    let learned = &info["meta"]["learned"];
    let ms = |field: &str| learned[field].as_f64().unwrap_or(f64::NAN);
    let directory = Path::new(info["directory"].as_str().unwrap_or_default());
    Ok(Lesson {
        recording_ms: ms("recording_ms"),
        offline_ms: ms("solving_ms") + ms("tracing_ms") + ms("relaxing_ms"),
        steps: learned["steps"].as_u64().unwrap_or(0),
        hand_overs: hand_overs(&fs::read_to_string(directory.join("steps"))?),
        constraints: learned["constraints"].as_u64().unwrap_or(0),
    })
}

/// Steps that are those of another thread than the one before them.
fn hand_overs(steps: &str) -> u64 {
    let threads: Vec<&str> = steps
        .lines()
        .take_while(|line| *line != "constraints")
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    threads.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
}

/// Every variant once, one after the other.
fn measure_all(guest: &Guest, measured: &mut Measured) -> Result<(), Failure> {
    let (native, expected) = measure::plain(&guest.native)?;
    measured.native.push(native.wall_s);
    for (options, samples) in [
        (&[][..], &mut measured.hybrid),
        (&["--sync-only"][..], &mut measured.sync_only),
    ] {
        let (output, report) = run(guest, options)?;
        // A fast wrong answer is no answer.
        if output.as_bytes() != expected {
            return Err(Failure::new(format!(
                "{} printed something else under `refrain run` {options:?} than natively",
                guest.name
            )));
        }
        samples.push(enforced_s(&report).ok_or_else(|| Failure::new(format!("no time was reported: {report}")))?);
    }
    Ok(())
}

/// The time of the program in the report of an enforced run: "hit: … in 3.1 ms".
fn enforced_s(report: &str) -> Option<f64> {
    let line = report.lines().find(|line| line.starts_with("refrain: hit: "))?;
    let ms: f64 = line.strip_suffix(" ms")?.rsplit_once(" in ")?.1.parse().ok()?;
    Some(ms / 1000.0)
}

fn lines(guests: &[Guest], lessons: &[Lesson], results: &[Measured]) -> String {
    let mut lines = vec![
        "| guest | native | hybrid | sync only | steps | hand-overs | constraints | recorded to learn | learned offline |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut columns: [Vec<f64>; 2] = Default::default();
    for ((guest, lesson), measured) in guests.iter().zip(lessons).zip(results) {
        let native_ms = table::median(measured.native.iter().copied()) * 1000.0;
        let ratio = |samples: &[f64]| {
            let pairs = samples.iter().zip(&measured.native);
            table::median(pairs.map(|(sample, native)| sample / native))
        };
        let (hybrid, sync_only) = (ratio(&measured.hybrid), ratio(&measured.sync_only));
        columns[0].push(hybrid);
        columns[1].push(sync_only);
        lines.push(format!(
            "| {} | {native_ms:.1} ms | {hybrid:.2}× | {sync_only:.2}× | {} | {} | {} | {:.1}× | {:.0} ms |",
            guest.name,
            table::grouped(lesson.steps),
            table::grouped(lesson.hand_overs),
            table::grouped(lesson.constraints),
            lesson.recording_ms / native_ms,
            lesson.offline_ms,
        ));
    }
    let [hybrid, sync_only] = columns.map(table::geometric_mean);
    lines.push(format!(
        "| **geometric mean** | | **{hybrid:.2}×** | **{sync_only:.2}×** | | | | | |"
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_overs_are_counted() {
        let steps = "steps\n     1  t0  Spawn\n     2  t1  Start\n     3  t1  Exit\n     4  t0  Join o1\nconstraints\n    <a.c:1, t1, 2, 0> -> <a.c:2, t0, 1, 1>\n";
        assert_eq!(hand_overs(steps), 2);
    }

    #[test]
    fn reports_have_a_time() {
        let report = "refrain: hit: schedule 3ba8 enforced: 2 threads, 13 synchronisations, 1 constraint in 3.1 ms\n";
        assert_eq!(enforced_s(report), Some(0.0031));
        assert_eq!(enforced_s("refrain: miss: learned"), None);
    }
}
