//! Run directories on temporary disks: names, sealing, damage, removal.
use run_store::Beginning;
use run_store::Captured;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::Ending;
use run_store::Error;
use run_store::FailurePoint;
use run_store::FileIdentity;
use run_store::META_VERSION;
use run_store::Outcome;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::RunState;
use run_store::Store;
use run_store::ThreadState;
use run_store::Truncated;
use runtime_abi::CONTROL_BYTES;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::ThreadSlot;
use std::ffi::OsStr;
use std::fs;
use std::fs::OpenOptions;
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let root = TempDir::new().expect("a temporary directory");
    let path = fs::canonicalize(root.path()).expect("an existing directory");
    let store = Store::at(&path.join("runs")).expect("an absolute path");
    (root, store)
}

fn meta(started: u64) -> RunMeta {
    RunMeta {
        version: META_VERSION,
        refrain: "0.0.0".to_owned(),
        abi_version: runtime_abi::ABI_VERSION,
        argv: vec!["./racey".into(), "two words".into()],
        cwd: "/".into(),
        env: vec![
            ("PATH".into(), "/bin".into()),
            ("X".into(), OsStr::from_bytes(b"\xff").into()),
        ],
        executable: FileIdentity {
            path: "/racey".into(),
            hash: "00".to_owned(),
            bytes: 1,
        },
        redacted: Vec::new(),
        libraries: Vec::new(),
        files: Default::default(),
        settings: RunSettings {
            chaos_seed: NonZeroU64::new(7),
            ..RunSettings::default()
        },
        unrecorded_calls: Vec::new(),
        instrumentation: None,
        process: None,
        stack_limit: None,
        started,
        ending: None,
    }
}

fn ending(outcome: Outcome) -> Ending {
    Ending {
        duration_ms: 12,
        cpu_ms: 20,
        memory_bytes: 1 << 20,
        outcome,
        truncated: Some(Truncated::NoSpace { errno: 28 }),
        others_truncated: Some(Truncated::SizeLimit),
        forked: false,
        unknown_call: None,
        refused_call: None,
        overruns: 0,
        left_running: 0,
        unknown_threads: 0,
        threads: 2,
        events: 100,
        records: 10,
        log_bytes: 64,
        input_bytes: 0,
        stdout: Captured {
            bytes: 3,
            complete: true,
            ..Captured::default()
        },
        stderr: Captured {
            bytes: 0,
            complete: true,
            ..Captured::default()
        },
    }
}

fn sealed(store: &Store, started: u64) -> RunDirectory {
    let run = store.create(OsStr::new("racey"), |_| Ok(())).expect("created").0;
    let mut meta = meta(started);
    run.begin(&meta).expect("begun");
    meta.ending = Some(ending(Outcome::Exited(0)));
    run.seal(&meta).expect("sealed");
    run
}

fn setup(run_directory: &Path) -> ControlSetup<'_> {
    ControlSetup {
        settings: RunSettings {
            chaos_seed: NonZeroU64::new(5),
            log_bytes_max: NonZeroU64::new(9),
            ..RunSettings::default()
        },
        call_sites: &[],
        pid: 0,
        beginning: Beginning::default(),
        stack_limit: None,
        run_directory,
    }
}

#[test]
fn names_are_numbered_and_harmless() {
    let (_root, store) = store();
    let name = |program: &str| store.create(OsStr::new(program), |_| Ok(())).expect("created").0.name();
    assert_eq!(name("/usr/bin/racey"), "racey-0");
    assert_eq!(name("racey"), "racey-1");
    fs::create_dir(store.root().join("racey-41")).expect("created");
    assert_eq!(name("./racey"), "racey-42");
    assert_eq!(name("a b;c"), "a_b_c-0");
    assert_eq!(name(".."), "program-0");
    assert_eq!(name("-rf"), "rf-0");
}

#[test]
fn simultaneous_recordings_get_different_directories() {
    let (_root, store) = store();
    let names = std::thread::scope(|scope| {
        let create = || store.create(OsStr::new("p"), |_| Ok(())).expect("created").0.name();
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(create)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(names.len(), 16);
}

#[test]
fn a_run_is_complete_only_when_sealed() {
    let (_root, store) = store();
    let run = store.create(OsStr::new("racey"), |_| Ok(())).expect("created").0;
    assert!(matches!(run.load(), Err(Error::NotARun { .. })));
    assert!(store.list().expect("listed").is_empty());

    let mut meta = meta(1);
    run.begin(&meta).expect("begun");
    let control = run.create_control(&setup(run.path())).expect("created");
    assert_eq!(run.load().expect("read"), (meta.clone(), RunState::Recording));
    assert!(matches!(run.remove(), Err(Error::InUse { .. })));
    drop(control);
    assert_eq!(run.load().expect("read").1, RunState::Interrupted);

    meta.ending = Some(ending(Outcome::Signaled(6)));
    run.seal(&meta).expect("sealed");
    assert_eq!(run.load().expect("read"), (meta, RunState::Complete));
    assert!(!run.file("recording.json").exists());
}

#[test]
fn runs_open_by_name_directory_and_as_the_latest() {
    let (_root, store) = store();
    assert!(matches!(store.open(None), Err(Error::NoRuns { .. })));
    let (first, second) = (sealed(&store, 10), sealed(&store, 20));
    store.set_latest(&first).expect("linked");
    store.set_latest(&second).expect("linked again");
    assert_eq!(store.open(None).expect("latest"), second);
    assert_eq!(store.open(Some(OsStr::new("latest"))).expect("by its name"), second);
    assert_eq!(store.open(Some(OsStr::new("racey-0"))).expect("by name"), first);
    assert_eq!(store.open(Some(first.path().as_os_str())).expect("by directory"), first);
    assert!(matches!(
        store.open(Some(OsStr::new("racey-7"))),
        Err(Error::NoSuchRun { .. })
    ));
    assert!(matches!(store.open(Some(OsStr::new(""))), Err(Error::BadName { .. })));
    assert!(matches!(store.open(Some(OsStr::new("/"))), Err(Error::NotARun { .. })));

    store.remove(&second).expect("removed");
    assert_eq!(store.open(None).expect("the one that is left"), first);
    store.remove(&first).expect("removed");
    assert!(matches!(store.open(None), Err(Error::NoRuns { .. })));
    assert!(!store.root().join("latest").is_symlink());
}

#[test]
fn the_directory_of_o_must_not_exist() {
    let (root, _store) = store();
    let path = root.path().join("a/b");
    Store::create_at(&path, |_| Ok(())).expect("created with its parent");
    assert!(matches!(Store::create_at(&path, |_| Ok(())), Err(Error::Exists { .. })));
}

#[test]
fn removal_leaves_foreign_files() {
    let (_root, store) = store();
    let run = sealed(&store, 1);
    fs::write(run.file("notes.txt"), "mine").expect("written");
    fs::write(run.thread_log(3), "").expect("written");
    assert!(matches!(store.remove(&run), Err(Error::ForeignFiles { example, .. }) if example == "notes.txt"));
    assert_eq!(fs::read(run.file("notes.txt")).expect("still there"), b"mine");
    assert!(!run.thread_log(3).exists());
}

#[test]
fn foreign_directories_are_not_removed() {
    let (root, store) = store();
    let theirs = fs::canonicalize(root.path()).expect("exists").join("theirs");
    fs::create_dir(&theirs).expect("created");
    fs::write(theirs.join("run.json"), r#"{"fast": true}"#).expect("written");
    let run = store.open(Some(theirs.as_os_str())).expect("it looks like a run");
    assert!(matches!(store.remove(&run), Err(Error::Corrupt { .. })));
    assert!(theirs.join("run.json").exists());
}

#[test]
fn damaged_metadata_is_a_sentence_at_every_byte() {
    let (_root, store) = store();
    let run = sealed(&store, 1);
    let path = run.file("run.json");
    let whole = fs::read(&path).expect("read");
    for length in 0..whole.len() - 1 {
        fs::write(&path, &whole[..length]).expect("written");
        if length < whole.len() - 2 {
            let error = run.load().expect_err("a cut file").to_string();
            assert!(error.contains("run.json"), "{error}");
        }
    }
    for index in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[index] ^= 0x10;
        fs::write(&path, &flipped).expect("written");
        // A flip inside a string is not detectable here; it must only never panic.
        let _ = run.load();
    }
}

#[test]
fn newer_metadata_is_named_as_such() {
    let (_root, store) = store();
    let run = sealed(&store, 1);
    fs::write(run.file("run.json"), r#"{"version": 99, "layout": "unheard of"}"#).expect("written");
    let error = run.load().expect_err("too new");
    assert!(matches!(error, Error::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("99"), "{error}");
}

#[test]
fn the_control_file_is_read_where_the_runtime_writes() {
    let (_root, store) = store();
    let run = store.create(OsStr::new("p"), |_| Ok(())).expect("created").0;
    let control = run.create_control(&setup(run.path())).expect("created");
    let file = control.file();
    assert_eq!(file.metadata().expect("stat").len(), CONTROL_BYTES as u64);
    let put32 = |offset: usize, value: u32| file.write_all_at(&value.to_le_bytes(), offset as u64).expect("written");
    let put64 = |offset: usize, value: u64| file.write_all_at(&value.to_le_bytes(), offset as u64).expect("written");
    put32(offset_of!(ControlHeader, progress.attached), 1);
    put32(offset_of!(ControlHeader, progress.threads), 2);
    put32(offset_of!(ControlHeader, progress.truncated), 1);
    put32(offset_of!(ControlHeader, progress.truncated_errno), 28);
    put64(offset_of!(ControlHeader, progress.epoch), 77);
    let slot = HEADER_BYTES + size_of::<ThreadSlot>();
    put64(slot + offset_of!(ThreadSlot, count), 123);
    put32(slot + offset_of!(ThreadSlot, state), 4);
    put64(slot + offset_of!(ThreadSlot, wait_count), 55);
    put64(slot + offset_of!(ThreadSlot, records), 6);
    put32(slot + offset_of!(ThreadSlot, signal), 11);
    put64(slot + offset_of!(ThreadSlot, lost), 42);

    let control = run.control().expect("opened");
    let header = control.header().expect("read");
    assert!(header.attached && !header.forked);
    assert_eq!((header.threads, header.epoch), (2, 77));
    assert_eq!(header.truncated, Some(Truncated::NoSpace { errno: 28 }));
    assert_eq!(header.divergence, None);
    let slots = control.slots().expect("read");
    assert_eq!(slots[0].state, ThreadState::Unused);
    assert_eq!((slots[1].count, slots[1].wait_count, slots[1].records), (123, 55, 6));
    assert_eq!(slots[1].state, ThreadState::Waiting);
    assert_eq!((slots[1].signal, slots[1].lost, slots[0].lost), (11, Some(41), None));

    put32(offset_of!(ControlHeader, divergence.thread), 3);
    put64(offset_of!(ControlHeader, divergence.event), 9);
    put32(offset_of!(ControlHeader, divergence.kind), 2);
    let report = control.header().expect("read").divergence.expect("a divergence");
    assert_eq!((report.kind, report.thread, report.event), (2, 3, 9));
}

#[test]
fn control_memory_can_be_made_as_new() {
    let (root, _store) = store();
    let path = root.path().join("control");
    let open = || {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        file.expect("opened")
    };
    let number = |offset: usize| {
        let mut bytes = [0; 8];
        open().read_exact_at(&mut bytes, offset as u64).expect("read");
        u64::from_le_bytes(bytes)
    };
    let control = ControlFile::initialise(open(), &path, &setup(root.path())).expect("initialised");
    let failure = FailurePoint { thread: 3, event: 77 };
    control.expect_debugger(Some(failure)).expect("written");
    assert_eq!(number(offset_of!(ControlHeader, debugger.failure_event)), 77);
    assert_eq!(number(offset_of!(ControlHeader, debugger.debugged)), 1 | 3 << 32);
    // The last slot is beyond what is written anew: it must not keep what it had.
    let last = CONTROL_BYTES - size_of::<ThreadSlot>();
    open().write_all_at(&[1; 8], last as u64).expect("written");
    assert_ne!(number(last), 0);
    let control = ControlFile::initialise(open(), &path, &setup(root.path())).expect("initialised again");
    assert_eq!(number(last), 0);
    assert_eq!(number(offset_of!(ControlHeader, debugger.debugged)), 0);
    control.expect_debugger(None).expect("written");
    assert_eq!(number(offset_of!(ControlHeader, debugger.failure_event)), u64::MAX);
}

#[test]
fn foreign_control_files_are_refused() {
    let (_root, store) = store();
    let run = store.create(OsStr::new("p"), |_| Ok(())).expect("created").0;
    drop(run.create_control(&setup(run.path())).expect("created"));
    let path = run.file("control");
    let file = OpenOptions::new().write(true).open(&path).expect("opened");
    let put = |offset: usize, value: u32| file.write_all_at(&value.to_le_bytes(), offset as u64).expect("written");
    let opened = || run.control().and_then(|c| c.slots());

    put(offset_of!(ControlHeader, progress.threads), u32::MAX);
    assert!(matches!(opened(), Err(Error::Corrupt { .. })));
    put(offset_of!(ControlHeader, progress.threads), 1);
    file.write_all_at(&[9], (HEADER_BYTES + offset_of!(ThreadSlot, state)) as u64)
        .expect("written");
    assert!(matches!(opened(), Err(Error::Corrupt { .. })));
    put(offset_of!(ControlHeader, abi_version), 1000);
    assert!(matches!(opened(), Err(Error::Newer { .. })));
    put(offset_of!(ControlHeader, magic), 0);
    assert!(matches!(opened(), Err(Error::Corrupt { .. })));
    file.set_len(100).expect("cut");
    assert!(matches!(opened(), Err(Error::Corrupt { .. })));
}

#[test]
fn a_path_that_does_not_fit_the_control_file_is_refused() {
    let (_root, store) = store();
    let run = store.create(OsStr::new("p"), |_| Ok(())).expect("created").0;
    let long = format!("/{}", "x/".repeat(2100));
    assert!(matches!(
        run.create_control(&setup(Path::new(&long))),
        Err(Error::PathTooLong { .. })
    ));
}
