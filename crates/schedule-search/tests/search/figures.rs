//! The paper's examples.
use crate::kernel::Executor;
use crate::kernel::Program;
use crate::kernel::Recording;
use crate::kernel::record::show;
use crate::kernel::record_in_order;
use crate::properties::bounded;
use run_model::ThreadIndex;
use schedule_search::Ask;
use schedule_search::Ending;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Label;
use schedule_search::Layer;
use schedule_search::LoggedEvent;
use schedule_search::Outcome;
use schedule_search::Plan;
use schedule_search::Replays;
use schedule_search::ScheduleEdit;
use schedule_search::Search;
use schedule_search::Statistics;
use schedule_search::Trace;
use schedule_search::Tuning;
use schedule_search::Window;

/// The ending of a replay that follows the log alone.
fn default_ending(program: &Program, recording: &Recording) -> Ending {
    let ask = Ask {
        plan: Plan::default(),
        trace: Trace::Nothing,
        checkpoint: Default::default(),
    };
    Executor::new(program, recording).attempt(&ask).ending
}

/// Searches; what is found must replay. The plan, and what it cost.
fn find(program: &Program, recording: &Recording, tuning: Tuning) -> (Plan, Statistics, Search) {
    let mut search = Search::new(recording.log.clone(), tuning);
    let outcome = search.run(&mut Executor::new(program, recording), 1, bounded);
    let Outcome::Found(plan) = outcome else {
        panic!("{outcome:?} {:?}\n{}", search.statistics(), show(&recording.entries));
    };
    let ask = Ask {
        plan: plan.clone(),
        trace: Trace::Nothing,
        checkpoint: Default::default(),
    };
    assert_eq!(Executor::new(program, recording).attempt(&ask).ending, Ending::Complete);
    (plan, *search.statistics(), search)
}

/// Line numbers are the paper's, as far as it tells them.
const FIGURE_1: &str = "thread worker
read request
acquire L
req := req + 1
release L
if req == 16
write 2
len := 20
end
write 3
room := 1024 - buf
if len < room
end_of_copy := buf + len
free := 1025 - buf
ok := len < free
assert ok
buf := buf + len
end
write 4
shared req = 14, buf = 1000
thread main
spawn worker
spawn worker";

/// Both threads see 16 requests, and both see room in the buffer before one of them makes it smaller.
fn figure_1() -> (Program, Recording) {
    let program = Program::parse(FIGURE_1);
    let order = [
        (0, 0),
        (1, 3),
        (2, 3),
        (1, 6),
        (2, 6),
        (1, 7),
        (2, 7),
        // The administrative messages, then the test for room in both, then the buffer grows.
        (1, 10),
        (2, 10),
        (1, 11),
        (2, 11),
        (1, 17),
        (2, 13),
        (1, 19),
        (2, 0),
    ];
    let recording = record_in_order(&program, &order);
    (program, recording)
}

#[test]
fn figure_1_takes_one_coarse_and_one_fine_step() {
    let (program, recording) = figure_1();
    let last = recording.entries.last().expect("events");
    assert_eq!(
        (last.thread, last.kind, last.label),
        (ThreadIndex(2), EventKind::Failure, 16),
        "{}",
        show(&recording.entries)
    );
    let (one, two) = (ThreadIndex(1), Label(7));
    let first = Ending::Mismatch {
        thread: one,
        expected: two,
        found: Label(10),
    };
    assert_eq!(default_ending(&program, &recording), first);
    let (_, full, _) = find(&program, &recording, Tuning::default());
    assert_eq!((full.coarse, full.fine, full.access_traces), (1, 1, 1), "{full:?}");
    let (plan, statistics, search) = find(&program, &recording, Tuning::of_the_paper());
    assert_eq!(
        (statistics.coarse, statistics.fine, statistics.access_traces),
        (1, 1, 1),
        "{statistics:?}"
    );
    assert_eq!(statistics.failures, 2);
    let [ScheduleEdit::Preempt { at, to }, ScheduleEdit::Reverse { hold, until }] = plan.edits[..] else {
        panic!("{plan:?}");
    };
    // After the first thread's release, the second one's increment; before the first one's store, the second one's test.
    assert_eq!((at.thread, at.nth, to), (ThreadIndex(1), 2, ThreadIndex(2)));
    assert_eq!(
        (hold.block.thread, until.block.thread),
        (ThreadIndex(1), ThreadIndex(2))
    );
    // The paper's ⟨10, 1, 3⟩, and one for the reversal.
    let learned = search.learned();
    assert_eq!(
        learned[0],
        "found 10 where 7 was expected: at 10, 1 synchronisation back, go on at 3"
    );
    assert_eq!(learned.len(), 2, "{learned:?}");
}

#[test]
fn pres_like_search_looks_at_more_races_of_figure_1() {
    let (program, recording) = figure_1();
    let (_, two_layers, _) = find(&program, &recording, Tuning::default());
    let (plan, pres, _) = find(&program, &recording, Tuning::pres_like());
    assert!(
        plan.edits
            .iter()
            .all(|made| matches!(made, ScheduleEdit::Reverse { .. })),
        "{plan:?}"
    );
    assert_eq!((pres.cache_hits, pres.access_traces), (0, 2), "{pres:?}");
    assert!(pres.window_races > two_layers.window_races, "{pres:?}\n{two_layers:?}");
}

/// A thread that is held before an access inside of a critical section keeps its lock.
#[test]
fn the_order_of_critical_sections_is_reversed_where_locks_are_acquired() {
    let text = "shared n, m
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        n := n + 1
        release L
        acquire L
        n := n + 1
        release L
        write 1
        thread b
        acquire L
        m := n
        release L
        write m";
    let program = Program::parse(text);
    let recording = record_in_order(&program, &[(0, 0), (1, 9), (2, 17), (1, 0), (2, 0)]);
    for tuning in [Tuning::default(), Tuning::pres_like()] {
        let (plan, statistics, _) = find(&program, &recording, tuning);
        let [ScheduleEdit::Reverse { hold, until }] = plan.edits[..] else {
            panic!("{plan:?}");
        };
        assert!(hold.is_synchronisation() && until.is_synchronisation(), "{plan:?}");
        assert_eq!((hold.block.thread, hold.block.nth), (ThreadIndex(1), 3));
        assert_eq!((until.block.thread, until.block.nth), (ThreadIndex(2), 1));
        assert_eq!(statistics.coarse, 1, "{statistics:?}");
    }
}

/// A cause of figure 3: the default replay fails as `fails` says, and one preemption helps.
fn check_cause(text: &str, order: &[(usize, u64)], fails: impl Fn(&Ending) -> bool) {
    let program = Program::parse(text);
    let recording = record_in_order(&program, order);
    let ending = default_ending(&program, &recording);
    assert!(fails(&ending), "{ending:?}\n{}", show(&recording.entries));
    let only = Tuning {
        layers: vec![Layer::Synchronisations],
        bound_max: 1,
        ..Tuning::of_the_paper()
    };
    let (plan, statistics, _) = find(&program, &recording, only);
    assert_eq!(plan.edits.len(), 1, "{plan:?} {statistics:?}");
}

#[test]
fn cause_a_control_flow() {
    let text = "shared n
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        n := n + 1
        release L
        if n == 2
        write 1
        end
        write 2
        thread b
        acquire L
        n := n + 1
        release L
        write 3";
    let found = |ending: &Ending| {
        matches!(
            ending,
            Ending::Mismatch {
                expected: Label(10),
                found: Label(12),
                ..
            }
        )
    };
    check_cause(text, &[(0, 0), (1, 9), (2, 17), (1, 0)], found);
}

#[test]
fn cause_b_value() {
    let text = "shared n
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        n := n + 1
        release L
        write n
        thread b
        acquire L
        n := n + 1
        release L
        write 3";
    let same_place = |ending: &Ending| matches!(ending, Ending::Mismatch { expected, found, .. } if expected == found);
    check_cause(text, &[(0, 0), (1, 9), (2, 14), (1, 0)], same_place);
}

#[test]
fn cause_c_a_wait_that_was_none() {
    let text = "shared ready
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        if ready == 0
        wait C L
        end
        release L
        write 2
        thread b
        acquire L
        ready := 1
        release L
        write 3
        acquire L
        signal C
        release L";
    let at_wait = |ending: &Ending| {
        matches!(
            ending,
            Ending::Deadlock {
                thread: ThreadIndex(1),
                label: Label(8)
            }
        )
    };
    check_cause(text, &[(0, 0), (2, 16), (1, 0), (2, 0)], at_wait);
}

#[test]
fn cause_d_a_lock_of_the_program() {
    let text = "shared s
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        release L
        write 1
        while s == 1
        end
        s := 1
        write 3
        s := 0
        thread b
        while s == 1
        end
        s := 1
        write 2
        s := 0";
    let spinning = |ending: &Ending| {
        matches!(
            ending,
            Ending::Deadlock {
                thread: ThreadIndex(2),
                ..
            }
        )
    };
    check_cause(text, &[(0, 0), (1, 9), (2, 0), (1, 0)], spinning);
}

#[test]
fn cause_e_order_of_synchronisations() {
    let text = "thread main
        spawn a
        spawn b
        spawn c
        thread a
        acquire L
        wait C L
        write 1
        release L
        thread b
        signal C
        write 3
        thread c
        acquire L
        write 2
        release L";
    let at_wait = |ending: &Ending| {
        matches!(
            ending,
            Ending::Deadlock {
                thread: ThreadIndex(1),
                label: Label(7)
            }
        )
    };
    check_cause(text, &[(0, 0), (1, 0), (2, 12), (1, 0), (3, 0), (2, 0)], at_wait);
}

/// Figure 9: three threads, eight calls, the seventh fails.
fn figure_9() -> EventLog {
    let threads = [2, 1, 1, 3, 2, 1, 3, 2];
    let mut made = [0; 4];
    let mut events = Vec::new();
    for (number, thread) in threads.into_iter().enumerate() {
        events.push(LoggedEvent {
            thread: ThreadIndex(thread),
            index: made[thread as usize],
            label: Label(number as u64 + 1),
            kind: EventKind::Call,
        });
        made[thread as usize] += 1;
    }
    EventLog::new(events).expect("numbered")
}

#[test]
fn window_of_figure_9() {
    let log = figure_9();
    // Event 7 is at position 6. Thread 3 since its event 4, thread 2 since 1, thread 1 since 3: threads have made 1, 1 and 2.
    let window = Window::of(&log, 6, ThreadIndex(3), 0);
    assert_eq!(window.from[1..], [2, 1, 1]);
    // Before event 4, thread 3 had none, and who spawned it is not in this log.
    assert!(Window::of(&log, 6, ThreadIndex(3), 1).is_whole());
    // Event 6 of thread 1: since 3; thread 2 since 1; thread 3 from its start. Then event 3: since 2; then all.
    assert_eq!(Window::of(&log, 5, ThreadIndex(1), 0).from[1..], [2, 1, 0]);
    assert_eq!(Window::of(&log, 5, ThreadIndex(1), 1).from[1..], [1, 1, 0]);
    assert!(Window::of(&log, 5, ThreadIndex(1), 2).is_whole());
}

#[test]
fn a_thread_without_events_begins_where_it_was_spawned() {
    let event = |thread, index, kind| LoggedEvent {
        thread: ThreadIndex(thread),
        index,
        label: Label(1),
        kind,
    };
    let spawn = EventKind::Spawn { child: ThreadIndex(1) };
    let log = EventLog::new(vec![
        event(0, 0, EventKind::Call),
        event(0, 1, spawn),
        event(0, 2, EventKind::Call),
        event(1, 0, EventKind::Call),
    ])
    .expect("numbered");
    assert_eq!(Window::of(&log, 3, ThreadIndex(1), 0).from, [2, 0]);
    assert_eq!(Window::of(&log, 3, ThreadIndex(1), 1).from, [1, 0]);
}

#[test]
fn threads_are_ordered_by_their_next_events() {
    // In the paper's example the synchronisation comes before event 5; what follows that decides.
    let order: Vec<u32> = figure_9().threads_from(5).iter().map(|thread| thread.0).collect();
    assert_eq!(order, [1, 3, 2, 0]);
}
