//! Trying everything: which entries of small traces does a hybrid schedule order?
use crate::trace::Traces;
use run_model::HybridSchedule;
use run_model::Instance;
use run_model::PointId;
use run_model::TraceEntry;

pub struct Node {
    pub thread: usize,
    /// Of an access: where it is.
    pub instance: Option<Instance>,
    pub entry: TraceEntry,
}

/// The entries, thread by thread.
pub fn nodes(traces: &Traces) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (thread, entries) in traces.iter().enumerate() {
        let mut segment = 0;
        for entry in entries {
            let instance = match entry {
                TraceEntry::Access { at, .. } => Some(Instance { segment, place: *at }),
                _ => None,
            };
            segment += u64::from(instance.is_none());
            nodes.push(Node {
                thread,
                instance,
                entry: entry.clone(),
            });
        }
    }
    nodes
}

pub fn sequence(entry: &TraceEntry) -> Option<u64> {
    match entry {
        TraceEntry::Ordered { sequence, .. } | TraceEntry::Access { sequence, .. } => Some(*sequence),
        TraceEntry::Unordered => None,
    }
}

/// Pairs of accesses of different threads that share a byte that one of them writes; the earlier one first.
pub fn conflicts(nodes: &[Node]) -> Vec<(usize, usize)> {
    let bytes = |node: &Node| match node.entry {
        TraceEntry::Access {
            address,
            bytes,
            reads,
            writes,
            ..
        } if reads || writes => Some((address, address.saturating_add(u64::from(bytes)), writes)),
        _ => None,
    };
    let mut found = Vec::new();
    for (i, a) in nodes.iter().enumerate() {
        for (j, b) in nodes.iter().enumerate() {
            let (Some(x), Some(y)) = (bytes(a), bytes(b)) else {
                continue;
            };
            let overlap = x.0.max(y.0) < x.1.min(y.1);
            if a.thread != b.thread && overlap && (x.2 || y.2) && sequence(&a.entry) < sequence(&b.entry) {
                found.push((i, j));
            }
        }
    }
    found
}

/// Does every path from one to the other hold, for all that conflicts?
pub fn orders_everything(traces: &Traces, schedule: &HybridSchedule) -> bool {
    let nodes = nodes(traces);
    // A row of bits for each entry.
    assert!(nodes.len() <= 128, "too many entries to try everything");
    let mut reaches = vec![0u128; nodes.len()];
    for i in 1..nodes.len() {
        reaches[i - 1] |= u128::from(nodes[i - 1].thread == nodes[i].thread) << i;
    }
    let is_ordered = |i: &usize| matches!(nodes[*i].entry, TraceEntry::Ordered { .. });
    let mut steps: Vec<usize> = (0..nodes.len()).filter(is_ordered).collect();
    steps.sort_by_key(|i| sequence(&nodes[*i].entry));
    for pair in steps.windows(2) {
        reaches[pair[0]] |= 1 << pair[1];
    }
    let is_at = |i: &usize, id: PointId| {
        let instance = schedule.points[id.thread.0 as usize][id.index as usize];
        nodes[*i].thread == id.thread.0 as usize && nodes[*i].instance == Some(instance)
    };
    for constraint in &schedule.constraints {
        let before = (0..nodes.len()).rfind(|i| is_at(i, constraint.before)).unwrap();
        let after = (0..nodes.len()).find(|i| is_at(i, constraint.after)).unwrap();
        reaches[before] |= 1 << after;
    }
    for via in 0..nodes.len() {
        for from in 0..nodes.len() {
            if reaches[from] >> via & 1 == 1 {
                reaches[from] |= reaches[via];
            }
        }
    }
    conflicts(&nodes).iter().all(|(i, j)| reaches[*i] >> j & 1 == 1)
}
