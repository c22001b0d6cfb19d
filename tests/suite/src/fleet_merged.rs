//! A whole fleet: two hundred clients, each a process of its own with a store of its own, record a part each of a failure; the server is killed twice meanwhile;
//! logs are merged where the inputs are, first at a client, then at the server; and the merged run fails the same way, again and again.
use crate::Checked;
use crate::failed;
use crate::fleet::Server;
use crate::fleet::json;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

const CLIENTS: usize = 200;
/// Every so many runs until it passes or fails, as it comes; the others until it fails.
const PASSING_EVERY: usize = 10;
/// So many clients were done when the server was killed.
const KILLED_AFTER: [usize; 2] = [60, 130];
const AT_A_TIME: usize = 2;
/// Longer than a client asks again for: what it has recorded meanwhile waits on its disk.
const AWAY: Duration = Duration::from_millis(2500);
/// What all clients run: updates are lost in most runs. (Two threads add to a sum without a lock, and yield between reading and writing it.)
const PROGRAM: &str = "\
#include <assert.h>
#include <pthread.h>
#include <sched.h>

static volatile int sum, rounds, last;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *add(void *argument) {
    for (int i = 0; i < 2; i++) {
        int read = sum;
        if (i == 1)
            sched_yield();
        sum = read + 1;
        pthread_mutex_lock(&mutex);
        rounds++;
        pthread_mutex_unlock(&mutex);
        last = argument != 0;
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, add, i ? threads : 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    assert(sum == rounds);
    return 0;
}
";
const LIMIT: Duration = Duration::from_secs(300);
/// Of the same logs, until one is as it should be.
const MERGES_MAX: usize = 8;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("fleet/two_hundred_clients", two_hundred_clients),
        trial("fleet/inputs_travel", inputs_travel),
        trial(
            "fleet/a_run_of_another_method_is_a_base",
            a_run_of_another_method_is_a_base,
        ),
    ]
}

fn two_hundred_clients(sandbox: &Sandbox) -> Checked {
    let mut server = Server::start(sandbox)?;
    let source = sandbox.write("lost.c", PROGRAM)?;
    let line = sandbox
        .refrain(["cc", "-g", "-O1", "-pthread", "-o", "lost"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let program = sandbox.work().join("lost");
    server.ask(sandbox, &["add-build", &program.to_string_lossy()])?;
    let runs = record_all(sandbox, &mut server, &program)?;
    send_what_waits(sandbox, &server, &runs)?;
    nothing_is_lost(sandbox, &server, &runs)?;
    let bug = the_bug(sandbox, &server)?;

    // The server has no inputs: it says so, and a client has them.
    let refused = sandbox.run(&server.line(sandbox, &["merge", &bug]))?.expect_status(3)?;
    refused.expect_refusal(&["--with-inputs", "fetch"])?;
    let client = runs.iter().find(|run| has_failed(run)).cloned();
    let Some(client) = client else {
        return failed("no client's run has failed");
    };
    let fetch = [
        "fetch",
        &bug,
        "--json",
        "-o",
        "fetched",
        "--run",
        &client.to_string_lossy(),
    ];
    let ended = sandbox
        .run(&server.line(sandbox, &fetch).within(LIMIT))?
        .expect_status(0)?;
    comes_back(sandbox, &json(&ended)?, "fetched")?;

    // Now it gets those of one client, and tries by itself.
    let upload = ["upload", "--with-inputs", &client.to_string_lossy()];
    server.ask(sandbox, &upload)?;
    let merge = ["merge", &bug, "--json", "-o", "merged"];
    let ended = sandbox
        .run(&server.line(sandbox, &merge).within(LIMIT))?
        .expect_status(0)?;
    comes_back(sandbox, &json(&ended)?, "merged")?;
    sandbox
        .run(&sandbox.refrain(["explain", "./merged"]))?
        .expect_status(0)?;
    Ok(())
}

/// Each client runs the program until it fails, mostly, and sends what it has. The server is killed in between.
fn record_all(sandbox: &Sandbox, server: &mut Server, program: &Path) -> Checked<Vec<PathBuf>> {
    let lines: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let store = sandbox.work().join(format!("client-{client}"));
            let line = sandbox
                .other(
                    &refrain(sandbox),
                    ["record", "--method", "coop", "--share", "40%", "--upload"],
                )
                .args(["--pattern", &(client % 64).to_string()])
                .args((client % PASSING_EVERY != 0).then_some("--until-failure=60"))
                .arg("--")
                .arg(program)
                .var("REFRAIN_DIR", &store);
            (store, server.reached_by(line).within(LIMIT))
        })
        .collect();
    sandbox.note(format!("# {CLIENTS} times, with a store of its own each:"));
    sandbox.note(lines[1].1.typed());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let client = || -> Checked {
        loop {
            // Relaxed: lone numbers.
            let Some((_, line)) = lines.get(next.fetch_add(1, Relaxed)) else {
                return Ok(());
            };
            line.run()?;
            done.fetch_add(1, Relaxed);
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(client)).collect();
        for after in KILLED_AFTER {
            while done.load(Relaxed) < after && !clients.iter().all(|client| client.is_finished()) {
                thread::sleep(Duration::from_millis(5));
            }
            server.kill(sandbox);
            thread::sleep(AWAY);
            server.run(sandbox)?;
        }
        clients.into_iter().try_for_each(|client| match client.join() {
            Ok(checked) => checked,
            Err(_) => failed("a client's thread panicked"),
        })
    })?;
    let mut runs = Vec::new();
    for (store, _) in &lines {
        for entry in fs::read_dir(store)? {
            let path = entry?.path();
            if path.join("run.json").is_file() && !path.is_symlink() {
                runs.push(path);
            }
        }
    }
    require(runs.len() > CLIENTS * 9 / 10, || {
        format!("only {} of {CLIENTS} have a run", runs.len())
    })?;
    Ok(runs)
}

fn refrain(sandbox: &Sandbox) -> String {
    sandbox.refrain([""; 0]).program.to_string_lossy().into_owned()
}

/// What was queued while the server was away.
fn send_what_waits(sandbox: &Sandbox, server: &Server, runs: &[PathBuf]) -> Checked {
    let stores: BTreeSet<&Path> = runs.iter().filter_map(|run| run.parent()).collect();
    for store in stores.into_iter().filter(|store| waits(store)) {
        let line = server.line(sandbox, &["upload", "--queued"]).var("REFRAIN_DIR", store);
        sandbox.run(&line)?.expect_status(0)?;
        require(!waits(store), || format!("a log still waits in {}", store.display()))?;
    }
    Ok(())
}

fn waits(store: &Path) -> bool {
    let servers = fs::read_dir(store.join("fleet/queue")).into_iter().flatten().flatten();
    let mut files = servers.flat_map(|server| fs::read_dir(server.path()).into_iter().flatten().flatten());
    files.any(|file| file.path().extension().is_some_and(|extension| extension == "log"))
}

/// The server knows every log already that a client made.
fn nothing_is_lost(sandbox: &Sandbox, server: &Server, runs: &[PathBuf]) -> Checked {
    let line = server.line(sandbox, &["upload", "--json"]).args(runs);
    let ended = line.within(LIMIT).run()?.expect_status(0)?;
    let again = json(&ended)?;
    require(again["accepted"] == 0 && again["waiting"] == 0, || {
        format!("sent again: {again}")
    })?;
    let hashes: BTreeSet<&str> = again["logs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    require(again["known"] == hashes.len(), || {
        format!("of {} logs, {} are known to the server", hashes.len(), again["known"])
    })
}

/// All failures are one: they have the same signature.
fn the_bug(sandbox: &Sandbox, server: &Server) -> Checked<String> {
    let bugs = server.ask(sandbox, &["bugs"])?;
    let bugs = bugs.as_array().cloned().unwrap_or_default();
    let [bug] = bugs.as_slice() else {
        return failed(format!("expected one bug, found {bugs:?}"));
    };
    require(
        bug["text"].as_str().is_some_and(|text| text.contains("sum == rounds")),
        || format!("the bug is {bug}"),
    )?;
    Ok(bug["id"].as_str().unwrap_or_default().to_owned())
}

fn has_failed(run: &Path) -> bool {
    fs::read(run.join("stderr")).is_ok_and(|stderr| !stderr.is_empty())
}

fn comes_back(sandbox: &Sandbox, told: &Value, run: &str) -> Checked {
    require(told["reproduced"] == true, || format!("told {told}"))?;
    let line = sandbox.refrain(["replay", &format!("./{run}"), "--times", "3"]);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    require(ended.stderr_text().contains("Assertion `sum == rounds' failed"), || {
        ended.told("the replay does not fail as the clients' runs did")
    })
}

/// One client has recorded synchronisation alone (light), others parts of everything: the run of the first is completed by the vectors of the others.
fn a_run_of_another_method_is_a_base(sandbox: &Sandbox) -> Checked {
    let server = Server::start(sandbox)?;
    let source = sandbox.write("lost.c", PROGRAM)?;
    let line = sandbox
        .refrain(["cc", "-g", "-O1", "-pthread", "-o", "lost"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    server.ask(sandbox, &["add-build", "lost"])?;
    let failing = |flags: &[&str]| {
        let line = sandbox
            .refrain(["record", "--until-failure=200"])
            .args(flags)
            .args(["--", "./lost"]);
        sandbox.run(&line)?.expect_status(134)
    };
    failing(&["--scope", "sync"])?;
    // Which files were read, such a recording does not note.
    let refused = sandbox
        .run(&server.line(sandbox, &["upload", "--with-inputs"]))?
        .expect_status(3)?;
    refused.expect_refusal(&["--method coop", "Upload it without --with-inputs"])?;
    let sent = server.ask(sandbox, &["upload"])?;
    let base = sent["logs"][0].as_str().unwrap_or_default().to_owned();
    for pattern in 0..8 {
        failing(&["--method", "coop", "--share", "40%", "--pattern", &pattern.to_string()])?;
        server.ask(sandbox, &["upload", "--with-inputs"])?;
    }
    let bug = the_bug(sandbox, &server)?;
    // A candidate that leaves all but the base's elements free may fail by chance, before one that is completed had its turn.
    let mut is_completed = false;
    for nth in 0..MERGES_MAX {
        let output = format!("merged-{nth}");
        let merge = ["merge", &bug, "--base", &base[..12], "--json", "-o", &output];
        let ended = sandbox
            .run(&server.line(sandbox, &merge).within(LIMIT))?
            .expect_status(0)?;
        let told = json(&ended)?;
        comes_back(sandbox, &told, &output)?;
        let candidate = &told["summary"]["candidate"];
        require(candidate["base"] == base.as_str(), || {
            format!("{base} is not what it began with: {candidate}")
        })?;
        let mut elements = candidate["elements"].as_array().into_iter().flatten();
        is_completed = elements.any(|element| element["source"] != "base");
        if is_completed {
            break;
        }
    }
    require(is_completed, || {
        format!("nothing of others was in any of {MERGES_MAX} merged runs")
    })?;
    let wrong = ["merge", &bug, "--base", "0123456789ab"];
    let ended = sandbox.run(&server.line(sandbox, &wrong))?.expect_status(3)?;
    ended.expect_refusal(&["0123456789ab", "refrain fleet logs"])?;
    let wrong = ["fetch", &bug, "--base", "0123456789ab"];
    let ended = sandbox.run(&server.line(sandbox, &wrong))?.expect_status(3)?;
    ended.expect_refusal(&["0123456789ab", "refrain fleet logs"])?;
    Ok(())
}

/// Arguments, variables, standard input and files are at the server as the client had them, and nobody else sees them.
fn inputs_travel(sandbox: &Sandbox) -> Checked {
    let server = Server::start(sandbox)?;
    let source = sandbox.write(
        "given.c",
        "#include <assert.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         static volatile int count;\n\
         static void *body(void *n) { for (int i = 0; i < 3; i++) count++; return n; }\n\
         int main(int n, char **v) {\n\
         char line[64] = \"\", kept[64] = \"\"; fgets(line, sizeof line, stdin); FILE *f = fopen(v[2], \"r\"); if (f) fgets(kept, sizeof kept, f);\n\
         pthread_t t; pthread_create(&t, 0, body, 0); body(0); pthread_join(t, 0);\n\
         assert(strcmp(v[1], \"one argument\") || strcmp(getenv(\"GIVEN\"), \"one variable\") || strcmp(line, \"one line\\n\") || strcmp(kept, \"one file\\n\"));\n\
         return 0; }\n",
    )?;
    let line = sandbox
        .refrain(["cc", "-g", "-O1", "-pthread", "-o", "given"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let kept = sandbox.write("folder/kept", "one file\n")?;
    // Not changed since the run began.
    thread::sleep(Duration::from_millis(1100));
    let recording =
        "echo one line | exec \"$0\" record --method coop --share 100% -- \"$1\" 'one argument' folder/kept";
    let line = sandbox
        .other("sh", ["-c", recording])
        .arg(refrain(sandbox))
        .arg(sandbox.work().join("given"))
        .var("GIVEN", "one variable");
    let ended = sandbox.run(&line)?;
    require(ended.status == 134, || ended.told("expected the assertion to fail"))?;
    server.ask(sandbox, &["add-build", "given"])?;
    server.ask(sandbox, &["upload", "--with-inputs"])?;
    // The server has to have it from the client.
    fs::remove_dir_all(kept.parent().unwrap_or(&kept))?;
    let bugs = server.ask(sandbox, &["bugs"])?;
    let bug = bugs[0]["id"].as_str().unwrap_or_default();
    let merge = ["merge", bug, "--budget", "5", "--json", "-o", "merged"];
    let ended = sandbox
        .run(&server.line(sandbox, &merge).within(LIMIT))?
        .expect_status(0)?;
    require(json(&ended)?["reproduced"] == true, || {
        ended.told("it did not fail with its inputs")
    })?;
    require(!kept.exists(), || {
        "a file of the client's was left on the server's machine".to_owned()
    })?;
    sandbox
        .run(&sandbox.refrain(["replay", "./merged"]))?
        .expect_status(0)?;
    Ok(())
}
