//! Programs that may take too long or fail: run for so long at most, and everything they said.
#![allow(
    unsafe_code,
    reason = "groups of processes can be stopped, and core files ruled out, by system calls only"
)]

use crate::command::Failure;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const POLL: Duration = Duration::from_millis(2);

pub struct Ended {
    /// 128 and more: it died of a signal. `None`: it was stopped.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
}

impl Ended {
    /// The last thing it said, as short as a cell of a table.
    pub fn reason(&self) -> String {
        let Some(status) = self.status else {
            return format!("stopped after {:.0} s", self.elapsed.as_secs_f64());
        };
        let lines = || self.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
        let ours = lines().rfind(|line| line.starts_with("refrain: ") || line.starts_with("error: "));
        match ours.or_else(|| lines().next_back()) {
            Some(line) => shortened(line.trim_start_matches("refrain: ").trim_start_matches("error: ")),
            None => format!("ended with status {status}"),
        }
    }
}

/// Fit for a cell of a Markdown table.
pub fn shortened(text: &str) -> String {
    const LENGTH: usize = 140;
    let text = text.replace('|', "/").replace('\n', " ");
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text,
    }
}

/// Whatever it started is stopped with it.
pub fn run(mut command: Command, limit: Duration) -> Result<Ended, Failure> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::new(format!("cannot run {command:?}: {e}")))?;
    let readers = (child.stdout.take().map(reader), child.stderr.take().map(reader));
    let (status, elapsed) = loop {
        if let Some(status) = child.try_wait()? {
            let signal = status.signal().map_or(-1, |signal| 128 + signal);
            break (Some(status.code().unwrap_or(signal)), started.elapsed());
        }
        if started.elapsed() > limit {
            // SAFETY: the group of our own child, which has not been waited for: no other group can have its number.
            unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
            child.wait()?;
            break (None, started.elapsed());
        }
        thread::sleep(POLL);
    };
    let text = |reader: Option<thread::JoinHandle<String>>| reader.and_then(|r| r.join().ok()).unwrap_or_default();
    Ok(Ended {
        status,
        stdout: text(readers.0),
        stderr: text(readers.1),
        elapsed,
    })
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is shown; a pipe that breaks has no more.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// For this process and all it starts: a core file of an instrumented program has terabytes, if empty ones.
pub fn rule_out_core_files() -> Result<(), Failure> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is ours and only read.
    match unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit_ms: u64) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, Duration::from_millis(limit_ms)).expect("sh runs")
    }

    #[test]
    fn what_takes_too_long_is_stopped_with_all_it_started() {
        let ended = shell("sleep 60 & sleep 60", 50);
        assert_eq!(ended.status, None);
        assert!(ended.reason().starts_with("stopped after"));
    }

    #[test]
    fn the_last_words_of_refrain_are_the_reason() {
        let ended = shell("echo 'refrain: cannot | do that' >&2; echo bye >&2; exit 3", 10_000);
        assert_eq!((ended.status, ended.reason()), (Some(3), "cannot / do that".to_owned()));
        assert_eq!(shell("kill -9 $$", 10_000).status, Some(137));
    }
}
