//! One attempt, in a process of its own: it is limited in time, and whoever gives it up is rid of all that it started.
//!
//! The folder of an attempt:
//!
//! ```text
//! given      the inputs (`replayer::fleet::RunInputs`)
//! stdin      standard input
//! vectors    element (4 bytes), rank (1), length (4), vector; for each
//! file-N     files that are not here as they were
//! run        the recording
//! tried      what came of it, as JSON
//! ```
use crate::outcomes;
use crate::trouble::Result;
use crate::trouble::Trouble;
use partial_logs::AccessVector;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::Outcome;
use replayer::fleet;
use replayer::fleet::RunInputs;
use run_store::Store;
use run_store::shown_path;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process_group;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::path::PathBuf;
use std::process;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The hidden command that a process of its own is started with.
pub const COMMAND: &str = "attempt-in-folder";
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Beside the program's own time: to start, to end, and to write down what came of it.
const GRACE: Duration = Duration::from_secs(30);
const ERRORS_BYTES_MAX: u64 = 64 << 10;
/// Nobody waits for the answer any more.
const ABANDONED: i32 = 4;

pub type Vectors = BTreeMap<ElementId, (AccessVector, u8)>;

#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub program: &'a Path,
    pub inputs: &'a RunInputs,
    pub vectors: &'a Vectors,
    pub is_strict: bool,
    pub timeout: Duration,
    /// Empty, and the attempt's own.
    pub folder: &'a Path,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub failure: Option<Failure>,
    pub is_stuck: bool,
    pub let_go: Vec<ElementId>,
    pub blamed: Vec<ElementId>,
    /// The recording, which can be replayed by itself.
    pub run: PathBuf,
}

/// Tries in a process of its own, until that has an answer, its time is over, or `is_stopped` says so.
pub fn try_apart(request: &Request<'_>, is_stopped: &dyn Fn() -> bool) -> Result<Answer> {
    let folder = request.folder;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        run_store::write_file(&path, bytes).map_err(|e| cannot("write", &path, &e))
    };
    write("given", &request.inputs.encode())?;
    write("stdin", &request.inputs.standard_input)?;
    write("vectors", &encode(request.vectors))?;
    let open = |name: &str| File::open(folder.join(name)).map_err(|e| cannot("read", &folder.join(name), &e));
    let errors = folder.join("errors");
    let errors_file = run_store::create_file(&errors).map_err(|e| cannot("create", &errors, &e))?;
    let own = env::current_exe().map_err(|e| Trouble::unusable(format!("cannot find refrain-fleet itself: {e}")))?;
    let mut command = Command::new(own);
    command
        .arg(COMMAND)
        .arg(folder)
        .arg(request.program)
        .arg(request.timeout.as_millis().to_string())
        .args(request.is_strict.then_some("strict"))
        .stdin(open("stdin")?)
        .stdout(Stdio::null())
        .stderr(errors_file)
        .process_group(0);
    let mut child = request.inputs.spawn(&mut command, folder)?;
    let deadline = Instant::now() + request.timeout + GRACE;
    let is_over = wait(&mut child, deadline, is_stopped);
    // Whatever it has left behind.
    kill_group(child.id());
    // A zombie at worst.
    let _ = child.wait();
    if !is_over {
        return Err(Trouble::passing("the attempt was given up"));
    }
    let Ok(text) = fs::read(folder.join("tried")) else {
        return Err(Trouble::unusable(said(&errors)));
    };
    let answer = serde_json::from_slice(&text)
        .ok()
        .and_then(|value| read_answer(&value, folder));
    answer.ok_or_else(|| Trouble::unusable(format!("{} is damaged", shown_path(&folder.join("tried")))))
}

/// Has it ended by itself?
fn wait(child: &mut Child, deadline: Instant, is_stopped: &dyn Fn() -> bool) -> bool {
    while Instant::now() < deadline && !is_stopped() {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        thread::sleep(LOOK_EVERY);
    }
    false
}

fn kill_group(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // Gone already, mostly.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The last line that the attempt's process has said.
fn said(errors: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(file) = File::open(errors) {
        // What cannot be read is not told.
        let _ = file.take(ERRORS_BYTES_MAX).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find_map(|line| line.strip_prefix("refrain: "));
    line.unwrap_or("the attempt ended without an answer").to_owned()
}

/// The other side: what the process that was started does. Arguments: folder, program, milliseconds, `strict` or not.
pub fn in_folder(arguments: &[std::ffi::OsString]) -> Result<u8> {
    let usage = || Trouble::usage(format!("{COMMAND} is not for people"));
    let [folder, program, milliseconds, rest @ ..] = arguments else {
        return Err(usage());
    };
    let milliseconds = milliseconds
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(usage)?;
    die_with_parent();
    let folder = Path::new(folder);
    let read = |name: &str| fs::read(folder.join(name)).map_err(|e| cannot("read", &folder.join(name), &e));
    let given = RunInputs::decode(&read("given")?).map_err(Trouble::unusable)?;
    let vectors = decode(&read("vectors")?)
        .ok_or_else(|| Trouble::unusable(format!("{} is damaged", shown_path(&folder.join("vectors")))))?;
    let output = folder.join("run");
    let tried = fleet::attempt(&fleet::Attempt {
        program: Path::new(program),
        given: &given,
        vectors: &vectors,
        is_strict: rest.first().is_some_and(|word| word == "strict"),
        timeout: Duration::from_millis(milliseconds),
        output: &output,
        // Nobody is to find its run as the latest.
        store: &Store::at(folder)?,
    })?;
    let ids = |ids: &[ElementId]| ids.iter().map(|id| id.0).collect::<Vec<u32>>();
    let answer = json!({
        "outcome": outcomes::outcome_json(tried.outcome),
        "failure": tried.failure.as_ref().map(outcomes::failure_json),
        "is_stuck": tried.is_stuck,
        "let_go": ids(&tried.let_go),
        "blamed": ids(&tried.blamed),
    });
    let (part, path) = (folder.join("tried.part"), folder.join("tried"));
    let write = || {
        run_store::write_file(&part, answer.to_string().as_bytes())?;
        fs::rename(&part, &path)
    };
    write().map_err(|e| cannot("write", &path, &e))?;
    Ok(0)
}

/// When whoever started us is gone, so are we, and the program.
fn die_with_parent() {
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(LOOK_EVERY * 20);
        }
        kill_group(process::id());
        process::exit(ABANDONED);
    });
}

fn encode(vectors: &Vectors) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, (vector, rank)) in vectors {
        let vector = vector.encode();
        bytes.extend(id.0.to_le_bytes());
        bytes.push(*rank);
        bytes.extend((vector.len() as u32).to_le_bytes());
        bytes.extend(vector);
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<Vectors> {
    let mut vectors = Vectors::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_first_chunk::<9>()?;
        let [a, b, c, d, rank, e, f, g, h] = *head;
        let length = u32::from_le_bytes([e, f, g, h]) as usize;
        let (vector, rest) = rest.split_at_checked(length)?;
        let id = ElementId(u32::from_le_bytes([a, b, c, d]));
        vectors.insert(id, (AccessVector::decode(vector).ok()?, rank));
        bytes = rest;
    }
    Some(vectors)
}

fn read_answer(value: &Value, folder: &Path) -> Option<Answer> {
    let ids = |name: &str| -> Option<Vec<ElementId>> {
        let ids = value[name].as_array()?.iter();
        ids.map(|id| Some(ElementId(u32::try_from(id.as_u64()?).ok()?)))
            .collect()
    };
    Some(Answer {
        outcome: outcomes::outcome_of(&value["outcome"])?,
        failure: match &value["failure"] {
            Value::Null => None,
            failure => Some(outcomes::failure_of(failure)?),
        },
        is_stuck: value["is_stuck"].as_bool()?,
        let_go: ids("let_go")?,
        blamed: ids("blamed")?,
        run: folder.join("run"),
    })
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::unusable(format!("cannot {doing} {}: {error}", shown_path(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use partial_logs::ThreadName;

    #[test]
    fn vectors_come_back_from_their_file() {
        let vector = AccessVector::of_turns([(ThreadName::FIRST, 3), (ThreadName::FIRST.child(1), 2)]);
        let vectors = Vectors::from([
            (ElementId(7), (vector, 2)),
            (ElementId(9), (AccessVector::default(), 0)),
        ]);
        let bytes = encode(&vectors);
        assert_eq!(decode(&bytes), Some(vectors));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
    }
}
