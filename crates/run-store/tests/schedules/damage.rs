//! Entries that are not as they were written, or not the user's own: refused by sentences, never taken for missing ones.
use crate::FILES;
use crate::Place;
use crate::all_below;
use crate::hit;
use crate::key;
use crate::learn;
use crate::learned;
use run_store::Error;
use run_store::Lookup;
use run_store::SCHEDULE_VERSION;
use run_store::ScheduleCache;
use run_store::ScheduleFile;
use run_store::ScheduleMeta;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

const META: &str = "schedule.json";

fn with_entry() -> (Place, ScheduleCache, PathBuf) {
    let place = Place::new();
    let cache = place.cache("cache");
    let path = learn(&cache, &key("1")).place().path().to_owned();
    (place, cache, path)
}

/// Lookup and check refuse the entry, with a sentence that has these words; and it can be removed or learned again.
fn refused(cache: &ScheduleCache, words: &[&str]) {
    let error = match cache.lookup(&key("1")) {
        Err(error) => error.to_string(),
        other => panic!("{words:?}: {other:?}"),
    };
    for word in words {
        assert!(error.contains(word), "'{error}' lacks '{word}'");
    }
    let places = cache.list().expect("a cache");
    let problems = cache.check(&places[0]);
    assert!(
        problems.iter().any(|problem| problem.to_string() == error),
        "{problems:?}"
    );
}

/// Programs do not run by it, so they need not wait until it has been read.
#[test]
fn what_no_program_runs_by_is_compared_when_it_is_read() {
    let (_place, cache, path) = with_entry();
    fs::write(path.join("hybrid"), b"hybrid bytez").expect("written");
    let Ok(Lookup::Hit(entry)) = cache.lookup(&key("1")) else {
        panic!("its schedule is whole");
    };
    let told = entry.read(ScheduleFile::Hybrid).expect_err("damaged").to_string();
    assert!(told.contains("checksum"), "{told}");
    let places = cache.list().expect("a cache");
    assert_eq!(cache.check(&places[0]).len(), 1);
    cache.open(&places[0]).expect_err("all of it is wanted");
}

#[test]
fn every_flipped_bit_and_every_cut_is_told() {
    let (_place, cache, path) = with_entry();
    for name in [META, "schedule"] {
        let file = path.join(name);
        let whole = fs::read(&file).expect("a file");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&file, &damaged).expect("written");
            refused(&cache, &[&file.display().to_string(), "refrain schedules rm"]);
        }
        for length in (0..whole.len()).step_by(7) {
            fs::write(&file, &whole[..length]).expect("written");
            refused(&cache, &[&file.display().to_string(), "refrain schedules rm"]);
        }
        fs::write(&file, [whole.as_slice(), b" "].concat()).expect("written");
        refused(&cache, &[&file.display().to_string()]);
        fs::remove_file(&file).expect("removed");
        refused(&cache, &[&file.display().to_string(), "found nothing"]);
        fs::write(&file, &whole).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("private");
        hit(&cache, &key("1"));
    }
    // All that is wrong, not only the first thing.
    for (file, _) in FILES {
        fs::write(path.join(file.name()), "other").expect("written");
    }
    let places = cache.list().expect("a cache");
    assert_eq!(cache.check(&places[0]).len(), 3);
    let guard = cache.learn(&key("1"), || {}).expect("a lock");
    guard
        .insert(learned(None), &FILES)
        .expect("in the place of the damaged one");
    hit(&cache, &key("1"));
    assert_eq!(cache.check(&places[0]).len(), 0);
}

/// Writes metadata that is changed, with a checksum that fits.
fn change_meta(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("metadata");
    let changed = text.replacen(from, to, 1);
    assert_ne!(text, changed, "{from} is not there");
    let (first, rest) = changed.split_at("{\n  \"checksum\": \"".len());
    let rest = &rest[64..];
    let sum = run_store::hash_bytes([first.as_bytes(), rest.as_bytes()]);
    fs::write(file, [first, &sum, rest].concat()).expect("written");
}

#[test]
fn other_versions_and_strangers_are_refused() {
    let (_place, cache, path) = with_entry();
    let file = path.join(META);
    let whole = fs::read(&file).expect("metadata");
    let abi = format!("\"abi_version\": {}", runtime_abi::ABI_VERSION);
    let newer = (SCHEDULE_VERSION + 1).to_string();
    let version = format!("\"version\": {SCHEDULE_VERSION}");
    for (from, to, words) in [
        (
            version.as_str(),
            "\"version\": 99",
            ["has schedule version 99", "schedules rm"],
        ),
        (
            &version,
            &format!("\"version\": {newer}"),
            ["has schedule version", "schedules rm"],
        ),
        (&version, "\"version\": 0", ["field version", "schedules rm"]),
        (&version, "\"version\": \"1\"", ["field version", "found none"]),
        (&abi, "\"abi_version\": 3", ["interface of the runtime", "schedules rm"]),
        ("\"bytes\": 12", "\"bytes\": 99999999999", ["files.hybrid", "at most"]),
        ("\"bytes\": 12", "\"bytes\": -1", ["line", "schedules rm"]),
        ("\"hybrid\"", "\"../hybrid\"", ["line", "unknown variant"]),
        ("./bank", "./other", ["hash of the key", "schedules rm"]),
        ("/opt/", "/opt/../../", ["", ""]),
        ("\"threads\": 4", "\"threads\": 99999999999", ["line", "schedules rm"]),
    ] {
        change_meta(&file, from, to);
        if words[0].is_empty() {
            // The program's path is for people alone: nothing is looked for there.
            hit(&cache, &key("1"));
        } else {
            refused(&cache, &words);
        }
        fs::write(&file, &whole).expect("written");
    }
    // The metadata of one entry in the place of another.
    let other = learn(&cache, &key("2")).place().path().to_owned();
    fs::copy(other.join(META), &file).expect("copied");
    let error = cache.lookup(&key("1")).expect_err("another one's").to_string();
    assert!(error.contains("field key"), "{error}");
}

#[test]
fn what_others_may_write_is_refused() {
    let (_place, cache, path) = with_entry();
    let folder = path.parent().expect("a folder").to_owned();
    for there in [cache.root(), &folder, &path, &path.join(META), &path.join("schedule")] {
        let mode = fs::metadata(there).expect("metadata").permissions().mode() & 0o7777;
        for wrong in [mode | 0o002, mode | 0o020] {
            fs::set_permissions(there, fs::Permissions::from_mode(wrong)).expect("changed");
            let error = cache.lookup(&key("1")).expect_err("it may be written").to_string();
            let words = [
                there.display().to_string(),
                "others may write".to_owned(),
                "chmod go-w".to_owned(),
            ];
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        fs::set_permissions(there, fs::Permissions::from_mode(mode)).expect("changed");
        hit(&cache, &key("1"));
    }
    fs::set_permissions(cache.root(), fs::Permissions::from_mode(0o777)).expect("changed");
    assert!(matches!(cache.list(), Err(Error::Untrusted { .. })));
    assert!(matches!(cache.learn(&key("3"), || {}), Err(Error::Untrusted { .. })));
}

#[test]
fn others_own_caches_are_refused() {
    let (_place, cache, path) = with_entry();
    if std::os::unix::fs::chown(path.join("schedule"), Some(65_534), None).is_err() {
        eprintln!("skipped: only root gives files away");
        return;
    }
    let error = cache.lookup(&key("1")).expect_err("another's").to_string();
    assert!(
        error.contains("belongs to user 65534") && error.contains("--cache"),
        "{error}"
    );
}

#[test]
fn links_and_special_files_are_not_followed() {
    let (place, cache, path) = with_entry();
    let file = path.join("schedule");
    let aside = place.path("aside");
    fs::rename(&file, &aside).expect("moved");
    symlink(&aside, &file).expect("linked");
    refused(&cache, &["it is a link"]);
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("created");
    refused(&cache, &["another kind of file"]);
    fs::remove_dir(&file).expect("removed");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe that nobody writes to");
    refused(&cache, &["another kind of file"]);
    fs::remove_file(&file).expect("removed");
    fs::rename(&aside, &file).expect("moved back");
    hit(&cache, &key("1"));
    // The entry itself; a link of the user's to the whole cache is fine.
    fs::rename(&path, place.path("entry")).expect("moved");
    symlink(place.path("entry"), &path).expect("linked");
    assert!(matches!(cache.lookup(&key("1")), Err(Error::Untrusted { .. })));
    assert_eq!(cache.list().expect("a cache").len(), 0);
    fs::remove_file(&path).expect("removed");
    fs::rename(place.path("entry"), &path).expect("moved back");
    symlink(cache.root(), place.path("link")).expect("linked");
    hit(&place.cache("link"), &key("1"));
    assert!(matches!(place.cache("aside/none").lookup(&key("1")), Ok(Lookup::Miss)));
}

#[test]
fn sizes_are_bounded() {
    let (_place, cache, path) = with_entry();
    // Sparse: a length alone is no reason to read all of it.
    for (name, words) in [("schedule", "length"), (META, "size")] {
        let file = path.join(name);
        let whole = fs::read(&file).expect("a file");
        let long = fs::OpenOptions::new().write(true).open(&file).expect("a file");
        long.set_len(1 << 40).expect("a long file");
        refused(&cache, &[words]);
        fs::write(&file, &whole).expect("written");
    }
    hit(&cache, &key("1"));
    let mut long = learned(None);
    long.unordered_reads = vec!["x".repeat(5 << 20)];
    let guard = cache.learn(&key("2"), || {}).expect("a lock");
    let error = guard.insert(long, &[]).expect_err("too long").to_string();
    assert!(error.contains("the cache of schedules takes"), "{error}");
    assert!(matches!(cache.lookup(&key("2")), Ok(Lookup::Miss)));
}

/// A file system with little room, as long as it lives.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Place) -> Option<SmallDisk> {
        let path = place.path("disk");
        fs::create_dir(&path).expect("created");
        let options = ["-t", "tmpfs", "-o", "size=128k,mode=700", "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&path).output();
        let is_mounted = mounted.is_ok_and(|ended| ended.status.success());
        is_mounted.then_some(SmallDisk(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_a_sentence_and_leaves_nothing_half_done() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(&place) else {
        eprintln!("skipped: only root mounts file systems");
        return;
    };
    let cache = place.cache("disk/cache");
    drop(learn(&cache, &key("1")));
    let before = all_below(cache.root());
    let long = vec![7; 1 << 20];
    for key in [key("1"), key("2")] {
        let guard = cache.learn(&key, || {}).expect("a lock");
        let files: [(ScheduleFile, &[u8]); 2] = [(ScheduleFile::Hybrid, b"x"), (ScheduleFile::Schedule, &long)];
        let error = guard.insert(learned(None), &files).expect_err("no room").to_string();
        assert!(error.contains("free some space (`refrain schedules rm`)"), "{error}");
        assert_eq!(all_below(cache.root()), before);
    }
    // An archive that is too big, behind entries for which there is room.
    let wide = place.cache("wide");
    let guard = wide.learn(&key("3"), || {}).expect("a lock");
    drop(guard.insert(learned(None), &FILES).expect("an entry"));
    let guard = wide.learn(&key("4"), || {}).expect("a lock");
    drop(
        guard
            .insert(learned(None), &[(ScheduleFile::Steps, &long)])
            .expect("an entry"),
    );
    let places = wide.list().expect("a cache");
    let entries: Vec<_> = places.iter().map(|place| wide.open(place).expect("whole")).collect();
    wide.pack(&entries, &place.path("file")).expect("packed");
    let error = cache.unpack(&place.path("file")).expect_err("no room").to_string();
    assert!(error.contains("free some space"), "{error}");
    assert_eq!(all_below(cache.root()), before);
    hit(&cache, &key("1"));
}

#[test]
fn any_bytes_as_metadata_are_an_answer() {
    let (_place, _cache, path) = with_entry();
    let whole = fs::read(path.join(META)).expect("metadata");
    assert!(ScheduleMeta::decode(&whole, Path::new("x")).is_ok());
    let deep = "[".repeat(1 << 20);
    for bytes in [
        b"".as_slice(),
        b"{}",
        b"null",
        b"{\"version\":1}",
        b"\xff",
        deep.as_bytes(),
    ] {
        assert!(ScheduleMeta::decode(bytes, Path::new("x")).is_err());
    }
    assert_eq!(
        ScheduleFile::ALL.map(ScheduleFile::name),
        ["hybrid", "schedule", "points", "own_steps", "steps", "inputs"]
    );
}
