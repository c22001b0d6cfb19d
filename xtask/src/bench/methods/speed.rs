//! Time and space of recording: Light, §5.2 and §5.4.
use super::Options;
use super::Section;
use super::figures;
use super::guest_source;
use super::program;
use super::program::Programs;
use super::program::Reason;
use super::program::Recipe;
use super::program::Taken;
use super::statistics;
use super::statistics::Breakdown;
use super::statistics::Summary;
use super::variant::Build;
use super::variant::Variant;
use crate::bench::table::bytes;
use crate::bench::table::geometric_mean;
use crate::bench::table::median;
use crate::command::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A guest, and what makes it so small that methods which record every access are done in about a second: some five million
/// accesses. Arrays are made smaller rather than passes fewer, because first touches cost more than later ones.
pub struct Subject {
    pub file: &'static str,
    folder: &'static str,
    pub defines: &'static str,
    /// It races, and may find that out.
    may_fail: bool,
}

const fn speed(file: &'static str, defines: &'static str) -> Subject {
    Subject {
        file,
        folder: "bench",
        defines,
        may_fail: false,
    }
}

pub const SUBJECTS: [Subject; 14] = [
    speed("bank.c", "-DSCALE=1/30"),
    Subject {
        file: "bank_racy.c",
        folder: "methods",
        defines: "-DOPERATIONS=1000 -DROUNDS=1000",
        may_fail: true,
    },
    speed("buffer_exchange.cpp", "-DSCALE=2/THREADS/20"),
    speed("crypt.c", "-DSIZE=60000"),
    speed("hash_table.c", "-DSCALE=1/30"),
    speed("lufact.c", "-DSIZE=100"),
    speed("matmul.c", "-DSIZE=50"),
    speed("montecarlo.cpp", "-DSCALE=1/15"),
    speed("pipeline.c", "-DSCALE=2/THREADS/250"),
    speed("radix.c", "-DSIZE=200000 -DSCALE=1/8"),
    speed("raytracer.cpp", "-DSCALE=1/25"),
    speed("series.c", "-DSCALE=1/20"),
    speed("sor.c", "-DSIZE=100 -DSCALE=1/9"),
    speed("sparsematmult.c", "-DSIZE=2000 -DSCALE=1/25"),
];

impl Subject {
    pub fn name(&self) -> &'static str {
        self.file.split('.').next().unwrap_or(self.file)
    }

    pub fn recipe(&self, threads: u32) -> Recipe {
        let mut defines: Vec<String> = self.defines.split(' ').map(str::to_owned).collect();
        defines.push(format!("-DTHREADS={threads}"));
        Recipe {
            name: format!("{}-{threads}", self.name()),
            source: guest_source(self.folder, self.file),
            defines,
            measured: true,
        }
    }
}

/// One recorded run against the native one of the same repetition.
struct Sample {
    cpu: f64,
    wall: f64,
    log_bytes: f64,
}

#[derive(Default)]
struct Cell {
    samples: Vec<Sample>,
    /// Of the first repetition: long integers, and those of access vectors without runs.
    longs: Option<(f64, f64)>,
    /// There is nothing to show but this.
    reason: Option<Reason>,
}

/// A guest with so many threads, in all variants.
pub struct Row {
    pub guest: &'static str,
    pub threads: u32,
    native_s: Vec<f64>,
    cells: BTreeMap<Variant, Cell>,
}

impl Row {
    fn median(&self, variant: Variant, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        let cell = self.cells.get(&variant)?;
        (cell.reason.is_none() && !cell.samples.is_empty()).then(|| median(cell.samples.iter().map(figure)))
    }

    /// Added processor time, in units of the native run.
    pub fn overhead(&self, variant: Variant) -> Option<f64> {
        self.median(variant, |sample| sample.cpu - 1.0)
    }

    pub fn log_bytes(&self, variant: Variant) -> Option<f64> {
        self.median(variant, |sample| sample.log_bytes)
    }

    pub fn longs(&self, variant: Variant) -> Option<f64> {
        self.cells.get(&variant)?.longs.map(|(longs, _)| longs)
    }

    /// What O1 and O2 take away of V_basic.
    pub fn breakdown(&self, figure: impl Fn(&Row, Variant) -> Option<f64>, floor: f64) -> Option<Breakdown> {
        let [basic, one, both] = [Variant::Basic, Variant::WithoutO2, Variant::Light].map(|v| figure(self, v));
        Breakdown::of(basic?, one?, both?, floor)
    }

    fn shown(&self, variant: Variant, figure: impl Fn(f64) -> String, value: Option<f64>) -> String {
        let reason = self.cells.get(&variant).and_then(|cell| cell.reason.clone());
        value.map_or_else(|| reason.unwrap_or_else(|| "?".to_owned()), figure)
    }
}

pub fn measure(options: &Options, folder: &Path) -> Result<Section, Failure> {
    let chosen = || SUBJECTS.iter().filter(|subject| options.is_chosen(subject.name()));
    let pairs: Vec<(&Subject, u32)> = options
        .threads
        .iter()
        .flat_map(|threads| chosen().map(|subject| (subject, *threads)))
        .collect();
    let recipes: Vec<Recipe> = pairs
        .iter()
        .map(|(subject, threads)| subject.recipe(*threads))
        .collect();
    let builds = [Build::Native, Build::Instrumented, Build::Everything];
    let programs = program::build_all(&recipes, &builds, folder)?;
    let mut rows: Vec<Row> = pairs
        .iter()
        .map(|(subject, threads)| Row {
            guest: subject.name(),
            threads: *threads,
            native_s: Vec::new(),
            cells: BTreeMap::new(),
        })
        .collect();
    for repetition in 0..options.repetitions {
        for ((row, programs), (subject, threads)) in rows.iter_mut().zip(&programs).zip(&pairs) {
            let (name, of) = (subject.name(), options.repetitions);
            eprintln!("xtask: {name}, {threads} threads ({} of {of})", repetition + 1);
            repeat(subject, programs, folder, row)?;
        }
    }
    Ok(Section {
        text: page(&rows, options),
        figures: figures::of_speed(&rows, options.threads[0]),
    })
}

/// All variants once, one after the other.
fn repeat(subject: &Subject, programs: &Programs, folder: &Path, row: &mut Row) -> Result<(), Failure> {
    let is_right = |status: Option<i32>| status == Some(0) || subject.may_fail && status == Some(1);
    let native = match &programs[&Build::Native] {
        Ok(program) => program::native(program)?,
        Err(reason) => Err(reason.clone()),
    };
    let native = native.and_then(|(taken, ended)| match is_right(ended.status) {
        true => Ok((taken, ended.stdout)),
        false => Err(ended.reason()),
    });
    if let Ok((taken, _)) = &native {
        row.native_s.push(taken.cpu_s);
    }
    for variant in Variant::ALL.into_iter().skip(1) {
        let cell = row.cells.entry(variant).or_default();
        if cell.reason.is_some() {
            continue;
        }
        let (taken, expected) = match &native {
            Ok((taken, stdout)) => (*taken, stdout),
            Err(reason) => {
                cell.reason = Some(format!("native: {reason}"));
                continue;
            }
        };
        let program = match &programs[&variant.build()] {
            Ok(program) => program,
            Err(reason) => {
                cell.reason = Some(reason.clone());
                continue;
            }
        };
        let extra = ["--timeout", "60"];
        match program::record(program, variant, &extra, folder, Duration::from_secs(90))? {
            Err(reason) => cell.reason = Some(reason),
            Ok(recorded) if !is_right(recorded.ended.status) => cell.reason = Some(recorded.ended.reason()),
            // A fast wrong answer is no answer.
            Ok(recorded) if recorded.ended.stdout != *expected => {
                cell.reason = Some("printed something else than natively".to_owned());
            }
            Ok(recorded) => {
                let sample = program::taken(&recorded.ended.stderr).map(|mine| sample(mine, taken, recorded.log_bytes));
                match sample {
                    Some(sample) => cell.samples.push(sample),
                    None => cell.reason = Some("did not say what it took".to_owned()),
                }
                if cell.longs.is_none() {
                    match recorded.count()? {
                        Ok(counted) => cell.longs = Some((counted.longs(variant), counted.events())),
                        Err(reason) => cell.reason = Some(reason),
                    }
                }
            }
        }
    }
    Ok(())
}

fn sample(mine: Taken, native: Taken, log_bytes: f64) -> Sample {
    Sample {
        cpu: mine.cpu_s / native.cpu_s,
        wall: mine.wall_s / native.wall_s,
        log_bytes,
    }
}

/// Time overhead of the paper: average, median, minimum, maximum of Light, LEAP, STRIDE.
const PAPER_TIME: [[f64; 3]; 4] = [
    [0.44, 4.11, 4.66],
    [0.42, 2.58, 2.92],
    [0.15, 0.17, 0.19],
    [0.73, 17.85, 23.89],
];
/// Thousands of long integers of Light and STRIDE. "Leap and Stride are largely tied in space consumption."
const PAPER_SPACE: [[f64; 2]; 4] = [
    [9_429.0, 135_570.0],
    [1_461.0, 34_566.0],
    [1.0, 30.0],
    [69_559.0, 1_394_378.0],
];
const STATISTICS: [&str; 4] = ["average", "median", "minimum", "maximum"];

fn page(rows: &[Row], options: &Options) -> String {
    let first = options.threads[0];
    let mut text = format!(
        "![Time overhead by guest](methods-time.svg)\n\n![Log by guest](methods-space.svg)\n\n\
         Light's figures 4 and 5, with {first} threads: bars are normalised to the most expensive of LEAP, STRIDE and Light, labels \
         are what was measured.\n\n"
    );
    text += &format!(
        "Time overhead (added processor time ÷ native processor time), over {} guests; the paper's are of 24 Java programs with 8 \
         threads on 8 processors:\n\n{}\n\n{}\n\n",
        rows.len() / options.threads.len(),
        time_table(rows, options),
        compared_time(rows, options)
    );
    text += &format!(
        "Log, in thousands of long integers (ints are halves) and in bytes:\n\n{}\n\n{}\n\n",
        space_table(rows, options),
        compared_space(rows, options)
    );
    text += &format!(
        "![What O1 and O2 take away of the time](methods-o1-o2-time.svg)\n\n![… of the log](methods-o1-o2-space.svg)\n\n\
         Light's figure 7, with {first} threads. {}\n\n",
        optimisations(rows, first)
    );
    text += &super::goals(&goals(rows));
    text += &format!(
        "\n\n<details><summary>All guests: processor time in units of the native run</summary>\n\n{}\n\n</details>\n",
        all(rows, |row, variant| {
            row.shown(variant, |value| format!("{:.2}×", value + 1.0), row.overhead(variant))
        })
    );
    text += &format!(
        "\n<details><summary>All guests: log</summary>\n\n{}\n\n</details>",
        all(rows, |row, variant| row
            .log_bytes(variant)
            .map_or("–".to_owned(), bytes))
    );
    text
}

/// What was measured with so many threads.
fn values(rows: &[Row], threads: u32, figure: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.threads == threads)
        .filter_map(figure)
        .collect()
}

/// Rows of statistics: for each, the column of each figure.
fn statistics_of(columns: &[Vec<f64>], shown: impl Fn(f64) -> String) -> Vec<String> {
    let columns: Vec<Option<[f64; 4]>> = columns
        .iter()
        .map(|values| Summary::of(values).map(|summary| summary.rows().map(|row| row.1)))
        .collect();
    (0..STATISTICS.len())
        .map(|index| {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| column.map_or("?".to_owned(), |values| shown(values[index])))
                .collect();
            format!("{} | {}", STATISTICS[index], cells.join(" | "))
        })
        .collect()
}

fn time_table(rows: &[Row], options: &Options) -> String {
    let mut lines = vec![
        "| | | Light | LEAP | STRIDE | OREO |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for (name, [light, leap, stride]) in STATISTICS.iter().zip(PAPER_TIME) {
        lines.push(format!("| paper | {name} | {light:.2} | {leap:.2} | {stride:.2} | |"));
    }
    for threads in &options.threads {
        let columns = Variant::METHODS.map(|method| values(rows, *threads, |row| row.overhead(method)));
        let summaries = statistics_of(&columns, |value| format!("{value:.2}"));
        lines.extend(
            summaries
                .iter()
                .map(|summary| format!("| {threads} threads | {summary} |")),
        );
    }
    lines.join("\n")
}

fn space_table(rows: &[Row], options: &Options) -> String {
    let mut lines = vec![
        "| | | Light | LEAP, runs | LEAP, accesses | STRIDE | OREO | Light | LEAP | STRIDE | OREO |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (name, [light, stride]) in STATISTICS.iter().zip(PAPER_SPACE) {
        lines.push(format!("| paper | {name} | {light} | | | {stride} | | | | | |"));
    }
    for threads in &options.threads {
        let longs = |method| values(rows, *threads, |row| row.longs(method).map(|longs| longs / 1e3));
        let plain = values(rows, *threads, |row| {
            row.cells.get(&Variant::Leap)?.longs.map(|(_, events)| events / 1e3)
        });
        let columns = [
            longs(Variant::Light),
            longs(Variant::Leap),
            plain,
            longs(Variant::Stride),
            longs(Variant::Oreo),
        ];
        let logs = Variant::METHODS.map(|method| values(rows, *threads, |row| row.log_bytes(method)));
        let summaries = statistics_of(&columns, thousands);
        for (longs, bytes) in summaries.iter().zip(statistics_of(&logs, bytes)) {
            let (_, bytes) = bytes.split_once(" | ").unwrap_or_default();
            lines.push(format!("| {threads} threads | {longs} | {bytes} |"));
        }
    }
    lines.join("\n")
}

fn thousands(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        large => format!("{large:.0}"),
    }
}

/// Light against the others, over guests with so many threads, or all.
fn pairs(
    rows: &[Row],
    threads: Option<u32>,
    other: Variant,
    figure: impl Fn(&Row, Variant) -> Option<f64>,
) -> Vec<(f64, f64)> {
    rows.iter()
        .filter(|row| threads.is_none_or(|threads| threads == row.threads))
        .filter_map(|row| Some((figure(row, Variant::Light)?, figure(row, other)?)))
        .collect()
}

fn compared_time(rows: &[Row], options: &Options) -> String {
    let mut parts = Vec::new();
    for threads in &options.threads {
        let of = |other| {
            quotient(statistics::added_time(&pairs(
                rows,
                Some(*threads),
                other,
                Row::overhead,
            )))
        };
        parts.push(format!(
            "{} of LEAP's, {} of STRIDE's and {} of OREO's with {threads} threads",
            of(Variant::Leap),
            of(Variant::Stride),
            of(Variant::Oreo)
        ));
    }
    let wall = |variant| {
        let values: Vec<f64> = rows
            .iter()
            .filter_map(|row| row.median(variant, |sample| sample.wall))
            .collect();
        match values.is_empty() {
            true => "?".to_owned(),
            false => format!("{:.2}×", geometric_mean(values)),
        }
    };
    let walls: Vec<String> = Variant::METHODS
        .iter()
        .map(|m| format!("{} {}", m.name(), wall(*m)))
        .collect();
    format!(
        "On the geometric mean of the guests, Light adds {}. In the paper the averages have quotients of 0.11 and 0.09. Wall time, \
         geometric mean of all: {}.",
        parts.join("; "),
        walls.join(", ")
    )
}

fn compared_space(rows: &[Row], options: &Options) -> String {
    let mut parts = Vec::new();
    for threads in &options.threads {
        let of = |other| quotient(statistics::sizes(&pairs(rows, Some(*threads), other, Row::log_bytes)));
        parts.push(format!(
            "{} of LEAP's, {} of STRIDE's and {} of OREO's with {threads} threads",
            of(Variant::Leap),
            of(Variant::Stride),
            of(Variant::Oreo)
        ));
    }
    format!(
        "In bytes, on the geometric mean of the guests, Light's log is {}. In the paper the averages of Light and STRIDE have a quotient of 0.07.",
        parts.join("; ")
    )
}

fn quotient(mean: Option<(f64, usize)>) -> String {
    match mean {
        Some((mean, _)) if mean < 0.001 => format!("{mean:.1e}"),
        Some((mean, _)) if mean < 0.1 => format!("{mean:.3}"),
        Some((mean, _)) => format!("{mean:.2}"),
        None => "? (not measured)".to_owned(),
    }
}

/// In how many guests which optimisation takes away how much.
fn optimisations(rows: &[Row], threads: u32) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).collect();
    let times: Vec<Breakdown> = rows
        .iter()
        .filter_map(|row| row.breakdown(Row::overhead, figures::TIME_FLOOR))
        .collect();
    let sizes: Vec<Breakdown> = rows
        .iter()
        .filter_map(|row| row.breakdown(Row::log_bytes, 0.0))
        .collect();
    let at_least = |parts: &[Breakdown], share: f64, of: fn(&Breakdown) -> f64| {
        format!(
            "{} of {}",
            parts.iter().filter(|part| of(part) >= share).count(),
            parts.len()
        )
    };
    format!(
        "O1 takes away at least 20 % of the added time in {} guests (paper: 20 of 24) and at least 50 % in {} (8 of 24), O2 at least 20 % in {} \
         (9 of 24) and at least 50 % in {} (4 of 24). Of the log, O1 takes away at least 50 % in {} (16 of 24), O2 at least 20 % in {} (6 of 24).",
        at_least(&times, 0.2, |part| part.first),
        at_least(&times, 0.5, |part| part.first),
        at_least(&times, 0.2, |part| part.second),
        at_least(&times, 0.5, |part| part.second),
        at_least(&sizes, 0.5, |part| part.first),
        at_least(&sizes, 0.2, |part| part.second)
    )
}

fn goals(rows: &[Row]) -> Vec<(String, String, Option<bool>)> {
    let of_all = |mean: Option<(f64, usize)>, most: f64| {
        let measured = mean.map_or("?".to_owned(), |(_, count)| {
            format!("{} over {count} pairs of guest and threads", quotient(mean))
        });
        (measured, mean.map(|(mean, _)| mean <= most))
    };
    let mut goals = Vec::new();
    for other in [Variant::Leap, Variant::Stride] {
        let (measured, met) = of_all(statistics::added_time(&pairs(rows, None, other, Row::overhead)), 0.25);
        let name = other.name();
        goals.push((
            format!("Light's added time is at most 0.25 of {name}'s (geometric mean)"),
            measured,
            met,
        ));
        let (measured, met) = of_all(statistics::sizes(&pairs(rows, None, other, Row::log_bytes)), 0.1);
        goals.push((
            format!("Light's log is at most 0.1 of {name}'s (bytes, geometric mean)"),
            measured,
            met,
        ));
    }
    goals
}

fn all(rows: &[Row], cell: impl Fn(&Row, Variant) -> String) -> String {
    let names: Vec<&str> = Variant::ALL.iter().skip(1).map(|variant| variant.name()).collect();
    let mut lines = vec![
        format!("| guest | threads | native | {} |", names.join(" | ")),
        format!("|---|---|---|{}", "---|".repeat(names.len())),
    ];
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.guest, row.threads));
    for row in sorted {
        let cells: Vec<String> = Variant::ALL.iter().skip(1).map(|variant| cell(row, *variant)).collect();
        let native = median(row.native_s.iter().map(|seconds| seconds * 1e3));
        lines.push(format!(
            "| {} | {} | {native:.1} ms | {} |",
            row.guest,
            row.threads,
            cells.join(" | ")
        ));
    }
    lines.join("\n")
}
