//! What the scheduler asks of the process around it.
use crate::control;
use crate::hosting;
use crate::schedule;
use crate::standstill;
use crate::turns::accesses;
use crate::turns::checkpoint;
use crate::turns::exits;
use crate::turns::order;
use crate::turns::points;
use crate::turns::turn_state;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use core::sync::atomic::Ordering::SeqCst;
use runtime_abi::ControlHeader;
use runtime_abi::divergence;
use runtime_abi::thread_state;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::SwitchPoint;
use turn_scheduler::Order;
use turn_scheduler::Process;

#[derive(Clone, Copy)]
pub struct ThisProcess;

fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: the program has made a futex call with this address, so it says that there is a word, and the call was refused unless it is
    // aligned; or the address is within the page of such a word. It stays at least as long as a thread waits for it.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

impl Process for ThisProcess {
    #[inline]
    fn order(&self) -> Order<'_> {
        order::now()
    }

    fn creator_of(&self, thread: u32) -> Option<u32> {
        schedule::creator_of(thread)
    }

    fn others_are_done(&self, thread: u32) -> bool {
        schedule::others_are_done(thread)
    }

    fn is_short(&self, thread: u32) -> bool {
        schedule::is_short(thread)
    }

    fn orders_synchronisations(&self) -> bool {
        control::orders_sync() || control::one_at_a_time()
    }

    fn threads(&self) -> u32 {
        control::header().progress.threads.load(Relaxed)
    }

    fn is_unused(&self, thread: u32) -> bool {
        // Relaxed: who has the turn has seen all that others did.
        control::slot(thread).state.load(Relaxed) == thread_state::UNUSED
    }

    fn name_of(&self, thread: u32) -> u32 {
        // A guest knows the recorded ones. What the kernel calls a thread today may be what another one was called then.
        match hosting::is_on() {
            true => hosting::tid_of(thread),
            false => turn_state(thread).name(),
        }
    }

    fn names_joined_threads(&self) -> bool {
        hosting::is_on()
    }

    fn reached(&self) -> u64 {
        control::header().turns.order_reached.load(Relaxed)
    }

    fn set_reached(&self, inputs: u64) {
        control::header().turns.order_reached.store(inputs, Relaxed);
    }

    fn note_switch_point(&self) {
        let points = &control::header().turns.switch_points;
        points.store(points.load(Relaxed) + 1, Relaxed);
    }

    fn note_missed_edit(&self) {
        let missed = &control::header().turns.edits_missed;
        missed.store(missed.load(Relaxed) + 1, Relaxed);
    }

    fn points_max(&self) -> u64 {
        points::max()
    }

    fn write_point(&self, index: u64, point: &SwitchPoint) {
        points::write(index, point);
    }

    fn load(&self, address: u64) -> u32 {
        word(address).load(SeqCst)
    }

    fn store(&self, address: u64, value: u32) {
        word(address).store(value, SeqCst);
    }

    fn or(&self, address: u64, bits: u32) {
        word(address).fetch_or(bits, SeqCst);
    }

    fn open_memory(&self) {
        accesses::lift();
    }

    fn shut_memory(&self) {
        accesses::shut();
    }

    #[inline]
    fn before_pass(&self, next: u32) {
        accesses::pass_to(next);
    }

    #[inline]
    fn save(&self, me: u32) {
        checkpoint::save_here(me);
    }

    fn before_exit(&self, thread: u32) -> u32 {
        exits::expect(thread);
        checkpoint::rename_locks(thread);
        control::slot(thread).os_thread.load(Relaxed)
    }

    fn wait_until_gone(&self, leaving: u32) {
        exits::wait_until_gone(leaving);
    }

    fn stays(&self, thread: u32) {
        // Release: whoever looks for threads that have stopped sees what this one did.
        control::slot(thread).state.store(thread_state::STOPPED, Release);
    }

    fn nobody_can_go_on(&self, due: Option<u32>) -> ! {
        let Some(thread) = due else {
            standstill::sleep_forever();
        };
        let (slot, state) = (control::slot(thread), turn_state(thread));
        let header: &ControlHeader = control::header();
        header.divergence.thread.store(thread, Relaxed);
        header.divergence.event.store(slot.count.load(Relaxed), Relaxed);
        header.divergence.object.store(state.address(), Relaxed);
        header.divergence.value.store(state.state() as u64, Relaxed);
        header.divergence.other_count.store(state.label(), Relaxed);
        // Release: pairs with the Acquire in `has_diverged` and in the replayer.
        header.divergence.kind.store(divergence::DEADLOCK, Release);
        standstill::by_divergence();
    }

    fn are_accesses_wanted(&self) -> bool {
        accesses::are_wanted()
    }

    fn note_followed(&self, place: &Place) {
        accesses::note_followed(place);
    }

    fn note_synchronisation(&self, place: &Place, what: u32, object: u64) {
        accesses::note_synchronisation(place, what, object);
    }
}
