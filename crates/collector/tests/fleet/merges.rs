//! Merges, by the server and by a client. Programs are those of `examples/serve.rs`.
use crate::api::until;
use crate::logs::batch;
use crate::logs::failing;
use crate::logs::passing;
use crate::logs::vector;
use crate::server::ALL;
use crate::server::OTHER;
use crate::server::Scratch;
use crate::server::Server;
use collector::hex;
use partial_logs::PartialLog;
use serde_json::Value;
use serde_json::json;

/// Fails as soon as element 2 gets the vector of five turns.
fn program() -> Vec<u8> {
    let text = "element 1 variable count a.c 3\nelement 2 field queue.head b.c 9\nelement 3 lock mutex a.c 1\n";
    format!("{text}fails-with 2 {}\n", hex(&vector(5).hash().0)).into_bytes()
}

/// Failing runs agree in element 2 and in nothing else; nobody recorded all three.
fn logs(build: [u8; 32]) -> Vec<PartialLog> {
    let failing = (0..12).map(|n| match n % 3 {
        0 => failing(build, &[(1, 10 + n), (2, 5)]),
        1 => failing(build, &[(2, 5), (3, 30 + n)]),
        _ => failing(build, &[(1, 10 + n), (3, 30 + n)]),
    });
    let passing = (0..12).map(|n| passing(build, &[(1, 10 + n), (2, 6 + n % 3)]));
    failing.chain(passing).collect()
}

/// The bug.
fn uploaded(server: &Server, program: &[u8], logs: &[PartialLog]) -> String {
    let path = format!("/api/v1/builds/{}", blake3::hash(program));
    assert_eq!(server.ask("PUT", ALL, &path, program).status, 200);
    let answer = server.ask("POST", ALL, "/api/v1/logs", &batch(logs)).json();
    assert!(
        answer["logs"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["status"] == "accepted")),
        "{answer}"
    );
    answer["logs"][0]["bug"].as_str().expect("a bug").to_owned()
}

fn send_inputs(server: &Server, log: &PartialLog) {
    let archive = b"inputs";
    let path = format!(
        "/api/v1/logs/{}/inputs?blake3={}",
        blake3::hash(&log.encode()),
        blake3::hash(archive)
    );
    assert_eq!(server.ask("PUT", ALL, &path, archive).status, 200);
}

fn ended(server: &Server, id: &str) -> Value {
    until("the merge ends", || {
        let merge = server.get(ALL, &format!("/api/v1/merges/{id}")).json();
        (merge["state"] != "running").then_some(merge)
    })
}

#[test]
fn a_merge_finds_the_run_and_what_matters() {
    let scratch = Scratch::new("merge");
    let server = Server::start(&scratch, &[]);
    let program = program();
    let logs = logs(*blake3::hash(&program).as_bytes());
    let bug = uploaded(&server, &program, &logs);
    let merges = format!("/api/v1/bugs/{bug}/merges");
    let refused = server.ask("POST", ALL, &merges, b"{}");
    assert_eq!(refused.status, 409);
    assert!(refused.error().contains("--with-inputs"), "{}", refused.error());
    send_inputs(&server, &logs[0]);
    assert_eq!(server.ask("POST", ALL, &merges, b"{\"metric\": 1}").status, 400);
    for metric in ["psim", "dsim", "none"] {
        let wanted = json!({ "metric": metric, "budget": 100 }).to_string();
        let begun = server.ask("POST", ALL, &merges, wanted.as_bytes());
        assert_eq!(begun.status, 202, "{}", begun.text());
        let id = begun.json()["id"].as_str().expect("an id").to_owned();
        let merge = ended(&server, &id);
        assert_eq!(merge["state"], "reproduced", "{merge}");
        assert_eq!(merge["summary"]["reproduced_again"], 5);
        assert_eq!(merge["summary"]["elements_that_matter"], json!([2]));
        let attempts = merge["attempts"].as_array().expect("attempts");
        assert!(
            attempts.iter().any(|attempt| attempt["verdict"] == "reproduced"),
            "{merge}"
        );
        let run = server.get(ALL, &format!("/api/v1/merges/{id}/run"));
        assert_eq!((run.status, run.text().as_str()), (200, "the merged run"));
        assert_eq!(server.get(OTHER, &format!("/api/v1/merges/{id}")).status, 404);
        assert_eq!(server.get(OTHER, &format!("/api/v1/merges/{id}/run")).status, 404);
    }
    let left = std::fs::read_dir(scratch.store().join("attempts"))
        .expect("a folder")
        .count();
    assert_eq!(left, 0);
}

#[test]
fn what_does_not_come_back_uses_its_budget() {
    let scratch = Scratch::new("exhausted");
    let server = Server::start(&scratch, &[]);
    let program = b"element 1 variable count a.c 3\nelement 2 field queue.head b.c 9\nelement 3 lock mutex a.c 1\n";
    let logs = logs(*blake3::hash(program).as_bytes());
    let bug = uploaded(&server, program, &logs);
    send_inputs(&server, &logs[0]);
    let begun = server
        .ask("POST", ALL, &format!("/api/v1/bugs/{bug}/merges"), b"{\"budget\": 7}")
        .json();
    let merge = ended(&server, begun["id"].as_str().expect("an id"));
    assert_eq!(merge["state"], "exhausted");
    assert_eq!(merge["attempts"].as_array().map(Vec::len), Some(7));
    assert_eq!(merge["attempts"][6]["verdict"], "passed");
}

#[test]
fn a_client_tries_what_the_server_cannot() {
    let scratch = Scratch::new("fetch");
    let server = Server::start(&scratch, &[]);
    let program = program();
    let logs = logs(*blake3::hash(&program).as_bytes());
    let bug = uploaded(&server, &program, &logs);
    let telling = hex(&vector(5).hash().0);
    let mut given = server
        .ask(
            "POST",
            ALL,
            &format!("/api/v1/bugs/{bug}/fetches"),
            b"{\"attempts\": 200}",
        )
        .json();
    let id = given["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/fetches/{id}");
    for _ in 0..50 {
        if given["state"] != "running" {
            break;
        }
        let mut verdicts = Vec::new();
        for candidate in given["candidates"].as_array().expect("candidates") {
            let elements = candidate["elements"].as_array().expect("elements");
            for element in elements {
                let bytes = server.get(
                    ALL,
                    &format!("/api/v1/vectors/{}", element["vector"].as_str().expect("a hash")),
                );
                assert_eq!(bytes.status, 200);
            }
            let fails = elements
                .iter()
                .any(|one| one["element"] == 2 && one["vector"] == telling.as_str());
            let verdict = if fails { "reproduced" } else { "passed" };
            verdicts.push(json!({ "number": candidate["number"], "verdict": verdict }));
        }
        let body = json!({ "verdicts": verdicts }).to_string();
        given = server.ask("POST", ALL, &path, body.as_bytes()).json();
    }
    assert_eq!(given["state"], "reproduced", "{given}");
    let merge = ended(&server, &id);
    assert_eq!(
        (&merge["state"], &merge["is_fetch"]),
        (&json!("reproduced"), &json!(true))
    );
    assert_eq!(
        server.ask("POST", ALL, &path, b"{\"verdicts\": []}").json()["state"],
        "over"
    );
    assert_eq!(
        server
            .ask(
                "POST",
                ALL,
                &path,
                b"{\"verdicts\": [{\"number\": 1, \"verdict\": \"maybe\"}]}"
            )
            .status,
        400
    );
}

#[test]
fn merges_are_cancelled_and_say_that_a_server_was_stopped() {
    let scratch = Scratch::new("cancel");
    let server = Server::start(&scratch, &[]);
    let program = program();
    let bug = uploaded(&server, &program, &logs(*blake3::hash(&program).as_bytes()));
    let begin = || {
        let given = server
            .ask("POST", ALL, &format!("/api/v1/bugs/{bug}/fetches"), b"{}")
            .json();
        given["id"].as_str().expect("an id").to_owned()
    };
    let (first, second) = (begin(), begin());
    assert_eq!(
        server
            .ask("DELETE", ALL, &format!("/api/v1/merges/{first}"), &[])
            .json()["cancelled"],
        true
    );
    assert_eq!(ended(&server, &first)["state"], "cancelled");
    server.kill();
    let server = Server::start(&scratch, &[]);
    let merge = server.get(ALL, &format!("/api/v1/merges/{second}")).json();
    assert_eq!(merge["state"], "interrupted");
    assert!(
        merge["said"]
            .as_str()
            .is_some_and(|said| said.contains("start it again"))
    );
}

#[test]
fn what_tells_failing_runs_is_said_in_source_lines() {
    let scratch = Scratch::new("correlation");
    let server = Server::start(&scratch, &[]);
    let program = program();
    let logs = logs(*blake3::hash(&program).as_bytes());
    let bug = uploaded(&server, &program, &logs);
    let told = server.get(ALL, &format!("/api/v1/bugs/{bug}/correlation")).json();
    let first = &told["elements"][0];
    assert_eq!(
        (&first["name"], &first["file"], &first["line"]),
        (&json!("queue.head"), &json!("b.c"), &json!(9))
    );
    assert_eq!(first["failing"], json!([8, 8]));
    assert_eq!(first["passing"], json!([0, 12]));
    assert_eq!(first["importance"], 1.0);
    // Log 0 shares nothing but its vector of element 2, with logs 1, 3, 4, 6, 7, 9 and 10.
    let log = blake3::hash(&logs[0].encode());
    let path = format!("/api/v1/bugs/{bug}/logs/{log}/similars?metric=psim");
    let similars = server.get(ALL, &path).json();
    assert_eq!(similars["similars"].as_array().map(Vec::len), Some(5), "{similars}");
    // More logs are taken in when the question comes again.
    let more: Vec<PartialLog> = (0..5).map(|n| passing(logs[0].build.0, &[(2, 50 + n)])).collect();
    server.ask("POST", ALL, "/api/v1/logs", &batch(&more));
    let told = server.get(ALL, &format!("/api/v1/bugs/{bug}/correlation")).json();
    assert_eq!(told["elements"][0]["passing"], json!([0, 17]));
}
