//! The speed guests of `tests/bench`, for correctness only: they are larger than the others and race-free, so the recorded
//! and the replayed run must print the checksum that the plain compiler's program prints.
use crate::Checked;
use crate::guest::Guest;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::programs_in(&tool::guests().with_file_name("bench"))?;
    let with_name = |guest: Guest| trial(format!("speed/{}", guest.name()), move |s| check(s, &guest));
    Ok(guests.into_iter().map(with_name).collect())
}

fn check(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let is_cxx = guest.is_cxx();
    let standard = if is_cxx { "-std=c++20" } else { "-std=gnu11" };
    let compile = sandbox
        .other(tool::plain_compiler(is_cxx), [standard, "-pthread", "-o", "plain"])
        .args(&guest.flags)
        .arg(&guest.source)
        .args(&guest.link);
    sandbox.run(&compile)?.expect_status(0)?;
    let plain = sandbox.run(&sandbox.other("./plain", [""; 0]))?.expect_status(0)?;
    require(plain.stdout.starts_with(b"checksum "), || {
        plain.told("expected a checksum")
    })?;
    let program = guest.build(sandbox, &[])?;
    // Memory is observed only in full mode: dense kernels take their time there.
    let scopes: &[&str] = if tool::is_full() {
        &["sync", "memory"]
    } else {
        &["sync"]
    };
    for scope in scopes {
        let recorded = record(sandbox, scope, &["--scope", scope], &program, LIMIT)?;
        let ended = recorded.ended.clone().expect_status(0)?;
        require(ended.stdout == plain.stdout, || {
            ended.told(&format!("the plain program prints {}", plain.stdout_text().trim()))
        })?;
        recorded.check_replay(sandbox, 2, 0, LIMIT)?;
    }
    Ok(())
}
