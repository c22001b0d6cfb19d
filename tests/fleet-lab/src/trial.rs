//! Attempts, several at a time.
use crate::kept;
use partial_logs::AccessVector;
use partial_logs::ElementId;
use partial_logs::Failure;
use replayer::fleet;
use replayer::fleet::Attempt;
use replayer::fleet::RunInputs;
use replayer::fleet::Tried;
use run_store::Store;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

pub type Vectors = BTreeMap<ElementId, (AccessVector, u8)>;

/// What is tried once.
pub struct Trial {
    pub vectors: Vectors,
    pub is_strict: bool,
}

/// What the attempts of one process have in common.
pub struct Trials<'a> {
    program: &'a Path,
    given: RunInputs,
    pub failure: Failure,
    folder: PathBuf,
}

/// Attempts that take longer hang, and the runtime has not found out.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What came of one attempt.
pub struct Came {
    pub is_reproduced: bool,
    pub tried: Option<Summary>,
}

pub struct Summary {
    pub is_stuck: bool,
    pub failure: Option<Failure>,
    pub let_go: Vec<ElementId>,
    pub blamed: Vec<ElementId>,
}

pub fn processors() -> u64 {
    thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

impl<'a> Trials<'a> {
    pub fn new(program: &'a Path, folder: &Path, failure: &Failure) -> Result<Trials<'a>, Box<dyn Error>> {
        let tries = folder.join(format!("tries-{}", std::process::id()));
        fs::create_dir_all(&tries)?;
        Ok(Trials {
            program,
            given: RunInputs::of_command(&kept::base(folder)?),
            failure: failure.clone(),
            folder: tries,
        })
    }

    /// As many at a time as there are processors; answers are in the order of the trials.
    pub fn all(&self, trials: &[Trial]) -> Result<Vec<Came>, Box<dyn Error>> {
        let next = AtomicUsize::new(0);
        let answers: Mutex<BTreeMap<usize, Result<Came, String>>> = Mutex::new(BTreeMap::new());
        let work = |worker: u64| {
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(trial) = trials.get(at) else { break };
                let came = self.one(trial, worker).map_err(|error| error.to_string());
                if let Ok(mut answers) = answers.lock() {
                    answers.insert(at, came);
                }
            }
        };
        thread::scope(|scope| {
            let work = &work;
            (0..processors()).for_each(|worker| _ = scope.spawn(move || work(worker)));
        });
        let answers = answers.into_inner().map_err(|_| "an attempt panicked")?;
        Ok(answers.into_values().collect::<Result<Vec<Came>, String>>()?)
    }

    fn one(&self, trial: &Trial, worker: u64) -> Result<Came, Box<dyn Error>> {
        let store = Store::at(&self.folder.join(format!("store-{worker}")))?;
        let output = self.folder.join(format!("try-{worker}"));
        let tried = fleet::attempt(&Attempt {
            program: self.program,
            given: &self.given,
            vectors: &trial.vectors,
            is_strict: trial.is_strict,
            timeout: TIMEOUT,
            output: &output,
            store: &store,
        })?;
        let _ = fs::remove_dir_all(&output);
        Ok(self.came(tried))
    }

    fn came(&self, tried: Tried) -> Came {
        Came {
            is_reproduced: tried.failure.as_ref() == Some(&self.failure),
            tried: Some(Summary {
                is_stuck: tried.is_stuck,
                failure: tried.failure,
                let_go: tried.let_go,
                blamed: tried.blamed,
            }),
        }
    }
}

impl Drop for Trials<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
