//! The recording protocol: what is logged about each event, and what the machine remembers for it.
//!
//! The same words and moves as in the runtime (`crates/runtime/src/access/README.md`), one event at a time.
use crate::memory::CELL_BYTES;
use crate::memory::CHUNK_BYTES;
use run_model::Access;
use run_model::HIDING_PAGE_BYTES;
use run_model::Kind;
use run_model::MAX_SOURCES;
use run_model::Op;
use run_model::Point;
use run_model::Points;
use run_model::Record;
use run_model::SiteId;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Where ghost objects live; no memory is there.
const MUTEXES: u64 = 0x5500_0000_0000;

/// What may differ between recorders.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// A chunk that has changed hands more often is split into contended cells.
    pub moves_before_split: u32,
    /// Does a thread begin a generation when it releases something?
    pub generations: bool,
    /// Every so many uses of a split chunk, it is made whole again; 0: never.
    pub uses_before_merge: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Reads,
    Writes,
    /// One atomic read-modify-write.
    Both,
}

/// Who may access a chunk without a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Untouched,
    /// The owner, and its generation when it got the chunk.
    Exclusive(usize, usize),
    /// Everyone who has seen this epoch may read.
    Shared(i64),
    Split,
    /// Used by atomics: never made whole again.
    SplitForGood,
}

impl Word {
    fn is_split(self) -> bool {
        matches!(self, Word::Split | Word::SplitForGood)
    }
}

/// The last user of a cell or ghost object.
#[derive(Clone, Copy)]
struct User {
    point: Point,
    wrote: bool,
}

#[derive(Clone, Default)]
pub(crate) struct ThreadState {
    pub(crate) records: Vec<Record>,
    /// Events completed.
    pub(crate) count: u64,
    seen: i64,
    pub(crate) running: bool,
    /// For each thread, how much of it this thread's records already put before its current event.
    known: BTreeMap<ThreadIndex, u64>,
    /// What the thread had completed at the end of each of its generations but the current one.
    ends: Vec<u64>,
}

pub(crate) struct Recorder {
    tuning: Tuning,
    pub(crate) threads: Vec<ThreadState>,
    words: BTreeMap<u64, Word>,
    moves: BTreeMap<u64, u32>,
    users: BTreeMap<u64, User>,
    /// How often split chunks were used since they were split.
    uses: BTreeMap<u64, u32>,
    /// Pages in which changes of hands that recorded synchronisation orders already have no record.
    hiding: BTreeSet<u64>,
    epoch: i64,
}

impl Recorder {
    pub(crate) fn new(threads: usize, tuning: Tuning) -> Recorder {
        Recorder {
            tuning,
            threads: vec![ThreadState::default(); threads],
            words: BTreeMap::new(),
            moves: BTreeMap::new(),
            users: BTreeMap::new(),
            uses: BTreeMap::new(),
            hiding: BTreeSet::new(),
            epoch: 0,
        }
    }

    /// Gets one of the chunks that an access needs and does not have. False: it has them all, and no event happened.
    pub(crate) fn acquires(&mut self, me: usize, address: u64, bytes: u64, reach: Reach, atomic: bool) -> bool {
        let before = self.threads[me].count;
        for chunk in (address / CHUNK_BYTES..(address + bytes).div_ceil(CHUNK_BYTES)).map(|c| c * CHUNK_BYTES) {
            if atomic {
                self.split(me, chunk);
            } else {
                self.acquire(me, chunk, reach);
            }
            if self.threads[me].count != before {
                return true;
            }
        }
        false
    }

    /// An access of one event, to be done now; all its chunks are there.
    pub(crate) fn access(&mut self, me: usize, address: u64, bytes: u64, reach: Reach) {
        let end = address + bytes;
        let first = address / CELL_BYTES * CELL_BYTES;
        for cell in (first..end).step_by(CELL_BYTES as usize) {
            if self.word(cell / CHUNK_BYTES * CHUNK_BYTES).is_split() {
                let covered = end.min(cell + CELL_BYTES) - address.max(cell);
                self.use_cell(me, cell, covered, reach);
            }
        }
    }

    /// Whose window would have to close before `me` may do this access? A thread stopped inside an event on memory that
    /// it owns, or reads, keeps everyone else away.
    pub(crate) fn is_held_by(&self, me: usize, stopped: usize, address: u64, bytes: u64, reach: Reach) -> bool {
        let mut chunks = (address / CHUNK_BYTES..(address + bytes).div_ceil(CHUNK_BYTES)).map(|c| c * CHUNK_BYTES);
        chunks.any(|chunk| match self.word(chunk) {
            Word::Exclusive(owner, generation) => {
                owner == stopped && owner != me && generation == self.threads[owner].ends.len()
            }
            Word::Shared(epoch) => reach != Reach::Reads && self.threads[stopped].seen >= epoch,
            Word::Untouched | Word::Split | Word::SplitForGood => false,
        })
    }

    /// An operation on a lock that is held now.
    pub(crate) fn touch(&mut self, me: usize, op: Op, mutex: u64) {
        if op.releases() {
            self.before_release(me);
        }
        let object = MUTEXES + mutex * CELL_BYTES;
        let user = self
            .users
            .get(&object)
            .map(|user| user.point)
            .filter(|point| !self.knows(me, *point));
        if let Some(point) = user {
            let record = Record {
                kind: Kind::Sync,
                op,
                object,
                sources: Points::one(point),
                ..Record::default()
            };
            self.log(me, record);
        }
        let point = self.point_after(me);
        self.users.insert(object, User { point, wrote: true });
    }

    /// What this thread does not use from now on, others may have.
    fn before_release(&mut self, me: usize) {
        if self.tuning.generations {
            let count = self.threads[me].count;
            self.threads[me].ends.push(count);
        }
    }

    pub(crate) fn spawn(&mut self, me: usize, child: u32) {
        self.before_release(me);
        self.log(
            me,
            Record {
                kind: Kind::Spawn,
                value: i64::from(child),
                ..Record::default()
            },
        );
    }

    pub(crate) fn start(&mut self, me: usize, created: Option<Point>) {
        self.threads[me].running = true;
        let sources = created.into_iter().collect();
        self.log(
            me,
            Record {
                kind: Kind::Start,
                sources,
                ..Record::default()
            },
        );
    }

    pub(crate) fn exit(&mut self, me: usize) {
        self.create_epoch(me, Kind::Exit, 0, Points::NONE);
        self.threads[me].running = false;
    }

    pub(crate) fn join(&mut self, me: usize, child: u32) {
        let sources = Points::one(self.point(child as usize));
        let (kind, op) = (Kind::Sync, Op::Join);
        self.log(
            me,
            Record {
                kind,
                op,
                value: i64::from(child),
                sources,
                ..Record::default()
            },
        );
    }

    pub(crate) fn complete(&mut self, me: usize) {
        self.threads[me].count += 1;
    }

    fn word(&self, chunk: u64) -> Word {
        self.words.get(&chunk).copied().unwrap_or(Word::Untouched)
    }

    fn point(&self, thread: usize) -> Point {
        Point {
            thread: ThreadIndex(thread as u32),
            count: self.threads[thread].count,
        }
    }

    pub(crate) fn point_after(&self, thread: usize) -> Point {
        Point {
            thread: ThreadIndex(thread as u32),
            count: self.threads[thread].count + 1,
        }
    }

    pub(crate) fn log(&mut self, me: usize, record: Record) {
        // The order of two runs binds only where there is a flow dependence; all other records bind as they stand.
        if record.kind != Kind::Run || record.access.flows() {
            for source in &record.sources {
                let known = self.threads[me].known.entry(source.thread).or_default();
                *known = (*known).max(source.count);
            }
        }
        let event = self.threads[me].count;
        let site = SiteId(1 + (me as u32) * 100 + event as u32 % 100);
        // Acquisitions are events of their own.
        if is_acquisition(record.kind) {
            self.threads[me].count += 1;
        }
        self.threads[me].records.push(Record { event, site, ..record });
    }

    /// Do this thread's own records, or program order, already put `point` before its current event?
    fn knows(&self, me: usize, point: Point) -> bool {
        let known = self.threads[me].known.get(&point.thread).copied().unwrap_or(0);
        point.thread.0 as usize == me || known >= point.count
    }

    /// The word of a chunk that becomes this thread's now.
    fn own(&mut self, me: usize, chunk: u64) {
        let generation = self.threads[me].ends.len();
        self.words.insert(chunk, Word::Exclusive(me, generation));
    }

    fn acquire(&mut self, me: usize, chunk: u64, reach: Reach) {
        match self.word(chunk) {
            Word::SplitForGood => {}
            Word::Split => {
                let uses = self.uses.entry(chunk).or_default();
                *uses += 1;
                if self.tuning.uses_before_merge != 0 && *uses > self.tuning.uses_before_merge {
                    self.merge(me, chunk, reach);
                }
            }
            Word::Untouched => self.own(me, chunk),
            Word::Exclusive(owner, _) if owner == me => self.own(me, chunk),
            Word::Exclusive(owner, generation) if generation < self.threads[owner].ends.len() => {
                // Its owner has not used it since: no need to wait for what it is doing now.
                let thread = ThreadIndex(owner as u32);
                let count = self.threads[owner].ends[generation];
                self.take(me, chunk, Points::one(Point { thread, count }));
                self.own(me, chunk);
            }
            Word::Exclusive(owner, _) => {
                if self.has_moved_too_often(chunk) {
                    self.finish_split(chunk, Some(self.point(owner)));
                } else if reach == Reach::Reads {
                    let epoch = self.create_epoch(me, Kind::Share, chunk, Points::one(self.point(owner)));
                    self.words.insert(chunk, Word::Shared(epoch));
                } else {
                    self.take(me, chunk, Points::one(self.point(owner)));
                    self.own(me, chunk);
                }
            }
            Word::Shared(epoch) if reach == Reach::Reads => {
                if self.threads[me].seen < epoch {
                    self.see_epochs(me);
                }
            }
            Word::Shared(epoch) => {
                self.take_from_readers(me, chunk, epoch);
                if self.has_moved_too_often(chunk) {
                    self.finish_split(chunk, Some(self.point(me)));
                } else {
                    self.own(me, chunk);
                }
            }
        }
    }

    /// Makes a split chunk whole again, after all users of its cells: this thread's alone, or shared.
    fn merge(&mut self, me: usize, chunk: u64, reach: Reach) {
        let cells = (chunk..chunk + CHUNK_BYTES).step_by(CELL_BYTES as usize);
        let users = cells.filter_map(|cell| self.users.get(&cell).map(|user| user.point));
        let sources: Points = users.filter(|user| user.thread.0 as usize != me).collect();
        let page = chunk / HIDING_PAGE_BYTES;
        if !self.hiding.contains(&page) || sources.iter().any(|user| !self.knows(me, user)) {
            let (kind, value) = (Kind::Take, 1);
            self.log(
                me,
                Record {
                    kind,
                    object: chunk,
                    value,
                    sources,
                    ..Record::default()
                },
            );
            self.hiding.insert(page);
        }
        if reach == Reach::Reads {
            let epoch = self.create_epoch(me, Kind::Share, chunk, Points::NONE);
            self.words.insert(chunk, Word::Shared(epoch));
        } else {
            self.own(me, chunk);
        }
    }

    /// Atomics work on cells only.
    fn split(&mut self, me: usize, chunk: u64) {
        let user = match self.word(chunk) {
            Word::SplitForGood => return,
            Word::Split => {
                self.words.insert(chunk, Word::SplitForGood);
                return;
            }
            Word::Untouched => None,
            Word::Exclusive(owner, generation) => Some(Point {
                thread: ThreadIndex(owner as u32),
                count: match self.threads[owner].ends.get(generation) {
                    Some(end) if owner != me => *end,
                    _ => self.threads[owner].count,
                },
            }),
            Word::Shared(epoch) => {
                self.take_from_readers(me, chunk, epoch);
                Some(self.point(me))
            }
        };
        self.finish_split(chunk, user);
        self.words.insert(chunk, Word::SplitForGood);
    }

    /// The cells begin as last used, and written, at a point that is after all users of the chunk; or untouched.
    fn finish_split(&mut self, chunk: u64, user: Option<Point>) {
        self.words.insert(chunk, Word::Split);
        self.uses.remove(&chunk);
        if let Some(point) = user {
            for cell in (chunk..chunk + CHUNK_BYTES).step_by(CELL_BYTES as usize) {
                self.users.insert(cell, User { point, wrote: true });
            }
        }
    }

    fn has_moved_too_often(&mut self, chunk: u64) -> bool {
        let moves = self.moves.entry(chunk).or_default();
        *moves += 1;
        *moves > self.tuning.moves_before_split
    }

    fn take(&mut self, me: usize, chunk: u64, sources: Points) {
        if !sources.iter().all(|source| self.knows(me, source)) {
            self.log(
                me,
                Record {
                    kind: Kind::Take,
                    object: chunk,
                    sources,
                    ..Record::default()
                },
            );
        }
    }

    fn take_from_readers(&mut self, me: usize, chunk: u64, epoch: i64) {
        let others = (0..self.threads.len()).filter(|other| *other != me && self.threads[*other].running);
        let readers = others.filter(|other| self.threads[*other].seen >= epoch);
        let sources: Vec<Point> = readers.map(|reader| self.point(reader)).collect();
        for part in sources.chunks(MAX_SOURCES) {
            self.take(me, chunk, part.into());
        }
        // Orders this event after all threads that have ended, and after the creator of the epoch.
        self.see_epochs(me);
    }

    fn see_epochs(&mut self, me: usize) {
        if self.threads[me].seen < self.epoch {
            self.log(
                me,
                Record {
                    kind: Kind::Seen,
                    value: self.epoch,
                    ..Record::default()
                },
            );
            self.threads[me].seen = self.epoch;
        }
    }

    fn create_epoch(&mut self, me: usize, kind: Kind, object: u64, sources: Points) -> i64 {
        self.epoch += 1;
        self.log(
            me,
            Record {
                kind,
                object,
                value: self.epoch,
                sources,
                ..Record::default()
            },
        );
        self.threads[me].seen = self.epoch;
        self.epoch
    }

    fn use_cell(&mut self, me: usize, cell: u64, covered: u64, reach: Reach) {
        let previous = self.users.get(&cell).copied();
        let other = previous.filter(|user| user.point.thread.0 as usize != me);
        if let Some(user) = other {
            let known = self.knows(me, user.point);
            let page = cell / HIDING_PAGE_BYTES;
            // A page's first change of hands that could go without a record has one, which says that later ones may not.
            if !(known && self.hiding.contains(&page)) {
                if known {
                    self.hiding.insert(page);
                }
                self.log_run(me, cell, flags(covered, reach), user, self.hiding.contains(&page));
            }
        }
        let went_on = previous.filter(|_| other.is_none()).is_some_and(|user| user.wrote);
        let point = self.point_after(me);
        self.users.insert(
            cell,
            User {
                point,
                wrote: reach != Reach::Reads || went_on,
            },
        );
    }

    fn log_run(&mut self, me: usize, cell: u64, flags: u8, user: User, hides: bool) {
        let wrote = if user.wrote { Access::PREVIOUS_WROTE } else { 0 };
        let hidden = if hides { Access::AFTER_HIDDEN } else { 0 };
        let (access, sources) = (Access(flags | wrote | hidden), Points::one(user.point));
        self.log(
            me,
            Record {
                kind: Kind::Run,
                access,
                object: cell,
                sources,
                ..Record::default()
            },
        );
    }
}

/// Is it an event of its own, which only gets a chunk for the access that follows?
pub(crate) fn is_acquisition(kind: Kind) -> bool {
    matches!(kind, Kind::Take | Kind::Share | Kind::Seen)
}

/// What an access to `covered` bytes of a cell does to it: writing part of it keeps the rest, so it reads, too.
fn flags(covered: u64, reach: Reach) -> u8 {
    match reach {
        Reach::Reads => Access::READS,
        Reach::Writes if covered == CELL_BYTES => Access::WRITES,
        Reach::Writes => Access::READS | Access::WRITES,
        Reach::Both => Access::READS | Access::WRITES | Access::ATOMIC,
    }
}
