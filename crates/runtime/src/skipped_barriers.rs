//! Barriers are not waited at while a schedule is enforced. If the program may go on without one (`freed.rs`), it is counted who has come to each, so that the round that is
//! under way then ends well: if all have come, who is still there leaves with what was recorded, which is another value for one of them; if
//! not, nobody has left, and those who have come do so for real, together with those who come later.
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use libc::pthread_barrier_t;

/// Those that come later are waited at.
const BARRIERS_MAX: usize = 256;
/// Nobody is counted any more.
const FROZEN: u64 = 1 << 63;

static TABLE: [Arrivals; BARRIERS_MAX] = [const { Arrivals::new() }; BARRIERS_MAX];

pub struct Arrivals {
    /// The barrier's address; 0: nobody's.
    barrier: AtomicU64,
    /// For how many it is. A barrier may be made anew in the same place.
    parties: AtomicU64,
    /// Threads that have come, in all rounds, and [`FROZEN`].
    count: AtomicU64,
}

/// What to do about a thread that has come to a barrier, in its turn.
pub enum Arrival {
    /// It need not wait. It is the `number`th, counted from 0.
    Counted { number: u64, at: &'static Arrivals },
    /// It has to: there are too many barriers.
    NotCounted,
    /// The program goes on without a schedule.
    Freed,
}

impl Arrivals {
    const fn new() -> Arrivals {
        Arrivals {
            barrier: AtomicU64::new(0),
            parties: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }

    fn of(barrier: u64) -> Option<&'static Arrivals> {
        TABLE.iter().find(|arrivals| {
            // Relaxed: the word stands for itself.
            let found = arrivals.barrier.compare_exchange(0, barrier, Relaxed, Relaxed);
            found.is_ok() || found == Err(barrier)
        })
    }

    /// When nobody is counted any more: had all come with whom the `number`th leaves?
    pub fn is_round_complete(&self, number: u64) -> bool {
        let parties = self.parties.load(Relaxed).max(1);
        // Acquire: pairs with the AcqRel in `freeze`.
        self.count.load(Acquire) & !FROZEN >= (number / parties + 1) * parties
    }
}

/// A thread has come to a barrier. Turns are taken, so no other one does so at the same time; but somebody may be about to freeze.
pub fn arrive(barrier: *mut pthread_barrier_t) -> Arrival {
    let Some(at) = Arrivals::of(barrier as u64) else {
        return Arrival::NotCounted;
    };
    let parties = parties_of(barrier);
    let mut count = at.count.load(Acquire);
    if at.parties.swap(parties, Relaxed) != parties && count & FROZEN == 0 {
        // A failure means that it was frozen meanwhile, which is seen below.
        _ = at.count.compare_exchange(count, 0, AcqRel, Acquire);
        count = at.count.load(Acquire);
    }
    loop {
        if count & FROZEN != 0 {
            return Arrival::Freed;
        }
        match at.count.compare_exchange(count, count + 1, AcqRel, Acquire) {
            Ok(number) => return Arrival::Counted { number, at },
            Err(found) => count = found,
        }
    }
}

/// Nobody is counted any more.
pub fn freeze() {
    for arrivals in &TABLE {
        // AcqRel: pairs with the Acquire in `is_round_complete`.
        arrivals.count.fetch_or(FROZEN, AcqRel);
    }
}

/// For how many threads a barrier is: a field of glibc's, at a place that its binary interface fixes.
fn parties_of(barrier: *const pthread_barrier_t) -> u64 {
    const COUNT: usize = 8;
    // SAFETY: the program waits at it, so it is one; nobody changes it meanwhile.
    u64::from(unsafe { barrier.byte_add(COUNT).cast::<u32>().read() })
}
