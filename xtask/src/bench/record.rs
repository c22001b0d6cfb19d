//! What recording costs: each speed guest as native code, under ThreadSanitizer, recorded at both scopes, and replayed from both
//! recordings; interleaved in one run, with two threads and with four.
//!
//! Variants take turns inside every repetition, so that a slow minute of a shared machine hits all of them; medians of
//! ratios are robust against the rest. Processor time and wall time are shown; of a replay the wall time alone, since waiting
//! is what it does. The floor is a team of one thread: the checks of compiled code, while nobody takes anything from anybody.
use super::Options;
use super::measure;
use super::measure::Sample;
use super::rust;
use super::sources;
use super::stem;
use super::table;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// Programs of `tests/rust/bench`, with the size that takes about half a second.
const RUST_PROGRAMS: [(&str, &str); 2] = [("rayon_sort", "8000"), ("sharded_maps", "5000")];
/// Rust's standard library is not built for ThreadSanitizer, so that what it synchronises would be races to it.
const QUIET_TSAN: &[(&str, &str)] = &[("TSAN_OPTIONS", "report_bugs=0")];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    Native,
    Tsan,
    /// Recorded at scope memory.
    Memory,
    /// Recorded at scope sync.
    Sync,
    /// The recording at scope memory, replayed.
    ReplayMemory,
    ReplaySync,
}

/// One speed guest with so many threads, built three or four ways.
pub struct Guest {
    pub name: String,
    /// compute, locks or mixed, as its head says.
    pub kind: String,
    pub threads: usize,
    arguments: Vec<String>,
    native: PathBuf,
    /// `None`: this toolchain does not build it so.
    tsan: Option<PathBuf>,
    tsan_variables: &'static [(&'static str, &'static str)],
    memory: PathBuf,
    sync: PathBuf,
}

/// All samples of one guest.
pub type Samples = BTreeMap<Variant, Vec<Sample>>;

/// Which teams are measured.
#[derive(Debug, PartialEq)]
struct Teams {
    /// Every number of threads, ascending.
    threads: Vec<usize>,
    /// One thread as well, for the cost of the checks alone.
    floor: bool,
}

impl Guest {
    fn variants(&self) -> Vec<Variant> {
        let mut variants = vec![Variant::Native];
        variants.extend(self.tsan.as_ref().map(|_| Variant::Tsan));
        variants.push(Variant::Memory);
        if self.threads > 1 {
            variants.extend([Variant::Sync, Variant::ReplayMemory, Variant::ReplaySync]);
        }
        variants
    }
}

pub fn record(arguments: &[&str]) -> Result<(), Failure> {
    let (teams, rest) = Teams::parse(arguments)?;
    let options = Options::parse("record", "--guests", 3, &rest)?;
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench");
    fs::create_dir_all(&folder)?;
    let guests = build_all(&options.names, &teams.counts(), &folder)?;
    let mut results: Vec<Samples> = guests.iter().map(|_| Samples::new()).collect();
    for repetition in 0..options.repetitions {
        for (guest, samples) in guests.iter().zip(&mut results) {
            let turn = format!("({} of {})", repetition + 1, options.repetitions);
            eprintln!("xtask: {}, threads: {} {turn}", guest.name, guest.threads);
            for (variant, sample) in measure_all(guest, &folder)? {
                samples.entry(variant).or_default().push(sample);
            }
        }
    }
    let table = table::table(&guests, &results);
    println!("{table}");
    if options.write && options.names.is_empty() {
        let command = teams.command(options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "record", &command, &table)?;
    }
    Ok(())
}

impl Teams {
    /// What is said of teams, and the other arguments.
    fn parse<'a>(arguments: &[&'a str]) -> Result<(Teams, Vec<&'a str>), Failure> {
        let mut teams = Teams {
            threads: vec![2, 4],
            floor: false,
        };
        let mut others = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--floor" => teams.floor = true,
                "--threads" => teams.threads = threads(rest.next().unwrap_or(&""))?,
                other => others.push(other),
            }
        }
        Ok((teams, others))
    }

    fn counts(&self) -> Vec<usize> {
        self.floor
            .then_some(1)
            .into_iter()
            .chain(self.threads.iter().copied())
            .collect()
    }

    fn command(&self, repetitions: usize) -> String {
        let mut command = format!("cargo xtask bench record --repetitions {repetitions}");
        if self.threads != [2, 4] {
            let counts: Vec<String> = self.threads.iter().map(usize::to_string).collect();
            command.push_str(&format!(" --threads {}", counts.join(",")));
        }
        if self.floor {
            command.push_str(" --floor");
        }
        command
    }
}

fn threads(text: &str) -> Result<Vec<usize>, Failure> {
    let known = |word: &str| word.parse().ok().filter(|count| (2..=64).contains(count));
    let mut threads: Vec<usize> = text.split(',').map(known).collect::<Option<_>>().ok_or_else(|| {
        Failure::new("--threads needs numbers from 2 to 64, such as 2 or 2,4 (one thread is --floor)")
    })?;
    threads.sort_unstable();
    threads.dedup();
    Ok(threads)
}

/// Every chosen guest with every number of threads.
fn build_all(names: &[String], counts: &[usize], folder: &Path) -> Result<Vec<Guest>, Failure> {
    let is_rust = |name: &String| RUST_PROGRAMS.iter().any(|(program, _)| program == name);
    let (rust_names, c_names): (Vec<String>, Vec<String>) = names.iter().cloned().partition(is_rust);
    let mut guests = Vec::new();
    // Nothing named means all; Rust alone named means nothing of C.
    if names.is_empty() || !c_names.is_empty() {
        for source in sources(&c_names)? {
            let text = fs::read_to_string(&source)?;
            for threads in counts.iter().filter(|threads| suits(&text, **threads)) {
                guests.push(build(&source, &text, *threads, folder)?);
            }
        }
    }
    if names.is_empty() || !rust_names.is_empty() {
        let built = rust::build_all()?;
        for (program, size) in RUST_PROGRAMS {
            let is_chosen = names.is_empty() || rust_names.iter().any(|name| name == program);
            for threads in counts.iter().filter(|_| is_chosen) {
                guests.push(rust_guest(program, size, *threads, &built));
            }
        }
    }
    Ok(guests)
}

/// A guest whose threads come in pairs says so (`//# threads: even`), and has no floor.
fn suits(source: &str, threads: usize) -> bool {
    threads.is_multiple_of(2) || super::directive(source, "threads").as_deref() != Some("even")
}

fn rust_guest(program: &str, size: &str, threads: usize, built: &rust::Built) -> Guest {
    Guest {
        name: program.to_owned(),
        kind: "Rust".to_owned(),
        threads,
        arguments: vec![size.to_owned(), threads.to_string()],
        native: built.native.join(program),
        tsan: built.tsan.as_ref().map(|folder| folder.join(program)),
        tsan_variables: QUIET_TSAN,
        memory: built.memory.join(program),
        sync: built.sync.join(program),
    }
}

fn build(source: &Path, text: &str, threads: usize, folder: &Path) -> Result<Guest, Failure> {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let flags = super::directive(text, "flags").unwrap_or_else(|| "-O2".to_owned());
    let link = super::directive(text, "link").unwrap_or_default();
    let name = stem(source);
    let compile = |mut compiler: Command, suffix: &str, extra: &[&str]| {
        let program = folder.join(format!("{name}.{threads}.{suffix}"));
        compiler
            .args(flags.split_whitespace())
            .args(["-g", "-pthread", &format!("-DTHREADS={threads}")])
            .args(extra)
            .arg(source);
        compiler
            .arg("-o")
            .arg(&program)
            .args(link.split_whitespace())
            .arg("-lm");
        compiler.run().map(|()| program)
    };
    let clang = || Command::new(if is_cpp { "clang++-22" } else { "clang-22" });
    let mut ours = Command::new(refrain());
    ours.arg(if is_cpp { "c++" } else { "cc" });
    let recordable = compile(ours, "refrain", &[])?;
    Ok(Guest {
        kind: super::directive(text, "kind").unwrap_or_else(|| "mixed".to_owned()),
        threads,
        arguments: Vec::new(),
        native: compile(clang(), "native", &[])?,
        tsan: Some(compile(clang(), "tsan", &["-fsanitize=thread"])?),
        tsan_variables: &[],
        memory: recordable.clone(),
        sync: recordable,
        name,
    })
}

/// Every variant once, one after the other.
fn measure_all(guest: &Guest, folder: &Path) -> Result<Vec<(Variant, Sample)>, Failure> {
    let (run, run_sync) = (folder.join("run"), folder.join("run-sync"));
    let recorded = |program: &Path, scope: &str, run: &Path| {
        measure::recorded_by(&refrain(), program, &guest.arguments, &["--scope", scope], run)
    };
    let mut samples = Vec::new();
    let mut expected = None;
    for variant in guest.variants() {
        let (sample, output) = match variant {
            Variant::Native => measure::plain_with(&guest.native, &guest.arguments, &[])?,
            Variant::Tsan => {
                let program = guest.tsan.as_deref().unwrap_or(&guest.native);
                measure::plain_with(program, &guest.arguments, guest.tsan_variables)?
            }
            Variant::Memory => recorded(&guest.memory, "memory", &run)?,
            Variant::Sync => recorded(&guest.sync, "sync", &run_sync)?,
            Variant::ReplayMemory => measure::replayed(&run)?,
            Variant::ReplaySync => measure::replayed(&run_sync)?,
        };
        // A fast wrong answer is no answer.
        let expected = expected.get_or_insert_with(|| output.clone());
        if output != *expected {
            return Err(Failure::new(format!(
                "{} with {} threads printed something else as {variant:?} than natively",
                guest.name, guest.threads
            )));
        }
        samples.push((variant, sample));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_whose_threads_come_in_pairs_is_not_measured_with_one_or_three() {
        let pairs = "// Producers and consumers.\n//# threads: even\n";
        assert!(suits(pairs, 2) && suits(pairs, 4));
        assert!(!suits(pairs, 1) && !suits(pairs, 3));
        assert!(suits("// One alone can do it.\n", 1));
    }

    #[test]
    fn teams_are_two_and_four_threads_unless_something_else_is_said() {
        let (teams, rest) = Teams::parse(&["--guests", "map", "--no-write"]).expect("nothing about teams");
        assert_eq!(
            (teams.counts(), rest),
            (vec![2, 4], vec!["--guests", "map", "--no-write"])
        );
        let (teams, rest) = Teams::parse(&["--threads", "4,2,4", "--floor"]).expect("both are understood");
        assert_eq!((teams.counts(), rest.len()), (vec![1, 2, 4], 0));
        assert_eq!(teams.command(3), "cargo xtask bench record --repetitions 3 --floor");
        let (teams, _) = Teams::parse(&["--threads", "4"]).expect("one number is a list");
        assert_eq!(teams.command(1), "cargo xtask bench record --repetitions 1 --threads 4");
    }

    #[test]
    fn teams_that_are_none_are_refused() {
        for arguments in [&["--threads"][..], &["--threads", "1"], &["--threads", "2,x"]] {
            let refused = Teams::parse(arguments).expect_err("no team");
            assert!(refused.to_string().contains("--threads needs numbers"), "{refused}");
        }
    }

    #[test]
    fn one_thread_is_recorded_at_scope_memory_alone() {
        let built = rust::Built {
            native: PathBuf::new(),
            tsan: None,
            sync: PathBuf::new(),
            memory: PathBuf::new(),
            seconds: Vec::new(),
        };
        let guest = rust_guest("rayon_sort", "1", 1, &built);
        assert_eq!(guest.variants(), [Variant::Native, Variant::Memory]);
        assert_eq!(rust_guest("rayon_sort", "1", 2, &built).variants().len(), 5);
    }
}
