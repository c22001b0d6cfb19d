//! What the search for moves costs (docs/search.md), in the columns of the paper's tables 3 and 4: the guests of `tests/guests/searched`,
//! one recording of each, searched in several ways by turns.
//!
//! A recording is taken if it ends as the guest says and the order of its inputs alone does not bring it back. Guests that hang are left out: where
//! they do, they mostly stand without a search.
use super::Options;
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
use std::process::Stdio;

/// Searches that have found nothing by then are stopped.
const LIMIT_S: u64 = 20;
/// Recordings of a guest before it is given up that one needs a search.
const RECORDINGS_MAX: usize = 150;

/// A way to search.
struct Way {
    name: &'static str,
    /// For `refrain solve --tuning`.
    tuning: &'static str,
}

/// To add one, add it here and to `SearchTuning` of the command line. The first is what the others are compared with.
const WAYS: [Way; 5] = [
    Way {
        name: "full",
        tuning: "full",
    },
    Way {
        name: "without cache",
        tuning: "no-cache",
    },
    Way {
        name: "without windows",
        tuning: "no-windows",
    },
    Way {
        name: "moves of the paper only",
        tuning: "no-advances",
    },
    Way {
        name: "PRES-like",
        tuning: "pres-like",
    },
];

struct Guest {
    name: String,
    program: PathBuf,
    /// What refrain ends with when it records a run that is wanted.
    status: i32,
}

/// One search.
struct Found {
    answer: Value,
    is_found: bool,
    seconds: f64,
}

impl Found {
    fn count(&self, name: &str) -> u64 {
        self.answer["statistics"][name].as_u64().unwrap_or(0)
    }
}

/// The searches of one guest's recording, by way.
struct Row {
    guest: String,
    ways: Vec<Vec<Found>>,
}

pub fn search(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("search", "--guests", 3, arguments)?;
    crate::setup::setup()?;
    crate::build()?;
    let text = measure(&options.names, options.repetitions)?;
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!("cargo xtask bench search --repetitions {}", options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "search", &command, &text)?;
    }
    Ok(())
}

/// The table; of all guests if no names are given. The tool has been built.
pub fn measure(names: &[String], repetitions: usize) -> Result<String, Failure> {
    let folder = target().join("bench-search");
    fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for guest in guests(names, &folder)? {
        let Some(run) = record(&guest, &folder)? else {
            eprintln!("xtask: {}: no recording needed a search", guest.name);
            continue;
        };
        let mut ways: Vec<Vec<Found>> = WAYS.iter().map(|_| Vec::new()).collect();
        for repetition in 0..repetitions {
            for (way, found) in WAYS.iter().zip(&mut ways) {
                // What took all of its time would do so again.
                if found.iter().all(|one| one.is_found) {
                    let name = &guest.name;
                    eprintln!("xtask: {name}, {} ({} of {repetitions})", way.name, repetition + 1);
                    found.push(solve(&run, way)?);
                }
            }
        }
        fs::remove_dir_all(&run)?;
        rows.push(Row {
            guest: guest.name,
            ways,
        });
    }
    Ok(lines(&rows))
}

fn guests(names: &[String], folder: &Path) -> Result<Vec<Guest>, Failure> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(root().join("tests/guests/searched"))? {
        sources.push(entry?.path());
    }
    sources.sort();
    let mut guests = Vec::new();
    for source in sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let head = fs::read_to_string(&source)?;
        let said = |key: &str| {
            let line = head
                .lines()
                .find_map(|line| line.strip_prefix("//# ")?.strip_prefix(key));
            line.and_then(|rest| rest.strip_prefix(": ")).map(str::to_owned)
        };
        let status = match said("fails").as_deref() {
            None => 0,
            Some("assert") => 134,
            Some("hang") => continue,
            Some("signal SEGV") => 139,
            Some(other) => other.strip_prefix("exit ").and_then(|n| n.parse().ok()).unwrap_or(0),
        };
        let program = folder.join(&name);
        Command::new("clang-22")
            .args(["-O2", "-pthread", "-o"])
            .arg(&program)
            .arg(&source)
            .run()?;
        guests.push(Guest { name, program, status });
    }
    Ok(guests)
}

/// A recording that needs a search, if there is one.
fn record(guest: &Guest, folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let run = folder.join(format!("{}.run", guest.name));
    for _ in 0..RECORDINGS_MAX {
        if run.exists() {
            fs::remove_dir_all(&run)?;
        }
        let status = Command::new(refrain())
            .args(["record", "--scope", "inputs", "--timeout", "10", "-o"])
            .arg(&run)
            .arg("--")
            .arg(&guest.program)
            .env("REFRAIN_DIR", folder.join("store"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if status.code() == Some(guest.status) {
            let first = solve(&run, &WAYS[0])?;
            if first.is_found && first.count("failures") > 0 {
                return Ok(Some(run));
            }
        }
    }
    Ok(None)
}

fn solve(run: &Path, way: &Way) -> Result<Found, Failure> {
    let output = Command::new(refrain())
        .args(["solve", "--json", "--again", "--tuning", way.tuning, "--max-time"])
        .arg(LIMIT_S.to_string())
        .arg(run)
        .stderr(Stdio::null())
        .output()?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure::new(format!("refrain solve wrote malformed JSON: {e}")))?;
    Ok(Found {
        is_found: answer["found"] == true,
        seconds: answer["elapsed_ms"].as_f64().unwrap_or(f64::NAN) / 1e3,
        answer,
    })
}

fn lines(rows: &[Row]) -> String {
    let mut lines = vec![
        "| guest | way | failures | cache hits | coarse | memory traces | fine | all attempts | seconds |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut sums: Vec<f64> = WAYS.iter().map(|_| 0.0).collect();
    let mut unfound: Vec<usize> = WAYS.iter().map(|_| 0).collect();
    let mut ratios: Vec<Vec<f64>> = WAYS.iter().map(|_| Vec::new()).collect();
    for row in rows {
        let seconds: Vec<f64> = row
            .ways
            .iter()
            .map(|found| table::median(found.iter().map(|one| one.seconds)))
            .collect();
        for (index, (way, found)) in WAYS.iter().zip(&row.ways).enumerate() {
            let Some(one) = found.last() else { continue };
            let time = match one.is_found {
                true => format!("{:.2}", seconds[index]),
                false => outcome(one),
            };
            sums[index] += seconds[index];
            unfound[index] += usize::from(!one.is_found);
            ratios[index].push(seconds[index] / seconds[0]);
            let guest = if index == 0 { row.guest.as_str() } else { "" };
            lines.push(format!(
                "| {guest} | {} | {} | {} | {} | {} | {} | {} | {time} |",
                way.name,
                one.count("failures"),
                one.count("cache_hits"),
                one.count("coarse"),
                one.count("access_traces"),
                one.count("fine"),
                one.answer["attempts"],
            ));
        }
    }
    lines.push(String::new());
    lines.push(format!(
        "A search was stopped after {LIMIT_S} s. Of {} guests, all together and against the full search:",
        rows.len()
    ));
    lines.push(String::new());
    lines.push("| way | found | seconds, at least | ratio of the seconds: sums | geometric mean |".to_owned());
    lines.push("|---|---|---|---|---|".to_owned());
    for (index, way) in WAYS.iter().enumerate() {
        lines.push(format!(
            "| {} | {} of {} | {:.1} | {:.1}× | {:.1}× |",
            way.name,
            rows.len() - unfound[index],
            rows.len(),
            sums[index],
            sums[index] / sums[0],
            table::geometric_mean(ratios[index].clone())
        ));
    }
    lines.push(String::new());
    lines.push("| guest | events in the log | window: preemptions | window: races |".to_owned());
    lines.push("|---|---|---|---|".to_owned());
    for row in rows {
        let Some(one) = row.ways[0].last() else { continue };
        let average = |sum: &str, count: &str| match one.count(count) {
            0 => "-".to_owned(),
            count => format!("{:.1}", one.count(sum) as f64 / count as f64),
        };
        lines.push(format!(
            "| {} | {} | {} | {} |",
            row.guest,
            one.answer["events"],
            average("window_preemptions", "windows"),
            average("window_races", "windows_traced"),
        ));
    }
    lines.join("\n")
}

/// Why there is no time.
fn outcome(one: &Found) -> String {
    match one.seconds >= LIMIT_S as f64 {
        true => format!("not found in {LIMIT_S}"),
        false => format!("nothing is left to try after {:.1}", one.seconds),
    }
}
