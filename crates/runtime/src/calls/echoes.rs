//! Words that the program gives to the kernel and gets back from it: the data of an epoll event, the value of a signal.
//!
//! Often they are addresses. In a replay that lets one thread run at a time, those need not be the recorded ones, and a recorded word would mean
//! nothing to the program. So what the program gave is recorded, as a range behind those that the kernel wrote; in replay, who gives a word
//! says which one stands for the recorded one from then on, and each that comes back is replaced. A word that is given again stands for
//! what it was given for last: its owner before is gone, or is the same.
//!
//! Only who has the turn is in here.
use crate::control;
use crate::failure;
use crate::inputs;
use crate::inputs::Range;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use log_format::inputs::Call;
use runtime_abi::memory_map::ECHOES;

const FIRST_SLOTS: usize = 1 << 12;
const WORD: usize = 8;
const EVENT_BYTES: usize = size_of::<libc::epoll_event>();
/// Where the data is in an epoll event.
const EVENT_DATA_AT: usize = 4;
const INFO_BYTES: usize = 32;
/// Where the value is in a siginfo, of timers as well.
const INFO_VALUE_AT: usize = 24;
const SIGEVENT_BYTES: usize = size_of::<libc::sigevent>();

/// Who gives words back: an epoll descriptor, or signals.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Giver(u64);

const SIGNALS: Giver = Giver(1 << 32);

/// What the program gives with a call and gets back later: to whom, where it is, how long, and where in it the word is.
struct Given {
    giver: Giver,
    address: usize,
    bytes: usize,
    word_at: usize,
}

fn given(number: c_long, arguments: &[usize; 6]) -> Option<Given> {
    let (giver, address, bytes, word_at) = match number {
        libc::SYS_epoll_ctl if arguments[1] as i32 != libc::EPOLL_CTL_DEL => (
            Giver(arguments[0] as u32 as u64),
            arguments[3],
            EVENT_BYTES,
            EVENT_DATA_AT,
        ),
        libc::SYS_timer_create => (SIGNALS, arguments[1], SIGEVENT_BYTES, 0),
        libc::SYS_rt_sigqueueinfo => (SIGNALS, arguments[2], INFO_BYTES, INFO_VALUE_AT),
        libc::SYS_rt_tgsigqueueinfo => (SIGNALS, arguments[3], INFO_BYTES, INFO_VALUE_AT),
        _ => return None,
    };
    (address != 0).then_some(Given {
        giver,
        address,
        bytes,
        word_at,
    })
}

/// Recording: what the program gave with a call that succeeded, if addresses need not come back in replay.
#[inline]
pub fn range(number: c_long, arguments: &[usize; 6]) -> Option<Range> {
    if !control::inputs_only() || !control::is_threaded() {
        return None;
    }
    let given = given(number, arguments)?;
    Some(Range {
        address: given.address,
        from: given.address,
        bytes: given.bytes,
    })
}

/// Is the last range of a recorded call what the program gave?
pub fn is_last_of(number: c_long, arguments: &[usize; 6], call: &Call<'_>) -> bool {
    let last = call.ranges().last();
    given(number, arguments).is_some_and(|given| last.is_some_and(|(_, bytes)| bytes.len() == given.bytes))
}

/// Replay: a call that succeeded has been answered. Words it gave are remembered, those it brought are replaced.
pub fn follow(number: c_long, arguments: &[usize; 6], call: &Call<'_>) {
    match number {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            for event in 0..call.entry.result.max(0) as usize {
                replace(
                    Giver(arguments[0] as u32 as u64),
                    arguments[1] + event * EVENT_BYTES + EVENT_DATA_AT,
                );
            }
        }
        libc::SYS_rt_sigtimedwait if arguments[1] != 0 => replace_in_info(arguments[1]),
        _ => {
            if let Some(given) = given(number, arguments)
                && let Some((_, recorded)) = call.ranges().last()
                && recorded.len() == given.bytes
                && let Some(word) = recorded[given.word_at..].first_chunk::<WORD>()
            {
                // SAFETY: the program gives it to the kernel, as long as this.
                let now = unsafe { ((given.address + given.word_at) as *const u64).read_unaligned() };
                remember(given.giver, u64::from_le_bytes(*word), now);
            }
        }
    }
}

/// Replay: a siginfo from the log, of a signal that the program had somebody send to it.
pub fn replace_in_info(info: usize) {
    // SAFETY: callers pass a siginfo.
    let code = unsafe { (*(info as *const libc::siginfo_t)).si_code };
    if matches!(code, libc::SI_TIMER | libc::SI_QUEUE) {
        replace(SIGNALS, info + INFO_VALUE_AT);
    }
}

fn replace(giver: Giver, address: usize) {
    let place = address as *mut u64;
    // SAFETY: a word that has just been answered from the log.
    unsafe {
        if let Some(now) = find(giver, place.read_unaligned()) {
            place.write_unaligned(now);
        }
    }
}

/// What stands for a recorded word, if it is another one.
#[repr(C)]
struct Slot {
    /// One more than the giver; 0: free.
    giver: u64,
    recorded: u64,
    now: u64,
}

/// Slots, found by a hash of the word.
struct Table {
    /// Where they are; 0: nowhere yet.
    at: AtomicU64,
    slots: AtomicUsize,
    used: AtomicUsize,
}

/// Replay: used by the thread that has the turn, and by nobody else.
static TABLE: Table = Table {
    at: AtomicU64::new(0),
    slots: AtomicUsize::new(0),
    used: AtomicUsize::new(0),
};

/// The slot of a word, or the free one in its place.
fn slot_of(giver: Giver, recorded: u64) -> Option<&'static mut Slot> {
    let (table, slots) = (TABLE.at.load(Relaxed), TABLE.slots.load(Relaxed));
    let mut at = ((recorded ^ giver.0 << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    for _ in 0..slots {
        at &= slots - 1;
        // SAFETY: the table is mapped, for `slots` of them, and only who has the turn uses it, one slot at a time.
        let slot = unsafe { &mut *(table as *mut Slot).add(at) };
        if slot.giver == 0 || slot.giver == giver.0 + 1 && slot.recorded == recorded {
            return Some(slot);
        }
        at += 1;
    }
    None
}

fn find(giver: Giver, recorded: u64) -> Option<u64> {
    let slot = slot_of(giver, recorded)?;
    (slot.giver != 0).then_some(slot.now)
}

fn remember(giver: Giver, recorded: u64, now: u64) {
    if TABLE.used.load(Relaxed) >= TABLE.slots.load(Relaxed) / 2 {
        grow();
    }
    let Some(slot) = slot_of(giver, recorded) else {
        return;
    };
    if slot.giver != 0 {
        slot.now = now;
    } else if now != recorded {
        *slot = Slot {
            giver: giver.0 + 1,
            recorded,
            now,
        };
        TABLE.used.store(TABLE.used.load(Relaxed) + 1, Relaxed);
    }
}

/// A table twice as large, behind the one there is.
fn grow() {
    let (old, slots) = (TABLE.at.load(Relaxed), TABLE.slots.load(Relaxed));
    let bytes = |slots: usize| (slots * size_of::<Slot>()).next_multiple_of(4096);
    let (table, more) = match slots {
        0 => (ECHOES.start, FIRST_SLOTS),
        _ => (old + bytes(slots) as u64, 2 * slots),
    };
    if table + bytes(more) as u64 > ECHOES.end() || sys::map_at(table, bytes(more), -1, 0, true).is_err() {
        failure::die(b"cannot map memory for what comes back to the program", libc::ENOMEM);
    }
    TABLE.at.store(table, Relaxed);
    TABLE.slots.store(more, Relaxed);
    for at in 0..slots {
        // SAFETY: the old table, which is still mapped.
        let slot = unsafe { &*(old as *const Slot).add(at) };
        if slot.giver != 0
            && let Some(to) = slot_of(Giver(slot.giver - 1), slot.recorded)
        {
            inputs::copy((&raw const *slot).cast(), (&raw mut *to).cast(), size_of::<Slot>());
        }
    }
    if slots != 0 {
        // SAFETY: nobody uses the old one any more.
        unsafe { sys::unmap(old, bytes(slots)) };
    }
}
