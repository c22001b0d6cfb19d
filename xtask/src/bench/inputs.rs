//! What recording at scope inputs costs: servers and compressors as Debian ships them, as they are and recorded.
//!
//! Compared is the processor time, in user and kernel mode, of the measured process alone. On a shared machine that varies by
//! more than what is measured, so natively and recorded take turns as often as possible: two servers are up all the time,
//! one of them recorded, and are given bursts of requests by turns; compressors are run by turns. Each pair of turns gives
//! a ratio. Servers are started anew a few times, since some are quick or slow as long as they live. Servers have one processor and their client another. A few turns more are under strace, which looks at each system call, too.
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
use std::ops::Range;
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
const APACHE_BURST: u64 = 4_000;
/// Turns of one start of a server.
const TURNS_OF_A_START: usize = 5;
/// Turns under strace.
const TRACED_TURNS: usize = 3;
const FILE_BYTES: usize = 32 << 20;

/// One program, and the work it is given in one turn.
struct Subject {
    name: &'static str,
    work: &'static str,
    /// Requests in a turn; 1: the turn is a run of the program.
    requests: u64,
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "memcached",
        work: "-t 4; 32 connections, 90 % get, 10 % set of 100 bytes",
        requests: MEMCACHED_BURST,
    },
    Subject {
        name: "apache2",
        work: "mpm_event, 8 threads; ab -c 8, a page of 1 kB",
        requests: APACHE_BURST,
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
    Subject {
        name: "sort",
        work: "--parallel=2 -S 16M, the same file",
        requests: 1,
    },
];

/// What one subject took in all its turns.
#[derive(Default)]
struct Turns {
    native: Vec<f64>,
    recorded: Vec<f64>,
    /// Recorded without the order of synchronisations.
    unordered: Vec<f64>,
    /// The program's, and strace's own.
    traced: Vec<f64>,
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
    let file = folder.join("lines.txt");
    write_words(&file)?;
    let chosen = |subject: &&Subject| options.names.is_empty() || options.names.iter().any(|p| p == subject.name);
    let subjects: Vec<&Subject> = SUBJECTS.iter().filter(chosen).collect();
    let mut results = Vec::new();
    for subject in &subjects {
        eprintln!("xtask: {}, {} turns", subject.name, options.repetitions);
        results.push(match subject.name {
            "memcached" | "redis-server" | "apache2" => serve(subject, &folder, options.repetitions)?,
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

/// Lines of words of a small vocabulary, some often and some rarely: as compressible as text.
pub fn write_words(path: &Path) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() >= FILE_BYTES as u64) {
        return Ok(());
    }
    let mut out = BufWriter::new(fs::File::create(path)?);
    let (mut state, mut bytes, mut words) = (7u64, 0, 0);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    while bytes < FILE_BYTES {
        // The product of two makes small numbers frequent.
        words += 1;
        let end = if words % 8 == 0 { '\n' } else { ' ' };
        let word = format!("{:x}{end}", (next() % 4096) * (next() % 256) * 0x9e37);
        out.write_all(word.as_bytes())?;
        bytes += word.len();
    }
    Ok(out.flush()?)
}

/// How a program is run.
#[derive(Clone, Copy)]
enum Way<'a> {
    Native,
    Recorded(&'a Path),
    /// By another build of Refrain, the first of the two.
    RecordedBy(&'a Path, &'a Path),
    Traced,
    Unordered(&'a Path),
}

const NATIVE: usize = 0;
const RECORDED: usize = 1;
const TRACED: usize = 2;
const UNORDERED: usize = 3;

/// Who comes when in a turn: each goes first as often as the others; strace in the first turns only.
fn sequence(turn: usize) -> impl Iterator<Item = usize> {
    let mut first = [NATIVE, RECORDED, UNORDERED];
    first.rotate_left(turn % 3);
    first.into_iter().chain((turn <= TRACED_TURNS).then_some(TRACED))
}

fn serve(subject: &Subject, folder: &Path, turns: usize) -> Result<Turns, Failure> {
    let mut result = Turns::default();
    for first in (0..turns).step_by(TURNS_OF_A_START) {
        serve_once(subject, folder, first..turns.min(first + TURNS_OF_A_START), &mut result)?;
    }
    Ok(result)
}

/// Servers, and bursts of requests for one and the other.
fn serve_once(subject: &Subject, folder: &Path, turns: Range<usize>, result: &mut Turns) -> Result<(), Failure> {
    let (run, unordered_run) = (folder.join("run"), folder.join("run-unordered"));
    cleared(&run)?;
    cleared(&unordered_run)?;
    let port = load::free_port;
    let ports = [port()?, port()?, port()?, port()?];
    let command = |port: u16, way: Way<'_>| server_command(subject, folder, port, way);
    let native = Started::new(command(ports[0], Way::Native)?)?;
    let recorded = Started::new(command(ports[1], Way::Recorded(&run))?)?;
    let traced = Started::new(command(ports[2], Way::Traced)?)?;
    let unordered = Started::new(command(ports[3], Way::Unordered(&unordered_run))?)?;
    let servers = [&native, &recorded, &traced, &unordered];
    let worked = alternate(subject, servers, ports, turns, result);
    for server in [&native, &recorded, &unordered] {
        server.terminate();
    }
    // strace does not pass it on.
    let behind = measure::only_child(traced.id()).map(measure::terminate);
    let ended = (native.finish(None), recorded.finish(Some(&run)), traced.finish(None));
    let unordered = unordered.finish(Some(&unordered_run));
    worked?;
    unordered?;
    behind?;
    ended.0?;
    result.log_bytes += ended.1?.log_bytes;
    ended.2?;
    Ok(())
}

/// A server on a port of its own.
fn server_command(subject: &Subject, folder: &Path, port: u16, way: Way<'_>) -> Result<Command, Failure> {
    let own = [port.to_string()];
    Ok(match subject.name {
        "memcached" => {
            let words = ["-l", "127.0.0.1", "-U", "0", "-t", "4", "-m", "64", "-u", "root", "-p"];
            on(SERVER_CPU, subject.name, way, &words, &own)
        }
        "apache2" => {
            let configured = configure_apache(folder, port)?;
            on(
                SERVER_CPU,
                "/usr/sbin/apache2",
                way,
                &["-DFOREGROUND", "-f"],
                &[configured],
            )
        }
        _ => {
            let words = ["--save", "", "--bind", "127.0.0.1", "--port"];
            on(SERVER_CPU, subject.name, way, &words, &own)
        }
    })
}

/// Bursts of requests for a server that a build of Refrain records: the processor time of one, the least of several.
pub fn burst_for(server: &str, tool: &Path, folder: &Path) -> Result<f64, Failure> {
    const BURSTS: usize = 4;
    let subject = SUBJECTS.iter().find(|subject| subject.name == server);
    let subject = subject.ok_or_else(|| Failure::new(format!("'{server}' is not among the measured programs")))?;
    let run = folder.join("run");
    cleared(&run)?;
    let port = load::free_port()?;
    let started = Started::new(server_command(subject, folder, port, Way::RecordedBy(tool, &run))?)?;
    let measured = (|| {
        load::wait_for(port)?;
        let process = measure::only_child(started.id())?;
        let mut least = f64::INFINITY;
        // The first one is for warming up.
        for number in 0..=BURSTS {
            let before = measure::cpu_of_family(process)?;
            burst(subject, port, number == 0)?;
            if number > 0 {
                least = least.min(measure::cpu_of_family(process)? - before);
            }
        }
        Ok(least)
    })();
    started.terminate();
    started.finish(Some(&run))?;
    measured
}

/// What a program that ends by itself is told to do with a file.
pub fn arguments(program: &str, file: &Path) -> Vec<String> {
    let out = file.with_extension("out").display().to_string();
    let words: &[&str] = match program {
        "sort" => &["--parallel=2", "-S", "16M", "-o", &out],
        // It writes beside its input.
        "pigz" => &["-k", "-f", "-p", "2"],
        _ => &["-q", "-f", "-T2", "-o", &out],
    };
    let file = file.display().to_string();
    words.iter().map(|word| (*word).to_owned()).chain([file]).collect()
}

/// One process with threads, and a page.
fn configure_apache(folder: &Path, port: u16) -> Result<String, Failure> {
    const MODULES: &str = "/usr/lib/apache2/modules";
    let root = folder.join(format!("apache-{port}"));
    fs::create_dir_all(&root)?;
    fs::write(root.join("index.html"), "A page of a thousand bytes. ".repeat(36))?;
    let root = root.display().to_string();
    let configuration = format!(
        "ServerRoot {root}\nDefaultRuntimeDir {root}\nPidFile {root}/pid\nServerName localhost\nListen 127.0.0.1:{port}\n\
         LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\nLoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
         LoadModule dir_module {MODULES}/mod_dir.so\nDocumentRoot {root}\nErrorLog {root}/errors\nUser www-data\nGroup www-data\n\
         StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\nMinSpareThreads 1\nMaxSpareThreads 8\n"
    );
    let file = format!("{root}/conf");
    fs::write(&file, configuration)?;
    Ok(file)
}

fn alternate(
    subject: &Subject,
    servers: [&Started; 4],
    ports: [u16; 4],
    turns: Range<usize>,
    result: &mut Turns,
) -> Result<(), Failure> {
    for port in ports {
        load::wait_for(port)?;
    }
    // `taskset` becomes the server; refrain is its parent. strace is measured with it.
    let processes = [
        servers[NATIVE].id(),
        measure::only_child(servers[RECORDED].id())?,
        servers[TRACED].id(),
        measure::only_child(servers[UNORDERED].id())?,
    ];
    let start = turns.start;
    // The first turn of a start is for warming up.
    for turn in start..turns.end + 1 {
        for which in sequence(turn) {
            let (before, started) = (measure::cpu_of_family(processes[which])?, Instant::now());
            burst(subject, ports[which], turn == start)?;
            let cpu_s = measure::cpu_of_family(processes[which])? - before;
            match (turn == start, which) {
                (true, _) => {}
                (_, NATIVE) => result.native.push(cpu_s),
                (_, TRACED) => result.traced.push(cpu_s),
                (_, UNORDERED) => result.unordered.push(cpu_s),
                _ => {
                    result.recorded.push(cpu_s);
                    result.recorded_wall_s += started.elapsed().as_secs_f64();
                }
            }
        }
    }
    Ok(())
}

fn burst(subject: &Subject, port: u16, is_first: bool) -> Result<(), Failure> {
    if subject.name == "memcached" {
        let requests = match is_first {
            true => Requests::StoreAll,
            false => Requests::Random(MEMCACHED_BURST),
        };
        // The client is this process.
        measure::pin_to(CLIENT_CPU)?;
        let loaded = load::memcached(port, 32, requests);
        measure::pin_to("all")?;
        return loaded;
    }
    let mut client = Command::new("taskset");
    client
        .args(["-c", CLIENT_CPU])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if subject.name == "apache2" {
        client.args(["ab", "-q", "-c", "8", "-n", &APACHE_BURST.to_string()]);
        client.arg(format!("http://127.0.0.1:{port}/"));
    } else {
        client.args(["redis-benchmark", "-p", &port.to_string(), "-c", "50"]);
        client.args(["-n", &REDIS_BURST.to_string(), "-t", "set,get", "-q"]);
    }
    match client.status()?.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("the client of {} failed", subject.name))),
    }
}

/// Runs of a program that reads a file and writes one, by turns.
fn compress(subject: &Subject, folder: &Path, file: &Path, turns: usize) -> Result<Turns, Failure> {
    let run = folder.join("run");
    let once = |way: Way<'_>| -> Result<Sample, Failure> {
        let command = on(BOTH_CPUS, subject.name, way, &[], &arguments(subject.name, file));
        let run = match way {
            Way::Recorded(run) | Way::RecordedBy(_, run) | Way::Unordered(run) => Some(run),
            Way::Native | Way::Traced => None,
        };
        Started::new(command)?.finish(run)
    };
    let mut result = Turns::default();
    for turn in 0..turns + 1 {
        let ways = [Way::Native, Way::Recorded(&run), Way::Traced, Way::Unordered(&run)];
        for which in sequence(turn) {
            cleared(&run)?;
            let sample = once(ways[which])?;
            match (turn, which) {
                (0, _) => {}
                (_, NATIVE) => result.native.push(sample.cpu_s),
                (_, TRACED) => result.traced.push(sample.cpu_s),
                (_, UNORDERED) => result.unordered.push(sample.cpu_s),
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

/// `program` on these processors, under `refrain record` or strace if it is to be.
fn on(cpus: &str, program: &str, way: Way<'_>, words: &[&str], more: &[String]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]);
    match way {
        Way::Native => {}
        Way::Recorded(run) | Way::RecordedBy(_, run) | Way::Unordered(run) => {
            let tool = match way {
                Way::RecordedBy(tool, _) => tool.to_owned(),
                _ => crate::refrain(),
            };
            command.arg(tool).args(["record", "--scope", "inputs"]);
            if let Way::Unordered(_) = way {
                command.arg("--no-sync-order");
            }
            command.arg("-o").arg(run).arg("--");
            command.env("REFRAIN_DIR", run.with_extension("store"));
        }
        Way::Traced => _ = command.args(["strace", "-f", "-o", "/dev/null"]),
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
        "| program | work | native CPU | recorded CPU | ratio of the sums | ratios of turns: quartiles | log | with `--no-sync-order` | under strace |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut medians = Vec::new();
    for (subject, turns) in subjects.iter().zip(results) {
        let each = |seconds: f64| match subject.requests {
            1 => format!("{seconds:.3} s/run"),
            requests => format!("{:.2} µs/request", seconds / requests as f64 * 1e6),
        };
        let sum = |cpu: &[f64]| cpu.iter().sum::<f64>();
        let ratios = |recorded: &[f64]| {
            let pairs = turns.native.iter().zip(recorded);
            quartiles(pairs.map(|(native, recorded)| recorded / native).collect())
        };
        let [low, middle, high] = ratios(&turns.recorded);
        let [_, unordered, _] = ratios(&turns.unordered);
        medians.push(middle);
        let median = |cpu: &[f64]| each(table::median(cpu.iter().copied()));
        let rate = turns.log_bytes / turns.recorded_wall_s.max(0.001);
        writeln!(
            text,
            "| {} | {} | {} | {} | {:.3}× | {low:.3}, **{middle:.3}**, {high:.3} | {} | {unordered:.3}× | {:.1}× |",
            subject.name,
            subject.work,
            median(&turns.native),
            median(&turns.recorded),
            sum(&turns.recorded) / sum(&turns.native),
            table::per_second(rate),
            table::median(turns.traced.iter().copied()) / table::median(turns.native.iter().copied()),
        )
        .map_err(|e| Failure::new(e.to_string()))?;
    }
    let mean = medians.iter().sum::<f64>() / medians.len().max(1) as f64;
    let worst = medians.iter().copied().fold(f64::NAN, f64::max);
    writeln!(text, "\nMean of the medians {mean:.3}, the worst {worst:.3}.")
        .map_err(|e| Failure::new(e.to_string()))?;
    Ok(text.trim_end().to_owned())
}
