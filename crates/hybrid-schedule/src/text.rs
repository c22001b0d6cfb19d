//! A hybrid schedule as people read it.
//!
//! ```text
//! steps
//!     1  t0  Spawn
//!     2  t1  Start
//!     3  t1  MutexLock o1
//! constraints
//!     <L15, t1, 3, 0> -> <L9, t0, 4, 2>
//! ```
//!
//! An end of a constraint is the instruction, the thread, the position of the thread's synchronisation before it (0: none), and the
//! control transfers since the thread's last event. If that was one without a position, `+1` behind the position says how many such
//! there were.
use run_model::HybridSchedule;
use run_model::Kind;
use run_model::Place;
use run_model::PointId;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The text; `name` says what an instruction is called. Objects are named `o1`, `o2` … in the order of their appearance, so the text
/// is the same wherever the program's memory was.
pub fn render(schedule: &HybridSchedule, name: impl Fn(&Place) -> String) -> String {
    let mut text = String::from("steps\n");
    let mut objects = BTreeMap::new();
    for (position, step) in (1..).zip(&schedule.steps) {
        let record = &step.record;
        let what = match record.kind {
            Kind::Sync => format!("{:?}", record.op),
            kind => format!("{kind:?}"),
        };
        // Writing to a string does not fail.
        let _ = write!(text, "{position:6}  t{}  {what}", step.thread.0);
        if record.object != 0 {
            let next = objects.len() + 1;
            let _ = write!(text, " o{}", objects.entry(record.object).or_insert(next));
        }
        text.push('\n');
    }
    text.push_str("constraints\n");
    let positions = positions(schedule);
    for constraint in &schedule.constraints {
        let end = |id: PointId| describe(schedule, &positions, id, &name);
        let _ = writeln!(text, "    {} -> {}", end(constraint.before), end(constraint.after));
    }
    text
}

/// Of each thread: its events that have a position, and that.
fn positions(schedule: &HybridSchedule) -> Vec<Vec<(u64, u64)>> {
    let mut positions = vec![Vec::new(); schedule.events.len()];
    for (position, step) in (1..).zip(&schedule.steps) {
        if let Some(thread) = positions.get_mut(step.thread.0 as usize) {
            thread.push((step.record.event, position));
        }
    }
    positions
}

fn describe(
    schedule: &HybridSchedule,
    positions: &[Vec<(u64, u64)>],
    id: PointId,
    name: &impl Fn(&Place) -> String,
) -> String {
    let thread = id.thread.0 as usize;
    let Some(instance) = schedule
        .points
        .get(thread)
        .and_then(|points| points.get(id.index as usize))
    else {
        return format!("<?, t{thread}>");
    };
    let of_thread = positions.get(thread).map_or(&[][..], Vec::as_slice);
    let passed = of_thread.partition_point(|(event, _)| *event < instance.segment);
    let (event_after, position) = passed
        .checked_sub(1)
        .map_or((0, 0), |last| (of_thread[last].0 + 1, of_thread[last].1));
    let unordered = match instance.segment.saturating_sub(event_after) {
        0 => String::new(),
        events => format!("+{events}"),
    };
    let Place { transfers, .. } = instance.place;
    format!(
        "<{}, t{thread}, {position}{unordered}, {transfers}>",
        name(&instance.place)
    )
}
