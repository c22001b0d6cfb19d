//! What recording at scope inputs costs: servers and compressors as Debian ships them, as they are and recorded.
//!
//! Compared is the processor time, in user and kernel mode, of the measured process alone: from its start to its end, for
//! the same work. Server and client have a processor each.
use super::load;
use super::measure;
use super::measure::Sample;
use super::table;
use crate::command::Failure;
use crate::root;
use crate::target;
use std::fmt::Write as _;
use std::fs;
use std::io::BufWriter;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

const SERVER_CPU: &str = "0";
const CLIENT_CPU: &str = "1";
const MEMCACHED_REQUESTS: u64 = 400_000;
const REDIS_REQUESTS: u64 = 200_000;
const FILE_BYTES: usize = 128 << 20;

/// One program, and the work it is given.
struct Subject {
    name: &'static str,
    work: &'static str,
    /// What the time is divided by.
    per: (f64, &'static str),
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "memcached",
        work: "4 threads, 32 connections, 90 % get, 10 % set of 100 bytes",
        per: (MEMCACHED_REQUESTS as f64, "request"),
    },
    Subject {
        name: "redis-server",
        work: "redis-benchmark -c 50 -t set,get",
        // Both tests.
        per: (2.0 * REDIS_REQUESTS as f64, "request"),
    },
    Subject {
        name: "pigz",
        work: "-p 2, a file of 128 MiB",
        per: (1.0, "run"),
    },
    Subject {
        name: "zstd",
        work: "-T2, the same file",
        per: (1.0, "run"),
    },
];

struct Options {
    programs: Vec<String>,
    repetitions: usize,
    write: bool,
}

pub fn inputs(arguments: &[&str]) -> Result<(), Failure> {
    let options = parse(arguments)?;
    crate::setup::install(&crate::setup::MEASURED)?;
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench-inputs");
    fs::create_dir_all(&folder)?;
    let file = folder.join("words.txt");
    write_words(&file)?;
    let chosen = |subject: &&Subject| options.programs.is_empty() || options.programs.iter().any(|p| p == subject.name);
    let subjects: Vec<&Subject> = SUBJECTS.iter().filter(chosen).collect();
    let mut results: Vec<Vec<(Sample, Sample)>> = subjects.iter().map(|_| Vec::new()).collect();
    for repetition in 0..options.repetitions {
        for (subject, samples) in subjects.iter().zip(&mut results) {
            let native = measure(subject, &folder, &file, None)?;
            let recorded = measure(subject, &folder, &file, Some(&folder.join("run")))?;
            eprintln!(
                "xtask: {} ({} of {}): {:.3} s, recorded {:.3} s",
                subject.name,
                repetition + 1,
                options.repetitions,
                native.cpu_s,
                recorded.cpu_s
            );
            samples.push((native, recorded));
        }
    }
    let text = lines(&subjects, &results)?;
    println!("{text}");
    if options.write && options.programs.is_empty() {
        let command = format!("cargo xtask bench inputs --repetitions {}", options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "inputs", &command, &text)?;
    }
    Ok(())
}

fn parse(arguments: &[&str]) -> Result<Options, Failure> {
    let mut options = Options {
        programs: Vec::new(),
        repetitions: 7,
        write: true,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            rest.next()
                .ok_or_else(|| Failure::new(format!("{argument} needs a value")))
        };
        match *argument {
            "--programs" => options.programs = value()?.split(',').map(str::to_owned).collect(),
            "--repetitions" => {
                let number = value()?.parse().ok().filter(|number| *number > 0);
                options.repetitions = number.ok_or_else(|| Failure::new("--repetitions needs a number above 0"))?;
            }
            "--no-write" => options.write = false,
            other => {
                return Err(Failure::new(format!(
                    "bench inputs has no option '{other}'; see cargo xtask"
                )));
            }
        }
    }
    let is_known = |name: &String| SUBJECTS.iter().any(|subject| subject.name == name);
    match options.programs.iter().find(|name| !is_known(name)) {
        Some(name) => Err(Failure::new(format!("'{name}' is not among the measured programs"))),
        None => Ok(options),
    }
}

/// Words of a small vocabulary, some often and some rarely: as compressible as text.
fn write_words(path: &Path) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() >= FILE_BYTES as u64) {
        return Ok(());
    }
    let mut out = BufWriter::new(fs::File::create(path)?);
    let (mut state, mut bytes) = (7u64, 0);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    while bytes < FILE_BYTES {
        // The product of two makes small numbers frequent.
        let word = format!("{:x} ", (next() % 4096) * (next() % 256) * 0x9e37);
        out.write_all(word.as_bytes())?;
        bytes += word.len();
    }
    Ok(out.flush()?)
}

/// The program natively, or recorded into a directory.
fn measure(subject: &Subject, folder: &Path, file: &Path, run: Option<&Path>) -> Result<Sample, Failure> {
    match subject.name {
        "memcached" => {
            let port = load::free_port()?;
            let listen = ["-l", "127.0.0.1", "-U", "0", "-t", "4", "-m", "64", "-u", "root", "-p"];
            let command = on(SERVER_CPU, "memcached", run, &listen, &[port.to_string()]);
            served(command, run, port, |port| {
                // The client is this process.
                measure::pin_to(CLIENT_CPU)?;
                let loaded = load::memcached(port, 32, MEMCACHED_REQUESTS);
                measure::pin_to("all")?;
                loaded
            })
        }
        "redis-server" => {
            let port = load::free_port()?;
            let listen = ["--save", "", "--bind", "127.0.0.1", "--port"];
            let command = on(SERVER_CPU, "redis-server", run, &listen, &[port.to_string()]);
            served(command, run, port, |port| {
                let (port, requests) = (port.to_string(), REDIS_REQUESTS.to_string());
                let mut client = Command::new("taskset");
                client.args(["-c", CLIENT_CPU, "redis-benchmark", "-p", &port, "-c", "50", "-n", &requests]);
                client.args(["-t", "set,get", "-q"]).stdout(Stdio::null());
                match client.status()?.success() {
                    true => Ok(()),
                    false => Err(Failure::new("redis-benchmark failed")),
                }
            })
        }
        _ => {
            let out = folder.join("words.out");
            let file = file.display().to_string();
            let command = match subject.name {
                "pigz" => {
                    // It writes beside its input.
                    on("0,1", "pigz", run, &["-k", "-f", "-p", "2"], &[file])
                }
                _ => {
                    let out = out.display().to_string();
                    on("0,1", "zstd", run, &["-q", "-f", "-T2", "-o"], &[out, file])
                }
            };
            cleared(run)?;
            measure::Started::new(command)?.finish(run)
        }
    }
}

/// `program` on these processors, under `refrain record` if there is a directory to record into.
fn on(cpus: &str, program: &str, run: Option<&Path>, words: &[&str], more: &[String]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]);
    if let Some(run) = run {
        command.arg(crate::refrain());
        command.args(["record", "--scope", "inputs", "-o"]).arg(run).arg("--");
        command.env("REFRAIN_DIR", run.with_extension("store"));
    }
    command.arg(program).args(words).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Removes the recording of the last time.
fn cleared(run: Option<&Path>) -> Result<(), Failure> {
    match run.filter(|run| run.exists()) {
        Some(run) => Ok(fs::remove_dir_all(run)?),
        None => Ok(()),
    }
}

/// Starts a server, gives it work, and ends it.
fn served(
    command: Command,
    run: Option<&Path>,
    port: u16,
    work: impl FnOnce(u16) -> Result<(), Failure>,
) -> Result<Sample, Failure> {
    cleared(run)?;
    let server = measure::Started::new(command)?;
    let worked = load::wait_for(port).and_then(|()| work(port));
    server.terminate();
    let sample = server.finish(run);
    worked.and(sample)
}

fn lines(subjects: &[&Subject], results: &[Vec<(Sample, Sample)>]) -> Result<String, Failure> {
    let mut text = String::from(
        "| program | work | native CPU | recorded CPU | ratio (median) | ratio (range) | log |\n|---|---|---|---|---|---|---|\n",
    );
    for (subject, samples) in subjects.iter().zip(results) {
        let (divisor, unit) = subject.per;
        let each = |seconds: f64| match unit {
            "run" => format!("{seconds:.2} s"),
            unit => format!("{:.2} µs/{unit}", seconds / divisor * 1e6),
        };
        let ratios: Vec<f64> = samples.iter().map(|(native, recorded)| recorded.cpu_s / native.cpu_s).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let rate = samples.iter().map(|(_, recorded)| recorded.log_bytes / recorded.wall_s.max(0.001));
        writeln!(
            text,
            "| {} | {} | {} | {} | {:.3}× | {least:.3}–{most:.3} | {} |",
            subject.name,
            subject.work,
            each(table::median(samples.iter().map(|(native, _)| native.cpu_s))),
            each(table::median(samples.iter().map(|(_, recorded)| recorded.cpu_s))),
            table::median(ratios.iter().copied()),
            table::per_second(table::median(rate)),
        )
        .map_err(|e| Failure::new(e.to_string()))?;
    }
    Ok(text.trim_end().to_owned())
}
