//! One program that nobody here wrote: run with a limit, and without leaving anything behind.
#![allow(
    unsafe_code,
    reason = "kills what a program left behind, which std has no safe call for"
)]
use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The variable by which whatever a program leaves behind is found.
const MARK: &str = "REFRAIN_PEER";
const LOOK_AGAIN_FIRST: Duration = Duration::from_micros(100);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOKS_PER_RUN: u32 = 50;

pub struct Limits {
    time: Duration,
}

impl Limits {
    pub fn seconds(seconds: u64) -> Limits {
        Limits {
            time: Duration::from_secs(seconds),
        }
    }
}

/// How it ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// Before the limit?
    pub is_over: bool,
    pub elapsed: Duration,
}

impl Ended {
    pub fn is_success(&self) -> bool {
        self.is_over && self.status.success()
    }

    /// As `refrain record` has it: 128 and the signal, if it died of one.
    pub fn code(&self) -> i32 {
        let signal = self.status.signal().unwrap_or(0);
        self.status.code().unwrap_or(128 + signal)
    }

    pub fn told(&self) -> String {
        match (self.is_over, self.status.code(), self.status.signal()) {
            (false, ..) => "not over in time".to_owned(),
            (_, Some(code), _) => format!("status {code}"),
            (_, _, signal) => format!("signal {}", signal.unwrap_or(0)),
        }
    }
}

/// Runs it in a directory of its own below `place`, with nothing to read.
pub fn run(place: &Path, command: Command, limits: Limits) -> io::Result<Ended> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let directory = place.join(format!("in-{number}"));
    fs::create_dir_all(&directory)?;
    let streams = Streams {
        stdin: None,
        stdout: place.join(format!("{number}.out")),
        stderr: place.join(format!("{number}.err")),
    };
    let mark = format!("{}-{number}", process::id());
    run_in(&directory, &mark, &streams, command, limits)
}

/// Where it reads from, if from anything, and writes to.
pub struct Streams {
    pub stdin: Option<PathBuf>,
    pub stdout: PathBuf,
    pub stderr: PathBuf,
}

/// Runs it there. Nobody else's processes may have the mark at the same time.
pub fn run_in(
    directory: &Path,
    mark: &str,
    streams: &Streams,
    mut command: Command,
    limits: Limits,
) -> io::Result<Ended> {
    let stdin = match &streams.stdin {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    command
        .current_dir(directory)
        .env(MARK, mark)
        .stdin(stdin)
        .stdout(File::create(&streams.stdout)?)
        .stderr(File::create(&streams.stderr)?)
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn()?;
    let mut is_over = true;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if is_over && began.elapsed() > limits.time {
            is_over = false;
            end_all(mark);
        }
        // Often enough that a short time is not measured too long.
        thread::sleep((began.elapsed() / LOOKS_PER_RUN).clamp(LOOK_AGAIN_FIRST, LOOK_AGAIN));
    };
    let elapsed = began.elapsed();
    end_all(mark);
    let text = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended {
        status,
        stdout: text(&streams.stdout)?,
        stderr: text(&streams.stderr)?,
        is_over,
        elapsed,
    })
}

/// Ends every process that began with this mark in its environment.
fn end_all(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    let Ok(processes) = fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == wanted.as_bytes())
        {
            // SAFETY: touches no memory; the process is one of those that we started.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    }
}
