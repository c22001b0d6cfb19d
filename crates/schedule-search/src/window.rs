//! Exploration windows (section 4.1 of the paper).
use crate::EventLog;
use crate::Spot;
use run_model::ThreadIndex;

/// From where on the execution of each thread may have happened at the same time as the stretch that ended in a
/// failure, as far as the order of the log tells. Its end is the failure itself: nothing later was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// For each thread, how many logged events it has made when it enters the window.
    pub from: Vec<u64>,
}

impl Window {
    /// The window `back` steps before that of a failure of `thread` at `position`: 0 is the failure's own, which begins at
    /// the thread's last event; each step goes one event of that thread back, and from its first to the event that
    /// spawned it. Each window contains the ones of fewer steps.
    pub fn of(log: &EventLog, position: usize, thread: ThreadIndex, back: usize) -> Window {
        let (mut position, mut thread) = (position, thread);
        for _ in 0..back {
            match log.cause(position, thread) {
                Some(cause) => (position, thread) = (cause, log.events()[cause].thread),
                None => return Window::whole(log),
            }
        }
        match log.cause(position, thread) {
            Some(cause) => Window::around(log, cause),
            None => Window::whole(log),
        }
    }

    /// All of the run.
    pub fn whole(log: &EventLog) -> Window {
        Window {
            from: vec![0; log.threads()],
        }
    }

    /// What may happen at the same time as what follows the event at `cause`.
    fn around(log: &EventLog, cause: usize) -> Window {
        let made = |thread| match log.previous(cause, thread) {
            Some(event) => log.events()[event].index + 1,
            None => 0,
        };
        let mut from: Vec<u64> = (0..log.threads() as u32)
            .map(|thread| made(ThreadIndex(thread)))
            .collect();
        let event = &log.events()[cause];
        from[event.thread.0 as usize] = event.index + 1;
        Window { from }
    }

    pub fn is_whole(&self) -> bool {
        self.from.iter().all(|made| *made == 0)
    }

    pub fn contains(&self, spot: Spot) -> bool {
        spot.calls >= self.start(spot.thread)
    }

    /// Whether all of `other` lies inside.
    pub fn covers(&self, other: &Window) -> bool {
        let threads = self.from.len().max(other.from.len()) as u32;
        (0..threads).all(|thread| self.start(ThreadIndex(thread)) <= other.start(ThreadIndex(thread)))
    }

    fn start(&self, thread: ThreadIndex) -> u64 {
        self.from.get(thread.0 as usize).copied().unwrap_or(0)
    }
}
