//! What was recorded is its owner's alone: modes, redacted variables, secrets in `info`, and names that would command a terminal.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::failed;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

const SECRET: &str = "hunter2-and-more";

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = ["000", "022", "077", "277"]
        .into_iter()
        .map(|umask| trial(format!("private/modes_with_umask_{umask}"), move |s| modes(s, umask)))
        .collect();
    trials.push(trial("private/redacted_values_are_nowhere", redacted));
    trials.push(trial("private/redaction_is_named_where_it_matters", redaction_named));
    trials.push(trial("private/redaction_of_what_a_replay_needs", redaction_refused));
    trials.push(trial("private/secrets_in_info", secrets));
    trials.push(trial("private/names_command_no_terminal", names));
    trials
}

/// A program that forks, executes, and makes a file of its own that it executes, so that a run has all kinds of files.
const BUSY: &str = "cp /bin/true ./made; ./made; (echo child); /bin/ls / >/dev/null; echo done";

fn files_below(folder: &Path) -> Checked<Vec<PathBuf>> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => all.extend(files_below(&entry.path())?),
            kind if kind.is_symlink() => {}
            _ => all.push(entry.path()),
        }
    }
    Ok(all)
}

/// Nobody but the owner may do anything; the owner may read and write.
fn check_private(folder: &Path) -> Checked {
    for path in files_below(folder)? {
        let metadata = fs::symlink_metadata(&path)?;
        // Another name of a file that the program made, which keeps its mode: nobody else gets there.
        let is_linked = metadata.is_file() && metadata.nlink() > 1;
        let mode = metadata.permissions().mode() & 0o7777;
        let is_program = path.file_name().is_some_and(|name| name == "program")
            || path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("packed-"));
        let is_right = match (metadata.is_dir(), is_program) {
            (true, _) => mode == 0o700,
            (false, true) => matches!(mode, 0o600 | 0o700),
            (false, false) => mode == 0o600,
        };
        require(is_right || is_linked, || {
            format!("{} has the mode {mode:o}", path.display())
        })?;
    }
    Ok(())
}

fn with_umask(sandbox: &Sandbox, umask: &str, line: &Line) -> Checked<Ended> {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    let mut changed = sandbox
        .other("/bin/sh", ["-c", &script])
        .arg(&line.program)
        .args(&line.arguments);
    changed.variables.clone_from(&line.variables);
    sandbox.run(&changed)
}

fn modes(sandbox: &Sandbox, umask: &str) -> Checked {
    let record = sandbox.refrain(["record", "--scope", "inputs", "--", "/bin/sh", "-c", BUSY]);
    let ended = with_umask(sandbox, umask, &record)?;
    // With a mask that takes the owner's own rights away, only root's program can go on with what it makes.
    require(ended.status == 0 || umask == "277", || {
        ended.told("expected exit status 0")
    })?;
    check_private(sandbox.runs())?;
    with_umask(sandbox, umask, &sandbox.refrain(["replay"]))?.expect_status(0)?;
    with_umask(sandbox, umask, &sandbox.refrain(["pack", "-o", "packed.refrain"]))?.expect_status(0)?;
    let mode = fs::metadata(sandbox.work().join("packed.refrain"))?
        .permissions()
        .mode()
        & 0o777;
    require(mode == 0o600, || format!("the archive has the mode {mode:o}"))?;
    with_umask(
        sandbox,
        umask,
        &sandbox.refrain(["unpack", "packed.refrain", "-o", "deep/unpacked"]),
    )?
    .expect_status(0)?;
    check_private(&sandbox.work().join("deep"))?;
    with_umask(sandbox, umask, &sandbox.refrain(["replay", "deep/unpacked"]))?.expect_status(0)?;
    check_private(&sandbox.work().join("deep"))?;
    check_private(sandbox.runs())
}

fn holds(path: &Path, text: &str) -> Checked<bool> {
    Ok(fs::read(path)?
        .windows(text.len())
        .any(|window| window == text.as_bytes()))
}

fn redacted(sandbox: &Sandbox) -> Checked {
    // Executes a program, whose environment is written down by itself.
    let program =
        "case $API_TOKEN in hunter*) ;; *) exit 9;; esac; /bin/sh -c 'case $OTHER in hunter*) exit 0;; esac; exit 8'";
    let line = sandbox
        .refrain([
            "record",
            "--scope",
            "inputs",
            "--redact",
            "API_TOKEN",
            "--redact",
            "OTHER,NO_SUCH",
        ])
        .args(["--", "/bin/sh", "-c", program])
        .var("API_TOKEN", SECRET)
        .var("OTHER", SECRET);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    require(ended.stderr_text().contains("NO_SUCH"), || {
        ended.told("it does not say that there is no such variable")
    })?;
    sandbox
        .run(&sandbox.refrain(["pack", "-o", "packed.refrain"]))?
        .expect_status(0)?;
    for path in files_below(sandbox.work())?
        .into_iter()
        .chain(files_below(sandbox.runs())?)
    {
        if path.is_file() {
            require(!holds(&path, SECRET)?, || format!("{} holds the value", path.display()))?;
        }
    }
    // Who does not depend on it comes back, at the same addresses.
    let line = sandbox
        .refrain([
            "record",
            "--scope",
            "inputs",
            "--redact",
            "API_TOKEN",
            "--",
            "/bin/sh",
            "-c",
            "/bin/echo hello",
        ])
        .var("API_TOKEN", SECRET);
    sandbox.run(&line)?.expect_status(0)?;
    sandbox
        .run(&sandbox.refrain(["replay", "--times", "3"]))?
        .expect_status(0)?;
    Ok(())
}

fn redaction_named(sandbox: &Sandbox) -> Checked {
    let line = sandbox
        .refrain([
            "record",
            "--scope",
            "inputs",
            "--redact",
            "API_TOKEN",
            "--",
            "/bin/sh",
            "-c",
            "echo $API_TOKEN",
        ])
        .var("API_TOKEN", SECRET);
    sandbox.run(&line)?.expect_status(0)?;
    let ended = sandbox.run(&sandbox.refrain(["replay"]))?.expect_status(1)?;
    require(ended.stderr_text().contains("redacted variable may be why"), || {
        ended.told("it does not say that a redacted variable may be why")
    })
}

fn redaction_refused(sandbox: &Sandbox) -> Checked {
    for name in ["LD_LIBRARY_PATH", "REFRAIN_CONTROL", "A=B", ""] {
        let line = sandbox.refrain(["record", "--scope", "inputs", "--redact", name, "--", "/bin/true"]);
        sandbox.run(&line)?.expect_status(2)?;
    }
    Ok(())
}

fn secrets(sandbox: &Sandbox) -> Checked {
    let line = sandbox
        .refrain([
            "record",
            "--scope",
            "inputs",
            "--",
            "/bin/sh",
            "-c",
            "/bin/true; exit 0",
        ])
        .var("GITHUB_TOKEN", SECRET)
        .var("db_password", SECRET)
        .var("PLAIN", "shown");
    sandbox.run(&line)?.expect_status(0)?;
    let info = |more: &[&str]| sandbox.run(&sandbox.refrain(["info"]).args(more))?.expect_status(0);
    for more in [&["--json"][..], &[]] {
        let ended = info(more)?;
        require(!ended.stdout_text().contains(SECRET), || {
            ended.told("it shows a secret")
        })?;
    }
    let shown = info(&["--json", "--show-secrets"])?;
    require(shown.stdout_text().contains(SECRET), || {
        shown.told("it hides what it was asked for")
    })?;
    let value: Value =
        serde_json::from_slice(&info(&["--json"])?.stdout).or_else(|e| failed(format!("not JSON: {e}")))?;
    let plain = value["meta"]["env"]
        .as_array()
        .is_some_and(|all| all.iter().any(|pair| pair[1] == "shown"));
    require(plain, || "other variables are hidden as well".to_owned())
}

/// A name with all that a terminal would obey.
const NAME: &str = "a\x1b[31mb\nforged line\rc\u{9b}2J\u{202e}d";

fn check_tame(ended: &Ended) -> Checked {
    for bytes in [&ended.stdout, &ended.stderr] {
        let text = String::from_utf8_lossy(bytes);
        let bad = text
            .chars()
            .find(|c| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}');
        require(bad.is_none(), || ended.told(&format!("it prints {bad:?}")))?;
        require(!text.lines().any(|line| line.starts_with("forged")), || {
            ended.told("a name makes a line of its own")
        })?;
    }
    Ok(())
}

fn names(sandbox: &Sandbox) -> Checked {
    let folder = sandbox.work().join(NAME);
    fs::create_dir(&folder)?;
    let program = folder.join(NAME);
    fs::copy("/bin/true", &program)?;
    let run = folder.join("run");
    let record = sandbox
        .refrain(["record", "--scope", "inputs", "-o"])
        .arg(&run)
        .arg("--")
        .arg(&program)
        .arg(NAME);
    check_tame(&sandbox.run(&record)?.expect_status(0)?)?;
    let in_store = sandbox
        .refrain(["record", "--scope", "inputs", "--"])
        .arg(&program)
        .arg(NAME);
    check_tame(&sandbox.run(&in_store)?.expect_status(0)?)?;
    for words in [
        &["info"][..],
        &["info", "--json"],
        &["dump", "--inputs"],
        &["dump", "--inputs", "--json"],
        &["replay"],
        &["solve"],
        &["explain"],
    ] {
        let ended = sandbox.run(&sandbox.refrain(words).arg(&run))?;
        check_tame(&ended)?;
        if words.contains(&"--json") {
            let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
            let text = ended.stdout_text();
            require(is_json(&text) || text.lines().all(is_json), || ended.told("not JSON"))?;
        }
    }
    for words in [&["ls"][..], &["ls", "--json"]] {
        check_tame(&sandbox.run(&sandbox.refrain(words))?.expect_status(0)?)?;
    }
    for words in [
        &["replay"][..],
        &["info"],
        &["rm"],
        &["pack"],
        &["unpack"],
        &["record", "--"],
    ] {
        let ended = sandbox.run(&sandbox.refrain(words).arg(format!("no {NAME}")))?;
        check_tame(&ended)?;
    }
    // What is in the files of a run is not always what was recorded.
    fs::remove_file(&program)?;
    check_tame(&sandbox.run(&sandbox.refrain(["replay"]).arg(&run))?.expect_status(3)?)?;
    check_tame(&sandbox.run(&sandbox.refrain(["rm"]).arg(&run))?.expect_status(0)?)
}
