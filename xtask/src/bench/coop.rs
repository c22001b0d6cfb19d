//! What recording a part of the elements costs (method coop), against recording all of them: CoopREP, table VI and figures 4 to 6:
//! kernels that compute, and the fleet's guests, which fail. Once as the paper does it, and once with what a server says of elements.
mod advice;

use super::Options;
use super::fleet::paper::GUESTS;
use super::limited;
use super::methods::guest_source;
use super::methods::program::Taken;
use super::methods::program::taken;
use super::methods::speed::SUBJECTS;
use super::table;
use super::table::median;
use crate::bench::directive;
use crate::command::Failure;
use crate::refrain;
use crate::root;
use crate::target;
use advice::Server;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// In percent; and whether clients know what a server says of the elements.
const SHARES: [(u32, bool); 5] = [(10, false), (25, false), (50, false), (100, false), (25, true)];
/// Of these: a quarter, all, and a quarter of what is worth it.
const QUARTER: usize = 1;
const ALL: usize = 3;
const ADVISED: usize = 4;
/// As many logs of each share as the paper has.
const PATTERNS: usize = 10;
const LIMIT: Duration = Duration::from_secs(120);
/// More than this the log of one run is not to have.
const LOG_BYTES_MAX: &str = "2G";

/// Table VI, in percent: 10 %, 25 %, 50 %, all.
const PAPER: [(&str, [f64; 4]); 5] = [
    ("raytracer", [1757.5, 9566.7, 17452.1, 92908.4]),
    ("sparsematmult", [571.6, 598.2, 1725.5, 2606.7]),
    ("sor", [0.8, 1.1, 2.0, 2.7]),
    ("montecarlo", [1.1, 1.5, 2.3, 7.3]),
    ("series", [0.08, 0.1, 0.4, 6.5]),
];

/// The fleet's guests last some ten milliseconds, and now and then one of them hangs: then the next run counts.
const BUG_LIMIT: Duration = Duration::from_secs(3);
const BUG_TRIES_MAX: usize = 20;
/// What figure 4 has at 25 % of each program with a bug: less than this is added.
const BUG_GOAL: f64 = 0.1;

/// A guest, built as it is and for partial recordings.
struct Guest {
    name: &'static str,
    /// Of kernels, which compute; programs with bugs pause, and what counts is how long they take.
    paper: Option<[f64; 4]>,
    native: PathBuf,
    parted: PathBuf,
}

/// Of one share: added processor time, or time of a program with a bug, in units of the native run; and bytes of log. One for each run.
#[derive(Default)]
struct Column {
    added: Vec<f64>,
    native_s: Vec<f64>,
    log_bytes: Vec<f64>,
}

type Columns = [Column; SHARES.len()];
type Row = (Guest, Columns);

pub fn coop(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("coop", "--guests", 1, arguments)?;
    crate::setup::setup()?;
    crate::build()?;
    limited::rule_out_core_files()?;
    let folder = target().join("bench/coop");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let server = Server::start(&folder)?;
    let is_chosen = |name: &str| options.names.is_empty() || options.names.iter().any(|chosen| chosen == name);
    let mut rows = Vec::new();
    for (name, paper) in PAPER.into_iter().filter(|(name, _)| is_chosen(name)) {
        let guest = build_kernel(name, paper, &folder)?;
        let columns = measure(&guest, &server, options.repetitions, &folder)?;
        rows.push((guest, columns));
    }
    for guest in GUESTS.iter().filter(|guest| is_chosen(guest.name)) {
        let guest = build_both(guest.name, None, &root().join(guest.source), &["-O2"], &folder)?;
        let columns = measure(&guest, &server, options.repetitions, &folder)?;
        rows.push((guest, columns));
    }
    let text = page(&rows);
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!("cargo xtask bench coop --repetitions {}", options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "coop", &command, &text)?;
    }
    Ok(())
}

fn build_kernel(name: &'static str, paper: [f64; 4], folder: &Path) -> Result<Guest, Failure> {
    let subject = SUBJECTS.iter().find(|subject| subject.name() == name);
    let subject = subject.ok_or_else(|| Failure::new(format!("there is no guest {name}")))?;
    let source = guest_source("bench", subject.file);
    let text = fs::read_to_string(&source)?;
    let flags = directive(&text, "flags").unwrap_or_else(|| "-O2".to_owned());
    let mut words: Vec<&str> = flags.split_whitespace().collect();
    words.push("-DTHREADS=2");
    words.extend(subject.defines.split(' '));
    build_both(name, Some(paper), &source, &words, folder)
}

fn build_both(
    name: &'static str,
    paper: Option<[f64; 4]>,
    source: &Path,
    flags: &[&str],
    folder: &Path,
) -> Result<Guest, Failure> {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let compile = |mut compiler: Command, program: PathBuf| {
        compiler.arg(if is_cpp { "-std=c++20" } else { "-std=gnu11" });
        compiler.args(["-g", "-pthread", "-include"]);
        compiler.arg(root().join("tests/methods/measure.h"));
        compiler.args(flags).arg(source).arg("-o").arg(&program).arg("-lm");
        let ended = limited::run(compiler, LIMIT)?;
        match ended.status {
            Some(0) => Ok(program),
            _ => Err(Failure::new(format!("{name} does not build: {}", ended.reason()))),
        }
    };
    let mut ours = Command::new(refrain());
    ours.args([if is_cpp { "c++" } else { "cc" }, "--coop"]);
    let plain = Command::new(if is_cpp { "clang++-22" } else { "clang-22" });
    Ok(Guest {
        name,
        paper,
        native: compile(plain, folder.join(format!("{name}.native")))?,
        parted: compile(ours, folder.join(format!("{name}.coop")))?,
    })
}

fn measure(guest: &Guest, server: &Server, repetitions: usize, folder: &Path) -> Result<Columns, Failure> {
    let (plain, advised) = (folder.join("runs"), folder.join("runs-advised"));
    server.advise(&advised, || {
        record(guest, 100, 0, &plain)?;
        Ok(plain.join("run"))
    })?;
    let mut columns: Columns = Default::default();
    for repetition in 0..repetitions * PATTERNS {
        eprintln!(
            "xtask: {} ({} of {})",
            guest.name,
            repetition + 1,
            repetitions * PATTERNS
        );
        let pattern = repetition % PATTERNS;
        let native = guest.measured(|| Ok(Command::new(&guest.native)))?;
        for ((share, is_advised), column) in SHARES.into_iter().zip(&mut columns) {
            let store = if is_advised { &advised } else { &plain };
            let (recorded, log_bytes) = record(guest, share, pattern, store)?;
            column.added.push(guest.time(recorded) / guest.time(native) - 1.0);
            column.native_s.push(guest.time(native));
            column.log_bytes.push(log_bytes);
        }
    }
    Ok(columns)
}

impl Guest {
    fn time(&self, taken: Taken) -> f64 {
        match self.paper {
            Some(_) => taken.cpu_s,
            None => taken.wall_s,
        }
    }

    /// What the program says that it took. One with a bug may hang, and is run again then.
    fn measured(&self, command: impl Fn() -> Result<Command, Failure>) -> Result<Taken, Failure> {
        let (limit, tries) = match self.paper {
            Some(_) => (LIMIT, 1),
            None => (BUG_LIMIT, BUG_TRIES_MAX),
        };
        let mut why = String::new();
        for _ in 0..tries {
            let ended = limited::run(command()?, limit)?;
            match taken(&ended.stderr) {
                Some(taken) => return Ok(taken),
                None => why = ended.reason(),
            }
        }
        Err(Failure::new(format!("{}: {why}", self.name)))
    }
}

/// By a client whose runs directory is `store`: there it keeps what servers have said.
fn record(guest: &Guest, share: u32, pattern: usize, store: &Path) -> Result<(Taken, f64), Failure> {
    let run = store.join("run");
    let taken = guest.measured(|| {
        if run.exists() {
            fs::remove_dir_all(&run)?;
        }
        let mut command = Command::new(refrain());
        command.env("REFRAIN_DIR", store);
        command.args(["record", "--method", "coop", "--max-size", LOG_BYTES_MAX]);
        command.args(["--share", &format!("{share}%"), "--pattern", &pattern.to_string()]);
        command.arg("-o").arg(&run).arg("--").arg(&guest.parted);
        Ok(command)
    })?;
    let meta: Value = serde_json::from_slice(&fs::read(run.join("run.json"))?)
        .map_err(|error| Failure::new(format!("{}: run.json: {error}", guest.name)))?;
    Ok((taken, meta["ending"]["log_bytes"].as_f64().unwrap_or(f64::NAN)))
}

fn page(rows: &[Row]) -> String {
    let mut text = String::new();
    kernels(&mut text, rows);
    bugs(&mut text, rows);
    sizes(&mut text, rows);
    text
}

fn added(columns: &Columns) -> [f64; SHARES.len()] {
    columns.each_ref().map(|column| median(column.added.iter().copied()))
}

fn kernels(text: &mut String, rows: &[Row]) {
    *text += &format!(
        "Added processor time by the share of elements that is recorded, medians over {PATTERNS} patterns; in brackets the paper's (table VI). *Advised*: the client knows what a server says of 20 logs of this program, so it records a quarter of the elements that more than one thread uses and somebody changes meanwhile.\n\n"
    );
    *text += "| guest | 10 % | 25 % | 50 % | 100 % | 25 %, advised | 25 % of 100 %, paper | ours | advised | |\n|---|---|---|---|---|---|---|---|---|---|\n";
    for (guest, columns) in rows {
        let Some(of_paper) = guest.paper else { continue };
        let added = added(columns);
        let cells = added
            .iter()
            .zip(of_paper)
            .map(|(ours, paper)| format!("{} ({paper} %)", percent(*ours)));
        let ratio = of_paper[QUARTER] / of_paper[ALL];
        let (ours, advised) = (added[QUARTER] / added[ALL], added[ADVISED] / added[ALL]);
        let verdict = verdict(advised <= ratio || added[ADVISED] <= spread(&columns[ADVISED].added));
        *text += &format!(
            "| {} | {} | {} | {ratio:.3} | {ours:.3} | {advised:.3} | {verdict} |\n",
            guest.name,
            cells.collect::<Vec<_>>().join(" | "),
            percent(added[ADVISED])
        );
    }
}

fn bugs(text: &mut String, rows: &[Row]) {
    *text += &format!(
        "\nAdded time of the programs with bugs, medians over {PATTERNS} patterns, with the quartiles at 25 % (the paper's figure 4, which has less than 10 % at 25 % for each).\n\n"
    );
    *text += "| guest | native | 10 % | 25 % | 50 % | 100 % | 25 %, advised | added at 25 % | |\n|---|---|---|---|---|---|---|---|---|\n";
    for (guest, columns) in rows.iter().filter(|(guest, _)| guest.paper.is_none()) {
        let added = added(columns);
        let cells: Vec<String> = added.iter().map(|ours| percent(*ours)).collect();
        let [low, high] = quartiles(&columns[QUARTER].added);
        let ms = |seconds: f64| format!("{:.2} ms", seconds * 1000.0);
        let at_goal = &columns[QUARTER];
        let added_s = at_goal
            .added
            .iter()
            .zip(&at_goal.native_s)
            .map(|(added, native)| added * native);
        *text += &format!(
            "| {} | {} | {} | {} ({} to {}) | {} | {} | {} | {} | {} |\n",
            guest.name,
            ms(median(at_goal.native_s.iter().copied())),
            cells[0],
            cells[1],
            percent(low),
            percent(high),
            cells[2],
            cells[ALL],
            cells[ADVISED],
            ms(median(added_s)),
            verdict(added[QUARTER] <= BUG_GOAL)
        );
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

fn sizes(text: &mut String, rows: &[Row]) {
    *text += "\nLogs, as parts of the log of all elements (the paper's figures 5 and 6).\n\n";
    *text += "| guest | 10 % | 25 % | 50 % | log of all |\n|---|---|---|---|---|\n";
    for (guest, columns) in rows {
        let sizes = columns
            .each_ref()
            .map(|column| median(column.log_bytes.iter().copied()));
        let parts: Vec<String> = sizes[..3]
            .iter()
            .map(|size| format!("{:.3}", size / sizes[ALL]))
            .collect();
        *text += &format!(
            "| {} | {} | {} |\n",
            guest.name,
            parts.join(" | "),
            table::bytes(sizes[ALL])
        );
    }
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn quartiles(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[sorted.len() / 4], sorted[sorted.len() * 3 / 4]]
}

/// Half the distance of the quartiles: what is less cannot be told from nothing.
fn spread(values: &[f64]) -> f64 {
    let [low, high] = quartiles(values);
    (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(added: f64, log_bytes: f64) -> Column {
        Column {
            added: vec![added; 4],
            native_s: vec![0.02; 4],
            log_bytes: vec![log_bytes; 4],
        }
    }

    #[test]
    fn ratios_are_compared_with_those_of_the_paper() {
        let guest = |name, paper| Guest {
            name,
            paper,
            native: PathBuf::new(),
            parted: PathBuf::new(),
        };
        let columns = |quarter| {
            [
                column(0.1, 1.0),
                column(quarter, 2.0),
                column(3.0, 5.0),
                column(10.0, 10.0),
                column(quarter / 2.0, 1.0),
            ]
        };
        let kernel = || guest("raytracer", Some(PAPER[0].1));
        let bug = || guest("manager", None);
        let text = page(&[
            (kernel(), columns(2.0)),
            (kernel(), columns(3.0)),
            (bug(), columns(0.1)),
            (bug(), columns(0.11)),
        ]);
        let verdicts: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix("met |")).collect();
        assert!(verdicts[0].ends_with("| 0.103 | 0.200 | 0.100 | "), "{text}");
        assert!(verdicts[1].ends_with("| 0.103 | 0.300 | 0.150 | not "), "{text}");
        assert!(
            verdicts[2].ends_with("| 10.0 % (10.0 % to 10.0 %) | 300.0 % | 1000.0 % | 5.0 % | 2.00 ms | "),
            "{text}"
        );
        assert!(
            verdicts[3].ends_with("| 11.0 % (11.0 % to 11.0 %) | 300.0 % | 1000.0 % | 5.5 % | 2.20 ms | not "),
            "{text}"
        );
        assert!(text.contains("| raytracer | 0.100 | 0.200 | 0.500 | 10 B |"), "{text}");
    }
}
