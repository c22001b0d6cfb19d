//! Candidates that a client tries, where the inputs are: only verdicts come back.
use super::Ended;
use super::Task;
use super::sources;
use super::stage_name;
use super::verdict_name;
use crate::Result;
use crate::hex;
use crate::questions::BugLogs;
use partial_logs::Candidate;
use partial_logs::CandidateId;
use partial_logs::ElementId;
use partial_logs::Feedback;
use partial_logs::Merger;
use partial_logs::Verdict;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A client that says nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Candidates without a verdict.
const UNDER_WAY: usize = 4;

pub type Verdicts = Vec<(CandidateId, Feedback)>;

/// As clients name them.
pub const VERDICTS: [(&str, Verdict); 4] = [
    ("reproduced", Verdict::Reproduced),
    ("passed", Verdict::Passed),
    ("other failure", Verdict::OtherFailure),
    ("stuck", Verdict::Stuck),
];

/// What a client is to try next.
#[derive(Clone, Debug)]
pub struct Given {
    /// `running`, or how the merge ended.
    pub state: &'static str,
    /// As JSON.
    pub candidates: Vec<Value>,
}

impl Given {
    /// For who asks a merge that has ended.
    pub fn over() -> Given {
        Given {
            state: "over",
            candidates: Vec::new(),
        }
    }
}

pub enum Ask {
    Verdicts(Verdicts, Sender<Given>),
    Stop,
}

#[derive(Clone)]
pub struct Asks(Sender<Ask>);

pub fn channel() -> (Asks, Receiver<Ask>) {
    let (sender, asked) = mpsc::channel();
    (Asks(sender), asked)
}

impl Asks {
    /// Nothing if it has ended.
    pub fn ask(&self, verdicts: Verdicts) -> Option<Given> {
        let (answer, given) = mpsc::channel();
        self.0.send(Ask::Verdicts(verdicts, answer)).ok()?;
        given.recv().ok()
    }

    pub fn stop(&self) {
        // One that has ended needs no stop.
        _ = self.0.send(Ask::Stop);
    }
}

impl Task {
    pub(super) fn answer_asks(&self, asked: &Receiver<Ask>) -> Result<Ended> {
        let inputs = match self.wanted.across_inputs {
            true => None,
            false => self.inputs_to_fetch()?,
        };
        let logs = self.merges.questions.to_merge(&self.project, &self.bug, inputs)?;
        let settings = match self.wanted.settings(&logs) {
            Ok(settings) => settings,
            Err(said) => return Ok(Ended::without("failed", said)),
        };
        let mut merger = Merger::new(&logs.universe, settings);
        let mut open: BTreeMap<CandidateId, Candidate> = BTreeMap::new();
        loop {
            let (verdicts, answer) = match asked.recv_timeout(PATIENCE) {
                Ok(Ask::Verdicts(verdicts, answer)) => (verdicts, answer),
                Ok(Ask::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return Ok(self.ended_by_stop());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let minutes = PATIENCE.as_secs() / 60;
                    let said = format!("the client has not said anything for {minutes} minutes");
                    return Ok(Ended::without("cancelled", said));
                }
            };
            for (id, feedback) in verdicts {
                // Once each.
                if let Some(candidate) = open.remove(&id) {
                    let detail = json!({ "stage": stage_name(candidate.stage), "sources": sources(&candidate) });
                    self.keep_attempt(&logs, &candidate, verdict_name(feedback.verdict), detail)?;
                    let has_reproduced = feedback.verdict == Verdict::Reproduced;
                    merger.report(id, feedback);
                    if has_reproduced {
                        give(&answer, "reproduced", Vec::new());
                        return Ok(self.reproduced(&logs, &candidate));
                    }
                }
            }
            let mut new = Vec::new();
            while open.len() < UNDER_WAY {
                let Some(candidate) = merger.next() else { break };
                new.push(self.shown(&logs, &candidate));
                open.insert(candidate.id, candidate);
            }
            if open.is_empty() {
                give(&answer, "exhausted", Vec::new());
                let said = format!("none of {} candidates failed in the same way", merger.given());
                return Ok(Ended::without("exhausted", said));
            }
            give(&answer, "running", new);
        }
    }

    /// Those that somebody wants, or those that most logs have.
    fn inputs_to_fetch(&self) -> Result<Option<[u8; 32]>> {
        if self.wanted.inputs.is_some() {
            return Ok(self.wanted.inputs);
        }
        let digests = self.merges.store.digests_of_bug(&self.bug.id)?;
        let most = digests
            .into_iter()
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        Ok(most.map(|(digest, _)| digest))
    }

    fn shown(&self, logs: &BugLogs, candidate: &Candidate) -> Value {
        let elements: Vec<Value> = candidate
            .elements
            .iter()
            .map(|(ElementId(element), chosen)| {
                json!({ "element": element, "vector": hex(&chosen.hash.0), "rank": chosen.rank })
            })
            .collect();
        json!({
            "number": candidate.id.0, "is_strict": candidate.is_strict, "stage": stage_name(candidate.stage),
            "base": logs.hash(candidate.base).map(|hash| hex(&hash)), "elements": elements,
        })
    }

    fn reproduced(&self, logs: &BugLogs, candidate: &Candidate) -> Ended {
        Ended {
            state: "reproduced",
            said: format!("candidate {} failed in the same way, at the client", candidate.id.0 + 1),
            has_run: false,
            summary: json!({ "reproduced_at": candidate.id.0 + 1, "candidate": self.provenance(logs, candidate) }),
        }
    }
}

fn give(answer: &Sender<Given>, state: &'static str, candidates: Vec<Value>) {
    // Who does not wait any more asks again, or does not.
    _ = answer.send(Given { state, candidates });
}
