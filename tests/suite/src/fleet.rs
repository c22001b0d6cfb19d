//! A fleet, as its clients and its operator have it: what is sent, what is not, what waits, and what is said if a server, token, build or store is wrong.
use crate::Checked;
use crate::Problem;
use crate::command::Ended;
use crate::command::Line;
use crate::command::kill_group;
use crate::failed;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const STARTS_WITHIN: Duration = Duration::from_secs(60);
const TOKEN: &str = "a-token-of-this-test";

pub fn trials() -> Vec<Trial> {
    vec![
        trial("fleet/help", help),
        trial("fleet/wrong_token", wrong_token),
        trial("fleet/wrong_address", wrong_address),
        trial("fleet/wrong_build", wrong_build),
        trial("fleet/newer_store", newer_store),
        trial("fleet/logs_wait_for_the_server", logs_wait_for_the_server),
        trial("fleet/nothing_leaves_unasked", nothing_leaves_unasked),
        trial("fleet/what_nobody_shares_is_left_out", what_nobody_shares_is_left_out),
        trial("fleet/inputs_alone", inputs_alone),
        trial("fleet/what_is_not_chosen_is_perturbed", what_is_not_chosen_is_perturbed),
        trial(
            "fleet/whole_runs_have_the_same_vectors",
            whole_runs_have_the_same_vectors,
        ),
        trial("fleet/failures_are_told_apart", failures_are_told_apart),
        trial("fleet/all_stand_still_in_a_creation", all_stand_still_in_a_creation),
    ]
}

/// A server in a process of its own, killed at the latest with this.
pub struct Server {
    address: SocketAddr,
    store: PathBuf,
    token_file: PathBuf,
    child: Option<Child>,
}

impl Server {
    pub fn start(sandbox: &Sandbox) -> Checked<Server> {
        let mut server = Server::prepare(sandbox)?;
        server.run(sandbox)?;
        Ok(server)
    }

    /// One that is not running yet, at an address that nobody has.
    pub fn prepare(sandbox: &Sandbox) -> Checked<Server> {
        let refrain = tool::refrain().map_err(Problem::Failed)?;
        if !refrain.with_file_name("refrain-fleet").is_file() {
            return skipped("there is no refrain-fleet beside the tool: cargo build --release -p fleet");
        }
        let token_file = sandbox.write("token", &format!("{TOKEN}\n"))?;
        fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600))?;
        // Free now, and nobody else looks for one at this moment but other tests, who get others.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        Ok(Server {
            address,
            store: sandbox.work().join("store"),
            token_file,
            child: None,
        })
    }

    pub fn run(&mut self, sandbox: &Sandbox) -> Checked {
        let line = sandbox
            .refrain(["fleet", "serve", "--store"])
            .arg(&self.store)
            .args(["--listen", &self.address.to_string(), "--token-file"])
            .arg(&self.token_file);
        sandbox.note(format!("{} &", line.typed()));
        let mut child = line.spawn()?;
        // It writes a line for each request.
        for stream in [
            child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
            child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
        ] {
            thread::spawn(move || stream.map(|mut stream| io::copy(&mut stream, &mut io::sink())));
        }
        self.child = Some(child);
        let start = Instant::now();
        while !self.is_healthy() {
            require(start.elapsed() < STARTS_WITHIN, || {
                "the server does not start".to_owned()
            })?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn is_healthy(&self) -> bool {
        let ask = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(stream, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// As `kill -9` does.
    pub fn kill(&mut self, sandbox: &Sandbox) {
        if let Some(mut child) = self.child.take() {
            sandbox.note("kill -9 %1");
            kill_group(child.id());
            // It was killed.
            let _ = child.wait();
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A command of the fleet for this server.
    pub fn line(&self, sandbox: &Sandbox, arguments: &[&str]) -> Line {
        self.reached_by(sandbox.refrain(["fleet"]).args(arguments))
    }

    /// With what it takes to reach the server.
    pub fn reached_by(&self, line: Line) -> Line {
        line.var("REFRAIN_FLEET_URL", self.url())
            .var("REFRAIN_FLEET_TOKEN_FILE", &self.token_file)
    }

    pub fn ask(&self, sandbox: &Sandbox, arguments: &[&str]) -> Checked<Value> {
        let ended = sandbox.run(&self.line(sandbox, arguments).arg("--json"))?;
        json(&ended.expect_status(0)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_group(child.id());
            // It was killed.
            let _ = child.wait();
        }
    }
}

pub fn json(ended: &Ended) -> Checked<Value> {
    serde_json::from_slice(&ended.stdout).or_else(|error| failed(ended.told(&format!("not JSON: {error}"))))
}

/// A guest of `tests/guests/bugs`, built.
pub fn build(sandbox: &Sandbox, name: &str) -> Checked<PathBuf> {
    let guests = Guest::all_in(&tool::guests().join("bugs")).map_err(Problem::Failed)?;
    match guests.into_iter().find(|guest| guest.name() == name) {
        Some(guest) => guest.build(sandbox, &[]),
        None => failed(format!("there is no guest {name}")),
    }
}

/// Runs the program, which is recorded by coop; whether it fails is not looked at.
fn record(sandbox: &Sandbox, program: &Path, flags: &[&str]) -> Checked<Ended> {
    let line = sandbox
        .refrain(["record", "--method", "coop"])
        .args(flags)
        .arg("--")
        .arg(program);
    sandbox.run(&line)
}

fn help(sandbox: &Sandbox) -> Checked {
    Server::prepare(sandbox)?;
    let ended = sandbox.run(&sandbox.refrain(["fleet", "--help"]))?.expect_status(0)?;
    let text = ended.stdout_text();
    for word in ["serve", "upload", "merge", "fetch", "Examples:"] {
        require(text.contains(word), || {
            ended.told(&format!("expected {word} in the help"))
        })?;
    }
    let ended = sandbox
        .run(&sandbox.refrain(["fleet", "upload", "--help"]))?
        .expect_status(0)?;
    require(ended.stdout_text().contains("Usage: refrain fleet upload"), || {
        ended.told("the help names another command than was typed")
    })?;
    sandbox.run(&sandbox.refrain(["fleet", "nonsense"]))?.expect_status(2)?;
    Ok(())
}

fn wrong_token(sandbox: &Sandbox) -> Checked {
    let server = Server::start(sandbox)?;
    let other = sandbox.write("other", "another-token-entirely\n")?;
    let line = server.line(sandbox, &["bugs", "--token-file"]).arg(&other);
    sandbox.run(&line)?.expect_status(3)?.expect_refusal(&["token"])?;
    let line = server.line(sandbox, &["bugs", "--token-file", "no-such-file"]);
    sandbox
        .run(&line)?
        .expect_status(3)?
        .expect_refusal(&["no-such-file"])?;
    Ok(())
}

fn wrong_address(sandbox: &Sandbox) -> Checked {
    let server = Server::prepare(sandbox)?;
    let line = server.line(sandbox, &["bugs"]);
    sandbox
        .run(&line)?
        .expect_status(3)?
        .expect_refusal(&[&server.url(), "refrain fleet serve"])?;
    let line = server.line(sandbox, &["bugs", "--to", "ftp://x"]);
    sandbox
        .run(&line)?
        .expect_status(3)?
        .expect_refusal(&["ftp://x", "http://"])?;
    // Somebody who speaks HTTP, and is no server of ours.
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = stranger.local_addr()?;
    thread::spawn(move || {
        for mut stream in stranger.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    let line = server.line(sandbox, &["bugs", "--to", &format!("http://{address}")]);
    sandbox
        .run(&line)?
        .expect_status(3)?
        .expect_refusal(&["not a server of a fleet"])?;
    Ok(())
}

fn wrong_build(sandbox: &Sandbox) -> Checked {
    let server = Server::start(sandbox)?;
    let line = server.line(sandbox, &["add-build", "/bin/true"]);
    sandbox.run(&line)?.expect_refusal(&["/bin/true"])?;
    let line = server.line(sandbox, &["merge", "0000"]);
    sandbox.run(&line)?.expect_status(3)?.expect_refusal(&["0000"])?;
    // A log of a program that nobody has registered cannot be merged.
    let program = build(sandbox, "account")?;
    record(
        sandbox,
        &program,
        &["--share", "100%", "--chaos", "--until-failure=400"],
    )?;
    server.ask(sandbox, &["upload"])?;
    let bugs = server.ask(sandbox, &["bugs"])?;
    let bug = bugs[0]["id"].as_str().unwrap_or_default().to_owned();
    let line = server.line(sandbox, &["merge", &bug]);
    sandbox.run(&line)?.expect_status(3)?.expect_refusal(&["add-build"])?;
    Ok(())
}

fn newer_store(sandbox: &Sandbox) -> Checked {
    let mut server = Server::start(sandbox)?;
    server.kill(sandbox);
    let path = server.store.join("STORE");
    let text = fs::read_to_string(&path)?;
    let newer = text.trim_end().strip_suffix('1').map(|head| format!("{head}99\n"));
    let Some(newer) = newer else {
        return failed(format!("{} has {text:?}", path.display()));
    };
    fs::write(&path, newer)?;
    let line = sandbox
        .refrain(["fleet", "serve", "--listen", "127.0.0.1:0", "--store"])
        .arg(&server.store)
        .arg("--token-file")
        .arg(&server.token_file);
    sandbox
        .run(&line)?
        .expect_status(3)?
        .expect_refusal(&["version", "newer Refrain"])?;
    Ok(())
}

fn logs_wait_for_the_server(sandbox: &Sandbox) -> Checked {
    let mut server = Server::prepare(sandbox)?;
    let program = build(sandbox, "account")?;
    let line = sandbox
        .refrain(["record", "--method", "coop", "--upload", "--"])
        .arg(&program);
    let ended = sandbox.run(&server.reached_by(line))?;
    // The program's status is what counts.
    require([0, 134].contains(&ended.status), || {
        ended.told("expected the program's status")
    })?;
    require(ended.stderr_text().contains("waits on the disk"), || {
        ended.told("expected to be told that a log waits")
    })?;
    let queued = server.line(sandbox, &["upload", "--queued"]);
    sandbox
        .run(&queued)?
        .expect_status(3)?
        .expect_refusal(&["1 log waits"])?;
    server.run(sandbox)?;
    let sent = server.ask(sandbox, &["upload", "--queued"])?;
    require(sent["accepted"] == 1 && sent["waiting"] == 0, || format!("sent {sent}"))?;
    let again = server.ask(sandbox, &["upload"])?;
    require(again["accepted"] == 0 && again["known"] == 1, || {
        format!("sent {again}")
    })
}

/// No argument, path, variable or value of a client's is in what is sent, unless it says so.
fn nothing_leaves_unasked(sandbox: &Sandbox) -> Checked {
    const MARKERS: [&str; 4] = ["marker-argument", "marker-variable", "marker-content", "marker-folder"];
    let server = Server::prepare(sandbox)?;
    let source = sandbox.write(
        "reads.c",
        "#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n#include <pthread.h>\n\
         static char shared[256];\n\
         static void *body(void *path) { FILE *f = fopen(path, \"r\"); if (f) { fgets(shared, sizeof shared, f); fclose(f); } return 0; }\n\
         int main(int n, char **v) { char line[64]; fgets(line, sizeof line, stdin); pthread_t t; pthread_create(&t, 0, body, v[2]); pthread_join(t, 0);\n\
         fprintf(stderr, \"%s %s %s\", v[1], getenv(\"SECRET\"), shared); return 7; }\n",
    )?;
    let line = sandbox
        .refrain(["cc", "-g", "-O1", "-pthread", "-o", "reads"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let content = sandbox.write("marker-folder/file", "marker-content\n")?;
    // Not changed since the run began.
    thread::sleep(Duration::from_millis(1100));
    let line = sandbox
        .refrain([
            "record",
            "--method",
            "coop",
            "--share",
            "100%",
            "--",
            "./reads",
            "marker-argument",
        ])
        .arg(&content)
        .var("SECRET", "marker-variable");
    let ended = sandbox.run(&line)?;
    require(ended.status == 7, || ended.told("expected the program's status"))?;
    // They wait, since there is no server: these are the bytes that would be sent.
    sandbox.run(&server.line(sandbox, &["upload"]))?.expect_status(3)?;
    let waiting = queued(sandbox)?;
    require(waiting.len() == 1, || format!("{} files wait", waiting.len()))?;
    for marker in MARKERS {
        require(!holds(&waiting[0], marker), || format!("{marker} is in what is sent"))?;
    }
    sandbox
        .run(&server.line(sandbox, &["upload", "--with-inputs"]))?
        .expect_status(3)?;
    let waiting = queued(sandbox)?;
    require(waiting.len() == 2, || format!("{} files wait", waiting.len()))?;
    for marker in MARKERS {
        let count = waiting.iter().filter(|bytes| holds(bytes, marker)).count();
        require(count == 1, || {
            format!("{marker} is in {count} files that were asked for")
        })?;
    }
    Ok(())
}

fn queued(sandbox: &Sandbox) -> Checked<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for server in fs::read_dir(sandbox.runs().join("fleet/queue"))? {
        for file in fs::read_dir(server?.path())? {
            files.push(fs::read(file?.path())?);
        }
    }
    Ok(files)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The server tells clients which elements are worth recording, and the next recording leaves the others out.
fn what_nobody_shares_is_left_out(sandbox: &Sandbox) -> Checked {
    let server = Server::start(sandbox)?;
    let source = sandbox.write(
        "alone.c",
        // What others might name is observed, though it is written only before there are threads.
        "#include <pthread.h>\nvolatile int mine, limit;\nstatic volatile int together;\n\
         static volatile struct { long used; } own[2];\n\
         static void *body(void *n) { if (together < limit) together++; own[(long)n].used++; return n; }\n\
         int main(void) { pthread_t t[2]; limit = 9; for (int i = 0; i < 5; i++) mine++;\n\
         for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, body, (void *)(long)i);\n\
         for (int i = 0; i < 2; i++) pthread_join(t[i], 0); return mine != 5; }\n",
    )?;
    let line = sandbox
        .refrain(["cc", "-g", "-O1", "-pthread", "-o", "alone"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let program = sandbox.work().join("alone");
    let chosen = || -> Checked<u64> {
        record(sandbox, &program, &["--share", "100%"])?.expect_status(0)?;
        let ended = sandbox
            .run(&sandbox.refrain(["fleet", "show", "--json"]))?
            .expect_status(0)?;
        Ok(json(&ended)?["elements"].as_array().map_or(0, Vec::len) as u64)
    };
    let before = chosen()?;
    let ended = sandbox
        .run(&sandbox.refrain(["fleet", "show", "--json"]))?
        .expect_status(0)?;
    let log = json(&ended)?;
    // Five times a load and a store, and a last look.
    let is_mine = |element: &Value| element["turns"] == serde_json::json!([["T", 11]]);
    require(log["elements"].as_array().into_iter().flatten().any(is_mine), || {
        format!("no element has 11 accesses of the first thread's: {log}")
    })?;
    let line = sandbox.refrain(["fleet", "upload"]);
    // As many as it takes until the server is sure.
    for pattern in 0..24 {
        record(
            sandbox,
            &program,
            &["--share", "100%", "--pattern", &pattern.to_string()],
        )?
        .expect_status(0)?;
        sandbox.run(&server.reached_by(line.clone()))?.expect_status(0)?;
    }
    // The one of the first thread, the one that is only read while there are others, and the one of which each has its own.
    let after = chosen()?;
    require(after + 3 <= before && after > 0, || {
        format!("{before} elements were recorded before the advice, {after} after it")
    })
}

/// A failure that needs perturbation comes whichever elements are recorded.
fn what_is_not_chosen_is_perturbed(sandbox: &Sandbox) -> Checked {
    let source = tool::guests().join("demo_heisenbug.c");
    let line = sandbox
        .refrain(["cc", "--coop", "-O2", "-g", "-pthread", "-o", "heisenbug"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    for pattern in 0..8u32 {
        let line = sandbox.refrain(["record", "--method", "coop", "--share", "25%"]);
        let line = line.args(["--pattern", &pattern.to_string()]);
        let line = line.args([
            &format!("--chaos={}", pattern + 1),
            "--until-failure=400",
            "--",
            "./heisenbug",
        ]);
        sandbox.run(&line)?.expect_status(134)?;
    }
    Ok(())
}

/// A run of which only inputs were recorded is a log without elements.
fn inputs_alone(sandbox: &Sandbox) -> Checked {
    Server::prepare(sandbox)?;
    let program = build(sandbox, "account")?;
    let line = sandbox.refrain(["record", "--scope", "inputs", "--"]).arg(&program);
    sandbox.run(&line)?;
    let ended = sandbox
        .run(&sandbox.refrain(["fleet", "show", "--json"]))?
        .expect_status(0)?;
    let log = json(&ended)?;
    require(log["elements"].as_array().is_some_and(Vec::is_empty), || {
        format!("the log is {log}")
    })?;
    Ok(())
}

/// What is recorded whole is made vectors by a replay: the same that a client has who records vectors of all elements.
fn whole_runs_have_the_same_vectors(sandbox: &Sandbox) -> Checked {
    Server::prepare(sandbox)?;
    let source = sandbox.write("in_turns.c", IN_TURNS)?;
    let line = sandbox
        .refrain(["cc", "-O2", "-g", "-pthread", "-o", "in_turns"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let recorded = |flags: &[&str]| -> Checked<Value> {
        let line = sandbox.refrain(["record"]).args(flags).args(["--", "./in_turns"]);
        sandbox.run(&line)?.expect_status(134)?;
        let ended = sandbox
            .run(&sandbox.refrain(["fleet", "show", "--json"]))?
            .expect_status(0)?;
        json(&ended)
    };
    let hashes = |log: &Value| -> BTreeMap<u64, String> {
        let elements = log["elements"].as_array().into_iter().flatten();
        let hash = |element: &Value| (element["element"].as_u64().unwrap_or(0), element["hash"].to_string());
        elements.map(hash).collect()
    };
    let vectors = recorded(&["--method", "coop", "--share", "100%"])?;
    let (light, leap, sync) = (
        recorded(&[])?,
        recorded(&["--method", "leap"])?,
        recorded(&["--scope", "sync"])?,
    );
    let mut expected = hashes(&vectors);
    // Memory without a name is in no log of a run that was recorded whole.
    expected.remove(&1);
    require(expected.len() == 13 && hashes(&light) == expected, || {
        format!("coop has {vectors}, light {light}")
    })?;
    require(hashes(&leap) == expected, || format!("coop has {vectors}, leap {leap}"))?;
    // The lock, the condition, the semaphores, the lock for readers and the barrier.
    let locks = hashes(&sync);
    require(
        locks.len() == 5 && locks.iter().all(|(id, hash)| expected.get(id) == Some(hash)),
        || format!("coop has {vectors}, light at scope sync {sync}"),
    )?;
    for log in [&light, &leap, &sync] {
        require(
            log["failure"] == vectors["failure"] && log["inputs_digest"] == vectors["inputs_digest"],
            || format!("{log} is not of the failure of {vectors}"),
        )?;
    }
    Ok(())
}

/// Threads take turns, so that all runs are one; all kinds of elements are in it.
const IN_TURNS: &str = "\
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct node {
    int key, value;
    struct node *next;
};
static int count, table[16];
static char name[32];
static _Atomic int turns;
static struct node *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t go[2];

static void work(int me) {
    for (int i = 0; i < 16; i++)
        table[i] += me + i;
    struct node *node = malloc(sizeof *node);
    node->key = me;
    node->value = count++;
    node->next = list;
    list = node;
    pthread_mutex_lock(&lock);
    strcpy(name, me ? \"one\" : \"zero\");
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_rwlock_rdlock(&readers);
    turns += table[3];
    pthread_rwlock_unlock(&readers);
}

static void *body(void *argument) {
    long me = (long)argument;
    for (int round = 0; round < 3; round++) {
        sem_wait(&go[me]);
        work(me);
        sem_post(&go[!me]);
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    sem_init(&go[0], 0, 1);
    sem_init(&go[1], 0, 0);
    pthread_barrier_init(&barrier, 0, 1);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, body, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    int sum = 0;
    for (struct node *node = list; node; node = node->next)
        sum += node->value;
    pthread_barrier_wait(&barrier);
    assert(sum != 15);
}
";

/// libc allocates memory for the thread that it creates, and whoever creates it waits for a turn there, for a thread that waits for the one that is created. That is found out at
/// once, and the vector gives way.
fn all_stand_still_in_a_creation(sandbox: &Sandbox) -> Checked {
    Server::prepare(sandbox)?;
    let source = sandbox.write(
        "creates.c",
        "#include <pthread.h>\n#include <semaphore.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         static sem_t go;\nstatic int waits;\nstatic void *volatile block;\n\
         static void *first(void *n) { if (waits) sem_wait(&go); block = malloc(4096); memset(block, 1, 4096); return n; }\n\
         static void *second(void *n) { if (waits) sem_post(&go); return n; }\n\
         int main(void) {\n\
         pthread_t threads[2]; waits = access(\"waits\", F_OK) == 0; sem_init(&go, 0, 0);\n\
         pthread_create(&threads[0], 0, first, 0); if (!waits) pthread_join(threads[0], 0);\n\
         pthread_create(&threads[1], 0, second, 0); if (waits) pthread_join(threads[0], 0);\n\
         pthread_join(threads[1], 0); abort(); }\n",
    )?;
    let line = sandbox
        .refrain(["cc", "-g", "-O1", "-pthread", "-o", "creates"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let line = sandbox.refrain(["record", "--method", "coop", "--share", "100%", "--", "./creates"]);
    sandbox.run(&line)?.expect_status(134)?;
    // In the recorded order the first thread was over before there was a second one.
    sandbox.write("waits", "")?;
    let attempts = ["fleet", "try", "--attempts", "3", "--attempt-timeout", "5", "--json"];
    let ended = sandbox.run(&sandbox.refrain(attempts))?.expect_status(0)?;
    require(json(&ended)?["same"] == 3, || {
        ended.told("an attempt stood still until its time was over")
    })
}

/// The same failure has the same signature in every run, and in an attempt; another one has another. There are no addresses and paths in it.
fn failures_are_told_apart(sandbox: &Sandbox) -> Checked {
    Server::prepare(sandbox)?;
    let source = sandbox.write(
        "fails.cpp",
        "#include <cassert>\n#include <cstdlib>\n#include <mutex>\n#include <thread>\n\
         namespace shop {\nstatic volatile int stock;\nstatic int *volatile shelf = nullptr;\nstatic std::mutex lock;\n\
         struct Clerk {\n  __attribute__((noinline)) void take(int n) { std::lock_guard held(lock); stock++; if (n == 3) *shelf = n; }\n\
           __attribute__((noinline)) void check(int n) { assert(n < 3); }\n};\n\
         __attribute__((noinline)) static void work(int how) { Clerk clerk; for (int n = 0; n < 5; n++) if (how) clerk.check(n); else clerk.take(n); }\n}\n\
         int main(int n, char **) { std::thread a(shop::work, n > 1), b(shop::work, n > 1); a.join(); b.join(); }\n",
    )?;
    let line = sandbox
        .refrain(["c++", "-std=c++20", "-g", "-O2", "-pthread", "-o", "fails"])
        .arg(&source);
    sandbox.run(&line)?.expect_status(0)?;
    let failure = |arguments: &[&str], status: i32| -> Checked<Value> {
        let line = sandbox.refrain(["record", "--method", "coop", "--share", "100%", "--", "./fails"]);
        sandbox.run(&line.args(arguments))?.expect_status(status)?;
        let ended = sandbox
            .run(&sandbox.refrain(["fleet", "show", "--json"]))?
            .expect_status(0)?;
        Ok(json(&ended)?["failure"].clone())
    };
    let functions = |failure: &Value| -> Vec<String> {
        let frames = failure["frames"].as_array().into_iter().flatten();
        let name = |frame: &Value| {
            frame
                .as_str()
                .unwrap_or_default()
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        frames.map(name).collect()
    };
    let (crashed, asserted) = (failure(&[], 139)?, failure(&["x"], 134)?);
    for (failure, innermost) in [(&crashed, "shop::Clerk::take"), (&asserted, "shop::Clerk::check")] {
        let functions = functions(failure);
        let is_right = functions.starts_with(&[innermost.to_owned(), "shop::work".to_owned()]);
        require(is_right, || format!("expected {innermost} in shop::work: {failure}"))?;
        require(!failure.to_string().contains('/'), || format!("a path is in {failure}"))?;
    }
    require(asserted["text"] == "assertion: n < 3", || {
        format!("the text is of {asserted}")
    })?;
    for _ in 0..5 {
        let again = failure(&["x"], 134)?;
        require(again == asserted, || format!("{again} is not {asserted}"))?;
    }
    let ended = sandbox
        .run(&sandbox.refrain(["fleet", "try", "--attempts", "5", "--json"]))?
        .expect_status(0)?;
    require(json(&ended)?["same"] == 5, || ended.told("an attempt failed otherwise"))
}
