//! Merges: candidates of `partial_logs::Merger`, tried by the server where it has the inputs, or by a client that has them.
//!
//! Each merge is a thread, which owns its merger. A merge of the server's ([`trial`]) tries as many candidates at a time as there are
//! processors for, of all merges together; verdicts are told in the order of the candidates, so the same logs and verdicts make the same merge.
//! A merge for a client ([`fetch`]) waits for verdicts, for a while.
mod fetch;
mod slots;
mod trial;
mod wanted;

pub use fetch::Given;
pub use fetch::VERDICTS;
pub use fetch::Verdicts;
pub use wanted::Wanted;

use crate::Attempts;
use crate::Error;
use crate::Limits;
use crate::Questions;
use crate::Result;
use crate::Store;
use crate::journal;
use crate::questions::BugLogs;
use crate::store::AttemptRow;
use crate::store::BugRow;
use crate::store::INTERRUPTED;
use partial_logs::Candidate;
use partial_logs::Source;
use partial_logs::Stage;
use partial_logs::Verdict;
use serde_json::Value;
use serde_json::json;
use slots::Slots;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::thread::JoinHandle;

/// Under way at a time, of one project.
const RUNNING_MAX: usize = 8;

/// Why a merge was not begun: sentences.
#[derive(Debug)]
pub enum Refused {
    /// What is missing has to be done first.
    NotNow(String),
    /// Others have to end first.
    Busy(String),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

/// How a merge ended.
struct Ended {
    state: &'static str,
    said: String,
    has_run: bool,
    summary: Value,
}

impl Ended {
    fn without(state: &'static str, said: impl Into<String>) -> Ended {
        Ended {
            state,
            said: said.into(),
            has_run: false,
            summary: Value::Null,
        }
    }
}

struct Running {
    project: String,
    is_stopped: Arc<AtomicBool>,
    /// Of a merge for a client.
    asks: Option<fetch::Asks>,
    thread: Option<JoinHandle<()>>,
}

/// What merges share.
pub struct Merges {
    store: Arc<Store>,
    questions: Arc<dyn Questions>,
    attempts: Arc<dyn Attempts>,
    limits: Limits,
    slots: Slots,
    running: Mutex<BTreeMap<i64, Running>>,
    /// The server is about to end.
    is_ending: AtomicBool,
}

/// One merge, as its thread has it.
struct Task {
    merges: Arc<Merges>,
    id: i64,
    project: String,
    bug: BugRow,
    wanted: Wanted,
    is_stopped: Arc<AtomicBool>,
}

impl Merges {
    pub fn new(
        store: Arc<Store>,
        questions: Arc<dyn Questions>,
        attempts: Arc<dyn Attempts>,
        limits: &Limits,
    ) -> Merges {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Merges {
            store,
            questions,
            attempts,
            limits: limits.clone(),
            slots: Slots::new(limits.attempts_at_a_time.unwrap_or(processors)),
            running: Mutex::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Begins one that the server tries itself. Its number.
    pub fn begin(self: &Arc<Merges>, project: &str, bug: &BugRow, wanted: Wanted) -> std::result::Result<i64, Refused> {
        if !self.store.is_registered(project, &bug.build)? {
            return Err(Refused::NotNow(format!(
                "build {} is not registered: the server runs only programs that an operator registered (refrain fleet add-build)",
                crate::hex(&bug.build)
            )));
        }
        let inputs = self.inputs(bug, &wanted)?;
        let task = self.task(project, bug, wanted, false)?;
        self.start(task, None, move |task| task.try_all(inputs))
    }

    /// Begins one that a client tries: its number, and the first candidates.
    pub fn begin_fetch(
        self: &Arc<Merges>,
        project: &str,
        bug: &BugRow,
        wanted: Wanted,
    ) -> std::result::Result<(i64, Given), Refused> {
        let task = self.task(project, bug, wanted, true)?;
        let (asks, asked) = fetch::channel();
        let id = self.start(task, Some(asks.clone()), move |task| task.answer_asks(&asked))?;
        let given = asks.ask(Vec::new()).unwrap_or_else(Given::over);
        Ok((id, given))
    }

    /// Nothing if there is no such merge under way that waits for verdicts.
    pub fn fetch(&self, project: &str, id: i64, verdicts: Verdicts) -> Option<Given> {
        let asks = {
            let running = self.running();
            let merge = running.get(&id).filter(|merge| merge.project == project)?;
            merge.asks.clone()?
        };
        Some(asks.ask(verdicts).unwrap_or_else(Given::over))
    }

    /// Was it under way?
    pub fn cancel(&self, project: &str, id: i64) -> bool {
        let running = self.running();
        let Some(merge) = running.get(&id).filter(|merge| merge.project == project) else {
            return false;
        };
        merge.stop();
        true
    }

    /// Ends all of them, and waits until they have ended.
    pub fn stop(&self) {
        // Relaxed: the locks around the list of merges order it.
        self.is_ending.store(true, Relaxed);
        let threads: Vec<JoinHandle<()>> = {
            let mut running = self.running();
            running.values().for_each(Running::stop);
            running.values_mut().filter_map(|merge| merge.thread.take()).collect()
        };
        for thread in threads {
            // It said why in the journal.
            _ = thread.join();
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<i64, Running>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn task(
        self: &Arc<Merges>,
        project: &str,
        bug: &BugRow,
        wanted: Wanted,
        is_fetch: bool,
    ) -> std::result::Result<Task, Refused> {
        let running = self.running().values().filter(|merge| merge.project == project).count();
        if self.is_ending.load(Relaxed) {
            return Err(Refused::Busy("the server is about to end".to_owned()));
        }
        if running >= RUNNING_MAX {
            return Err(Refused::Busy(format!(
                "{running} merges of this project are under way; wait for one of them, or cancel it"
            )));
        }
        let id = self
            .store
            .begin_merge(project, &bug.id, &wanted.json().to_string(), is_fetch)?;
        Ok(Task {
            merges: self.clone(),
            id,
            project: project.to_owned(),
            bug: bug.clone(),
            wanted,
            is_stopped: Arc::default(),
        })
    }

    fn start(
        &self,
        task: Task,
        asks: Option<fetch::Asks>,
        work: impl FnOnce(&Task) -> Result<Ended> + Send + 'static,
    ) -> std::result::Result<i64, Refused> {
        let id = task.id;
        // The thread waits for the lock before it takes itself off the list.
        let mut running = self.running();
        let mut merge = Running {
            project: task.project.clone(),
            is_stopped: task.is_stopped.clone(),
            asks,
            thread: None,
        };
        let builder = thread::Builder::new().name(format!("merge-{id}"));
        let thread = builder.spawn(move || task.conclude(work));
        merge.thread = Some(thread.map_err(|e| Error::io("start a thread for", self.store.folder(), e))?);
        running.insert(id, merge);
        Ok(id)
    }

    /// The digest whose logs are merged, and an archive of such inputs.
    fn inputs(&self, bug: &BugRow, wanted: &Wanted) -> std::result::Result<([u8; 32], PathBuf), Refused> {
        let mut known: BTreeMap<[u8; 32], PathBuf> = BTreeMap::new();
        for with in self.store.inputs_of_bug(&bug.id, 1_000)? {
            known.entry(with.digest).or_insert(with.archive);
        }
        let digests = self.store.digests_of_bug(&bug.id)?;
        let mut usable = digests.into_iter().filter(|(digest, _)| known.contains_key(digest));
        let chosen = match wanted.inputs {
            Some(inputs) => usable.find(|(digest, _)| *digest == inputs),
            // The first of equals.
            None => usable.reduce(|best, next| if next.1 > best.1 { next } else { best }),
        };
        let chosen = chosen.and_then(|(digest, _)| known.remove_entry(&digest));
        chosen.ok_or_else(|| {
            Refused::NotNow(
                "no client has sent the inputs of such a run (refrain fleet upload --with-inputs); one that has them can try candidates itself (refrain fleet fetch)"
                    .to_owned(),
            )
        })
    }
}

impl Running {
    fn stop(&self) {
        // Relaxed: who sees it late stops late.
        self.is_stopped.store(true, Relaxed);
        if let Some(asks) = &self.asks {
            asks.stop();
        }
    }
}

impl Task {
    /// Does it, and writes down how it ended, whatever that is.
    fn conclude(self, work: impl FnOnce(&Task) -> Result<Ended>) {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&self)));
        let ended = match done {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => {
                journal::say("merge failed", json!({ "merge": self.id, "error": error.to_string() }));
                Ended::without(
                    "failed",
                    "the server's store failed; its operator finds the reason in the server's log",
                )
            }
            Err(_) => Ended::without(
                "failed",
                "the server failed at this; its operator finds the reason in the server's log",
            ),
        };
        journal::say(
            "merge",
            json!({ "merge": self.id, "bug": self.bug.id, "state": ended.state, "said": ended.said }),
        );
        let summary = match &ended.summary {
            Value::Null => String::new(),
            summary => summary.to_string(),
        };
        let store = &self.merges.store;
        if let Err(error) = store.end_merge(self.id, ended.state, &ended.said, ended.has_run, &summary) {
            journal::say("failed", json!({ "merge": self.id, "error": error.to_string() }));
        }
        self.merges.running().remove(&self.id);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    fn ended_by_stop(&self) -> Ended {
        match self.merges.is_ending.load(Relaxed) {
            true => Ended::without("interrupted", INTERRUPTED),
            false => Ended::without("cancelled", "it was cancelled"),
        }
    }

    fn keep_attempt(&self, logs: &BugLogs, candidate: &Candidate, verdict: &str, detail: Value) -> Result<()> {
        self.merges.store.add_attempt(
            self.id,
            &AttemptRow {
                number: candidate.id.0,
                at_ms: journal::now_ms(),
                base: logs.hash(candidate.base),
                relevance: Some(candidate.relevance.as_f64()),
                verdict: verdict.to_owned(),
                detail: detail.to_string(),
            },
        )
    }
}

/// How many vectors are from where.
fn sources(candidate: &Candidate) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for chosen in candidate.elements.values() {
        *counts.entry(source_name(chosen.source)).or_default() += 1;
    }
    json!(counts)
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Base => "base",
        Source::Similar => "similar",
        Source::Transitive => "transitive",
        Source::Importance => "importance",
        Source::BruteForce => "brute force",
    }
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Paper => "paper",
        Stage::Known => "known",
        Stage::Completed => "completed",
        Stage::BaseOnly => "base only",
        Stage::BruteForce => "brute force",
        Stage::Again => "again",
        Stage::Random => "random",
    }
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Passed => "passed",
        Verdict::OtherFailure => "other failure",
        Verdict::Stuck => "stuck",
    }
}
