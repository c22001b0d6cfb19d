//! Deterministic runs: do schedules say what the program did? Most guests would come back with schedules that are wrong in the same
//! way for every run, so here their text is compared with the source.
use crate::Checked;
use crate::deterministic::directory_of;
use crate::deterministic::guest;
use crate::deterministic::only_listed;
use crate::deterministic::run;
use crate::deterministic::usual_cache;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs;

pub fn trials() -> Result<Vec<Trial>, String> {
    let adjacent = guest("adjacent.c")?;
    let turns = guest("turns.c")?;
    Ok(vec![
        trial("deterministic/adjacent_calls", move |s| adjacent_calls(s, &adjacent)),
        trial("deterministic/long_turns", move |s| long_turns(s, &turns)),
    ])
}

/// What a thread does to an object, and the object's name.
type Step = (String, String);

/// A call has its own record, not that of the next one: the threads do what the source says behind each line, each to its objects.
fn adjacent_calls(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let source = fs::read_to_string(&guest.source)?;
    let once = source.lines().filter_map(|line| line.split_once("// step: "));
    let once: Vec<Step> = once.filter_map(|(_, step)| pair(step)).collect();
    require(once.len() == 14, || format!("the source has the steps {once:?}"))?;
    let expected: Vec<Step> = once.iter().cycle().take(5 * once.len()).cloned().collect();

    let program = guest.build(sandbox, &["--det"])?;
    sandbox.run(&run(sandbox, &[]).arg(&program))?.expect_status(0)?;
    let entry = only_listed(sandbox, &usual_cache(sandbox))?;
    let text = fs::read_to_string(directory_of(&entry).join("steps"))?;
    for thread in ["t0", "t1"] {
        let found: Vec<Step> = text
            .lines()
            .filter_map(|line| line.trim().split_once(&format!("  {thread}  ")))
            .filter_map(|(_, step)| pair(step))
            .filter(|(what, _)| expected.iter().any(|(known, _)| known == what))
            .collect();
        require(is_same(&expected, &found), || {
            format!("of {thread} expected {expected:?}, found {found:?}; all steps:\n{text}")
        })?;
    }
    Ok(())
}

/// Threads that do little but synchronise do not hand over at every lock: enforcing that would cost more than all the rest. And what they print depends
/// on whose turn it was, so an enforced run prints what was printed then.
fn long_turns(sandbox: &Sandbox, guest: &Guest) -> Checked {
    const STEPS_BETWEEN_HAND_OVERS: usize = 50;
    let program = guest.build(sandbox, &["--det"])?;
    let line = run(sandbox, &[]).arg(&program);
    let learned = sandbox.run(&line)?.expect_status(0)?;
    let entry = only_listed(sandbox, &usual_cache(sandbox))?;
    let text = fs::read_to_string(directory_of(&entry).join("steps"))?;
    let steps = text.lines().take_while(|line| *line != "constraints");
    let threads: Vec<&str> = steps.filter_map(|line| line.split_whitespace().nth(1)).collect();
    let hand_overs = threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
    require(hand_overs * STEPS_BETWEEN_HAND_OVERS <= threads.len(), || {
        format!("{} steps have {hand_overs} hand-overs", threads.len())
    })?;
    let enforced = sandbox.run(&line)?.expect_status(0)?;
    require(enforced.stdout == learned.stdout, || {
        enforced.told("it printed something else than when it was learned")
    })
}

fn pair(step: &str) -> Option<Step> {
    let (what, object) = step.trim().split_once(' ')?;
    Some((what.to_owned(), object.to_owned()))
}

/// The same things in the same order, each to the object that always has that name, and to no other.
fn is_same(expected: &[Step], found: &[Step]) -> bool {
    let mut names = BTreeMap::new();
    let mut objects = BTreeMap::new();
    expected.len() == found.len()
        && expected.iter().zip(found).all(|((what, name), (found_what, object))| {
            what == found_what
                && names.entry(name).or_insert(object) == &object
                && objects.entry(object).or_insert(name) == &name
        })
}
