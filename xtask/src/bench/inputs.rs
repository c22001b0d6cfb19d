//! What recording at scope inputs costs: servers and compressors as Debian ships them, as they are and recorded.
//!
//! Compared is the processor time, in user and kernel mode, of the measured process alone. On a shared machine that varies by
//! more than what is measured, so natively and recorded take turns as often as possible: two servers are up all the time,
//! one of them recorded, and are given bursts of requests by turns; compressors are run by turns. Each pair of turns gives
//! a ratio. Servers have one processor and their client another.
use super::load;
use super::load::Requests;
use super::measure;
use super::measure::Sample;
use super::measure::Started;
use super::table;
use crate::bench::Options;
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
use std::time::Instant;

const SERVER_CPU: &str = "0";
const CLIENT_CPU: &str = "1";
const BOTH_CPUS: &str = "0,1";
/// Requests of a burst.
const MEMCACHED_BURST: u64 = 12_800;
/// Requests of each of two tests in a burst.
const REDIS_BURST: u64 = 5_000;
const FILE_BYTES: usize = 32 << 20;

/// One program, and the work it is given in one turn.
struct Subject {
    name: &'static str,
    work: &'static str,
    /// Requests in a turn; 1: the turn is a run of the program.
    requests: u64,
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "memcached",
        work: "-t 4; 32 connections, 90 % get, 10 % set of 100 bytes",
        requests: MEMCACHED_BURST,
    },
    Subject {
        name: "redis-server",
        work: "redis-benchmark -c 50 -t set,get",
        requests: 2 * REDIS_BURST,
    },
    Subject {
        name: "pigz",
        work: "-p 2, a file of 32 MiB",
        requests: 1,
    },
    Subject {
        name: "zstd",
        work: "-T2, the same file",
        requests: 1,
    },
];

/// What one subject took in all its turns.
#[derive(Default)]
struct Turns {
    native: Vec<f64>,
    recorded: Vec<f64>,
    log_bytes: f64,
    /// How long the recorded turns took.
    recorded_wall_s: f64,
}

pub fn inputs(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("inputs", "--programs", 40, arguments)?;
    let is_known = |name: &String| SUBJECTS.iter().any(|subject| subject.name == name);
    if let Some(name) = options.names.iter().find(|name| !is_known(name)) {
        return Err(Failure::new(format!("'{name}' is not among the measured programs")));
    }
    crate::setup::install(&crate::setup::MEASURED)?;
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench-inputs");
    fs::create_dir_all(&folder)?;
    let file = folder.join("words.txt");
    write_words(&file)?;
    let chosen = |subject: &&Subject| options.names.is_empty() || options.names.iter().any(|p| p == subject.name);
    let subjects: Vec<&Subject> = SUBJECTS.iter().filter(chosen).collect();
    let mut results = Vec::new();
    for subject in &subjects {
        eprintln!("xtask: {}, {} turns", subject.name, options.repetitions);
        results.push(match subject.name {
            "memcached" | "redis-server" => serve(subject, &folder, options.repetitions)?,
            _ => compress(subject, &folder, &file, options.repetitions)?,
        });
    }
    let text = lines(&subjects, &results)?;
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!("cargo xtask bench inputs --repetitions {}", options.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "inputs", &command, &text)?;
    }
    Ok(())
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

/// Two servers, and bursts of requests for one and the other.
fn serve(subject: &Subject, folder: &Path, turns: usize) -> Result<Turns, Failure> {
    let run = folder.join("run");
    cleared(&run)?;
    let ports = [load::free_port()?, load::free_port()?];
    let command = |port: u16, run| {
        let words: &[&str] = match subject.name {
            "memcached" => &["-l", "127.0.0.1", "-U", "0", "-t", "4", "-m", "64", "-u", "root", "-p"],
            _ => &["--save", "", "--bind", "127.0.0.1", "--port"],
        };
        on(SERVER_CPU, subject.name, run, words, &[port.to_string()])
    };
    let native = Started::new(command(ports[0], None))?;
    let recorded = Started::new(command(ports[1], Some(&run)))?;
    let mut result = Turns::default();
    let worked = alternate(subject, [&native, &recorded], ports, turns, &mut result);
    native.terminate();
    recorded.terminate();
    let ended = (native.finish(None), recorded.finish(Some(&run)));
    worked?;
    ended.0?;
    result.log_bytes = ended.1?.log_bytes;
    Ok(result)
}

fn alternate(
    subject: &Subject,
    servers: [&Started; 2],
    ports: [u16; 2],
    turns: usize,
    result: &mut Turns,
) -> Result<(), Failure> {
    for port in ports {
        load::wait_for(port)?;
    }
    // `taskset` becomes the server; refrain is its parent.
    let processes = [servers[0].id(), measure::only_child(servers[1].id())?];
    for turn in 0..turns + 1 {
        // Each goes first as often as the other.
        for which in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (before, started) = (measure::cpu_of(processes[which])?, Instant::now());
            burst(subject, ports[which], turn)?;
            let cpu_s = measure::cpu_of(processes[which])? - before;
            // The first turn is for warming up.
            match (turn, which) {
                (0, _) => {}
                (_, 0) => result.native.push(cpu_s),
                _ => {
                    result.recorded.push(cpu_s);
                    result.recorded_wall_s += started.elapsed().as_secs_f64();
                }
            }
        }
    }
    Ok(())
}

fn burst(subject: &Subject, port: u16, turn: usize) -> Result<(), Failure> {
    if subject.name == "memcached" {
        let requests = match turn {
            0 => Requests::StoreAll,
            _ => Requests::Random(MEMCACHED_BURST),
        };
        // The client is this process.
        measure::pin_to(CLIENT_CPU)?;
        let loaded = load::memcached(port, 32, requests);
        measure::pin_to("all")?;
        return loaded;
    }
    let (port, requests) = (port.to_string(), REDIS_BURST.to_string());
    let mut client = Command::new("taskset");
    client.args([
        "-c",
        CLIENT_CPU,
        "redis-benchmark",
        "-p",
        &port,
        "-c",
        "50",
        "-n",
        &requests,
    ]);
    client.args(["-t", "set,get", "-q"]).stdout(Stdio::null());
    match client.status()?.success() {
        true => Ok(()),
        false => Err(Failure::new("redis-benchmark failed")),
    }
}

/// Runs of a compressor, by turns.
fn compress(subject: &Subject, folder: &Path, file: &Path, turns: usize) -> Result<Turns, Failure> {
    let (run, out) = (folder.join("run"), folder.join("words.out").display().to_string());
    let file = file.display().to_string();
    let once = |run: Option<&Path>| -> Result<Sample, Failure> {
        let command = match subject.name {
            // It writes beside its input.
            "pigz" => on(
                BOTH_CPUS,
                "pigz",
                run,
                &["-k", "-f", "-p", "2"],
                std::slice::from_ref(&file),
            ),
            _ => on(
                BOTH_CPUS,
                "zstd",
                run,
                &["-q", "-f", "-T2", "-o"],
                &[out.clone(), file.clone()],
            ),
        };
        Started::new(command)?.finish(run)
    };
    let mut result = Turns::default();
    for turn in 0..turns + 1 {
        cleared(&run)?;
        for which in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let sample = once((which == 1).then_some(&run))?;
            match (turn, which) {
                (0, _) => {}
                (_, 0) => result.native.push(sample.cpu_s),
                _ => {
                    result.recorded.push(sample.cpu_s);
                    result.recorded_wall_s += sample.wall_s;
                    result.log_bytes += sample.log_bytes;
                }
            }
        }
    }
    Ok(result)
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
fn cleared(run: &Path) -> Result<(), Failure> {
    match run.exists() {
        true => Ok(fs::remove_dir_all(run)?),
        false => Ok(()),
    }
}

/// The quarter, the half and three quarters of the ratios are not above these.
fn quartiles(mut ratios: Vec<f64>) -> [f64; 3] {
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios.get((ratios.len() * part / 4).min(ratios.len() - 1)).copied();
    [at(1), at(2), at(3)].map(|ratio| ratio.unwrap_or(f64::NAN))
}

fn lines(subjects: &[&Subject], results: &[Turns]) -> Result<String, Failure> {
    let mut text = String::from(
        "| program | work | native CPU | recorded CPU | ratio of the sums | ratios of turns: quartiles | log |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (subject, turns) in subjects.iter().zip(results) {
        let each = |seconds: f64| match subject.requests {
            1 => format!("{seconds:.3} s/run"),
            requests => format!("{:.2} µs/request", seconds / requests as f64 * 1e6),
        };
        let sum = |cpu: &[f64]| cpu.iter().sum::<f64>();
        let ratios = turns
            .native
            .iter()
            .zip(&turns.recorded)
            .map(|(native, recorded)| recorded / native);
        let [low, middle, high] = quartiles(ratios.collect());
        let median = |cpu: &[f64]| each(table::median(cpu.iter().copied()));
        let rate = turns.log_bytes / turns.recorded_wall_s.max(0.001);
        writeln!(
            text,
            "| {} | {} | {} | {} | {:.3}× | {low:.3}, **{middle:.3}**, {high:.3} | {} |",
            subject.name,
            subject.work,
            median(&turns.native),
            median(&turns.recorded),
            sum(&turns.recorded) / sum(&turns.native),
            table::per_second(rate),
        )
        .map_err(|e| Failure::new(e.to_string()))?;
    }
    Ok(text.trim_end().to_owned())
}
