//! A server for the tests, in a process of its own: `serve STORE TOKEN-FILE [SETTING=NUMBER...]`. Its address is the first line on standard output.
//!
//! Its programs are texts: `element ID KIND NAME FILE LINE` says which elements they have, `fails-with ID HASH` that an attempt fails with
//! `abort` in `main` as soon as element ID is given the vector of that hash, and not otherwise.
use collector::AttemptAnswer;
use collector::AttemptRequest;
use collector::Attempts;
use collector::ElementInfo;
use collector::Limits;
use collector::Options;
use collector::Server;
use collector::Tls;
use collector::hex;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::Outcome;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

struct Texts;

impl Attempts for Texts {
    fn elements(&self, program: &Path) -> Result<Vec<ElementInfo>, String> {
        let text = fs::read_to_string(program).map_err(|e| e.to_string())?;
        let mut elements = Vec::new();
        for line in text.lines() {
            if let ["element", id, kind, name, file, number] = line.split_whitespace().collect::<Vec<_>>()[..] {
                elements.push(ElementInfo {
                    id: id.parse().map_err(|_| "an element has a number".to_owned())?,
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                    file: file.to_owned(),
                    line: number.parse().unwrap_or_default(),
                    sites: 1,
                });
            }
        }
        match elements.is_empty() {
            true => Err("this program has no elements; build it with refrain cc".to_owned()),
            false => Ok(elements),
        }
    }

    fn attempt(&self, request: &AttemptRequest<'_>) -> Result<AttemptAnswer, String> {
        let text = fs::read_to_string(request.program).map_err(|e| e.to_string())?;
        let fails = text.lines().any(|line| {
            let ["fails-with", id, hash] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return false;
            };
            let given = request.vectors.get(&ElementId(id.parse().unwrap_or_default()));
            given.is_some_and(|(vector, _)| hex(&vector.hash().0) == hash)
        });
        let run = request.output.join("run");
        fs::write(&run, "the merged run").map_err(|e| e.to_string())?;
        let failure = fails.then(|| Failure {
            outcome: Outcome::Signal(6),
            frames: vec!["main".to_owned()],
            text: String::new(),
        });
        Ok(AttemptAnswer {
            outcome: if fails { Outcome::Signal(6) } else { Outcome::Exit(0) },
            failure,
            is_stuck: false,
            let_go: Vec::new(),
            blamed: Vec::new(),
            run: fails.then_some(run),
        })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [store, token_file, settings @ ..] = &words[..] else {
        eprintln!("usage: serve STORE TOKEN-FILE [SETTING=VALUE...]");
        return ExitCode::from(2);
    };
    let mut options = Options {
        store: store.into(),
        listen: ([127, 0, 0, 1], 0).into(),
        token_file: token_file.into(),
        tls: None,
        allows_plain_remote: false,
        limits: Limits {
            requests_burst: 1_000_000,
            requests_per_second: 1_000_000,
            ..Limits::default()
        },
    };
    for setting in settings {
        set(&mut options, setting);
    }
    let served = Server::open(options, Arc::new(Texts)).and_then(|server| {
        println!("{}", server.address());
        _ = std::io::stdout().flush();
        server.run()
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}

fn set(options: &mut Options, setting: &str) {
    let (name, value) = setting.split_once('=').expect("SETTING=VALUE");
    let number = || value.parse::<u64>().expect("a number");
    let limits = &mut options.limits;
    match name {
        "listen" => options.listen = value.parse().expect("an address"),
        "tls" => {
            let (certificate, key) = value.split_once(',').expect("two files");
            options.tls = Some(Tls {
                certificate: certificate.into(),
                key: key.into(),
            });
        }
        "burst" => limits.requests_burst = number() as u32,
        "per-second" => limits.requests_per_second = number() as u32,
        "logs" => limits.token_logs_max = number(),
        "bytes" => limits.token_bytes_max = number(),
        "unregistered" => limits.token_unregistered_logs_max = number(),
        "bugs" => limits.project_bugs_max = number(),
        "batch-bytes" => limits.batch_bytes_max = number() as usize,
        "batch-logs" => limits.batch_logs_max = number() as usize,
        "head-ms" => limits.head_timeout = Duration::from_millis(number()),
        "body-ms" => limits.body_timeout = Duration::from_millis(number()),
        _ => panic!("there is no setting {name}"),
    }
}
