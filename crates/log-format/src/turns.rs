//! The file `turns`: the order of all threads' inputs, for a replay of one thread at a time. The runtime maps it; it is
//! written for each replay, and nobody reads it but the runtime. The layout is `runtime_abi::turns_file`.
use run_model::AccessId;
use run_model::ScheduleEdit;
use run_model::Spot;
use run_model::Turns;
use runtime_abi::turns_file::AccessEntry;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::MAGIC;
use runtime_abi::turns_file::NO_RUN;
use runtime_abi::turns_file::Place;
use runtime_abi::turns_file::SwitchPoint;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;
use runtime_abi::turns_file::TurnsHeader;
use runtime_abi::turns_file::VERSION;
use runtime_abi::turns_file::kind;
use std::mem::size_of;

/// What a replay is to write down.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// From where on, for each thread: the inputs it has had. What is missing is 0.
    pub window: &'a [u64],
    pub points_max: u64,
    pub accesses_max: u64,
}

/// The bytes of the file.
pub fn encode(turns: &Turns, wanted: &Wanted<'_>) -> Vec<u8> {
    let threads = turns.threads as usize;
    let mut file = Vec::with_capacity(
        size_of::<TurnsHeader>()
            + threads * size_of::<ThreadTurns>()
            + turns.runs.len() * size_of::<TurnRun>()
            + turns.edits.len() * size_of::<EditEntry>(),
    );
    file.extend(MAGIC.to_le_bytes());
    file.extend(VERSION.to_le_bytes());
    file.extend(turns.threads.to_le_bytes());
    for number in [
        turns.runs.len() as u64,
        turns.events(),
        turns.edits.len() as u64,
        wanted.points_max,
        wanted.accesses_max,
    ] {
        file.extend(number.to_le_bytes());
    }
    // From the last run to the first: what comes next of each thread.
    let mut next_of = vec![NO_RUN; threads];
    let mut next: Vec<u32> = (0..turns.runs.len() as u32)
        .rev()
        .map(|run| std::mem::replace(&mut next_of[turns.runs[run as usize].thread.0 as usize], run))
        .collect();
    next.reverse();
    for (thread, first) in next_of.into_iter().enumerate() {
        file.extend(first.to_le_bytes());
        file.extend([0; 4]);
        file.extend(wanted.window.get(thread).copied().unwrap_or(0).to_le_bytes());
    }
    for (run, next) in turns.runs.iter().zip(next) {
        for number in [run.thread.0, run.count, next, run.kind as u32] {
            file.extend(number.to_le_bytes());
        }
    }
    for made in &turns.edits {
        let at = |block: Spot| AccessId {
            block,
            ..AccessId::default()
        };
        let (kind, to, at, until) = match *made {
            ScheduleEdit::Preempt { at: spot, to } => (kind::PREEMPT, to, at(spot), AccessId::default()),
            ScheduleEdit::Advance { at: spot, to } => (kind::ADVANCE, to, at(spot), AccessId::default()),
            ScheduleEdit::Reverse { hold, until } => (kind::REVERSE, until.block.thread, hold, until),
            // It waits for what never comes, and goes on when nobody else can.
            ScheduleEdit::Delay { hold } => (kind::REVERSE, hold.block.thread, hold, never(hold)),
        };
        file.extend(kind.to_le_bytes());
        file.extend(to.0.to_le_bytes());
        for place in [at, until] {
            file.extend(place.block.thread.0.to_le_bytes());
            file.extend([0; 4]);
            for number in [place.block.calls, place.block.nth, place.address, place.nth] {
                file.extend(number.to_le_bytes());
            }
        }
    }
    file
}

/// An access that its thread does not make.
fn never(access: AccessId) -> AccessId {
    let block = Spot {
        calls: u64::MAX,
        ..access.block
    };
    AccessId {
        block,
        ..AccessId::default()
    }
}

/// The switch points that a replay has written down.
pub fn decode_points(bytes: &[u8]) -> Vec<SwitchPoint> {
    let (points, _) = bytes.as_chunks::<{ size_of::<SwitchPoint>() }>();
    let u64_at = |point: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| point[at + i]));
    let u32_at = |point: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| point[at + i]));
    points
        .iter()
        .map(|point| SwitchPoint {
            reached: u64_at(point, 0),
            label: u64_at(point, 8),
            calls: u64_at(point, 16),
            nth: u64_at(point, 24),
            runnable: u64_at(point, 32),
            thread: u32_at(point, 40),
            next: u32_at(point, 44),
            what: u32_at(point, 48),
            reserved: 0,
            object: u64_at(point, 56),
        })
        .collect()
}

/// The accesses that a replay has written down.
pub fn decode_accesses(bytes: &[u8]) -> Vec<AccessEntry> {
    let (entries, _) = bytes.as_chunks::<{ size_of::<AccessEntry>() }>();
    let u64_at = |entry: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
    let u32_at = |entry: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
    entries
        .iter()
        .map(|entry| AccessEntry {
            place: Place {
                thread: u32_at(entry, 0),
                reserved: 0,
                calls: u64_at(entry, 8),
                nth: u64_at(entry, 16),
                address: u64_at(entry, 24),
                access: u64_at(entry, 32),
            },
            label: u64_at(entry, 40),
            passed: u64_at(entry, 48),
            reached: u64_at(entry, 56),
            flags: u32_at(entry, 64),
            reserved: 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_know_the_next_one_of_their_thread() {
        let stamp = |time: u64| run_model::Stamp {
            time,
            ..run_model::Stamp::default()
        };
        let stamps = |times: &[u64]| times.iter().copied().map(stamp).collect::<Vec<_>>();
        let turns = Turns::merge(&[stamps(&[1, 4]), stamps(&[2, 3, 6]), vec![]]);
        let file = encode(
            &turns,
            &Wanted {
                window: &[5],
                points_max: 7,
                accesses_max: 0,
            },
        );
        let words: Vec<u32> = file
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        let runs = [[0, 1, 2, 0], [1, 2, 3, 0], [0, 1, NO_RUN, 0], [1, 1, NO_RUN, 0]];
        assert_eq!(words[14..26], [0, 0, 5, 0, 1, 0, 0, 0, NO_RUN, 0, 0, 0]);
        assert_eq!(words[26..], runs.concat());
    }
}
