//! `cargo xtask soak`: a server is recorded for minutes under load, at each scope. Its memory and the recorder's must not grow, the cap must hold at
//! every moment, of the recording and of the replay, and the run must come back.
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
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const CONNECTIONS: usize = 4;
/// Of the run directory, unless another cap is asked for.
const CAP_MEGABYTES: u64 = 64;
/// Between two looks at memory and disk.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two questions on one connection.
const PAUSE: Duration = Duration::from_micros(500);
/// All memory of a process, with what it maps of its files, may be so much larger than when the server had warmed up: a window of each log.
const GROWTH_BYTES: u64 = 24 << 20;
/// Memory of its own, which no file backs, may be so much larger: a few pages.
const OWN_GROWTH_BYTES: u64 = 1 << 20;

/// What a process has in memory: all of it, and what is no file's.
#[derive(Clone, Copy, Default)]
struct Memory {
    all: u64,
    own: u64,
}

impl Memory {
    fn of(process: u32) -> Result<Memory, Failure> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
            Some(kilobytes << 10)
        };
        match (bytes("VmRSS:"), bytes("RssAnon:")) {
            (Some(all), Some(own)) => Ok(Memory { all, own }),
            _ => Err(Failure::new(format!("process {process} has no memory"))),
        }
    }

    fn most(self, other: Memory) -> Memory {
        Memory {
            all: self.all.max(other.all),
            own: self.own.max(other.own),
        }
    }
}

/// A process's memory when it had warmed up, and the most that it had from then on.
#[derive(Clone, Copy)]
struct Watched {
    process: u32,
    warm: Memory,
    most: Memory,
}

impl Watched {
    fn begin(process: u32) -> Result<Watched, Failure> {
        let warm = Memory::of(process)?;
        Ok(Watched {
            process,
            warm,
            most: warm,
        })
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.most = self.most.most(Memory::of(self.process)?);
        Ok(())
    }

    fn grows(&self) -> bool {
        self.most.all > self.warm.all + GROWTH_BYTES || self.most.own > self.warm.own + OWN_GROWTH_BYTES
    }

    fn told(&self) -> String {
        format!(
            "{} -> {} (own {} -> {})",
            megabytes(self.warm.all),
            megabytes(self.most.all),
            megabytes(self.warm.own),
            megabytes(self.most.own)
        )
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}

/// What was seen of one recording and its replay.
struct Soaked {
    answers: u64,
    server: Watched,
    recorder: Watched,
    /// The most that there was of the run at once: while it was recorded, and while it was replayed.
    recorded_bytes: u64,
    replayed_bytes: u64,
    is_same: bool,
}

pub fn soak(arguments: &[&str]) -> Result<(), Failure> {
    let usage = || Failure::new("usage: cargo xtask soak --minutes N [--cap MEGABYTES]");
    let (minutes, cap) = match arguments {
        ["--minutes", minutes] => (minutes, CAP_MEGABYTES),
        ["--minutes", minutes, "--cap", cap] => (minutes, cap.parse().map_err(|_| usage())?),
        _ => return Err(usage()),
    };
    let minutes: f64 = minutes.parse().map_err(|_| usage())?;
    let cap_bytes = cap << 20;
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
    println!("cap {cap} MB; memory: when warm -> the most after that");
    let mut wrong = Vec::new();
    for (scope, program) in [("inputs", &plain), ("sync", &program), ("memory", &program)] {
        let soaked = soak_one(&folder, scope, program, time, cap_bytes)?;
        println!(
            "{scope}: {} answers; server {}; recorder {}; on disk {} recorded, {} replayed; {}",
            soaked.answers,
            soaked.server.told(),
            soaked.recorder.told(),
            megabytes(soaked.recorded_bytes),
            megabytes(soaked.replayed_bytes),
            if soaked.is_same {
                "the same run"
            } else {
                "NOT the same run"
            }
        );
        for (whose, watched) in [("the server's", soaked.server), ("the recorder's", soaked.recorder)] {
            if watched.grows() {
                wrong.push(format!("{scope}: {whose} memory grows"));
            }
        }
        if soaked.recorded_bytes.max(soaked.replayed_bytes) > cap_bytes {
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

fn soak_one(folder: &Path, scope: &str, program: &Path, time: Duration, cap_bytes: u64) -> Result<Soaked, Failure> {
    let (run, port) = (folder.join(scope), folder.join(format!("{scope}.port")));
    let mut recorder = Command::new(refrain())
        .args(["record", "--scope", scope, "--max-size", &cap_bytes.to_string(), "-o"])
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
    let server = server_of(recorder.id(), &port)?;
    let deadline = Instant::now() + time;
    let threads: Vec<_> = clients
        .into_iter()
        .map(|client| thread::spawn(move || ask(client, deadline)))
        .collect();
    thread::sleep(time / 4);
    let (mut server, mut recorder_memory) = (Watched::begin(server)?, Watched::begin(recorder.id())?);
    let mut recorded_bytes = 0;
    while Instant::now() + 2 * LOOK_EVERY < deadline {
        thread::sleep(LOOK_EVERY);
        server.look()?;
        recorder_memory.look()?;
        recorded_bytes = recorded_bytes.max(disk_bytes(&run)?);
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
    recorded_bytes = recorded_bytes.max(disk_bytes(&run)?);
    let (is_same, replayed_bytes) = replay(folder, &run)?;
    Ok(Soaked {
        answers,
        server,
        recorder: recorder_memory,
        recorded_bytes,
        replayed_bytes,
        is_same,
    })
}

/// Was it the same run, and how much was there of it at most?
fn replay(folder: &Path, run: &Path) -> Result<(bool, u64), Failure> {
    let mut replaying = Command::new(refrain())
        .args(["replay", "--quiet"])
        .arg(run)
        .env("REFRAIN_DIR", folder.join("store"))
        .stdout(Stdio::null())
        .spawn()?;
    let mut bytes = 0;
    loop {
        let ended = replaying.try_wait()?;
        bytes = bytes.max(disk_bytes(run)?);
        if let Some(status) = ended {
            return Ok((status.success(), bytes));
        }
        thread::sleep(LOOK_EVERY);
    }
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

/// The recorder's child that was given the port's file: the server itself, and no process of ours.
fn server_of(recorder: u32, port: &Path) -> Result<u32, Failure> {
    let children = fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children"))?;
    let is_server = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == port.as_os_str().as_encoded_bytes())
    };
    let children = children.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    let mut servers = children.filter(is_server);
    servers.next().ok_or_else(|| Failure::new("the server is not there"))
}

/// Of the folder, the files in it, and itself. One that vanishes meanwhile, as those do that are renamed when they are whole, takes nothing.
fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = fs::symlink_metadata(folder)?.blocks() * 512;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata().map_or(0, |metadata| metadata.blocks() * 512);
    }
    Ok(bytes)
}
