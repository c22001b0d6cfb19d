//! Futex calls of the program, in terms of turns: who would wait passes the turn on, who wakes makes others able to go on.
//!
//! Whether a wait with a time limit timed out is recorded (`calls::record_timed_wait`). One that did returns when that input is due;
//! others wait until they are woken, as those without a limit.
use crate::calls::signals;
use crate::local::Local;
use crate::sys;
use crate::turns;
use crate::turns::seats;
use crate::turns::seats::IfDue;
use crate::turns::seats::State;
use crate::turns::seats::Wait;
use crate::turns::seats::seat;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;
use runtime_abi::turns_file::what;

const ALL_BITS: u32 = u32::MAX;
/// The bits of an operation that say what it does.
pub const COMMAND: i32 = 0x7f;
pub const LOCK_PI2: i32 = 13;
const OWNER: u32 = 0x3fff_ffff;
const HAS_WAITERS: u32 = 0x8000_0000;

fn refuse(errno: i32) -> isize {
    -errno as isize
}

/// May this futex call wait, and for a limited time?
pub fn is_timed(arguments: &[usize; 6]) -> bool {
    let waits = matches!(
        arguments[1] as i32 & COMMAND,
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | LOCK_PI2 | libc::FUTEX_WAIT_REQUEUE_PI
    );
    waits && arguments[3] != 0
}

/// Replay: a futex call of the thread that has the turn.
pub fn futex(local: &mut Local, arguments: &[usize; 6]) -> isize {
    let [address, operation, value, fourth, other, last] = *arguments;
    let (command, value) = (operation as i32 & COMMAND, value as u32);
    let count = |number: usize| number as u32 as i32;
    // Misaligned, or no address at all.
    if address % 4 != 0 || address < 4096 {
        return refuse(if address % 4 != 0 { libc::EINVAL } else { libc::EFAULT });
    }
    let address = address as u64;
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            turns::at_switch_point_of(address, what::ACQUIRE, 0);
            let bits = if command == libc::FUTEX_WAIT {
                ALL_BITS
            } else {
                last as u32
            };
            let wait = Wait {
                address,
                expected: value,
                bits,
                is_shared: operation as i32 & libc::FUTEX_PRIVATE_FLAG == 0,
                if_due: IfDue::Nothing,
                is_timed: is_timed(arguments),
                ended_by: None,
            };
            wait_for_word(local, wait, is_timed(arguments))
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let bits = if command == libc::FUTEX_WAKE {
                ALL_BITS
            } else {
                last as u32
            };
            let woken = wake(address, bits, value as i32);
            turns::at_switch_point_of(address, what::RELEASE, 0);
            woken
        }
        libc::FUTEX_CMP_REQUEUE if load(address) != last as u32 => refuse(libc::EAGAIN),
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
            let woken = wake(address, ALL_BITS, value as i32);
            let mut moved = 0;
            while moved < count(fourth)
                && let Some(waiter) = first_waiter(address, ALL_BITS)
            {
                seat(waiter).move_to(other as u64);
                moved += 1;
            }
            turns::at_switch_point_of(address, what::RELEASE, 0);
            match command {
                libc::FUTEX_REQUEUE => woken,
                _ => woken + moved as isize,
            }
        }
        libc::FUTEX_WAKE_OP => {
            let is_met = change(other as u64, last as u32);
            let mut woken = wake(address, ALL_BITS, value as i32);
            if is_met {
                woken += wake(other as u64, ALL_BITS, count(fourth));
            }
            turns::at_switch_point_of(address, what::RELEASE, 0);
            woken
        }
        libc::FUTEX_LOCK_PI | LOCK_PI2 => lock_inheriting(local, address, is_timed(arguments)),
        libc::FUTEX_TRYLOCK_PI => match try_lock_inheriting(local, address) {
            true => 0,
            false => refuse(libc::EAGAIN),
        },
        libc::FUTEX_UNLOCK_PI => {
            let result = unlock_inheriting(local, address);
            turns::at_switch_point_of(address, what::RELEASE, 0);
            result
        }
        // Nothing of libc's uses the others.
        _ => refuse(libc::ENOSYS),
    }
}

fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: the program says that there is a word, and it is aligned.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

fn load(address: u64) -> u32 {
    word(address).load(SeqCst)
}

/// Of those that wait, the one whose next input is the earliest; of several, the one that has waited longest. The kernel
/// promises no order.
fn first_waiter(address: u64, bits: u32) -> Option<u32> {
    let threads = 0..seats::count();
    let waiters = threads.filter(|thread| seat(*thread).waits_for(address, bits));
    waiters.min_by_key(|thread| (seat(*thread).next_run(), seat(*thread).ticket()))
}

fn wake(address: u64, bits: u32, count: i32) -> isize {
    let mut woken = 0;
    // The kernel wakes one if it is asked for none.
    while woken < count.max(1)
        && let Some(waiter) = first_waiter(address, bits)
    {
        seat(waiter).wake(0);
        woken += 1;
    }
    woken as isize
}

/// The word at `address` changes as FUTEX_WAKE_OP says; is its condition met?
fn change(address: u64, encoded: u32) -> bool {
    let signed = |bits: u32| (bits << 20) as i32 >> 20;
    let (mut operand, comparand) = (signed(encoded >> 12 & 0xfff), signed(encoded & 0xfff));
    if encoded >> 28 & 8 != 0 {
        operand = 1 << (operand & 31);
    }
    let old = load(address);
    let new = match encoded >> 28 & 7 {
        0 => operand as u32,
        1 => old.wrapping_add(operand as u32),
        2 => old | operand as u32,
        3 => old & !(operand as u32),
        _ => old ^ operand as u32,
    };
    word(address).store(new, SeqCst);
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

/// What the recording has next of this thread, if it is a wait that had a time limit.
fn recorded_wait(local: &Local) -> Option<i64> {
    local.recorded_inputs.next_timed_wait(local.event())
}

fn wait_for_word(local: &mut Local, mut wait: Wait, is_timed: bool) -> isize {
    if load(wait.address) != wait.expected {
        return refuse(libc::EAGAIN);
    }
    let timed_out = -libc::ETIMEDOUT;
    wait.if_due = match recorded_wait(local).filter(|_| is_timed) {
        Some(result) if result == i64::from(timed_out) => IfDue::AtOnce(timed_out),
        // It was woken: who is to do that may have done so already. Futexes may be woken for no reason.
        Some(_) => IfDue::AtLast(0),
        None => match local.recorded_inputs.next_signal_number(local.event()) {
            Some(signal) if signals::restarts(signal) => IfDue::AtLast(-libc::EINTR),
            Some(_) => IfDue::AtOnce(-libc::EINTR),
            None => IfDue::Nothing,
        },
    };
    let me = local.index;
    seat(me).begin_wait(&wait);
    turns::yield_to_best(me);
    // If nobody woke it, its input is due, or the word has changed.
    let is_woken = seat(me).state() == State::Ready;
    seat(me).set(State::Ready);
    let is_due = wait.if_due != IfDue::Nothing && turns::is_next(me);
    let result = if is_woken || is_due { seat(me).result() } else { 0 };
    // One that was woken ends here as well: if it waits again, that is another wait.
    let was_woken = result == 0 && is_timed && recorded_wait(local).is_some() && turns::is_next(me);
    let has_timed_out = result == timed_out && recorded_wait(local) == Some(i64::from(timed_out)) && turns::is_next(me);
    if has_timed_out || was_woken {
        local.take_input();
    }
    result as isize
}

/// Replay: returns when there is something else than zero in this word of ours. The thread `other` is to write it, and is not to come after others
/// who have inputs before its own.
pub fn wait_for_thread(local: &Local, word: &AtomicU32, other: Option<u32>) {
    let me = local.index;
    // Relaxed: the turn itself is passed with Release and Acquire.
    while word.load(Relaxed) == 0 {
        seat(me).begin_wait(&Wait {
            address: word.as_ptr() as u64,
            expected: 0,
            bits: ALL_BITS,
            is_shared: false,
            if_due: IfDue::Nothing,
            is_timed: false,
            ended_by: other,
        });
        turns::yield_to_best(me);
        seat(me).set(State::Ready);
    }
}

/// An inheriting lock's word holds the kernel's name of its owner.
fn try_lock_inheriting(local: &Local, address: u64) -> bool {
    let now = load(address);
    if now & OWNER != 0 {
        return false;
    }
    let waiters = if first_waiter(address, ALL_BITS).is_some() {
        HAS_WAITERS
    } else {
        0
    };
    word(address).store(seats::name_of(local.index) | waiters | now & 0x4000_0000, SeqCst);
    true
}

fn lock_inheriting(local: &mut Local, address: u64, is_timed: bool) -> isize {
    turns::at_switch_point_of(address, what::ACQUIRE, 0);
    if try_lock_inheriting(local, address) {
        return 0;
    }
    if load(address) & OWNER == seats::name_of(local.index) {
        return refuse(libc::EDEADLK);
    }
    word(address).fetch_or(HAS_WAITERS, SeqCst);
    let wait = Wait {
        address,
        expected: load(address),
        bits: ALL_BITS,
        is_shared: true,
        if_due: IfDue::Nothing,
        is_timed: false,
        ended_by: None,
    };
    // Who is woken owns the lock: `unlock_inheriting`; or its owner died.
    let result = wait_for_word(local, wait, is_timed);
    match result == 0 && load(address) & OWNER != seats::name_of(local.index) {
        true if try_lock_inheriting(local, address) => 0,
        true => lock_inheriting(local, address, is_timed),
        false => result,
    }
}

fn unlock_inheriting(local: &Local, address: u64) -> isize {
    if load(address) & OWNER != seats::name_of(local.index) {
        return refuse(libc::EPERM);
    }
    let Some(waiter) = first_waiter(address, ALL_BITS) else {
        word(address).store(0, SeqCst);
        return 0;
    };
    seat(waiter).wake(0);
    let more = if first_waiter(address, ALL_BITS).is_some() {
        HAS_WAITERS
    } else {
        0
    };
    let owner = seats::name_of(waiter);
    word(address).store(owner | more, SeqCst);
    0
}

/// Where the kernel writes zero when the main thread ends; 0: not known.
static LEADER_WORD: AtomicU64 = AtomicU64::new(0);

/// The thread is about to make its last call.
pub fn expect_exit(local: &Local) {
    const PR_GET_TID_ADDRESS: usize = 40;
    let mut place = 0u64;
    if local.slot.os_thread.load(Relaxed) == sys::process_id() {
        // SAFETY: the kernel writes one pointer.
        unsafe {
            sys::syscall(
                libc::SYS_prctl,
                [PR_GET_TID_ADDRESS, &raw mut place as usize, 0, 0, 0, 0],
            )
        };
    }
    LEADER_WORD.store(place, Relaxed);
}

/// Waits until the kernel has done with a thread all that others can see.
pub fn wait_until_gone(os_thread: u32) {
    let place = LEADER_WORD.load(Relaxed);
    if place != 0 {
        // It stays, as a zombie, as long as the process does.
        while load(place) != 0 {
            sys::yield_now();
        }
        return;
    }
    while os_thread != sys::process_id() && sys::is_thread(os_thread) {
        sys::yield_now();
    }
}

/// A thread is gone. Those that wait for what the kernel writes then: joins, and locks whose holder died.
pub fn wake_for_kernel() {
    for thread in 0..seats::count() {
        if seat(thread).is_overtaken_by_kernel() {
            seat(thread).wake(0);
        }
    }
}
