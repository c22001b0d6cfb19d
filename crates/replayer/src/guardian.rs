//! Processes of replays end with the command that started them, even if that is killed.
//!
//! The kernel can be asked to kill a child when its parent's *thread* dies, but not the children of that child, which a replay forks. So a process of our
//! own watches: its standard input is a pipe that only the command holds the other end of. When that is closed without a word, it kills whoever has a
//! control memory of the command's mapped or open: that has a name which no other has. It is in a group of its own, so that what is sent to the
//! command's group does not reach it, and has a name of its own, so that whoever kills everything called `refrain` does not kill it. If it is killed
//! alone, the command starts another one.
use crate::sys;
use std::ffi::CString;
use std::fs;
use std::io;
use std::io::PipeReader;
use std::io::PipeWriter;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// The hidden subcommand of `refrain` that is the guardian.
const SUBCOMMAND: &str = "guard";
/// What it is called in lists of processes.
const CALLED: &str = "replay-guard";
/// A path without `refrain` in it, and one that holds if the executable is replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";
/// What all names of control memories begin with. It is not among the guardian's arguments, because whoever looks for `refrain` there is to find the
/// command alone.
const PREFIX: &str = "refrain-";
/// So long processes may be about to appear.
const LOOKS_FOR: Duration = Duration::from_secs(10);
/// After so many looks that found nobody, nobody is left: who forks has been seen by one of them.
const LOOKS: u32 = 3;
/// A killed guardian is replaced at once, and the next one after so long.
const BETWEEN: Duration = Duration::from_millis(20);

struct Guardian {
    life: PipeWriter,
    process: Child,
}

/// Closed, it says that the guardian is over.
type Death = PipeReader;

static GUARDIAN: Mutex<Option<Guardian>> = Mutex::new(None);

/// What control memories of this command are called.
pub fn name() -> &'static CString {
    static NAME: OnceLock<CString> = OnceLock::new();
    NAME.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), now.as_nanos());
        CString::new(name).expect("digits have no NUL")
    })
}

/// Makes sure that there is one. Whoever cannot have one has replays whose processes may outlive a kill.
pub fn watch() {
    let Ok(mut guardian) = GUARDIAN.lock() else { return };
    if guardian.is_none()
        && let Ok((started, death)) = start()
    {
        let id = started.process.id();
        *guardian = Some(started);
        thread::spawn(move || replace_killed(id, death));
    }
}

fn start() -> io::Result<(Guardian, Death)> {
    let (end, life) = io::pipe()?;
    let (death, held) = io::pipe()?;
    let name = name().to_string_lossy();
    let process = Command::new(OURSELVES)
        .arg0(CALLED)
        .arg(SUBCOMMAND)
        .arg(name.trim_start_matches(PREFIX))
        .current_dir("/")
        .env_clear()
        .stdin(end)
        .stdout(held)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok((Guardian { life, process }, death))
}

/// Starts another one whenever one is over that was not told to go.
fn replace_killed(mut id: u32, mut death: Death) {
    // Nothing is ever written there: it is read to its end when the guardian is over.
    while death.read_to_end(&mut Vec::new()).is_ok() {
        let Ok(mut guardian) = GUARDIAN.lock() else { return };
        let Some(killed) = guardian.as_mut().filter(|guardian| guardian.process.id() == id) else {
            return;
        };
        let _ = killed.process.wait();
        let Ok((started, its_death)) = start() else { return };
        (id, death) = (started.process.id(), its_death);
        *killed = started;
        drop(guardian);
        // One that cannot live is not started all the time.
        thread::sleep(BETWEEN);
    }
}

/// All processes of replays are over: the guardian goes.
pub fn end() {
    if let Ok(mut guardian) = GUARDIAN.lock()
        && let Some(mut guardian) = guardian.take()
    {
        // If it is gone already, there is nobody to tell.
        let _ = guardian.life.write_all(b".");
        drop(guardian.life);
        let _ = guardian.process.wait();
    }
}

/// What the guardian does. `name` is that of the control memories, without what they all begin with.
pub fn guard(name: &str) {
    // If it cannot be renamed, it is called as what was executed.
    let _ = fs::write("/proc/self/comm", CALLED);
    let mut word = [0];
    let is_peace = io::stdin().read_exact(&mut word).is_ok();
    if is_peace || name.is_empty() {
        return;
    }
    let mark = format!("memfd:{PREFIX}{name}");
    let deadline = Instant::now() + LOOKS_FOR;
    let mut looks = 0;
    while looks < LOOKS && Instant::now() < deadline {
        looks = if kill_all(&mark) { 0 } else { looks + 1 };
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills who has the memory. True: there was somebody.
fn kill_all(mark: &str) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut is_one = false;
    for id in ids.filter(|id| *id != std::process::id()) {
        let process = Path::new("/proc").join(id.to_string());
        // Held before it is looked at: the one that was looked at is the one that is killed.
        let Ok(held) = sys::process_descriptor(id) else {
            continue;
        };
        if has(&process, mark) {
            sys::signal_process(held.as_fd(), 9);
            is_one = true;
        }
    }
    is_one
}

fn has(process: &Path, mark: &str) -> bool {
    let is_open =
        |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains(mark));
    let is_in = |maps: &[u8]| maps.windows(mark.len()).any(|window| window == mark.as_bytes());
    let mut open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    if open.any(is_open) || is_in(&maps) {
        return true;
    }
    // A process whose first thread is over has no memory there, but its other threads have.
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let mut memories = threads.map(|thread| fs::read(thread.path().join("maps")).unwrap_or_default());
    maps.is_empty() && memories.any(|maps| is_in(&maps))
}
