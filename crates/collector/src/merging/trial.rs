//! Candidates that the server tries.
use super::Ended;
use super::Task;
use super::source_name;
use super::sources;
use super::stage_name;
use super::verdict_name;
use crate::AttemptAnswer;
use crate::AttemptRequest;
use crate::Error;
use crate::Result;
use crate::hex;
use crate::questions::BugLogs;
use partial_logs::AccessVector;
use partial_logs::Candidate;
use partial_logs::ElementId;
use partial_logs::Feedback;
use partial_logs::Merger;
use partial_logs::ReduceSettings;
use partial_logs::Reducer;
use partial_logs::Verdict;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// How often a candidate that has reproduced the failure is tried again, to see whether that was luck.
const REPETITIONS: u32 = 5;
/// Attempts to find out which of its elements matter.
const REDUCING: ReduceSettings = ReduceSettings { times: 2, budget: 60 };
/// Attempts that could not be made, one after the other: then there is something wrong that no candidate changes.
const ERRORS_MAX: usize = 8;

type Vectors = BTreeMap<ElementId, (AccessVector, u8)>;
type Tried = std::result::Result<AttemptAnswer, String>;

impl Task {
    pub(super) fn try_all(&self, inputs: ([u8; 32], PathBuf)) -> Result<Ended> {
        let (digest, archive) = inputs;
        let digest = (!self.wanted.across_inputs).then_some(digest);
        let logs = self.merges.questions.to_merge(&self.project, &self.bug, digest)?;
        let settings = match self.wanted.settings(&logs) {
            Ok(settings) => settings,
            Err(said) => return Ok(Ended::without("failed", said)),
        };
        let mut merger = Merger::new(&logs.universe, settings);
        let run = self.merges.store.run_of_merge(self.id);
        let mut errors = 0;
        loop {
            let candidates: Vec<Candidate> = (0..self.merges.slots.most()).map_while(|_| merger.next()).collect();
            if candidates.is_empty() {
                let said = format!("none of {} candidates failed in the same way", merger.given());
                return Ok(Ended::without("exhausted", said));
            }
            let vectors: Vec<Vectors> = candidates.iter().map(|one| self.vectors(one)).collect::<Result<_>>()?;
            let mut found = None;
            let runs: Vec<PathBuf> = candidates.iter().map(|one| self.run_of(one)).collect();
            let asked = candidates.iter().zip(&vectors).zip(&runs);
            let asked = asked.map(|((one, vectors), run)| (vectors, one.is_strict, Some(run.as_path())));
            for ((candidate, vectors), tried) in candidates.iter().zip(&vectors).zip(self.try_several(asked, &archive))
            {
                errors = if tried.is_ok() { 0 } else { errors + 1 };
                if self.is_stopped() {
                    return Ok(self.ended_by_stop());
                }
                if let (Err(why), true) = (&tried, errors >= ERRORS_MAX) {
                    return Ok(Ended::without("failed", format!("attempts cannot be made: {why}")));
                }
                let feedback = self.learn(&logs, candidate, &tried)?;
                if feedback.verdict == Verdict::Reproduced && found.is_none() {
                    found = Some((candidate.clone(), vectors.clone()));
                }
                merger.report(candidate.id, feedback);
            }
            if let Some((candidate, vectors)) = found {
                // The run that is kept is that of the candidate that is named.
                _ = fs::rename(self.run_of(&candidate), &run);
                runs.iter().for_each(|other| _ = fs::remove_file(other));
                return Ok(self.conclude_with(&logs, &candidate, &vectors, &archive, &run));
            }
        }
    }

    /// What an attempt says of its candidate, which is kept.
    fn learn(&self, logs: &BugLogs, candidate: &Candidate, tried: &Tried) -> Result<Feedback> {
        let mut detail = json!({ "stage": stage_name(candidate.stage), "sources": sources(candidate) });
        let (feedback, name) = match tried {
            // It tells nothing about vectors.
            Err(why) => {
                detail["why"] = why.as_str().into();
                (Feedback::from(Verdict::OtherFailure), "not tried")
            }
            Ok(answer) => {
                let feedback = self.feedback(answer);
                let ids = |elements: &BTreeSet<ElementId>| elements.iter().map(|element| element.0).collect::<Vec<_>>();
                detail["let_go"] = json!(ids(&feedback.let_go));
                detail["blamed"] = json!(ids(&feedback.blamed));
                let name = verdict_name(feedback.verdict);
                (feedback, name)
            }
        };
        self.keep_attempt(logs, candidate, name, detail)?;
        Ok(feedback)
    }

    fn feedback(&self, answer: &AttemptAnswer) -> Feedback {
        Feedback {
            verdict: match &answer.failure {
                Some(failure) if *failure == self.bug.failure => Verdict::Reproduced,
                _ if answer.is_stuck => Verdict::Stuck,
                Some(_) => Verdict::OtherFailure,
                None => Verdict::Passed,
            },
            blamed: answer.blamed.iter().copied().collect(),
            let_go: answer.let_go.iter().copied().collect(),
        }
    }

    fn has_reproduced(&self, tried: &Tried) -> bool {
        tried
            .as_ref()
            .is_ok_and(|answer| self.feedback(answer).verdict == Verdict::Reproduced)
    }

    /// Repeats the candidate, and finds out which of its elements matter.
    fn conclude_with(
        &self,
        logs: &BugLogs,
        candidate: &Candidate,
        vectors: &Vectors,
        archive: &Path,
        run: &Path,
    ) -> Ended {
        let number = candidate.id.0 + 1;
        if !run.exists() {
            let said = format!("candidate {number} failed in the same way, and left no run that could be kept");
            return Ended::without("failed", said);
        }
        let again = (0..REPETITIONS).map(|_| (vectors, candidate.is_strict, None));
        let repeated = self.try_several(again, archive);
        let reproduced = repeated.iter().filter(|tried| self.has_reproduced(tried)).count();
        let matters = match reproduced == repeated.len() {
            true => Some(self.reduce(vectors, candidate.is_strict, archive)),
            // By luck now and then: leaving elements out would tell nothing.
            false => None,
        };
        Ended {
            state: "reproduced",
            said: format!(
                "candidate {number} failed in the same way, and did so in {reproduced} of {} repetitions",
                repeated.len()
            ),
            has_run: true,
            summary: json!({
                "reproduced_at": number, "repeated": repeated.len(), "reproduced_again": reproduced,
                "elements_that_matter": matters, "candidate": self.provenance(logs, candidate),
            }),
        }
    }

    fn reduce(&self, vectors: &Vectors, is_strict: bool, archive: &Path) -> Vec<u32> {
        let mut order: Vec<(u8, ElementId)> = vectors.iter().map(|(element, (_, rank))| (*rank, *element)).collect();
        order.sort_unstable();
        let mut reducer = Reducer::new(order.into_iter().map(|(_, element)| element), REDUCING);
        while let Some(kept) = reducer.next() {
            if self.is_stopped() {
                break;
            }
            let fewer: Vectors = vectors
                .iter()
                .filter(|(element, _)| kept.contains(element))
                .map(|(element, vector)| (*element, vector.clone()))
                .collect();
            let tried = self.try_one(&fewer, is_strict, archive, None);
            reducer.report(self.has_reproduced(&tried));
        }
        reducer.enough().into_iter().map(|element| element.0).collect()
    }

    /// Which log each vector is from, and why.
    pub(super) fn provenance(&self, logs: &BugLogs, candidate: &Candidate) -> Value {
        let elements: Vec<Value> = candidate
            .elements
            .iter()
            .map(|(ElementId(element), chosen)| {
                json!({
                    "element": element, "vector": hex(&chosen.hash.0), "source": source_name(chosen.source),
                    "log": chosen.log.and_then(|log| logs.hash(log)).map(|hash| hex(&hash)),
                })
            })
            .collect();
        json!({
            "base": logs.hash(candidate.base).map(|hash| hex(&hash)), "stage": stage_name(candidate.stage),
            "relevance": candidate.relevance.as_f64(), "elements": elements,
        })
    }

    fn vectors(&self, candidate: &Candidate) -> Result<Vectors> {
        let store = &self.merges.store;
        let mut vectors = Vectors::new();
        for (element, chosen) in &candidate.elements {
            let bytes = store.vector_of_hash(&self.project, &chosen.hash.0)?;
            let decoded = bytes.map(|bytes| AccessVector::decode(&bytes));
            let Some(Ok(vector)) = decoded else {
                return Err(Error::DamagedStore {
                    path: store.folder().to_owned(),
                    what: format!("a log's vector {} is not there", hex(&chosen.hash.0)),
                });
            };
            vectors.insert(*element, (vector, chosen.rank));
        }
        Ok(vectors)
    }

    /// At a time; answers in the same order.
    fn try_several<'a>(
        &self,
        asked: impl Iterator<Item = (&'a Vectors, bool, Option<&'a Path>)>,
        archive: &Path,
    ) -> Vec<Tried> {
        thread::scope(|scope| {
            let started: Vec<_> = asked
                .map(|(vectors, is_strict, run)| scope.spawn(move || self.try_one(vectors, is_strict, archive, run)))
                .collect();
            let joined = started.into_iter().map(|one| one.join());
            joined
                .map(|tried| tried.unwrap_or_else(|_| Err("the server failed at it".to_owned())))
                .collect()
        })
    }

    /// A run that fails in the same way is kept in `run`.
    fn try_one(&self, vectors: &Vectors, is_strict: bool, archive: &Path, run: Option<&Path>) -> Tried {
        let _slot = self.merges.slots.take();
        if self.is_stopped() {
            return Err("it was stopped".to_owned());
        }
        let output = self.output().map_err(|error| error.to_string())?;
        let tried = self.merges.attempts.attempt(&AttemptRequest {
            program: &self.merges.store.program(&self.project, &self.bug.build),
            inputs: archive,
            vectors,
            is_strict,
            timeout: self.merges.limits.attempt_timeout,
            output: &output,
            is_stopped: &self.is_stopped,
        });
        let archived = tried.as_ref().ok().and_then(|answer| answer.run.as_ref());
        if let Some((archived, run)) = archived.zip(run).filter(|_| self.has_reproduced(&tried)) {
            // If that fails, there is no run, which is said.
            _ = fs::File::open(archived)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(archived, run));
        }
        // What stays is removed when the store is opened.
        _ = fs::remove_dir_all(&output);
        tried
    }

    /// Where a candidate's run is, until it is known whether it is the one that is kept.
    fn run_of(&self, candidate: &Candidate) -> PathBuf {
        let name = format!("{}-run-{}", self.id, candidate.id.0);
        self.merges.store.folder().join("attempts").join(name)
    }

    /// A folder of an attempt's own.
    fn output(&self) -> Result<PathBuf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Only tells folders apart; no other memory hangs on it.
        let name = format!("{}-{}", self.id, NEXT.fetch_add(1, Relaxed));
        let path = self.merges.store.folder().join("attempts").join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Error::io("make", &path, e))?;
        Ok(path)
    }
}
