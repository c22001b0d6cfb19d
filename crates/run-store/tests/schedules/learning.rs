//! Several who want to learn the same, and those who are killed while they do.
use crate::FILES;
use crate::Place;
use crate::all_below;
use crate::hit;
use crate::key;
use crate::learn;
use crate::learned;
use run_store::Lookup;
use run_store::ScheduleCache;
use std::env;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

const CACHE: &str = "REFRAIN_TEST_CACHE";

/// Another process that learns the key "1" until it is killed, or told by a line to insert it.
fn learner(root: &Path) -> Child {
    let mut child = Command::new(env::current_exe().expect("this test"))
        .args(["--exact", "learning::as_another_process", "--nocapture"])
        .env(CACHE, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("LEARNING")));
    child
}

/// What the other process does; in this one it does nothing.
#[test]
fn as_another_process() {
    let Some(root) = env::var_os(CACHE) else { return };
    let cache = ScheduleCache::at(root.as_ref()).expect("a path");
    let guard = cache.learn(&key("1"), || {}).expect("a lock");
    println!("LEARNING");
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    guard.insert(learned(None), &FILES).expect("an entry");
}

#[test]
fn many_threads_learn_once() {
    let place = Place::new();
    let (cache, learnt, waited) = (place.cache("cache"), AtomicU32::new(0), AtomicU32::new(0));
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let on_wait = || _ = waited.fetch_add(1, SeqCst);
                let guard = cache.learn(&key("1"), on_wait).expect("a lock");
                if let Lookup::Miss = guard.lookup().expect("a cache") {
                    learnt.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    guard.insert(learned(None), &FILES).expect("an entry");
                }
            });
        }
    });
    assert_eq!(learnt.into_inner(), 1);
    assert!(waited.into_inner() >= 1);
    hit(&cache, &key("1"));
    assert_eq!(all_below(cache.root()).len(), 1 + 1 + 4, "no lock is left");
}

#[test]
fn different_schedules_are_learned_side_by_side() {
    let place = Place::new();
    let cache = place.cache("cache");
    thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..10 {
                    let key = key(&format!("{thread}.{round}"));
                    let entry = learn(cache, &key);
                    let there = entry.place().clone();
                    drop(entry);
                    // Folders come and go with their last entry.
                    cache.remove(&there).expect("removed");
                    assert!(matches!(cache.lookup(&key), Ok(Lookup::Miss)));
                }
            });
        }
    });
    assert_eq!(all_below(cache.root()), []);
}

#[test]
fn another_process_is_waited_for() {
    let place = Place::new();
    let cache = place.cache("cache");
    let mut child = learner(cache.root());
    let mut input = child.stdin.take().expect("a pipe");
    let mut is_told = false;
    let on_wait = || {
        is_told = true;
        input.write_all(b"go on\n").expect("written");
    };
    let guard = cache.learn(&key("1"), on_wait).expect("a lock");
    assert!(matches!(guard.lookup(), Ok(Lookup::Hit(_))), "it has learned it");
    drop(guard);
    assert!(is_told && child.wait().expect("ended").success());
}

#[test]
fn a_killed_process_keeps_nobody_waiting() {
    let place = Place::new();
    let cache = place.cache("cache");
    let mut child = learner(cache.root());
    let guard = thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.learn(&key("1"), || {}).expect("a lock"));
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        child.kill().expect("killed");
        waiting.join().expect("a lock")
    });
    child.wait().expect("ended");
    assert!(matches!(guard.lookup(), Ok(Lookup::Miss)));
    guard.insert(learned(None), &FILES).expect("an entry");
    hit(&cache, &key("1"));
}

#[test]
fn what_killed_processes_leave_is_removed_and_what_is_held_stays() {
    let place = Place::new();
    let cache = place.cache("cache");
    let entry = learn(&cache, &key("1"));
    let folder = entry.place().path().parent().expect("a folder").to_owned();
    drop(entry);
    // As after `kill -9`: in the middle of an entry, of a removal, of unpacking; and a lock.
    let no_process = 999_999_999;
    for left in [
        folder.join(format!(".refrain-learned-{no_process}-0")),
        folder.join(format!(".refrain-removed-{no_process}-0123456789abcdef")),
        cache.root().join(format!(".refrain-unpack-{no_process}-0")),
    ] {
        fs::create_dir(&left).expect("created");
        fs::write(left.join("hybrid"), "half").expect("written");
    }
    fs::write(folder.join("0123456789abcdef.lock"), "").expect("written");
    let held = fs::File::create(folder.join("fedcba9876543210.lock")).expect("created");
    held.lock().expect("locked");
    // Others are not ours to remove.
    fs::write(folder.join("notes.lock"), "").expect("written");
    fs::create_dir(folder.join("0123")).expect("created");
    hit(&cache, &key("1"));
    assert_eq!(cache.list().expect("a cache").len(), 1);
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let entry = key("1").name().to_owned();
    let mut expected = ["0123", "fedcba9876543210.lock", "notes.lock", &entry];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(fs::read_dir(cache.root()).expect("a root").count(), 1);
}

#[test]
fn a_guard_that_is_given_up_leaves_nothing() {
    let place = Place::new();
    let cache = place.cache("cache");
    drop(cache.learn(&key("1"), || {}).expect("a lock"));
    assert_eq!(all_below(cache.root()), []);
}
