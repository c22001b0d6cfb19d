//! A thread that has the turn and runs on and on without a switch point has to give way: it may wait for another thread to
//! write something.
//!
//! A timer of the process's own time sends a signal, to whichever thread; that one passes it to the thread that has the turn, whose
//! handler gives the turn away, and so waits inside of the handler. Where that is depends on the time. It is never in the
//! runtime itself.
use crate::control;
use crate::handlers;
use crate::local::Local;
use crate::sys;
use crate::turns;
use crate::turns::accesses;
use crate::turns::labels;
use core::ffi::c_int;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// libc's signal for changes of ids, which programs cannot block; a replay changes none.
const SIGNAL: usize = 33;
/// Between two looks.
const TICK_NS: u64 = 10_000_000;
/// A thread that is found in the same few bytes of its code so often, with the same in its registers and without a switch point meanwhile,
/// seems to wait there.
const SAME_PLACE_MAX: u32 = 2;
const NEAR_BYTES: u64 = 256;
/// One that computes is left alone for longer: half a second.
const TICKS_MAX: u32 = 50;

/// So much more time while each access is a fault.
const SLOW_TIMES: u32 = 20;
/// And of one that ran alone when it was recorded.
const ALONE_TIMES: u32 = 10;

/// How many switch points there had been at the last look, and how many looks have found nothing else.
static SEEN: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU32 = AtomicU32::new(0);
/// Where the thread was found last, and how often near there with registers as one of the last times.
static PLACE: AtomicU64 = AtomicU64::new(0);
static SAME_PLACE: AtomicU32 = AtomicU32::new(0);
/// What was in its registers then, condensed. A loop has several instructions at which it may be found.
static REGISTERS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Is this the signal that tells a thread to give way? The program's handler for it, which is libc's, is not needed.
pub fn is_timer_signal(signal: usize) -> bool {
    signal == SIGNAL && turns::is_on()
}

/// Once for each process.
pub fn begin() {
    handlers::install(SIGNAL, on_tick);
    #[repr(C)]
    struct Event {
        value: usize,
        signal: c_int,
        notify: c_int,
        rest: [u64; 6],
    }
    let event = Event {
        value: 0,
        signal: SIGNAL as c_int,
        notify: libc::SIGEV_SIGNAL,
        rest: [0; 6],
    };
    let mut timer: c_int = 0;
    let spec = [0, TICK_NS, 0, TICK_NS];
    // SAFETY: the kernel reads an event and a period, and writes a number.
    unsafe {
        let made = sys::syscall(
            libc::SYS_timer_create,
            [
                libc::CLOCK_PROCESS_CPUTIME_ID as usize,
                &raw const event as usize,
                &raw mut timer as usize,
                0,
                0,
                0,
            ],
        );
        // Without it, only programs that wait without a call stand still.
        if made == 0 {
            sys::syscall(
                libc::SYS_timer_settime,
                [timer as usize, 0, spec.as_ptr() as usize, 0, 0, 0],
            );
        }
    }
}

extern "C" fn on_tick(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's siginfo.
    let is_tick = unsafe { (*info).si_code } == libc::SI_TIMER;
    if is_tick {
        let now = turns::SCHEDULER.progress();
        if SEEN.swap(now, Relaxed) != now {
            TICKS.store(0, Relaxed);
            SAME_PLACE.store(0, Relaxed);
            return;
        }
        TICKS.fetch_add(1, Relaxed);
    }
    let holder = turns::SCHEDULER.holder();
    match Local::current() {
        Some(local) if local.index == holder => {
            // SAFETY: the kernel's context of this thread.
            let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            let at = registers[libc::REG_RIP as usize] as u64;
            // What we call of libc's is not ours.
            if !labels::is_ours(at) && !turns::SCHEDULER.is_deciding() && is_spent(at, registers) {
                give_way(local);
            }
        }
        _ if is_tick => {
            let id = control::slot(holder).os_thread.load(Relaxed);
            // SAFETY: touches no memory.
            unsafe {
                sys::syscall(
                    libc::SYS_tgkill,
                    [sys::process_id() as usize, id as usize, SIGNAL, 0, 0, 0],
                )
            };
        }
        _ => {}
    }
}

/// The thread that has the turn was found at `at`: has it used up its budget?
fn is_spent(at: u64, registers: &[i64]) -> bool {
    let is_near = PLACE.swap(at, Relaxed).abs_diff(at) < NEAR_BYTES;
    let is_same = note_registers(registers);
    match (is_near, is_same) {
        (true, true) => SAME_PLACE.fetch_add(1, Relaxed),
        (true, false) => 0,
        (false, _) => SAME_PLACE.swap(0, Relaxed),
    };
    let times = match (accesses::are_slow(), control::one_at_a_time()) {
        (true, _) => SLOW_TIMES,
        // Others waited for it when it was recorded, mostly.
        (false, true) => ALONE_TIMES,
        (false, false) => 1,
    };
    SAME_PLACE.load(Relaxed) >= SAME_PLACE_MAX * times || TICKS.load(Relaxed) >= TICKS_MAX * times
}

/// Has the thread been found with these registers shortly before? Who computes has others each time.
fn note_registers(registers: &[i64]) -> bool {
    let general = &registers[libc::REG_R8 as usize..libc::REG_RIP as usize];
    let mix = |sum: u64, register: &i64| {
        (sum ^ *register as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let sum = general.iter().fold(1, mix);
    let is_known = REGISTERS.iter().any(|known| known.load(Relaxed) == sum);
    if !is_known {
        let place = TICKS.load(Relaxed) as usize % REGISTERS.len();
        REGISTERS[place].store(sum, Relaxed);
    }
    is_known
}

fn give_way(local: &Local) {
    let spent = &control::header().turns.budgets_spent;
    spent.store(spent.load(Relaxed) + 1, Relaxed);
    turns::give_way_after_all(local);
}
