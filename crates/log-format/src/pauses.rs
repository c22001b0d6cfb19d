//! The file `pauses`: behind which inputs threads go on as late as they can. Text, one to a line:
//!
//! ```text
//! behind 10.3425     thread 10 has had 3425 inputs of the order
//! like 10.3425       there, and wherever a thread has the same inputs before it and the same one next
//! ```
use run_model::Pause;
use run_model::ThreadIndex;
use std::fmt::Write;

pub const FILE_NAME: &str = "pauses";
/// More than anybody would look for.
const PAUSES_MAX: usize = 1 << 16;

pub fn encode(pauses: &[Pause]) -> String {
    let mut text = String::new();
    for pause in pauses {
        let how = if pause.alike { "like" } else { "behind" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{how} {}.{}", pause.thread.0, pause.inputs);
    }
    text
}

/// The number of the first line that is none; it is counted from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPause(pub usize);

pub fn decode(bytes: &[u8]) -> Result<Vec<Pause>, NoPause> {
    let text = std::str::from_utf8(bytes).map_err(|_| NoPause(1))?;
    let mut pauses = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let pause = parse(line).filter(|_| pauses.len() < PAUSES_MAX);
        pauses.push(pause.ok_or(NoPause(number))?);
    }
    Ok(pauses)
}

fn parse(line: &str) -> Option<Pause> {
    let (how, place) = line.split_once(' ')?;
    let (thread, inputs) = place.split_once('.')?;
    Some(Pause {
        thread: ThreadIndex(thread.parse().ok()?),
        inputs: inputs.parse().ok()?,
        alike: match how {
            "like" => true,
            "behind" => false,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let pause = |thread, inputs, alike| Pause {
            thread: ThreadIndex(thread),
            inputs,
            alike,
        };
        let pauses = vec![pause(0, 1, false), pause(10, u64::MAX, true)];
        assert_eq!(encode(&pauses), "behind 0.1\nlike 10.18446744073709551615\n");
        assert_eq!(decode(encode(&pauses).as_bytes()), Ok(pauses));
        assert_eq!(decode(b""), Ok(vec![]));
    }

    #[test]
    fn lines_that_are_none_are_named() {
        for (text, line) in [
            ("behind 1.2\nafter 1.2\n", 2),
            ("behind 1\n", 1),
            ("behind 1.-2\n", 1),
            ("like 1.2 3\n", 1),
            ("\n", 1),
        ] {
            assert_eq!(decode(text.as_bytes()), Err(NoPause(line)), "{text}");
        }
        assert_eq!(decode(&[0xff]), Err(NoPause(1)));
        assert_eq!(
            decode("behind 1.2\n".repeat(PAUSES_MAX + 1).as_bytes()),
            Err(NoPause(PAUSES_MAX + 1))
        );
    }
}
