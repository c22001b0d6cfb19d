//! One attempt to bring a failure back: the program is recorded, whole, while its threads keep to access vectors of other runs.
use super::failure::failure_of;
use super::failure::outcome_of;
use super::inputs::RunInputs;
use crate::Error;
use crate::Result;
use crate::campaign::Attempts;
use crate::campaign::Campaign;
use crate::campaign::Keep;
use crate::record::Recording;
use partial_logs::AccessVector;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::Outcome;
use partial_logs::ThreadName;
use run_model::Method;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::Scope;
use run_store::Store;
use runtime_abi::vectors_file::ElementEntry;
use runtime_abi::vectors_file::ElementState;
use runtime_abi::vectors_file::FOLLOWED_FILE_NAME;
use runtime_abi::vectors_file::FollowedHeader;
use runtime_abi::vectors_file::HANGS;
use runtime_abi::vectors_file::MAGIC;
use runtime_abi::vectors_file::NO_NAME;
use runtime_abi::vectors_file::VECTORS_FILE_NAME;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// The program that is run, which need not be where it was when somebody recorded it.
    pub program: &'a Path,
    /// Its arguments, environment and folder. Standard input is that of whoever calls this, and so are files.
    pub given: &'a RunInputs,
    /// With their ranks: where all stand still, the vector with the highest is let go first.
    pub vectors: &'a BTreeMap<ElementId, (AccessVector, u8)>,
    /// Where all stand still, the attempt is over.
    pub is_strict: bool,
    pub timeout: Duration,
    /// The directory of the recording, which must not exist yet.
    pub output: &'a Path,
    pub store: &'a Store,
}

/// What came of it.
#[derive(Debug)]
pub struct Tried {
    pub outcome: Outcome,
    pub failure: Option<Failure>,
    /// All threads waited, and that was the end.
    pub is_stuck: bool,
    /// Vectors that were let go, and those at which threads waited when all stood still.
    pub let_go: Vec<ElementId>,
    pub blamed: Vec<ElementId>,
    /// A run that can be replayed by itself.
    pub run: RunDirectory,
    pub meta: RunMeta,
}

pub fn attempt(attempt: &Attempt<'_>) -> Result<Tried> {
    let mut command = vec![attempt.program.as_os_str().to_owned()];
    let arguments = attempt.given.arguments.iter();
    command.extend(arguments.map(|word| word.as_os_str().to_owned()));
    let campaign = Campaign {
        recording: Recording {
            command,
            settings: RunSettings {
                scope: Scope::Memory,
                method: Method::Leap,
                keep_to_vectors: true,
                ..RunSettings::default()
            },
            redact: Vec::new(),
            timeout: Some(attempt.timeout),
            logging_time_max: None,
            wait: Duration::ZERO,
            tell_waiting: |_| (),
            files: vec![(VECTORS_FILE_NAME, vectors_file(attempt.vectors, attempt.is_strict))],
        },
        output: Some(attempt.output.to_owned()),
        attempts: Attempts::Once,
        keep: Keep::Always,
        name: None,
        is_quiet: true,
    };
    let ready = campaign.prepare_with(attempt.store, &attempt.given.environment, &attempt.given.folder)?;
    let recorded = campaign.run_prepared(&ready, attempt.store, |_| ())?;
    if let Some(error) = recorded.seal_failed {
        return Err(error);
    }
    let Some(run) = recorded.run else {
        return Err(Error::NothingToLearn);
    };
    let followed = Followed::read(&run, attempt.vectors)?;
    let ended = recorded.meta.ending.as_ref().map(|ending| ending.outcome);
    let ended = ended.unwrap_or(run_store::Outcome::Lost);
    Ok(Tried {
        outcome: outcome_of(ended),
        failure: failure_of(&run, ended).filter(|_| !followed.is_stuck),
        is_stuck: followed.is_stuck,
        let_go: followed.let_go,
        blamed: followed.blamed,
        run,
        meta: recorded.meta,
    })
}

/// The file `vectors` (`runtime_abi::vectors_file`).
fn vectors_file(vectors: &BTreeMap<ElementId, (AccessVector, u8)>, is_strict: bool) -> Vec<u8> {
    let mut names = Names::default();
    let mut elements: Vec<u8> = Vec::new();
    let mut runs: Vec<u8> = Vec::new();
    let mut count = 0u64;
    for (id, (vector, rank)) in vectors {
        let of_threads: Vec<u32> = vector.threads.iter().map(|name| names.number(name)).collect();
        elements.extend(id.0.to_le_bytes());
        elements.extend(u32::from(*rank).to_le_bytes());
        elements.extend(count.to_le_bytes());
        elements.extend((vector.runs.len() as u64).to_le_bytes());
        for run in &vector.runs {
            runs.extend(of_threads[run.thread as usize].to_le_bytes());
            runs.extend(0u32.to_le_bytes());
            runs.extend(run.accesses.to_le_bytes());
        }
        count += vector.runs.len() as u64;
    }
    let mut file = Vec::with_capacity(64 + elements.len() + runs.len());
    file.extend(MAGIC.to_le_bytes());
    file.extend((names.entries.len() as u32).to_le_bytes());
    file.extend((vectors.len() as u32).to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend(u32::from(is_strict).to_le_bytes());
    file.extend(0u32.to_le_bytes());
    for (parent, nth) in &names.entries {
        file.extend(parent.to_le_bytes());
        file.extend(nth.to_le_bytes());
    }
    debug_assert_eq!(elements.len(), vectors.len() * size_of::<ElementEntry>());
    file.extend(elements);
    file.extend(runs);
    file
}

/// Numbers of threads' names: a creator's is below those of its children.
struct Names {
    numbers: BTreeMap<ThreadName, u32>,
    entries: Vec<(u32, u32)>,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            numbers: BTreeMap::from([(ThreadName::FIRST, 0)]),
            entries: vec![(NO_NAME, 0)],
        }
    }
}

impl Names {
    fn number(&mut self, name: &ThreadName) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let (nth, steps) = name.0.split_last().map_or((0, &[][..]), |(nth, steps)| (*nth, steps));
        let parent = self.number(&ThreadName(steps.to_vec()));
        let number = self.entries.len() as u32;
        self.entries.push((parent, nth));
        self.numbers.insert(name.clone(), number);
        number
    }
}

/// Has the runtime ended this attempt because its threads wait for ever, and no vector is to blame? Then it took too long, and nobody had to wait for that.
pub(crate) fn hangs(run: &RunDirectory) -> bool {
    let at = std::mem::offset_of!(FollowedHeader, is_stuck);
    let bytes = fs::read(run.file(FOLLOWED_FILE_NAME)).unwrap_or_default();
    bytes.get(at..at + 4) == Some(&HANGS.to_le_bytes())
}

/// What the runtime says of how far threads came.
struct Followed {
    is_stuck: bool,
    let_go: Vec<ElementId>,
    blamed: Vec<ElementId>,
}

impl Followed {
    fn read(run: &RunDirectory, vectors: &BTreeMap<ElementId, (AccessVector, u8)>) -> Result<Followed> {
        let path = run.file(FOLLOWED_FILE_NAME);
        let bytes = fs::read(&path).map_err(|e| run_store::Error::io("read", &path, e))?;
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map_or(0, u32::from_le_bytes)
        };
        let state = |at: usize| size_of::<FollowedHeader>() + at * size_of::<ElementState>();
        let marked = |offset: usize| {
            let ids = vectors.keys().enumerate();
            let marked = ids.filter(|(at, _)| word(state(*at) + offset) != 0);
            marked.map(|(_, id)| *id).collect()
        };
        Ok(Followed {
            is_stuck: word(std::mem::offset_of!(FollowedHeader, is_stuck)) == 1,
            let_go: marked(std::mem::offset_of!(ElementState, is_let_go)),
            blamed: marked(std::mem::offset_of!(ElementState, was_blamed)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creators_come_before_their_children() {
        let mut names = Names::default();
        let deep = ThreadName(vec![2, 0, 1]);
        assert_eq!(names.number(&deep), 3);
        assert_eq!(names.number(&ThreadName::FIRST), 0);
        assert_eq!(names.number(&ThreadName(vec![2])), 1);
        assert_eq!(names.entries, [(NO_NAME, 0), (0, 2), (1, 0), (2, 1)]);
    }
}
