//! Replays with live inputs: threads in their recorded order, in a world that is another one.
use crate::Checked;
use crate::command::Ended;
use crate::failed;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// Where in a control file the two policies are (`runtime_abi::ControlHeader`).
const ORDER_AT: usize = 16;
const INPUTS_AT: usize = ORDER_AT + 8;
const SCOPE_AT: usize = INPUTS_AT + 8;
/// Of the letters in the file that the guest reads.
const BEFORE: &str = "recorded";
const AFTER: [&str; 5] = ["sunshine", "rainfall", "overcast", "hailing!", "blizzard"];

pub fn trials() -> Result<Vec<Trial>, String> {
    let guest = Guest::read(&tool::guests().join("live/clock.c"))?;
    let at_scope = |scope: &'static str| {
        let guest = guest.clone();
        trial(format!("live/clock_{scope}"), move |sandbox| {
            check_clock(sandbox, &guest, scope)
        })
    };
    let forking = Guest::read(&tool::guests().join("coverage/processes_forked.c"))?;
    let with = |name: &str, guest: &Guest, check: fn(&Sandbox, &Guest) -> Checked| {
        let guest = guest.clone();
        trial(format!("live/{name}"), move |sandbox| check(sandbox, &guest))
    };
    Ok(vec![
        at_scope("memory"),
        at_scope("sync"),
        with("refused_at_scope_inputs", &guest, refuse_scope_inputs),
        with("refused_with_processes", &forking, refuse_processes),
        with("pairs_without_sense_are_refused", &guest, refuse_pairs),
    ])
}

/// What the guest prints.
struct Seen {
    order: String,
    clock_ns: u64,
    process: String,
    letters: String,
}

impl Seen {
    fn read(ended: &Ended) -> Checked<Seen> {
        let text = ended.stdout_text();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map_or_else(
                || failed(ended.told(&format!("expected \"{name}\""))),
                |line| Ok(line.to_owned()),
            )
        };
        let clock = value("clock ")?;
        Ok(Seen {
            order: value("order ")?,
            clock_ns: clock.parse().or_else(|_| failed(ended.told("expected a time")))?,
            process: value("process ")?,
            letters: value("letters ")?,
        })
    }
}

fn check_clock(sandbox: &Sandbox, guest: &Guest, scope: &str) -> Checked {
    let program = guest.build(sandbox, &[])?;
    // Disturbed, so that no other run has this order by chance.
    for seed in ["--chaos=1", "--chaos=2"] {
        sandbox.write("letters", BEFORE)?;
        let recorded = record(sandbox, seed, &["--scope", scope, seed], &program, LIMIT)?;
        let before = Seen::read(&recorded.ended.clone().expect_status(0)?)?;
        recorded.check_replay(sandbox, 2, 0, LIMIT)?;
        let mut clock_ns = before.clock_ns;
        for (jitter, letters) in (0..).zip(AFTER) {
            sandbox.write("letters", letters)?;
            let ended = replay_live(sandbox, &recorded, jitter)?.expect_status(0)?;
            let now = Seen::read(&ended)?;
            // Gates were enforced.
            require(now.order == before.order, || ended.told("expected the recorded order"))?;
            // Nothing was answered.
            require(now.clock_ns > clock_ns, || ended.told("expected a later time"))?;
            require(now.process != before.process, || ended.told("expected other ids"))?;
            require(now.letters == letters, || ended.told("expected what the file has now"))?;
            clock_ns = now.clock_ns;
        }
        // An answered replay is still the recorded one.
        recorded.check_replay(sandbox, 1, 1, LIMIT)?;
    }
    Ok(())
}

fn replay_live(sandbox: &Sandbox, recorded: &Recorded, jitter: u64) -> Checked<Ended> {
    let line = sandbox
        .refrain(["replay", "--live-inputs", "--jitter", &jitter.to_string()])
        .arg(&recorded.directory)
        .within(LIMIT);
    sandbox.run(&line)
}

fn refuse_scope_inputs(sandbox: &Sandbox, guest: &Guest) -> Checked {
    sandbox.write("letters", BEFORE)?;
    let program = guest.build(sandbox, &[])?;
    let threads = record(sandbox, "threads", &["--scope", "inputs"], &program, LIMIT)?;
    replay_live(sandbox, &threads, 0)?
        .expect_status(3)?
        .expect_refusal(&["order turns with inputs live"])?;
    let alone = record(sandbox, "alone", &["--scope", "inputs"], Path::new("/bin/true"), LIMIT)?;
    replay_live(sandbox, &alone, 0)?
        .expect_status(3)?
        .expect_refusal(&["order gated with inputs live at scope inputs"])?;
    Ok(())
}

fn refuse_processes(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "forked", &[], &program, LIMIT)?;
    replay_live(sandbox, &recorded, 0)?
        .expect_status(3)?
        .expect_refusal(&["live inputs are for runs of one process"])?;
    Ok(())
}

/// The runtime itself refuses what no tool should ask of it: a control file is forged for each pair.
fn refuse_pairs(sandbox: &Sandbox, guest: &Guest) -> Checked {
    const ORDERS: [&str; 4] = ["free", "observed", "gated", "turns"];
    const INPUTS: [&str; 3] = ["live", "recorded", "answered"];
    const SENSIBLE: [[bool; 3]; 4] = [
        [true, false, false],
        [false, true, false],
        [true, false, true],
        [false, false, true],
    ];
    sandbox.write("letters", BEFORE)?;
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "recorded", &[], &program, LIMIT)?;
    let control = fs::read(recorded.directory.join("control"))?;
    let mut refused = 0;
    for (order, inputs) in (0..ORDERS.len()).flat_map(|order| (0..INPUTS.len()).map(move |inputs| (order, inputs))) {
        if SENSIBLE[order][inputs] {
            continue;
        }
        let mut forged = control.clone();
        put(&mut forged, ORDER_AT, order);
        put(&mut forged, INPUTS_AT, inputs);
        let name = format!("order {} with inputs {}: ", ORDERS[order], INPUTS[inputs]);
        run_forged(sandbox, &program, &forged, &name)?;
        refused += 1;
    }
    require(refused == 7, || "expected seven pairs without sense".to_owned())?;
    // What is no order at all is not taken for one.
    for (setting, offset) in [("order", ORDER_AT), ("inputs", INPUTS_AT), ("scope", SCOPE_AT)] {
        let mut forged = control.clone();
        put(&mut forged, offset, 77);
        run_forged(
            sandbox,
            &program,
            &forged,
            &format!("the setting `{setting}` has a value"),
        )?;
    }
    Ok(())
}

/// The program does not begin with this control file, and says why.
fn run_forged(sandbox: &Sandbox, program: &Path, forged: &[u8], why: &str) -> Checked {
    fs::write(sandbox.work().join("forged"), forged)?;
    let script = format!("exec 239<>forged; REFRAIN=239 exec {}", program.display());
    let ended = sandbox
        .run(&sandbox.other("bash", ["-c", &script]))?
        .expect_status(125)?;
    require(ended.stderr_text().contains(why), || {
        ended.told(&format!("expected \"{why}\" and why"))
    })
}

fn put(control: &mut [u8], offset: usize, value: usize) {
    control[offset..offset + 4].copy_from_slice(&(value as u32).to_le_bytes());
}
