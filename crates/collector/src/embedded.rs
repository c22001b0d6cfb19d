//! Answers from an index in memory, for the bugs at work: it is made from the store, and takes in what came since when it is asked again.
use crate::Result;
use crate::Store;
use crate::questions::BugLogs;
use crate::questions::Correlated;
use crate::questions::Coverage;
use crate::questions::Questions;
use crate::questions::SimilarLog;
use crate::store::BugRow;
use crate::store::LogRow;
use crate::store::Postings;
use partial_logs::ElementId;
use partial_logs::FailingTotal;
use partial_logs::Metric;
use partial_logs::NeighbourSettings;
use partial_logs::Neighbours;
use partial_logs::Threshold;
use partial_logs::UniverseBuilder;
use partial_logs::VectorHash;
use partial_logs::telling_elements;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

/// Bugs that are held, and vectors of logs of all of them: each takes 8 bytes, and some 60 more if no other log has it.
const BUGS_HELD: usize = 32;
const VECTORS_HELD: usize = 64_000_000;
/// Of one bug: logs that come after so many vectors are not looked at.
const VECTORS_MAX: usize = 32_000_000;
/// Passing logs of a build that are looked at: more tell hardly more.
const PASSING_MAX: usize = 50_000;
/// Logs that are read at once.
const PAGE: usize = 1_000;

/// A bug, and the digest of the inputs if only logs of one are asked for.
type Key = (String, Option<[u8; 32]>);

pub struct Embedded {
    store: Arc<Store>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bugs: BTreeMap<Key, Index>,
    /// Grows with every question: who was asked longest ago has the least.
    clock: u64,
}

#[derive(Clone)]
struct Index {
    logs: Arc<BugLogs>,
    /// Everything up to these was taken in.
    failing_last: i64,
    passing_last: i64,
    vectors: usize,
    asked: u64,
}

impl Embedded {
    pub fn new(store: Arc<Store>) -> Embedded {
        Embedded {
            store,
            held: Mutex::default(),
        }
    }

    fn index(&self, project: &str, bug: &BugRow, inputs: Option<[u8; 32]>) -> Result<Arc<BugLogs>> {
        let key = (bug.id.clone(), inputs);
        let found = {
            let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            held.bugs.remove(&key)
        };
        // Whoever asks for the same at the same time makes an index of their own, and the last one is held.
        let mut index = match found {
            Some(index) => index,
            None => self.begin(project, bug)?,
        };
        self.take_in(project, bug, inputs, &mut index)?;
        let logs = index.logs.clone();
        let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        held.hold(key, index);
        Ok(logs)
    }

    fn begin(&self, project: &str, bug: &BugRow) -> Result<Index> {
        let elements = self.store.elements(project, &bug.build)?;
        let universe = UniverseBuilder::new(elements.keys().map(|id| ElementId(*id))).build();
        Ok(Index {
            logs: Arc::new(BugLogs {
                universe,
                hashes: Vec::new(),
            }),
            failing_last: 0,
            passing_last: 0,
            vectors: 0,
            asked: 0,
        })
    }

    fn take_in(&self, project: &str, bug: &BugRow, inputs: Option<[u8; 32]>, index: &mut Index) -> Result<()> {
        let mut builder = None;
        let mut hashes = Vec::new();
        while index.vectors < VECTORS_MAX {
            let page = self.store.failing_postings(&bug.id, index.failing_last, PAGE)?;
            let Some(last) = page.last() else { break };
            index.failing_last = last.log;
            let vectors = self.store.hashes_of(&page)?;
            let builder = builder.get_or_insert_with(|| index.logs.universe.clone().into_builder());
            for postings in page
                .iter()
                .filter(|one| inputs.is_none_or(|inputs| inputs == one.inputs))
            {
                index.vectors += postings.elements.len();
                builder.add_failing(pairs(postings, &vectors));
                hashes.push(postings.hash);
            }
        }
        let mut passing = index.logs.universe.counts().passing as usize;
        while passing < PASSING_MAX && index.vectors < VECTORS_MAX {
            let page = self
                .store
                .passing_postings(project, &bug.build, index.passing_last, PAGE)?;
            let Some(last) = page.last() else { break };
            index.passing_last = last.log;
            passing += page.len();
            index.vectors += page.iter().map(|postings| postings.elements.len()).sum::<usize>();
            let vectors = self.store.hashes_of(&page)?;
            let builder = builder.get_or_insert_with(|| index.logs.universe.clone().into_builder());
            page.iter()
                .for_each(|postings| builder.add_passing(pairs(postings, &vectors)));
        }
        if let Some(builder) = builder {
            let known = index.logs.hashes.iter().copied();
            index.logs = Arc::new(BugLogs {
                universe: builder.build(),
                hashes: known.chain(hashes).collect(),
            });
        }
        Ok(())
    }
}

impl Held {
    fn hold(&mut self, key: Key, mut index: Index) {
        self.clock += 1;
        index.asked = self.clock;
        self.bugs.insert(key, index);
        let vectors = |held: &Held| held.bugs.values().map(|index| index.vectors).sum::<usize>();
        while self.bugs.len() > 1 && (self.bugs.len() > BUGS_HELD || vectors(self) > VECTORS_HELD) {
            let longest_ago = self.bugs.iter().min_by_key(|(_, index)| index.asked);
            let Some(key) = longest_ago.map(|(key, _)| key.clone()) else {
                return;
            };
            self.bugs.remove(&key);
        }
    }
}

fn pairs<'a>(
    postings: &'a Postings,
    vectors: &'a BTreeMap<i64, [u8; 32]>,
) -> impl Iterator<Item = (ElementId, VectorHash)> + 'a {
    let pair = |(element, vector): &(u32, i64)| Some((ElementId(*element), VectorHash(*vectors.get(vector)?)));
    postings.elements.iter().filter_map(pair)
}

impl Questions for Embedded {
    fn bugs(&self, project: &str, most: usize) -> Result<Vec<BugRow>> {
        self.store.bugs(project, most)
    }

    fn logs(&self, bug: &BugRow, after: i64, most: usize) -> Result<Vec<LogRow>> {
        self.store.logs_of_bug(&bug.id, after, most)
    }

    fn coverage(&self, project: &str, bug: &BugRow) -> Result<Vec<Coverage>> {
        let logs = self.index(project, bug, None)?;
        let universe = &logs.universe;
        let coverage = |element: ElementId| Coverage {
            element: element.0,
            recorded: universe.recorded_by(element),
            vectors: universe.vectors_of(element).count() as u64,
        };
        Ok(universe.elements().map(coverage).collect())
    }

    fn correlation(&self, project: &str, bug: &BugRow, most: usize) -> Result<Vec<Correlated>> {
        let logs = self.index(project, bug, None)?;
        let telling = telling_elements(&logs.universe, FailingTotal::OfElement, most);
        let correlated = |telling: partial_logs::Telling| Correlated {
            element: telling.element.0,
            hash: telling.vector.hash.0,
            with: telling.correlation.with,
            recorded: telling.correlation.recorded,
            sensitivity: telling.correlation.sensitivity().as_f64(),
            specificity: telling.correlation.specificity().as_f64(),
            importance: telling.correlation.importance().as_f64(),
        };
        Ok(telling.into_iter().map(correlated).collect())
    }

    fn similars(
        &self,
        project: &str,
        bug: &BugRow,
        log: &[u8; 32],
        metric: Metric,
        threshold: Threshold,
    ) -> Result<Option<Vec<SimilarLog>>> {
        let logs = self.index(project, bug, None)?;
        let Some(log) = logs.find(log) else {
            return Ok(None);
        };
        let settings = NeighbourSettings {
            threshold,
            ..NeighbourSettings::new(metric)
        };
        let similars = Neighbours::new(&logs.universe, settings).similars(log);
        let shown = |similar: partial_logs::Similar| {
            Some(SimilarLog {
                hash: logs.hash(similar.log)?,
                similarity: similar.similarity.ratio().as_f64(),
                equal: similar.similarity.equal,
                differing: similar.similarity.differing,
            })
        };
        Ok(Some(similars.into_iter().filter_map(shown).collect()))
    }

    fn to_merge(&self, project: &str, bug: &BugRow, inputs: Option<[u8; 32]>) -> Result<Arc<BugLogs>> {
        self.index(project, bug, inputs)
    }
}
