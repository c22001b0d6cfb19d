//! Runs -> logs in the queue -> the server.
use crate::arguments::ServerArguments;
use crate::arguments::ShowArguments;
use crate::arguments::UploadArguments;
use crate::hex::hex;
use crate::outcomes;
use crate::output;
use crate::output::count;
use crate::output::say;
use crate::queue::Queue;
use crate::queue::Waiting;
use crate::remote::Remote;
use crate::trouble::Result;
use crate::trouble::Trouble;
use partial_logs::BuildId;
use partial_logs::PartialLog;
use replayer::fleet;
use replayer::fleet::Advice;
use replayer::fleet::RunInputs;
use run_store::RunDirectory;
use run_store::Store;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

/// How often a server that is busy, or just starting, is asked again, and after how long: each time for twice as long.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// What became of what was sent.
#[derive(Default)]
struct Sent {
    accepted: u64,
    known: u64,
    refused: Vec<String>,
}

pub fn upload(arguments: &UploadArguments) -> Result<u8> {
    let ServerArguments { to, token_file } = &arguments.server;
    let store = Store::from_environment()?;
    // The log is in the queue before anything is asked of the server.
    let queue = Queue::open(&store, to.trim_end_matches('/'))?;
    let mut prepared = Vec::new();
    if !arguments.queued {
        for run in chosen_runs(&store, arguments)? {
            prepared.push(prepare(&run, &queue, arguments.with_inputs)?);
        }
    }
    let sent = Remote::new(to, token_file).and_then(|remote| send_all(&remote, &queue, &store));
    let waiting = queue.hashes()?.len() as u64;
    let sent = sent.map_err(|trouble| with_waiting(trouble, waiting))?;
    if arguments.json {
        output::json(&json!({
            "logs": prepared,
            "accepted": sent.accepted,
            "known": sent.known,
            "refused": sent.refused,
            "waiting": waiting,
        }))?;
    } else {
        let known = match sent.known {
            0 => String::new(),
            known => format!(", {} it had already", count(known, "log")),
        };
        say(format_args!(
            "the server has taken {}{known}",
            count(sent.accepted, "log")
        ));
    }
    match sent.refused.first() {
        None => Ok(0),
        Some(why) => Err(Trouble::unusable(format!(
            "the server refuses {}: {why}",
            count(sent.refused.len() as u64, "log")
        ))),
    }
}

/// Nothing is lost: it is said where it is.
fn with_waiting(trouble: Trouble, waiting: u64) -> Trouble {
    if waiting == 0 {
        return trouble;
    }
    let verb = if waiting == 1 { "waits" } else { "wait" };
    Trouble {
        sentence: format!(
            "{}; {} {verb} on the disk, and the next `refrain fleet upload` sends {}",
            trouble.sentence,
            count(waiting, "log"),
            if waiting == 1 { "it" } else { "them" }
        ),
        ..trouble
    }
}

fn chosen_runs(store: &Store, arguments: &UploadArguments) -> Result<Vec<RunDirectory>> {
    if arguments.runs.is_empty() {
        return Ok(vec![store.open(None)?]);
    }
    let runs = arguments.runs.iter().map(|run| Ok(store.open(Some(run))?));
    runs.collect()
}

/// Puts the log of a run into the queue. Returns its hash.
fn prepare(run: &RunDirectory, queue: &Queue, with_inputs: bool) -> Result<String> {
    let inputs = match with_inputs {
        true => Some(RunInputs::gather(run)?.encode()),
        false => None,
    };
    let log = fleet::partial_log(run.clone())?.encode();
    queue.add(&log, inputs.as_deref())
}

/// Sends all that waits, and asks what is worth recording of the programs that it is about.
fn send_all(remote: &Remote, queue: &Queue, store: &Store) -> Result<Sent> {
    let mut sent = Sent::default();
    let mut builds = BTreeSet::new();
    let mut hashes = queue.hashes()?;
    loop {
        let batch = queue.batch(&mut hashes);
        if batch.is_empty() {
            break;
        }
        send(remote, queue, &batch, &mut sent)?;
        let of_build = |waiting: &Waiting| PartialLog::decode(&waiting.log).ok().map(|log| log.build);
        builds.extend(batch.iter().filter_map(of_build));
    }
    for build in builds {
        take_advice(remote, store, build);
    }
    Ok(sent)
}

fn send(remote: &Remote, queue: &Queue, batch: &[Waiting], sent: &mut Sent) -> Result<()> {
    let mut body = Vec::new();
    for Waiting { log, .. } in batch {
        body.extend((log.len() as u32).to_le_bytes());
        body.extend(log);
    }
    let answer = with_patience(|| remote.post_bytes("logs", &body))?;
    let answers = answer["logs"].as_array().filter(|answers| answers.len() == batch.len());
    let Some(answers) = answers else {
        return Err(Trouble::unusable(format!(
            "{} answers otherwise than a server of a fleet does",
            remote.url()
        )));
    };
    for (Waiting { hash, .. }, answer) in batch.iter().zip(answers) {
        match answer["status"].as_str() {
            Some("accepted") => sent.accepted += 1,
            Some("duplicate") => sent.known += 1,
            _ => {
                let why = answer["why"].as_str().unwrap_or("it does not say why");
                sent.refused.push(why.to_owned());
                queue.remove(hash);
                continue;
            }
        }
        if let Some(inputs) = queue.inputs(hash) {
            let path = format!("logs/{hash}/inputs?blake3={}", blake3::hash(&inputs).to_hex());
            with_patience(|| remote.put(&path, &inputs))?;
        }
        queue.remove(hash);
    }
    Ok(())
}

/// Again, as long as that may help.
pub fn with_patience<T>(mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match ask() {
            Err(trouble) if trouble.may_pass => thread::sleep(pause),
            other => return other,
        }
        pause *= 2;
    }
    ask()
}

/// Which elements are worth recording. Recordings are as true without.
fn take_advice(remote: &Remote, store: &Store, build: BuildId) {
    let Ok(advice) = remote.get(&format!("advice/{}", hex(&build.0))) else {
        return;
    };
    if let Ok(advice) = serde_json::from_value::<Advice>(advice) {
        // Best effort, as the rest of it.
        let _ = advice.save(store, build);
    }
}

pub fn show(arguments: &ShowArguments) -> Result<u8> {
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let inputs = match arguments.with_inputs {
        true => Some(RunInputs::gather(&run)?),
        false => None,
    };
    let log = fleet::partial_log(run)?;
    match arguments.json {
        true => output::json(&log_json(&log, inputs.as_ref()))?,
        false => show_lines(&log, inputs.as_ref())?,
    }
    Ok(0)
}

fn log_json(log: &PartialLog, inputs: Option<&RunInputs>) -> Value {
    let element = |(id, recorded): (&partial_logs::ElementId, &partial_logs::RecordedElement)| {
        let turns = recorded
            .vector
            .turns()
            .map(|(name, accesses)| json!([name.to_string(), accesses]));
        json!({
            "element": id.0,
            "hash": hex(&recorded.hash.0),
            "accesses": recorded.vector.accesses(),
            "has_conflict": recorded.has_conflict,
            "turns": turns.collect::<Vec<_>>(),
        })
    };
    let mut value = json!({
        "build": hex(&log.build.0),
        "inputs_digest": hex(&log.inputs.0),
        "share_percent": f64::from(log.pattern.share) / 100.0,
        "pattern": log.pattern.number,
        "outcome": outcomes::outcome_json(log.outcome),
        "failure": log.failure.as_ref().map(outcomes::failure_json),
        "elements": log.elements.iter().map(element).collect::<Vec<_>>(),
        "bytes": log.encode().len(),
    });
    if let Some(inputs) = inputs {
        value["inputs"] = json!({
            "arguments": inputs.arguments,
            "environment": inputs.environment,
            "folder": inputs.folder,
            "standard_input_bytes": inputs.standard_input.len(),
            "files": inputs.files.iter().map(|(path, bytes)| json!([path, bytes.len()])).collect::<Vec<_>>(),
        });
    }
    value
}

fn show_lines(log: &PartialLog, inputs: Option<&RunInputs>) -> Result<()> {
    let failure = log.failure.as_ref().map_or("it passed".to_owned(), outcomes::described);
    output::line(&format!("build       {}", hex(&log.build.0)))?;
    output::line(&format!("inputs      {} (a digest)", hex(&log.inputs.0)))?;
    output::line(&format!("ended       {failure}"))?;
    output::line(&format!(
        "pattern     {} of {} %",
        log.pattern.number,
        f64::from(log.pattern.share) / 100.0
    ))?;
    for (id, recorded) in &log.elements {
        output::line(&format!(
            "element     {} with {} in {}",
            id.0,
            output::count_of(recorded.vector.accesses(), "access", "accesses"),
            count(recorded.vector.runs.len() as u64, "turn")
        ))?;
    }
    let Some(inputs) = inputs else { return Ok(()) };
    for argument in &inputs.arguments {
        output::line(&format!("argument    {argument}"))?;
    }
    for (name, value) in &inputs.environment {
        output::line(&format!("variable    {name}={value}"))?;
    }
    output::line(&format!("folder      {}", inputs.folder))?;
    output::line(&format!(
        "stdin       {}",
        output::count_of(inputs.standard_input.len() as u64, "byte", "bytes")
    ))?;
    for (path, bytes) in &inputs.files {
        output::line(&format!(
            "file        {path}, {}",
            output::count_of(bytes.len() as u64, "byte", "bytes")
        ))?;
    }
    Ok(())
}
