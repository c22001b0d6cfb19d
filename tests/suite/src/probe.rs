//! The determinism probe: any change of the interleaving changes its signature.
use crate::Checked;
use crate::guest::Guest;
use crate::load::Load;
use crate::recording::record;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::time::Duration;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guest = Guest::read(&tool::guests().join("probes/racey_like.c"))?;
    let with_threads = |threads: u32| {
        let guest = guest.clone();
        trial(format!("probe/racey_like_{threads}"), move |s| {
            check(s, &guest, threads)
        })
    };
    Ok([2, 4, 8, 16].map(with_threads).into())
}

fn check(sandbox: &Sandbox, guest: &Guest, threads: u32) -> Checked {
    let times = if tool::is_full() { 200 } else { 20 };
    let limit = Duration::from_secs(u64::from(times) * 10);
    let program = guest.build(sandbox, &[&format!("-DTHREADS={threads}")])?;
    let recorded = record(sandbox, "signature", &[], &program, Duration::from_secs(120))?;
    let ended = recorded.ended.clone().expect_status(0)?;
    crate::require(ended.stdout.starts_with(b"signature "), || {
        ended.told("expected a signature")
    })?;
    recorded.check_passed_through()?;
    recorded.check_replay(sandbox, times, 0, limit)?;
    // Single replays are compared here byte by byte, each with other delays, on a busy machine.
    let _load = Load::start();
    for jitter in 1..=3 {
        recorded.check_replay(sandbox, 1, jitter, limit)?;
    }
    Ok(())
}
