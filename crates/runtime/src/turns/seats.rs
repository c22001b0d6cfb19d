//! What is known of each thread while threads take turns.
use crate::control;
use crate::host;
use crate::turns::order;
use core::arch::asm;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::THREADS_MAX;
use runtime_abi::turns_file::Place;

/// Relaxed everywhere: who has the turn writes, and the turn itself is passed with Release and Acquire.
pub struct Seat {
    /// What the thread waits on while it does not have the turn.
    pub go: AtomicU32,
    state: AtomicU32,
    /// The run of the order that has its next input.
    run: AtomicU32,
    /// One of `way`.
    gave_way: AtomicU32,
    /// Inputs of the order that it has had, and switch points since.
    calls: AtomicU64,
    nth: AtomicU64,
    /// The program's code at the last of them, if it is known.
    label: AtomicU64,
    /// What the function of libc's that it is in synchronises on; `NO_OBJECT` if it is in none.
    object: AtomicU64,
    /// One of `owed`.
    owed: AtomicU32,
    /// Its memory is open: it is in a call, or synchronises.
    is_quiet: AtomicBool,
    /// An address in its stack, and where its thread-local variables are.
    own_memory: [AtomicU64; 2],
    /// The kernel's name of it in the program's memory; in a copy of a process, the kernel has another.
    name: AtomicU32,
    /// Waiting: what the wait yields when the thread's next input is due, and whether at once or if nobody else can go on.
    if_due: AtomicI32,
    is_at_once: AtomicBool,
    /// Waiting: it has a time limit.
    is_timed: AtomicBool,
    /// Waiting: for which futex, since when, for which bits, and whether the kernel may wake it.
    address: AtomicU64,
    ticket: AtomicU64,
    bits: AtomicU32,
    expected: AtomicU32,
    is_shared: AtomicBool,
    /// Waiting: one more than the thread that is known to end the wait; 0: the word tells, or nobody does.
    lends_to: AtomicU32,
    /// What the wait yields.
    result: AtomicI32,
}

/// Values of `Seat::gave_way`.
pub mod way {
    pub const NOT_GIVEN: u32 = 0;
    /// It asked for that, or slept: until it is its turn again, at the next switch point.
    pub const ASKED: u32 = 1;
    /// It ran on and on: until nobody else can go on.
    pub const SPINS: u32 = 2;
}

/// Values of `Seat::owed`: how long a thread keeps the turn that a move gave to it.
pub mod owed {
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
    /// Stopped before an access by a move.
    Held = 5,
}

static SEATS: [Seat; THREADS_MAX] = [const {
    Seat {
        go: AtomicU32::new(0),
        state: AtomicU32::new(0),
        run: AtomicU32::new(0),
        gave_way: AtomicU32::new(way::NOT_GIVEN),
        calls: AtomicU64::new(0),
        nth: AtomicU64::new(0),
        label: AtomicU64::new(0),
        object: AtomicU64::new(NO_OBJECT),
        owed: AtomicU32::new(owed::NOTHING),
        is_quiet: AtomicBool::new(false),
        own_memory: [const { AtomicU64::new(0) }; 2],
        name: AtomicU32::new(0),
        if_due: AtomicI32::new(0),
        is_at_once: AtomicBool::new(false),
        is_timed: AtomicBool::new(false),
        address: AtomicU64::new(0),
        ticket: AtomicU64::new(0),
        bits: AtomicU32::new(0),
        expected: AtomicU32::new(0),
        is_shared: AtomicBool::new(false),
        lends_to: AtomicU32::new(0),
        result: AtomicI32::new(0),
    }
}; THREADS_MAX];

/// Seats that have been taken.
static USED: AtomicU32 = AtomicU32::new(0);
/// Wait number, over all threads: who waits longest is woken first.
static TICKETS: AtomicU64 = AtomicU64::new(0);

pub fn seat(thread: u32) -> &'static Seat {
    &SEATS[thread as usize]
}

/// The bits of a futex that have the kernel's name of a thread in them, where they have one.
const NAME: u32 = 0x3fff_ffff;

/// What the program knows as the kernel's name of the thread.
pub fn name_of(thread: u32) -> u32 {
    // A guest knows the recorded ones. What the kernel calls a thread today may be what another one was called then.
    match host::is_on() {
        true => host::tid_of(thread),
        false => seat(thread).name(),
    }
}

/// Threads there have been.
pub fn count() -> u32 {
    control::header().threads.load(Relaxed).min(THREADS_MAX as u32)
}

pub fn all() -> impl Iterator<Item = &'static Seat> {
    SEATS[..count() as usize].iter()
}

/// A process begins, perhaps as a copy of another.
pub fn clear() {
    for seat in &SEATS[..USED.swap(0, Relaxed) as usize] {
        seat.set(State::Gone);
        seat.go.store(0, Relaxed);
    }
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub struct Wait {
    pub address: u64,
    pub expected: u32,
    pub bits: u32,
    /// The kernel may wake it.
    pub is_shared: bool,
    pub if_due: IfDue,
    pub is_timed: bool,
    /// The thread that is to end it, if it is known from somewhere else than the word.
    pub ended_by: Option<u32>,
}

/// What happens to a wait when the waiting thread's next input is the next one of the order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum IfDue {
    Nothing,
    /// It ends so.
    AtOnce(i32),
    /// It ends so if nobody else can go on.
    AtLast(i32),
}

const NO_OBJECT: u64 = u64::MAX;
/// No errno, and no success.
const NOTHING: i32 = 1;

impl Seat {
    pub fn begin(&self, thread: u32) {
        USED.fetch_max(thread + 1, Relaxed);
        self.set(State::Ready);
        self.take_way();
        self.calls.store(0, Relaxed);
        self.nth.store(0, Relaxed);
        self.owe(owed::NOTHING);
        self.run.store(order::first_run(thread), Relaxed);
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
    pub fn count_call(&self) {
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        self.nth.store(0, Relaxed);
        self.owe(owed::NOTHING);
    }

    pub fn count_point(&self, label: u64) {
        self.nth.store(self.nth.load(Relaxed) + 1, Relaxed);
        self.label.store(label, Relaxed);
    }

    /// What a switch point at `object` is about. Within a function of libc's, it is what the function is about.
    pub fn object_within(&self, object: u64) -> u64 {
        match self.object.load(Relaxed) {
            within if self.is_quiet() && within != NO_OBJECT => within,
            _ if self.is_quiet() => object,
            _ => {
                self.object.store(object, Relaxed);
                object
            }
        }
    }

    /// The function of libc's is over.
    pub fn leave_object(&self) {
        self.object.store(NO_OBJECT, Relaxed);
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

    /// The calling thread's, which is `thread`.
    pub fn note_own_memory(&self, thread: u32) {
        self.name.store(control::slot(thread).os_thread.load(Relaxed), Relaxed);
        let here = 0u8;
        let thread_pointer: u64;
        // SAFETY: the psABI has a thread's pointer to itself there.
        unsafe { asm!("mov {}, fs:[0]", out(reg) thread_pointer, options(nostack, readonly, preserves_flags)) };
        self.own_memory[0].store(&raw const here as u64, Relaxed);
        self.own_memory[1].store(thread_pointer, Relaxed);
        self.is_quiet.store(false, Relaxed);
    }

    pub fn own_memory(&self) -> [u64; 2] {
        [self.own_memory[0].load(Relaxed), self.own_memory[1].load(Relaxed)]
    }

    pub fn name(&self) -> u32 {
        self.name.load(Relaxed)
    }

    pub fn is_quiet(&self) -> bool {
        self.is_quiet.load(Relaxed)
    }

    /// What it was.
    pub fn set_quiet(&self, is_quiet: bool) -> bool {
        self.is_quiet.swap(is_quiet, Relaxed)
    }

    pub fn owe(&self, owed: u32) {
        self.owed.store(owed, Relaxed);
    }

    pub fn owed(&self) -> u32 {
        self.owed.load(Relaxed)
    }

    pub fn next_run(&self) -> u32 {
        self.run.load(Relaxed)
    }

    pub fn set_next_run(&self, run: u32) {
        self.run.store(run, Relaxed);
    }

    /// Others go first. `way`: one of `way`.
    pub fn give_way(&self, way: u32) {
        self.gave_way.store(way, Relaxed);
    }

    pub fn take_way(&self) {
        self.gave_way.store(way::NOT_GIVEN, Relaxed);
    }

    pub fn has_given_way(&self) -> bool {
        self.gave_way.load(Relaxed) != way::NOT_GIVEN
    }

    /// It had to, and would use up another budget if it went on.
    pub fn spins(&self) -> bool {
        self.gave_way.load(Relaxed) == way::SPINS
    }

    pub fn begin_wait(&self, wait: &Wait) {
        self.address.store(wait.address, Relaxed);
        self.expected.store(wait.expected, Relaxed);
        self.bits.store(wait.bits, Relaxed);
        self.is_shared.store(wait.is_shared, Relaxed);
        let (result, is_at_once) = match wait.if_due {
            IfDue::Nothing => (NOTHING, false),
            IfDue::AtOnce(result) => (result, true),
            IfDue::AtLast(result) => (result, false),
        };
        self.if_due.store(result, Relaxed);
        self.is_at_once.store(is_at_once, Relaxed);
        self.is_timed.store(wait.is_timed, Relaxed);
        self.lends_to
            .store(wait.ended_by.map_or(0, |thread| thread + 1), Relaxed);
        // What it yields unless somebody wakes it.
        self.result.store(result, Relaxed);
        self.ticket.store(TICKETS.fetch_add(1, Relaxed), Relaxed);
        self.set(State::Futex);
    }

    pub fn waits_for(&self, address: u64, bits: u32) -> bool {
        self.state() == State::Futex && self.address.load(Relaxed) == address && self.bits.load(Relaxed) & bits != 0
    }

    /// Waits for something that the kernel may write, and the word is not what it was.
    pub fn is_overtaken_by_kernel(&self) -> bool {
        self.is_shared.load(Relaxed) && self.is_overtaken()
    }

    /// Waits for a word that is not what it was.
    pub fn is_overtaken(&self) -> bool {
        if self.state() != State::Futex {
            return false;
        }
        // SAFETY: the thread waits for this word, so it is there.
        let now = unsafe { (self.address.load(Relaxed) as *const u32).read_volatile() };
        now != self.expected.load(Relaxed)
    }

    /// The thread whose end it waits for, or that holds the mutex it waits for, as far as that can be told.
    pub fn awaited(&self) -> Option<u32> {
        /// Where a mutex of glibc's names its holder, behind the word that is waited for.
        const HOLDER_AT: u64 = 8;
        /// Where musl names the thread for whose end one waits, before the word that is waited for.
        const JOINED_BEFORE: u64 = 8;
        let address = self.address();
        if address != 0
            && let Some(thread) = self.ended_by()
        {
            return Some(thread);
        }
        if address == 0 {
            return None;
        }
        // It may be something else than a name.
        let name_at = |place: u64| {
            let is_near = place / 4096 == address / 4096 && (place + 3) / 4096 == address / 4096;
            if !is_near {
                return 0;
            }
            // SAFETY: in the same page as the word that the thread waits for.
            unsafe { (place as *const u32).read_volatile() }
        };
        let is_named = |name: u32| {
            move |thread: &u32| {
                // Who has not begun has no name yet.
                name != 0 && seat(*thread).state() != State::Gone && name_of(*thread) == name
            }
        };
        let find = |name: u32| {
            // 0 is the name of threads that have not yet begun, and of nobody when they have: it depends on the time.
            (0..count())
                .find(is_named(name))
                .filter(|thread| name != 0 && seat(*thread).address() != address)
        };
        let joined = || host::is_on().then(|| find(name_at(address - JOINED_BEFORE))).flatten();
        find(self.expected.load(Relaxed) & NAME)
            .or_else(|| find(name_at(address + HOLDER_AT)))
            .or_else(joined)
    }

    fn ended_by(&self) -> Option<u32> {
        self.lends_to.load(Relaxed).checked_sub(1)
    }

    /// It has come to a stop: at an input, at a futex of the program's, or for good.
    pub fn is_at_rest(&self) -> bool {
        match self.state() {
            State::Ready => false,
            State::Futex => !self.is_overtaken() && self.ended_by().is_none(),
            _ => true,
        }
    }

    /// Its wait ends as soon as its next input is due.
    pub fn ends_when_due(&self) -> bool {
        self.is_at_once.load(Relaxed)
    }

    pub fn ticket(&self) -> u64 {
        self.ticket.load(Relaxed)
    }

    pub fn address(&self) -> u64 {
        match self.state() {
            State::Futex => self.address.load(Relaxed),
            _ => 0,
        }
    }

    /// It waits for another futex from now on.
    pub fn move_to(&self, address: u64) {
        self.address.store(address, Relaxed);
        self.ticket.store(TICKETS.fetch_add(1, Relaxed), Relaxed);
    }

    pub fn wake(&self, result: i32) {
        self.result.store(result, Relaxed);
        self.set(State::Ready);
    }

    pub fn result(&self) -> i32 {
        self.result.load(Relaxed)
    }
}

/// Waits that ended since the last input because nobody could go on.
static ENDED_WAITS: AtomicU32 = AtomicU32::new(0);
/// More do not help.
const ENDED_WAITS_MAX: u32 = 64;

/// An input has happened.
pub fn note_input() {
    ENDED_WAITS.store(0, Relaxed);
}

/// Nobody can go on: a wait with a time limit does not last for ever, also if the recording does not have it.
pub fn end_timed_wait() -> bool {
    if ENDED_WAITS.load(Relaxed) >= ENDED_WAITS_MAX {
        return false;
    }
    let is_timed = |seat: &&Seat| seat.state() == State::Futex && seat.is_timed.load(Relaxed);
    let Some(seat) = all()
        .filter(is_timed)
        .min_by_key(|seat| (seat.next_run(), seat.ticket()))
    else {
        return false;
    };
    ENDED_WAITS.fetch_add(1, Relaxed);
    // Not as if it had been woken: libc would wait again.
    seat.wake(-libc::ETIMEDOUT);
    true
}

/// Nobody can go on, and the next input is one of `thread`'s: may that end its wait?
pub fn interrupt(thread: u32) -> bool {
    let seat = seat(thread);
    let result = seat.if_due.load(Relaxed);
    let does = seat.state() == State::Futex && result != NOTHING;
    if does {
        seat.wake(result);
    }
    does
}
