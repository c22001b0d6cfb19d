//! Scope `inputs`: when a mutex was last given back, so that taking it need not wait for the processor.
//!
//! NOTE [Times of mutexes]
//!
//! Who takes a mutex has a time above that at which it was given back. The counter may be read before a locked instruction in front of
//! it is done, that is, before the mutex was given back; an `lfence` between them rules that out, and takes three times as long as the
//! counter. So who gives a mutex back leaves its time here, and who took it compares: if that time is below its own, the order is right
//! whatever the processor did. Otherwise it reads the counter again, behind a fence.
//!
//! A word is all that is known of one mutex: the upper bits of its address and the lower half of the time, and where it stands are the
//! lower bits of the address. Only who holds a mutex writes that of its own; if another one's has come to stand there, it is not known when it was given back.
//! Halves of times can be compared, since a time that was left is at most some instructions' time above one that was read before it.
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Enough for the locks of a hash table: memcached has an array of 8192. Of half a megabyte, what is not used has no memory.
const PLACES: u64 = 1 << 16;
/// Mutexes are aligned to 8 bytes.
const ALIGNMENT: u64 = 8;

static RELEASES: [AtomicU64; PLACES as usize] = [const { AtomicU64::new(0) }; PLACES as usize];

#[inline]
fn place(mutex: u64) -> (&'static AtomicU64, u64) {
    let unit = mutex / ALIGNMENT;
    (&RELEASES[(unit % PLACES) as usize], unit / PLACES)
}

/// The calling thread, which holds the mutex, gives it back at this time.
#[inline]
pub fn released(mutex: u64, time: u64) {
    let (release, whose) = place(mutex);
    release.store(whose << 32 | time & u64::from(u32::MAX), Relaxed);
}

/// The calling thread, which holds the mutex, gives it back in another way.
#[inline]
pub fn forget(mutex: u64) {
    place(mutex).0.store(0, Relaxed);
}

/// The calling thread, which holds the mutex, read this time: was that after the mutex was given back last?
#[inline]
pub fn is_after_release(mutex: u64, time: u64) -> bool {
    let (release, whose) = place(mutex);
    let word = release.load(Relaxed);
    word >> 32 == whose & u64::from(u32::MAX) && (time as u32).wrapping_sub(word as u32) as i32 > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_after_a_release_of_that_mutex_alone() {
        let (mutex, time) = (0x7fff_f7a0_1238, 0x5_ffff_fff0);
        let other = mutex + ALIGNMENT * PLACES;
        assert!(!is_after_release(mutex, time), "nothing is known");
        released(mutex, time);
        assert!(!is_after_release(mutex, time) && !is_after_release(mutex, time - 5));
        // The lower half is over.
        assert!(is_after_release(mutex, time + 1) && is_after_release(mutex, time + 0x20));
        assert!(!is_after_release(other, time + 1), "another one's");
        released(other, time + 2);
        assert!(!is_after_release(mutex, time + 0x20), "which stands there now");
        released(mutex, time);
        forget(mutex);
        assert!(!is_after_release(mutex, time + 0x20));
    }
}
