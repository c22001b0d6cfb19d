//! Names of a run's threads, by who created them.
use partial_logs::ThreadName;
use run_model::Kind;
use run_model::Logs;

/// By their indices. A thread that nobody is known to have created has none.
pub(crate) fn of_threads(logs: &Logs) -> Vec<Option<ThreadName>> {
    let mut names: Vec<Option<ThreadName>> = vec![None; logs.threads.len()];
    if let Some(first) = names.first_mut() {
        *first = Some(ThreadName::FIRST);
    }
    // Indices are given out when threads are created, so a creator's is below those of its children.
    for (index, log) in logs.threads.iter().enumerate() {
        let Some(name) = names[index].clone() else { continue };
        let children = log.records.iter().filter(|record| record.kind == Kind::Spawn);
        for (nth, record) in (0..).zip(children) {
            let child = usize::try_from(record.value).ok().filter(|child| *child > index);
            if let Some(place) = child.and_then(|child| names.get_mut(child)) {
                *place = Some(name.child(nth));
            }
        }
    }
    names
}
