//! Processes that share memory: the order of their inputs among each other (`crates/runtime/src/turns/family.rs`).
use crate::Error;
use crate::Result;
use crate::loaded::LoadedRun;
use crate::turns;
use run_model::Stamp;
use run_model::Turns;
use schedule_checker::Placed;

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
        times[loaded.beginning.process as usize] = times_of(loaded, order)?;
    }
    let stamp = |time: &u64| Stamp {
        time: *time,
        ..Stamp::default()
    };
    let stamps: Vec<Vec<Stamp>> = times.iter().map(|times| times.iter().map(stamp).collect()).collect();
    let order = Turns::merge(&stamps);
    let place = |time: &u64| Placed {
        time: *time,
        created: None,
    };
    let placed: Vec<Vec<Placed>> = times.iter().map(|times| times.iter().map(place).collect()).collect();
    schedule_checker::check_turns(&placed, &order).map_err(|why| Error::UnusableOrder {
        run: first.run.name(),
        why: format!("of its processes, {why}"),
    })?;
    Ok(Some(order))
}

/// When the inputs of a process happened, in the order in which a replay has them.
fn times_of(loaded: &LoadedRun, order: Option<&Turns>) -> Result<Vec<u64>> {
    let inputs = turns::ordered_inputs(loaded)?;
    let mut times: Vec<u64> = match order {
        Some(order) => {
            let mut next: Vec<_> = inputs.iter().map(|inputs| inputs.iter()).collect();
            let runs = order.runs.iter();
            let of_run = runs.flat_map(|run| (0..run.count).map(|_| run.thread.0 as usize));
            of_run
                .filter_map(|thread| next[thread].next())
                .map(|input| input.time)
                .collect()
        }
        None => inputs.iter().flatten().map(|input| input.time).collect(),
    };
    let mut latest = 0;
    for time in &mut times {
        latest = latest.max(*time);
        *time = latest;
    }
    Ok(times)
}
