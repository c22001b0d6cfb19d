//! How often a file is opened, by whomever, as the kernel counts it.
use rustix::fs::inotify;
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

pub struct Opened {
    events: OwnedFd,
}

impl Opened {
    /// Counts from now on.
    pub fn watch(path: &Path) -> io::Result<Opened> {
        let events = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        // Of two events in a row that are the same, the kernel tells one: so that of closing is wanted, too.
        inotify::add_watch(&events, path, inotify::WatchFlags::OPEN | inotify::WatchFlags::CLOSE)?;
        Ok(Opened { events })
    }

    /// How often it was opened since.
    pub fn count(self) -> io::Result<u64> {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut room);
        let mut count = 0;
        loop {
            match reader.next() {
                Ok(event) => count += u64::from(event.events().contains(inotify::ReadFlags::OPEN)),
                Err(Errno::AGAIN) => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
