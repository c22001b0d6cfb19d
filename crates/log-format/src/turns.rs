//! The file `turns`: the order of all threads' inputs, for a replay of one thread at a time. The runtime maps it; it is
//! written for each replay, and nobody reads it but the runtime. The layout is `runtime_abi::turns_file`.
use run_model::Turns;
use runtime_abi::turns_file::MAGIC;
use runtime_abi::turns_file::NO_RUN;
use runtime_abi::turns_file::Preemption;
use runtime_abi::turns_file::SwitchPoint;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;
use runtime_abi::turns_file::TurnsHeader;
use runtime_abi::turns_file::VERSION;
use std::mem::size_of;

/// The bytes of the file. `points_max`: switch points that the runtime is to write down; 0: none.
pub fn encode(turns: &Turns, points_max: u64) -> Vec<u8> {
    let threads = turns.threads as usize;
    let mut file = Vec::with_capacity(
        size_of::<TurnsHeader>()
            + threads * size_of::<ThreadTurns>()
            + turns.runs.len() * size_of::<TurnRun>()
            + turns.preemptions.len() * size_of::<Preemption>(),
    );
    file.extend(MAGIC.to_le_bytes());
    file.extend(VERSION.to_le_bytes());
    file.extend(turns.threads.to_le_bytes());
    for number in [
        turns.runs.len() as u64,
        turns.events(),
        turns.preemptions.len() as u64,
        points_max,
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
    for first in next_of {
        file.extend(first.to_le_bytes());
        file.extend([0; 4]);
    }
    for (run, next) in turns.runs.iter().zip(next) {
        for number in [run.thread.0, run.count, next, 0] {
            file.extend(number.to_le_bytes());
        }
    }
    for preemption in &turns.preemptions {
        file.extend(preemption.point.to_le_bytes());
        file.extend(preemption.thread.0.to_le_bytes());
        file.extend([0; 4]);
    }
    file
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
            thread: u32_at(point, 16),
            next: u32_at(point, 20),
            what: u32_at(point, 24),
            ready: u32_at(point, 28),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_know_the_next_one_of_their_thread() {
        let turns = Turns::merge(&[vec![1, 4], vec![2, 3, 6], vec![]]);
        let file = encode(&turns, 7);
        let words: Vec<u32> = file
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        let runs = [[0, 1, 2, 0], [1, 2, 3, 0], [0, 1, NO_RUN, 0], [1, 1, NO_RUN, 0]];
        assert_eq!(words[12..18], [0, 0, 1, 0, NO_RUN, 0]);
        assert_eq!(words[18..], runs.concat());
    }
}
