//! The file `pauses`: behind which inputs threads go on as late as they can. Text, one to a line:
//!
//! ```text
//! behind 10.3425     thread 10 has had 3425 inputs of the order
//! like 10.3425       there, and wherever a thread has the same inputs before it and the same one next
//! ```
use run_model::LateResume;
use run_model::ThreadIndex;
use std::fmt::Write;

/// Runs that are kept have it under this name: late resumes were called pauses once.
pub const FILE_NAME: &str = "pauses";
/// More than anybody would look for.
const LATE_RESUMES_MAX: usize = 1 << 16;

pub fn encode(late_resumes: &[LateResume]) -> String {
    let mut text = String::new();
    for resume in late_resumes {
        let how = if resume.alike { "like" } else { "behind" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{how} {}.{}", resume.thread.0, resume.inputs);
    }
    text
}

/// The number of the first line that is none; it is counted from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLateResume(pub usize);

pub fn decode(bytes: &[u8]) -> Result<Vec<LateResume>, NoLateResume> {
    let text = std::str::from_utf8(bytes).map_err(|_| NoLateResume(1))?;
    let mut late_resumes = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let resume = parse(line).filter(|_| late_resumes.len() < LATE_RESUMES_MAX);
        late_resumes.push(resume.ok_or(NoLateResume(number))?);
    }
    Ok(late_resumes)
}

fn parse(line: &str) -> Option<LateResume> {
    let (how, place) = line.split_once(' ')?;
    let (thread, inputs) = place.split_once('.')?;
    Some(LateResume {
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
        let resume = |thread, inputs, alike| LateResume {
            thread: ThreadIndex(thread),
            inputs,
            alike,
        };
        let late_resumes = vec![resume(0, 1, false), resume(10, u64::MAX, true)];
        assert_eq!(encode(&late_resumes), "behind 0.1\nlike 10.18446744073709551615\n");
        assert_eq!(decode(encode(&late_resumes).as_bytes()), Ok(late_resumes));
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
            assert_eq!(decode(text.as_bytes()), Err(NoLateResume(line)), "{text}");
        }
        assert_eq!(decode(&[0xff]), Err(NoLateResume(1)));
        assert_eq!(
            decode("behind 1.2\n".repeat(LATE_RESUMES_MAX + 1).as_bytes()),
            Err(NoLateResume(LATE_RESUMES_MAX + 1))
        );
    }
}
