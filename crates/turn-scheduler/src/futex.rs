//! Futex calls of the program, in terms of turns: who would wait passes the turn on, who wakes makes others able to go on.
//!
//! Whether a wait with a time limit timed out is recorded ([`RecordedWaits`]). One that did returns when that input is due;
//! others wait until they are woken, as those without a limit.
use crate::process::Process;
use crate::scheduler::Turns;
use crate::turn_state::State;
use crate::waits::IfDue;
use crate::waits::TIMED_OUT;
use crate::waits::Wait;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;
use runtime_abi::turns_file::what;

/// The kernel's numbers of what a futex call does (`linux/futex.h`).
mod command {
    pub const WAIT: i32 = 0;
    pub const WAKE: i32 = 1;
    pub const REQUEUE: i32 = 3;
    pub const CMP_REQUEUE: i32 = 4;
    pub const WAKE_OP: i32 = 5;
    pub const LOCK_PI: i32 = 6;
    pub const UNLOCK_PI: i32 = 7;
    pub const TRYLOCK_PI: i32 = 8;
    pub const WAIT_BITSET: i32 = 9;
    pub const WAKE_BITSET: i32 = 10;
    pub const WAIT_REQUEUE_PI: i32 = 11;
    pub const CMP_REQUEUE_PI: i32 = 12;
}
/// The bits of an operation that say what it does.
pub const COMMAND: i32 = 0x7f;
pub const LOCK_PI2: i32 = 13;
/// Nobody outside of this process wakes.
const PRIVATE: i32 = 0x80;

/// What a call yields that is refused.
mod errno {
    pub const PERMITTED_NOT: i32 = -1;
    pub const INTERRUPTED: i32 = -4;
    pub const AGAIN: i32 = -11;
    pub const FAULT: i32 = -14;
    pub const INVALID: i32 = -22;
    pub const DEADLOCK: i32 = -35;
    pub const NO_SUCH_CALL: i32 = -38;
}

pub(crate) const ALL_BITS: u32 = u32::MAX;
/// Of a word of an inheriting lock: the kernel's name of its owner, that its owner died, that others wait.
const OWNER: u32 = 0x3fff_ffff;
const OWNER_DIED: u32 = 0x4000_0000;
const HAS_WAITERS: u32 = 0x8000_0000;
const PAGE: u64 = 4096;

/// A futex call's arguments.
#[derive(Clone, Copy, Debug)]
pub struct FutexCall {
    pub address: u64,
    pub operation: i32,
    pub value: u32,
    /// A time limit, or a second number.
    pub fourth: u64,
    pub other: u64,
    pub last: u32,
}

/// What the recording has next of a thread that is about to wait.
pub trait RecordedWaits {
    /// The result, if it is a wait that had a time limit.
    fn next_timed_wait(&self) -> Option<i64>;
    /// A signal that was handled, if it is one.
    fn next_signal(&self) -> Option<SignalDue>;
    /// The wait has ended as it did in the recording.
    fn take(&mut self);
}

/// What a signal's handler does to a wait that it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalDue {
    /// The kernel goes on waiting, behind the program's back.
    Restarts,
    Interrupts,
}

/// May this futex call wait, and for a limited time?
pub fn is_timed(operation: i32, limit: u64) -> bool {
    let waits = matches!(
        operation & COMMAND,
        command::WAIT | command::WAIT_BITSET | command::LOCK_PI | LOCK_PI2 | command::WAIT_REQUEUE_PI
    );
    waits && limit != 0
}

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// A futex call of `me`, which has the turn. `label`: of the program's code that came here.
    pub fn futex(&self, me: u32, call: &FutexCall, recorded: &mut impl RecordedWaits, label: impl Fn() -> u64) -> i64 {
        // Misaligned, or no address at all.
        if !call.address.is_multiple_of(4) {
            return errno::INVALID.into();
        }
        if call.address < PAGE {
            return errno::FAULT.into();
        }
        let address = call.address;
        let acquire = || self.switch(me, address, what::ACQUIRE, label());
        let command = call.operation & COMMAND;
        let bits = match command {
            command::WAIT_BITSET | command::WAKE_BITSET => call.last,
            _ => ALL_BITS,
        };
        let is_timed = is_timed(call.operation, call.fourth);
        let result = match command {
            command::WAIT | command::WAIT_BITSET | command::WAIT_REQUEUE_PI => {
                acquire();
                let wait = Wait {
                    address,
                    expected: call.value,
                    bits,
                    is_shared: call.operation & PRIVATE == 0 && command != command::WAIT_REQUEUE_PI,
                    if_due: IfDue::Nothing,
                    is_timed,
                    ended_by: None,
                };
                return self.wait_for_word(me, wait, is_timed, recorded).into();
            }
            command::LOCK_PI | LOCK_PI2 => {
                return self.lock_inheriting(me, address, is_timed, recorded, &acquire).into();
            }
            command::TRYLOCK_PI if self.try_lock_inheriting(me, address) => return 0,
            command::TRYLOCK_PI => return errno::AGAIN.into(),
            command::CMP_REQUEUE | command::CMP_REQUEUE_PI if self.process.load(address) != call.last => {
                return errno::AGAIN.into();
            }
            command::WAKE | command::WAKE_BITSET => self.wake(address, bits, call.value as i32),
            command::REQUEUE | command::CMP_REQUEUE => self.requeue(call),
            command::CMP_REQUEUE_PI => self.requeue_inheriting(call),
            command::WAKE_OP => {
                let is_met = self.change(call.other, call.last);
                let woken = self.wake(address, ALL_BITS, call.value as i32);
                let more = || self.wake(call.other, ALL_BITS, call.fourth as u32 as i32);
                woken + if is_met { more() } else { 0 }
            }
            command::UNLOCK_PI => self.unlock_inheriting(me, address),
            // There are no others.
            _ => return errno::NO_SUCH_CALL.into(),
        };
        self.switch(me, address, what::RELEASE, label());
        result.into()
    }

    fn wake(&self, address: u64, bits: u32, count: i32) -> i32 {
        // The kernel wakes one if it is asked for none.
        self.wake_exactly(address, bits, count.max(1))
    }

    fn wake_exactly(&self, address: u64, bits: u32, count: i32) -> i32 {
        let mut woken = 0;
        while woken < count
            && let Some(waiter) = self.first_waiter(address, bits)
        {
            self.turn_state(waiter).wake(0);
            woken += 1;
        }
        woken
    }

    /// How many were woken, or wait for another word from now on.
    fn requeue(&self, call: &FutexCall) -> i32 {
        self.wake_exactly(call.address, ALL_BITS, call.value as i32) + self.move_waiters(call)
    }

    /// Moves as many of those that wait for a word as the call says; returns how many there were.
    fn move_waiters(&self, call: &FutexCall) -> i32 {
        let mut moved = 0;
        while moved < call.fourth as u32 as i32
            && let Some(waiter) = self.first_waiter(call.address, ALL_BITS)
        {
            // It does not compare the new word with anything.
            let found = self.process.load(call.other);
            self.turn_state(waiter).move_to(call.other, found, self.draw_ticket());
            moved += 1;
        }
        moved
    }

    /// The same for waiters that are to own the inheriting lock at the other word: the first one gets it, if it is free, and the others wait for it.
    fn requeue_inheriting(&self, call: &FutexCall) -> i32 {
        let mut woken = 0;
        if let Some(first) = self.first_waiter(call.address, ALL_BITS)
            && self.try_lock_inheriting(first, call.other)
        {
            self.turn_state(first).wake(0);
            woken = 1;
        }
        // One that could not get it is moved in place of being woken.
        let room = call.fourth.wrapping_add(u64::from(woken == 0));
        let moved = self.move_waiters(&FutexCall { fourth: room, ..*call });
        if moved > 0 {
            self.process.or(call.other, HAS_WAITERS);
        }
        woken + moved
    }

    /// The word at `address` changes as FUTEX_WAKE_OP says; is its condition met?
    fn change(&self, address: u64, encoded: u32) -> bool {
        let signed = |bits: u32| (bits << 20) as i32 >> 20;
        let (mut operand, comparand) = (signed(encoded >> 12 & 0xfff), signed(encoded & 0xfff));
        if encoded >> 28 & 8 != 0 {
            operand = 1 << (operand & 31);
        }
        let old = self.process.load(address);
        let new = match encoded >> 28 & 7 {
            0 => operand as u32,
            1 => old.wrapping_add(operand as u32),
            2 => old | operand as u32,
            3 => old & !(operand as u32),
            _ => old ^ operand as u32,
        };
        self.process.store(address, new);
        let old = old as i32;
        match encoded >> 24 & 0xf {
            0 => old == comparand,
            1 => old != comparand,
            2 => old < comparand,
            3 => old <= comparand,
            4 => old > comparand,
            _ => old >= comparand,
        }
    }

    fn wait_for_word(&self, me: u32, mut wait: Wait, is_timed: bool, recorded: &mut impl RecordedWaits) -> i32 {
        if self.process.load(wait.address) != wait.expected {
            return errno::AGAIN;
        }
        wait.if_due = match recorded.next_timed_wait().filter(|_| is_timed) {
            Some(result) if result == i64::from(TIMED_OUT) => IfDue::AtOnce(TIMED_OUT),
            Some(result) if result == i64::from(errno::INTERRUPTED) => IfDue::AtOnce(errno::INTERRUPTED),
            // It was woken: who is to do that may have done so already. Futexes may be woken for no reason.
            Some(_) => IfDue::AtLast(0),
            None => match recorded.next_signal() {
                Some(SignalDue::Restarts) => IfDue::AtLast(errno::INTERRUPTED),
                Some(SignalDue::Interrupts) => IfDue::AtOnce(errno::INTERRUPTED),
                None => IfDue::Nothing,
            },
        };
        let state = self.turn_state(me);
        state.begin_wait(&wait, self.draw_ticket());
        self.yield_to_best(me);
        // If nobody woke it, its input is due, or the word has changed.
        let is_woken = state.state() == State::Ready;
        state.set(State::Ready);
        let is_due = wait.if_due != IfDue::Nothing && self.is_next(me);
        let result = if is_woken || is_due { state.result() } else { 0 };
        // One that was woken ends here as well: if it waits again, that is another wait.
        let was_woken = || result == 0 && is_timed && recorded.next_timed_wait().is_some();
        let ended_so = || result != 0 && is_timed && recorded.next_timed_wait() == Some(result.into());
        if (ended_so() || was_woken()) && self.is_next(me) {
            recorded.take();
        }
        result
    }

    /// Returns when there is something else than zero in this word of ours, which lies at `address`. The thread `other` is to write it, and is not to
    /// come after others who have inputs before its own.
    pub fn wait_for_thread(&self, me: u32, word: &M::U32, address: u64, other: Option<u32>) {
        // Relaxed: the turn itself is passed with Release and Acquire.
        while word.load(Relaxed) == 0 {
            let wait = Wait {
                address,
                expected: 0,
                bits: ALL_BITS,
                is_shared: false,
                if_due: IfDue::Nothing,
                is_timed: false,
                ended_by: other,
            };
            self.turn_state(me).begin_wait(&wait, self.draw_ticket());
            self.yield_to_best(me);
            self.turn_state(me).set(State::Ready);
        }
    }

    fn has_waiters(&self, address: u64) -> u32 {
        match self.first_waiter(address, ALL_BITS) {
            Some(_) => HAS_WAITERS,
            None => 0,
        }
    }

    /// An inheriting lock's word holds the kernel's name of its owner.
    fn try_lock_inheriting(&self, me: u32, address: u64) -> bool {
        let now = self.process.load(address);
        if now & OWNER != 0 {
            return false;
        }
        let word = self.process.name_of(me) | self.has_waiters(address) | now & OWNER_DIED;
        self.process.store(address, word);
        true
    }

    fn is_owner(&self, me: u32, address: u64) -> bool {
        self.process.load(address) & OWNER == self.process.name_of(me)
    }

    fn lock_inheriting(
        &self,
        me: u32,
        address: u64,
        is_timed: bool,
        recorded: &mut impl RecordedWaits,
        acquire: &impl Fn(),
    ) -> i32 {
        loop {
            acquire();
            if self.try_lock_inheriting(me, address) {
                return 0;
            }
            if self.is_owner(me, address) {
                return errno::DEADLOCK;
            }
            self.process.or(address, HAS_WAITERS);
            let wait = Wait {
                address,
                expected: self.process.load(address),
                bits: ALL_BITS,
                is_shared: true,
                if_due: IfDue::Nothing,
                is_timed: false,
                ended_by: None,
            };
            // Who is woken owns the lock: `unlock_inheriting`; or its owner died.
            let result = self.wait_for_word(me, wait, is_timed, recorded);
            if result != 0 || self.is_owner(me, address) || self.try_lock_inheriting(me, address) {
                return result;
            }
        }
    }

    fn unlock_inheriting(&self, me: u32, address: u64) -> i32 {
        if !self.is_owner(me, address) {
            return errno::PERMITTED_NOT;
        }
        let Some(waiter) = self.first_waiter(address, ALL_BITS) else {
            self.process.store(address, 0);
            return 0;
        };
        self.turn_state(waiter).wake(0);
        let word = self.process.name_of(waiter) | self.has_waiters(address);
        self.process.store(address, word);
        0
    }
}
