//! A run that was recorded whole (by light, or as an attempt is) -> the access vectors of its elements. Such a recording has no vectors, but its replay has all accesses: it is
//! replayed once, traced, and they are counted there. So a client that could afford it gives a base that has no gaps, or has none where it synchronises.
//!
//! Where accesses of an element are not ordered in the recording, because they do not conflict, the vector has the order that they had in that replay. Reads of a loop
//! that spins are fewer than they were. Memory that has no name is left out.
use super::choice::elements_of;
use super::names;
use crate::Error;
use crate::Result;
use crate::explain::Traced;
use crate::explain::traced;
use crate::prepare::Unobserved;
use failure_report::Entry;
use failure_report::Traces;
use failure_report::What;
use instrumentor::sites::SiteKind;
use instrumentor::spes::SpeKind;
use partial_logs::AccessVector;
use partial_logs::ElementId;
use partial_logs::RecordedElement;
use partial_logs::ThreadName;
use run_model::CellUse;
use run_model::Op;
use run_model::SiteId;
use run_store::RunDirectory;
use run_store::Scope;
use runtime_abi::CELL_BYTES;
use std::collections::BTreeMap;
use std::path::Path;

/// The elements of a run's whole program; where only synchronisation was recorded, those that are locks and their kin.
pub fn elements_of_whole(run: &RunDirectory, scope: Scope) -> Result<BTreeMap<ElementId, RecordedElement>> {
    let name = run.path().to_string_lossy();
    let Traced {
        loaded,
        verdict,
        traces,
        completed,
        ..
    } = traced(run.clone(), &name, &Unobserved)?;
    let not_followed = |why: String| Error::NotFollowed {
        path: run.path().to_owned(),
        why,
    };
    let recorded = || loaded.logs.threads.iter().map(|log| log.events);
    // If only synchronisation was recorded, who wins a race is up to the replay, and so is whether it fails. But what came before is in the recorded order: all
    // that the threads did but for the one that failed, which has told people about it since.
    let failed = loaded.ended_in.map_or(0, |(thread, _)| thread as usize);
    let comes_so_far = || {
        let mut threads = recorded().zip(&completed).enumerate();
        completed.len() >= recorded().len() && threads.all(|(thread, (all, done))| thread == failed || all <= *done)
    };
    let is_followed = verdict.identical || scope == Scope::Sync && comes_so_far();
    if !is_followed {
        return Err(not_followed("its replay was another run".to_owned()));
    }
    let mut traces = traces?;
    for (trace, events) in traces.threads.iter_mut().zip(recorded()) {
        trace.entries.retain(|entry| entry.event < events);
    }
    let lost: u64 = traces
        .threads
        .iter()
        .map(|trace| trace.private_lost + trace.shared_lost)
        .sum();
    let skips = |entry: &Entry| matches!(entry.what, What::Skipping);
    if lost > 0 || traces.threads.iter().any(|trace| trace.entries.iter().any(skips)) {
        return Err(not_followed(
            "it has more accesses than a traced replay keeps".to_owned(),
        ));
    }
    let names = names::of_threads(&loaded.logs);
    let mut vectors = vectors(&traces, &names, |site| loaded.sites.accessed(site));
    let program = Path::new(loaded.meta.executable.path.as_os_str());
    let is_seen = |kind| match scope {
        Scope::Memory => true,
        Scope::Sync | Scope::Inputs => kind == SpeKind::Lock,
    };
    let elements = elements_of(program)?.into_iter();
    let elements = elements.filter(|element| element.kind.is_some_and(is_seen));
    let recorded = elements.map(|element| {
        let (vector, has_conflict) = vectors.remove(&element.id.0).unwrap_or_default();
        (element.id, RecordedElement::new(vector, has_conflict))
    });
    Ok(recorded.collect())
}

/// What all threads did, in one order, counted as the runtime does it (`crates/runtime/src/vectors/mod.rs`); and whether the order may have mattered.
fn vectors(
    traces: &Traces,
    names: &[Option<ThreadName>],
    accessed: impl Fn(SiteId) -> Option<(SiteKind, u32)>,
) -> BTreeMap<u32, (AccessVector, bool)> {
    let mut all: Vec<(usize, &Entry)> = Vec::new();
    for (thread, trace) in traces.threads.iter().enumerate() {
        all.extend(trace.entries.iter().map(|entry| (thread, entry)));
    }
    all.sort_unstable_by_key(|(_, entry)| entry.sequence);
    let mut sites: BTreeMap<SiteId, (SiteKind, u32)> = BTreeMap::new();
    let mut objects = Objects::default();
    let mut vectors: BTreeMap<u32, (AccessVector, bool)> = BTreeMap::new();
    let mut cells: BTreeMap<u64, CellUse> = BTreeMap::new();
    let mut has_spawned = false;
    for (thread, entry) in all {
        let Some(name) = names.get(thread).and_then(Option::as_ref) else {
            continue;
        };
        let place = sites.entry(entry.site);
        let (kind, element) = *place.or_insert_with(|| accessed(entry.site).unwrap_or((SiteKind::Other, 0)));
        has_spawned |= matches!(entry.what, What::Spawn { .. });
        let elements = match entry.what {
            What::Access(_) => match kind {
                SiteKind::SyncCall | SiteKind::Allocation | SiteKind::Other => [0; 2],
                _ => [element, 0],
            },
            What::Sync { op, object, .. } => {
                let named = if kind == SiteKind::SyncCall { element } else { 0 };
                objects.of(thread, op, object, named)
            }
            _ => [0; 2],
        };
        for element in elements.into_iter().filter(|element| *element != 0) {
            let (vector, has_conflict) = vectors.entry(element).or_default();
            vector.push(name, 1);
            *has_conflict |= order_matters(&mut cells, thread, entry.what, has_spawned) && has_spawned;
        }
    }
    vectors
}

/// As far as the cells say, which this entry is a use of; of what is no memory it may always.
fn order_matters(cells: &mut BTreeMap<u64, CellUse>, thread: usize, what: What, has_spawned: bool) -> bool {
    let What::Access(access) = what else {
        return true;
    };
    let (first, last) = (
        access.address / CELL_BYTES,
        access.address.saturating_add(access.bytes.max(1) - 1) / CELL_BYTES,
    );
    let mut matters = false;
    for cell in first..=last {
        let used = cells.entry(cell).or_default();
        *used = used.used_by(thread as u32, access.writes && has_spawned);
        matters |= used.has_conflict();
    }
    matters
}

/// Which elements locks and their kin are.
#[derive(Default)]
struct Objects {
    /// By address.
    elements: BTreeMap<u64, u32>,
    /// Of each thread: the mutex that its wait has given up.
    waits_with: BTreeMap<usize, u64>,
}

impl Objects {
    /// The elements that an operation is an access of. `named`: what its call names.
    fn of(&mut self, thread: usize, op: Op, object: u64, named: u32) -> [u32; 2] {
        match op {
            // A wait's call names its condition.
            Op::CondRelease => {
                self.waits_with.insert(thread, object);
                [self.known(object), named]
            }
            Op::CondWake => {
                let mutex = self.waits_with.get(&thread).copied();
                let mutex = mutex.map_or(0, |mutex| self.known(mutex));
                [self.learn(object, named), mutex]
            }
            _ if op.is_in_vectors() => [self.learn(object, named), 0],
            _ => [0; 2],
        }
    }

    fn known(&self, object: u64) -> u32 {
        self.elements.get(&object).copied().unwrap_or(0)
    }

    fn learn(&mut self, object: u64, named: u32) -> u32 {
        if named != 0 {
            self.elements.insert(object, named);
        }
        self.known(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use failure_report::Access;
    use failure_report::ThreadTrace;

    const LOCK_CALL: SiteId = SiteId(1);
    const WAIT_CALL: SiteId = SiteId(2);
    const LOAD: SiteId = SiteId(3);
    const PRINT: SiteId = SiteId(4);
    const MUTEX: u32 = 10;
    const CONDITION: u32 = 11;
    const VARIABLE: u32 = 12;

    fn accessed(site: SiteId) -> Option<(SiteKind, u32)> {
        match site {
            LOCK_CALL => Some((SiteKind::SyncCall, MUTEX)),
            WAIT_CALL => Some((SiteKind::SyncCall, CONDITION)),
            LOAD => Some((SiteKind::Load, VARIABLE)),
            PRINT => Some((SiteKind::Other, VARIABLE)),
            _ => None,
        }
    }

    fn entry(sequence: u64, site: SiteId, what: What) -> Entry {
        Entry {
            sequence,
            event: sequence,
            site,
            what,
        }
    }

    fn sync(op: Op, object: u64) -> What {
        What::Sync {
            op,
            object,
            value: 0,
            other: None,
        }
    }

    fn told(recorded: Option<&(AccessVector, bool)>) -> Vec<(String, u64)> {
        let turns = recorded.into_iter().flat_map(|(vector, _)| vector.turns());
        turns.map(|(name, accesses)| (name.to_string(), accesses)).collect()
    }

    #[test]
    fn accesses_are_counted_in_their_order_over_all_threads() {
        let access = What::Access(Access::default());
        let of = |sequences: &[u64]| ThreadTrace {
            entries: sequences.iter().map(|at| entry(*at, LOAD, access)).collect(),
            ..ThreadTrace::default()
        };
        let mut traces = Traces {
            threads: vec![of(&[1, 2, 6]), of(&[3, 5])],
            ..Traces::default()
        };
        // What a wrapper does at a place that is none of an access.
        traces.threads[1].entries.push(entry(7, PRINT, access));
        let names = [Some(ThreadName::FIRST), Some(ThreadName::FIRST.child(0))];
        let vectors = vectors(&traces, &names, accessed);
        let expected = [("T", 2), ("T.0", 2), ("T", 1)].map(|(name, n)| (name.to_owned(), n));
        assert_eq!(told(vectors.get(&VARIABLE)), expected);
        assert_eq!(vectors.len(), 1);
    }

    #[test]
    fn the_order_matters_where_threads_meet_and_one_writes() {
        let access = |address: u64, writes: bool| {
            What::Access(Access {
                address,
                bytes: 8,
                reads: !writes,
                writes,
                ..Access::default()
            })
        };
        let conflict = |of_other: What| {
            let of_first = [
                entry(1, LOAD, access(64, true)),
                entry(2, SiteId(9), What::Spawn { thread: 1 }),
                entry(4, LOAD, access(64, false)),
            ];
            let of_other = [entry(3, LOAD, of_other)];
            let thread = |entries: &[Entry]| ThreadTrace {
                entries: entries.to_vec(),
                ..ThreadTrace::default()
            };
            let traces = Traces {
                threads: vec![thread(&of_first), thread(&of_other)],
                ..Traces::default()
            };
            let names = [Some(ThreadName::FIRST), Some(ThreadName::FIRST.child(0))];
            let vectors = vectors(&traces, &names, accessed);
            vectors.get(&VARIABLE).map(|(_, has_conflict)| *has_conflict)
        };
        assert_eq!(conflict(access(64, false)), Some(false));
        assert_eq!(conflict(access(128, true)), Some(false));
        assert_eq!(conflict(access(60, true)), Some(true));
    }

    #[test]
    fn a_wait_is_two_operations_of_its_mutex_and_of_its_condition() {
        let entries = vec![
            entry(1, LOCK_CALL, sync(Op::MutexLock, 0x100)),
            entry(2, WAIT_CALL, sync(Op::CondRelease, 0x100)),
            entry(3, WAIT_CALL, sync(Op::CondWake, 0x200)),
            // By a call that does not say what it unlocks.
            entry(4, SiteId(9), sync(Op::MutexUnlock, 0x100)),
            entry(5, LOCK_CALL, sync(Op::Output, 0x1)),
        ];
        let traces = Traces {
            threads: vec![ThreadTrace {
                entries,
                ..ThreadTrace::default()
            }],
            ..Traces::default()
        };
        let vectors = vectors(&traces, &[Some(ThreadName::FIRST)], accessed);
        assert_eq!(told(vectors.get(&MUTEX)), [("T".to_owned(), 4)]);
        assert_eq!(told(vectors.get(&CONDITION)), [("T".to_owned(), 2)]);
    }
}
