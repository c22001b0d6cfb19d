//! Logs of any size, as a recorder would have written them, from a simulated sequentially consistent execution.
//!
//! The rules are those of `crates/simulated-machine` (`recorder.rs`): cells that threads fight for, chunks that change owners
//! or are shared for reading, locks, threads that begin and end. There, a program is run and every value is kept, to be
//! compared after a replay; here nothing is kept but what the next record depends on, so that ten million records take
//! seconds.
use super::Random;
use super::execution::Mix;
use run_model::Access;
use run_model::Kind;
use run_model::Logs;
use run_model::MAX_SOURCES;
use run_model::Method;
use run_model::Op;
use run_model::Point;
use run_model::Record;
use run_model::ThreadIndex;
use run_model::ThreadLog;

/// Does the recorder leave out changes of hands that recorded orders imply (lemma 4.2, applied while running)?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// As the runtime does: from then on all records of the cell's page bind as they stand.
    Hiding,
    /// Every change of hands has a record, so that every order of blind writes remains to be decided.
    Complete,
}

#[derive(Clone, Copy, Debug)]
pub struct LogShape {
    pub threads: usize,
    /// Records that name a point of another thread; it stops there.
    pub dependences: u64,
    /// Contended cells, each in a page of its own.
    pub cells: usize,
    /// 64-byte chunks that are taken and shared as a whole.
    pub chunks: usize,
    pub mutexes: usize,
    pub mix: Mix,
    /// A thread goes on until it is relieved, once in so many steps.
    pub turn: u64,
    pub recorder: Recorder,
}

impl LogShape {
    /// Cells grow with the run, as the memory of programs does: a thousand changes of hands for each.
    pub fn new(threads: usize, dependences: u64, recorder: Recorder) -> LogShape {
        LogShape {
            threads,
            dependences,
            cells: 16 + (dependences / 1000) as usize,
            chunks: 16 + (dependences / 4000) as usize,
            mutexes: 8,
            mix: Mix {
                reads: 5,
                blind: 3,
                updates: 2,
            },
            turn: 3,
            recorder,
        }
    }
}

const CELLS: u64 = 0x6000_0000_0000;
const CHUNKS: u64 = 0x5f00_0000_0000;
const MUTEXES: u64 = 0x5500_0000_0000;
const PAGE_BYTES: u64 = 4096;
const CHUNK_BYTES: u64 = 64;
const CELL_BYTES: u64 = 8;

/// The last user of a cell.
#[derive(Clone, Copy)]
struct User {
    point: Point,
    wrote: bool,
}

#[derive(Clone, Copy)]
enum Word {
    Untouched,
    Exclusive(usize),
    Shared(i64),
}

struct Thread {
    log: ThreadLog,
    /// For each thread, how much of it this thread's records put before its current event.
    known: Vec<u64>,
    seen: i64,
    /// The mutex it holds, and for how many more steps.
    section: Option<(usize, u64)>,
}

struct Machine {
    shape: LogShape,
    threads: Vec<Thread>,
    cells: Vec<Option<User>>,
    hiding: Vec<bool>,
    chunks: Vec<Word>,
    mutexes: Vec<(Option<Point>, bool)>,
    epoch: i64,
    dependences: u64,
}

pub fn generate_logs(shape: LogShape, seed: u64) -> Logs {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(shape);
    machine.begin();
    let mut thread = 0;
    while machine.dependences < shape.dependences {
        if random.once_in(shape.turn) {
            thread = random.below(shape.threads as u64) as usize;
        }
        machine.step(thread, &mut random);
    }
    machine.end();
    Logs {
        method: Method::Light,
        threads: machine.threads.into_iter().map(|thread| thread.log).collect(),
    }
}

impl Machine {
    fn new(shape: LogShape) -> Machine {
        let thread = || Thread {
            log: ThreadLog::default(),
            known: vec![0; shape.threads],
            seen: 0,
            section: None,
        };
        Machine {
            shape,
            threads: (0..shape.threads).map(|_| thread()).collect(),
            cells: vec![None; shape.cells],
            hiding: vec![false; shape.cells],
            chunks: vec![Word::Untouched; shape.chunks],
            mutexes: vec![(None, false); shape.mutexes],
            epoch: 0,
            dependences: 0,
        }
    }

    fn begin(&mut self) {
        self.log(0, record(Kind::Start, 0, 0, Vec::new()));
        self.complete(0);
        for child in 1..self.shape.threads {
            self.log(0, record(Kind::Spawn, 0, child as i64, Vec::new()));
            self.complete(0);
            let created = self.point(0);
            self.log(child, record(Kind::Start, 0, 0, vec![created]));
            self.complete(child);
        }
    }

    fn end(&mut self) {
        for thread in 0..self.shape.threads {
            if let Some((mutex, _)) = self.threads[thread].section.take() {
                self.touch(thread, Op::MutexUnlock, mutex);
            }
        }
        for child in 1..self.shape.threads {
            self.create_epoch(child, Kind::Exit, 0, Vec::new());
            self.complete(child);
            let ended = self.point(child);
            self.log(
                0,
                Record {
                    op: Op::Join,
                    ..record(Kind::Sync, 0, child as i64, vec![ended])
                },
            );
            self.complete(0);
        }
        self.create_epoch(0, Kind::Exit, 0, Vec::new());
        self.complete(0);
    }

    fn step(&mut self, me: usize, random: &mut Random) {
        match self.threads[me].section {
            Some((mutex, 0)) => {
                self.threads[me].section = None;
                return self.touch(me, Op::MutexUnlock, mutex);
            }
            Some((mutex, left)) => self.threads[me].section = Some((mutex, left - 1)),
            None if random.once_in(16) => {
                let mutex = random.below(self.shape.mutexes as u64) as usize;
                if !self.mutexes[mutex].1 {
                    self.threads[me].section = Some((mutex, random.below(4)));
                    return self.touch(me, Op::MutexLock, mutex);
                }
            }
            None => {}
        }
        let Mix { reads, blind, updates } = self.shape.mix;
        let kind = random.below(reads + blind + updates);
        if random.once_in(8) {
            let chunk = random.below(self.shape.chunks as u64) as usize;
            self.acquire(me, chunk, kind < reads);
            return self.complete(me);
        }
        let flags = match kind {
            kind if kind < reads => Access::READS,
            kind if kind < reads + blind => Access::WRITES,
            _ => Access::READS | Access::WRITES | Access::ATOMIC,
        };
        let cell = random.below(self.shape.cells as u64) as usize;
        self.use_cell(me, cell, flags);
        self.complete(me);
    }

    fn use_cell(&mut self, me: usize, cell: usize, flags: u8) {
        let previous = self.cells[cell];
        let other = previous.filter(|user| user.point.thread.0 as usize != me);
        if let Some(user) = other {
            let known = self.shape.recorder == Recorder::Hiding && self.knows(me, user.point);
            if !(known && self.hiding[cell]) {
                self.hiding[cell] |= known;
                let wrote = if user.wrote { Access::PREVIOUS_WROTE } else { 0 };
                let hidden = if self.hiding[cell] { Access::AFTER_HIDDEN } else { 0 };
                let object = CELLS + cell as u64 * PAGE_BYTES + cell as u64 % 8 * CELL_BYTES;
                self.log(
                    me,
                    Record {
                        access: Access(flags | wrote | hidden),
                        ..record(Kind::Run, object, 0, vec![user.point])
                    },
                );
            }
        }
        let went_on = previous.filter(|_| other.is_none()).is_some_and(|user| user.wrote);
        let point = self.point_after(me);
        self.cells[cell] = Some(User {
            point,
            wrote: flags & Access::WRITES != 0 || went_on,
        });
    }

    /// Getting a chunk is an event of its own.
    fn acquire(&mut self, me: usize, chunk: usize, reads: bool) {
        let object = CHUNKS + chunk as u64 * CHUNK_BYTES;
        match self.chunks[chunk] {
            Word::Exclusive(owner) if owner == me => {}
            Word::Untouched => self.chunks[chunk] = Word::Exclusive(me),
            Word::Exclusive(owner) if reads => {
                let epoch = self.create_epoch(me, Kind::Share, object, vec![self.point(owner)]);
                self.complete(me);
                self.chunks[chunk] = Word::Shared(epoch);
            }
            Word::Exclusive(owner) => {
                self.take(me, object, vec![self.point(owner)]);
                self.chunks[chunk] = Word::Exclusive(me);
            }
            Word::Shared(epoch) if reads => {
                if self.threads[me].seen < epoch {
                    self.see_epochs(me);
                }
            }
            Word::Shared(epoch) => {
                let readers =
                    (0..self.threads.len()).filter(|other| *other != me && self.threads[*other].seen >= epoch);
                let sources: Vec<Point> = readers.map(|reader| self.point(reader)).collect();
                for part in sources.chunks(MAX_SOURCES) {
                    self.take(me, object, part.to_vec());
                }
                self.see_epochs(me);
                self.chunks[chunk] = Word::Exclusive(me);
            }
        }
    }

    fn take(&mut self, me: usize, object: u64, sources: Vec<Point>) {
        if !sources.iter().all(|source| self.knows(me, *source)) {
            self.log(me, record(Kind::Take, object, 0, sources));
            self.complete(me);
        }
    }

    fn see_epochs(&mut self, me: usize) {
        if self.threads[me].seen < self.epoch {
            self.log(me, record(Kind::Seen, 0, self.epoch, Vec::new()));
            self.complete(me);
            self.threads[me].seen = self.epoch;
            self.dependences += 1;
        }
    }

    fn create_epoch(&mut self, me: usize, kind: Kind, object: u64, sources: Vec<Point>) -> i64 {
        self.epoch += 1;
        self.log(me, record(kind, object, self.epoch, sources));
        self.threads[me].seen = self.epoch;
        self.epoch
    }

    fn touch(&mut self, me: usize, op: Op, mutex: usize) {
        let object = MUTEXES + mutex as u64 * CELL_BYTES;
        if let Some(user) = self.mutexes[mutex].0.filter(|user| !self.knows(me, *user)) {
            self.log(
                me,
                Record {
                    op,
                    ..record(Kind::Sync, object, 0, vec![user])
                },
            );
        }
        self.mutexes[mutex] = (Some(self.point_after(me)), op == Op::MutexLock);
        self.complete(me);
    }

    fn log(&mut self, me: usize, mut record: Record) {
        let thread = &mut self.threads[me];
        // The order of two runs binds only where there is a flow dependence.
        if record.kind != Kind::Run || record.access.flows() {
            for source in &record.sources {
                let known = &mut thread.known[source.thread.0 as usize];
                *known = (*known).max(source.count);
            }
        }
        self.dependences += u64::from(!record.sources.is_empty());
        record.event = thread.log.events;
        thread.log.records.push(record);
    }

    fn knows(&self, me: usize, point: Point) -> bool {
        point.thread.0 as usize == me || self.threads[me].known[point.thread.0 as usize] >= point.count
    }

    fn complete(&mut self, me: usize) {
        self.threads[me].log.events += 1;
    }

    fn point(&self, thread: usize) -> Point {
        Point {
            thread: ThreadIndex(thread as u32),
            count: self.threads[thread].log.events,
        }
    }

    fn point_after(&self, thread: usize) -> Point {
        let point = self.point(thread);
        Point {
            count: point.count + 1,
            ..point
        }
    }
}

fn record(kind: Kind, object: u64, value: i64, sources: Vec<Point>) -> Record {
    Record {
        kind,
        object,
        value,
        sources: sources.into(),
        ..Record::default()
    }
}
