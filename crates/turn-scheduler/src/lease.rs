//! Long turns, for runs from which a schedule is learned: a thread that does little but synchronise goes on for a while before another one does.
//!
//! Where a schedule is enforced, every synchronisation waits for the one before it. If that was the thread's own, this costs next to nothing; if it was
//! another thread's, it costs as much as some thousand instructions. So which of many possible orders is recorded decides what all later runs
//! cost. Here a thread may hold a *lease*, and the synchronisations of others wait until it is over:
//!
//! - Only who had few control transfers, or accesses, between its last synchronisations holds one ([`Pace`]). Threads that compute in between hand over freely,
//!   and run in parallel.
//! - It is over [`LEASE_TICKS`] after its holder's last synchronisation, when the holder is about to wait for others, and, if somebody waits for it,
//!   after [`TURN_MAX`] synchronisations.
//! - Who has a lock neither waits nor gives way: the others might need that lock. When such threads waited, two that share some locks stopped each other
//!   again and again: the holder of the lease waited for a lock, whose holder waited for the lease, until that was over; and then the other way round.
//!
//! A lease is a courtesy and excludes nobody: all waits here end by themselves, after [`LOOKS_MAX`] looks even if the clock stands still. So whatever a
//! holder does (it may block, or be gone), nobody waits for good, and all that happens could have happened without leases. That is
//! also why two threads that write `until` at the same time do no harm: a lease is longer or shorter then.
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;

/// About a hundred microseconds: a holder may have to wait for the kernel in between.
pub const LEASE_TICKS: u64 = 250_000;
/// A thread with fewer control transfers between synchronisations does little but synchronise: a hand-over takes longer.
pub const TIGHT_TRANSFERS: u64 = 256;
/// Synchronisations for which a thread may make others wait: some tens of milliseconds of a recording. Behind a hand-over a thread finds what it uses in the other processor's cache,
/// so turns have to be long for that not to matter.
pub const TURN_MAX: u32 = 1 << 15;
/// Looks at another thread's lease: longer than a turn lasts. Every now and then the processor is offered to others.
const LOOKS_MAX: u32 = 1 << 19;
const LOOKS_BEFORE_YIELD: u32 = 64;

/// What a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Takes a lock.
    Locks,
    /// Gives one back.
    Unlocks,
    Otherwise,
}

/// How often a thread synchronises. Used by the thread itself alone.
#[derive(Debug)]
pub struct Pace {
    /// About the most control transfers between two of its last synchronisations.
    transfers: Cell<u64>,
    /// Its synchronisations since it got the lease.
    turn: Cell<u32>,
    /// Locks that it has, as far as is known: attempts to get one are not counted. It is no more than a guess.
    locks: Cell<u32>,
}

impl Default for Pace {
    /// A thread that begins is not known to synchronise a lot.
    fn default() -> Pace {
        Pace {
            transfers: Cell::new(TIGHT_TRANSFERS << 6),
            turn: Cell::new(0),
            locks: Cell::new(0),
        }
    }
}

impl Pace {
    /// The thread comes to a synchronisation, with so many control transfers since the one before.
    fn note(&self, transfers: u64) {
        let before = self.transfers.get();
        // It takes a few that are close to each other to forget one that was not: critical sections are short even where what is between them is long.
        self.transfers.set(transfers.max(before - before / 4));
    }

    /// Does the thread have no lock? What it is about to do counts from now on.
    fn is_between_locks(&self, doing: Doing) -> bool {
        let locks = self.locks.get();
        match doing {
            Doing::Locks => self.locks.set(locks + 1),
            Doing::Unlocks => self.locks.set(locks.saturating_sub(1)),
            Doing::Otherwise => {}
        }
        locks == 0
    }

    fn is_tight(&self) -> bool {
        self.transfers.get() < TIGHT_TRANSFERS
    }
}

/// The lease of a process.
pub struct Lease<M: Machine> {
    /// 0: nobody; else the thread's index and 1.
    holder: M::U32,
    /// The tick at which it is over.
    until: M::U64,
    /// How many threads wait for its end.
    pub(crate) waiting: M::U32,
}

impl<M: Machine> Lease<M> {
    #[expect(clippy::new_without_default, reason = "a static needs a constant")]
    pub const fn new() -> Lease<M> {
        Lease {
            holder: M::U32::ZERO,
            until: M::U64::ZERO,
            waiting: M::U32::ZERO,
        }
    }

    /// Thread `me` is about to synchronise, with so many control transfers since it did last. Waits for the lease of another one.
    pub fn enter(&self, machine: M, me: u32, pace: &Pace, transfers: u64, doing: Doing) {
        pace.note(transfers);
        let is_between = pace.is_between_locks(doing);
        // Relaxed, here and below: a wrong answer makes a turn longer or shorter, and orders nothing.
        if self.holder.load(Relaxed) == me + 1 {
            let turn = pace.turn.get().saturating_add(1);
            pace.turn.set(turn);
            if turn < TURN_MAX || !is_between || self.waiting.load(Relaxed) == 0 {
                return self.renew(machine, me, pace);
            }
            self.leave(me);
            self.look(machine, || self.holder.load(Relaxed) != 0);
        }
        if self.holder.load(Relaxed) != 0 {
            if !is_between {
                return;
            }
            self.waiting.fetch_add(1, Relaxed);
            self.look(machine, || self.is_over(machine));
            self.waiting.fetch_sub(1, Relaxed);
        }
        pace.turn.set(0);
        self.renew(machine, me, pace);
    }

    /// Would thread `me` have to wait, most likely?
    pub fn is_of_another(&self, me: u32) -> bool {
        let holder = self.holder.load(Relaxed);
        holder != 0 && holder != me + 1
    }

    /// Thread `me` is about to wait for others.
    pub fn leave(&self, me: u32) {
        if self.holder.load(Relaxed) == me + 1 {
            self.holder.store(0, Relaxed);
        }
    }

    fn is_over(&self, machine: M) -> bool {
        self.holder.load(Relaxed) == 0 || machine.ticks() >= self.until.load(Relaxed)
    }

    fn renew(&self, machine: M, me: u32, pace: &Pace) {
        if !pace.is_tight() {
            return self.leave(me);
        }
        // Those who wait look at these words all the time; writing them is dear then.
        let until = machine.ticks().saturating_add(LEASE_TICKS);
        if until.wrapping_sub(self.until.load(Relaxed)) > LEASE_TICKS / 4 {
            self.until.store(until, Relaxed);
        }
        if self.holder.load(Relaxed) != me + 1 {
            self.holder.store(me + 1, Relaxed);
        }
    }

    fn look(&self, machine: M, is_enough: impl Fn() -> bool) {
        for look in 1..=LOOKS_MAX {
            if is_enough() {
                return;
            }
            match look % LOOKS_BEFORE_YIELD {
                0 => machine.yield_now(),
                _ => machine.spin(),
            }
        }
    }
}
