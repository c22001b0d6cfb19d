//! A hybrid schedule in gates: what the runtime enforces.
//!
//! Points become events of their thread, between those that it has anyway. A step waits for the one before it, if that is
//! another thread's; a point that is the later end of constraints waits for their earlier ends. Other points and events
//! outside the total order have no gate: the former are counted, so that others can wait for them.
use run_model::EnforcedPoint;
use run_model::Gate;
use run_model::HybridSchedule;
use run_model::Kind;
use run_model::Point;
use run_model::PointId;
use run_model::Points;
use run_model::Record;
use run_model::Schedule;
use run_model::ScheduleKind;
use run_model::ThreadIndex;
use run_model::ThreadSchedule;

/// The gates, and of each thread the points with their numbers among its events.
///
/// # Panics
/// If `schedule` names points or threads that it does not have: those that are made here or decoded do not.
pub fn compile(schedule: &HybridSchedule) -> (Schedule, Vec<Vec<EnforcedPoint>>) {
    let enforced: Vec<Vec<EnforcedPoint>> = schedule.points.iter().map(|points| number(points)).collect();
    let mut threads: Vec<ThreadSchedule> = (schedule.events.iter().zip(&enforced))
        .map(|(events, points)| ThreadSchedule {
            gates: Vec::new(),
            events: events + points.len() as u64,
        })
        .collect();
    let mut previous: Option<Point> = None;
    for step in &schedule.steps {
        let thread = step.thread.0 as usize;
        let event = step.record.event;
        // Points of segment e come before event e.
        let points = enforced[thread].partition_point(|point| point.segment <= event) as u64;
        let event = event + points;
        let gate = Gate {
            record: Record {
                event,
                ..step.record.clone()
            },
            waits: previous
                .filter(|point| point.thread != step.thread)
                .into_iter()
                .collect(),
        };
        threads[thread].gates.push(gate);
        previous = Some(Point {
            thread: step.thread,
            count: event + 1,
        });
    }
    let mut waits: Vec<(PointId, Point)> = schedule
        .constraints
        .iter()
        .map(|constraint| (constraint.after, reached(&enforced, constraint.before)))
        .collect();
    waits.sort_unstable();
    for of_point in waits.chunk_by(|a, b| a.0 == b.0) {
        let PointId { thread, index } = of_point[0].0;
        let point = &enforced[thread.0 as usize][index as usize];
        threads[thread.0 as usize].gates.push(Gate {
            record: Record {
                event: point.event,
                kind: Kind::Run,
                site: point.place.site,
                ..Record::default()
            },
            waits: of_point.iter().map(|(_, wait)| *wait).collect::<Points>(),
        });
    }
    for thread in &mut threads {
        thread.gates.sort_by_key(|gate| gate.record.event);
    }
    let kind = ScheduleKind::Gates;
    (Schedule { threads, kind }, enforced)
}

fn number(points: &[run_model::Instance]) -> Vec<EnforcedPoint> {
    (0..)
        .zip(points)
        .map(|(index, point): (u64, _)| EnforcedPoint {
            segment: point.segment,
            place: point.place,
            event: point.segment + index,
        })
        .collect()
}

/// The moment at which the point is over.
fn reached(enforced: &[Vec<EnforcedPoint>], id: PointId) -> Point {
    let PointId { thread, index } = id;
    Point {
        thread: ThreadIndex(thread.0),
        count: enforced[thread.0 as usize][index as usize].event + 1,
    }
}
