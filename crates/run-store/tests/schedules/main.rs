//! The cache of schedules on temporary disks: who learns, what is found again, what is refused.
mod archives;
mod damage;
mod learning;

use run_store::Build;
use run_store::FileIdentity;
use run_store::Learned;
use run_store::Lookup;
use run_store::Outcome;
use run_store::ScheduleCache;
use run_store::ScheduleEntry;
use run_store::ScheduleFile;
use run_store::ScheduleKey;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use tempfile::TempDir;

const HYBRID: &[u8] = b"hybrid bytes";
const SCHEDULE: &[u8] = b"what the runtime maps";
const FILES: [(ScheduleFile, &[u8]); 3] = [
    (ScheduleFile::Hybrid, HYBRID),
    (ScheduleFile::Schedule, SCHEDULE),
    (ScheduleFile::Points, b""),
];

/// A folder in which a cache may be.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            folder: TempDir::new().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        let folder = fs::canonicalize(self.folder.path()).expect("an existing directory");
        folder.join(name)
    }

    fn cache(&self, name: &str) -> ScheduleCache {
        ScheduleCache::at(&self.path(name)).expect("an absolute path")
    }
}

fn key(argument: &str) -> ScheduleKey {
    let program = FileIdentity {
        path: "/opt/b\u{e4}nk".into(),
        hash: "a".repeat(64),
        bytes: 7,
    };
    let environment = [("HOME", "/home/me"), ("TOKEN", "hunter2"), ("_", "x")];
    ScheduleKey::new(
        Build::of(program, &[b"libc"]),
        ["./bank", argument],
        environment,
        |name| name != "_",
    )
}

fn learned(sealed: Option<&str>) -> Learned {
    Learned {
        ended_in: None,
        learned_at: 1_767_225_600,
        outcome: Outcome::Exited(0),
        threads: 4,
        steps: 120,
        hand_overs: 7,
        constraints: 7,
        races: 3,
        pruned: 2,
        accesses: 9000,
        libraries: Vec::new(),
        unobserved: Vec::new(),
        unordered_reads: vec!["clock_gettime".to_owned()],
        unordered_waits: vec!["poll".to_owned()],
        recording_ms: 1,
        solving_ms: 2,
        tracing_ms: 3,
        relaxing_ms: 4,
        sealed: sealed.map(str::to_owned),
    }
}

fn learn(cache: &ScheduleCache, key: &ScheduleKey) -> ScheduleEntry {
    let guard = cache.learn(key, || panic!("nobody else learns it")).expect("a lock");
    assert!(matches!(guard.lookup(), Ok(Lookup::Miss)));
    guard.insert(learned(None), &FILES).expect("an entry")
}

fn hit(cache: &ScheduleCache, key: &ScheduleKey) -> ScheduleEntry {
    match cache.lookup(key).expect("a cache that can be read") {
        Lookup::Hit(entry) => entry,
        other => panic!("{other:?}"),
    }
}

/// Names of all that is below a folder, with a mode each.
fn all_below(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let metadata = entry.metadata().expect("metadata");
        found.push((entry.path(), metadata.permissions().mode() & 0o7777));
        if metadata.is_dir() {
            found.extend(all_below(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn what_was_learned_is_found_again_and_is_private() {
    let place = Place::new();
    let cache = place.cache("below/cache");
    assert!(matches!(cache.lookup(&key("1")), Ok(Lookup::Miss)));
    assert!(cache.list().expect("an absent cache").is_empty());
    assert!(!cache.root().exists(), "looking creates nothing");
    drop(learn(&cache, &key("1")));
    let entry = hit(&cache, &key("1"));
    assert_eq!(entry.meta().key, key("1"));
    assert_eq!(entry.meta().learned, learned(None));
    assert_eq!(
        entry.read(ScheduleFile::Hybrid).expect("whole").as_deref(),
        Some(HYBRID)
    );
    assert_eq!(entry.read(ScheduleFile::Steps).expect("whole"), None);
    let path = entry.path_of(ScheduleFile::Schedule).expect("a file");
    assert_eq!(fs::read(path).expect("a file"), SCHEDULE);
    assert!(matches!(cache.lookup(&key("2")), Ok(Lookup::Miss)));
    for (path, mode) in all_below(&place.path("below")) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{path:?}");
        let text = if path.is_file() {
            fs::read(&path).expect("a file")
        } else {
            Vec::new()
        };
        assert!(
            !String::from_utf8_lossy(&text).contains("hunter2"),
            "a secret in {path:?}"
        );
    }
    let names = all_below(cache.root()).len();
    assert_eq!(names, 1 + 1 + 4, "a folder, an entry, its files, and no lock");
}

#[test]
fn sealed_schedules_are_no_hits_and_can_be_learned_again() {
    let place = Place::new();
    let cache = place.cache("cache");
    let guard = cache.learn(&key("1"), || {}).expect("a lock");
    guard.insert(learned(Some("it forks")), &[]).expect("an entry");
    let Ok(Lookup::Sealed(entry)) = cache.lookup(&key("1")) else {
        panic!("not sealed")
    };
    assert_eq!(entry.meta().learned.sealed.as_deref(), Some("it forks"));
    // In the place of the old one, even while somebody looks at that.
    let guard = cache.learn(&key("1"), || {}).expect("a lock");
    assert!(matches!(guard.lookup(), Ok(Lookup::Sealed(_))));
    drop(guard.insert(learned(None), &FILES).expect("an entry"));
    hit(&cache, &key("1"));
    assert_eq!(all_below(cache.root()).len(), 1 + 1 + 4);
}

#[test]
fn entries_are_found_by_the_beginning_of_their_names() {
    let place = Place::new();
    let cache = place.cache("cache");
    for number in 0..20 {
        learn(&cache, &key(&number.to_string()));
    }
    let places = cache.list().expect("a cache");
    assert_eq!(places.len(), 20);
    for entry in &places {
        assert_eq!(cache.find(entry.name().as_ref()).expect("an entry"), *entry);
        assert_eq!(cache.find(entry.name()[..12].as_ref()).expect("an entry"), *entry);
        assert!(entry.folder().starts_with("b_nk-"), "{}", entry.folder());
    }
    // There are 16 digits for 20 names.
    let several = (0..16).filter_map(|digit| cache.find(format!("{digit:x}").as_ref()).err());
    assert!(
        several
            .into_iter()
            .any(|error| error.to_string().contains("give more of the name"))
    );
    for (name, sentence) in [
        ("", "is not the name of a schedule"),
        ("../x", "is not the name of a schedule"),
        ("xyz", "is not the name of a schedule"),
        ("0123456789abcdef0", "is not the name of a schedule"),
        ("0000000000000000", "there is no schedule"),
    ] {
        let error = cache.find(name.as_ref()).expect_err("no entry").to_string();
        assert!(error.contains(sentence), "{error}");
    }
}

#[test]
fn removed_entries_are_gone_unless_somebody_uses_them() {
    let place = Place::new();
    let cache = place.cache("cache");
    let entry = learn(&cache, &key("1"));
    learn(&cache, &key("2"));
    let error = cache.remove(entry.place()).expect_err("it is in use").to_string();
    assert!(error.contains("a program runs with the schedule"), "{error}");
    let held = cache.learn(&key("1"), || {}).expect("a lock");
    let error = held
        .insert(learned(None), &FILES)
        .expect_err("it is in use")
        .to_string();
    assert!(error.contains("a program runs with the schedule"), "{error}");
    let there = entry.place().clone();
    drop(entry);
    fs::write(there.path().join("notes.txt"), "mine").expect("written");
    let error = cache.remove(&there).expect_err("it holds a file").to_string();
    assert!(error.contains("notes.txt"), "{error}");
    hit(&cache, &key("1"));
    fs::remove_file(there.path().join("notes.txt")).expect("removed");
    cache.remove(&there).expect("removed");
    cache.remove(&there).expect("it is gone already");
    assert!(matches!(cache.lookup(&key("1")), Ok(Lookup::Miss)));
    let other = cache.list().expect("a cache").pop().expect("the other one");
    cache.remove(&other).expect("removed");
    assert_eq!(all_below(cache.root()), []);
}
