//! Chunk words: who may access 64 bytes without a record, and how that is asked for. Protocol: `README.md`.
use crate::Backoff;
use crate::Owned;
use crate::Slot;
use crate::Thread;
use crate::World;
use crate::cell;
use crate::moves;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use machine::Word;
use run_model::Kind;
use runtime_abi::CHUNK_BYTES;

pub(crate) const MOVING: u64 = 1 << 62;
pub(crate) const SPLIT: u64 = 1 << 61;
/// Split, and used by atomics: never made whole again.
pub(crate) const SPLIT_FOR_GOOD: u64 = SPLIT | 1;

/// Does a chunk's word say that its cells decide?
#[inline(always)]
pub(crate) fn is_split(word: u64) -> bool {
    word & !1 == SPLIT
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Read,
    Write,
}

/// How an access may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// The window is open and the chunk word allows the access.
    Window,
    /// The chunk is split; its cells decide. The window is closed.
    Cells,
}

impl<W: World> Thread<W> {
    #[inline(always)]
    pub(crate) fn word(&self, address: u64) -> &'static W::U64 {
        self.world.chunk_word(address)
    }

    /// Opens the window: from here to `close_window` nobody takes from us what our chunk words allow.
    #[inline]
    pub fn open_window(&self) {
        self.slot.window().store(1, Relaxed);
        self.world.compiler_fence();
    }

    #[inline]
    pub fn close_window(&self) {
        // Release: whoever sees the window closed sees the accesses and the count.
        self.slot.window().store(0, Release);
    }

    /// Does the chunk word at `address` allow it? Meaningful only inside a window.
    #[inline]
    pub fn allows(&self, address: u64, intent: Intent) -> bool {
        let word = self.word(address).load(Relaxed);
        word == self.slot.exclusive().load(Relaxed)
            || (intent == Intent::Read && word.wrapping_sub(1) < self.slot.seen().load(Relaxed))
    }

    /// The same for all chunks of a range.
    #[inline]
    pub fn allows_all(&self, start: u64, end: u64, intent: Intent) -> bool {
        let seen = match intent {
            Intent::Write => 0,
            Intent::Read => self.slot.seen().load(Relaxed),
        };
        self.world
            .all_allowed(start, end, self.slot.exclusive().load(Relaxed), seen)
    }

    /// Is it split, but perhaps not for good?
    #[inline]
    fn may_be_merged(&self, address: u64) -> bool {
        self.word(address).load(Relaxed) == SPLIT
    }

    #[inline]
    pub fn is_split(&self, address: u64) -> bool {
        is_split(self.word(address).load(Acquire))
    }

    /// Opens a window in which the chunk of `address`, whose word was `seen`, may be accessed, if that needs no more than the thread has: it may
    /// access it already, or had it for itself in an earlier generation. False: the window is closed.
    #[inline(always)]
    pub(crate) fn goes_on(&self, address: u64, intent: Intent, seen: u64) -> bool {
        let mine = Owned::from_word(seen).filter(|owned| owned.owner() == self.index);
        let old = mine.filter(|owned| *owned != self.owned());
        let may_go_on = match (mine, old) {
            // What several threads read at a time is better shared.
            (_, Some(_)) => intent == Intent::Write || !moves::are_read_by_several(self.world, address),
            (Some(_), None) => true,
            // Relaxed: only this thread writes it.
            (None, None) => intent == Intent::Read && seen.wrapping_sub(1) < self.slot.seen().load(Relaxed),
        };
        if !may_go_on {
            return false;
        }
        self.open_window();
        let goes_on = match old {
            Some(owned) => self.own_more(address, owned),
            None => self.allows(address, intent),
        };
        if !goes_on {
            self.close_window();
        }
        goes_on
    }

    /// Gets the right to access the chunk of `address`; each acquisition that takes is an event.
    pub fn acquire_chunk(&self, address: u64, intent: Intent) -> Right {
        let mut backoff = Backoff::default();
        loop {
            let seen = self.word(address).load(Acquire);
            let right = match Owned::from_word(seen) {
                Some(owned) if self.may_own(owned, intent, address) => self.take_unused(address, owned),
                Some(owned) => self.move_from_owner(address, owned, intent),
                None if seen & !1 == SPLIT => return Right::Cells,
                None if seen & MOVING != 0 => {
                    self.wait_for_mover(address, seen, &mut backoff);
                    None
                }
                None if seen == 0 => {
                    if !self.own(address, 0) {
                        backoff.wait(self.world);
                    }
                    None
                }
                None if intent == Intent::Read => {
                    self.see_epochs();
                    None
                }
                None => self.move_from_readers(address, seen),
            };
            if let Some(right) = right {
                return right;
            }
            self.open_window();
            if self.allows(address, intent) {
                return Right::Window;
            }
            self.close_window();
        }
    }

    /// The chunk of `address` is being moved, as its word says.
    #[cold]
    fn wait_for_mover(&self, address: u64, seen: u64, backoff: &mut Backoff) {
        if self.world.was_left_behind((seen & !MOVING) as u32) {
            // Nobody has it, and what was done with it before the fork comes before all that this process does.
            _ = self.word(address).compare_exchange(seen, 0, Acquire, Relaxed);
        } else {
            // Whoever moves it may wait for us.
            self.resting(|| backoff.wait(self.world));
        }
    }

    /// Makes the chunk of `address` this thread's, if its word is still `from`.
    pub(crate) fn own(&self, address: u64, from: u64) -> bool {
        let mine = self.owned().word();
        // Acquire: whoever gave it up did so with a Release.
        self.passing_fence(|| self.word(address).compare_exchange(from, mine, Acquire, Relaxed))
            .is_ok()
    }

    /// Does the owner of a chunk not use it any more, so that it can be ours for the asking? What several threads
    /// read at a time is better shared than owned by one after the other.
    #[inline]
    pub(crate) fn may_own(&self, owned: Owned, intent: Intent, address: u64) -> bool {
        if owned == self.owned() {
            return true;
        }
        let end = if owned.owner() == self.index {
            None
        } else {
            owned.end(self.world)
        };
        if (end.is_none() && owned.owner() != self.index)
            || (intent == Intent::Read && moves::is_better_shared(self.world, address))
        {
            return false;
        }
        self.log_take(address, end.as_slice());
        true
    }

    /// Is the chunk split though its cells only pass from reader to reader?
    pub fn is_only_read(&self, address: u64) -> bool {
        let chunk = address / CHUNK_BYTES * CHUNK_BYTES;
        self.may_be_merged(chunk)
            && cell::pass_among_readers(self.world, chunk, self.index)
            && moves::is_rather_quiet(self.world, chunk)
    }

    /// Is it better to own what one reads? The chunk is marked as moving.
    pub(crate) fn reads_alone(&self, seen: u64, address: u64) -> bool {
        let is_idle = Owned::from_word(seen).is_some_and(|owned| owned.is_idle(self.world));
        moves::is_migratory(self.world, address) || (is_idle && !moves::is_read_by_several(self.world, address))
    }

    /// The same without a record: within an open window there can be no event.
    #[inline]
    pub fn own_within_window(&self, address: u64, intent: Intent) -> bool {
        let seen = self.word(address).load(Acquire);
        let Some(owned) = Owned::from_word(seen) else {
            return false;
        };
        let known = owned.owner() == self.index || owned.end(self.world).is_some_and(|end| self.knows(end));
        if !known
            || (intent == Intent::Read && moves::is_better_shared(self.world, address))
            || !self.own(address, seen)
        {
            return false;
        }
        self.count_take(owned);
        true
    }

    /// Takes a chunk its owner uses no more, and those after it that a sequence of accesses would need next.
    fn take_unused(&self, address: u64, owned: Owned) -> Option<Right> {
        self.open_window();
        if !self.own_more(address, owned) {
            self.close_window();
            return None;
        }
        Some(Right::Window)
    }

    /// The same inside a window. False: somebody else has changed the word.
    #[inline]
    fn own_more(&self, address: u64, owned: Owned) -> bool {
        if !self.own(address, owned.word()) {
            return false;
        }
        self.count_take(owned);
        let ahead = self.next_ahead(address);
        let along = match ahead {
            1 => 0,
            _ => self.each_after(address, ahead - 1, |at| {
                let seen = self.word(at).load(Relaxed);
                // Not newer: what we know of this owner covers them, too.
                Owned::from_word(seen).is_some_and(|next| {
                    next.owner() == owned.owner() && next.generation() <= owned.generation() && self.own(at, seen)
                })
            }),
        };
        self.ahead.took(address / CHUNK_BYTES + along + 1);
        true
    }

    /// Splits the chunk of `address` into cells at once: it is used by atomics.
    pub fn split_chunk(&self, address: u64) {
        let mut backoff = Backoff::default();
        loop {
            let seen = self.word(address).load(Acquire);
            if seen == SPLIT_FOR_GOOD {
                return;
            }
            if seen == SPLIT {
                // If it fails, somebody has made it whole or done the same.
                _ = self
                    .word(address)
                    .compare_exchange(SPLIT, SPLIT_FOR_GOOD, Acquire, Relaxed);
                continue;
            }
            if seen & MOVING != 0 {
                self.wait_for_mover(address, seen, &mut backoff);
                continue;
            }
            if !self.begin_move(address, seen) {
                self.resting(|| backoff.wait(self.world));
                continue;
            }
            let users = match seen {
                0 => None,
                _ => match Owned::from_word(seen) {
                    Some(owned) => Some(self.wait_for_owner(owned)),
                    None => {
                        self.log_take_from_readers(address, seen);
                        Some(self.point())
                    }
                },
            };
            self.finish_split(address, users);
        }
    }

    /// Makes a split chunk whole again, after all users of its cells: this thread's alone, or shared.
    pub fn merge_chunk(&self, address: u64, intent: Intent) {
        let chunk = address / CHUNK_BYTES * CHUNK_BYTES;
        let held = cell::lock_chunk(self.world, chunk);
        if self.word(chunk).load(Acquire) == SPLIT {
            let (sources, count) = cell::users(&held, self.index);
            let unknown = sources[..count].iter().any(|user| !self.knows(*user));
            // Runs on the cells before and after are not one chain: from now on the page's records bind as they stand.
            if unknown || !self.world.hides(chunk) {
                self.acquisition(Kind::Take, chunk, 1, &sources[..count]);
                self.world.set_hiding(chunk);
            }
            let whole = match intent {
                Intent::Write => self.owned().word(),
                Intent::Read => self.create_epoch(Kind::Share, chunk, &[]),
            };
            // If it fails, an atomic has split the chunk for good meanwhile, which it does without the cells: it stays so.
            _ = self.word(chunk).compare_exchange(SPLIT, whole, Release, Relaxed);
        }
        // Whoever waits for a cell looks at the chunk's word again when it has it.
        cell::unlock_chunk(self.world, chunk, &held);
    }
}
