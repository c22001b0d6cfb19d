//! Looking at many chunk words at once: what loops and copies pay for being allowed to run as they are.
use core::arch::x86_64::*;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Is every word `mine`, or an epoch of 1..=`seen`?
#[inline]
pub fn all_allowed(words: &[AtomicU64], mine: u64, seen: u64) -> bool {
    let (fours, rest) = words.as_chunks::<4>();
    let allowed = |word: &AtomicU64| {
        let word = word.load(Relaxed);
        word == mine || word.wrapping_sub(1) < seen
    };
    if fours.len() < 2 || !has_avx2() {
        return words.iter().all(allowed);
    }
    // SAFETY: the processor has AVX2.
    unsafe { fours_allowed(fours, mine, seen) && rest.iter().all(allowed) }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn fours_allowed(fours: &[[AtomicU64; 4]], mine: u64, seen: u64) -> bool {
    let mine = _mm256_set1_epi64x(mine as i64);
    let one = _mm256_set1_epi64x(1);
    // There is only a signed comparison; flipping the highest bit of both sides makes it an unsigned one.
    let flip = _mm256_set1_epi64x(i64::MIN);
    let limit = _mm256_set1_epi64x(seen as i64 ^ i64::MIN);
    fours.iter().all(|four| {
        // SAFETY: 32 readable bytes. Other threads may store to these words at the same time; x86 loads each aligned
        // 8-byte lane whole, and the compiler cannot assume anything of what an intrinsic loads.
        let word = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
        let owned = _mm256_cmpeq_epi64(word, mine);
        let shared = _mm256_cmpgt_epi64(limit, _mm256_xor_si256(_mm256_sub_epi64(word, one), flip));
        _mm256_movemask_epi8(_mm256_or_si256(owned, shared)) == -1
    })
}

fn has_avx2() -> bool {
    /// 0: not asked yet.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    const NO: u8 = 1;
    const YES: u8 = 2;
    match ANSWER.load(Relaxed) {
        0 => {
            let answer = if ask_for_avx2() { YES } else { NO };
            ANSWER.store(answer, Relaxed);
            answer == YES
        }
        answer => answer == YES,
    }
}

fn ask_for_avx2() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const AVX2: u32 = 1 << 5;
    const YMM_STATE: u64 = 0b110;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that the instruction exists; it reads a register.
    unsafe { core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    let enabled = (high as u64) << 32 | low as u64;
    enabled & YMM_STATE == YMM_STATE && __cpuid_count(7, 0).ebx & AVX2 != 0
}
