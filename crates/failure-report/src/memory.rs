//! Who accessed which bytes, and when: the history of every 8-byte cell.
//!
//! When a block of the heap is allocated anew, the histories of its cells begin anew: what happened to the bytes in an
//! earlier life is nobody's business in the next one.
use crate::clocks::Order;
use crate::timeline::Timeline;
use crate::trace::Access;
use crate::trace::What;
use std::collections::BTreeMap;

const CELL_BYTES: u64 = 8;

#[derive(Debug, Default)]
pub struct Memory {
    /// By cell: places in the timeline, in order. `None` begins a new life.
    cells: BTreeMap<u64, Vec<Option<usize>>>,
    /// By start: every free and every allocation of a block.
    blocks: BTreeMap<u64, Vec<usize>>,
}

impl Memory {
    pub fn new(timeline: &Timeline) -> Memory {
        let mut memory = Memory::default();
        for (at, step) in timeline.steps.iter().enumerate() {
            match step.entry.what {
                What::Access(access) => {
                    for cell in cells(&access) {
                        memory.cells.entry(cell).or_default().push(Some(at));
                    }
                }
                What::Allocate { address, bytes } => {
                    for (_, history) in memory.cells.range_mut(address..address.saturating_add(bytes)) {
                        history.push(None);
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
            let lives = history.split(|at| at.is_none());
            lives.map(|life| (*cell, life.iter().flatten().copied()))
        })
    }

    /// The life of the cell at `address` that step `at` belongs to, and the step's index in it.
    pub fn life_of(&self, address: u64, at: usize) -> Option<(Vec<usize>, usize)> {
        let history = self.cells.get(&(address / CELL_BYTES * CELL_BYTES))?;
        history.split(|step| step.is_none()).find_map(|life| {
            let here = life.binary_search(&Some(at)).ok()?;
            Some((life.iter().flatten().copied().collect(), here))
        })
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

    /// The write whose value the access at `at` saw, if that is certain. It may belong to an earlier life: bytes stay as
    /// they are.
    pub fn writer(&self, timeline: &Timeline, at: usize) -> Option<usize> {
        let access = timeline.step(at).access()?;
        let history = self.cells.get(&(access.address / CELL_BYTES * CELL_BYTES))?;
        let wrote = |step: &usize| {
            let other = timeline.step(*step).access();
            *step < at && other.is_some_and(|other| other.writes && !other.pending && other.overlaps(access))
        };
        let last = history.iter().rev().flatten().copied().find(wrote);
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
    /// Freeing is no event, so which of two unordered ones came first may differ from replay to replay. What was read
    /// tells which life of the block is meant: the one it was written in.
    pub fn freed(&self, timeline: &Timeline, at: usize) -> Option<usize> {
        let access = timeline.step(at).access()?;
        let (_, steps) = self.blocks.range(..=access.address).next_back()?;
        let is_free = |step: &usize| match timeline.step(*step).entry.what {
            What::Free { address, bytes } => access.address < address.saturating_add(bytes),
            _ => false,
        };
        let before = steps.partition_point(|step| *step < at);
        let free = match self.writer(timeline, at).filter(|_| access.reads) {
            Some(writer) => steps.iter().copied().find(|step| *step > writer && is_free(step)),
            None => {
                let around = [before.checked_sub(1), Some(before)].into_iter().flatten();
                around.filter_map(|i| steps.get(i).copied()).find(is_free)
            }
        };
        free.filter(|free| *free < at || timeline.order(*free, at) == Order::Unordered)
    }
}

fn cells(access: &Access) -> impl Iterator<Item = u64> + use<> {
    (access.address / CELL_BYTES..access.end().div_ceil(CELL_BYTES)).map(|cell| cell * CELL_BYTES)
}
