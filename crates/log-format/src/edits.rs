//! The file `moves`: where a replay of one thread at a time departs from the order of inputs. Text, a schedule edit to a line:
//!
//! ```text
//! preempt 1.4.2 to 3                         at switch point 2 after its 4th input, thread 1 gives way to thread 3
//! advance 1.4.2 to 3                         the same, and thread 3 goes on as far as it can
//! reverse 1.4.2.5555555580a0.0 after 2.9.0.5555555580a0.1
//!                                            thread 1 stops before an access (address, how many of it before), until after another
//! reverse 1.4.2.5555555580a0.lock after 2.9.1.5555555580a0.lock
//!                                            the same of what threads synchronise on, at these switch points
//! delay 1.4.2.5555555580a0.0                 thread 1 stops before it as long as others can go on
//! ```
use run_model::AccessId;
use run_model::ScheduleEdit;
use run_model::Spot;
use run_model::ThreadIndex;
use std::fmt::Write;

/// Runs that are kept have it under this name: schedule edits were called moves once.
pub const FILE_NAME: &str = "moves";
/// More edits than a search would ever make.
const EDITS_MAX: usize = 1 << 20;
/// Stands for [`AccessId::SYNCHRONISATION`].
const LOCK: &str = "lock";

pub fn encode(edits: &[ScheduleEdit]) -> String {
    let mut text = String::new();
    for made in edits {
        // Writing to a string does not fail.
        let _ = match made {
            ScheduleEdit::Preempt { at, to } => writeln!(text, "preempt {} to {}", spot(at), to.0),
            ScheduleEdit::Advance { at, to } => writeln!(text, "advance {} to {}", spot(at), to.0),
            ScheduleEdit::Reverse { hold, until } => writeln!(text, "reverse {} after {}", access(hold), access(until)),
            ScheduleEdit::Delay { hold } => writeln!(text, "delay {}", access(hold)),
        };
    }
    text
}

fn spot(spot: &Spot) -> String {
    format!("{}.{}.{}", spot.thread.0, spot.calls, spot.nth)
}

fn access(access: &AccessId) -> String {
    let nth = match access.is_synchronisation() {
        true => LOCK.to_owned(),
        false => access.nth.to_string(),
    };
    format!("{}.{:x}.{nth}", spot(&access.block), access.address)
}

/// The number of the first line that is no edit; it is counted from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEdit(pub usize);

pub fn decode(bytes: &[u8]) -> Result<Vec<ScheduleEdit>, NoEdit> {
    let text = std::str::from_utf8(bytes).map_err(|_| NoEdit(1))?;
    let mut edits = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if edits.len() == EDITS_MAX {
            return Err(NoEdit(number));
        }
        edits.push(parse(line).ok_or(NoEdit(number))?);
    }
    Ok(edits)
}

/// One edit.
pub fn parse(line: &str) -> Option<ScheduleEdit> {
    let words: Vec<&str> = line.split(' ').collect();
    Some(match words[..] {
        ["preempt", at, "to", to] => ScheduleEdit::Preempt {
            at: parse_spot(at)?,
            to: ThreadIndex(to.parse().ok()?),
        },
        ["advance", at, "to", to] => ScheduleEdit::Advance {
            at: parse_spot(at)?,
            to: ThreadIndex(to.parse().ok()?),
        },
        ["reverse", hold, "after", until] => ScheduleEdit::Reverse {
            hold: parse_access(hold)?,
            until: parse_access(until)?,
        },
        ["delay", hold] => ScheduleEdit::Delay {
            hold: parse_access(hold)?,
        },
        _ => return None,
    })
}

fn parse_spot(text: &str) -> Option<Spot> {
    let mut numbers = text.split('.');
    let spot = Spot {
        thread: ThreadIndex(numbers.next()?.parse().ok()?),
        calls: numbers.next()?.parse().ok()?,
        nth: numbers.next()?.parse().ok()?,
    };
    numbers.next().is_none().then_some(spot)
}

fn parse_access(text: &str) -> Option<AccessId> {
    let (rest, nth) = text.rsplit_once('.')?;
    let (block, address) = rest.rsplit_once('.')?;
    Some(AccessId {
        block: parse_spot(block)?,
        address: u64::from_str_radix(address, 16).ok()?,
        nth: match nth {
            LOCK => AccessId::SYNCHRONISATION,
            number => number.parse().ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits() -> Vec<ScheduleEdit> {
        let spot = |thread, calls, nth| Spot {
            thread: ThreadIndex(thread),
            calls,
            nth,
        };
        let access = |thread, nth| AccessId {
            block: spot(thread, u64::MAX, 0),
            address: 0x5555_5555_80a0,
            nth,
        };
        vec![
            ScheduleEdit::Preempt {
                at: spot(1, 4, 2),
                to: ThreadIndex(3),
            },
            ScheduleEdit::Reverse {
                hold: access(1, 0),
                until: access(2, 7),
            },
            ScheduleEdit::Reverse {
                hold: access(1, AccessId::SYNCHRONISATION),
                until: access(2, AccessId::SYNCHRONISATION),
            },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(decode(encode(&edits()).as_bytes()), Ok(edits()));
        assert_eq!(decode(b""), Ok(Vec::new()));
    }

    #[test]
    fn other_text_is_refused_by_its_line() {
        let good = encode(&edits());
        for bad in [
            "preempt 1.4 to 3",
            "preempt 1.4.2.5 to 3",
            "preempt 1.4.2 to 3 4",
            "reverse 1.4.2.zz.0 after 1.1.1.1.1",
            "",
            "\u{1}",
        ] {
            let text = format!("{good}{bad}\n");
            assert_eq!(decode(text.as_bytes()), Err(NoEdit(edits().len() + 1)), "{bad:?}");
        }
        assert_eq!(decode(b"\xff"), Err(NoEdit(1)));
    }

    #[test]
    fn every_truncation_is_read_or_refused() {
        let text = encode(&edits());
        for end in 0..text.len() {
            let _ = decode(&text.as_bytes()[..end]);
        }
    }
}
