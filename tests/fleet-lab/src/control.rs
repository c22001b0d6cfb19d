//! What complete logs show, and what no logs and senseless ones do.
use crate::Answer;
use crate::kept::Kept;
use crate::trial::Came;
use crate::trial::Trial;
use crate::trial::Trials;
use crate::trial::Vectors;
use partial_logs::AccessVector;
use partial_logs::PartialLog;
use partial_logs::ThreadName;
use serde_json::Value;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Follows complete logs with all their own vectors, each strictly and softly.
pub fn again(program: &Path, folder: &Path, logs: usize) -> Answer {
    let kept = Kept::load(folder)?;
    let trials = Trials::new(program, folder, kept.failure()?)?;
    let mut answer = json!({});
    for (name, is_strict) in [("strict", true), ("soft", false)] {
        let whole = kept.failing.iter().take(logs).map(|log| Trial {
            vectors: vectors_of(log),
            is_strict,
        });
        let whole: Vec<Trial> = whole.collect();
        let started = Instant::now();
        let came = trials.all(&whole)?;
        answer[name] = told(&came, started);
        for (nth, came) in came.iter().enumerate().filter(|(_, came)| !came.is_reproduced) {
            let Some(tried) = &came.tried else { continue };
            eprintln!(
                "fleet-lab: log {nth}, {name}: stuck {}, let go {:x?}, blamed {:x?}, failure {:?}",
                tried.is_stuck, tried.let_go, tried.blamed, tried.failure
            );
        }
    }
    Ok(answer)
}

pub fn told(came: &[Came], started: Instant) -> Value {
    let reproduced = came.iter().filter(|came| came.is_reproduced).count();
    let stuck = came
        .iter()
        .filter(|came| came.tried.as_ref().is_some_and(|tried| tried.is_stuck));
    json!({
        "reproduced": reproduced,
        "stuck": stuck.count(),
        "of": came.len(),
        "ms": started.elapsed().as_millis() as u64 / came.len().max(1) as u64,
    })
}

pub fn vectors_of(log: &PartialLog) -> Vectors {
    let elements = log.elements.iter();
    elements
        .map(|(id, recorded)| (*id, (recorded.vector.clone(), 0)))
        .collect()
}

/// `none`: threads keep to nothing. `random`: to vectors of no run, with as many accesses by each thread as a failing run has, in runs as long as those; softly, as
/// ours are.
pub fn control(program: &Path, folder: &Path, kind: &str, tries: usize) -> Answer {
    let kept = Kept::load(folder)?;
    let trials = Trials::new(program, folder, kept.failure()?)?;
    let mut random = Random(0x5eed);
    let attempts = (0..tries).map(|nth| {
        let log = &kept.failing[nth % kept.failing.len()];
        let mut vectors = Vectors::new();
        if kind == "random" {
            vectors = vectors_of(log);
            vectors
                .values_mut()
                .for_each(|(vector, _)| *vector = shuffled(vector, &mut random));
        }
        Trial {
            vectors,
            is_strict: false,
        }
    });
    let attempts: Vec<Trial> = attempts.collect();
    let started = Instant::now();
    Ok(told(&trials.all(&attempts)?, started))
}

/// The same runs in another order.
fn shuffled(vector: &AccessVector, random: &mut Random) -> AccessVector {
    let mut turns: Vec<(ThreadName, u64)> = vector.turns().map(|(name, count)| (name.clone(), count)).collect();
    for at in (1..turns.len()).rev() {
        turns.swap(at, random.below(at as u64 + 1) as usize);
    }
    AccessVector::of_turns(turns)
}

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }
}
