//! The entries of all threads in the order of their sequences.
use crate::Unusable;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Threads are taken up where their next entry with a sequence is the earliest. Entries without one come where they stand in
/// their thread: before the entry that follows them, and not before that one's turn.
pub(crate) struct Merge<I> {
    threads: Vec<I>,
    /// The next entry of each thread that is not the current one, with its sequence.
    heads: Vec<Option<TraceEntry>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    current: usize,
    /// The current thread goes on up to here.
    bound: u64,
    /// The last sequence that was given out.
    last: Option<u64>,
}

impl<E, I: Iterator<Item = Result<TraceEntry, E>>> Merge<I> {
    /// `unordered` is told of the entries without a sequence that threads begin with.
    pub fn new(threads: Vec<I>, unordered: &mut impl FnMut(usize)) -> Result<Merge<I>, Unusable<E>> {
        let mut merge = Merge {
            heads: threads.iter().map(|_| None).collect(),
            order: BinaryHeap::with_capacity(threads.len()),
            current: usize::MAX,
            bound: 0,
            last: None,
            threads,
        };
        for thread in 0..merge.threads.len() {
            if let Some((entry, sequence)) = merge.advance(thread, unordered)? {
                merge.heads[thread] = Some(entry);
                merge.order.push(Reverse((sequence, thread)));
            }
        }
        Ok(merge)
    }

    /// The next entry that has a sequence, of whichever thread has the smallest one. `unordered` is told of those without that
    /// come before it in its own thread.
    pub fn next(&mut self, unordered: &mut impl FnMut(usize)) -> Result<Option<(usize, TraceEntry)>, Unusable<E>> {
        if let Some(thread) = (self.current != usize::MAX).then_some(self.current)
            && let Some((entry, sequence)) = self.advance(thread, unordered)?
        {
            if sequence < self.bound {
                return self.give(thread, sequence, entry).map(Some);
            }
            self.heads[thread] = Some(entry);
            self.order.push(Reverse((sequence, thread)));
        }
        self.current = usize::MAX;
        let Some(Reverse((sequence, thread))) = self.order.pop() else {
            return Ok(None);
        };
        self.bound = self.order.peek().map_or(u64::MAX, |Reverse((bound, _))| *bound);
        match self.heads[thread].take() {
            Some(entry) => {
                self.current = thread;
                self.give(thread, sequence, entry).map(Some)
            }
            None => Ok(None),
        }
    }

    fn give(&mut self, thread: usize, sequence: u64, entry: TraceEntry) -> Result<(usize, TraceEntry), Unusable<E>> {
        match self.last {
            Some(previous) if previous >= sequence => Err(Unusable::Sequence {
                thread: ThreadIndex(thread as u32),
                previous,
                found: sequence,
            }),
            _ => {
                self.last = Some(sequence);
                Ok((thread, entry))
            }
        }
    }

    fn advance(
        &mut self,
        thread: usize,
        unordered: &mut impl FnMut(usize),
    ) -> Result<Option<(TraceEntry, u64)>, Unusable<E>> {
        loop {
            match self.threads[thread].next() {
                None => return Ok(None),
                Some(Err(error)) => {
                    let thread = ThreadIndex(thread as u32);
                    return Err(Unusable::Unreadable { thread, error });
                }
                Some(Ok(TraceEntry::Unordered)) => unordered(thread),
                Some(Ok(entry)) => {
                    let (TraceEntry::Ordered { sequence, .. } | TraceEntry::Access { sequence, .. }) = entry else {
                        continue;
                    };
                    return Ok(Some((entry, sequence)));
                }
            }
        }
    }
}
