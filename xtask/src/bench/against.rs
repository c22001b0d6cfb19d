//! Another build of Refrain against this one: the same programs, recorded and replayed by both, by turns.
//!
//! Each tool compiles the guests itself, since compiled code and runtime belong together. Within a repetition both tools do
//! the same thing one directly after the other, and take turns in going first; each such pair gives a ratio, this build's to
//! the other's. What is shown is the geometric mean of a case's ratios with its 95 % interval (Student's t of their logarithms).
//! A case whose interval lies wholly above `LIMIT` has become slower.
use super::inputs;
use super::measure;
use super::measure::Sample;
use super::stem;
use super::table;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// What counts as slower.
const LIMIT: f64 = 1.03;
/// Guests that the other methods are measured on: those they do not slow down beyond measure.
const METHOD_GUESTS: [&str; 2] = ["montecarlo", "series"];
const METHODS: [&str; 3] = ["leap", "stride", "oreo"];
/// Programs as the distribution ships them that end by themselves.
const PROGRAMS: [&str; 3] = ["pigz", "zstd", "sort"];
const SERVERS: [&str; 2] = ["memcached", "redis-server"];

struct Options {
    other: PathBuf,
    /// Only cases with one of these in their names; empty: all, and the table goes into the docs.
    names: Vec<String>,
    repetitions: usize,
    write: bool,
}

/// A build of Refrain, with what it has compiled.
struct Tool {
    refrain: PathBuf,
    folder: PathBuf,
}

/// What both tools do by turns.
enum What {
    /// A guest of `tests/bench`, recorded so.
    Record {
        guest: String,
        how: Vec<&'static str>,
    },
    /// What was recorded last by that, replayed.
    Replay {
        guest: String,
        how: Vec<&'static str>,
    },
    /// The same for a program as it is.
    RecordProgram(&'static str),
    ReplayProgram(&'static str),
    /// A burst of requests for a recorded server.
    Serve(&'static str),
}

struct Case {
    name: String,
    what: What,
    ratios: Vec<f64>,
}

pub fn against(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    crate::setup::install(&crate::setup::MEASURED)?;
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench-against");
    let tools = [
        Tool::new(options.other.clone(), &folder, "before")?,
        Tool::new(refrain(), &folder, "after")?,
    ];
    let file = folder.join("lines.txt");
    inputs::write_words(&file)?;
    let mut cases = cases(&options.names)?;
    let guests = super::sources(&[])?;
    for tool in &tools {
        for source in guests.iter().filter(|source| is_needed(&cases, &stem(source))) {
            tool.compile(source)?;
        }
    }
    for repetition in 0..options.repetitions {
        for case in &mut cases {
            eprintln!("xtask: {} ({} of {})", case.name, repetition + 1, options.repetitions);
            case.measure(&tools, &file, repetition)?;
        }
    }
    let text = lines(&cases);
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!(
            "cargo xtask bench against OTHER/target/release/refrain --repetitions {}",
            options.repetitions
        );
        table::write(&root().join("docs/benchmarks.md"), "against", &command, &text)?;
    }
    Ok(())
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let Some((other, rest)) = arguments.split_first() else {
            return Err(Failure::new("bench against needs the path of another build's refrain"));
        };
        let other = fs::canonicalize(other).map_err(|e| Failure::new(format!("{other}: {e}")))?;
        let common = super::Options::parse("against", "--cases", 5, rest)?;
        Ok(Options {
            other,
            names: common.names,
            repetitions: common.repetitions,
            write: common.write,
        })
    }
}

fn cases(wanted: &[String]) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    let mut add = |name: String, what: What| {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            cases.push(Case {
                name,
                what,
                ratios: Vec::new(),
            });
        }
    };
    for source in super::sources(&[])? {
        let guest = stem(&source);
        let (memory, sync) = (vec!["--scope", "memory"], vec!["--scope", "sync"]);
        for (kind, how) in [("memory", memory.clone()), ("sync", sync)] {
            let guest = guest.clone();
            add(format!("{guest}, {kind}"), What::Record { guest, how });
        }
        let replay = What::Replay {
            guest: guest.clone(),
            how: memory,
        };
        add(format!("{guest}, replay"), replay);
    }
    for guest in METHOD_GUESTS {
        for method in METHODS {
            let (guest, how) = (guest.to_owned(), vec!["--method", method]);
            add(format!("{guest}, {method}"), What::Record { guest, how });
        }
    }
    for program in PROGRAMS {
        add(format!("{program}, inputs"), What::RecordProgram(program));
        add(format!("{program}, inputs, replay"), What::ReplayProgram(program));
    }
    for server in SERVERS {
        add(format!("{server}, inputs"), What::Serve(server));
    }
    match cases.is_empty() {
        true => Err(Failure::new(format!("no case has {} in its name", wanted.join(" or ")))),
        false => Ok(cases),
    }
}

fn is_needed(cases: &[Case], name: &str) -> bool {
    cases.iter().any(|case| match &case.what {
        What::Record { guest, .. } | What::Replay { guest, .. } => guest == name,
        What::RecordProgram(_) | What::ReplayProgram(_) | What::Serve(_) => false,
    })
}

impl Tool {
    fn new(refrain: PathBuf, folder: &Path, name: &str) -> Result<Tool, Failure> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        Ok(Tool { refrain, folder })
    }

    fn compile(&self, source: &Path) -> Result<(), Failure> {
        let text = fs::read_to_string(source)?;
        let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
        let flags = super::directive(&text, "flags").unwrap_or_else(|| "-O2".to_owned());
        let link = super::directive(&text, "link").unwrap_or_default();
        let mut compiler = Command::new(&self.refrain);
        compiler
            .arg(if is_cpp { "c++" } else { "cc" })
            .args(flags.split_whitespace())
            .args(["-g", "-pthread"])
            .arg(source)
            .arg("-o")
            .arg(self.folder.join(stem(source)))
            .args(link.split_whitespace())
            .arg("-lm");
        compiler.run()
    }

    /// Processor time of a recording, wall time of a replay.
    fn seconds(&self, what: &What, file: &Path) -> Result<f64, Failure> {
        let run = self.folder.join("run");
        let record = |program: &str, arguments: &[String], how: &[&str]| {
            measure::recorded_by(&self.refrain, program.as_ref(), arguments, how, &run)
        };
        let replay = || measure::replayed_by(&self.refrain, &run).map(|(sample, _)| sample.wall_s);
        let guest_program = |guest: &str| self.folder.join(guest).display().to_string();
        Ok(match what {
            What::Record { guest, how } => cpu(record(&guest_program(guest), &[], how)?),
            What::Replay { guest, how } => {
                record(&guest_program(guest), &[], how)?;
                replay()?
            }
            What::RecordProgram(program) => cpu(record(
                program,
                &inputs::arguments(program, file),
                &["--scope", "inputs"],
            )?),
            What::ReplayProgram(program) => {
                record(
                    program,
                    &inputs::arguments(program, file),
                    &["--scope", "inputs", "--sync-order"],
                )?;
                // The first one may have to look for late resumes.
                replay()?;
                replay()?
            }
            What::Serve(server) => inputs::burst_for(server, &self.refrain, &self.folder)?,
        })
    }
}

fn cpu((sample, _): (Sample, Vec<u8>)) -> f64 {
    sample.cpu_s
}

impl Case {
    fn measure(&mut self, tools: &[Tool; 2], file: &Path, repetition: usize) -> Result<(), Failure> {
        let mut seconds = [0.0; 2];
        let first = repetition % 2;
        for which in [first, 1 - first] {
            seconds[which] = tools[which].seconds(&self.what, file)?;
        }
        self.ratios.push(seconds[1] / seconds[0]);
        Ok(())
    }
}

fn lines(cases: &[Case]) -> String {
    let mut lines = vec![
        "| case | after ÷ before | 95 % interval | |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    let mut means = Vec::new();
    let mut slower = 0;
    for case in cases {
        let (mean, low, high) = interval(&case.ratios);
        let verdict = if low > LIMIT { "slower" } else { "" };
        slower += usize::from(low > LIMIT);
        means.push(mean);
        lines.push(format!(
            "| {} | {mean:.3} | {low:.3} to {high:.3} | {verdict} |",
            case.name
        ));
    }
    let count = means.len();
    let mean = table::geometric_mean(means);
    lines.push(format!(
        "\nGeometric mean of the {count} cases {mean:.3}; cases whose interval lies wholly above {LIMIT}: {slower}."
    ));
    lines.join("\n")
}

/// The geometric mean, and the ends of its 95 % interval.
fn interval(ratios: &[f64]) -> (f64, f64, f64) {
    /// Two-sided 95 % points of Student's t, by degrees of freedom from 1 on; beyond, the normal one.
    const T: [f64; 20] = [
        12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
        2.09, 2.09,
    ];
    let n = ratios.len() as f64;
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / n;
    if ratios.len() < 2 {
        return (mean.exp(), 0.0, f64::INFINITY);
    }
    let variance = ratios.iter().map(|ratio| (ratio.ln() - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = T.get(ratios.len() - 2).copied().unwrap_or(1.96);
    let half = t * (variance / n).sqrt();
    (mean.exp(), (mean - half).exp(), (mean + half).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_contain_the_mean_and_shrink() {
        let (mean, low, high) = interval(&[1.0, 1.1, 0.9, 1.0, 1.05]);
        assert!(low < mean && mean < high);
        let many: Vec<f64> = [1.0, 1.1, 0.9, 1.0, 1.05].iter().cycle().take(50).copied().collect();
        let (_, closer_low, closer_high) = interval(&many);
        assert!(low < closer_low && closer_high < high);
        // By hand: logarithms 0 and ln 4, mean ln 2, standard error ln 2, 12.71 of it either way.
        let (mean, low, _) = interval(&[1.0, 4.0]);
        assert!((mean - 2.0).abs() < 1e-12);
        assert!((low.ln() - (1.0 - 12.71) * 2f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn one_ratio_says_nothing() {
        assert_eq!(interval(&[2.0]).1, 0.0);
    }
}
