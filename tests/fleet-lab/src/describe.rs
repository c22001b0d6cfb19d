//! What the complete logs of a guest look like: table II and figure 3, and sizes of logs: figures 5 and 6.
use crate::Answer;
use crate::control::Random;
use crate::kept::Kept;
use crate::merge::part_of;
use partial_logs::ElementId;
use partial_logs::VectorHash;
use partial_logs::pattern::rounded;
use replayer::fleet;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

pub fn describe(program: &Path, folder: &Path) -> Answer {
    let kept = Kept::load(folder)?;
    let names: BTreeMap<ElementId, String> = fleet::elements_of(program)?
        .into_iter()
        .map(|element| (element.id, element.name))
        .collect();
    let logs = kept.failing.len().max(1) as u64;
    let mut hashes: BTreeMap<ElementId, BTreeSet<VectorHash>> = BTreeMap::new();
    let mut accesses: BTreeMap<ElementId, u64> = BTreeMap::new();
    let mut shared: BTreeSet<ElementId> = BTreeSet::new();
    for (id, recorded) in kept.failing.iter().flat_map(|log| &log.elements) {
        hashes.entry(*id).or_default().insert(recorded.hash);
        *accesses.entry(*id).or_default() += recorded.vector.accesses();
        if recorded.vector.is_shared() {
            shared.insert(*id);
        }
    }
    let elements = kept.accessed().into_iter().map(|id| {
        json!({
            "id": format!("{:08x}", id.0),
            "name": names.get(&id),
            "accesses": accesses.get(&id).map_or(0, |sum| sum / logs),
            "vectors": hashes.get(&id).map_or(0, BTreeSet::len),
            "dispersion": hashes.get(&id).map_or(0.0, |of| of.len() as f64 / logs as f64),
            "shared": shared.contains(&id),
            "passing": kept.passing.iter().filter_map(|log| log.elements.get(&id)).map(|e| e.vector.accesses()).collect::<Vec<_>>(),
        })
    });
    Ok(json!({
        "failing": kept.failing.len(),
        "passing": kept.passing.len(),
        "failure": format!("{:?}", kept.failure()?),
        "elements": elements.collect::<Vec<_>>(),
        "accesses": mean_accesses(&kept),
    }))
}

/// In a run that passes: one that failed may have ended early.
fn mean_accesses(kept: &Kept) -> u64 {
    let accesses = kept.passing.iter().flat_map(|log| log.elements.values());
    let sum: u64 = accesses.map(|recorded| recorded.vector.accesses()).sum();
    sum / kept.passing.len().max(1) as u64
}

/// Logs that the sizes are the mean of, as in the paper.
const SIZED: usize = 10;

/// Elements are drawn for each log, as the paper draws them.
pub fn sizes(folder: &Path, share: u16) -> Answer {
    let kept = Kept::load(folder)?;
    let elements: Vec<ElementId> = kept.accessed().into_iter().collect();
    let mut random = Random(u64::from(share));
    let (mut part, mut whole) = (0, 0);
    for log in kept.failing.iter().take(SIZED) {
        let partial = part_of(log, &elements, rounded(elements.len(), share), &mut random);
        let bytes = |log: &partial_logs::PartialLog| -> usize {
            let vectors = log.elements.values().map(|recorded| recorded.vector.encode().len());
            vectors.sum()
        };
        part += bytes(&partial);
        whole += bytes(log);
    }
    Ok(json!({ "ratio": part as f64 / whole.max(1) as f64, "bytes": whole / SIZED }))
}
