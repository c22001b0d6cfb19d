//! Gates of compiled schedules, run by threads that go on in any order they may.
use crate::oracle::conflicts;
use crate::oracle::nodes;
use crate::random::Random;
use crate::random::traces;
use crate::trace::parse;
use crate::trace::relaxed;
use hybrid_schedule::compile;
use run_model::EnforcedPoint;
use run_model::Kind;
use run_model::Point;
use run_model::Schedule;
use run_model::ThreadIndex;

#[test]
fn points_become_events() {
    let traces = parse(
        "t0 Start
         t1 Start
         t0 call
         t0 L1 w 100 8 ~1
         t1 L2 r 100 8
         t0 MutexLock 7
         t1 MutexLock 7",
    );
    let (schedule, points) = compile(&relaxed(&traces).unwrap().schedule);
    let gates = |thread: usize| -> Vec<(u64, Kind, Vec<Point>)> {
        let gates = &schedule.threads[thread].gates;
        let told = gates
            .iter()
            .map(|gate| (gate.record.event, gate.record.kind, gate.waits.iter().collect()));
        told.collect()
    };
    let point = |thread, count| Point {
        thread: ThreadIndex(thread),
        count,
    };
    // Thread 0: start, call, point, lock. Thread 1: start, point, lock.
    assert_eq!(gates(0), [(0, Kind::Start, vec![]), (3, Kind::Sync, vec![point(1, 1)])]);
    assert_eq!(
        gates(1),
        [
            (0, Kind::Start, vec![point(0, 1)]),
            (1, Kind::Run, vec![point(0, 3)]),
            (2, Kind::Sync, vec![point(0, 4)])
        ]
    );
    assert_eq!((schedule.threads[0].events, schedule.threads[1].events), (4, 3));
    assert_eq!((points[0][0].segment, points[0][0].event), (2, 2));
    assert_eq!((points[1][0].segment, points[1][0].event), (1, 1));
}

#[test]
fn any_order_that_the_gates_allow_is_the_traced_one() {
    for seed in 0..1500 {
        let traces = traces(seed);
        let (schedule, points) = compile(&relaxed(&traces).unwrap().schedule);
        let nodes = nodes(&traces);
        let conflicts = conflicts(&nodes);
        for jitter in 0..4 {
            let mut random = Random(seed << 8 | jitter);
            let order = execute(&nodes, &schedule, &points, &mut random);
            for (earlier, later) in &conflicts {
                assert!(order[*earlier] < order[*later], "seed {seed}, jitter {jitter}");
            }
        }
    }
}

/// When each entry was done. Threads count their events, and points among them, as the runtime does.
fn execute(
    nodes: &[crate::oracle::Node],
    schedule: &Schedule,
    points: &[Vec<EnforcedPoint>],
    random: &mut Random,
) -> Vec<usize> {
    let threads = schedule.threads.len();
    let of = |thread: usize| {
        (0..nodes.len())
            .filter(move |i| nodes[*i].thread == thread)
            .collect::<Vec<_>>()
    };
    let entries: Vec<Vec<usize>> = (0..threads).map(of).collect();
    let (mut next, mut counts, mut segments, mut passed) = (
        vec![0; threads],
        vec![0u64; threads],
        vec![0u64; threads],
        vec![0; threads],
    );
    let mut order = vec![0; nodes.len()];
    let mut done = 0;
    while done < nodes.len() {
        let runnable: Vec<usize> = (0..threads)
            .filter(|thread| next[*thread] < entries[*thread].len())
            .filter(|thread| {
                let node = &nodes[entries[*thread][next[*thread]]];
                let event = match node.instance {
                    None => counts[*thread],
                    Some(instance) => match points[*thread].get(passed[*thread]) {
                        Some(point) if (point.segment, point.place) == (instance.segment, instance.place) => {
                            assert_eq!(point.event, counts[*thread]);
                            point.event
                        }
                        _ => return true,
                    },
                };
                let gate = schedule.threads[*thread]
                    .gates
                    .iter()
                    .find(|gate| gate.record.event == event);
                let is_reached = |wait: Point| counts[wait.thread.0 as usize] >= wait.count;
                gate.is_none_or(|gate| gate.waits.iter().all(is_reached))
            })
            .collect();
        assert!(!runnable.is_empty(), "nobody can go on");
        let thread = runnable[random.below(runnable.len() as u64) as usize];
        let node = &nodes[entries[thread][next[thread]]];
        match node.instance {
            None => {
                counts[thread] += 1;
                segments[thread] += 1;
            }
            Some(instance) => {
                let point = points[thread].get(passed[thread]);
                if point.is_some_and(|point| (point.segment, point.place) == (instance.segment, instance.place)) {
                    // All accesses of the instruction, then it counts.
                    let same = entries[thread][next[thread] + 1..]
                        .iter()
                        .take_while(|i| nodes[**i].instance == Some(instance))
                        .count();
                    for _ in 0..same {
                        done += 1;
                        order[entries[thread][next[thread]]] = done;
                        next[thread] += 1;
                    }
                    counts[thread] += 1;
                    passed[thread] += 1;
                }
            }
        }
        done += 1;
        order[entries[thread][next[thread]]] = done;
        next[thread] += 1;
    }
    for (thread, planned) in schedule.threads.iter().enumerate() {
        assert_eq!(counts[thread], planned.events);
    }
    order
}
