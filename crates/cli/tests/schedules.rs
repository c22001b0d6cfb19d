//! `refrain schedules`, as a user has it: what it prints, and with which exit status it ends.
use run_store::Build;
use run_store::FileIdentity;
use run_store::Learned;
use run_store::Outcome;
use run_store::ScheduleCache;
use run_store::ScheduleFile;
use run_store::ScheduleKey;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

struct Place {
    folder: TempDir,
}

struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

impl Place {
    fn new() -> Place {
        Place {
            folder: TempDir::new().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).expect("a directory").join(name)
    }

    /// `refrain schedules` with these words, in the folder, and with a store in it.
    fn run(&self, words: &[&str]) -> Ended {
        let ended = Command::new(env!("CARGO_BIN_EXE_refrain"))
            .arg("schedules")
            .args(words)
            .current_dir(self.path("."))
            .env("REFRAIN_DIR", self.path("store"))
            .output()
            .expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ended {
            status: ended.status.code().expect("it exits"),
            stdout: text(ended.stdout),
            stderr: text(ended.stderr),
        }
    }

    fn learn(&self, argument: &str, sealed: Option<&str>) -> String {
        let program = FileIdentity {
            path: "/opt/bank".into(),
            hash: "a".repeat(64),
            bytes: 7,
        };
        let environment = [("TOKEN", "hunter2"), ("HOME", "/home/me")];
        let key = ScheduleKey::new(Build::of(program, &[]), ["./bank", argument], environment, |_| true);
        let learned = Learned {
            ended_in: None,
            learned_at: 1_767_225_600,
            outcome: Outcome::Exited(3),
            threads: 4,
            steps: 120,
            hand_overs: 7,
            constraints: 7,
            races: 9,
            pruned: 2,
            accesses: 9000,
            libraries: Vec::new(),
            unobserved: Vec::new(),
            unordered_reads: vec!["clock_gettime\x1b[31m".to_owned()],
            unordered_waits: vec!["poll".to_owned()],
            recording_ms: 1500,
            solving_ms: 0,
            tracing_ms: 0,
            relaxing_ms: 0,
            sealed: sealed.map(str::to_owned),
        };
        let cache = ScheduleCache::at(&self.path("store/schedules")).expect("a path");
        let guard = cache.learn(&key, || {}).expect("a lock");
        let files: [(ScheduleFile, &[u8]); 2] = [(ScheduleFile::Hybrid, b"steps"), (ScheduleFile::Points, b"")];
        guard.insert(learned, &files).expect("an entry").name()
    }

    fn file(&self, name: &str, file: &str) -> PathBuf {
        let cache = ScheduleCache::at(&self.path("store/schedules")).expect("a path");
        cache.find(name.as_ref()).expect("an entry").path().join(file)
    }
}

#[test]
fn an_empty_cache_is_no_error() {
    let place = Place::new();
    for words in [&["ls"][..], &["check"], &["rm", "--all"]] {
        let ended = place.run(words);
        assert_eq!((ended.status, ended.stdout.as_str()), (0, ""), "{}", ended.stderr);
    }
    assert!(place.run(&["ls"]).stderr.contains("there are no schedules in"));
    for words in [&["ls", "--json"][..], &["check", "--json"], &["--json", "ls"]] {
        let ended = place.run(words);
        assert_eq!((ended.status, ended.json()), (0, Value::Array(Vec::new())));
    }
    let ended = place.run(&["pack", "-o", "x"]);
    assert!(
        ended.status == 2 && ended.stderr.contains("no schedules"),
        "{}",
        ended.stderr
    );
    assert!(!place.path("store/schedules").exists(), "looking creates nothing");
}

#[test]
fn schedules_are_listed_and_described() {
    let place = Place::new();
    let ready = place.learn("two words", None);
    let sealed = place.learn("\x1b[2J", Some("it \x07 forks"));
    let ended = place.run(&["ls"]);
    assert_eq!(ended.status, 0);
    let line = |name: &str| {
        ended
            .stdout
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a line")
            .to_owned()
    };
    assert!(line("NAME").ends_with("ARGUMENTS"));
    let words: Vec<String> = line(&ready).split_whitespace().map(str::to_owned).collect();
    assert_eq!(words[1..3], ["bank", "ready"]);
    assert_eq!(
        words[3..],
        ["2026-01-01", "00:00:00Z", "4", "120", "7", "'two", "words'"]
    );
    assert!(line(&sealed).contains("sealed") && line(&sealed).ends_with(r"'\u001b[2J'"));
    let json = place.run(&["ls", "--json"]).json();
    assert_eq!(json.as_array().map(Vec::len), Some(2));

    let ended = place.run(&["info", &sealed[..10]]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    for text in [
        r"sealed, it is not used again: it \u0007 forks",
        "/opt/bank",
        "HOME, TOKEN",
        "exit 3",
        "1.500 s to record",
        r"clock_gettime\u001b[31m",
        "hybrid (5 B), points (0 B)",
        "2026-01-01 00:00:00Z by refrain",
    ] {
        assert!(ended.stdout.contains(text), "{} lacks {text}", ended.stdout);
    }
    assert!(!ended.stdout.contains("hunter2") && !ended.stdout.contains(['\x1b', '\x07']));
    let json = place.run(&["info", &ready, "--json"]).json();
    assert_eq!(json["meta"]["learned"]["constraints"], 7);
    assert_eq!(json["meta"]["learned"]["outcome"]["exited"], 3);
    assert_eq!((&json["state"], &json["files"]["hybrid"]), (&"ready".into(), &5.into()));
    assert_eq!(json["problems"], Value::Array(Vec::new()));
}

#[test]
fn damage_is_found_named_and_removed() {
    let place = Place::new();
    let (one, other) = (place.learn("1", None), place.learn("2", None));
    assert_eq!(place.run(&["check"]).status, 0);
    fs::write(place.file(&one, "hybrid"), "other").expect("written");
    let ended = place.run(&["check"]);
    assert_eq!(ended.status, 1);
    assert!(
        ended.stdout.contains(&format!("refrain schedules rm {one}`")),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("1 of 2 schedules"), "{}", ended.stderr);
    assert_eq!(place.run(&["check", &other]).status, 0);
    let json = place.run(&["check", &one, "--json"]);
    assert_eq!((json.status, &json.json()[0]["ok"]), (1, &Value::Bool(false)));
    assert!(place.run(&["info", &one]).stdout.contains("damaged"));
    assert_eq!(place.run(&["pack", "-o", "x"]).status, 3);
    assert!(!place.path("x").exists());

    fs::write(place.file(&one, "schedule.json"), "{}").expect("written");
    let listed = place.run(&["ls"]);
    assert!(
        listed.status == 0 && listed.stdout.contains("unreadable"),
        "{}",
        listed.stdout
    );
    assert_eq!(place.run(&["info", &one]).status, 3);
    assert_eq!(
        place.run(&["rm", &one, "zz"]).status,
        2,
        "nothing is removed if a name is wrong"
    );
    assert_eq!(place.run(&["rm", &one]).status, 0);
    assert_eq!(place.run(&["rm", &one]).status, 3);
    assert_eq!(place.run(&["check"]).status, 0);
    let json = place.run(&["rm", "--all", "--json"]).json();
    assert_eq!(json, serde_json::json!([other]));
}

#[test]
fn what_cannot_be_read_and_what_cannot_be_meant() {
    let place = Place::new();
    place.learn("1", None);
    for words in [
        &[][..],
        &["info"],
        &["rm"],
        &["rm", "--all", "0"],
        &["unpack"],
        &["no-such"],
        &["info", "../x"],
        &["info", ""],
        &["ls", "--no-such"],
    ] {
        assert_eq!(place.run(words).status, 2, "{words:?}");
    }
    let root = place.path("store/schedules");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).expect("changed");
    for words in [&["ls"][..], &["check"], &["rm", "--all"], &["info", "0"]] {
        let ended = place.run(words);
        assert_eq!(ended.status, 3, "{words:?}");
        assert!(ended.stderr.contains("chmod go-w"), "{}", ended.stderr);
    }
    fs::write(place.path("text"), "text").expect("written");
    for words in [
        &["ls", "--cache", "text"][..],
        &["unpack", "text", "--cache", "c"],
        &["unpack", "none", "--cache", "c"],
    ] {
        assert_eq!(place.run(words).status, 3, "{words:?}");
    }
    assert!(!place.path("c").exists());
}

#[test]
fn schedules_travel() {
    let place = Place::new();
    let (one, other) = (place.learn("1", None), place.learn("2", Some("it forks")));
    let ended = place.run(&["pack", "-o", "file"]);
    assert!(
        ended.status == 0 && ended.stderr.contains("packed 2 schedules into file"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.run(&["pack", "-o", "file"]).status, 2);
    let json = place.run(&["pack", &one, "-o", "single", "--json"]).json();
    assert_eq!(json["schedules"], serde_json::json!([one]));
    let json = place.run(&["unpack", "single", "--cache", "c", "--json"]).json();
    assert_eq!(json["added"], serde_json::json!([one]));
    let json = place.run(&["unpack", "file", "--cache", "c", "--json"]).json();
    assert_eq!(json["added"], serde_json::json!([other]));
    assert_eq!(json["there_before"], serde_json::json!([one]));
    assert_eq!(place.run(&["check", "--cache", "c"]).status, 0);
    // The sentence has all that it takes to remove it.
    let cache = ScheduleCache::at(&place.path("c")).expect("a path");
    let there = cache.find(one.as_ref()).expect("an entry");
    fs::write(there.path().join("hybrid"), "x").expect("written");
    let ended = place.run(&["check", "--cache", "c"]);
    let advice = format!("refrain schedules rm {one} --cache {}", place.path("c").display());
    assert!(ended.stdout.contains(&advice), "{}", ended.stdout);
}
