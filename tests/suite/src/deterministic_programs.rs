//! Deterministic runs of programs that do what public ones were seen to do, and that no racy guest does.
use crate::Checked;
use crate::deterministic::guest;
use crate::deterministic::run;
use crate::deterministic::run_delayed;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;

/// Schedules that are learned: whether one leads to a standstill depends on the order that was found for it.
const LESSONS: u32 = 8;
const ENFORCED: u64 = 3;

pub fn trials() -> Result<Vec<Trial>, String> {
    let of_libc = Guest::read(&tool::guests().join("coverage/library_functions.c"))?;
    let guests = [
        ("awaited_signals", guest("awaited.c")?),
        ("overlapping_memory", guest("overlaps.c")?),
        ("events_inside", guest("inside.c")?),
        ("functions_of_libc", of_libc),
    ];
    let trials = guests
        .into_iter()
        .map(|(name, guest)| trial(format!("deterministic/{name}"), move |s| goes_on(s, &guest)));
    Ok(trials.collect())
}

/// Every schedule of it can be followed to the end, and the output is the one that was recorded.
fn goes_on(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    for lesson in 0..LESSONS {
        let cache = format!("cache-{lesson}");
        let cached = ["--cache", &cache];
        let learned = sandbox.run(&run(sandbox, &cached).arg(&program))?.expect_status(0)?;
        for seed in 1..=ENFORCED {
            let ended = run_delayed(sandbox, &cached, seed, &[&program])?.expect_status(0)?;
            require(ended.stdout == learned.stdout, || {
                ended.told("expected what was printed when it was learned")
            })?;
        }
    }
    Ok(())
}
