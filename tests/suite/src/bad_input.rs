//! What users and disks get wrong: each a sentence and exit status 3 (or 2), never a panic, never a hang.
use crate::Checked;
use crate::failed;
use crate::guest::Guest;
use crate::method;
use crate::method::Method;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a thread log before its stream of records.
const LOG_HEADER_BYTES: usize = 64;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guest = Guest::read(&tool::guests().join("probes/canary.c"))?;
    let library_guest = Guest::read(&tool::guests().join("coverage/shared_library/main.c"))?;
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let on_run: [(&str, Check); 11] = [
        ("truncated_log", truncated_log),
        ("bit_flipped_log", bit_flipped_log),
        ("bit_flipped_anything", bit_flipped_anything),
        ("missing_log", missing_log),
        ("newer_version", newer_version),
        ("malformed_metadata", malformed_metadata),
        ("changed_program", changed_program),
        ("missing_program", missing_program),
        ("unwritable_directory", unwritable_directory),
        ("output_exists", output_exists),
        ("runs_are_listed_and_removed", runs_are_listed_and_removed),
    ];
    let with = |name: &str, check: Check, guest: &Guest| {
        let guest = guest.clone();
        trial(format!("bad_input/{name}"), move |s| check(s, &guest))
    };
    let mut trials: Vec<Trial> = on_run.map(|(name, check)| with(name, check, &guest)).into();
    trials.push(with("missing_library", missing_library, &library_guest));
    trials.push(with("changed_library", changed_library, &library_guest));
    trials.push(trial("bad_input/foreign_files", foreign_files));
    trials.push(trial(
        "bad_input/programs_that_cannot_be_recorded",
        programs_that_cannot_be_recorded,
    ));
    trials.push(trial("bad_input/usage", usage));
    Ok(trials)
}

/// A good run of the guest, in the directory `run`.
fn good_run(sandbox: &Sandbox, guest: &Guest) -> Checked<Recorded> {
    let program = guest.build(sandbox, &[])?;
    good_run_by(sandbox, &program, "run", method::LIGHT)
}

fn good_run_by(sandbox: &Sandbox, program: &Path, name: &str, method: Method) -> Checked<Recorded> {
    let recorded = record(sandbox, name, method.arguments, program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    recorded.check_replay(sandbox, 1, 0, LIMIT)?;
    Ok(recorded)
}

fn replay(sandbox: &Sandbox, run: &str) -> Checked<crate::command::Ended> {
    sandbox.run(&sandbox.refrain(["replay", run]).within(LIMIT))
}

/// Nothing about the run may make these crash or hang; what they answer depends on the damage.
fn inspect(sandbox: &Sandbox, run: &str) -> Checked {
    for command in [
        &["info"][..],
        &["info", "--json"],
        &["dump", "--limit", "3"],
        &["dump", "--count"],
        &["solve"],
        &["explain"],
    ] {
        let ended = sandbox.run(&sandbox.refrain(command).arg(run).within(LIMIT))?;
        require((0..=3).contains(&ended.status), || {
            ended.told("expected exit status 0 to 3")
        })?;
    }
    Ok(())
}

fn truncated_log(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let log = good_run(sandbox, guest)?.directory.join("thread-1.log");
    let whole = fs::read(&log)?;
    let stream = stream_bytes(&whole)?;
    for kept in [
        0,
        1,
        7,
        LOG_HEADER_BYTES - 1,
        LOG_HEADER_BYTES,
        LOG_HEADER_BYTES + stream / 2,
        LOG_HEADER_BYTES + stream - 1,
    ] {
        sandbox.note(format!("truncate -s {kept} {}", log.display()));
        fs::write(&log, &whole[..kept])?;
        replay(sandbox, "run")?.expect_refusal(&["thread-1.log"])?;
        inspect(sandbox, "run")?;
    }
    fs::write(&log, &whole)?;
    replay(sandbox, "run")?.expect_status(0)?;
    Ok(())
}

fn bit_flipped_log(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    for method in std::iter::once(method::LIGHT).chain(method::others()) {
        let run = method.name;
        let recorded = good_run_by(sandbox, &program, run, method)?;
        let log = recorded.directory.join("thread-2.log");
        let whole = fs::read(&log)?;
        let stream = stream_bytes(&whole)?;
        for step in 0..16 {
            // Spread over the stream, and over the bits of a byte.
            let (place, bit) = (LOG_HEADER_BYTES + (stream - 1) * step / 15, step % 8);
            flip(sandbox, &log, &whole, place, bit)?;
            replay(sandbox, run)?.expect_refusal(&["thread-2.log"])?;
        }
        inspect(sandbox, run)?;
    }
    Ok(())
}

fn bit_flipped_anything(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = good_run(sandbox, guest)?.directory;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&run)? {
        files.push(entry?.path());
    }
    files.sort();
    for file in files {
        let whole = fs::read(&file)?;
        for step in 0..if whole.is_empty() { 0 } else { 6 } {
            // Mostly near the beginning, where headers are; control files are long and empty.
            let used = whole.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            let place = if step < 3 {
                (step * 5 + 4).min(used - 1)
            } else {
                (used - 1) * step / 5
            };
            flip(sandbox, &file, &whole, place, (step * 3) % 8)?;
            let ended = replay(sandbox, "run")?;
            require((0..=3).contains(&ended.status), || {
                ended.told("expected exit status 0 to 3")
            })?;
        }
        inspect(sandbox, "run")?;
        fs::write(&file, &whole)?;
    }
    replay(sandbox, "run")?.expect_status(0)?;
    Ok(())
}

fn missing_log(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let log = good_run(sandbox, guest)?.directory.join("thread-1.log");
    sandbox.note(format!("rm {}", log.display()));
    fs::remove_file(&log)?;
    replay(sandbox, "run")?.expect_refusal(&["thread-1.log"])?;
    inspect(sandbox, "run")
}

fn newer_version(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = good_run(sandbox, guest)?.directory;
    let log = run.join("thread-1.log");
    let mut bytes = fs::read(&log)?;
    let old = bytes.clone();
    // The format version is the 32-bit number after the magic.
    bytes[8..12].copy_from_slice(&99u32.to_le_bytes());
    sandbox.note(format!(
        "printf '\\x63\\x00\\x00\\x00' | dd of={} bs=1 seek=8 conv=notrunc",
        log.display()
    ));
    fs::write(&log, bytes)?;
    replay(sandbox, "run")?.expect_refusal(&["99", "thread-1.log"])?;
    fs::write(&log, old)?;

    let metadata = run.join("run.json");
    let text = fs::read_to_string(&metadata)?;
    let newer = text.replacen("\"version\": 2", "\"version\": 999", 1);
    require(newer != text, || format!("{} has no version 2", metadata.display()))?;
    sandbox.note(format!(
        "sed -i '0,/\"version\": 2/s//\"version\": 999/' {}",
        metadata.display()
    ));
    fs::write(&metadata, newer)?;
    replay(sandbox, "run")?.expect_refusal(&["999"])?;
    inspect(sandbox, "run")
}

fn malformed_metadata(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let run = good_run(sandbox, guest)?.directory;
    let metadata = run.join("run.json");
    let whole = fs::read(&metadata)?;
    let half = String::from_utf8_lossy(&whole[..whole.len() / 2]).into_owned();
    for wrong in [
        "",
        "{",
        "[]",
        "null",
        "{\"version\": 1}",
        "{\"version\": \"one\"}",
        "\u{fffd}\u{0}",
        &half,
    ] {
        sandbox.note(format!("printf '%s' '{wrong}' > {}", metadata.display()));
        fs::write(&metadata, wrong)?;
        replay(sandbox, "run")?.expect_refusal(&["run.json"])?;
        inspect(sandbox, "run")?;
    }
    Ok(())
}

fn changed_program(sandbox: &Sandbox, guest: &Guest) -> Checked {
    good_run(sandbox, guest)?;
    let program = guest.build(sandbox, &["-DCHANGED"])?;
    let mut bytes = fs::read(&program)?;
    bytes.push(0);
    sandbox.note(format!("printf '\\0' >> {}", program.display()));
    fs::write(&program, bytes)?;
    replay(sandbox, "run")?.expect_refusal(&["canary", "changed"])?;
    inspect(sandbox, "run")
}

fn missing_program(sandbox: &Sandbox, guest: &Guest) -> Checked {
    good_run(sandbox, guest)?;
    let program = sandbox.work().join(guest.name());
    sandbox.note(format!("rm {}", program.display()));
    fs::remove_file(program)?;
    replay(sandbox, "run")?.expect_refusal(&["canary"])?;
    inspect(sandbox, "run")
}

fn missing_library(sandbox: &Sandbox, guest: &Guest) -> Checked {
    good_run(sandbox, guest)?;
    sandbox.note("rm libqueue.so");
    fs::remove_file(sandbox.work().join("libqueue.so"))?;
    replay(sandbox, "run")?.expect_refusal(&["libqueue.so"])?;
    inspect(sandbox, "run")
}

fn changed_library(sandbox: &Sandbox, guest: &Guest) -> Checked {
    good_run(sandbox, guest)?;
    let library = sandbox.work().join("libqueue.so");
    let mut bytes = fs::read(&library)?;
    bytes.push(0);
    sandbox.note("printf '\\0' >> libqueue.so");
    fs::write(&library, bytes)?;
    replay(sandbox, "run")?.expect_refusal(&["libqueue.so"])?;
    Ok(())
}

fn unwritable_directory(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    sandbox.write("file", "not a directory\n")?;
    // Not by permissions, because root may write anywhere.
    for place in ["/proc/refrain", "file/runs"] {
        let place = sandbox.work().join(place);
        let line = sandbox
            .refrain(["record", "--"])
            .arg(&program)
            .var("REFRAIN_DIR", &place);
        let ended = sandbox.run(&line)?.expect_refusal(&[])?;
        require(ended.stdout.is_empty(), || {
            ended.told("the program ran although nothing could be recorded")
        })?;
        let line = sandbox
            .refrain(["record", "-o"])
            .arg(place.join("run"))
            .arg("--")
            .arg(&program);
        sandbox.run(&line)?.expect_refusal(&[])?;
    }
    Ok(())
}

fn output_exists(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    fs::create_dir(sandbox.work().join("there"))?;
    sandbox.write("file", "")?;
    for place in ["there", "file"] {
        let line = sandbox.refrain(["record", "-o", place, "--"]).arg(&program);
        let ended = sandbox.run(&line)?.expect_refusal(&[place])?;
        require(ended.stdout.is_empty(), || {
            ended.told("the program ran although nothing could be recorded")
        })?;
    }
    Ok(())
}

fn runs_are_listed_and_removed(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let ended = sandbox.run(&sandbox.refrain(["ls"]))?.expect_status(0)?;
    require(ended.stdout.is_empty(), || ended.told("there are no runs yet"))?;
    for command in ["replay", "info", "dump", "solve"] {
        sandbox.run(&sandbox.refrain([command]))?.expect_refusal(&[])?;
    }
    let program = guest.build(sandbox, &[])?;
    for _ in 0..2 {
        sandbox
            .run(&sandbox.refrain(["record", "--"]).arg(&program))?
            .expect_status(0)?;
    }
    let listed = sandbox.run(&sandbox.refrain(["ls", "--json"]))?.expect_status(0)?;
    let json: serde_json::Value =
        serde_json::from_slice(&listed.stdout).or_else(|e| failed(listed.told(&format!("not JSON: {e}"))))?;
    require(json.as_array().is_some_and(|runs| runs.len() == 2), || {
        listed.told("expected two runs")
    })?;
    replay(sandbox, "canary-1")?.expect_status(0)?;
    sandbox.run(&sandbox.refrain(["replay"]))?.expect_status(0)?;
    for name in ["canary-7", "no such run", "../runs", ""] {
        replay(sandbox, name)?.expect_refusal(&[])?;
        sandbox.run(&sandbox.refrain(["rm", name]))?.expect_refusal(&[])?;
    }
    sandbox.run(&sandbox.refrain(["rm", "canary-1"]))?.expect_status(0)?;
    replay(sandbox, "canary-1")?.expect_refusal(&["canary-1"])?;
    sandbox.run(&sandbox.refrain(["rm", "--all"]))?.expect_status(0)?;
    sandbox.run(&sandbox.refrain(["replay"]))?.expect_refusal(&[])?;
    Ok(())
}

fn foreign_files(sandbox: &Sandbox) -> Checked {
    sandbox.write("notes.txt", "not a run\n")?;
    sandbox.write("empty/.keep", "")?;
    sandbox.write("other/run.json", "{\"name\": \"somebody else's file\"}")?;
    fs::write(sandbox.work().join("binary"), [0u8, 159, 146, 150])?;
    let strangers = [
        "notes.txt",
        "./notes.txt",
        "empty",
        "./empty",
        "binary",
        "/dev/null",
        "/",
    ];
    for run in strangers {
        for command in ["replay", "info", "dump", "solve", "rm"] {
            sandbox.run(&sandbox.refrain([command, run]))?.expect_refusal(&[])?;
        }
    }
    // Not removed here: a run whose metadata was damaged looks the same, and may be removed.
    for command in ["replay", "info", "dump", "solve"] {
        sandbox
            .run(&sandbox.refrain([command, "other"]))?
            .expect_refusal(&["run.json"])?;
    }
    require(sandbox.work().join("notes.txt").exists(), || {
        "rm removed a file that is no run".to_owned()
    })
}

fn programs_that_cannot_be_recorded(sandbox: &Sandbox) -> Checked {
    sandbox.write("data", "no program\n")?;
    let script = sandbox.write("script.sh", "#!/bin/sh\necho ran\n")?;
    sandbox
        .run(&sandbox.other("chmod", ["+x"]).arg(&script))?
        .expect_status(0)?;
    for program in ["/bin/true", "./script.sh", "./data", "./nowhere", ".", ""] {
        let ended = sandbox
            .run(&sandbox.refrain(["record", "--", program]))?
            .expect_refusal(&[])?;
        require(ended.stdout.is_empty(), || {
            ended.told("it ran something that was not instrumented")
        })?;
    }
    Ok(())
}

fn usage(sandbox: &Sandbox) -> Checked {
    let wrong: [&[&str]; 12] = [
        &[],
        &["no-such-command"],
        &["record"],
        &["record", "--no-such-flag", "/bin/true"],
        &["record", "--method", "magic", "/bin/true"],
        &["record", "--scope", "everything", "/bin/true"],
        &["record", "--until-failure=0", "/bin/true"],
        &["record", "--timeout", "soon", "/bin/true"],
        &["record", "--max-size", "0", "/bin/true"],
        &["replay", "--times", "0"],
        &["replay", "--times", "many"],
        &["rm"],
    ];
    for arguments in wrong {
        sandbox.run(&sandbox.refrain(arguments))?.expect_status(2)?;
    }
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["record", "--help"],
        &["replay", "--help"],
    ] {
        let ended = sandbox.run(&sandbox.refrain(arguments))?.expect_status(0)?;
        require(!ended.stdout.is_empty(), || ended.told("expected help on stdout"))?;
    }
    Ok(())
}

/// Bytes of the stream after a log's header: the low 40 bits of the tail at byte 16.
fn stream_bytes(log: &[u8]) -> Checked<usize> {
    let Some(tail) = log
        .get(16..24)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_le_bytes)
    else {
        return failed(format!("a log of {} bytes has no header", log.len()));
    };
    let stream = (tail & ((1 << 40) - 1)) as usize;
    require(stream > 8 && LOG_HEADER_BYTES + stream <= log.len(), || {
        format!("a log of {} bytes claims a stream of {stream}", log.len())
    })?;
    Ok(stream)
}

fn flip(sandbox: &Sandbox, file: &Path, whole: &[u8], place: usize, bit: usize) -> Checked {
    let mut bytes = whole.to_owned();
    bytes[place] ^= 1 << bit;
    sandbox.note(format!("# bit {bit} of byte {place} of {} was flipped", file.display()));
    fs::write(file, bytes)?;
    Ok(())
}
