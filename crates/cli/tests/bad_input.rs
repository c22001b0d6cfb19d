//! Whatever a user gets wrong is a sentence and the right exit status: never a panic, never a hang.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use tempfile::TempDir;

struct Refrain {
    folder: TempDir,
}

impl Refrain {
    fn new() -> Refrain {
        Refrain {
            folder: TempDir::new().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_refrain"))
            .args(arguments)
            .env("REFRAIN_DIR", self.folder.path().join("runs"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("refrain runs")
    }

    /// Fails with this status and one sentence that contains all of `words`.
    fn fails(&self, arguments: &[&str], status: i32, words: &[&str]) {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no '{word}' in: {text}");
        }
        assert!(!text.contains("panicked"), "{text}");
    }

    fn executable(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    /// A run with this `run.json` and nothing else.
    fn run_with(&self, name: &str, json: &str) {
        let folder = self.folder.path().join("runs").join(name);
        fs::create_dir_all(&folder).expect("created");
        fs::write(folder.join("run.json"), json).expect("written");
    }
}

const META: &str = r#"{"version":1,"refrain":"0.1.0","abi_version":1,"argv":["./p"],"cwd":"/","env":[],
 "executable":{"path":"/nowhere/p","hash":"00","bytes":1},"libraries":[],"method":"light","scope":"memory",
 "started":0,"ending":{"duration_ms":1,"outcome":{"exited":0},"threads":1,"events":0,"records":0,"log_bytes":0,
 "stdout":{"bytes":0,"complete":true},"stderr":{"bytes":0,"complete":true}}}"#;

#[test]
fn usage_is_status_2() {
    let refrain = Refrain::new();
    refrain.fails(&[], 2, &["Usage"]);
    refrain.fails(&["nonsense"], 2, &["nonsense"]);
    refrain.fails(&["record"], 2, &["PROG"]);
    refrain.fails(&["record", "--timeout", "never", "x"], 2, &["never", "seconds"]);
    refrain.fails(&["record", "--max-size", "much", "x"], 2, &["much", "size"]);
    refrain.fails(&["record", "--chaos=x", "y"], 2, &["invalid"]);
    refrain.fails(&["record", "--until-failure=0", "y"], 2, &["never run"]);
    refrain.fails(&["record", "--method", "det", "y"], 2, &["det", "not in this version"]);
    refrain.fails(&["record", "--share", "25%", "y"], 2, &["--share", "--method coop"]);
    refrain.fails(
        &["record", "--method", "coop", "--share", "0%", "y"],
        2,
        &["more than 0%"],
    );
    refrain.fails(
        &["record", "--method", "coop", "--pattern", "64", "y"],
        2,
        &["--pattern 64", "64 patterns"],
    );
    refrain.fails(&["record", "--upload", "y"], 2, &["--upload"]);
    refrain.fails(&["record", "--method", "magic", "y"], 2, &["magic", "not a method"]);
    refrain.fails(
        &["record", "--method", "leap", "--scope", "sync", "y"],
        2,
        &["leap", "--scope memory"],
    );
    refrain.fails(
        &["record", "--method", "oreo", "--without", "o1", "y"],
        2,
        &["--without", "light"],
    );
    refrain.fails(&["record", "--without", "o3", "y"], 2, &["o3", "o1", "o2"]);
    refrain.fails(
        &["record", "--scope", "everything", "y"],
        2,
        &["everything", "not a scope"],
    );
    refrain.fails(&["replay", "--times", "0"], 2, &["0"]);
    refrain.fails(&["replay", "--gdb", "--times", "3"], 2, &["--gdb", "--times"]);
    refrain.fails(&["replay", "--gdb", "--json"], 2, &["--gdb", "--json"]);
    refrain.fails(&["replay", "--goto-failure"], 2, &["--gdb"]);
    refrain.fails(&["replay", "-x", "commands"], 2, &["--gdb"]);
    refrain.fails(&["replay", "--", "--batch"], 2, &["--gdb"]);
    refrain.fails(&["replay", "--gdb", "-x", "no-such-file"], 2, &["no-such-file", "-x"]);
    refrain.fails(&["gdb-enter", "/nowhere"], 2, &["replay --gdb"]);
    refrain.fails(&["rm"], 2, &["RUNS"]);
    refrain.fails(&["replay", ""], 2, &["not the name of a run"]);
}

#[test]
fn files_without_a_site_table_have_no_elements() {
    let refrain = Refrain::new();
    refrain.fails(&["spes"], 2, &["PROG"]);
    refrain.fails(&["spes", "no-such-file"], 2, &["cannot read no-such-file"]);
    refrain.fails(&["spes", "/"], 2, &["cannot read /"]);
    refrain.executable("text", b"hello");
    refrain.fails(&["spes", "text"], 2, &["text is not an ELF file"]);
    let test = std::env::current_exe().expect("we run");
    let test = test.to_str().expect("a path of ours");
    refrain.fails(&["spes", test], 2, &["no site table", "refrain cc"]);
    refrain.fails(&["spes", "text", test, "--json"], 2, &["text"]);
}

#[test]
fn programs_that_cannot_be_recorded_are_status_2() {
    let refrain = Refrain::new();
    refrain.fails(&["record", "no-such-program"], 2, &["no-such-program", "PATH"]);
    refrain.fails(
        &["record", "./no-such-program"],
        2,
        &["./no-such-program", "no such file"],
    );
    refrain.fails(&["record", "/"], 2, &["directory"]);
    refrain.executable("our-script", b"#!/bin/sh -e\nexit 0\n");
    refrain.fails(&["record", "./our-script"], 2, &["script", "/bin/sh"]);
    refrain.fails(&["record", "our-script"], 2, &["./our-script"]);
    refrain.executable("text", b"hello");
    refrain.fails(&["record", "./text"], 2, &["not an ELF"]);
    refrain.executable("torn", b"\x7fELF\x02\x01\x01");
    refrain.fails(&["record", "./torn"], 2, &["ELF"]);
    refrain.executable("empty", b"");
    refrain.fails(&["record", "./empty"], 2, &["not an ELF"]);
    fs::write(refrain.folder.path().join("plain"), b"\x7fELF").expect("written");
    refrain.fails(&["record", "./plain"], 2, &["execute permission"]);
    // This very test is an ELF program that was not built with us.
    let test = std::env::current_exe().expect("we run");
    let test = test.to_str().expect("a plain path");
    refrain.fails(&["record", test], 2, &["refrain cc", "rebuild"]);
    assert!(
        !Path::new(&refrain.path("runs")).exists(),
        "a refused program leaves nothing behind"
    );
}

#[test]
fn an_elf_file_cut_anywhere_is_a_sentence() {
    let refrain = Refrain::new();
    let whole = fs::read("/bin/true").expect("every system has it");
    for length in (0..whole.len()).step_by(whole.len() / 60 + 1) {
        refrain.executable("cut", &whole[..length]);
        refrain.fails(&["record", "./cut"], 2, &["cut"]);
    }
}

#[test]
fn runs_that_are_not_there_are_status_3() {
    let refrain = Refrain::new();
    for command in ["replay", "info", "dump", "solve"] {
        refrain.fails(&[command], 3, &["no latest run"]);
        refrain.fails(&[command, "nothing-7"], 3, &["nothing-7", "refrain ls"]);
        refrain.fails(&[command, "/"], 3, &["not a run"]);
        refrain.fails(&[command, "../.."], 3, &["not a run"]);
    }
    refrain.fails(&["rm", "nothing-7"], 3, &["nothing-7"]);
    refrain.fails(&["rm", "/"], 3, &["not a run"]);
}

#[test]
fn damaged_runs_are_status_3() {
    let refrain = Refrain::new();
    refrain.run_with("cut-0", &META[..META.len() / 2]);
    refrain.run_with("other-0", "[]");
    refrain.run_with("newer-0", r#"{"version":3}"#);
    refrain.run_with("bare-0", META);
    for command in ["replay", "info", "dump", "solve"] {
        refrain.fails(&[command, "cut-0"], 3, &["run.json", "line"]);
        refrain.fails(&[command, "other-0"], 3, &["run.json", "version"]);
        refrain.fails(&[command, "newer-0"], 3, &["run.json", "metadata version 3", "up to 2"]);
        refrain.fails(&[command, "bare-0"], 3, &["control"]);
    }
    let listed = refrain.run(&["ls"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(
        listed.status.success() && text.contains("cut-0") && text.contains("unreadable"),
        "{text}"
    );
    let removed = refrain.run(&["rm", "--all", "--json"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert!(refrain.run(&["ls", "--json"]).stdout.starts_with(b"[]"));
}

#[test]
fn a_store_that_cannot_be_written_is_a_sentence() {
    let refrain = Refrain::new();
    fs::write(refrain.folder.path().join("runs"), "a file in the way").expect("written");
    refrain.fails(&["ls"], 3, &["runs", "not a directory"]);
    let output = Command::new(env!("CARGO_BIN_EXE_refrain"))
        .arg("ls")
        .env_clear()
        .output()
        .expect("refrain runs");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("REFRAIN_DIR"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let refrain = Refrain::new();
    for number in 0..200 {
        refrain.run_with(&format!("bare-{number}"), META);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_refrain"))
        .args(["ls", "--json"])
        .env("REFRAIN_DIR", refrain.path("runs"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("refrain runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn help_has_examples() {
    let refrain = Refrain::new();
    for arguments in [
        &["--help"][..],
        &["record", "--help"],
        &["replay", "--help"],
        &["schedules", "--help"],
    ] {
        let output = refrain.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("Examples:"),
            "{arguments:?}: {text}"
        );
    }
}
