//! Packed runs: what goes in comes out, and no byte of an archive can change unnoticed.
use proptest::prelude::*;
use run_store::Beginning;
use run_store::Captured;
use run_store::Contents;
use run_store::ControlSetup;
use run_store::Ending;
use run_store::Error;
use run_store::FileIdentity;
use run_store::FileToPack;
use run_store::META_VERSION;
use run_store::Manifest;
use run_store::Outcome;
use run_store::Reader;
use run_store::Role;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::Store;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use tempfile::TempDir;

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
        fs::canonicalize(self.folder.path())
            .expect("an existing directory")
            .join(name)
    }

    fn store(&self, name: &str) -> Store {
        Store::at(&self.path(name)).expect("an absolute path")
    }

    /// A complete run of a program with this content, and what is packed with it.
    fn run(&self, program: &[u8], log: &[u8]) -> (RunDirectory, Contents) {
        let executable = self.path("prog");
        fs::write(&executable, program).expect("written");
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).expect("made executable");
        let (hash, bytes) = run_store::hash_file(&executable).expect("hashed");
        let run = self
            .store("runs")
            .create(OsStr::new("prog"), |_| Ok(()))
            .expect("created")
            .0;
        let setup = ControlSetup {
            settings: RunSettings::default(),
            call_sites: &[],
            pid: 0,
            beginning: Beginning::default(),
            stack_limit: None,
            run_directory: run.path(),
        };
        drop(run.create_control(&setup).expect("a control file"));
        fs::write(run.thread_log(0), log).expect("written");
        let mut meta = meta(&executable, hash, bytes);
        run.begin(&meta).expect("begun");
        meta.ending = Some(ending());
        run.seal(&meta).expect("sealed");
        let file = |role, path: &Path| FileToPack {
            role,
            source: path.to_owned(),
            original: path.as_os_str().into(),
            build_id: None,
            huge_aligned: None,
        };
        let library = self.path("library");
        fs::write(&library, [program, b"\0\0\0"].concat()).expect("written");
        let contents = Contents {
            files: vec![file(Role::Executable, &executable), file(Role::Library, &library)],
            aliases: vec![("/lib/alias.so".into(), 1)],
            missing: Vec::new(),
        };
        (run, contents)
    }
}

fn meta(executable: &Path, hash: String, bytes: u64) -> RunMeta {
    RunMeta {
        version: META_VERSION,
        refrain: "0.0.0".to_owned(),
        abi_version: runtime_abi::ABI_VERSION,
        argv: vec!["./prog".into()],
        cwd: "/".into(),
        env: Vec::new(),
        executable: FileIdentity {
            path: executable.as_os_str().into(),
            hash,
            bytes,
        },
        redacted: Vec::new(),
        libraries: Vec::new(),
        files: Default::default(),
        settings: RunSettings::default(),
        unrecorded_calls: Vec::new(),
        instrumentation: None,
        process: None,
        stack_limit: None,
        started: 1,
        ending: None,
    }
}

fn ending() -> Ending {
    let captured = Captured {
        bytes: 0,
        complete: true,
        ..Captured::default()
    };
    Ending {
        duration_ms: 1,
        cpu_ms: 1,
        memory_bytes: 1,
        outcome: Outcome::Exited(1),
        truncated: None,
        others_truncated: None,
        forked: false,
        unknown_call: None,
        refused_call: None,
        overruns: 0,
        left_running: 0,
        unknown_threads: 0,
        threads: 1,
        events: 1,
        records: 1,
        log_bytes: 1,
        input_bytes: 0,
        stdout: captured,
        stderr: captured,
    }
}

/// Names and contents of all files of a directory.
fn contents_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a directory");
    let files = entries.map(|entry| {
        let entry = entry.expect("an entry");
        let content = fs::read(entry.path()).expect("a file");
        (entry.file_name().to_string_lossy().into_owned(), content)
    });
    files.collect()
}

/// Everything below a directory, hidden or not.
fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.collect()
}

/// All members of an archive in memory, or why not.
fn read(archive: &[u8]) -> Result<(Manifest, Vec<Vec<u8>>), Error> {
    let mut reader = Reader::open(Cursor::new(archive), archive.len() as u64, Path::new("archive"))?;
    let manifest = reader.manifest().clone();
    let mut members = Vec::new();
    for _ in &manifest.entries {
        let mut member = Vec::new();
        reader.copy_next(|part| {
            member.extend_from_slice(part);
            Ok(())
        })?;
        members.push(member);
    }
    reader.finish()?;
    Ok((manifest, members))
}

#[test]
fn what_is_packed_comes_out_again() {
    let place = Place::new();
    let (run, contents) = place.run(b"program", b"log\0\0\0\0");
    let archive = place.path("a.refrain");
    run_store::pack(&run, &contents, &archive).expect("packed");
    let other = place.store("other");
    let first = run_store::unpack(&other, &archive, None).expect("unpacked");
    assert_eq!(first.run.name(), "prog-0");
    let mut unpacked = contents_of(first.run.path());
    assert_eq!(unpacked.remove("packed-0").expect("the program"), b"program");
    assert_eq!(unpacked.remove("packed-1").expect("the library"), b"program\0\0\0");
    assert!(unpacked.remove("packed.json").is_some());
    assert_eq!(unpacked, contents_of(run.path()));
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&first.run.packed_file(0)), 0o700);
    let packed = first.run.packed().expect("readable").expect("it is unpacked");
    assert_eq!(packed.file_at(Path::new("/lib/alias.so")), Some(1));
    assert_eq!(packed.file_at(&place.path("prog")), Some(0));
    assert_eq!(packed.file_at(Path::new("/lib/other.so")), None);
    assert!(run.packed().expect("readable").is_none());
    // A second time it gets another name, or the one that is asked for.
    let second = run_store::unpack(&other, &archive, None).expect("unpacked");
    assert_eq!(second.run.name(), "prog-1");
    let wanted = place.path("here/it/is");
    run_store::unpack(&other, &archive, Some(&wanted)).expect("unpacked");
    assert_eq!(contents_of(&wanted), contents_of(first.run.path()));
    let again = run_store::unpack(&other, &archive, Some(&wanted));
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
    other.remove(&first.run).expect("removed");
    assert!(!first.run.path().exists());
}

#[test]
fn archives_of_the_same_run_are_the_same_bytes_and_never_overwritten() {
    let place = Place::new();
    let (run, contents) = place.run(b"program", b"log");
    let (first, second) = (place.path("1"), place.path("2"));
    run_store::pack(&run, &contents, &first).expect("packed");
    run_store::pack(&run, &contents, &second).expect("packed");
    assert_eq!(fs::read(&first).expect("read"), fs::read(&second).expect("read"));
    let taken = run_store::pack(&run, &contents, &first);
    assert!(matches!(taken, Err(Error::PackExists { .. })), "{taken:?}");
    assert!(names_in(&place.path("")).iter().all(|name| !name.ends_with(".part")));
}

#[test]
fn every_flipped_byte_and_every_truncation_is_refused() {
    let place = Place::new();
    let (run, contents) = place.run(b"program", b"log");
    let path = place.path("a.refrain");
    run_store::pack(&run, &contents, &path).expect("packed");
    let archive = fs::read(&path).expect("read");
    read(&archive).expect("whole");
    for length in 0..archive.len() {
        assert!(read(&archive[..length]).is_err(), "accepted with {length} bytes");
    }
    for more in [1, 512, 10_240] {
        let longer = [&archive[..], &vec![0; more]].concat();
        assert!(read(&longer).is_err(), "accepted with {more} more bytes");
    }
    let mut flipped = archive.clone();
    for place in 0..archive.len() {
        for bit in [0, 5, 7] {
            flipped[place] ^= 1 << bit;
            assert!(
                read(&flipped).is_err(),
                "accepted with bit {bit} of byte {place} flipped"
            );
            flipped[place] ^= 1 << bit;
        }
    }
    assert_eq!(flipped, archive);
}

#[test]
fn a_refused_archive_leaves_nothing() {
    let place = Place::new();
    let (run, contents) = place.run(b"program", b"log");
    let path = place.path("a.refrain");
    run_store::pack(&run, &contents, &path).expect("packed");
    let mut archive = fs::read(&path).expect("read");
    // The last member is bad: all others have been written by then.
    let at = archive.len() - 1024 - 512;
    archive[at] ^= 1;
    fs::write(&path, &archive).expect("written");
    let other = place.store("other");
    let refused = run_store::unpack(&other, &path, None);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(names_in(other.root()), Vec::<String>::new());
}

#[test]
fn what_a_killed_process_left_is_removed_and_what_a_living_one_fills_is_not() {
    let place = Place::new();
    let (run, contents) = place.run(b"program", b"log");
    let path = place.path("a.refrain");
    run_store::pack(&run, &contents, &path).expect("packed");
    let other = place.store("other");
    let (dead, living) = (
        other.root().join(".refrain-unpack-1-0"),
        other.root().join(".refrain-unpack-2-0"),
    );
    for folder in [&dead, &living] {
        fs::create_dir_all(folder).expect("created");
        fs::write(folder.join("run.json"), "half").expect("written");
    }
    let lock = File::open(&living).expect("opened");
    lock.lock().expect("locked");
    assert_eq!(other.list().expect("listed"), Vec::new());
    run_store::unpack(&other, &path, None).expect("unpacked");
    assert!(!dead.exists());
    assert!(living.join("run.json").exists());
    assert_eq!(other.list().expect("listed").len(), 1);
}

#[test]
fn other_files_are_no_packed_runs() {
    let place = Place::new();
    let store = place.store("runs");
    let file = place.path("file");
    for content in [&b""[..], b"x", &[0; 10_240], b"refrain-pack\0"] {
        fs::write(&file, content).expect("written");
        assert!(run_store::unpack(&store, &file, None).is_err());
    }
    for path in [place.path(""), place.path("nowhere"), PathBuf::from("/dev/zero")] {
        assert!(run_store::unpack(&store, &path, None).is_err(), "{path:?}");
    }
    assert!(!store.root().exists());
}

#[test]
fn a_program_that_is_not_the_recorded_one_is_not_unpacked() {
    let place = Place::new();
    let (run, mut contents) = place.run(b"program", b"log");
    contents.files[0].source = contents.files[1].source.clone();
    let path = place.path("a.refrain");
    run_store::pack(&run, &contents, &path).expect("packed");
    let refused = run_store::unpack(&place.store("other"), &path, None);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(names_in(&place.path("other")), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_content_survives(
        program in prop::collection::vec(any::<u8>(), 0..3000),
        log in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..70_000),
        zeros in prop_oneof![Just(0usize), 0usize..200_000, Just(9 << 20)],
    ) {
        let place = Place::new();
        let log = [log, vec![0; zeros]].concat();
        let (run, contents) = place.run(&program, &log);
        let path = place.path("a.refrain");
        run_store::pack(&run, &contents, &path).expect("packed");
        let unpacked = run_store::unpack(&place.store("other"), &path, None).expect("unpacked");
        prop_assert!(fs::read(unpacked.run.thread_log(0)).expect("read") == log);
        prop_assert!(fs::read(unpacked.run.packed_file(0)).expect("read") == program);
    }

    #[test]
    fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        prop_assert!(read(&bytes).is_err());
    }
}
