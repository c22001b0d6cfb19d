//! Files that have a list for each thread, mapped where a hybrid schedule is enforced: `runtime_abi::lists_file`.
use crate::control;
use crate::failure;
use crate::sys;
use core::marker::PhantomData;
use runtime_abi::lists_file::ListsHeader;
use runtime_abi::lists_file::ThreadList;
use runtime_abi::memory_map::Region;

/// Such a file, with entries of type `T`.
pub struct Lists<T> {
    pub region: &'static Region,
    pub name: &'static str,
    pub magic: u64,
    pub version: u32,
    /// Bytes behind the entries, which the runtime does not look at.
    pub bytes_behind: u64,
    pub entries: PhantomData<fn() -> T>,
}

impl<T: 'static> Lists<T> {
    /// Maps it. The tool has written and verified it; here only sizes are checked again.
    pub fn open(&self) {
        let mut buffer = [0; 4352];
        let path = control::path_in_run(self.name.as_bytes(), &mut buffer);
        let file = match sys::open(path, libc::O_RDWR) {
            Ok(file) => file,
            Err(errno) => failure::die_of(b"cannot open a file of this schedule: ", self.name.as_bytes(), errno),
        };
        let bytes = sys::file_bytes(file);
        if !self.region.has_room_for(bytes)
            || bytes < size_of::<ListsHeader>() as u64
            || sys::map_at(self.region.start, bytes as usize, file, 0, true).is_err()
        {
            failure::die_of(b"cannot map a file of this schedule: ", self.name.as_bytes(), 0);
        }
        sys::close(file);
        let header = self.header();
        let expected = header
            .entries
            .checked_mul(size_of::<T>() as u64)
            .and_then(|entries| entries.checked_add(u64::from(header.threads) * size_of::<ThreadList>() as u64))
            .and_then(|tables| tables.checked_add(size_of::<ListsHeader>() as u64 + self.bytes_behind));
        if header.magic != self.magic || header.version != self.version || expected != Some(bytes) {
            failure::die_of(b"a file of this schedule is damaged: ", self.name.as_bytes(), 0);
        }
    }

    fn header(&self) -> &'static ListsHeader {
        // SAFETY: `open` mapped at least a header here, for good.
        unsafe { &*(self.region.start as *const ListsHeader) }
    }

    /// The list of a thread.
    pub fn of(&self, thread: u32) -> &'static [T] {
        let header = self.header();
        let at = self.region.start as usize + size_of::<ListsHeader>();
        // SAFETY: `open` found the file to be exactly as long as its header says.
        let threads = unsafe { core::slice::from_raw_parts(at as *const ThreadList, header.threads as usize) };
        let at = threads.as_ptr_range().end;
        // SAFETY: `open` found the file to be exactly as long as its header says; the entries follow the threads, and are of plain numbers.
        let entries: &[T] = unsafe { core::slice::from_raw_parts(at.cast(), header.entries as usize) };
        let list = threads.get(thread as usize).and_then(|list| {
            let first = usize::try_from(list.first).ok()?;
            entries.get(first..first.checked_add(usize::try_from(list.count).ok()?)?)
        });
        list.unwrap_or(&[])
    }
}
