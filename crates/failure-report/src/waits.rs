//! Where threads stood still: what each waited for, who could have let it go on, and whether they waited in a circle.
use crate::clocks::gives_back;
use crate::clocks::has_succeeded;
use crate::clocks::takes;
use crate::timeline::Step;
use crate::timeline::Timeline;
use crate::trace::What;
use run_model::Op;
use std::collections::BTreeMap;

/// A thread that had not ended when the run was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub thread: u32,
    pub awaited: Awaited,
    /// The operation it stood at, or the last thing it did; nothing, if it had not begun.
    pub step: Option<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A lock, and who holds it; nobody, if the thread had only not come to take it.
    Lock { object: u64, holders: Vec<Holder> },
    /// A condition variable: the last signal, and whether it came before the wait began. If not, and if one thread alone has woken since
    /// and waits again for the same: that one.
    Signal {
        object: u64,
        last_signal: Option<Step>,
        missed: bool,
        woken: Option<u32>,
    },
    /// The end of a thread.
    Thread(Option<u32>),
    /// A barrier, a semaphore, a futex, an initialisation.
    Other { op: Op, object: u64 },
    /// Nothing that was observed: it ran, or was in a call of its own.
    Nothing,
}

/// Who holds a lock, and where it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub thread: u32,
    pub taken: Step,
}

/// All threads that did not come to their end.
pub fn find(timeline: &Timeline) -> Vec<Wait> {
    let mut held: BTreeMap<u64, Vec<Holder>> = BTreeMap::new();
    let mut signals: BTreeMap<u64, Step> = BTreeMap::new();
    // Who woke since the last signal of each.
    let mut woken: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let mut last: BTreeMap<u32, Option<Step>> = BTreeMap::new();
    let mut given_up: BTreeMap<u32, (u64, Step)> = BTreeMap::new();
    // A wait whose mutex is not known to belong to it begins when its thread gave back a lock for the last time.
    let mut last_given_back: BTreeMap<u32, u64> = BTreeMap::new();
    for step in &timeline.steps {
        last.insert(step.thread, Some(*step));
        if let What::Spawn { thread } = step.entry.what {
            last.entry(thread).or_insert(None);
        }
        let What::Sync { op, object, value, .. } = step.entry.what else {
            continue;
        };
        let holder = Holder {
            thread: step.thread,
            taken: *step,
        };
        match op {
            _ if takes(op) && has_succeeded(value) => held.entry(object).or_default().push(holder),
            _ if gives_back(op) => {
                last_given_back.insert(step.thread, step.entry.sequence);
                let holders = held.entry(object).or_default();
                // Read and recursive locks: one of several.
                if let Some(mine) = holders.iter().rposition(|holder| holder.thread == step.thread) {
                    holders.remove(mine);
                }
                if op == Op::CondRelease {
                    given_up.insert(step.thread, (object, *step));
                }
            }
            Op::CondWake => {
                if value == 0 {
                    woken.entry(object).or_default().push(step.thread);
                }
                if let Some((mutex, _)) = given_up.remove(&step.thread) {
                    held.entry(mutex).or_default().push(holder);
                }
            }
            Op::CondSignal | Op::CondBroadcast => {
                signals.insert(object, *step);
                woken.remove(&object);
            }
            _ => {}
        }
    }
    let all = last.clone();
    let wait = |(thread, step): (u32, Option<Step>)| {
        let awaited = match step.map_or(What::Start, |step| step.entry.what) {
            What::Exit => return None,
            What::Stopped { op, object, .. } if takes(op) => Awaited::Lock {
                object,
                holders: held.get(&object).cloned().unwrap_or_default(),
            },
            What::Stopped {
                op: Op::CondWake,
                object,
                ..
            } => {
                let last_signal = signals.get(&object).copied();
                let began = given_up.get(&thread).map(|(_, step)| step.entry.sequence);
                let began = began.or_else(|| last_given_back.get(&thread).copied()).unwrap_or(0);
                let missed = last_signal.is_none_or(|signal| signal.entry.sequence < began);
                let waits_again = |thread: &u32| {
                    let last = all.get(thread).copied().flatten();
                    let is_same = |step: Step| matches!(step.entry.what, What::Stopped { op: Op::CondWake, object: other, .. } if other == object);
                    last.is_some_and(is_same)
                };
                let only = match woken.get(&object).map(Vec::as_slice) {
                    Some([one]) if !missed => Some(*one),
                    _ => None,
                };
                Awaited::Signal {
                    object,
                    last_signal,
                    missed,
                    woken: only.filter(|one| *one != thread && waits_again(one)),
                }
            }
            What::Stopped {
                op: Op::Join, other, ..
            } => Awaited::Thread(other),
            What::Stopped { op, object, .. } => Awaited::Other { op, object },
            _ => Awaited::Nothing,
        };
        Some(Wait { thread, awaited, step })
    };
    last.into_iter().filter_map(wait).collect()
}

impl Wait {
    /// The threads it waits for.
    fn on(&self) -> Vec<u32> {
        match &self.awaited {
            Awaited::Lock { holders, .. } => holders.iter().map(|holder| holder.thread).collect(),
            Awaited::Thread(Some(thread)) => vec![*thread],
            _ => Vec::new(),
        }
    }
}

/// Threads that wait for each other in a circle, each for the next and the last for the first; empty if there is none.
pub fn cycle(waits: &[Wait]) -> Vec<u32> {
    let next = |thread: u32| {
        waits
            .iter()
            .find(|wait| wait.thread == thread)
            .map(Wait::on)
            .unwrap_or_default()
    };
    for wait in waits {
        let mut path = vec![wait.thread];
        if let Some(found) = close(&mut path, &next) {
            return found;
        }
    }
    Vec::new()
}

/// Looks, depth first, for a way from the end of `path` back to its beginning.
fn close(path: &mut Vec<u32>, next: &impl Fn(u32) -> Vec<u32>) -> Option<Vec<u32>> {
    let (first, last) = (path[0], path[path.len() - 1]);
    for thread in next(last) {
        if thread == first {
            return Some(path.clone());
        }
        if !path.contains(&thread) {
            path.push(thread);
            if let Some(found) = close(path, next) {
                return Some(found);
            }
            path.pop();
        }
    }
    None
}
