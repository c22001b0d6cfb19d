//! What is asked, and what is answered.
use crate::logs::batch;
use crate::logs::failing;
use crate::logs::passing;
use crate::server::ALL;
use crate::server::OTHER;
use crate::server::Scratch;
use crate::server::Server;
use crate::server::UPLOAD;
use collector::hex;
use partial_logs::ElementId;
use partial_logs::PartialLog;
use serde_json::json;
use std::time::Duration;
use std::time::Instant;

pub const PROGRAM: &[u8] =
    b"element 1 variable count a.c 3\nelement 2 field queue.head b.c 9\nelement 3 lock mutex a.c 1\n";

pub fn build() -> [u8; 32] {
    *blake3::hash(PROGRAM).as_bytes()
}

pub fn register(server: &Server) {
    let path = format!("/api/v1/builds/{}", hex(&build()));
    let answer = server.ask("PUT", ALL, &path, PROGRAM);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["elements"], 3);
}

#[test]
fn health_needs_no_token_and_everything_else_does() {
    let scratch = Scratch::new("health");
    let server = Server::start(&scratch, &[]);
    let health = server.get("", "/health");
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
    assert_eq!(health.json()["store_version"], 1);
    for path in ["/", "/metrics", "/api/v1/bugs", "/nothing"] {
        for token in ["", "everything-in-defaulT", "x"] {
            let refused = server.get(token, path);
            assert_eq!(refused.status, 401, "{path}");
            assert!(refused.head.to_lowercase().contains("www-authenticate: basic"));
            assert!(refused.error().contains("a token of this server is needed"));
        }
    }
    assert_eq!(server.get(UPLOAD, "/api/v1/bugs").status, 403);
    assert_eq!(server.get(ALL, "/nothing").status, 404);
    assert_eq!(server.ask("DELETE", ALL, "/api/v1/bugs", &[]).status, 405);
    let metrics = server.get(ALL, "/metrics").text();
    assert!(metrics.contains("refrain_fleet_unauthorized_total 12\n"), "{metrics}");
    assert_eq!(server.stop(), Some(0));
}

/// The beginning of an id is enough where nothing else begins so.
#[test]
fn bugs_are_found_by_the_beginning_of_their_ids() {
    let scratch = Scratch::new("beginnings");
    let server = Server::start(&scratch, &[]);
    // More than there are hexadecimal digits: two of them begin in the same way.
    let failures = (0..17).map(|nth| {
        let mut log = failing(build(), &[(1, nth)]);
        log.failure.as_mut().expect("it failed").text = format!("failure {nth}");
        log
    });
    let failures: Vec<PartialLog> = failures.collect();
    assert_eq!(
        server.ask("POST", UPLOAD, "/api/v1/logs", &batch(&failures)).status,
        200
    );
    let bugs = server.get(ALL, "/api/v1/bugs").json();
    let mut ids: Vec<&str> = bugs["bugs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|bug| bug["id"].as_str())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 17);
    let shared = |one: &str, other: &str| {
        one.bytes()
            .zip(other.bytes())
            .take_while(|(one, other)| one == other)
            .count()
    };
    let alike = ids
        .windows(2)
        .max_by_key(|pair| shared(pair[0], pair[1]))
        .expect("there are two");
    let common = shared(alike[0], alike[1]);
    let asked = |beginning: &str| server.get(ALL, &format!("/api/v1/bugs/{beginning}"));
    assert_eq!(asked(&alike[0][..=common]).json()["id"], alike[0]);
    assert_eq!(asked(&alike[1][..=common]).json()["id"], alike[1]);
    let ambiguous = asked(&alike[0][..common]);
    assert_eq!(ambiguous.status, 404);
    assert!(
        ambiguous.json()["error"]
            .as_str()
            .is_some_and(|error| error.contains("more than one bug"))
    );
    assert_eq!(server.get(OTHER, &format!("/api/v1/bugs/{}", alike[0])).status, 404);
}

#[test]
fn logs_become_bugs() {
    let scratch = Scratch::new("bugs");
    let server = Server::start(&scratch, &[]);
    register(&server);
    let mut other_failure = failing(build(), &[(1, 2)]);
    other_failure.failure.as_mut().expect("it failed").text = "queue is empty".to_owned();
    let logs = [
        failing(build(), &[(1, 1), (2, 4)]),
        failing(build(), &[(1, 1), (3, 5)]),
        other_failure,
        passing(build(), &[(1, 0)]),
    ];
    let answer = server.ask("POST", UPLOAD, "/api/v1/logs", &batch(&logs)).json();
    let of = |at: usize, what: &str| answer["logs"][at][what].clone();
    assert!((0..4).all(|at| of(at, "status") == "accepted"), "{answer}");
    assert_eq!(of(0, "bug"), of(1, "bug"));
    assert_ne!(of(0, "bug"), of(2, "bug"));
    assert!(of(3, "bug").is_null());
    // Sent again, they are the same.
    let again = server.ask("POST", ALL, "/api/v1/logs", &batch(&logs)).json();
    assert!((0..4).all(|at| again["logs"][at]["status"] == "duplicate"), "{again}");
    assert_eq!(again["logs"][0]["bug"], of(0, "bug"));

    let bugs = server.get(ALL, "/api/v1/bugs").json();
    assert_eq!(bugs["bugs"].as_array().map(Vec::len), Some(2));
    assert_eq!(bugs["bugs"][0]["id"], of(0, "bug"));
    assert_eq!(bugs["bugs"][0]["logs"], 2);
    assert_eq!(bugs["bugs"][0]["outcome"], json!({ "signal": 6 }));
    assert_eq!(bugs["bugs"][1]["text"], "queue is empty");
    assert_eq!(server.get(OTHER, "/api/v1/bugs").json()["bugs"], json!([]));

    let id = of(0, "bug").as_str().expect("an id").to_owned();
    let bug = server.get(ALL, &format!("/api/v1/bugs/{id}")).json();
    assert_eq!(bug["passing_logs"], 1);
    assert_eq!(bug["elements"][0]["name"], "count");
    assert_eq!(bug["elements"][0]["logs"], 4);
    assert_eq!(server.get(OTHER, &format!("/api/v1/bugs/{id}")).status, 404);
    let listed = server.get(ALL, &format!("/api/v1/bugs/{id}/logs")).json();
    assert_eq!(listed["logs"].as_array().map(Vec::len), Some(2));
    assert_eq!(listed["logs"][0]["hash"], of(0, "hash"));

    let vector = crate::logs::vector(4);
    let path = format!("/api/v1/vectors/{}", hex(&vector.hash().0));
    assert_eq!(server.get(ALL, &path).body, vector.encode());
    assert_eq!(server.get(OTHER, &path).status, 404);
    // Everything is there after a restart.
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&scratch, &[]);
    assert_eq!(server.get(ALL, "/api/v1/bugs").json(), bugs);
    assert_eq!(server.get(ALL, &path).body, vector.encode());
}

#[test]
fn clients_learn_whose_order_does_not_matter() {
    let scratch = Scratch::new("advice");
    let server = Server::start(&scratch, &[]);
    // Element 1 is used once, by one thread; elements 2 and 3 by two, of which none changes what another one uses of 3.
    let log = |n: u64| {
        let mut log = passing(build(), &[(1, 0), (2, n + 1), (3, n + 1)]);
        if let Some(read) = log.elements.get_mut(&ElementId(3)) {
            read.has_conflict = false;
        }
        log
    };
    let logs: Vec<_> = (0..3).map(log).collect();
    server.ask("POST", UPLOAD, "/api/v1/logs", &batch(&logs));
    let path = format!("/api/v1/advice/{}", hex(&build()));
    let advice = server.get(UPLOAD, &format!("{path}?logs=3")).json();
    let expected = json!({ "never_shared": [1], "without_conflict": [3], "costs": { "1": 1, "2": 6, "3": 6 } });
    assert_eq!(advice, expected);
    // Three logs are too few for anybody to rely on.
    let advice = server.get(UPLOAD, &path).json();
    assert_eq!(
        (&advice["never_shared"], &advice["without_conflict"]),
        (&json!([]), &json!([]))
    );
    // One in which somebody does is enough.
    server.ask("POST", UPLOAD, "/api/v1/logs", &batch(&[passing(build(), &[(3, 9)])]));
    assert_eq!(
        server.get(UPLOAD, &format!("{path}?logs=3")).json()["without_conflict"],
        json!([])
    );
}

#[test]
fn only_what_is_what_it_says_is_kept() {
    let scratch = Scratch::new("hashes");
    let server = Server::start(&scratch, &[]);
    let path = format!("/api/v1/builds/{}", hex(&[9; 32]));
    assert_eq!(server.ask("PUT", ALL, &path, PROGRAM).status, 400);
    assert_eq!(server.ask("PUT", UPLOAD, &path, PROGRAM).status, 403);
    assert_eq!(server.ask("PUT", ALL, "/api/v1/builds/xyz", PROGRAM).status, 400);
    let path = format!("/api/v1/builds/{}", hex(blake3::hash(b"text").as_bytes()));
    let refused = server.ask("PUT", ALL, &path, b"text");
    assert_eq!(refused.status, 422);
    assert!(refused.error().contains("build it with refrain cc"));
    assert_eq!(server.get(ALL, "/api/v1/builds").json()["builds"], json!([]));

    let log = failing(build(), &[(1, 1)]);
    let hash = blake3::hash(&log.encode());
    let archive = b"an archive";
    let path = |named: &blake3::Hash| format!("/api/v1/logs/{hash}/inputs?blake3={named}");
    let fine = path(&blake3::hash(archive));
    assert_eq!(server.ask("PUT", UPLOAD, &fine, archive).status, 404);
    server.ask("POST", UPLOAD, "/api/v1/logs", &batch([&log]));
    assert_eq!(server.ask("PUT", UPLOAD, &path(&hash), archive).status, 400);
    assert_eq!(server.ask("PUT", UPLOAD, &fine, archive).status, 200);
    assert_eq!(server.ask("PUT", UPLOAD, &fine, archive).status, 200);
    assert_eq!(server.ask("PUT", OTHER, &fine, archive).status, 404);
    let uploads = std::fs::read_dir(scratch.store().join("uploads")).expect("a folder");
    assert_eq!(uploads.count(), 0);
}

/// Asks again and again, for half a minute.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
