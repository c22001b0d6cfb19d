//! What was acknowledged is there afterwards, whatever happened to the server.
use crate::api::build;
use crate::logs::batch;
use crate::logs::bodies;
use crate::logs::failing;
use crate::server::ALL;
use crate::server::Scratch;
use crate::server::Server;
use collector::hex;
use partial_logs::PartialLog;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

const KILLS: u64 = 12;
const CLIENTS: usize = 3;

/// Each is different from all others, and so is one of its vectors.
fn log(number: u64) -> PartialLog {
    failing(build(), &[(1, number), (2, number % 7), (3, number % 50)])
}

fn hash(log: &PartialLog) -> String {
    hex(blake3::hash(&log.encode()).as_bytes())
}

#[test]
fn a_server_that_is_killed_has_everything_that_it_acknowledged() {
    let scratch = Scratch::new("kill");
    let settings = ["unregistered=1000000"];
    let next = AtomicU64::new(1);
    let acknowledged = Mutex::new(BTreeSet::new());
    for round in 0..KILLS {
        let server = Server::start(&scratch, &settings);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    loop {
                        // Relaxed: every client takes other numbers.
                        let first = next.fetch_add(4, Relaxed);
                        let logs: Vec<PartialLog> = (first..first + 4).map(log).collect();
                        let Some(answer) = server.try_ask("POST", ALL, "/api/v1/logs", &batch(&logs)) else {
                            return;
                        };
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        let answers = answer.json();
                        assert!(
                            (0..4).all(|at| answers["logs"][at]["status"] == "accepted"),
                            "{answers}"
                        );
                        acknowledged.lock().expect("no client failed").extend(first..first + 4);
                    }
                });
            }
            // Not always at the same moment of what it does.
            thread::sleep(Duration::from_millis(60 + 37 * round % 150));
            server.signal("KILL");
        });
    }
    let acknowledged = acknowledged.into_inner().expect("no client failed");
    assert!(
        acknowledged.len() as u64 > 4 * KILLS,
        "only {} logs in {KILLS} rounds",
        acknowledged.len()
    );
    let server = Server::start(&scratch, &settings);
    let bugs = server.get(ALL, "/api/v1/bugs").json();
    let bug = bugs["bugs"][0]["id"].as_str().expect("a bug").to_owned();
    let mut kept = BTreeSet::new();
    let mut after = 0;
    loop {
        let page = server
            .get(ALL, &format!("/api/v1/bugs/{bug}/logs?after={after}"))
            .json();
        let logs = page["logs"].as_array().expect("logs");
        kept.extend(logs.iter().map(|log| log["hash"].as_str().expect("a hash").to_owned()));
        let Some(next) = page["next_after"].as_i64() else { break };
        after = next;
    }
    let lost: Vec<u64> = acknowledged
        .iter()
        .copied()
        .filter(|number| !kept.contains(&hash(&log(*number))))
        .collect();
    assert!(
        lost.is_empty(),
        "{} of {} are lost: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    // Their vectors are what was sent, and sending logs again changes nothing.
    for number in acknowledged.iter().rev().take(40) {
        for recorded in log(*number).elements.values() {
            let vector = server.get(ALL, &format!("/api/v1/vectors/{}", hex(&recorded.hash.0)));
            assert_eq!(vector.body, recorded.vector.encode());
        }
    }
    let again: Vec<PartialLog> = acknowledged.iter().rev().take(40).map(|number| log(*number)).collect();
    let answers = server.ask("POST", ALL, "/api/v1/logs", &batch(&again)).json();
    assert!(
        (0..again.len()).all(|at| answers["logs"][at]["status"] == "duplicate"),
        "{answers}"
    );
    assert_eq!(bugs["bugs"][0]["logs"].as_u64(), Some(kept.len() as u64));
    println!(
        "{} logs acknowledged before {KILLS} kills, {} kept",
        acknowledged.len(),
        kept.len()
    );
}

#[test]
fn a_full_disk_refuses_uploads_and_keeps_serving() {
    let scratch = Scratch::new("full");
    let mut command = Command::new("bash");
    // No file may grow beyond 600 KiB; that kills nobody, but writing fails.
    command.args(["-c", "trap '' XFSZ; ulimit -f 600; exec \"$0\" \"$@\""]);
    let inner = scratch.command(&["unregistered=1000000"]);
    command.arg(inner.get_program()).args(inner.get_args());
    let server = Server::start_command(&scratch, command);
    let mut accepted = Vec::new();
    let mut refused = None;
    for number in (1..4_000).step_by(10) {
        let logs: Vec<PartialLog> = (number..number + 10).map(log).collect();
        let answer = server.ask("POST", ALL, "/api/v1/logs", &batch(&logs));
        match answer.status {
            200 => accepted.extend(logs),
            _ => {
                refused = Some((answer.status, answer.error(), logs));
                break;
            }
        }
    }
    let (status, sentence, logs) = refused.expect("the disk is full some day");
    assert_eq!(status, 507);
    assert!(sentence.contains("disk is full"), "{sentence}");
    assert_eq!(server.get("", "/health").status, 200);
    let bugs = server.get(ALL, "/api/v1/bugs").json();
    assert_eq!(bugs["bugs"][0]["logs"].as_u64(), Some(accepted.len() as u64));
    let vector = accepted[0].elements.values().next().expect("an element").hash;
    assert_eq!(
        server.get(ALL, &format!("/api/v1/vectors/{}", hex(&vector.0))).status,
        200
    );
    assert!(server.journal().contains("\"event\":\"failed\""));
    assert_eq!(server.stop(), Some(0));
    // With room again, what was refused is taken, and what was accepted is there.
    let server = Server::start(&scratch, &["unregistered=1000000"]);
    let answers = server.ask("POST", ALL, "/api/v1/logs", &batch(&logs)).json();
    assert!(
        (0..logs.len()).all(|at| answers["logs"][at]["status"] == "accepted"),
        "{answers}"
    );
    for chunk in accepted.chunks(500) {
        let answers = server.ask("POST", ALL, "/api/v1/logs", &batch(chunk)).json();
        assert!((0..chunk.len()).all(|at| answers["logs"][at]["status"] == "duplicate"));
    }
}

#[test]
fn other_stores_are_refused_with_a_sentence() {
    let scratch = Scratch::new("versions");
    let refused = || {
        let output = scratch.command(&[]).output().expect("it ends");
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let server = Server::start(&scratch, &[]);
    assert!(refused().contains("in use by another process"));
    server.kill();
    let head = scratch.store().join("STORE");
    fs::write(&head, "refrain fleet store 2\n").expect("written");
    assert!(refused().contains("of version 2; this build reads up to 1"));
    fs::write(&head, "something else").expect("written");
    assert!(refused().contains("not a fleet store"));
    fs::remove_file(&head).expect("removed");
    assert!(refused().contains("not a fleet store"));
    fs::write(&head, "refrain fleet store 1\n").expect("written");
    let server = Server::start(&scratch, &[]);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn nobody_else_can_read_the_store() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("modes");
    let server = Server::start(&scratch, &[]);
    server.ask("POST", ALL, "/api/v1/logs", &bodies([log(1).encode()]));
    let mut folders = vec![scratch.store()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").chain([]) {
            let path = entry.expect("an entry").path();
            let mode = fs::metadata(&path).expect("there").mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen > 8, "{seen}");
    assert_eq!(fs::metadata(scratch.store()).expect("there").mode() & 0o077, 0);
}
