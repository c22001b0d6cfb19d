//! Traces → hybrid schedule, in one pass over the traces.
use crate::Relaxed;
use crate::Statistics;
use crate::Unusable;
use crate::constraints::Constraints;
use crate::constraints::Kept;
use crate::history::History;
use crate::history::Instructions;
use crate::memory::Memory;
use crate::memory::NUMBER_MAX;
use crate::memory::Ordered;
use crate::memory::Reference;
use crate::memory::THREADS_MAX;
use crate::memory::Use;
use crate::merge::Merge;
use crate::reduction;
use run_model::Constraint;
use run_model::HybridSchedule;
use run_model::Instance;
use run_model::PointId;
use run_model::Record;
use run_model::Step;
use run_model::ThreadIndex;
use run_model::TraceEntry;

/// The hybrid schedule of these traces, thread by thread from thread 0 on. The same traces give the same schedule.
///
/// It takes 8 bytes of memory for each instance, and 16 for each granule of memory that was used: as many bytes as the
/// smallest access near it has.
pub fn relax<E, I>(threads: Vec<I>) -> Result<Relaxed, Unusable<E>>
where
    I: Iterator<Item = Result<TraceEntry, E>>,
{
    if threads.len() > THREADS_MAX {
        return Err(Unusable::TooLarge { what: "threads" });
    }
    let mut relaxation = Relaxation::new(threads.len());
    let mut merge = Merge::new(threads, &mut |thread| relaxation.histories[thread].add_unordered())?;
    while let Some((thread, entry)) = merge.next(&mut |thread| relaxation.histories[thread].add_unordered())? {
        relaxation.add(thread, entry)?;
    }
    relaxation.finish()
}

struct Relaxation {
    histories: Vec<History>,
    instructions: Instructions,
    memory: Memory,
    coverage: Coverage,
    constraints: Constraints,
    steps: Vec<Step>,
    conflicts: Vec<Reference>,
    statistics: Statistics,
}

impl Relaxation {
    fn new(threads: usize) -> Relaxation {
        Relaxation {
            histories: (0..threads).map(|_| History::default()).collect(),
            instructions: Instructions::new(),
            memory: Memory::new(threads),
            coverage: Coverage::new(),
            constraints: Constraints::new(threads),
            steps: Vec::new(),
            conflicts: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    #[inline]
    fn add<E>(&mut self, thread: usize, entry: TraceEntry) -> Result<(), Unusable<E>> {
        let (address, bytes, how, at) = match entry {
            TraceEntry::Ordered { record, .. } => {
                self.add_step(thread, record);
                return Ok(());
            }
            TraceEntry::Unordered => {
                self.histories[thread].add_unordered();
                return Ok(());
            }
            TraceEntry::Access {
                address,
                bytes,
                reads,
                writes,
                at,
                ..
            } => (address, bytes, Use { reads, writes }, at),
        };
        let number = self.histories[thread].add_access(thread, &at, &mut self.instructions)?;
        if number > NUMBER_MAX {
            return Err(Unusable::TooLarge { what: "accesses" });
        }
        let me = Reference::new(thread, number);
        let mut covered = Covered {
            thread,
            position: self.histories[thread].position(),
            histories: &self.histories,
            coverage: &mut self.coverage,
        };
        self.memory
            .access(me, address, bytes, how, &mut covered, &mut self.conflicts)?;
        if self.conflicts.is_empty() {
            return Ok(());
        }
        self.conflicts.sort_unstable();
        self.conflicts.dedup();
        for earlier in self.conflicts.drain(..) {
            if !covered.is_before(earlier) {
                self.constraints.add(earlier, me, &self.histories, &mut self.statistics);
            }
        }
        Ok(())
    }

    fn add_step(&mut self, thread: usize, record: Record) {
        let history = &mut self.histories[thread];
        self.steps.push(Step {
            thread: ThreadIndex(thread as u32),
            record: Record {
                event: history.segment(),
                ..record
            },
        });
        history.add_ordered(self.steps.len() as u64);
    }

    fn finish<E>(self) -> Result<Relaxed, Unusable<E>> {
        let Relaxation {
            histories,
            instructions,
            memory,
            constraints,
            steps,
            mut statistics,
            ..
        } = self;
        // The largest part of what is in memory, and not needed any more.
        drop(memory);
        let mut kept = constraints.kept;
        let place = |reference: Reference| {
            let thread = ThreadIndex(reference.thread() as u32);
            (
                thread,
                histories[reference.thread()].instance(reference.number(), &instructions),
            )
        };
        statistics.implied += reduction::reduce(&mut kept, &steps, &histories).map_err(|reference| {
            let (thread, instance) = place(reference);
            Unusable::Circle { thread, instance }
        })?;
        let numbers = reduction::points(&kept, histories.len());
        let mut points: Vec<Vec<Instance>> = Vec::with_capacity(numbers.len());
        for (thread, numbers) in numbers.iter().enumerate() {
            let history = &histories[thread];
            if let Some(number) = history.find_ambiguous(numbers) {
                let (thread, instance) = place(Reference::new(thread, number));
                return Err(Unusable::Ambiguous { thread, instance });
            }
            points.push(
                numbers
                    .iter()
                    .map(|number| history.instance(*number, &instructions))
                    .collect(),
            );
        }
        let mut constraints: Vec<Constraint> = kept.iter().map(|kept| constraint(kept, &numbers)).collect();
        constraints.sort_unstable();
        statistics.constraints = constraints.len() as u64;
        statistics.accesses = histories.iter().map(|history| history.accesses).sum();
        statistics.events = histories.iter().map(History::segment).sum();
        Ok(Relaxed {
            schedule: HybridSchedule {
                steps,
                events: histories.iter().map(History::segment).collect(),
                points,
                constraints,
            },
            statistics,
        })
    }
}

fn constraint(kept: &Kept, numbers: &[Vec<u64>]) -> Constraint {
    let find = |end: Reference| PointId {
        thread: ThreadIndex(end.thread() as u32),
        index: numbers[end.thread()].partition_point(|number| *number < end.number()) as u32,
    };
    Constraint {
        before: find(kept.before),
        after: find(kept.after),
    }
}

/// A thread's instances before its last synchronisation up to some position: looked up again and again for the same pairs of threads.
struct Coverage {
    cache: Vec<Looked>,
}

#[derive(Clone, Copy, Default)]
struct Looked {
    later: u32,
    earlier: u32,
    position: u64,
    instances: u64,
}

const LOOKED: usize = 1 << 12;

impl Coverage {
    fn new() -> Coverage {
        Coverage {
            cache: vec![Looked::default(); LOOKED],
        }
    }
}

/// What synchronisation orders before the next access of `thread`, whose last synchronisation is at `position`.
struct Covered<'a> {
    thread: usize,
    position: u64,
    histories: &'a [History],
    coverage: &'a mut Coverage,
}

impl Ordered for Covered<'_> {
    #[inline]
    fn is_before(&mut self, earlier: Reference) -> bool {
        let (later, before) = (self.thread as u32, earlier.thread() as u32);
        let slot = (later.wrapping_mul(61) ^ before) as usize % LOOKED;
        let looked = &mut self.coverage.cache[slot];
        if (looked.later, looked.earlier, looked.position) != (later, before, self.position) {
            // Position 0 is before all synchronisation, so the empty entry says something true.
            *looked = Looked {
                later,
                earlier: before,
                position: self.position,
                instances: self.histories[earlier.thread()].instances_before(self.position),
            };
        }
        earlier.number() < looked.instances
    }
}
