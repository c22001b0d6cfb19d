//! Pairs of accesses whose order a replay can reverse (section 4.3 of the paper).
use crate::Access;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Indices of two accesses of the same address by different threads, at least one of them a write; the first comes first.
pub(crate) type Race = (usize, usize);

/// All races of a trace, those whose later access is nearest to the end first; at most `most`. Races with an access made
/// after the replay had failed come last: who would have made it first is not known.
pub(crate) fn races(accesses: &[Access], most: usize) -> Vec<Race> {
    let mut of_address: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, access) in accesses.iter().enumerate() {
        of_address.entry(access.id.address).or_default().push(index);
    }
    let before = |later: usize| {
        let same = &of_address[&accesses[later].id.address];
        let earlier = &same[..same.partition_point(|index| *index < later)];
        let conflicts = move |first: &&usize| {
            let (first, later) = (&accesses[**first], &accesses[later]);
            !first.is_beyond && first.id.block.thread != later.id.block.thread && (first.is_write || later.is_write)
        };
        earlier.iter().rev().filter(conflicts).map(move |first| (*first, later))
    };
    let end = accesses
        .iter()
        .position(|access| access.is_beyond)
        .unwrap_or(accesses.len());
    let mut found: Vec<Race> = (0..end).rev().flat_map(before).take(most).collect();
    let mut beyond: Vec<Race> = (end..accesses.len())
        .flat_map(before)
        .take(most - found.len())
        .collect();
    beyond.sort_by_key(|(first, later)| (usize::MAX - first, *later));
    found.extend(beyond);
    found
}

/// The accesses of a trace, before its failure, of what several threads access and one of them writes, the last first; at
/// most `most`. The threads of the later ones may be about to access it again.
pub(crate) fn contended(accesses: &[Access], most: usize) -> Vec<usize> {
    let mut users: BTreeMap<u64, (BTreeSet<ThreadIndex>, bool)> = BTreeMap::new();
    for access in accesses {
        let (threads, is_written) = users.entry(access.id.address).or_default();
        threads.insert(access.id.block.thread);
        *is_written |= access.is_write;
    }
    let is_contended = |index: &usize| {
        let access = &accesses[*index];
        let is_shared = |(threads, is_written): &(BTreeSet<ThreadIndex>, bool)| threads.len() > 1 && *is_written;
        !access.is_beyond && users.get(&access.id.address).is_some_and(is_shared)
    };
    (0..accesses.len()).rev().filter(is_contended).take(most).collect()
}
