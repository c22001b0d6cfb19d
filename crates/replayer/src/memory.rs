//! How much memory solving needs, and how much there is.
//!
//! The bounds are those of `docs/solving.md`, where it says what was measured. They are for logs that the recorded order
//! solves, which is to say for all but damaged ones.
use run_model::Logs;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// For a record: itself, its gate, and what it takes to find out what that waits for.
const BYTES_PER_RECORD: u64 = 280;
/// For each source of a record but the first, beside itself.
const BYTES_PER_MORE_SOURCE: u64 = 64;
const BYTES_PER_THREAD: u64 = 4096;
/// For each two threads that run at once: entries of clocks.
const BYTES_PER_PAIR: u64 = 32;
/// So many at once are more than usual, and how many do is not known beforehand.
const THREADS_AT_ONCE: u64 = 1024;
/// What else the process holds: the program's sites and symbols, mostly.
const BYTES_ANYWAY: u64 = 64 << 20;

/// Bytes that it takes at most to solve these logs, to check the answer and to write it; without the logs themselves.
pub fn to_solve(logs: &Logs) -> u64 {
    let records = || logs.threads.iter().flat_map(|log| &log.records);
    let more: u64 = records().map(|r| (r.sources.len() as u64).saturating_sub(1)).sum();
    let own = size_of::<run_model::Record>() as u64;
    let threads = logs.threads.len() as u64;
    records().count() as u64 * (BYTES_PER_RECORD - own)
        + more * BYTES_PER_MORE_SOURCE
        + threads * BYTES_PER_THREAD
        + threads.min(THREADS_AT_ONCE).pow(2) * BYTES_PER_PAIR
        + BYTES_ANYWAY
}

/// Bytes that this process can still take before somebody is killed or refused; `None` if that cannot be found out.
pub fn available() -> Option<u64> {
    let limits = [machine(), address_space()].into_iter().flatten();
    limits.chain(groups()).min()
}

/// The most this process has held at once.
pub fn peak() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM:")
}

fn machine() -> Option<u64> {
    let free = kilobytes("/proc/meminfo", "MemAvailable:")?;
    Some(free + kilobytes("/proc/meminfo", "SwapFree:").unwrap_or(0))
}

/// What `ulimit -v` leaves.
fn address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let most: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(kilobytes("/proc/self/status", "VmSize:")?))
}

/// What the limit of each control group leaves that this process is in: a container has one.
fn groups() -> impl Iterator<Item = u64> {
    let root = Path::new("/sys/fs/cgroup");
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .map(PathBuf::from);
    let deepest = root.join(own.unwrap_or_default());
    let all: Vec<PathBuf> = deepest
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .map(Path::to_owned)
        .collect();
    all.into_iter().filter_map(|group| group_leaves(&group))
}

fn group_leaves(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let most = number("memory.max")?;
    let used = number("memory.current")?;
    // Pages of files are given back when memory is short.
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = ["inactive_file ", "active_file "];
    let files = files.map(|name| {
        stat.lines()
            .find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok())
            .unwrap_or(0)
    });
    Some(most.saturating_sub(used.saturating_sub(files.iter().sum())))
}

/// A line such as `MemAvailable:   23199 kB`.
fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_go_on() {
        let available = available().expect("Linux says how much memory there is");
        assert!(available > 1 << 20, "{available}");
        assert!(peak().expect("Linux says how much memory a process has") > 1 << 20);
    }

    #[test]
    fn more_records_take_more() {
        let mut logs = Logs::default();
        let nothing = to_solve(&logs);
        logs.threads.push(run_model::ThreadLog::default());
        let thread = to_solve(&logs);
        logs.threads[0].records.push(run_model::Record::default());
        assert!(nothing < thread && thread < to_solve(&logs));
    }
}
