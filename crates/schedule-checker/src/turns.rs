//! The judge of schedules for one thread at a time: is this the order of these inputs, and can these edits be made?
//!
//! It does not merge the threads' inputs again, as [`Turns::merge`] does, but walks the order once and looks at what it must keep:
//! every input is in it, each thread's in their own order, none before one of another thread that was over earlier, and none
//! of a thread before its creation.
use run_model::Logs;
use run_model::Placed;
use run_model::RunKind;
use run_model::ScheduleEdit;
use run_model::Spot;
use run_model::ThreadIndex;
use run_model::Turns;
use std::fmt;

/// What is wrong with an order, or with an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disorder {
    Threads {
        recorded: usize,
        ordered: u32,
    },
    /// The run with this index is of a thread that there is not, or has no inputs.
    Run {
        index: usize,
    },
    Inputs {
        thread: ThreadIndex,
        recorded: usize,
        ordered: u64,
    },
    /// This input of the thread comes after one of another thread that was later.
    Late {
        thread: ThreadIndex,
        input: usize,
    },
    /// The thread has an input before it is created.
    Unborn {
        thread: ThreadIndex,
    },
    /// The edit with this index is at a place, or of a thread, that the recording does not have.
    Nowhere {
        index: usize,
    },
    /// The edit with this index has a thread wait for itself.
    Alone {
        index: usize,
    },
    /// Two edits let different threads go on at the same switch point.
    Twice {
        index: usize,
    },
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Disorder::Threads { recorded, ordered } => write!(f, "{ordered} threads in order, {recorded} recorded"),
            Disorder::Run { index } => write!(f, "run {index} is of no thread, or empty"),
            Disorder::Inputs {
                thread,
                recorded,
                ordered,
            } => {
                write!(f, "thread {}: {ordered} inputs in order, {recorded} recorded", thread.0)
            }
            Disorder::Late { thread, input } => {
                write!(
                    f,
                    "thread {}: its input {input} comes after one that was later",
                    thread.0
                )
            }
            Disorder::Unborn { thread } => write!(f, "thread {} has an input before it is created", thread.0),
            Disorder::Nowhere { index } => write!(f, "edit {} is at a place that the run does not have", index + 1),
            Disorder::Alone { index } => write!(f, "edit {} has a thread wait for itself", index + 1),
            Disorder::Twice { index } => {
                write!(f, "edit {} is at the same switch point as one before it", index + 1)
            }
        }
    }
}

/// Accepts `turns` if its order is that of the logs' inputs, and its edits are between threads and at places that there are.
pub(crate) fn check(logs: &Logs, turns: &Turns) -> Result<(), Disorder> {
    let inputs: Vec<&[Placed]> = logs.threads.iter().map(|log| log.inputs.as_slice()).collect();
    let inputs = inputs.as_slice();
    if inputs.len() != turns.threads as usize {
        return Err(Disorder::Threads {
            recorded: inputs.len(),
            ordered: turns.threads,
        });
    }
    check_order(inputs, turns)?;
    check_edits(inputs, &turns.edits)
}

fn check_order(inputs: &[&[Placed]], turns: &Turns) -> Result<(), Disorder> {
    let created = inputs.iter().copied().flatten().filter_map(|input| input.created);
    let mut is_born = vec![true; inputs.len()];
    for thread in created {
        if let Some(is_born) = is_born.get_mut(thread.0 as usize) {
            *is_born = false;
        }
    }
    let mut had = vec![0u64; inputs.len()];
    // A thread's clock does not go back: an input was over after those before it, whatever its own time says.
    let mut clocks = vec![0; inputs.len()];
    let mut now = 0;
    for (index, run) in turns.runs.iter().enumerate() {
        let (thread, at) = (run.thread, run.thread.0 as usize);
        // What else is known of a thread has places, too, and no inputs.
        let own = inputs
            .get(at)
            .filter(|_| (run.count > 0) == (run.kind == RunKind::Inputs))
            .ok_or(Disorder::Run { index })?;
        if !is_born[at] && run.kind == RunKind::Inputs {
            return Err(Disorder::Unborn { thread });
        }
        for _ in 0..run.count {
            let Some(input) = own.get(had[at] as usize) else {
                let more = turns.runs[index..].iter().filter(|run| run.thread == thread);
                let before: u64 = turns.runs[..index]
                    .iter()
                    .filter(|run| run.thread == thread)
                    .map(|run| u64::from(run.count))
                    .sum();
                return Err(Disorder::Inputs {
                    thread,
                    recorded: own.len(),
                    ordered: before + more.map(|run| u64::from(run.count)).sum::<u64>(),
                });
            };
            clocks[at] = input.time.max(clocks[at]);
            if clocks[at] < now {
                return Err(Disorder::Late {
                    thread,
                    input: had[at] as usize,
                });
            }
            now = clocks[at];
            had[at] += 1;
            if let Some(is_born) = input.created.and_then(|thread| is_born.get_mut(thread.0 as usize)) {
                *is_born = true;
            }
        }
    }
    let short = (0u32..)
        .zip(inputs)
        .zip(&had)
        .find(|((_, own), had)| own.len() as u64 != **had);
    match short {
        Some(((thread, own), had)) => Err(Disorder::Inputs {
            thread: ThreadIndex(thread),
            recorded: own.len(),
            ordered: *had,
        }),
        None => Ok(()),
    }
}

fn check_edits(inputs: &[&[Placed]], edits: &[ScheduleEdit]) -> Result<(), Disorder> {
    let inputs: Vec<u64> = inputs.iter().map(|own| own.len() as u64).collect();
    check_edits_in(&inputs, edits)
}

/// Are they at places that there are, if each thread has so many inputs, or events?
pub(crate) fn check_edits_in(inputs: &[u64], edits: &[ScheduleEdit]) -> Result<(), Disorder> {
    let is_there = |spot: &Spot| {
        let own = inputs.get(spot.thread.0 as usize);
        own.is_some_and(|own| spot.calls <= *own)
    };
    for (index, made) in edits.iter().enumerate() {
        let (is_possible, is_alone) = match made {
            // To itself: it goes on where another one would.
            ScheduleEdit::Preempt { at, to } | ScheduleEdit::Advance { at, to } => {
                (is_there(at) && (to.0 as usize) < inputs.len(), false)
            }
            ScheduleEdit::Delay { hold } => (is_there(&hold.block), false),
            ScheduleEdit::Reverse { hold, until } => (
                is_there(&hold.block) && is_there(&until.block),
                hold.block.thread == until.block.thread,
            ),
        };
        if !is_possible {
            return Err(Disorder::Nowhere { index });
        }
        if is_alone {
            return Err(Disorder::Alone { index });
        }
        let is_here = |other: &ScheduleEdit| switches_at(made).is_some_and(|at| switches_at(other) == Some(at));
        if edits[..index].iter().any(is_here) {
            return Err(Disorder::Twice { index });
        }
    }
    Ok(())
}

/// The switch point at which an edit lets another thread go on.
fn switches_at(made: &ScheduleEdit) -> Option<Spot> {
    match made {
        ScheduleEdit::Preempt { at, .. } | ScheduleEdit::Advance { at, .. } => Some(*at),
        ScheduleEdit::Reverse { .. } | ScheduleEdit::Delay { .. } => None,
    }
}
