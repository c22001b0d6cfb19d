//! What is known of each thread while threads take turns.
use crate::waits::NOTHING;
use crate::waits::Wait;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;
use runtime_abi::turns_file::Place;

/// A thread's turn state. Relaxed everywhere but for `go`: who has the turn writes, and the turn itself is passed with Release and Acquire.
pub struct TurnState<M: Machine> {
    /// What the thread waits on while it does not have the turn.
    pub(crate) go: M::U32,
    /// One of [`State`].
    state: M::U32,
    /// The run of the order that has its next input.
    run: M::U32,
    /// One of [`Way`]; 0: it has not given way.
    gave_way: M::U32,
    /// Inputs of the order that it has had, and switch points since.
    calls: M::U64,
    nth: M::U64,
    /// The program's code at the last of them, if it is known.
    label: M::U64,
    /// One more than what the function of libc's that it is in synchronises on; 0 if it is in none.
    object: M::U64,
    /// One of `owed`.
    owed: M::U32,
    /// Its memory is open: it is in a call, or synchronises.
    is_quiet: M::U32,
    /// An address in its stack, and where its thread-local variables are.
    own_memory: [M::U64; 2],
    /// The kernel's name of it in the program's memory; in a copy of a process, the kernel has another.
    name: M::U32,
    /// Waiting: what the wait yields when the thread's next input is due, and whether at once or if nobody else can go on.
    pub(crate) if_due: M::U32,
    pub(crate) is_at_once: M::U32,
    /// Waiting: it has a time limit.
    pub(crate) is_timed: M::U32,
    /// Waiting: for which futex, since when, for which bits, and whether the kernel may wake it.
    pub(crate) address: M::U64,
    pub(crate) ticket: M::U64,
    pub(crate) bits: M::U32,
    pub(crate) expected: M::U32,
    pub(crate) is_shared: M::U32,
    /// Waiting: one more than the thread that is known to end the wait; 0: the word tells, or nobody does.
    pub(crate) lends_to: M::U32,
    /// What the wait yields.
    result: M::U32,
}

/// How a thread gave way to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Way {
    /// It asked for that, or slept: until it is its turn again, at the next switch point.
    Asked = 1,
    /// It ran on and on: until nobody else can go on.
    Spins = 2,
}

/// How long a thread keeps the turn that an edit gave to it.
pub(crate) mod owed {
    pub const NOTHING: u32 = 0;
    /// Until it has synchronised once.
    pub const BLOCK: u32 = 1;
    /// To its next input, or until it has to wait.
    pub const STRETCH: u32 = 2;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Not there, not any more, or stopped for good.
    Gone = 0,
    /// Can go on.
    Ready = 1,
    /// At an input that is not the next one of the order.
    Event = 2,
    /// Waits for a futex.
    Futex = 3,
    /// Is about to end the process.
    Ending = 4,
    /// Stopped before an access by an edit.
    Held = 5,
}

impl<M: Machine> TurnState<M> {
    pub(crate) const fn new() -> Self {
        TurnState {
            go: M::U32::ZERO,
            state: M::U32::ZERO,
            run: M::U32::ZERO,
            gave_way: M::U32::ZERO,
            calls: M::U64::ZERO,
            nth: M::U64::ZERO,
            label: M::U64::ZERO,
            object: M::U64::ZERO,
            owed: M::U32::ZERO,
            is_quiet: M::U32::ZERO,
            own_memory: [const { M::U64::ZERO }; 2],
            name: M::U32::ZERO,
            if_due: M::U32::ZERO,
            is_at_once: M::U32::ZERO,
            is_timed: M::U32::ZERO,
            address: M::U64::ZERO,
            ticket: M::U64::ZERO,
            bits: M::U32::ZERO,
            expected: M::U32::ZERO,
            is_shared: M::U32::ZERO,
            lends_to: M::U32::ZERO,
            result: M::U32::ZERO,
        }
    }

    pub(crate) fn clear(&self) {
        self.set(State::Gone);
        self.go.store(0, Relaxed);
    }

    pub(crate) fn begin(&self, first_run: u32) {
        self.set(State::Ready);
        self.take_way();
        self.calls.store(0, Relaxed);
        self.nth.store(0, Relaxed);
        self.owe(owed::NOTHING);
        self.run.store(first_run, Relaxed);
    }

    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            1 => State::Ready,
            2 => State::Event,
            3 => State::Futex,
            4 => State::Ending,
            5 => State::Held,
            _ => State::Gone,
        }
    }

    pub fn set(&self, state: State) {
        self.state.store(state as u32, Relaxed);
    }

    /// An input of the order has happened in it.
    pub(crate) fn count_call(&self) {
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        self.nth.store(0, Relaxed);
        self.owe(owed::NOTHING);
    }

    pub(crate) fn count_point(&self, label: u64) {
        self.nth.store(self.nth.load(Relaxed) + 1, Relaxed);
        self.label.store(label, Relaxed);
    }

    /// What a switch point at `object` is about. Within a function of libc's, it is what the function is about.
    pub(crate) fn object_within(&self, object: u64) -> u64 {
        match self.object.load(Relaxed) {
            within if self.is_quiet() && within != 0 => within - 1,
            _ if self.is_quiet() => object,
            _ => {
                self.object.store(object.wrapping_add(1), Relaxed);
                object
            }
        }
    }

    /// The function of libc's is over.
    pub fn leave_object(&self) {
        self.object.store(0, Relaxed);
    }

    pub fn label(&self) -> u64 {
        self.label.load(Relaxed)
    }

    /// Its last switch point, or the block after it.
    pub fn place(&self, thread: u32) -> Place {
        Place {
            thread,
            calls: self.calls.load(Relaxed),
            nth: self.nth.load(Relaxed),
            ..Place::default()
        }
    }

    /// The thread begins. `name`: the kernel's of it.
    pub fn note_own_memory(&self, name: u32, own_memory: [u64; 2]) {
        self.name.store(name, Relaxed);
        for (word, address) in self.own_memory.iter().zip(own_memory) {
            word.store(address, Relaxed);
        }
        self.is_quiet.store(0, Relaxed);
    }

    pub fn own_memory(&self) -> [u64; 2] {
        self.own_memory.each_ref().map(|word| word.load(Relaxed))
    }

    pub fn name(&self) -> u32 {
        self.name.load(Relaxed)
    }

    pub fn is_quiet(&self) -> bool {
        self.is_quiet.load(Relaxed) != 0
    }

    /// What it was.
    pub fn set_quiet(&self, is_quiet: bool) -> bool {
        self.is_quiet.swap(is_quiet.into(), Relaxed) != 0
    }

    pub(crate) fn owe(&self, owed: u32) {
        self.owed.store(owed, Relaxed);
    }

    pub(crate) fn owed(&self) -> u32 {
        self.owed.load(Relaxed)
    }

    pub(crate) fn next_run(&self) -> u32 {
        self.run.load(Relaxed)
    }

    pub(crate) fn set_next_run(&self, run: u32) {
        self.run.store(run, Relaxed);
    }

    /// Others go first.
    pub(crate) fn give_way(&self, way: Way) {
        self.gave_way.store(way as u32, Relaxed);
    }

    pub(crate) fn take_way(&self) {
        self.gave_way.store(0, Relaxed);
    }

    pub(crate) fn has_given_way(&self) -> bool {
        self.gave_way.load(Relaxed) != 0
    }

    /// It had to, and would use up another budget if it went on.
    pub fn spins(&self) -> bool {
        self.gave_way.load(Relaxed) == Way::Spins as u32
    }

    pub(crate) fn begin_wait(&self, wait: &Wait, ticket: u64) {
        self.address.store(wait.address, Relaxed);
        self.expected.store(wait.expected, Relaxed);
        self.bits.store(wait.bits, Relaxed);
        self.is_shared.store(wait.is_shared.into(), Relaxed);
        let (result, is_at_once) = wait.if_due.yields();
        self.if_due.store(result as u32, Relaxed);
        self.is_at_once.store(is_at_once.into(), Relaxed);
        self.is_timed.store(wait.is_timed.into(), Relaxed);
        self.lends_to
            .store(wait.ended_by.map_or(0, |thread| thread + 1), Relaxed);
        // What it yields unless somebody wakes it.
        self.result.store(result as u32, Relaxed);
        self.ticket.store(ticket, Relaxed);
        self.set(State::Futex);
    }

    pub(crate) fn waits_for(&self, address: u64, bits: u32) -> bool {
        self.state() == State::Futex && self.address.load(Relaxed) == address && self.bits.load(Relaxed) & bits != 0
    }

    /// Waiting: its wait ends so when its next input is due.
    pub(crate) fn if_due(&self) -> Option<i32> {
        let result = self.if_due.load(Relaxed) as i32;
        (self.state() == State::Futex && result != NOTHING).then_some(result)
    }

    pub(crate) fn ended_by(&self) -> Option<u32> {
        self.lends_to.load(Relaxed).checked_sub(1)
    }

    /// Its wait ends as soon as its next input is due.
    pub(crate) fn ends_when_due(&self) -> bool {
        self.is_at_once.load(Relaxed) != 0
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.ticket.load(Relaxed)
    }

    /// The word that it waits for; 0: it does not.
    pub fn address(&self) -> u64 {
        match self.state() {
            State::Futex => self.address.load(Relaxed),
            _ => 0,
        }
    }

    /// It waits for another futex from now on.
    pub(crate) fn move_to(&self, address: u64, found: u32, ticket: u64) {
        self.address.store(address, Relaxed);
        self.expected.store(found, Relaxed);
        self.is_shared.store(0, Relaxed);
        self.ticket.store(ticket, Relaxed);
    }

    pub(crate) fn wake(&self, result: i32) {
        self.result.store(result as u32, Relaxed);
        self.set(State::Ready);
    }

    pub(crate) fn result(&self) -> i32 {
        self.result.load(Relaxed) as i32
    }
}
