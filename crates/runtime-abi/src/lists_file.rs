//! What files begin with that have a list for each thread, and are mapped where a hybrid schedule is enforced: `points`, `inputs`, `own_steps`.
//!
//! ```text
//! ListsHeader | ThreadList × threads | entries (thread by thread, in program order)
//! ```

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListsHeader {
    pub magic: u64,
    pub version: u32,
    pub threads: u32,
    /// Of all threads together.
    pub entries: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadList {
    /// Index of the thread's first entry.
    pub first: u64,
    pub count: u64,
}

const _: () = assert!(size_of::<ListsHeader>() == 24);
const _: () = assert!(size_of::<ThreadList>() == 16);
