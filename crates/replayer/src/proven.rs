//! Processes that are provably those of a run. A process says its id, but that may be the one it has in a pid namespace of its own, where the same
//! number means somebody else outside; and a number is given out again when its process has ended. So nobody is waited for or sent a signal by number:
//! who is meant has the process's control memory mapped, and is held by a descriptor from the time when that was seen.
use crate::sys;
use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// A file that only processes of a run have mapped.
#[derive(Debug)]
pub struct Mapped {
    device: String,
    inode: String,
    /// Some file systems that lie over others have other numbers for it there.
    path: Option<PathBuf>,
}

impl Mapped {
    /// As /proc/PID/maps has it.
    pub fn new(file: &File) -> io::Result<Mapped> {
        let file = file.metadata()?;
        let (major, minor) = sys::device_numbers(file.dev());
        Ok(Mapped {
            device: format!("{major:02x}:{minor:02x}"),
            inode: file.ino().to_string(),
            path: None,
        })
    }

    pub fn at(path: &Path) -> io::Result<Mapped> {
        let path = path.canonicalize()?;
        Ok(Mapped {
            path: Some(path.clone()),
            ..Mapped::new(&File::open(path)?)?
        })
    }

    fn is_in(&self, maps: &str) -> bool {
        maps.lines().any(|line| {
            // Addresses, rights, offset, device, inode, path; the last is as long as the line.
            let mut words = line.splitn(6, ' ');
            let numbers = (words.nth(3), words.next());
            let path = words.next().map(|path| Path::new(path.trim_start()));
            numbers == (Some(&self.device), Some(&self.inode)) || (path.is_some() && path == self.path.as_deref())
        })
    }

    fn is_mapped_by(&self, process: &Path) -> bool {
        let maps = |at: PathBuf| {
            let bytes = fs::read(at.join("maps")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if self.is_in(&maps(process.to_owned())) {
            return true;
        }
        // A process whose first thread is over has no memory there, but its other threads have.
        let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        threads
            .map(|thread| thread.path())
            .any(|thread| self.is_in(&maps(thread)))
    }
}

/// A process that had the control memory mapped when this was made.
#[derive(Debug)]
pub struct Proven {
    descriptor: OwnedFd,
    /// What it is called here.
    pub id: u32,
}

impl Proven {
    /// The process with this id, as we call it, if it has the file mapped.
    pub fn by_id(id: u32, file: &Mapped) -> Option<Proven> {
        if id == 0 {
            return None;
        }
        // Held before it is looked at: if it has not ended afterwards, the one that was looked at is the one that is held.
        let proven = Proven {
            descriptor: sys::process_descriptor(id).ok()?,
            id,
        };
        let is_ours = file.is_mapped_by(&Path::new("/proc").join(id.to_string()));
        (is_ours && proven.is_running()).then_some(proven)
    }

    /// The process that calls itself so, in whatever namespace. Looks at all processes there are.
    pub fn by_own_id(own_id: u32, file: &Mapped) -> Option<Proven> {
        let own_id = own_id.to_string();
        let calls_itself_so = |id: &u32| {
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            // One for each namespace; the first is ours.
            ids.is_some_and(|ids| ids.split_ascii_whitespace().skip(1).last() == Some(&own_id))
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(calls_itself_so).find_map(|id| Proven::by_id(id, file))
    }

    pub fn is_running(&self) -> bool {
        // On an error nothing is known, and nobody is waited for.
        sys::wait_readable(self.descriptor.as_fd(), Some(Duration::ZERO)).is_ok_and(|has_ended| !has_ended)
    }

    pub fn signal(&self, signal: i32) {
        sys::signal_process(self.descriptor.as_fd(), signal);
    }
}

/// The process that a control file of a recording is about.
pub fn of_recording(control: &Path, own_id: u32, look_everywhere: bool) -> Option<Proven> {
    let file = Mapped::at(control).ok()?;
    let by_id = Proven::by_id(own_id, &file);
    by_id.or_else(|| look_everywhere.then(|| Proven::by_own_id(own_id, &file))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_what_it_has_mapped() {
        let own = File::open(std::env::current_exe().expect("a test has an executable")).expect("opened");
        let own = Mapped::new(&own).expect("its identity");
        let me = Proven::by_id(std::process::id(), &own).expect("I have my executable mapped");
        assert!(me.is_running());
        let stranger = Mapped::new(&tempfile::tempfile().expect("a temporary file")).expect("its identity");
        assert!(Proven::by_id(std::process::id(), &stranger).is_none());
        assert!(Proven::by_own_id(std::process::id(), &stranger).is_none());
    }
}
