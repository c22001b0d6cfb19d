//! Tasks of OpenMP, as one thread sees them (`crate::tasks`, `interpose/tasks.rs`). Changed by what the thread itself asks libomp for.
use super::open::Open;
use crate::tasks::Place;
use core::cell::Cell;
use core::ffi::c_int;
use core::ffi::c_void;

pub type Routine = unsafe extern "C-unwind" fn(c_int, *mut c_void) -> c_int;

/// What a thread knows of its own tasks.
pub struct OfThread {
    pub place: Cell<Place>,
    /// How many regions are around it, as libomp counts them, in the one that it has begun.
    pub level: Cell<c_int>,
    /// libomp's task that it executes.
    pub running: Cell<*mut c_void>,
    /// What that task does, while libomp has something of ours in its place.
    pub routine: Cell<Option<Routine>>,
    /// The event that is the end of the task, from where libomp gives its memory back.
    pub open: Cell<Option<Open>>,
    /// A task that was made and not yet passed on, and the event that completes it.
    pub detached: Cell<(*mut c_void, *mut c_void)>,
    /// What it asked libomp for last: a loop of tasks copies it.
    pub allocated: Cell<Allocated>,
}

/// What libomp was asked for, and what it gave.
#[derive(Clone, Copy)]
pub struct Allocated {
    pub task: *mut c_void,
    pub flags: c_int,
    pub bytes: usize,
    pub shared_bytes: usize,
    pub entry: *const c_void,
}

impl OfThread {
    pub const fn new() -> OfThread {
        OfThread {
            place: Cell::new(Place {
                team: 0,
                task: 0,
                group: 0,
            }),
            level: Cell::new(0),
            running: Cell::new(core::ptr::null_mut()),
            routine: Cell::new(None),
            open: Cell::new(None),
            detached: Cell::new((core::ptr::null_mut(), core::ptr::null_mut())),
            allocated: Cell::new(Allocated {
                task: core::ptr::null_mut(),
                flags: 0,
                bytes: 0,
                shared_bytes: 0,
                entry: core::ptr::null(),
            }),
        }
    }
}
