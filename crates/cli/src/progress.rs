//! A line on the terminal that says how far something is, if it takes longer than a second.
use crate::search;
use replayer::Go;
use replayer::Observer;
use replayer::SearchProgress;
use replayer::Step;
use replayer::Work;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// What takes less needs no line.
const SILENT: Duration = Duration::from_secs(1);
const REDRAW: Duration = Duration::from_millis(200);
/// To the beginning of the line, and nothing behind it.
const ERASE: &str = "\r\x1b[K";

/// Draws on standard error, if that is a terminal; otherwise nothing.
///
/// A thread of its own does the drawing, so that the line lives even while nobody reports. It is there between the first
/// report and `done`: what follows may need a process with one thread.
pub struct ProgressLine {
    is_terminal: bool,
    drawing: Mutex<Option<Drawing>>,
    has_drawn_search: AtomicBool,
}

struct Drawing {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    now: Option<(Work, u64, u64)>,
    is_over: bool,
}

impl ProgressLine {
    pub fn new() -> ProgressLine {
        ProgressLine {
            is_terminal: io::stderr().is_terminal(),
            drawing: Mutex::new(None),
            has_drawn_search: AtomicBool::new(false),
        }
    }
}

impl Observer for ProgressLine {
    fn at(&self, work: Work, done: u64, of: u64) {
        if !self.is_terminal {
            return;
        }
        let mut drawing = self.drawing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let drawing = drawing.get_or_insert_with(Drawing::begin);
        drawing.shared.set(|state| state.now = Some((work, done, of)));
    }

    fn searching(&self, progress: &SearchProgress<'_>) -> Go {
        if self.is_terminal && progress.elapsed > SILENT {
            // The search itself calls, often enough. A terminal that cannot be written to shows nothing; the work goes on.
            let _ = write!(io::stderr().lock(), "{ERASE}refrain: {}", search::line(progress));
            self.has_drawn_search.store(true, Relaxed);
        }
        Go::On
    }

    fn done(&self) {
        // Relaxed: a lone flag of one thread.
        if self.has_drawn_search.swap(false, Relaxed) {
            let _ = write!(io::stderr().lock(), "{ERASE}");
        }
        let drawing = self
            .drawing
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        if let Some(drawing) = drawing {
            drawing.shared.set(|state| state.is_over = true);
            drawing.shared.changed.notify_all();
            // It cannot fail, and nobody could be told.
            let _ = drawing.thread.join();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.done();
    }
}

impl Drawing {
    fn begin() -> Drawing {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || theirs.draw());
        Drawing { shared, thread }
    }
}

impl Shared {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn draw(&self) {
        let started = Instant::now();
        let mut pause = SILENT;
        let mut has_drawn = false;
        loop {
            let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let waited = self.changed.wait_timeout_while(state, pause, |state| !state.is_over);
            let state = *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            if state.is_over {
                break;
            }
            if let Some((work, done, of)) = state.now {
                let line = line(work, done, of, started.elapsed());
                // A terminal that cannot be written to shows nothing; the work goes on.
                let _ = write!(io::stderr().lock(), "{ERASE}refrain: {line}");
                has_drawn = true;
            }
            pause = REDRAW;
        }
        if has_drawn {
            let _ = write!(io::stderr().lock(), "{ERASE}");
        }
    }
}

fn line(work: Work, done: u64, of: u64, elapsed: Duration) -> String {
    let what = match work {
        Work::Load => "reading the logs",
        Work::Solve(step) => name_of(step),
        Work::Check => "checking the schedule",
        Work::Write => "writing the schedule",
        Work::Settle => "looking for late resumes",
    };
    let percent = match of {
        // Too coarse to be of use.
        0..=9 => String::new(),
        _ => format!(" {:>3} %", (done.min(of) as f64 / of as f64 * 100.0) as u64),
    };
    format!("{what}{percent} ({} s)", elapsed.as_secs())
}

fn name_of(step: Step) -> &'static str {
    match step {
        Step::Translate => "solving: reading the constraints",
        Step::Order => "solving: trying the recorded order",
        Step::Saturate => "solving: deriving what follows",
        Step::Search => "solving: searching",
        Step::Reduce => "solving: leaving out waits",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_and_how_far() {
        let second = Duration::from_millis(1900);
        assert_eq!(
            line(Work::Load, 50_000, 200_000, second),
            "reading the logs  25 % (1 s)"
        );
        assert_eq!(line(Work::Check, 0, 1, second), "checking the schedule (1 s)");
        assert_eq!(line(Work::Load, 300, 200, second), "reading the logs 100 % (1 s)");
    }

    #[test]
    fn nothing_is_left_when_it_is_done() {
        let progress = ProgressLine {
            is_terminal: true,
            drawing: Mutex::new(None),
            has_drawn_search: AtomicBool::new(false),
        };
        progress.at(Work::Load, 0, 100);
        assert!(progress.drawing.lock().expect("not poisoned").is_some());
        progress.done();
        assert!(progress.drawing.lock().expect("not poisoned").is_none());
        progress.at(Work::Check, 0, 1);
    }
}
