//! What has to hold after every trial.
use super::Chamber;
use crate::command::Failure;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// How long a recorded program may go on after its recorder was killed, on a busy machine: the programs here take less than a second.
const LIVES: Duration = Duration::from_secs(15);

pub fn status_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Processes that are where only ours are, without those that have ended and wait for their parents.
fn left_running(chamber: &Chamber) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |id: &u32| {
        let folder = PathBuf::from(format!("/proc/{id}"));
        let is_here = fs::read_link(folder.join("cwd")).is_ok_and(|place| place.starts_with(&chamber.root));
        let status = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        is_here && *id != std::process::id() && !matches!(state, Some('Z' | 'X') | None)
    };
    ids.filter(is_ours).collect()
}

/// Nobody runs on.
pub fn nobody_left(chamber: &Chamber) -> Result<(), Failure> {
    let deadline = Instant::now() + LIVES;
    loop {
        let left = left_running(chamber);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let command = |id: &u32| {
                fs::read_to_string(format!("/proc/{id}/cmdline"))
                    .unwrap_or_default()
                    .replace('\0', " ")
            };
            let told: Vec<String> = left.iter().map(|id| format!("{id} ({})", command(id))).collect();
            return Err(Failure::new(format!("left running: {}", told.join(", "))));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        all.push(entry.path());
        if entry.file_type()?.is_dir() {
            all.extend(files_below(&entry.path())?);
        }
    }
    Ok(all)
}

/// Nothing that refrain made may be used by others.
pub fn private(folder: &Path) -> Result<(), Failure> {
    for path in files_below(folder)? {
        let metadata = fs::symlink_metadata(&path)?;
        let mode = metadata.permissions().mode() & 0o777;
        // A program that is kept under another name has the mode its maker gave it.
        let is_linked = metadata.is_file() && metadata.nlink() > 1;
        if !metadata.is_symlink() && !is_linked && mode & 0o077 != 0 {
            return Err(Failure::new(format!("{} has the mode {mode:o}", path.display())));
        }
    }
    Ok(())
}

/// Bytes on the disk of all that is below a folder, and of itself.
pub fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = fs::symlink_metadata(folder)?.blocks() * 512;
    for path in files_below(folder)? {
        bytes += fs::symlink_metadata(path)?.blocks() * 512;
    }
    Ok(bytes)
}

/// Where libc enters the kernel, beside the runs: it is no run's.
const KEPT: &str = "libc-call-sites";

/// `latest` means a run, or there is none.
fn latest_leads_somewhere(store: &Path) -> Result<(), Failure> {
    let link = store.join("latest");
    let is_there = fs::symlink_metadata(&link).is_ok();
    if is_there && !link.join("run.json").exists() && !link.join("recording.json").exists() {
        return Err(Failure::new("`latest` leads nowhere"));
    }
    Ok(())
}

/// The next command finds everything in order: only runs in the store, nothing in the temporary directory, and every run can be looked at, replayed
/// and removed.
pub fn in_order(chamber: &mut Chamber) -> Result<(), Failure> {
    nobody_left(chamber)?;
    let listed = chamber.expect(&["ls", "--json"], &[0])?;
    let listed: Value = serde_json::from_str(&listed.stdout).map_err(|e| Failure::new(format!("ls: not JSON: {e}")))?;
    let names: Vec<String> = listed
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|run| Some(run["name"].as_str()?.to_owned()))
        .collect();
    private(&chamber.store())?;
    latest_leads_somewhere(&chamber.store())?;
    for entry in fs::read_dir(chamber.store())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "latest" && name != KEPT && !names.contains(&name) {
            return Err(Failure::new(format!("{name} is left in the store, and not listed")));
        }
    }
    for folder in [chamber.store(), chamber.temporary(), chamber.work()] {
        for path in files_below(&folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_temporary =
                name.ends_with(".part") || name.starts_with(".refrain") || path.starts_with(chamber.temporary());
            if is_temporary {
                return Err(Failure::new(format!("{} is left behind", path.display())));
            }
        }
    }
    for name in &names {
        chamber.expect(&["info", name], &[0, 3])?;
        // Of a recording that was cut off before its program began there is nothing to be replayed.
        chamber.expect(&["replay", "--quiet", name], &[0, 3])?;
    }
    nobody_left(chamber)
}

/// Removes all runs, by the command that is for it.
pub fn remove_all(chamber: &mut Chamber) -> Result<(), Failure> {
    chamber.expect(&["rm", "--all"], &[0])?;
    let left: Vec<String> = fs::read_dir(chamber.store())?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != KEPT)
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("rm leaves {}", left.join(", ")))),
    }
}

/// After a violation, by force.
pub fn clean(chamber: &Chamber) {
    for folder in [chamber.store(), chamber.temporary(), chamber.work()] {
        // What cannot be removed shows in the next trial.
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::create_dir_all(&folder);
    }
}
