//! What the search does with programs that need something in particular.
use crate::kernel::Executor;
use crate::kernel::Program;
use crate::kernel::Recording;
use crate::kernel::examples::lost_in_the_end;
use crate::kernel::examples::lost_updates;
use crate::kernel::examples::needs_preceding_window;
use crate::kernel::examples::needs_two;
use crate::kernel::examples::server;
use crate::kernel::record::show;
use crate::properties::ATTEMPTS_MAX;
use crate::properties::bounded;
use crate::properties::sample;
use crate::properties::search;
use run_model::ThreadIndex;
use schedule_search::Advancing;
use schedule_search::Ask;
use schedule_search::Attempt;
use schedule_search::Caching;
use schedule_search::Ending;
use schedule_search::Layer;
use schedule_search::Minimising;
use schedule_search::Outcome;
use schedule_search::Reduction;
use schedule_search::Replays;
use schedule_search::ScheduleEdit;
use schedule_search::Search;
use schedule_search::Spot;
use schedule_search::Statistics;
use schedule_search::Trace;
use schedule_search::Tuning;
use schedule_search::Window;

fn coarse_only() -> Tuning {
    Tuning {
        layers: vec![Layer::Synchronisations],
        advancing: Advancing::Off,
        ..Tuning::default()
    }
}

fn find(program: &Program, recording: &Recording, tuning: Tuning) -> Statistics {
    let (outcome, statistics) = search(program, recording, tuning, ATTEMPTS_MAX);
    assert!(
        matches!(outcome, Outcome::Found(_)),
        "{outcome:?} {statistics:?}\n{}",
        show(&recording.entries)
    );
    statistics
}

#[test]
fn caching_saves_attempts() {
    let (program, recording) = server(8);
    let with = find(&program, &recording, Tuning::default());
    let without = find(
        &program,
        &recording,
        Tuning {
            caching: Caching::Off,
            ..Tuning::default()
        },
    );
    assert_eq!((without.cache_hits, without.recalled), (0, 0));
    println!("with: {with:?}\nwithout: {without:?}");
    assert!(with.cache_hits >= 5, "{with:?}");
    assert!(
        2 * (with.coarse + with.fine + with.recalled) < without.coarse + without.fine,
        "{with:?}\n{without:?}"
    );
    // Threads change their roles from round to round: it is labels that are remembered.
    assert_eq!(with.failures, without.failures);
}

#[test]
fn reversals_are_remembered_too() {
    let (program, recording) = lost_updates(6);
    let with = find(&program, &recording, Tuning::default());
    let off = Tuning {
        caching: Caching::Off,
        ..Tuning::default()
    };
    let without = find(&program, &recording, off);
    println!("with: {with:?}\nwithout: {without:?}");
    assert!(with.cache_hits >= 4, "{with:?}");
    let cost = |statistics: &Statistics| statistics.fine + statistics.coarse + statistics.recalled;
    assert!(cost(&with) <= cost(&without), "{with:?}\n{without:?}");
    assert!(with.fine < without.fine, "{with:?}\n{without:?}");
}

#[test]
fn what_shows_only_in_the_end_is_found_by_plans_from_anywhere() {
    let (program, recording) = lost_in_the_end(40, 7);
    let accesses = Tuning {
        layers: vec![Layer::FirstAccesses, Layer::Accesses],
        ..Tuning::default()
    };
    let with = Tuning {
        scattered_max: 4096,
        ..accesses.clone()
    };
    let with = find(&program, &recording, with);
    let (_, without) = search(&program, &recording, accesses, ATTEMPTS_MAX);
    println!("with: {with:?}\nwithout: {without:?}");
    assert_eq!(without.scattered, 0);
    assert!(
        with.scattered > 0 && 2 * with.attempts < without.attempts,
        "{with:?}\n{without:?}"
    );
}

#[test]
fn two_layers_need_fewer_attempts_than_accesses_alone() {
    let (program, recording) = server(2);
    let two = find(&program, &recording, Tuning::default());
    let pres = find(&program, &recording, Tuning::pres_like());
    assert!(
        pres.fine > 2 * (two.coarse + two.fine + two.recalled),
        "{pres:?}\n{two:?}"
    );
    assert!(pres.window_races / pres.windows_traced > two.window_races / two.windows_traced.max(1));
}

#[test]
fn one_thread_may_go_on_as_far_as_it_can() {
    let (program, recording) = needs_two(0);
    let one = Tuning {
        bound_max: 1,
        advancing: Advancing::On,
        ..coarse_only()
    };
    let (outcome, _) = search(&program, &recording, one, ATTEMPTS_MAX);
    let Outcome::Found(plan) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(matches!(plan.edits[..], [ScheduleEdit::Advance { .. }]), "{plan:?}");
}

#[test]
fn two_preemptions_need_a_bound_of_two() {
    let (program, recording) = needs_two(0);
    let one = Tuning {
        bound_max: 1,
        windows_max: u64::MAX,
        ..coarse_only()
    };
    let (outcome, _) = search(&program, &recording, one, ATTEMPTS_MAX);
    assert!(matches!(outcome, Outcome::Exhausted { .. }), "{outcome:?}");
    let two = Tuning {
        bound_max: 2,
        ..coarse_only()
    };
    let statistics = find(&program, &recording, two);
    assert_eq!(statistics.edits_needed, 2);
    // From the beginning with two: before any other layer or window.
    let at_once = Tuning {
        bound_first: 2,
        bound_max: 2,
        advancing: Advancing::Off,
        ..Tuning::default()
    };
    let statistics = find(&program, &recording, at_once);
    assert_eq!((statistics.fine, statistics.edits_needed), (0, 2), "{statistics:?}");
}

#[test]
fn the_preceding_window_is_searched() {
    let (program, recording) = needs_preceding_window();
    let near = Tuning {
        windows_max: 1,
        ..coarse_only()
    };
    let (outcome, _) = search(&program, &recording, near, ATTEMPTS_MAX);
    // Two calls of main and its end, then the thread's first.
    assert_eq!(outcome, Outcome::Exhausted { met: 4 });
    let far = Tuning {
        windows_max: 2,
        ..coarse_only()
    };
    let statistics = find(&program, &recording, far);
    assert_eq!((statistics.edits_needed, statistics.windows), (1, 2), "{statistics:?}");
}

#[test]
fn preemptions_that_come_to_the_same_are_left_out() {
    let (program, recording) = independent_blocks();
    let one = Tuning {
        bound_max: 2,
        windows_first: 1,
        windows_max: 1,
        advancing: Advancing::Off,
        ..Tuning::default()
    };
    let with = find(&program, &recording, one.clone());
    let without = find(
        &program,
        &recording,
        Tuning {
            reduction: Reduction::Off,
            ..one
        },
    );
    assert!(with.left_out > 0, "{with:?}");
    assert_eq!(without.left_out, 0);
    assert!(with.attempts < without.attempts, "{with:?}\n{without:?}");
}

/// The two preemptions of [`needs_two`], among blocks of a third thread and of the first that have nothing to do with it.
fn independent_blocks() -> (Program, Recording) {
    let text = "shared x, y
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        x := x + 1
        release L
        acquire M
        y := y + 1
        release M
        acquire M
        y := y + 1
        release M
        acquire L
        x := x * 2
        release L
        acquire M
        y := y + 1
        release M
        acquire M
        y := y + 1
        release M
        write x
        thread b
        acquire L
        x := x + 10
        release L
        acquire L
        x := x * 3
        release L
        write 0";
    let program = Program::parse(text);
    let order = [(0, 0), (1, 9), (2, 29), (1, 18), (2, 32), (1, 0), (2, 0)];
    (program.clone(), crate::kernel::record_in_order(&program, &order))
}

#[test]
fn impossible_logs_are_exhausted() {
    let (program, mut recording) = needs_preceding_window();
    let impossible = recording
        .entries
        .iter()
        .position(|entry| entry.value == 5)
        .expect("written");
    recording.entries[impossible].value = 6;
    for reduction in [Reduction::On, Reduction::Off] {
        let tuning = Tuning {
            reduction,
            windows_max: u64::MAX,
            ..Tuning::default()
        };
        let (outcome, statistics) = search(&program, &recording, tuning, ATTEMPTS_MAX);
        assert_eq!(outcome, Outcome::Exhausted { met: 4 }, "{statistics:?}");
    }
}

/// Notes what was asked.
struct Noting<'a> {
    inner: Executor<'a>,
    asks: Vec<Ask>,
}

impl Replays for Noting<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        self.asks.push(ask.clone());
        self.inner.attempt(ask)
    }
}

#[test]
fn preemptions_are_tried_backward() {
    let (program, recording) = server(1);
    let mut noting = Noting {
        inner: Executor::new(&program, &recording),
        asks: Vec::new(),
    };
    let mut search = Search::new(recording.log.clone(), coarse_only());
    let outcome = search.run(&mut noting, 1, bounded);
    assert!(matches!(outcome, Outcome::Found(_)));
    // The first one tells all switch points.
    assert_eq!(noting.asks[0].trace, Trace::Points(Window::whole(&recording.log)));
    assert!(noting.asks[0].plan.edits.is_empty());
    let tried: Vec<(Spot, ThreadIndex)> = noting.asks[1..]
        .iter()
        .map_while(|ask| match ask.plan.edits[..] {
            [ScheduleEdit::Preempt { at, to }] => Some((at, to)),
            _ => None,
        })
        .collect();
    let (one, two, three) = (ThreadIndex(1), ThreadIndex(2), ThreadIndex(3));
    // After each release and before each acquisition of the first thread, from the last; the second thread's events come first.
    let at = |nth| Spot {
        thread: one,
        calls: 0,
        nth,
    };
    let expected = [6, 5, 4, 3]
        .into_iter()
        .flat_map(|nth| [(at(nth), two), (at(nth), three)]);
    let expected: Vec<_> = expected.chain([(at(2), two)]).collect();
    assert_eq!(tried[..expected.len()], expected);
    // Nothing before the point of the preemption can differ: that many events are met whatever is asked.
    assert!(
        noting.asks[2..]
            .iter()
            .all(|ask| ask.checkpoint.event <= recording.log.len())
    );
}

#[test]
fn checkpoints_are_true() {
    let mut cases = vec![server(4), needs_two(1), needs_preceding_window()];
    cases.extend(
        (0..100)
            .filter_map(sample)
            .map(|(_, program, recording)| (program, recording)),
    );
    let compared: usize = cases
        .iter()
        .map(|(program, recording)| check_checkpoints(program, recording))
        .sum();
    assert!(compared > 100, "{compared}");
}

/// Of asks that are said to be the same up to an event, the switch points up to it are the same. How many were compared.
fn check_checkpoints(program: &Program, recording: &Recording) -> usize {
    let mut noting = Noting {
        inner: Executor::new(program, recording),
        asks: Vec::new(),
    };
    let tuning = Tuning {
        minimising: Minimising::Off,
        ..Tuning::default()
    };
    Search::new(recording.log.clone(), tuning).run(&mut noting, 1, bounded);
    let whole = schedule_search::Window::whole(&recording.log);
    let mut first: Option<(Ask, Attempt)> = None;
    let mut compared = 0;
    for ask in noting.asks {
        let traced = Ask {
            trace: Trace::Points(whole.clone()),
            ..ask.clone()
        };
        let attempt = noting.inner.attempt(&traced);
        match &first {
            Some((other, base)) if other.checkpoint.admission == ask.checkpoint.admission => {
                let shared = other.checkpoint.event.min(ask.checkpoint.event);
                let before = |attempt: &Attempt| -> Vec<_> {
                    let points = attempt.points.iter().filter(|point| point.next < shared);
                    points.map(|point| (point.spot, point.to)).collect()
                };
                assert_eq!(before(base), before(&attempt));
                compared += usize::from(shared > 0);
            }
            _ => first = Some((ask, attempt)),
        }
    }
    compared
}

#[test]
fn an_admitted_move_that_leads_nowhere_is_given_up() {
    // One preemption makes x what it was, the other one as well, but then y is wrong; and it is tried first.
    let text = "shared x, y
        thread main
        spawn a
        spawn b
        spawn c
        thread a
        acquire M
        acquire L
        release L
        t := x
        u := y
        release M
        write t
        write u
        thread b
        acquire L
        x := 1
        y := 1
        release L
        thread c
        acquire M
        x := 1
        release M";
    let program = Program::parse(text);
    let recording = crate::kernel::record_in_order(&program, &[(0, 0), (3, 24), (1, 0), (2, 0), (3, 0)]);
    let tuning = Tuning {
        bound_max: 1,
        caching: Caching::Off,
        ..coarse_only()
    };
    let statistics = find(&program, &recording, tuning);
    assert_eq!((statistics.failures, statistics.edits_needed), (2, 1), "{statistics:?}");
}

#[test]
fn a_thread_may_have_to_be_held_longer() {
    // Until the first read, then until the second: one edit each time, and in the end one edit.
    let text = "shared y = 1
        thread main
        spawn a
        spawn b
        thread a
        write 0
        y := 0
        thread b
        write y
        write y";
    let program = Program::parse(text);
    let recording = crate::kernel::record_in_order(&program, &[(0, 0), (1, 7), (2, 0), (1, 0)]);
    let tuning = Tuning {
        layers: vec![Layer::Synchronisations, Layer::Accesses],
        bound_max: 1,
        ..Tuning::default()
    };
    let statistics = find(&program, &recording, tuning);
    assert_eq!((statistics.failures, statistics.edits_needed), (2, 1), "{statistics:?}");
}

/// Says that nothing touches anything.
struct Lying<'a>(Executor<'a>);

impl Replays for Lying<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        let mut attempt = self.0.attempt(ask);
        attempt.accesses.clear();
        attempt.followed.iter_mut().for_each(|thread| thread.objects.clear());
        attempt.points.iter_mut().for_each(|point| point.object = 0);
        attempt
    }
}

#[test]
fn what_was_left_out_is_tried_in_the_end() {
    let (program, recording) = independent_blocks();
    let tuning = Tuning {
        bound_max: 2,
        windows_first: 1,
        windows_max: 1,
        ..Tuning::of_the_paper()
    };
    let mut search = Search::new(recording.log.clone(), tuning);
    let outcome = search.run(&mut Lying(Executor::new(&program, &recording)), 1, bounded);
    assert!(matches!(outcome, Outcome::Found(_)), "{outcome:?}");
    assert!(search.statistics().left_out > 0);
    // The window was traced again for the second pass.
    assert_eq!(search.statistics().point_traces, 1, "{:?}", search.statistics());
}

#[test]
fn no_plan_is_tried_twice_for_a_failure() {
    let (program, mut recording) = needs_two(1);
    let impossible = recording
        .entries
        .iter()
        .position(|entry| entry.value == 66)
        .expect("written");
    recording.entries[impossible].value = 67;
    let mut noting = Noting {
        inner: Executor::new(&program, &recording),
        asks: Vec::new(),
    };
    let tuning = Tuning {
        layers: vec![Layer::Synchronisations, Layer::Calls],
        bound_max: 3,
        windows_max: u64::MAX,
        reduction: Reduction::Off,
        ..Tuning::default()
    };
    let outcome = Search::new(recording.log.clone(), tuning).run(&mut noting, 1, bounded);
    assert!(matches!(outcome, Outcome::Exhausted { .. }), "{outcome:?}");
    // Traces of windows repeat the admitted plan, which is none.
    let mut plans: Vec<Vec<ScheduleEdit>> = noting.asks.into_iter().map(|ask| ask.plan.edits).collect();
    plans.retain(|edits| !edits.is_empty());
    plans.iter_mut().for_each(|edits| edits.sort_unstable());
    let tried = plans.len();
    plans.sort_unstable();
    plans.dedup();
    assert_eq!(plans.len(), tried);
    assert!(tried > 100, "{tried}");
}

/// Tells no more than it must: not who could go on, nor where threads stand, nor what they would do after a failure.
struct Taciturn<'a>(Executor<'a>);

impl Replays for Taciturn<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        let mut attempt = self.0.attempt(ask);
        attempt.points.iter_mut().for_each(|point| point.runnable.clear());
        attempt.accesses.retain(|access| !access.is_beyond);
        attempt.followed.clear();
        attempt.stands.clear();
        attempt
    }
}

#[test]
fn executors_need_not_tell_everything() {
    for (program, recording) in [server(2), needs_two(1), needs_preceding_window()] {
        let mut search = Search::new(recording.log.clone(), Tuning::default());
        let outcome = search.run(&mut Taciturn(Executor::new(&program, &recording)), 1, bounded);
        assert!(matches!(outcome, Outcome::Found(_)), "{outcome:?}");
        assert_eq!(search.statistics().cache_hits, 0);
    }
}

#[test]
fn replays_that_do_the_same_are_not_extended() {
    let (program, recording) = independent_blocks();
    let run = |reduction| {
        let tuning = Tuning {
            reduction,
            ..coarse_only()
        };
        let mut search = Search::new(recording.log.clone(), tuning);
        let outcome = search.run(&mut Taciturn(Executor::new(&program, &recording)), 1, bounded);
        assert!(matches!(outcome, Outcome::Found(_)), "{outcome:?}");
        *search.statistics()
    };
    let (with, without) = (run(Reduction::On), run(Reduction::Off));
    assert!(with.duplicates > 0 && with.left_out == 0, "{with:?}");
    assert!(with.attempts < without.attempts, "{with:?}\n{without:?}");
}

#[test]
fn calls_are_switch_points_of_last_resort() {
    let text = "shared x
        thread main
        spawn a
        spawn b
        thread a
        write 0
        t := x
        write t
        thread b
        x := 5
        write 9";
    let program = Program::parse(text);
    let recording = crate::kernel::record_in_order(&program, &[(0, 0), (2, 11), (1, 0), (2, 0)]);
    let run = |layers: Vec<Layer>| {
        let tuning = Tuning {
            layers,
            ..Tuning::default()
        };
        // Nobody knows of the store that comes too late, and nobody synchronises.
        let mut replays = Taciturn(Executor::new(&program, &recording));
        Search::new(recording.log.clone(), tuning).run(&mut replays, 1, bounded)
    };
    let two = vec![Layer::Synchronisations, Layer::Accesses];
    assert!(matches!(run(two), Outcome::Exhausted { .. }));
    assert!(matches!(run(Tuning::default().layers), Outcome::Found(_)));
}

/// Answers the same ask differently the second time.
struct Unsteady<'a>(Executor<'a>);

impl Replays for Unsteady<'_> {
    fn attempt(&mut self, ask: &Ask) -> Attempt {
        let mut attempt = self.0.attempt(ask);
        if self.0.attempts == 2 {
            attempt.met -= 1;
            attempt.ending = Ending::Deadlock {
                thread: ThreadIndex(0),
                label: schedule_search::Label(1),
            };
        }
        attempt
    }
}

#[test]
fn executors_that_change_their_mind_are_noticed() {
    let (program, recording) = server(1);
    let mut unsteady = Unsteady(Executor::new(&program, &recording));
    let outcome = Search::new(recording.log.clone(), Tuning::pres_like()).run(&mut unsteady, 1, bounded);
    assert!(
        matches!(outcome, Outcome::Unsteady { expected, met } if met + 1 == expected),
        "{outcome:?}"
    );
}
