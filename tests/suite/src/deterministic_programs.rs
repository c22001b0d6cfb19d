//! Deterministic runs of programs that do what public ones were seen to do, and that no racy guest does.
use crate::Checked;
use crate::deterministic::guest;
use crate::deterministic::run;
use crate::deterministic::run_delayed;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;

/// Schedules that are learned: whether one leads to a standstill depends on the order that was found for it.
const LESSONS: u32 = 8;
const ENFORCED: u64 = 3;

pub fn trials() -> Result<Vec<Trial>, String> {
    let awaited = guest("awaited.c")?;
    Ok(vec![trial("deterministic/awaited_signals", move |s| {
        goes_on(s, &awaited)
    })])
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
