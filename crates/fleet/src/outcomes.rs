//! How runs ended, as JSON and in words.
use partial_logs::Failure;
use partial_logs::Outcome;
use serde_json::Value;
use serde_json::json;

pub fn outcome_json(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Exit(status) => json!({ "exit": status }),
        Outcome::Signal(signal) => json!({ "signal": signal }),
        Outcome::TimedOut => json!("timed out"),
    }
}

pub fn outcome_of(value: &Value) -> Option<Outcome> {
    let number = |name: &str| value[name].as_u64().and_then(|number| u8::try_from(number).ok());
    match value.as_str() {
        Some("timed out") => Some(Outcome::TimedOut),
        Some(_) => None,
        None => number("exit")
            .map(Outcome::Exit)
            .or(number("signal").map(Outcome::Signal)),
    }
}

pub fn failure_json(failure: &Failure) -> Value {
    json!({
        "outcome": outcome_json(failure.outcome),
        "frames": failure.frames,
        "text": failure.text,
    })
}

pub fn failure_of(value: &Value) -> Option<Failure> {
    let frames = value["frames"].as_array()?.iter();
    let frames: Option<Vec<String>> = frames.map(|frame| frame.as_str().map(str::to_owned)).collect();
    Some(Failure {
        outcome: outcome_of(&value["outcome"])?,
        frames: frames?,
        text: value["text"].as_str()?.to_owned(),
    })
}

/// `signal 11 in transfer, body`
pub fn described(failure: &Failure) -> String {
    let how = match failure.outcome {
        Outcome::Exit(status) => format!("exit status {status}"),
        Outcome::Signal(signal) => format!("signal {signal}"),
        Outcome::TimedOut => "it hung".to_owned(),
    };
    let place = match failure.frames.is_empty() {
        true => String::new(),
        false => format!(" in {}", failure.frames.join(", ")),
    };
    let text = match failure.text.is_empty() {
        true => String::new(),
        false => format!("; {}", failure.text),
    };
    format!("{how}{place}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_come_back_from_json() {
        for outcome in [Outcome::Exit(3), Outcome::Signal(11), Outcome::TimedOut] {
            let failure = Failure {
                outcome,
                frames: vec!["transfer".to_owned()],
                text: "assertion: a == b".to_owned(),
            };
            assert_eq!(failure_of(&failure_json(&failure)), Some(failure));
        }
        assert_eq!(outcome_of(&json!({ "exit": 300 })), None);
        assert_eq!(outcome_of(&json!("gone")), None);
    }
}
