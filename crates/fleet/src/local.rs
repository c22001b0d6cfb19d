//! Attempts on this machine, with the inputs of a run that was recorded here.
use crate::arguments::TryArguments;
use crate::outcomes;
use crate::output;
use crate::output::count;
use crate::output::say;
use crate::trouble::Result;
use crate::trouble::Trouble;
use crate::trying::Answer;
use crate::trying::Request;
use crate::trying::Vectors;
use crate::trying::try_apart;
use partial_logs::BuildId;
use replayer::fleet;
use replayer::fleet::RunInputs;
use run_store::RunDirectory;
use run_store::Store;
use run_store::shown_path;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What is tried, and where.
pub struct Bench {
    program: PathBuf,
    inputs: RunInputs,
    timeout: Duration,
    /// Of this command alone; removed with it.
    folder: PathBuf,
    attempts: AtomicU64,
}

impl Bench {
    /// With what this run was given.
    pub fn of_run(run: &RunDirectory, store: &Store, timeout: Duration) -> Result<Bench> {
        let (meta, _) = run.load()?;
        let inputs = match RunInputs::gather(run) {
            Ok(inputs) => inputs,
            // It meets the world as it is here, as far as that is what it met.
            Err(why) => {
                say(format_args!("{why}"));
                RunInputs::of_command(&meta)
            }
        };
        let program = PathBuf::from(meta.executable.path.as_os_str());
        check_build(&program, fleet::build_of(&meta)?)?;
        let folder = store
            .root()
            .join("fleet")
            .join(format!("attempts-{}", std::process::id()));
        // Of one who had our number, and was killed.
        let _ = fs::remove_dir_all(&folder);
        run_store::create_directories(&folder)
            .map_err(|e| Trouble::unusable(format!("cannot create {}: {e}", shown_path(&folder))))?;
        Ok(Bench {
            program,
            inputs,
            timeout,
            folder,
            attempts: AtomicU64::new(0),
        })
    }

    pub fn attempt(&self, vectors: &Vectors, is_strict: bool) -> Result<Answer> {
        // Relaxed: a lone number, which tells folders apart.
        let number = self.attempts.fetch_add(1, Relaxed);
        let folder = self.folder.join(number.to_string());
        run_store::create_directories(&folder)
            .map_err(|e| Trouble::unusable(format!("cannot create {}: {e}", shown_path(&folder))))?;
        let request = Request {
            program: &self.program,
            inputs: &self.inputs,
            vectors,
            is_strict,
            timeout: self.timeout,
            folder: &folder,
        };
        try_apart(&request, &|| false)
    }

    /// An attempt that did not end as wanted takes no room.
    pub fn discard(&self, answer: &Answer) {
        if let Some(folder) = answer.run.parent() {
            // Removed with all the others at the end.
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// Keeps a recording as a run: packed and unpacked, so that it depends on nothing that goes with this folder.
    pub fn keep(&self, answer: &Answer, store: &Store, output: Option<&Path>) -> Result<RunDirectory> {
        let archive = self.folder.join("run.refrain");
        let _ = fs::remove_file(&archive);
        let run = store.open(Some(answer.run.as_os_str()))?;
        replayer::pack(&run, &archive)?;
        let unpacked = run_store::unpack(store, &archive, output)?;
        store.set_latest(&unpacked.run)?;
        Ok(unpacked.run)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What stays is in a folder whose name says what it was.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The program is still the one that was recorded.
fn check_build(program: &Path, build: BuildId) -> Result<()> {
    let bytes =
        fs::read(program).map_err(|e| Trouble::unusable(format!("cannot read {}: {e}", shown_path(program))))?;
    match *blake3::hash(&bytes).as_bytes() == build.0 {
        true => Ok(()),
        false => Err(Trouble::unusable(format!(
            "{} is another program than was recorded; it was built again since",
            shown_path(program)
        ))),
    }
}

/// `refrain fleet try`: keeps the program to what one run has recorded, again and again.
pub fn try_run(arguments: &TryArguments) -> Result<u8> {
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let log = fleet::partial_log(run.clone())?;
    let Some(wanted) = &log.failure else {
        return Err(Trouble::usage("the run did not fail: there is nothing to bring back"));
    };
    let vectors = log
        .elements
        .iter()
        .filter(|(_, recorded)| !recorded.vector.runs.is_empty());
    let vectors: Vectors = vectors
        .map(|(id, recorded)| (*id, (recorded.vector.clone(), 0)))
        .collect();
    let bench = Bench::of_run(&run, &store, Duration::from_secs(arguments.attempt_timeout))?;
    let (mut same, mut other, mut passed, mut stuck) = (0u64, 0u64, 0u64, 0u64);
    for _ in 0..arguments.attempts {
        let answer = bench.attempt(&vectors, arguments.strict)?;
        match &answer.failure {
            Some(failure) if failure == wanted => same += 1,
            Some(_) => other += 1,
            None if answer.is_stuck => stuck += 1,
            None => passed += 1,
        }
        bench.discard(&answer);
    }
    if arguments.json {
        output::json(&json!({
            "attempts": arguments.attempts, "same": same, "other": other, "passed": passed, "stuck": stuck,
            "failure": outcomes::failure_json(wanted),
        }))?;
    } else {
        say(format_args!(
            "{same} of {} failed the same way ({}); {other} failed otherwise, {passed} passed, {stuck} came to a standstill",
            count(arguments.attempts, "attempt"),
            outcomes::described(wanted)
        ));
    }
    Ok(if same > 0 { 0 } else { crate::merge::NOT_REPRODUCED })
}
