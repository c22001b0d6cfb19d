//! `refrain fleet fetch`: what the server puts together is tried here, where the inputs are. Verdicts go back, and nothing else.
use crate::arguments::FetchArguments;
use crate::hex::hex;
use crate::local::Bench;
use crate::merge::check_output;
use crate::merge::conclude_without;
use crate::merge::id_of;
use crate::merge::plain;
use crate::merge::wanted;
use crate::merge::watch;
use crate::outcomes;
use crate::output;
use crate::output::count;
use crate::output::say;
use crate::questions::bug_id;
use crate::remote::Remote;
use crate::trouble::Result;
use crate::trouble::Trouble;
use crate::trying::Answer;
use crate::trying::Vectors;
use crate::upload::with_patience;
use partial_logs::AccessVector;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::ReduceSettings;
use partial_logs::Reducer;
use replayer::fleet;
use run_store::RunDirectory;
use run_store::RunState;
use run_store::Store;
use run_store::shown_path;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

/// How often what has reproduced the failure is tried again, to see whether that was luck.
const REPETITIONS: u32 = 5;
/// Attempts to find out which elements matter.
const REDUCING: ReduceSettings = ReduceSettings { times: 2, budget: 60 };

pub fn fetch(arguments: &FetchArguments) -> Result<u8> {
    let store = Store::from_environment()?;
    check_output(arguments.output.as_deref())?;
    let remote = Remote::new(&arguments.server.to, &arguments.server.token_file)?;
    let id = bug_id(arguments.bug.as_deref(), &remote)?;
    let bug = with_patience(|| remote.get(&format!("bugs/{id}")))?;
    let strange = || {
        Trouble::unusable(format!(
            "{} answers otherwise than a server of a fleet does",
            remote.url()
        ))
    };
    let failure = outcomes::failure_of(&bug).ok_or_else(strange)?;
    let run = match &arguments.run {
        Some(run) => store.open(Some(run))?,
        None => a_run_of(&store, bug["build"].as_str().ok_or_else(strange)?, &failure)?,
    };
    let mut wanted = wanted(&arguments.merging);
    wanted["attempts"] = json!(arguments.attempts);
    wanted["inputs"] = json!(hex(&fleet::outline(run.clone())?.inputs.0));
    let mut hunt = Hunt {
        bench: Bench::of_run(&run, &store, Duration::from_secs(arguments.attempt_timeout))?,
        remote: &remote,
        known: BTreeMap::new(),
        failure,
        attempts: 0,
    };
    let begun = with_patience(|| remote.post(&format!("bugs/{id}/fetches"), &wanted))?;
    let number = id_of(&begun, &remote)?;
    let state = match hunt.follow(&number, begun)? {
        Ok(found) => return hunt.conclude(&found, &store, arguments),
        Err(state) => state,
    };
    // Of a merge that is over, the server says how it ended.
    let (state, said) = match state.as_str() {
        "over" => {
            let merge = watch(&remote, &number)?;
            let text = |name: &str| merge[name].as_str().unwrap_or_default().to_owned();
            (text("state"), text("said"))
        }
        _ => (state, String::new()),
    };
    if arguments.json {
        output::json(&json!({ "reproduced": false, "state": state, "said": said, "attempts": hunt.attempts }))?;
    }
    conclude_without(&state, &said, hunt.attempts)
}

/// A run of this build that failed so, or at least one of this build: it has the inputs.
fn a_run_of(store: &Store, build: &str, failure: &Failure) -> Result<RunDirectory> {
    let mut same_build = None;
    for run in store.list()?.into_iter().rev() {
        let Ok((meta, RunState::Complete)) = run.load() else {
            continue;
        };
        if meta.executable.hash != build {
            continue;
        }
        let Ok(log) = fleet::outline(run.clone()) else {
            continue;
        };
        if log.failure.as_ref() == Some(failure) {
            return Ok(run);
        }
        same_build.get_or_insert(run);
    }
    same_build.ok_or_else(|| {
        Trouble::unusable(format!(
            "no run of build {} is in {}: fetch where one was recorded, or name one with --run",
            build.get(..16).unwrap_or(build),
            shown_path(store.root())
        ))
    })
}

/// What has reproduced the failure.
struct Found {
    number: u64,
    vectors: Vectors,
    is_strict: bool,
    answer: Answer,
}

struct Candidate {
    number: u64,
    vectors: Vectors,
    is_strict: bool,
}

struct Hunt<'a> {
    bench: Bench,
    remote: &'a Remote,
    /// Vectors that the server has sent, by their hashes.
    known: BTreeMap<String, AccessVector>,
    failure: Failure,
    attempts: u64,
}

impl Hunt<'_> {
    /// Tries what the server gives until one fails the same way, or there is no more: then, how that is called.
    fn follow(&mut self, id: &str, begun: Value) -> Result<std::result::Result<Found, String>> {
        let mut waiting: VecDeque<Candidate> = VecDeque::new();
        let mut given = begun;
        let at_a_time = thread::available_parallelism().map_or(1, usize::from);
        loop {
            for candidate in given["candidates"].as_array().into_iter().flatten() {
                waiting.push_back(self.candidate(candidate)?);
            }
            let state = given["state"].as_str().unwrap_or_default();
            if state != "running" {
                return Ok(Err(state.to_owned()));
            }
            let now: Vec<Candidate> = (0..at_a_time).map_while(|_| waiting.pop_front()).collect();
            if now.is_empty() {
                return Err(Trouble::unusable(format!(
                    "{} has nothing to try, and does not say so",
                    self.remote.url()
                )));
            }
            let answers = self.try_all(&now)?;
            let mut verdicts = Vec::new();
            let mut found = None;
            for (candidate, answer) in now.into_iter().zip(answers) {
                let verdict = self.verdict(&answer);
                let ids = |ids: &[ElementId]| ids.iter().map(|id| id.0).collect::<Vec<u32>>();
                verdicts.push(json!({
                    "number": candidate.number, "verdict": verdict,
                    "let_go": ids(&answer.let_go), "blamed": ids(&answer.blamed),
                }));
                match verdict == "reproduced" && found.is_none() {
                    true => {
                        found = Some(Found {
                            number: candidate.number,
                            vectors: candidate.vectors,
                            is_strict: candidate.is_strict,
                            answer,
                        });
                    }
                    false => self.bench.discard(&answer),
                }
            }
            given = with_patience(|| {
                self.remote
                    .post(&format!("fetches/{id}"), &json!({ "verdicts": verdicts }))
            })?;
            if let Some(found) = found {
                return Ok(Ok(found));
            }
        }
    }

    fn try_all(&mut self, candidates: &[Candidate]) -> Result<Vec<Answer>> {
        self.attempts += candidates.len() as u64;
        let bench = &self.bench;
        thread::scope(|scope| {
            let try_one = |candidate: &'_ Candidate| bench.attempt(&candidate.vectors, candidate.is_strict);
            let started: Vec<_> = candidates
                .iter()
                .map(|candidate| scope.spawn(move || try_one(candidate)))
                .collect();
            let joined = started.into_iter().map(|one| one.join());
            joined
                .map(|tried| tried.unwrap_or_else(|_| Err(Trouble::unusable("an attempt could not be made"))))
                .collect()
        })
    }

    /// In the server's words.
    fn verdict(&self, answer: &Answer) -> &'static str {
        match &answer.failure {
            Some(failure) if *failure == self.failure => "reproduced",
            _ if answer.is_stuck => "stuck",
            Some(_) => "other failure",
            None => "passed",
        }
    }

    fn candidate(&mut self, value: &Value) -> Result<Candidate> {
        let remote = self.remote;
        let strange = || Trouble::unusable(format!("{} gives a candidate that is damaged", remote.url()));
        let mut vectors = Vectors::new();
        for element in value["elements"].as_array().ok_or_else(strange)? {
            let id = element["element"].as_u64().and_then(|id| u32::try_from(id).ok());
            let rank = element["rank"].as_u64().and_then(|rank| u8::try_from(rank).ok());
            let hash = plain(element["vector"].as_str().ok_or_else(strange)?)?;
            let vector = self.vector(hash)?;
            vectors.insert(ElementId(id.ok_or_else(strange)?), (vector, rank.ok_or_else(strange)?));
        }
        Ok(Candidate {
            number: value["number"].as_u64().ok_or_else(strange)?,
            vectors,
            is_strict: value["is_strict"].as_bool().ok_or_else(strange)?,
        })
    }

    /// Each is sent once.
    fn vector(&mut self, hash: &str) -> Result<AccessVector> {
        if let Some(vector) = self.known.get(hash) {
            return Ok(vector.clone());
        }
        let bytes = with_patience(|| self.remote.get_bytes(&format!("vectors/{hash}")))?;
        let vector = AccessVector::decode(&bytes)
            .ok()
            .filter(|vector| hex(&vector.hash().0) == hash);
        let vector = vector.ok_or_else(|| {
            Trouble::unusable(format!("{} gives another vector than was asked for", self.remote.url()))
        })?;
        self.known.insert(hash.to_owned(), vector.clone());
        Ok(vector)
    }

    /// The run is kept; it is tried whether it was luck, and which elements matter.
    fn conclude(&mut self, found: &Found, store: &Store, arguments: &FetchArguments) -> Result<u8> {
        let run = self.bench.keep(&found.answer, store, arguments.output.as_deref())?;
        let mut again = 0;
        for _ in 0..REPETITIONS {
            again += u32::from(self.reproduces(&found.vectors, found.is_strict)?);
        }
        let matter = match again == REPETITIONS {
            true => Some(self.reduce(found)?),
            // By luck now and then: leaving elements out would tell nothing.
            false => None,
        };
        let ids = matter
            .as_ref()
            .map(|ids| ids.iter().map(|id| id.0).collect::<Vec<u32>>());
        if arguments.json {
            output::json(&json!({
                "reproduced": true, "attempts": self.attempts, "reproduced_at": found.number + 1,
                "repeated": REPETITIONS, "reproduced_again": again, "elements_that_matter": ids,
                "run": run.path().to_string_lossy(),
            }))?;
        }
        say(format_args!(
            "candidate {} of {} failed the same way ({}), and did so in {again} of {REPETITIONS} repetitions",
            found.number + 1,
            self.attempts,
            outcomes::described(&self.failure)
        ));
        if let Some(matter) = matter {
            say(format_args!(
                "of {} it needs {}",
                count(found.vectors.len() as u64, "vector"),
                matter.len()
            ));
        }
        say(format_args!(
            "replay it with: refrain replay {}",
            shown_path(run.path())
        ));
        Ok(0)
    }

    fn reproduces(&mut self, vectors: &Vectors, is_strict: bool) -> Result<bool> {
        let answer = self.bench.attempt(vectors, is_strict)?;
        self.bench.discard(&answer);
        Ok(self.verdict(&answer) == "reproduced")
    }

    fn reduce(&mut self, found: &Found) -> Result<Vec<ElementId>> {
        let mut order: Vec<(u8, ElementId)> = found.vectors.iter().map(|(id, (_, rank))| (*rank, *id)).collect();
        order.sort_unstable();
        let mut reducer = Reducer::new(order.into_iter().map(|(_, id)| id), REDUCING);
        while let Some(kept) = reducer.next() {
            let fewer = of_elements(&found.vectors, &kept);
            reducer.report(self.reproduces(&fewer, found.is_strict)?);
        }
        Ok(reducer.enough().into_iter().collect())
    }
}

fn of_elements(vectors: &Vectors, kept: &BTreeSet<ElementId>) -> Vectors {
    let kept = vectors.iter().filter(|(id, _)| kept.contains(id));
    kept.map(|(id, vector)| (*id, vector.clone())).collect()
}
