//! `cargo xtask soak`: a server is recorded for minutes under load, at each scope. Its memory must not grow, the cap must hold, and the run must come back.
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const CONNECTIONS: usize = 4;
/// Of the run directory.
const CAP_BYTES: u64 = 64 << 20;
/// Between two questions on one connection.
const PAUSE: Duration = Duration::from_micros(500);
/// Memory may be so much larger in the end than when the server had warmed up: a window of each log and a few pages.
const GROWTH_BYTES: u64 = 24 << 20;

/// What was seen of one recording.
struct Soaked {
    answers: u64,
    warm_bytes: u64,
    last_bytes: u64,
    disk_bytes: u64,
    is_same: bool,
}

pub fn soak(arguments: &[&str]) -> Result<(), Failure> {
    let minutes: f64 = match arguments {
        ["--minutes", minutes] => minutes.parse().map_err(|_| Failure::new("--minutes wants a number"))?,
        _ => return Err(Failure::new("usage: cargo xtask soak --minutes N")),
    };
    let folder = target().join(format!("tmp/soak-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let source = root().join("tests/guests/soak/server.c");
    let (program, plain) = (folder.join("server"), folder.join("plain"));
    Command::new(refrain())
        .args(["cc", "-O2", "-pthread"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .run()?;
    Command::new("cc")
        .args(["-O2", "-pthread"])
        .arg(&source)
        .arg("-o")
        .arg(&plain)
        .run()?;
    let time = Duration::from_secs_f64(minutes * 60.0 / 3.0);
    println!(
        "scope    answers    memory when warm    in the end    on disk (cap {} MB)    replayed",
        CAP_BYTES >> 20
    );
    let mut wrong = Vec::new();
    for (scope, program) in [("inputs", &plain), ("sync", &program), ("memory", &program)] {
        let soaked = soak_one(&folder, scope, program, time)?;
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / f64::from(1 << 20));
        println!(
            "{scope:<7}  {:>7}    {:>16}    {:>10}    {:>20}    {}",
            soaked.answers,
            megabytes(soaked.warm_bytes),
            megabytes(soaked.last_bytes),
            megabytes(soaked.disk_bytes),
            if soaked.is_same {
                "the same run"
            } else {
                "NOT the same run"
            }
        );
        if soaked.last_bytes > soaked.warm_bytes + GROWTH_BYTES {
            wrong.push(format!("{scope}: memory grows"));
        }
        if soaked.disk_bytes > CAP_BYTES {
            wrong.push(format!("{scope}: the cap was exceeded"));
        }
        if !soaked.is_same {
            wrong.push(format!("{scope}: the replay differs"));
        }
    }
    if !wrong.is_empty() {
        return Err(Failure::new(format!(
            "{}; the runs are in {}",
            wrong.join(", "),
            folder.display()
        )));
    }
    Ok(fs::remove_dir_all(&folder)?)
}

fn soak_one(folder: &Path, scope: &str, program: &Path, time: Duration) -> Result<Soaked, Failure> {
    let (run, port) = (folder.join(scope), folder.join(format!("{scope}.port")));
    let mut recorder = Command::new(refrain())
        .args(["record", "--scope", scope, "--max-size", &CAP_BYTES.to_string(), "-o"])
        .arg(&run)
        .arg("--")
        .arg(program)
        .arg(&port)
        .env("REFRAIN_DIR", folder.join("store"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let clients = connect(&port, &mut recorder)?;
    let server = child_of(recorder.id()).ok_or_else(|| Failure::new("the server is not there"))?;
    let deadline = Instant::now() + time;
    let threads: Vec<_> = clients
        .into_iter()
        .map(|client| thread::spawn(move || ask(client, deadline)))
        .collect();
    thread::sleep(time / 4);
    let warm_bytes = memory_of(server);
    let mut last_bytes = warm_bytes;
    while Instant::now() + Duration::from_millis(300) < deadline {
        thread::sleep(Duration::from_millis(200));
        last_bytes = memory_of(server);
    }
    let mut answers = 0;
    for thread in threads {
        answers += thread.join().map_err(|_| Failure::new("a client panicked"))??;
    }
    let status = recorder.wait()?;
    if !status.success() {
        return Err(Failure::new(format!(
            "the recording at scope {scope} ended with {status}"
        )));
    }
    let replayed = Command::new(refrain())
        .args(["replay", "--quiet"])
        .arg(&run)
        .env("REFRAIN_DIR", folder.join("store"))
        .stdout(Stdio::null())
        .status()?;
    Ok(Soaked {
        answers,
        warm_bytes,
        last_bytes,
        disk_bytes: disk_bytes(&run)?,
        is_same: replayed.success(),
    })
}

fn connect(port: &Path, recorder: &mut Child) -> Result<Vec<TcpStream>, Failure> {
    let began = Instant::now();
    let number = loop {
        match fs::read_to_string(port)
            .ok()
            .and_then(|text| text.trim().parse::<u16>().ok())
        {
            Some(number) => break number,
            None if began.elapsed() > Duration::from_secs(60) || recorder.try_wait()?.is_some() => {
                return Err(Failure::new("the server does not begin"));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    (0..CONNECTIONS)
        .map(|_| Ok(TcpStream::connect(("127.0.0.1", number))?))
        .collect()
}

/// Asks until it is time, then says so. Returns how many answers came.
fn ask(mut client: TcpStream, deadline: Instant) -> Result<u64, Failure> {
    let mut answers = BufReader::new(client.try_clone()?);
    let (mut count, mut line) = (0, String::new());
    loop {
        let is_last = Instant::now() >= deadline;
        match is_last {
            true => client.write_all(b"stop\n")?,
            false => writeln!(client, "{count}")?,
        }
        line.clear();
        answers.read_line(&mut line)?;
        count += 1;
        if is_last || line.is_empty() {
            return Ok(count);
        }
        thread::sleep(PAUSE);
    }
}

fn child_of(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}

/// Without files: logs are mapped, and are the page cache's.
fn memory_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

fn disk_bytes(folder: &PathBuf) -> Result<u64, Failure> {
    let mut bytes = fs::symlink_metadata(folder)?.blocks() * 512;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.blocks() * 512;
    }
    Ok(bytes)
}
