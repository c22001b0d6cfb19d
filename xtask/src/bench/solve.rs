//! What solving costs: our layers and Z3 on the same problems, time and memory against size, and what was promised.
//!
//! A size has a process of its own, so that the peak of its memory is its own. Repetitions have different seeds.
use super::lab;
use super::lab::Sample;
use super::lab::number;
use super::lab::word;
use super::plot::Plot;
use super::plot::Point;
use super::plot::Series;
use super::table;
use super::table::bytes;
use super::table::grouped;
use super::table::median;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const THREADS: &str = "8";
const HINTED_SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const LARGE: u64 = 10_000_000;
const FREE_SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const Z3_SIZES: [u64; 6] = [50, 100, 200, 300, 400, 600];
/// Smaller ones are over before the process has warmed up, and say nothing about growth.
const FITTED_FROM: f64 = 10_000.0;

/// Recorded at scope memory and with chaos, so that threads meet on a busy machine, too; with so much to do that about
/// 100,000 dependences come of it.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("tests/guests/coverage/blind_stores.c", &["-DWORDS=12000"]),
    ("tests/guests/probes/racey_like.c", &["-DSTEPS=60000"]),
    ("tests/bench/bank.c", &["-DSCALE=1/100"]),
    ("tests/bench/hash_table.c", &["-DSCALE=1/70"]),
    ("tests/bench/buffer_exchange.cpp", &["-DSCALE=1/120"]),
    ("tests/bench/pipeline.c", &["-DSCALE=1/10"]),
];

struct Options {
    repetitions: u64,
    /// For one solution of Z3, or of ours without hints.
    limit: Duration,
    large: bool,
    write: bool,
}

/// The samples of one row.
struct Row {
    name: String,
    size: f64,
    samples: Vec<Sample>,
}

impl Row {
    /// `None` if so many repetitions were stopped that the median is one of them.
    fn median(&self, figure: &str) -> Option<f64> {
        let stopped = |sample: &Sample| sample.as_ref().map_or(f64::INFINITY, |s| number(s, figure));
        Some(median(self.samples.iter().map(stopped))).filter(|median| median.is_finite())
    }

    /// The layers that decided, each once.
    fn layers(&self) -> String {
        let mut layers: Vec<String> = self.samples.iter().flatten().map(|s| word(s, "layer")).collect();
        layers.sort();
        layers.dedup();
        layers.join(", ")
    }

    fn points(rows: &[Row], figure: &str, limit: Duration) -> Vec<Point> {
        let point = |row: &Row| match row.median(figure) {
            Some(y) => Some(Point {
                x: row.size,
                y,
                stopped: false,
            }),
            None if figure == "solve_s" => Some(Point {
                x: row.size,
                y: limit.as_secs_f64(),
                stopped: true,
            }),
            None => None,
        };
        rows.iter().filter_map(point).collect()
    }
}

/// Everything that was measured.
struct Results {
    complete: Vec<Row>,
    hiding: Vec<Row>,
    free: Vec<Row>,
    programs: Vec<Row>,
    /// Z3 and the solver, on equation (1) as it stands and on what our translation makes of it.
    z3: Vec<Row>,
    z3_merged: Vec<Row>,
    ours: Vec<Row>,
    ours_merged: Vec<Row>,
}

pub fn solve(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    crate::setup::setup()?;
    crate::build()?;
    lab::build()?;
    let mut hinted = HINTED_SIZES.to_vec();
    if options.large {
        hinted.push(LARGE);
    }
    let results = Results {
        complete: generated("complete", "hints", &hinted, &options)?,
        hiding: generated("hiding", "hints", &hinted, &options)?,
        free: generated("complete", "no-hints", &FREE_SIZES, &options)?,
        programs: programs(&options)?,
        z3: problems("EquationOne", "z3", &options)?,
        z3_merged: problems("EquationOneMerged", "z3", &options)?,
        ours: problems("EquationOne", "solver", &options)?,
        ours_merged: problems("EquationOneMerged", "solver", &options)?,
    };
    let page = results.page(&options);
    println!("{page}");
    if options.write {
        fs::write(root().join("docs/solving-time.svg"), results.time(&options).svg())?;
        fs::write(root().join("docs/solving-memory.svg"), results.memory(&options).svg())?;
        table::write(&root().join("docs/benchmarks.md"), "solve", &options.command(), &page)?;
    }
    Ok(())
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            repetitions: 3,
            limit: Duration::from_secs(60),
            large: false,
            write: true,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                let number = rest
                    .next()
                    .and_then(|value| value.parse().ok())
                    .filter(|number| *number > 0);
                number.ok_or_else(|| Failure::new(format!("{argument} needs a number above 0")))
            };
            match *argument {
                "--repetitions" => options.repetitions = value()?,
                "--limit" => options.limit = Duration::from_secs(value()?),
                "--large" => options.large = true,
                "--no-write" => options.write = false,
                other => {
                    return Err(Failure::new(format!(
                        "bench solve has no option '{other}'; see cargo xtask"
                    )));
                }
            }
        }
        Ok(options)
    }

    fn command(&self) -> String {
        let large = if self.large { " --large" } else { "" };
        format!(
            "cargo xtask bench solve --repetitions {} --limit {}{large}",
            self.repetitions,
            self.limit.as_secs()
        )
    }

    /// With the time that making the instance and checking the answer may take.
    fn patience(&self) -> Duration {
        2 * self.limit + Duration::from_secs(60)
    }
}

fn generated(recorder: &str, hints: &str, sizes: &[u64], options: &Options) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for size in sizes {
        let mut row = Row {
            name: grouped(*size),
            size: *size as f64,
            samples: Vec::new(),
        };
        // Once is enough to see that it takes minutes.
        let repetitions = if *size == LARGE { 1 } else { options.repetitions };
        for seed in 1..=repetitions {
            let arguments = ["logs", recorder, &size.to_string(), THREADS, &seed.to_string(), hints];
            row.samples.push(lab::measure(&arguments, options.patience())?);
            if row.samples.last().is_some_and(Option::is_none) {
                break;
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

fn problems(family: &str, decider: &str, options: &Options) -> Result<Vec<Row>, Failure> {
    let limit = options.limit.as_secs().to_string();
    let mut rows = Vec::new();
    for size in Z3_SIZES {
        let mut row = Row {
            name: grouped(size),
            size: size as f64,
            samples: Vec::new(),
        };
        for seed in 1..=options.repetitions {
            let (size, seed) = (size.to_string(), seed.to_string());
            let arguments = ["problem", family, &size, &seed, decider, "no-hints", &limit];
            row.samples.push(lab::measure(&arguments, options.patience())?);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn programs(options: &Options) -> Result<Vec<Row>, Failure> {
    let folder = target().join("bench-solve");
    fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for (source, defines) in PROGRAMS {
        let run = record(&root().join(source), defines, &folder)?;
        let mut samples = Vec::new();
        for _ in 0..options.repetitions {
            samples.push(lab::measure(
                &["run", &run.display().to_string(), "no-hints"],
                options.patience(),
            )?);
        }
        let size = samples
            .iter()
            .flatten()
            .next()
            .map_or(f64::NAN, |s| number(s, "dependences"));
        rows.push(Row {
            name: super::stem(Path::new(source)),
            size,
            samples,
        });
    }
    Ok(rows)
}

/// Builds and records a guest; returns the run.
fn record(source: &Path, defines: &[&str], folder: &Path) -> Result<PathBuf, Failure> {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let (program, run) = (
        folder.join(super::stem(source)),
        folder.join("run").join(super::stem(source)),
    );
    Command::new(refrain())
        .arg(if is_cpp { "c++" } else { "cc" })
        .args(["-O2", "-g", "-pthread", &format!("-DTHREADS={THREADS}")])
        .args(defines)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-lm")
        .run()?;
    if run.exists() {
        fs::remove_dir_all(&run)?;
    }
    fs::create_dir_all(folder.join("run"))?;
    let mut command = Command::new(refrain());
    command
        .args(["record", "--scope", "memory", "--chaos=1", "-o"])
        .arg(&run)
        .arg("--")
        .arg(&program);
    command.env("REFRAIN_DIR", folder.join("store"));
    Run::output(&mut command)?;
    Ok(run)
}

impl Results {
    fn page(&self, options: &Options) -> String {
        let mut text = String::new();
        let mut say = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        say("![Time against size](solving-time.svg)\n\n![Memory against size](solving-memory.svg)\n");
        say("With hints, 8 threads, every change of hands recorded (so that orders remain to be decided):\n");
        say(&costs(&self.complete, options));
        say("\nWith hints, the same where the recorder leaves out what recorded orders imply, as the runtime does:\n");
        say(&costs(&self.hiding, options));
        say("\nWithout hints, every change of hands recorded:\n");
        say(&searches(&self.free, "dependences", options));
        say("\nWithout hints, programs recorded at scope memory, with 8 threads and chaos:\n");
        say(&searches(&self.programs, "program", options));
        say(
            "\nWithout hints, against Z3 (4.8, integer difference logic). \"(1)\" is the paper's equation as it stands, \"merged\" \
             what our translation makes of the same execution; the last column compares the two on (1):\n",
        );
        say(&self.against_z3(options));
        say("\n| goal | measured | |\n|---|---|---|");
        for (goal, measured, met) in self.goals(options) {
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "missed",
                None => "not measured",
            };
            say(&format!("| {goal} | {measured} | {verdict} |"));
        }
        text.trim_end().to_owned()
    }

    fn against_z3(&self, options: &Options) -> String {
        let mut lines = vec![
            "| dependences | Z3 on (1) | Z3, merged | solver on (1) | solver, merged | layer, (1) | decisions | conflicts | Z3 ÷ solver |"
                .to_owned(),
            "|---|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        for (index, row) in self.z3.iter().enumerate() {
            let ours = &self.ours[index];
            let times = [row, &self.z3_merged[index], ours, &self.ours_merged[index]];
            let times = times.map(|row| seconds_or_limit(row.median("solve_s"), options));
            lines.push(format!(
                "| {} | {} | {} | {} | {} | {} |",
                row.name,
                times.join(" | "),
                ours.layers(),
                count(ours.median("decisions")),
                count(ours.median("conflicts")),
                ratio(row, ours, options).0
            ));
        }
        lines.join("\n")
    }

    /// What was promised, what was measured, and whether that is enough.
    fn goals(&self, options: &Options) -> Vec<(String, String, Option<bool>)> {
        let (shown, factor) = match (self.z3.last(), self.ours.last()) {
            (Some(z3), Some(ours)) => ratio(z3, ours, options),
            _ => ("?".to_owned(), None),
        };
        let million = self.complete.iter().chain(&self.hiding).filter(|row| row.size == 1e6);
        let worst = |figure: &str| -> Option<f64> {
            let values: Option<Vec<f64>> = million.clone().map(|row| row.median(figure)).collect();
            values
                .filter(|v| !v.is_empty())
                .map(|v| v.into_iter().fold(0.0, f64::max))
        };
        let (time, peak) = (worst("solve_s"), worst("peak_bytes"));
        let exponents = [exponent(&self.complete, "cpu_s"), exponent(&self.hiding, "cpu_s")];
        let is_large = self
            .complete
            .iter()
            .any(|row| row.size == LARGE as f64 && row.median("solve_s").is_some());
        let sizes = self.programs.iter().map(|row| row.size);
        let largest = sizes.fold(0.0, f64::max);
        let slowest: Option<Vec<f64>> = self.programs.iter().map(|row| row.median("solve_s")).collect();
        let slowest = slowest.map(|times| times.into_iter().fold(0.0, f64::max));
        vec![
            (
                "600 dependences without hints: at least 100 times faster than Z3".to_owned(),
                shown,
                factor.map(|factor| factor >= 100.0),
            ),
            (
                "1,000,000 dependences with hints in at most 3 s".to_owned(),
                seconds_or_limit(time, options),
                Some(time.is_some_and(|time| time <= 3.0)),
            ),
            (
                "… and 2 GB, logs and schedule included".to_owned(),
                peak.map_or("?".to_owned(), bytes),
                Some(peak.is_some_and(|peak| peak <= 2e9)),
            ),
            (
                "processor time grows nearly linearly to 10,000,000 dependences: exponent of the fitted line at most 1.2"
                    .to_owned(),
                format!(
                    "{:.2} and {:.2} (wall time: {:.2} and {:.2})",
                    exponents[0],
                    exponents[1],
                    exponent(&self.complete, "solve_s"),
                    exponent(&self.hiding, "solve_s")
                ),
                is_large.then(|| exponents.iter().all(|exponent| *exponent <= 1.2)),
            ),
            (
                "100,000 dependences of recorded programs without hints in at most 60 s".to_owned(),
                format!("at most {}", seconds_or_limit(slowest, options)),
                (largest >= 1e5).then(|| slowest.is_some_and(|time| time <= 60.0)),
            ),
        ]
    }

    fn time(&self, options: &Options) -> Plot {
        let of = |colour, name, rows: &[Row], figure, dashed| Series {
            colour,
            name,
            points: Row::points(rows, figure, options.limit),
            dashed,
        };
        Plot {
            title: "From logs to a schedule: seconds against recorded dependences",
            x_label: "dependences",
            x_tick: |power| grouped(10u64.pow(power.max(0) as u32)),
            y_tick: |power| match power {
                power if power < -3 => format!("{} µs", 10u64.pow((power + 6).max(0) as u32)),
                power if power < 0 => format!("{} ms", 10u64.pow((power + 3) as u32)),
                power => format!("{} s", grouped(10u64.pow(power as u32))),
            },
            series: vec![
                of(0, "solver with hints", &self.complete, "solve_s", false),
                of(1, "… as the runtime records", &self.hiding, "solve_s", false),
                of(2, "solver without hints", &self.free, "solve_s", false),
                of(3, "checker", &self.complete, "check_s", false),
                of(4, "solver on equation (1)", &self.ours, "solve_s", false),
                of(5, "Z3 on equation (1)", &self.z3, "solve_s", true),
                of(6, "Z3, merged", &self.z3_merged, "solve_s", true),
            ],
        }
    }

    fn memory(&self, options: &Options) -> Plot {
        let of = |colour, name, rows: &[Row], dashed| Series {
            colour,
            name,
            points: Row::points(rows, "peak_bytes", options.limit),
            dashed,
        };
        Plot {
            title: "From logs to a schedule: peak memory, logs included, against recorded dependences",
            x_label: "dependences",
            x_tick: |power| grouped(10u64.pow(power.max(0) as u32)),
            y_tick: |power| bytes(10f64.powi(power)),
            series: vec![
                of(0, "solver with hints", &self.complete, false),
                of(1, "… as the runtime records", &self.hiding, false),
                of(2, "solver without hints", &self.free, false),
                of(4, "solver on equation (1)", &self.ours, false),
                of(5, "Z3 on equation (1)", &self.z3, true),
                of(6, "Z3, merged", &self.z3_merged, true),
            ],
        }
    }
}

fn costs(rows: &[Row], options: &Options) -> String {
    let mut lines = vec![
        "| dependences | solving | processor time | checking | peak memory | of it logs | intervals | waits | layer |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for row in rows {
        let memory = |figure| row.median(figure).map_or("?".to_owned(), bytes);
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            seconds_or_limit(row.median("solve_s"), options),
            seconds_or_limit(row.median("cpu_s"), options),
            seconds_or_limit(row.median("check_s"), options),
            memory("peak_bytes"),
            memory("logs_bytes"),
            count(row.median("intervals")),
            count(row.median("waits")),
            row.layers()
        ));
    }
    let [time, cpu, peak] = ["solve_s", "cpu_s", "peak_bytes"].map(|figure| exponent(rows, figure));
    lines.push(format!(
        "\nFrom 10,000 dependences on, time grows as their number to the power of {time:.2}, processor time to that of \
         {cpu:.2}, memory to that of {peak:.2}."
    ));
    lines.join("\n")
}

fn searches(rows: &[Row], first: &str, options: &Options) -> String {
    let more = if first == "dependences" { "" } else { " dependences |" };
    let mut lines = vec![
        format!(
            "| {first} |{more} solving | peak memory | intervals | layer | forced | components | decisions | conflicts |"
        ),
        format!(
            "|---|{}---|---|---|---|---|---|---|---|",
            if more.is_empty() { "" } else { "---|" }
        ),
    ];
    for row in rows {
        let size = match more {
            "" => String::new(),
            _ => format!(" {} |", count(Some(row.size))),
        };
        lines.push(format!(
            "| {} |{size} {} | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            seconds_or_limit(row.median("solve_s"), options),
            row.median("peak_bytes").map_or("?".to_owned(), bytes),
            count(row.median("intervals")),
            row.layers(),
            count(row.median("forced")),
            count(row.median("components")),
            count(row.median("decisions")),
            count(row.median("conflicts"))
        ));
    }
    lines.join("\n")
}

/// How often the one is as fast as the other; "more than" if the slow one was stopped.
fn ratio(slow: &Row, fast: &Row, options: &Options) -> (String, Option<f64>) {
    let Some(fast) = fast.median("solve_s") else {
        return ("?".to_owned(), None);
    };
    match slow.median("solve_s") {
        Some(slow) => (count(Some(slow / fast)), Some(slow / fast)),
        None => {
            let factor = options.limit.as_secs_f64() / fast;
            (format!("more than {}", count(Some(factor))), Some(factor))
        }
    }
}

/// The slope of the line that fits logarithms best (least squares).
fn exponent(rows: &[Row], figure: &str) -> f64 {
    let pairs = rows.iter().filter(|row| row.size >= FITTED_FROM);
    let pairs: Vec<(f64, f64)> = pairs
        .filter_map(|row| Some((row.size.ln(), row.median(figure)?.ln())))
        .collect();
    slope(&pairs)
}

fn slope(pairs: &[(f64, f64)]) -> f64 {
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(values).sum::<f64>() / pairs.len() as f64;
    let (x, y) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    mean(&|pair| (pair.0 - x) * (pair.1 - y)) / mean(&|pair| (pair.0 - x).powi(2))
}

fn seconds_or_limit(time: Option<f64>, options: &Options) -> String {
    match time {
        Some(time) if time < 0.001 => format!("{:.2} ms", time * 1e3),
        Some(time) if time < 1.0 => format!("{:.1} ms", time * 1e3),
        Some(time) => format!("{time:.1} s"),
        None => format!("> {} s", options.limit.as_secs()),
    }
}

fn count(number: Option<f64>) -> String {
    number.map_or("?".to_owned(), |number| grouped(number.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_has_slope_two() {
        let pairs: Vec<(f64, f64)> = (1..5).map(|x| (f64::from(x).ln(), f64::from(x * x).ln())).collect();
        assert!((slope(&pairs) - 2.0).abs() < 1e-9);
    }
}
