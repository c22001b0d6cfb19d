//! Schedules that travel: what goes in comes out, all of it or nothing, and no byte of an archive can change unnoticed.
use crate::HYBRID;
use crate::Place;
use crate::all_below;
use crate::hit;
use crate::key;
use crate::learn;
use crate::learned;
use run_store::Error;
use run_store::ScheduleArchive;
use run_store::ScheduleCache;
use run_store::ScheduleFile;
use std::fs;
use std::io::Cursor;
use std::path::Path;

const BLOCK_BYTES: usize = 512;

/// A file of an entry in an archive.
type Packed<'a> = (&'a str, &'a [u8]);

/// An archive of three entries, one of them sealed.
fn packed(place: &Place) -> Vec<u8> {
    let cache = place.cache("cache");
    learn(&cache, &key("1"));
    learn(&cache, &key("2"));
    let guard = cache.learn(&key("3"), || {}).expect("a lock");
    guard.insert(learned(Some("it forks")), &[]).expect("an entry");
    let places = cache.list().expect("a cache");
    let entries: Vec<_> = places.iter().map(|place| cache.open(place).expect("whole")).collect();
    let file = place.path("file");
    cache.pack(&entries, &file).expect("packed");
    assert!(matches!(cache.pack(&entries, &file), Err(Error::PackExists { .. })));
    fs::read(file).expect("an archive")
}

fn unpack(cache: &ScheduleCache, archive: &[u8], place: &Place) -> Result<usize, Error> {
    let file = place.path("given");
    fs::write(&file, archive).expect("written");
    cache.unpack(&file).map(|unpacked| unpacked.added.len())
}

#[test]
fn what_was_packed_is_found_elsewhere() {
    let place = Place::new();
    let archive = packed(&place);
    let other = place.cache("other");
    let unpacked = other.unpack(&place.path("file")).expect("unpacked");
    assert_eq!((unpacked.added.len(), unpacked.there_before.len()), (3, 0));
    let entry = hit(&other, &key("1"));
    assert_eq!(
        entry.read(ScheduleFile::Hybrid).expect("whole").as_deref(),
        Some(HYBRID)
    );
    for (path, mode) in all_below(&place.path("other")) {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{path:?}");
    }
    assert_eq!(all_below(other.root()).len(), 1 + 3 + 4 + 4 + 1, "and nothing else");
    // What is there stays, even while it is used.
    let second = hit(&other, &key("2")).place().clone();
    other.remove(&second).expect("removed");
    let again = other.unpack(&place.path("given_not")).expect_err("no file").to_string();
    assert!(again.contains("cannot read"), "{again}");
    fs::write(place.path("given"), &archive).expect("written");
    let again = other.unpack(&place.path("given")).expect("unpacked");
    assert_eq!((again.added.len(), again.there_before.len()), (1, 2));
    drop(entry);
    // The same entries, the same bytes.
    let places = other.list().expect("a cache");
    let entries: Vec<_> = places.iter().map(|place| other.open(place).expect("whole")).collect();
    other.pack(&entries, &place.path("second")).expect("packed");
    assert_eq!(fs::read(place.path("second")).expect("an archive"), archive);
}

#[test]
fn no_byte_changes_unnoticed_and_nothing_is_left() {
    let place = Place::new();
    let archive = packed(&place);
    for at in 0..archive.len() {
        let mut damaged = archive.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged).is_err(), "byte {at}");
    }
    for length in (0..archive.len()).step_by(97) {
        assert!(read(&archive[..length]).is_err(), "length {length}");
    }
    let other = place.cache("other");
    for at in (0..archive.len()).step_by(501) {
        let mut damaged = archive.clone();
        damaged[at] ^= 0x20;
        unpack(&other, &damaged, &place).expect_err("damaged");
        assert_eq!(all_below(other.root()), [], "byte {at}");
    }
    let run = [b"refrain-pack".as_slice(), &[0; 2000]].concat();
    for strange in [b"".as_slice(), b"text", &run, &[0; 4096]] {
        unpack(&other, strange, &place).expect_err("no archive");
    }
    assert!(matches!(other.unpack(other.root()), Err(Error::NotSchedules { .. })));
}

fn read(archive: &[u8]) -> Result<(), Error> {
    let mut reader = ScheduleArchive::open(Cursor::new(archive), archive.len() as u64, Path::new("x"))?;
    while reader.copy_next(|_| Ok(|_: &[u8]| Ok(())))?.is_some() {}
    reader.finish()
}

/// A plain file of a tar archive.
fn member(name: &str, mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = [0; BLOCK_BYTES];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}\x000000000\x000000000\0").as_bytes());
    put(
        124,
        format!("{:011o}\x0000000000000\0        0", content.len()).as_bytes(),
    );
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = [&header[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

/// An archive whose stamp, manifest and members fit together.
fn forged(schedules: &[&[Packed]]) -> Vec<u8> {
    let file = |(name, content): &(&str, &[u8])| {
        let hash = blake3::hash(content).to_hex().to_string();
        serde_json::json!({ "name": name, "bytes": content.len(), "hash": hash })
    };
    let described: Vec<Vec<_>> = schedules.iter().map(|files| files.iter().map(file).collect()).collect();
    let manifest = serde_json::json!({ "refrain": "0", "schedules": described }).to_string();
    let hash = blake3::hash(manifest.as_bytes()).to_hex();
    let stamp = format!("refrain schedules 1\nmanifest {hash} {}\n", manifest.len());
    let mut archive = member("refrain-schedules", 0o644, stamp.as_bytes());
    archive.extend(member("manifest.json", 0o644, manifest.as_bytes()));
    for (number, files) in schedules.iter().enumerate() {
        for (name, content) in *files {
            archive.extend(member(&format!("schedules/{number}/{name}"), 0o600, content));
        }
    }
    archive.extend([0; 2 * BLOCK_BYTES]);
    archive
}

#[test]
fn forged_archives_lead_nowhere() {
    let place = Place::new();
    let cache = place.cache("cache");
    let entry = learn(&cache, &key("1"));
    let file = |name: &str| fs::read(entry.place().path().join(name)).expect("a file");
    let (meta, hybrid, schedule) = (file("schedule.json"), file("hybrid"), file("schedule"));
    let other = place.cache("other");
    let good: [Packed; 4] = [
        ("schedule.json", &meta),
        ("hybrid", &hybrid),
        ("schedule", &schedule),
        ("points", b""),
    ];
    let cases: [(&[&[Packed]], &str); 13] = [
        (&[], "at least one schedule"),
        (&[&[]], "files of each schedule"),
        (&[&good[1..]], "metadata of each schedule first"),
        (&[&[good[0], ("../x", b"")]], "files that schedules have"),
        (&[&[good[0], ("/etc/x", b"")]], "files that schedules have"),
        (&[&[good[0], ("hybrid/x", b"")]], "files that schedules have"),
        (&[&[good[0], good[0]]], "files that schedules have"),
        (&[&[good[0], good[2], good[1]]], "files that schedules have"),
        (&[&[good[0], good[1], good[1]]], "files that schedules have"),
        (&[&good[..3]], "those that the metadata names"),
        (
            &[&[good[0], ("hybrid", b"other bytes.")]],
            "those that the metadata names",
        ),
        (&[&good, &good], "another key than before"),
        (
            &[&[good[0], ("hybrid", b"other bytes."), good[2], good[3]]],
            "schedules/0/hybrid: checksum",
        ),
    ];
    for (schedules, words) in cases {
        let error = unpack(&other, &forged(schedules), &place)
            .expect_err("forged")
            .to_string();
        assert!(error.contains(words), "'{error}' lacks '{words}'");
        assert_eq!(all_below(other.root()), []);
    }
    // The good first, the bad second: not even the good one is there.
    let mixed: [&[Packed]; 2] = [&good, &[("schedule.json", b"{}")]];
    unpack(&other, &forged(&mixed), &place).expect_err("half of it is bad");
    assert_eq!(all_below(other.root()), []);
    assert_eq!(unpack(&other, &forged(&[&good]), &place).expect("it is good"), 1);
    drop(hit(&other, &key("1")));
}

#[test]
fn unpacking_that_was_killed_is_finished_by_the_next_command() {
    let place = Place::new();
    packed(&place);
    let cache = place.cache("cache");
    let other = place.cache("other");
    // As it is when all entries belong to the cache and one of them is in its place.
    let ready = other.root().join(".refrain-ready-999999999-0");
    fs::create_dir_all(&ready).expect("created");
    for path in [other.root(), &ready] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("private");
    }
    let places = cache.list().expect("a cache");
    for (number, from) in places.iter().enumerate().skip(1) {
        fs::rename(from.path(), ready.join(number.to_string())).expect("moved");
    }
    assert_eq!(other.list().expect("a cache").len(), 2);
    assert!(!ready.exists());
    // One that cannot be used by anybody goes.
    fs::create_dir(&ready).expect("created");
    fs::create_dir(ready.join("0")).expect("created");
    assert_eq!(other.list().expect("a cache").len(), 2);
    assert!(!ready.exists());
}
