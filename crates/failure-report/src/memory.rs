//! Who accessed which bytes, and when: the history of every 8-byte cell.
//!
//! When a block of the heap is allocated anew, the histories of its cells begin anew: what happened to the bytes in an
//! earlier life is nobody's business in the next one.
use crate::clocks::Order;
use crate::timeline::Timeline;
use crate::trace::Access;
use crate::trace::What;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

const CELL_BYTES: u64 = 8;
/// How far back the read of a pointer is looked for.
const POINTER_WINDOW: usize = 1 << 12;

#[derive(Debug, Default)]
pub struct Memory {
    /// By cell, in order.
    cells: BTreeMap<u64, Vec<Moment>>,
    /// By start: every free and every allocation of a block.
    blocks: BTreeMap<u64, Vec<usize>>,
    /// Cells that several threads have accessed, in one life or another.
    shared: BTreeSet<u64>,
}

/// A place in the timeline where a cell was accessed, or where its block was allocated.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: usize,
    begins_life: bool,
}

impl Memory {
    pub fn new(timeline: &Timeline) -> Memory {
        let mut memory = Memory::default();
        for (at, step) in timeline.steps.iter().enumerate() {
            match step.entry.what {
                What::Access(access) => {
                    for cell in cells(&access) {
                        let history = memory.cells.entry(cell).or_default();
                        let last = history.iter().rev().find(|moment| !moment.begins_life);
                        if last.is_some_and(|last| timeline.step(last.at).thread != step.thread) {
                            memory.shared.insert(cell);
                        }
                        history.push(Moment { at, begins_life: false });
                    }
                }
                What::Allocate { address, bytes } => {
                    for (_, history) in memory.cells.range_mut(address..address.saturating_add(bytes)) {
                        history.push(Moment { at, begins_life: true });
                    }
                    memory.blocks.entry(address).or_default().push(at);
                }
                What::Free { address, .. } => memory.blocks.entry(address).or_default().push(at),
                _ => {}
            }
        }
        memory
    }

    /// The histories of all cells, life by life, with the cell's address.
    pub fn lives(&self) -> impl Iterator<Item = (u64, impl Iterator<Item = usize>)> {
        self.cells.iter().flat_map(|(cell, history)| {
            let lives = history.split(|moment| moment.begins_life);
            lives.map(|life| (*cell, life.iter().map(|moment| moment.at)))
        })
    }

    /// The life of the cell at `address` that step `at` belongs to, and the step's index in it.
    pub fn life_of(&self, address: u64, at: usize) -> Option<(Vec<usize>, usize)> {
        let history = self.cells.get(&(address / CELL_BYTES * CELL_BYTES))?;
        let here = history.binary_search_by_key(&at, |moment| moment.at).ok()?;
        let begins_life = |moment: &Moment| moment.begins_life;
        let start = history[..here]
            .iter()
            .rposition(begins_life)
            .map_or(0, |begun| begun + 1);
        let end = history[here..].iter().position(begins_life);
        let life = &history[start..end.map_or(history.len(), |end| here + end)];
        Some((life.iter().map(|moment| moment.at).collect(), here - start))
    }

    /// Has another thread ever accessed the memory of the access at `at`?
    pub fn is_shared(&self, timeline: &Timeline, at: usize) -> bool {
        let access = timeline.step(at).access();
        access.is_some_and(|access| cells(access).any(|cell| self.shared.contains(&cell)))
    }

    /// Steps that overlap the access at `at`, in the first cell it touches, before and after it.
    pub fn around(&self, timeline: &Timeline, at: usize) -> (Vec<usize>, Vec<usize>) {
        let Some(access) = timeline.step(at).access() else {
            return (Vec::new(), Vec::new());
        };
        let Some((life, here)) = self.life_of(access.address, at) else {
            return (Vec::new(), Vec::new());
        };
        let overlapping = |step: &usize| {
            timeline
                .step(*step)
                .access()
                .is_some_and(|other| other.overlaps(access))
        };
        (
            life[..here].iter().copied().filter(overlapping).collect(),
            life[here + 1..].iter().copied().filter(overlapping).collect(),
        )
    }

    /// The write whose value the access at `at` saw, if that is certain. What was written in an earlier life of the block is
    /// not what the program reads, though the bytes may still be there.
    pub fn writer(&self, timeline: &Timeline, at: usize) -> Option<usize> {
        let access = timeline.step(at).access()?;
        let history = self.cells.get(&(access.address / CELL_BYTES * CELL_BYTES))?;
        let here = history.partition_point(|moment| moment.at < at);
        let wrote = |step: &usize| {
            let other = timeline.step(*step).access();
            other.is_some_and(|other| other.writes && !other.pending && other.overlaps(access))
        };
        let life = history[..here].iter().rev().take_while(|moment| !moment.begins_life);
        let last = life.map(|moment| moment.at).find(wrote);
        last.filter(|write| timeline.is_certain(*write, at))
    }

    /// Is the memory of the access at `at` written by anybody at any time?
    pub fn is_ever_written(&self, timeline: &Timeline, at: usize) -> bool {
        let (before, after) = self.around(timeline, at);
        let writes = |step: &usize| timeline.step(*step).access().is_some_and(|access| access.writes);
        self.writer(timeline, at).is_some() || before.iter().chain(&after).any(writes)
    }

    /// The free of the block that the access at `at` touches, if the access came after it or nothing orders the two.
    ///
    /// A block that was allocated again by then is alive, and using it is right. Unless the thread cannot know of its new
    /// life: then the pointer it used tells which life was meant.
    pub fn freed(&self, timeline: &Timeline, at: usize) -> Option<usize> {
        let access = timeline.step(at).access()?;
        let (block, steps) = self.blocks.range(..=access.address).next_back()?;
        let is_free = |step: &usize| match timeline.step(*step).entry.what {
            What::Free { address, bytes } => access.address < address.saturating_add(bytes),
            _ => false,
        };
        let is_known = |step: &usize| matches!(timeline.order(*step, at), Order::Same | Order::Synchronised);
        let is_allocation = |step: &usize| matches!(timeline.step(*step).entry.what, What::Allocate { .. });
        let now = steps.partition_point(|step| *step < at);
        // The life that the thread may know of.
        let begun = steps[..now]
            .iter()
            .rposition(|step| is_allocation(step) && is_known(step));
        let since = begun.map_or(0, |begun| begun + 1);
        let free = since + steps[since..].iter().position(is_free)?;
        let is_alive_again = free < now && steps[free..now].iter().any(is_allocation);
        if is_alive_again {
            let meant = self.pointer_written(timeline, at, *block)?;
            // Of many lives, the one in which the pointer was written.
            let since = since.max(steps.partition_point(|step| *step < meant));
            return steps[since..].iter().copied().find(is_free).filter(|free| *free < at);
        }
        Some(steps[free]).filter(|free| *free < at || timeline.order(*free, at) == Order::Unordered)
    }

    /// Where the pointer to `block` was written that the thread read last, before `at`.
    fn pointer_written(&self, timeline: &Timeline, at: usize, block: u64) -> Option<usize> {
        let thread = timeline.step(at).thread;
        let is_pointer = |read: &usize| {
            let access = timeline.step(*read).access();
            access.is_some_and(|access| access.reads && access.bytes == 8 && access.value == Some(block))
        };
        let read = timeline.back_from(thread, at).take(POINTER_WINDOW).find(is_pointer);
        read.and_then(|read| self.writer(timeline, read))
    }
}

fn cells(access: &Access) -> impl Iterator<Item = u64> + use<> {
    (access.address / CELL_BYTES..access.end().div_ceil(CELL_BYTES)).map(|cell| cell * CELL_BYTES)
}
