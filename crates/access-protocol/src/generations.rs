//! Generations: why a chunk that its owner has not used since it released something needs no barrier to change hands.
//! Protocol: `README.md`.
use crate::Mistake;
use crate::Slot;
use crate::Thread;
use crate::World;
use crate::fences;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Word;
use run_model::Point;
use run_model::ThreadIndex;
use runtime_abi::THREADS_MAX;

/// Set in chunk words that name a thread: the owner (15 bits) and its generation when it last got the chunk.
pub const EXCLUSIVE: u64 = 1 << 63;
const THREAD: u64 = (1 << GENERATION_SHIFT) - 1;
const GENERATION_SHIFT: u32 = 15;
const _: () = assert!(THREADS_MAX as u64 - 1 <= THREAD);

/// How many ended generations of a thread are told apart.
pub const KEPT: u64 = 64;

// NOTE [Credit]
//
// A new generation costs its thread one slow path for each chunk it goes on using; it saves others the barrier when
// they take what it does not. So whoever takes from a thread gives it credit, and the thread spends credit on the
// chunks it has to make its own again. It begins a generation when it can pay what the last one cost.
//
// A fence point in time counts like a barrier. It costs less, but what was taken so needs a record.
const CREDIT_MAX: u32 = 1 << 22;
/// In `World::generation_ends`, by the generation modulo `KEPT`: what the thread had completed when the generation ended (47
/// bits), and the generation (its low 17 bits).
const TAG_SHIFT: u32 = 47;
const TAGS: u64 = 1 << (64 - TAG_SHIFT);

/// A chunk word that says "this thread alone".
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owned(u64);

impl Owned {
    /// Of a thread that begins.
    pub fn first(thread: u32) -> Owned {
        // No generation before the first has ended: those in `ENDS` would be 0, and older.
        Owned(EXCLUSIVE | KEPT << GENERATION_SHIFT | thread as u64)
    }

    pub fn from_word(word: u64) -> Option<Owned> {
        (word & EXCLUSIVE != 0).then_some(Owned(word))
    }

    pub fn word(self) -> u64 {
        self.0
    }

    pub fn owner(self) -> u32 {
        (self.0 & THREAD) as u32
    }

    pub fn generation(self) -> u64 {
        (self.0 & !EXCLUSIVE) >> GENERATION_SHIFT
    }

    /// Is the owner blocked in a call, or gone?
    pub fn is_idle<W: World>(self, world: W) -> bool {
        fences::is_idle(world, self.owner())
    }

    #[inline(always)]
    fn end_entry<W: World>(self, world: W) -> &'static W::U64 {
        &world.generation_ends(self.owner())[(self.generation() % KEPT) as usize]
    }

    /// Where the word's generation ended, if it has. From then on the owner has not accessed the chunk: its checks
    /// compare with the word of a newer generation.
    #[inline]
    pub fn end<W: World>(self, world: W) -> Option<Point> {
        // Acquire: pairs with the Release in `begin_generation`; all accesses before the end are visible.
        let entry = self.end_entry(world).load(Acquire);
        // The end of this generation or, if that is long ago, of a newer one: later, but as true. Else of an older.
        let newer = (entry >> TAG_SHIFT).wrapping_sub(self.generation()) % TAGS;
        (newer < TAGS / 2).then_some(Point {
            thread: ThreadIndex(self.owner()),
            count: entry & ((1 << TAG_SHIFT) - 1),
        })
    }

    /// The same, with a little patience if the owner is a thread that often releases something.
    pub fn end_soon<W: World>(self, world: W) -> Option<Point> {
        let patience = if world.slot(self.owner()).credit().load(Relaxed) > 0 {
            world.tuning().patience
        } else {
            1
        };
        (0..patience).find_map(|_| {
            let end = self.end(world);
            if end.is_none() {
                core::hint::spin_loop();
            }
            end
        })
    }

    /// The owner's chunks are in demand: so many barriers were needed, or would have been, to take them.
    pub fn give_credit<W: World>(self, world: W, barriers: u32) {
        let credit = world.slot(self.owner()).credit();
        // Relaxed, and not atomic as a whole: nothing but speed depends on it.
        let now = credit
            .load(Relaxed)
            .saturating_add(barriers * world.tuning().credit_for_barrier);
        credit.store(now.min(CREDIT_MAX), Relaxed);
    }
}

impl<W: World> Thread<W> {
    /// The chunk word of this thread, now.
    #[inline]
    pub fn owned(&self) -> Owned {
        // Relaxed: only this thread writes it.
        Owned(self.slot.exclusive().load(Relaxed))
    }

    /// This thread has taken a chunk of an ended generation.
    #[inline]
    pub fn count_take(&self, owned: Owned) {
        if owned.owner() == self.index {
            self.made_own_again.set(self.made_own_again.get() + 1);
            return;
        }
        self.takes.set(self.takes.get().wrapping_add(1));
        if self.takes.get().is_multiple_of(self.world.tuning().takes_per_credit) {
            owned.give_credit(self.world, self.world.tuning().takes_per_credit);
        }
    }

    /// Recording: this thread is about to release something. If others want its chunks, they may have what it does
    /// not use from now on.
    #[inline]
    pub fn before_release(&self) {
        if self.slot.credit().load(Relaxed) >= self.generation_cost.get() {
            self.begin_generation();
        }
    }

    #[cold]
    fn begin_generation(&self) {
        // A signal handler may have interrupted a window, in which chunk words have been checked already.
        if self.slot.window().load(Relaxed) != 0 {
            return;
        }
        self.generation_cost.set(
            self.world
                .tuning()
                .generation_cost
                .saturating_add(self.made_own_again.get())
                .min(CREDIT_MAX),
        );
        self.made_own_again.set(0);
        // Relaxed, and not atomic as a whole: as in `give_credit`.
        let left = self
            .slot
            .credit()
            .load(Relaxed)
            .saturating_sub(self.generation_cost.get());
        self.slot.credit().store(left, Relaxed);
        let ended = self.owned();
        // Release: whoever sees the end sees everything done before it. x86 keeps stores in order, and loads before
        // later stores; this thread's checks compare with the new word from here on.
        let done = self.event() - u64::from(self.world.makes(Mistake::WrongGenerationEnd));
        let entry = done | (ended.generation() % TAGS) << TAG_SHIFT;
        self.slot.exclusive().store(ended.0 + (1 << GENERATION_SHIFT), Relaxed);
        ended.end_entry(self.world).store(entry, Release);
    }
}
