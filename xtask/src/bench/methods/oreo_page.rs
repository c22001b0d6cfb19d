//! The page about OREO and STRIDE: the paper's figures beside ours.
use super::Options;
use super::oreo::MEASURED_OPERATIONS;
use super::oreo::OPERATIONS;
use super::oreo::PROGRAMS;
use super::oreo::RUNS;
use super::oreo::Row;
use super::statistics::Summary;
use crate::bench::table::bytes;
use crate::bench::table::grouped;
use crate::bench::table::median;

/// Table I in kB and table II, by threads.
const PAPER_BANK: [(u32, [u32; 4], [&str; 4]); 3] = [
    (2, [45, 74, 305, 597], ["5 s", "50 s", "3 h 56 min", "> 8 h"]),
    (4, [47, 77, 307, 598], ["23 s", "4 min 22 s", "5 h 16 min", "> 8 h"]),
    (8, [54, 82, 311, 603], ["59 s", "4 min 1 s", "7 h 1 min", "> 8 h"]),
];

pub fn page(banks: &[Row], programs: &[Row], options: &Options) -> String {
    let mut text = format!(
        "![Overhead of the unsynchronised bank](methods-bank.svg)\n\n\
         OREO's figure 2. A run of so few operations takes microseconds; so its transfers and checks are repeated, {} transfers in all, and \
         the processor time of that is compared. Each bar is the median of {} runs, each against the native run before it. {}\n\n\
         OREO's tables I and II: one round, recorded with chaos so that threads meet; medians of {} runs, conflicts of all. Z3 has the \
         formula of one run; after it was stopped, larger ones were not tried. The paper's logs are JSON.\n\n{}\n\n",
        grouped(u64::from(MEASURED_OPERATIONS)),
        RUNS * options.repetitions,
        averages(banks),
        RUNS * options.repetitions,
        bank_table(banks) + &reasons(banks)
    );
    text += &format!(
        "OREO's table III. In the paper's column: threads, shared accesses, overhead of OREO and of STRIDE, log, conflicts, solving.\n\n{}\n\n",
        program_table(programs) + &reasons(programs)
    );
    text += &super::goals(&goals(banks));
    text
}

fn bank_table(banks: &[Row]) -> String {
    let mut lines = vec![
        "| threads | operations | accesses | OREO adds | STRIDE adds | log | paper | conflicts | linked by versions | by search | solving | replayed | Z3 | paper |"
            .to_owned(),
        format!("|{}", "---|".repeat(14)),
    ];
    for row in banks {
        let paper = PAPER_BANK.iter().find(|(threads, ..)| *threads == row.threads);
        let size = OPERATIONS.iter().position(|operations| *operations == row.operations);
        let (log, solving) = match (paper, size) {
            (Some((_, logs, times)), Some(index)) => (format!("{} kB", logs[index]), times[index]),
            _ => (String::new(), ""),
        };
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} | {log} | {} | {} | {} | {} | {} | {} | {solving} |",
            row.threads,
            row.operations,
            shown(&row.accesses, whole),
            shown(&row.overheads[0], percent),
            shown(&row.overheads[1], percent),
            shown(&row.log_bytes, bytes),
            conflicts(row),
            shown(&row.by_versions, whole),
            shown(&row.by_search, whole),
            row.solved(),
            row.replays(),
            row.z3
        ));
    }
    lines.join("\n")
}

fn averages(banks: &[Row]) -> String {
    let average = |index| {
        let values: Vec<f64> = banks.iter().filter_map(|row| row.overhead(index)).collect();
        Summary::of(&values).map(|summary| summary.average)
    };
    match (average(0), average(1)) {
        (Some(oreo), Some(stride)) => format!(
            "On average OREO adds {} and STRIDE {}, {:.1} times as much; in the paper 45 % and 64 %, 1.4 times as much, of whole Java programs. What \
             is measured here is nothing but the accesses.",
            percent(oreo),
            percent(stride),
            stride / oreo
        ),
        _ => "Not all of it could be measured.".to_owned(),
    }
}

/// All that there were, and in how many runs.
fn conflicts(row: &Row) -> String {
    match row.conflicts.len() {
        0 => shown(&row.conflicts, whole),
        runs => format!("{:.0} in {runs} runs", row.conflicts.iter().sum::<f64>()),
    }
}

fn program_table(rows: &[Row]) -> String {
    let mut lines = vec![
        "| program | paper | threads | shared accesses | OREO adds | STRIDE adds | log | conflicts | solving | replayed |"
            .to_owned(),
        format!("|{}", "---|".repeat(10)),
    ];
    for (row, (.., paper)) in rows.iter().zip(PROGRAMS) {
        lines.push(format!(
            "| {} | {paper} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            row.threads,
            shown(&row.accesses, whole),
            shown(&row.overheads[0], percent),
            shown(&row.overheads[1], percent),
            shown(&row.log_bytes, bytes),
            conflicts(row),
            row.solved(),
            row.replays()
        ));
    }
    lines.join("\n")
}

fn goals(banks: &[Row]) -> Vec<(String, String, Option<bool>)> {
    let pairs: Vec<(&Row, f64, f64)> = banks
        .iter()
        .filter_map(|row| Some((row, row.overhead(0)?, row.overhead(1)?)))
        .collect();
    let dearer: Vec<String> = pairs
        .iter()
        .filter(|(_, oreo, stride)| oreo >= stride)
        .map(|(row, ..)| row.name())
        .collect();
    let measured = match (pairs.len(), dearer.is_empty()) {
        (0, _) => "?".to_owned(),
        (all, true) => format!("{all} of {all}"),
        (all, false) => format!("{} of {all}; not with {}", all - dearer.len(), dearer.join(", ")),
    };
    let largest: Vec<&Row> = banks.iter().filter(|row| row.operations == 1000).collect();
    let slowest = largest
        .iter()
        .flat_map(|row| row.solve_ms.iter().copied())
        .reduce(f64::max);
    let (runs, solved) = largest.iter().fold((0, 0), |(runs, solved), row| {
        (runs + row.runs, solved + row.solve_ms.len())
    });
    vec![
        (
            "OREO adds less than STRIDE to every bank".to_owned(),
            measured,
            (!pairs.is_empty()).then_some(dearer.is_empty()),
        ),
        (
            "the bank with 1000 operations is solved in seconds (the paper gave up after 8 h): at most 10 s".to_owned(),
            slowest.map_or(format!("{solved} of {runs} solved"), |slowest| {
                format!("{solved} of {runs} solved, in at most {}", milliseconds(slowest))
            }),
            (runs > 0).then_some(solved == runs && slowest.is_some_and(|slowest| slowest <= 10_000.0)),
        ),
    ]
}

impl Row {
    fn is_solved(&self) -> bool {
        self.runs > 0 && self.solve_ms.len() == self.runs
    }

    fn solved(&self) -> String {
        let time = shown(&self.solve_ms, milliseconds);
        match self.is_solved() {
            true => time,
            false => format!("{time}, {} of {}", self.solve_ms.len(), self.runs),
        }
    }

    fn replays(&self) -> String {
        format!("{} of {}", self.replayed, self.runs)
    }

    fn name(&self) -> String {
        match self.operations {
            0 => self.name.clone(),
            operations => format!("{} threads, {operations} operations", self.threads),
        }
    }
}

fn shown(values: &[f64], figure: impl Fn(f64) -> String) -> String {
    match values.is_empty() {
        false => figure(median(values.iter().copied())),
        true => "–".to_owned(),
    }
}

/// Why there are gaps in a table, below it.
fn reasons(rows: &[Row]) -> String {
    let reason = |row: &Row| Some(format!("\n\n{}: {}.", row.name(), row.reason.as_ref()?));
    rows.iter().filter_map(reason).collect()
}

fn whole(value: f64) -> String {
    grouped(value.round() as u64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub fn milliseconds(value: f64) -> String {
    match value {
        short if short < 1.0 => "< 1 ms".to_owned(),
        short if short < 1e3 => format!("{short:.0} ms"),
        long => format!("{:.1} s", long / 1e3),
    }
}
