//! Logs as clients send them.
use partial_logs::AccessVector;
use partial_logs::BuildId;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::InputsDigest;
use partial_logs::Outcome;
use partial_logs::PartialLog;
use partial_logs::Pattern;
use partial_logs::RecordedElement;
use partial_logs::ThreadName;

/// A vector of so many turns of two threads, or of one access by one.
pub fn vector(turns: u64) -> AccessVector {
    let name = |turn: u64| ThreadName(vec![(turn % 2) as u32]);
    AccessVector::of_turns((0..=turns).map(|turn| (name(turn), turn + 1)))
}

/// One that failed, with these elements.
pub fn failing(build: [u8; 32], elements: &[(u32, u64)]) -> PartialLog {
    let failure = Failure {
        outcome: Outcome::Signal(6),
        frames: vec!["main".to_owned()],
        text: String::new(),
    };
    PartialLog {
        build: BuildId(build),
        inputs: InputsDigest([7; 32]),
        pattern: Pattern {
            share: 2_500,
            number: 3,
        },
        outcome: Outcome::Signal(6),
        failure: Some(failure),
        elements: elements
            .iter()
            .map(|(id, turns)| (ElementId(*id), recorded(*turns)))
            .collect(),
    }
}

pub fn passing(build: [u8; 32], elements: &[(u32, u64)]) -> PartialLog {
    PartialLog {
        outcome: Outcome::Exit(0),
        failure: None,
        ..failing(build, elements)
    }
}

fn recorded(turns: u64) -> RecordedElement {
    RecordedElement::new(vector(turns), true)
}

/// As the body of one request.
pub fn batch<'a>(logs: impl IntoIterator<Item = &'a PartialLog>) -> Vec<u8> {
    bodies(logs.into_iter().map(PartialLog::encode))
}

pub fn bodies(logs: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut body = Vec::new();
    for log in logs {
        body.extend((log.len() as u32).to_le_bytes());
        body.extend(log);
    }
    body
}
