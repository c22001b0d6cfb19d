//! The log that a replay has to meet: what the threads told the outside, in one order.
use run_model::ThreadIndex;
use std::fmt;

/// A place in the program's code, the same in every replay. Whatever the edge takes for it (an address of a call, a
/// hash of a stack), here it is only compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u64);

impl Label {
    /// Where there is no place: the log has no further event, the thread has ended.
    pub const NONE: Label = Label(0);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    Call,
    Spawn {
        child: ThreadIndex,
    },
    /// The thread's last event.
    End,
    /// A failed assertion, a fatal signal: the run's last event.
    Failure,
}

/// A step of a thread that the log has, with its place in the order of all such steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    pub thread: ThreadIndex,
    /// How many logged events of the same thread come before it.
    pub index: u64,
    pub label: Label,
    pub kind: EventKind,
}

/// All logged events of a run. A *position* is an index into this order; the position after the last event is valid too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLog {
    events: Vec<LoggedEvent>,
    /// Positions of each thread's events, ascending.
    of_thread: Vec<Vec<usize>>,
    /// Position of the event that spawned each thread.
    spawned: Vec<Option<usize>>,
}

/// More threads than any run has; a log that says so is damaged.
const THREADS_MAX: u32 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableLog {
    /// The events of a thread are not numbered 0, 1, 2 …
    Index {
        position: usize,
        expected: u64,
        found: u64,
    },
    TooManyThreads {
        position: usize,
        thread: ThreadIndex,
    },
}

impl fmt::Display for UnusableLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableLog::Index {
                position,
                expected,
                found,
            } => write!(
                f,
                "event {position} of the log has number {found} within its thread, where {expected} was due"
            ),
            UnusableLog::TooManyThreads { position, thread } => {
                write!(
                    f,
                    "event {position} of the log names thread {} (at most {THREADS_MAX})",
                    thread.0
                )
            }
        }
    }
}

impl std::error::Error for UnusableLog {}

impl EventLog {
    pub fn new(events: Vec<LoggedEvent>) -> Result<EventLog, UnusableLog> {
        let mut log = EventLog {
            events: Vec::new(),
            of_thread: Vec::new(),
            spawned: Vec::new(),
        };
        for (position, event) in events.iter().enumerate() {
            log.reserve(position, event.thread)?;
            let expected = log.of_thread[event.thread.0 as usize].len() as u64;
            if event.index != expected {
                return Err(UnusableLog::Index {
                    position,
                    expected,
                    found: event.index,
                });
            }
            log.of_thread[event.thread.0 as usize].push(position);
            if let EventKind::Spawn { child } = event.kind {
                log.reserve(position, child)?;
                log.spawned[child.0 as usize].get_or_insert(position);
            }
        }
        log.events = events;
        Ok(log)
    }

    fn reserve(&mut self, position: usize, thread: ThreadIndex) -> Result<(), UnusableLog> {
        if thread.0 >= THREADS_MAX {
            return Err(UnusableLog::TooManyThreads { position, thread });
        }
        let threads = self.of_thread.len().max(thread.0 as usize + 1);
        self.of_thread.resize(threads, Vec::new());
        self.spawned.resize(threads, None);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub fn threads(&self) -> usize {
        self.of_thread.len()
    }

    pub fn get(&self, position: usize) -> Option<&LoggedEvent> {
        self.events.get(position)
    }

    pub fn events(&self) -> &[LoggedEvent] {
        &self.events
    }

    /// The paper's *immPrec*: the last event of `thread` before `position`.
    pub fn previous(&self, position: usize, thread: ThreadIndex) -> Option<usize> {
        let positions = self.of_thread.get(thread.0 as usize)?;
        let before = positions.partition_point(|p| *p < position);
        before.checked_sub(1).map(|last| positions[last])
    }

    /// The last event that `thread` is known to come after: its own, or else the one that spawned it.
    pub fn cause(&self, position: usize, thread: ThreadIndex) -> Option<usize> {
        let spawned = || self.spawned.get(thread.0 as usize).copied().flatten();
        self.previous(position, thread)
            .or_else(|| spawned().filter(|p| *p < position))
    }

    /// All threads, by their first event from `position` on; then those that have none left.
    pub fn threads_from(&self, position: usize) -> Vec<ThreadIndex> {
        let first = |positions: &Vec<usize>| {
            positions[positions.partition_point(|p| *p < position)..]
                .first()
                .copied()
        };
        let mut order: Vec<(usize, u32)> = (0..)
            .zip(&self.of_thread)
            .map(|(thread, positions)| (first(positions).unwrap_or(usize::MAX), thread))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, thread)| ThreadIndex(thread)).collect()
    }

    /// A number that differs for different logs, to recognise the log a saved search belongs to.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = crate::hash::Hash::new();
        for event in &self.events {
            hash.add(u64::from(event.thread.0));
            hash.add(event.label.0);
            hash.add(match event.kind {
                EventKind::Call => 0,
                EventKind::End => 1,
                EventKind::Failure => 2,
                EventKind::Spawn { child } => 3 + u64::from(child.0),
            });
        }
        hash.value()
    }
}
