//! What surrounds the scheduler: the process whose threads take turns.
use crate::order::Order;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::SwitchPoint;

/// The process whose threads take turns, as far as the scheduler asks. Values of it are handles, as those of a machine.
///
/// All of it is called by the thread that has the turn, but for [`Process::save`]. What only tells something does nothing unless it is wanted.
pub trait Process: Copy {
    // What the recording has.

    fn order(&self) -> Order<'_>;
    /// The thread that has created, or is to create, `thread`, if the recording says so.
    fn creator_of(&self, thread: u32) -> Option<u32>;
    /// Has every thread but `thread` done all that the recording has of it?
    fn others_are_done(&self, thread: u32) -> bool;
    /// Has the recording more of `thread` than it has done?
    fn is_short(&self, thread: u32) -> bool;
    /// Do synchronisations have places in the order, as inputs do?
    fn orders_synchronisations(&self) -> bool;

    // Its threads.

    /// Threads there have been.
    fn threads(&self) -> u32;
    /// Has nobody begun to be `thread` yet?
    fn is_unused(&self, thread: u32) -> bool;
    /// What the program knows as the kernel's name of the thread.
    fn name_of(&self, thread: u32) -> u32;
    /// Is its libc one that names the thread for whose end one waits before the word that is waited for? (musl)
    fn names_joined_threads(&self) -> bool;

    // How far it is.

    /// Inputs of the order that have happened.
    fn reached(&self) -> u64;
    fn set_reached(&self, inputs: u64);
    fn note_switch_point(&self) {}
    /// An edit names a thread that cannot go on.
    fn note_missed_edit(&self) {}
    /// So many switch points are written down, at most.
    fn points_max(&self) -> u64 {
        0
    }
    /// Writes down the `index`th of them.
    fn write_point(&self, _index: u64, _point: &SwitchPoint) {}

    // Its memory: words that the program says are there.

    fn load(&self, address: u64) -> u32;
    fn store(&self, address: u64, value: u32);
    fn or(&self, address: u64, bits: u32);
    /// A held thread decides who goes on: its memory is open for that, and then shut again.
    fn open_memory(&self) {}
    fn shut_memory(&self) {}

    // What happens to the turn.

    /// The turn is about to pass to `next`.
    fn before_pass(&self, _next: u32) {}
    /// `me` waits for its turn, and is asked to write down how it stands.
    fn save(&self, _me: u32) {}
    /// The thread, which has the turn, is about to make its last call. Returns what [`Process::wait_until_gone`] is to wait for, not 0.
    fn before_exit(&self, thread: u32) -> u32;
    /// Returns when the kernel has done with a thread all that others can see.
    fn wait_until_gone(&self, leaving: u32);
    /// The replay is over, and `thread` stays where it waits.
    fn stays(&self, _thread: u32) {}
    /// Nobody can go on. `due`: whose input is next, or who has done less than was recorded; nobody if the recording ends here.
    fn nobody_can_go_on(&self, due: Option<u32>) -> !;

    // After it has failed: threads that are followed, to see what they would do.

    /// Are accesses written down, now?
    fn are_accesses_wanted(&self) -> bool {
        false
    }
    fn note_followed(&self, _place: &Place) {}
    fn note_synchronisation(&self, _place: &Place, _what: u32, _object: u64) {}
}
