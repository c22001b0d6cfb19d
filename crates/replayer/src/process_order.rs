//! Processes that share memory: the order of their inputs among each other (`crates/runtime/src/turns/process_order.rs`).
use crate::Error;
use crate::Result;
use crate::inputs::Input;
use crate::loaded::LoadedRun;
use crate::turns;
use run_model::Logs;
use run_model::Method;
use run_model::Placed;
use run_model::Schedule;
use run_model::ScheduleKind;
use run_model::Stamp;
use run_model::ThreadLog;
use run_model::ThreadSchedule;
use run_model::Turns;

/// The order of the inputs of all processes that share memory, each by its number; nothing, if there are not two. `orders` are those of
/// the threads of each.
pub fn order_of<'a>(first: &LoadedRun, orders: impl Iterator<Item = Option<&'a Turns>>) -> Result<Option<Turns>> {
    let members: Vec<_> = first
        .all()
        .zip(orders)
        .filter(|(loaded, _)| loaded.shares_memory)
        .collect();
    if members.len() < 2 {
        return Ok(None);
    }
    let last = members.iter().map(|(loaded, _)| loaded.beginning.process).max();
    let mut times = vec![Vec::new(); last.map_or(0, |last| last as usize + 1)];
    for (loaded, order) in members {
        times[loaded.beginning.process as usize] = times_of(loaded, order);
    }
    let stamp = |time: &u64| Stamp {
        time: *time,
        ..Stamp::default()
    };
    let stamps: Vec<Vec<Stamp>> = times.iter().map(|times| times.iter().map(stamp).collect()).collect();
    let order = Turns::merge(&stamps);
    judge(first, &times, &order)?;
    Ok(Some(order))
}

/// To the judge, each process is a thread that does nothing but have its inputs.
fn judge(first: &LoadedRun, times: &[Vec<u64>], order: &Turns) -> Result<()> {
    let place = |time: &u64| Placed {
        time: *time,
        created: None,
    };
    let process = |times: &Vec<u64>| ThreadLog {
        inputs: times.iter().map(place).collect(),
        ..ThreadLog::default()
    };
    let logs = Logs {
        method: Method::Inputs,
        threads: times.iter().map(process).collect(),
    };
    let schedule = Schedule {
        threads: vec![ThreadSchedule::default(); times.len()],
        kind: ScheduleKind::Turns(order.clone()),
    };
    schedule_checker::check(&logs, &schedule)
        .map(|_| ())
        .map_err(|why| Error::UnusableOrder {
            run: first.run.name(),
            why: format!("of its processes, {why}"),
        })
}

/// When the inputs of a process happened, in the order in which a replay has them.
fn times_of(loaded: &LoadedRun, order: Option<&Turns>) -> Vec<u64> {
    let ordered = |inputs: &Vec<Input>| -> Vec<u64> {
        let ordered = inputs.iter().filter(turns::is_ordered);
        ordered.map(|input| input.time).collect()
    };
    let inputs: Vec<Vec<u64>> = loaded.inputs.iter().map(ordered).collect();
    let mut times: Vec<u64> = match order {
        Some(order) => {
            let mut next: Vec<_> = inputs.iter().map(|times| times.iter()).collect();
            let runs = order.runs.iter();
            let of_run = runs.flat_map(|run| (0..run.count).map(|_| run.thread.0 as usize));
            of_run.filter_map(|thread| next[thread].next()).copied().collect()
        }
        None => inputs.into_iter().flatten().collect(),
    };
    let mut latest = 0;
    for time in &mut times {
        latest = latest.max(*time);
        *time = latest;
    }
    times
}
