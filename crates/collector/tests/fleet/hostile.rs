//! Clients that send what nobody sends, too much of it, or too slowly.
use crate::api::build;
use crate::api::register;
use crate::logs::batch;
use crate::logs::bodies;
use crate::logs::failing;
use crate::server::ALL;
use crate::server::OTHER;
use crate::server::Scratch;
use crate::server::Server;
use crate::server::UPLOAD;
use crate::server::receive;
use partial_logs::ElementId;
use partial_logs::PartialLog;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

fn why(server: &Server, body: &[u8]) -> String {
    let answer = server.ask("POST", UPLOAD, "/api/v1/logs", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["logs"][0]["status"], "refused", "{answer}");
    answer["logs"][0]["why"].as_str().expect("a sentence").to_owned()
}

#[test]
fn every_damage_is_refused_and_nothing_of_it_stored() {
    let scratch = Scratch::new("damage");
    let server = Server::start(&scratch, &[]);
    let whole = failing(build(), &[(1, 1), (2, 4)]).encode();
    for end in 0..whole.len() {
        why(&server, &bodies([whole[..end].to_vec()]));
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let answer = server.ask("POST", UPLOAD, "/api/v1/logs", &bodies([bytes]));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let one = |change: &dyn Fn(&mut PartialLog)| {
        let mut log = failing(build(), &[(1, 3)]);
        change(&mut log);
        why(&server, &batch([&log]))
    };
    let recorded = |log: &mut PartialLog, change: &dyn Fn(&mut partial_logs::AccessVector)| {
        let recorded = log.elements.get_mut(&ElementId(1)).expect("it is there");
        change(&mut recorded.vector);
        recorded.hash = recorded.vector.hash();
    };
    assert!(one(&|log| log.elements.get_mut(&ElementId(1)).expect("there").hash.0[0] ^= 1).contains("hash"));
    assert!(one(&|log| recorded(log, &|vector| vector.runs[0].accesses = 0)).contains("no access"));
    assert!(one(&|log| recorded(log, &|vector| vector.runs[1].thread = 0)).contains("continues"));
    assert!(one(&|log| recorded(log, &|vector| vector.runs[0].thread = 9)).contains("turn of thread 9"));
    assert!(one(&|log| recorded(log, &|vector| vector.threads.swap_remove(1).0.clear())).contains("turn of thread 1"));
    assert!(one(&|log| recorded(log, &|vector| vector.threads[1] = vector.threads[0].clone())).contains("same name"));
    assert!(one(&|log| log.outcome = partial_logs::Outcome::Exit(0)).contains("ended otherwise"));
    let long = "x".repeat(5_000);
    assert!(one(&|log| log.failure.as_mut().expect("it failed").text = long.clone()).contains("bytes of text"));
    assert!(why(&server, &bodies([b"hello".to_vec()])).contains("not a partial log"));
    let mut newer = whole.clone();
    newer[8] = 9;
    assert!(why(&server, &bodies([newer])).contains("newer Refrain"));
    // Parts of a batch that is not one.
    for body in [&b"\xff\xff\xff\xff"[..], b"\x01\0\0", b""] {
        assert_eq!(server.ask("POST", UPLOAD, "/api/v1/logs", body).status, 400);
    }
    // One that is right among them is taken.
    let answer = server
        .ask("POST", UPLOAD, "/api/v1/logs", &bodies([b"x".to_vec(), whole]))
        .json();
    assert_eq!(answer["logs"][0]["status"], "refused");
    assert_eq!(answer["logs"][1]["status"], "accepted");
}

#[test]
fn elements_that_a_registered_build_does_not_have_are_refused() {
    let scratch = Scratch::new("elements");
    let server = Server::start(&scratch, &[]);
    register(&server);
    assert!(why(&server, &batch([&failing(build(), &[(4, 1)])])).contains("no element 4"));
}

#[test]
fn each_token_wastes_its_own_quota_only() {
    let scratch = Scratch::new("quotas");
    let server = Server::start(&scratch, &["logs=3", "unregistered=2", "bugs=1"]);
    let logs: Vec<PartialLog> = (1..5).map(|n| failing(build(), &[(1, n)])).collect();
    let answer = server.ask("POST", UPLOAD, "/api/v1/logs", &batch(&logs)).json();
    assert_eq!(answer["logs"][1]["status"], "accepted");
    assert!(
        answer["logs"][2]["why"]
            .as_str()
            .is_some_and(|why| why.contains("not registered")),
        "{answer}"
    );
    register(&server);
    // What was refused did not count, what is there already does not either.
    let answer = server.ask("POST", UPLOAD, "/api/v1/logs", &batch(&logs)).json();
    assert_eq!(answer["logs"][0]["status"], "duplicate");
    assert_eq!(answer["logs"][2]["status"], "accepted");
    assert!(
        answer["logs"][3]["why"]
            .as_str()
            .is_some_and(|why| why.contains("its quota")),
        "{answer}"
    );
    // Another token of the same project has a quota of its own.
    let answer = server.ask("POST", ALL, "/api/v1/logs", &batch(&logs[3..])).json();
    assert_eq!(answer["logs"][0]["status"], "accepted");
    let mut other = failing(build(), &[(1, 9)]);
    other.failure.as_mut().expect("it failed").text = "made up".to_owned();
    let answer = server.ask("POST", ALL, "/api/v1/logs", &batch([&other])).json();
    assert!(
        answer["logs"][0]["why"]
            .as_str()
            .is_some_and(|why| why.contains("1 bugs")),
        "{answer}"
    );
    let answer = server.ask("POST", OTHER, "/api/v1/logs", &batch([&other])).json();
    assert_eq!(answer["logs"][0]["status"], "accepted");

    let scratch = Scratch::new("bytes");
    let server = Server::start(&scratch, &["bytes=1000"]);
    let log = failing(build(), &[(1, 1)]);
    assert_eq!(server.ask("POST", UPLOAD, "/api/v1/logs", &batch([&log])).status, 200);
    let archive = vec![7; 2_000];
    let path = format!(
        "/api/v1/logs/{}/inputs?blake3={}",
        blake3::hash(&log.encode()),
        blake3::hash(&archive)
    );
    let refused = server.ask("PUT", UPLOAD, &path, &archive);
    assert_eq!(refused.status, 403);
    assert!(refused.error().contains("1000 bytes"));
}

#[test]
fn who_asks_too_often_waits() {
    let scratch = Scratch::new("rate");
    let server = Server::start(&scratch, &["burst=5", "per-second=1"]);
    let path = format!("/api/v1/advice/{}", collector::hex(&build()));
    let mut statuses: Vec<u16> = (0..7).map(|_| server.get(UPLOAD, &path).status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[..5], [200; 5]);
    assert_eq!(statuses[6], 429);
    let refused = server.get(UPLOAD, &path);
    assert!(
        refused.head.to_lowercase().contains("retry-after: "),
        "{}",
        refused.head
    );
    assert_eq!(server.get(ALL, "/api/v1/bugs").status, 200);
}

#[test]
fn bodies_are_no_larger_and_no_slower_than_they_may_be() {
    let scratch = Scratch::new("slow");
    let server = Server::start(
        &scratch,
        &["batch-bytes=5000", "batch-logs=3", "head-ms=300", "body-ms=300"],
    );
    let large = server.ask("POST", UPLOAD, "/api/v1/logs", &vec![0; 6_000]);
    assert_eq!(large.status, 413);
    let many = server.ask("POST", UPLOAD, "/api/v1/logs", &bodies(vec![Vec::new(); 4]));
    assert_eq!(many.status, 400);
    assert!(many.error().contains("at most 3 logs"));
    let begin = Instant::now();
    let slow = |text: &str| {
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        stream.write_all(text.as_bytes()).expect("sent");
        receive(&mut stream)
    };
    let head = format!("POST /api/v1/logs HTTP/1.1\r\nHost: fleet\r\nAuthorization: Bearer {UPLOAD}\r\n");
    let answer = slow(&format!("{head}Content-Length: 100\r\n\r\nabc")).expect("an answer");
    assert_eq!(answer.status, 408);
    // A head that does not end has no answer but the end of the connection.
    assert!(slow(&head).is_none_or(|answer| answer.status == 408));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(server.get("", "/health").status, 200);
}

#[test]
fn a_server_that_everybody_could_listen_to_is_not_started() {
    let scratch = Scratch::new("plain");
    let output = scratch.command(&["listen=0.0.0.0:0"]).output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("give a certificate and a key"));
}
