//! What the search for edits costs (docs/search.md), in the columns of the paper's tables 3 and 4: the guests of `tests/guests/searched`, `copied` and
//! `large`, one recording of each, searched in several ways by turns.
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

/// Searches that have found nothing by then are stopped, unless `--limit` says otherwise.
const LIMIT_S: u64 = 60;
/// A recording is taken if the full search finds something in this time; there is another one.
const FIRST_LIMIT_S: u64 = 20;
/// Recordings of a guest before it is given up that one needs a search.
const RECORDINGS_MAX: usize = 150;
/// Searches of recordings that found nothing, before the guest is given up.
const UNFOUND_MAX: usize = 5;

const DIRECTORIES: [&str; 3] = ["tests/guests/searched", "tests/guests/copied", "tests/guests/large"];

/// A way to search.
struct Way {
    name: &'static str,
    /// For `refrain solve`.
    options: &'static [&'static str],
}

/// To add one, add it here and to `SearchTuning` of the command line. The first is what the others are compared with.
const WAYS: [Way; 7] = [
    Way {
        name: "full",
        options: &[],
    },
    Way {
        name: "without checkpoints",
        options: &["--no-checkpoints"],
    },
    Way {
        name: "without cache",
        options: &["--tuning", "no-cache"],
    },
    Way {
        name: "without windows",
        options: &["--tuning", "no-windows"],
    },
    Way {
        name: "moves of the paper only",
        options: &["--tuning", "no-advances"],
    },
    // PRES has no checkpoints, nor has the paper.
    Way {
        name: "PRES-like",
        options: &["--tuning", "pres-like", "--no-checkpoints"],
    },
    Way {
        name: "PRES-like with checkpoints",
        options: &["--tuning", "pres-like"],
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
    /// Nothing was left to try.
    has_given_up: bool,
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
    /// Recordings before this one for which the full search found nothing.
    unfound: usize,
    ways: Vec<Vec<Found>>,
}

pub fn search(arguments: &[&str]) -> Result<(), Failure> {
    let (limit_s, rest) = match arguments.iter().position(|argument| *argument == "--limit") {
        Some(at) => {
            let limit_s = arguments.get(at + 1).and_then(|value| value.parse().ok());
            let limit_s = limit_s.ok_or_else(|| Failure::new("--limit needs a number of seconds"))?;
            (limit_s, [&arguments[..at], &arguments[at + 2..]].concat())
        }
        None => (LIMIT_S, arguments.to_vec()),
    };
    let options = Options::parse("search", "--guests", 3, &rest)?;
    crate::setup::setup()?;
    crate::build()?;
    let text = measure(&options.names, options.repetitions, limit_s)?;
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!(
            "cargo xtask bench search --repetitions {} --limit {limit_s}",
            options.repetitions
        );
        table::write(&root().join("docs/benchmarks.md"), "search", &command, &text)?;
    }
    Ok(())
}

/// The table; of all guests if no names are given. The tool has been built.
pub fn measure(names: &[String], repetitions: usize, limit_s: u64) -> Result<String, Failure> {
    let folder = target().join("bench-search");
    fs::create_dir_all(&folder)?;
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for guest in guests(names, &folder)? {
        let (run, unfound) = record(&guest, &folder)?;
        let Some(run) = run else {
            eprintln!("xtask: {}: no recording was searched for with success", guest.name);
            left_out.push(format!("{} ({unfound})", guest.name));
            continue;
        };
        let mut ways: Vec<Vec<Found>> = WAYS.iter().map(|_| Vec::new()).collect();
        for repetition in 0..repetitions {
            for (way, found) in WAYS.iter().zip(&mut ways) {
                // What took all of its time would do so again.
                if found.iter().all(|one| one.is_found) {
                    let name = &guest.name;
                    eprintln!("xtask: {name}, {} ({} of {repetitions})", way.name, repetition + 1);
                    found.push(solve(&run, way, limit_s)?);
                }
            }
        }
        fs::remove_dir_all(&run)?;
        rows.push(Row {
            guest: guest.name,
            unfound,
            ways,
        });
    }
    let mut text = lines(&rows, limit_s);
    if !left_out.is_empty() {
        text += &format!(
            "\n\nLeft out, since the full search found nothing in {FIRST_LIMIT_S} s or the order of inputs was enough (in brackets, recordings for which it found nothing): {}.",
            left_out.join(", ")
        );
    }
    Ok(text)
}

fn guests(names: &[String], folder: &Path) -> Result<Vec<Guest>, Failure> {
    let mut sources = Vec::new();
    for directory in DIRECTORIES {
        for entry in fs::read_dir(root().join(directory))? {
            sources.push(entry?.path());
        }
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

/// A recording that needs a search, if there is one for which the full search finds something; and for how many it found nothing.
fn record(guest: &Guest, folder: &Path) -> Result<(Option<PathBuf>, usize), Failure> {
    let run = folder.join(format!("{}.run", guest.name));
    let mut unfound = 0;
    for _ in 0..RECORDINGS_MAX {
        if run.exists() {
            fs::remove_dir_all(&run)?;
        }
        let status = Command::new(refrain())
            .args([
                "record",
                "--scope",
                "inputs",
                "--no-sync-order",
                "--timeout",
                "10",
                "-o",
            ])
            .arg(&run)
            .arg("--")
            .arg(&guest.program)
            .env("REFRAIN_DIR", folder.join("store"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if status.code() != Some(guest.status) {
            continue;
        }
        let first = solve(&run, &WAYS[0], FIRST_LIMIT_S)?;
        if first.is_found && first.count("failures") > 0 {
            return Ok((Some(run), unfound));
        }
        unfound += usize::from(!first.is_found);
        if unfound == UNFOUND_MAX {
            break;
        }
    }
    Ok((None, unfound))
}

fn solve(run: &Path, way: &Way, limit_s: u64) -> Result<Found, Failure> {
    let output = Command::new(refrain())
        .args(["solve", "--json", "--again"])
        .args(way.options)
        .args(["--max-time", &limit_s.to_string()])
        .arg(run)
        .stderr(Stdio::null())
        .output()?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure::new(format!("refrain solve wrote malformed JSON: {e}")))?;
    let (is_found, seconds) = (
        answer["found"] == true,
        answer["elapsed_ms"].as_f64().unwrap_or(f64::NAN) / 1e3,
    );
    Ok(Found {
        is_found,
        has_given_up: !is_found && seconds < limit_s as f64,
        seconds,
        answer,
    })
}

fn lines(rows: &[Row], limit_s: u64) -> String {
    let mut lines = vec![
        "| guest | way | failures | cache hits | coarse | memory traces | fine | all attempts | seconds |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for row in rows {
        for (index, (way, found)) in WAYS.iter().zip(&row.ways).enumerate() {
            let Some(one) = found.last() else { continue };
            let guest = if index == 0 { row.guest.as_str() } else { "" };
            lines.push(format!(
                "| {guest} | {} | {} | {} | {} | {} | {} | {} | {} |",
                way.name,
                one.count("failures"),
                one.count("cache_hits"),
                one.count("coarse"),
                one.count("access_traces"),
                one.count("fine"),
                one.answer["attempts"],
                time(found, limit_s),
            ));
        }
    }
    lines.push(String::new());
    lines.push(format!(
        "A search was stopped after {limit_s} s. Against the full search, whose seconds on the same guests are beside: the sums of the seconds and the \
         geometric mean of the ratios, over those of the {} guests for which the way found something, or had not when it was stopped (then it \
         would have taken longer than it counts for). Where it gave up, since nothing was left to try, there is no time to compare.",
        rows.len()
    ));
    lines.push(String::new());
    lines.push(
        "| way | found | stopped | gave up | seconds | full search | ratio of the sums | geometric mean | tenfold |"
            .to_owned(),
    );
    lines.push("|---|---|---|---|---|---|---|---|---|".to_owned());
    lines.extend((0..WAYS.len()).map(|way| together(rows, way)));
    lines.push(String::new());
    lines.push(
        "| guest | events in the log | window: preemptions | window: races | recordings not found before |".to_owned(),
    );
    lines.push("|---|---|---|---|---|".to_owned());
    for row in rows {
        let Some(one) = row.ways[0].last() else { continue };
        let average = |sum: &str, count: &str| match one.count(count) {
            0 => "-".to_owned(),
            count => format!("{:.1}", one.count(sum) as f64 / count as f64),
        };
        lines.push(format!(
            "| {} | {} | {} | {} | {} |",
            row.guest,
            one.answer["events"],
            average("window_preemptions", "windows"),
            average("window_races", "windows_traced"),
            row.unfound,
        ));
    }
    lines.join("\n")
}

fn seconds(found: &[Found]) -> f64 {
    table::median(found.iter().map(|one| one.seconds))
}

/// How long it took, or why it has no time.
fn time(found: &[Found], limit_s: u64) -> String {
    match found.last() {
        Some(one) if one.has_given_up => format!("nothing is left to try after {:.1}", one.seconds),
        Some(one) if !one.is_found => format!("not found in {limit_s}"),
        _ => format!("{:.2}", seconds(found)),
    }
}

/// A line for one way and all guests.
fn together(rows: &[Row], way: usize) -> String {
    let (mut own, mut full, mut ratios) = (0.0, 0.0, Vec::new());
    let (mut is_found, mut given_up) = (0, 0);
    for row in rows {
        let Some(one) = row.ways[way].last() else { continue };
        is_found += usize::from(one.is_found);
        given_up += usize::from(one.has_given_up);
        if !one.has_given_up {
            let (this, that) = (seconds(&row.ways[way]), seconds(&row.ways[0]));
            own += this;
            full += that;
            ratios.push(this / that);
        }
    }
    let tenfold = ratios.iter().filter(|ratio| **ratio >= 10.0).count();
    format!(
        "| {} | {is_found} of {} | {} | {given_up} | {own:.1} | {full:.1} | {:.1}× | {:.1}× | {tenfold} of {} |",
        WAYS[way].name,
        rows.len(),
        rows.len() - is_found - given_up,
        own / full,
        table::geometric_mean(ratios.clone()),
        ratios.len(),
    )
}
