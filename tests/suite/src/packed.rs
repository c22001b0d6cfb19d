//! Runs that travel: packed where they were recorded, unpacked and replayed where their files are not. And archives
//! that nobody should unpack.
use crate::Checked;
use crate::command::Ended;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Guest;
use crate::interrupted::SmallDisk;
use crate::recording::Recorded;
use crate::recording::record;
use crate::recording::without_checksum;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(120);
const BLOCK_BYTES: usize = 512;

pub fn trials() -> Result<Vec<Trial>, String> {
    let bug = Guest::read(&tool::guests().join("demo_heisenbug.c"))?;
    let plain = Guest::read(&tool::guests().join("probes/canary.c"))?;
    let library = Guest::read(&tool::guests().join("coverage/shared_library/main.c"))?;
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let all: [(&str, Check, &Guest); 13] = [
        ("without_its_files", without_its_files, &bug),
        ("changed_program", changed_program, &bug),
        ("without_its_directory", without_its_directory, &bug),
        ("changed_and_missing_libraries", changed_and_missing_libraries, &library),
        ("in_place", in_place, &plain),
        ("packed_again", packed_again, &plain),
        ("other_addresses", other_addresses, &plain),
        ("other_file_system", other_file_system, &plain),
        ("what_cannot_be_packed", what_cannot_be_packed, &library),
        ("damaged_copy", damaged_copy, &plain),
        ("namespaces_refused", namespaces_refused, &plain),
        ("unpacking_killed", unpacking_killed, &plain),
        ("hostile_archives", hostile_archives, &plain),
    ];
    let trials = all.map(|(name, check, guest)| {
        let guest = guest.clone();
        trial(format!("packed/{name}"), move |s| check(s, &guest))
    });
    Ok(trials.into())
}

/// A `refrain` command with another store than the one the run was recorded into.
fn elsewhere(sandbox: &Sandbox, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Line {
    sandbox
        .refrain(arguments)
        .var("REFRAIN_DIR", other_store(sandbox))
        .within(LIMIT)
}

fn other_store(sandbox: &Sandbox) -> PathBuf {
    sandbox.work().join("elsewhere")
}

/// A failing run of the bug.
fn failing_run(sandbox: &Sandbox, guest: &Guest, program: &Path) -> Checked<Recorded> {
    let until = format!("--until-failure={}", guest.attempts);
    let recorded = record(
        sandbox,
        "run",
        &["--chaos=1", &until, "--timeout", "20"],
        program,
        LIMIT,
    )?;
    require(recorded.ended.status == 128 + 6, || {
        recorded.ended.told("expected SIGABRT")
    })?;
    Ok(recorded)
}

fn good_run(sandbox: &Sandbox, guest: &Guest) -> Checked<Recorded> {
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "run", &[], &program, LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    Ok(recorded)
}

fn pack(sandbox: &Sandbox, run: &Recorded) -> Checked<Ended> {
    let line = sandbox.refrain(["pack", "-o", "run.refrain"]).arg(&run.directory);
    sandbox.run(&line)?.expect_status(0)
}

/// Packs the run, removes it, and unpacks it into the other store.
fn travel(sandbox: &Sandbox, run: &Recorded) -> Checked<Recorded> {
    pack(sandbox, run)?;
    sandbox
        .run(&sandbox.refrain(["rm"]).arg(&run.directory))?
        .expect_status(0)?;
    let unpack = elsewhere(sandbox, ["unpack", "--json", "run.refrain"]);
    let ended = sandbox.run(&unpack)?.expect_status(0)?;
    let json = parsed(&ended)?;
    require(json["self_contained"] == json!(true), || {
        ended.told("expected all files to be packed")
    })?;
    let Some(directory) = json["directory"].as_str() else {
        return failed(ended.told("it does not say where the run is"));
    };
    Ok(Recorded {
        directory: PathBuf::from(directory),
        ended,
    })
}

fn parsed(ended: &Ended) -> Checked<Value> {
    serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))
}

fn remove(sandbox: &Sandbox, path: &Path) -> Checked {
    sandbox.note(format!("rm -r {}", path.display()));
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn without_its_files(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = failing_run(sandbox, guest, &program)?;
    let unpacked = travel(sandbox, &recorded)?;
    remove(sandbox, &program)?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    require(!program.exists(), || "the replay left the program behind".to_owned())?;
    // By the latest name, as a user has it.
    let replay = sandbox.run(&elsewhere(sandbox, ["replay"]))?.expect_status(0)?;
    require(replay.stdout == unpacked.kept("stdout")?, || {
        replay.told("the replay printed something else")
    })?;
    let info = sandbox
        .run(&elsewhere(sandbox, ["info", "run.refrain"]))?
        .expect_status(0)?;
    require(info.stdout_text().contains("self-contained"), || {
        info.told("it does not say that the packed run is self-contained")
    })?;
    let info = sandbox.run(&elsewhere(sandbox, ["info"]))?.expect_status(0)?;
    require(info.stdout_text().contains("self-contained"), || {
        info.told("it does not say that the run is self-contained")
    })?;
    let dump = sandbox.run(&elsewhere(sandbox, ["dump"]))?.expect_status(0)?;
    require(dump.stdout_text().contains("demo_heisenbug.c:"), || {
        dump.told("no source lines without the program")
    })?;
    let list = sandbox.run(&elsewhere(sandbox, ["ls", "--json"]))?.expect_status(0)?;
    require(parsed(&list)?.as_array().is_some_and(|runs| runs.len() == 1), || {
        list.told("expected one run")
    })?;
    let name = unpacked.directory.file_name().unwrap_or_default();
    sandbox
        .run(&elsewhere(sandbox, [OsStr::new("rm"), name]))?
        .expect_status(0)?;
    require(!unpacked.directory.exists(), || "rm left something behind".to_owned())
}

fn changed_program(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let recorded = failing_run(sandbox, guest, &program)?;
    let unpacked = travel(sandbox, &recorded)?;
    let other = "#!/bin/sh\necho another program\n";
    sandbox.note(format!("printf '{other}' > {}", program.display()));
    fs::write(&program, other)?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    require(fs::read(&program)? == other.as_bytes(), || {
        "the replay changed the program that is there".to_owned()
    })
}

fn without_its_directory(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let built = guest.build(sandbox, &[])?;
    let folder = sandbox.work().join("ci/build/out");
    fs::create_dir_all(&folder)?;
    let program = folder.join("prog");
    sandbox.note(format!(
        "mkdir -p {0}; mv {1} {0}/prog",
        folder.display(),
        built.display()
    ));
    fs::rename(&built, &program)?;
    let mut line = sandbox
        .refrain([
            "record",
            "--chaos=1",
            "--until-failure",
            "--timeout",
            "20",
            "-o",
            "../run",
        ])
        .args(["--", "./prog"])
        .within(LIMIT);
    line.directory = folder;
    let ended = sandbox.run(&line)?.expect_status(128 + 6)?;
    let directory = sandbox.work().join("ci/build/run");
    let unpacked = travel(sandbox, &Recorded { directory, ended })?;
    remove(sandbox, &sandbox.work().join("ci"))?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    require(!sandbox.work().join("ci").exists(), || {
        "the replay left the directory behind".to_owned()
    })?;
    // A run that lies beside what is missing, in the very directory that has to be rebuilt.
    let here = elsewhere(sandbox, ["unpack", "run.refrain", "-o", "ci-run"]);
    sandbox.run(&here)?.expect_status(0)?;
    let ended = sandbox
        .run(&elsewhere(sandbox, ["replay", "./ci-run", "--times", "5"]))?
        .expect_status(0)?;
    require(ended.stderr_text().contains("replayed 5 of 5 identically"), || {
        ended.told("expected five of five")
    })
}

fn changed_and_missing_libraries(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let unpacked = travel(sandbox, &recorded)?;
    let library = sandbox.work().join("libqueue.so");
    let whole = fs::read(&library)?;
    sandbox.note("printf x > libqueue.so");
    fs::write(&library, "x")?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    remove(sandbox, &library)?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    sandbox.note("mkdir libqueue.so");
    fs::create_dir(&library)?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    fs::remove_dir(&library)?;
    sandbox.note("ln -s nowhere libqueue.so");
    std::os::unix::fs::symlink("nowhere", &library)?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    fs::remove_file(&library)?;
    fs::write(&library, whole)?;
    Ok(())
}

fn in_place(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let unpacked = travel(sandbox, &recorded)?;
    unpacked.check_replay(sandbox, 5, 0, LIMIT)?;
    // All files are where they were: a namespace is not needed, so it does not matter that there is none.
    without_namespaces(sandbox, &unpacked)?.expect_status(0)?;
    Ok(())
}

fn packed_again(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let unpacked = travel(sandbox, &recorded)?;
    let program = sandbox.work().join(guest.name());
    remove(sandbox, &program)?;
    let line = elsewhere(sandbox, ["pack", "-o", "again.refrain"]);
    sandbox.run(&line)?.expect_status(0)?;
    remove(sandbox, &unpacked.directory)?;
    let line = elsewhere(sandbox, ["unpack", "again.refrain", "-o", "again"]);
    sandbox.run(&line)?.expect_status(0)?;
    let again = Recorded {
        directory: sandbox.work().join("again"),
        ended: unpacked.ended,
    };
    again.check_replay(sandbox, 5, 0, LIMIT)
}

/// Another stack limit makes the kernel place libraries elsewhere, as another kernel may: the replay says so.
fn other_addresses(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let unpacked = travel(sandbox, &recorded)?;
    let refrain = tool::refrain().or_else(failed)?;
    let line = sandbox
        .other("sh", ["-c", "ulimit -s 1000000 && exec \"$@\"", "sh"])
        .arg(refrain)
        .arg("replay")
        .arg(&unpacked.directory)
        .within(LIMIT);
    let ended = sandbox.run(&line)?;
    if ended.stderr_text().contains("ulimit") && ended.status == 2 {
        return skipped("the stack limit cannot be raised here");
    }
    // The run has the limit that it was recorded with.
    ended.expect_status(0)?;
    // As a run of a version that did not write it down.
    let meta = unpacked.directory.join("run.json");
    let text = without_checksum(&fs::read_to_string(&meta)?);
    let without: Vec<&str> = text.lines().filter(|line| !line.contains("\"stack_limit\"")).collect();
    sandbox.note(format!("sed -i /stack_limit/d {}", meta.display()));
    fs::write(&meta, without.join("\n"))?;
    let ended = sandbox.run(&line)?.expect_status(1)?;
    require(
        ended.stderr_text().contains("when the run was recorded, and lies at"),
        || ended.told("it does not say that addresses are different"),
    )?;
    unpacked.check_replay(sandbox, 1, 0, LIMIT)
}

/// Recorded with the runtime on a tmpfs, replayed from a disk. The kernel places long mappings of the two differently.
fn other_file_system(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let disk = SmallDisk::mount(sandbox, "64m")?;
    let runtime = tool::refrain().or_else(failed)?.with_file_name("librefrain_runtime.so");
    let moved = disk.path().join("librefrain_runtime.so");
    sandbox.note(format!("cp {} {}", runtime.display(), moved.display()));
    fs::copy(&runtime, &moved)?;
    let directory = sandbox.work().join("run");
    let line = sandbox
        .refrain(["record", "-o", "run", "--"])
        .arg(&program)
        .var("LD_LIBRARY_PATH", disk.path());
    let ended = sandbox.run(&line)?.expect_status(0)?;
    let unpacked = travel(sandbox, &Recorded { directory, ended })?;
    let json = unpacked.info(sandbox)?.to_string();
    require(json.contains(&moved.display().to_string()), || {
        "the runtime was not taken from the other file system".to_owned()
    })?;
    drop(disk);
    unpacked.check_replay(sandbox, 5, 0, LIMIT)
}

fn what_cannot_be_packed(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let library = sandbox.work().join("libqueue.so");
    remove(sandbox, &library)?;
    let packed = pack(sandbox, &recorded)?;
    require(packed.stderr_text().contains("libqueue.so"), || {
        packed.told("it does not say what is missing")
    })?;
    let line = elsewhere(sandbox, ["unpack", "run.refrain", "-o", "unpacked"]);
    sandbox.run(&line)?.expect_status(0)?;
    let info = sandbox
        .run(&elsewhere(sandbox, ["info", "./unpacked"]))?
        .expect_status(0)?;
    let told = info.stdout_text();
    require(told.contains("libqueue.so") && !told.contains("self-contained"), || {
        info.told("it does not say that a library is missing")
    })?;
    sandbox
        .run(&elsewhere(sandbox, ["replay", "./unpacked"]))?
        .expect_refusal(&["libqueue.so"])?;

    // The archive is never overwritten.
    let taken = sandbox.refrain(["pack", "-o", "run.refrain"]).arg(&recorded.directory);
    sandbox.run(&taken)?.expect_refusal(&["run.refrain"])?;
    let program = sandbox.work().join(guest.name());
    remove(sandbox, &program)?;
    let line = sandbox.refrain(["pack", "-o", "none.refrain"]).arg(&recorded.directory);
    let ended = sandbox.run(&line)?.expect_status(3)?;
    ended.expect_refusal(&[&guest.name()])?;
    require(!sandbox.work().join("none.refrain").exists(), || {
        "half an archive was left".to_owned()
    })
}

fn damaged_copy(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let unpacked = travel(sandbox, &recorded)?;
    remove(sandbox, &sandbox.work().join(guest.name()))?;
    let copy = unpacked.directory.join("packed-0");
    let whole = fs::read(&copy)?;
    sandbox.note(format!("printf x >> {}", copy.display()));
    fs::write(&copy, [&whole[..], b"x"].concat())?;
    let replay = |words: &[&str]| sandbox.run(&elsewhere(sandbox, ["replay"]))?.expect_refusal(words);
    replay(&["packed-0"])?;
    fs::write(&copy, &whole)?;
    let manifest = unpacked.directory.join("packed.json");
    let json = fs::read_to_string(&manifest)?;
    for wrong in [
        "",
        "{}",
        "[]",
        &json[..json.len() / 2],
        &json.replace("files/0", "../x"),
    ] {
        sandbox.note(format!("# {} was damaged", manifest.display()));
        fs::write(&manifest, wrong)?;
        replay(&["packed.json"])?;
    }
    fs::write(&manifest, json)?;
    unpacked.check_replay(sandbox, 1, 0, LIMIT)
}

/// Replays where the kernel refuses namespaces: without the right to mount, and in a changed root directory, where it gives
/// nobody a user namespace. Needs root to get there; only this process and its children are concerned.
fn without_namespaces(sandbox: &Sandbox, run: &Recorded) -> Checked<Ended> {
    let script = "mount --make-rprivate / && mount --rbind / \"$0\" && \
                  exec chroot \"$0\" setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"";
    let root = sandbox.work().join("root");
    fs::create_dir_all(&root)?;
    let inside = |command: &[&OsStr]| {
        let line = sandbox.other("unshare", ["--mount", "sh", "-c", script]).arg(&root);
        sandbox.run(&line.args(command).within(LIMIT))
    };
    if inside(&[OsStr::new("true")])?.status != 0 {
        return skipped("only root can take the right to mount away");
    }
    let refrain = tool::refrain().or_else(failed)?;
    inside(&[refrain.as_os_str(), OsStr::new("replay"), run.directory.as_os_str()])
}

fn namespaces_refused(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    let unpacked = travel(sandbox, &recorded)?;
    remove(sandbox, &sandbox.work().join(guest.name()))?;
    let ended = without_namespaces(sandbox, &unpacked)?.expect_status(3)?;
    ended.expect_refusal(&[&guest.name(), "user namespaces", "sysctl"])?;
    unpacked.check_replay(sandbox, 1, 0, LIMIT)
}

/// Names in a directory that begin like those of unfinished runs.
fn unfinished_in(folder: &Path) -> Checked<Vec<String>> {
    let mut names = Vec::new();
    if folder.exists() {
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.starts_with(".refrain-unpack-").then_some(name));
        }
    }
    Ok(names)
}

fn unpacking_killed(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    // Something to be busy with when the signal comes.
    fs::write(recorded.directory.join("stderr"), vec![7; 200 << 20])?;
    pack(sandbox, &recorded)?;
    let store = other_store(sandbox);
    let line = elsewhere(sandbox, ["unpack", "run.refrain"]);
    sandbox.note(format!("{} &   # killed while it writes", line.typed()));
    let mut child = line.spawn()?;
    let start = Instant::now();
    while unfinished_in(&store)?.is_empty() {
        require(start.elapsed() < LIMIT, || "nothing was ever unpacked".to_owned())?;
        thread::sleep(Duration::from_millis(1));
    }
    kill_group(child.id());
    child.wait()?;
    require(!unfinished_in(&store)?.is_empty(), || {
        "it had finished before it was killed".to_owned()
    })?;
    let list = sandbox.run(&elsewhere(sandbox, ["ls", "--json"]))?.expect_status(0)?;
    require(parsed(&list)? == json!([]), || list.told("half a run is listed"))?;
    sandbox.run(&line)?.expect_status(0)?;
    let left = unfinished_in(&store)?;
    require(left.is_empty(), || format!("{left:?} was not removed"))?;
    let list = sandbox.run(&elsewhere(sandbox, ["ls", "--json"]))?.expect_status(0)?;
    require(parsed(&list)?.as_array().is_some_and(|runs| runs.len() == 1), || {
        list.told("expected one run")
    })
}

/// A member of a hand-made archive.
#[derive(Clone)]
struct Member {
    name: String,
    kind: u8,
    mode: u32,
    /// What the header says, whatever there is.
    bytes: u64,
    link: String,
    content: Vec<u8>,
}

impl Member {
    fn file(name: &str, mode: u32, content: &[u8]) -> Member {
        Member {
            name: name.to_owned(),
            kind: b'0',
            mode,
            bytes: content.len() as u64,
            link: String::new(),
            content: content.to_owned(),
        }
    }

    /// As any tar writes it.
    fn encode(&self) -> Vec<u8> {
        let mut header = [0; BLOCK_BYTES];
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        put(0, self.name.as_bytes());
        put(100, format!("{:07o}", self.mode).as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{:011o}", self.bytes).as_bytes());
        put(136, b"00000000000");
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, self.link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&self.content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }
}

/// An archive with any manifest and members, and with hashes that fit the manifest.
fn forged(manifest: &Value, members: &[Member]) -> Vec<u8> {
    let json = manifest.to_string();
    let hash = blake3::hash(json.as_bytes()).to_hex();
    let stamp = format!("refrain pack 1\nmanifest {hash} {}\n", json.len());
    let mut archive = Member::file("refrain-pack", 0o644, stamp.as_bytes()).encode();
    archive.extend(Member::file("manifest.json", 0o644, json.as_bytes()).encode());
    members.iter().for_each(|member| archive.extend(member.encode()));
    archive.extend([0; 2 * BLOCK_BYTES]);
    archive
}

/// The manifest and the members of a good archive.
fn taken_apart(archive: &[u8]) -> Checked<(Value, Vec<Member>)> {
    let mut members = Vec::new();
    let mut rest = archive;
    while rest.len() >= BLOCK_BYTES && rest[0] != 0 {
        let text = |from: usize, to: usize| {
            let field = rest[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(field).into_owned()
        };
        let number = |from, to| u64::from_str_radix(&text(from, to), 8).unwrap_or(0);
        let (bytes, mode) = (number(124, 136) as usize, number(100, 108) as u32);
        members.push(Member::file(
            &text(0, 100),
            mode,
            &rest[BLOCK_BYTES..BLOCK_BYTES + bytes],
        ));
        rest = &rest[BLOCK_BYTES + bytes.next_multiple_of(BLOCK_BYTES)..];
    }
    let manifest = members.iter().find(|member| member.name == "manifest.json");
    let manifest = manifest.and_then(|member| serde_json::from_slice(&member.content).ok());
    let Some(manifest) = manifest else {
        return failed("the archive has no manifest");
    };
    Ok((manifest, members.split_off(2)))
}

fn hostile_archives(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = good_run(sandbox, guest)?;
    pack(sandbox, &recorded)?;
    let (manifest, members) = taken_apart(&fs::read(sandbox.work().join("run.refrain"))?)?;
    // That the forger knows the format is shown by one that is good.
    fs::write(sandbox.work().join("forged.refrain"), forged(&manifest, &members))?;
    let line = elsewhere(sandbox, ["unpack", "forged.refrain", "-o", "forged"]);
    sandbox.run(&line)?.expect_status(0)?;
    remove(sandbox, &sandbox.work().join("forged"))?;

    let mut hostile: Vec<(String, Vec<u8>)> = Vec::new();
    let last = members.len() - 1;
    for name in [
        "../x",
        "run/../../x",
        "/tmp/refrain-hostile-x",
        "files/../../x",
        "run/sub/x",
        "run/x",
        "",
    ] {
        for index in [0, last] {
            let (mut manifest, mut members) = (manifest.clone(), members.clone());
            manifest["entries"][index]["path"] = json!(name);
            members[index].name = name.to_owned();
            hostile.push((
                format!("member {index} is called '{name}'"),
                forged(&manifest, &members),
            ));
        }
    }
    for (kind, what) in [
        (b'2', "a symbolic link"),
        (b'1', "a link"),
        (b'3', "a device"),
        (b'5', "a directory"),
        (b'x', "an extension"),
    ] {
        let mut members = members.clone();
        (members[1].kind, members[1].link) = (kind, "/etc/passwd".to_owned());
        hostile.push((format!("a member is {what}"), forged(&manifest, &members)));
        let mut more = members.clone();
        more[1].kind = b'0';
        more[1].link = String::new();
        let extra = Member {
            kind,
            link: "..".to_owned(),
            ..Member::file("run/escape", 0o777, b"")
        };
        more.insert(1, extra);
        hostile.push((format!("there is also {what}"), forged(&manifest, &more)));
    }
    for bytes in [1_u64 << 24, 1 << 40, u64::MAX, u64::MAX - 511] {
        let mut long = manifest.clone();
        long["entries"][1]["bytes"] = json!(bytes);
        hostile.push((format!("a file of {bytes} bytes"), forged(&long, &members)));
        long["entries"][1]["stored"] = json!(bytes);
        let mut longer = members.clone();
        longer[1].bytes = bytes.min((1 << 33) - 1);
        hostile.push((format!("a member of {bytes} bytes"), forged(&long, &longer)));
    }
    let (mut twice, mut members_twice) = (manifest.clone(), members.clone());
    let again = twice["entries"][1].clone();
    twice["entries"]
        .as_array_mut()
        .into_iter()
        .for_each(|entries| entries.insert(1, again.clone()));
    members_twice.insert(1, members[1].clone());
    hostile.push(("a name twice".to_owned(), forged(&twice, &members_twice)));
    let mut other = members.clone();
    other[1].content = vec![b'x'; other[1].content.len()];
    hostile.push(("another content".to_owned(), forged(&manifest, &other)));
    let mut newer = forged(&manifest, &members);
    newer[BLOCK_BYTES..BLOCK_BYTES + 14].copy_from_slice(b"refrain pack 9");
    hostile.push(("a newer version".to_owned(), newer));
    let whole = forged(&manifest, &members);
    for kept in [
        0,
        1,
        511,
        512,
        700,
        1024,
        4096,
        whole.len() / 2,
        whole.len() - 1024,
        whole.len() - 1,
    ] {
        hostile.push((format!("the first {kept} bytes"), whole[..kept].to_owned()));
    }

    let before = everything_in(sandbox.work())?;
    for (what, archive) in hostile {
        sandbox.note(format!("# hostile.refrain: {what}"));
        fs::write(sandbox.work().join("hostile.refrain"), archive)?;
        for place in [&[][..], &["-o", "unpacked"]] {
            let line = elsewhere(sandbox, ["unpack", "hostile.refrain"]).args(place);
            let ended = sandbox.run(&line)?;
            require(ended.status == 3, || {
                ended.told(&format!("expected exit status 3: {what}"))
            })?;
            ended.expect_refusal(&["hostile.refrain"])?;
        }
        fs::remove_file(sandbox.work().join("hostile.refrain"))?;
        let after = everything_in(sandbox.work())?;
        // A link `latest` that leads nowhere is taken away meanwhile.
        let is_clean = after.iter().all(|path| before.contains(path));
        require(is_clean && !Path::new("/tmp/refrain-hostile-x").exists(), || {
            format!("{what}: something is left behind: {after:?}")
        })?;
    }
    Ok(())
}

/// All paths below a folder, but for the empty store that an attempt may leave.
fn everything_in(folder: &Path) -> Checked<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(everything_in(&path)?);
        }
        if path.file_name() != Some(OsStr::new("elsewhere")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
