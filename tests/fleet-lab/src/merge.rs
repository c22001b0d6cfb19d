//! One cell of table III: partial logs made of complete ones, merged and tried until the failure comes back.
use crate::Answer;
use crate::control::Random;
use crate::kept::Kept;
use crate::trial::Came;
use crate::trial::Trial;
use crate::trial::Trials;
use crate::trial::Vectors;
use crate::trial::processors;
use partial_logs::Candidate;
use partial_logs::ElementId;
use partial_logs::Feedback;
use partial_logs::MergeSettings;
use partial_logs::Merger;
use partial_logs::Metric;
use partial_logs::PartialLog;
use partial_logs::Threshold;
use partial_logs::UniverseBuilder;
use partial_logs::VectorHash;
use partial_logs::Verdict;
use partial_logs::pattern::Family;
use partial_logs::pattern::PATTERNS;
use partial_logs::pattern::rounded;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

pub struct Cell {
    /// In hundredths of a percent.
    pub share: u16,
    pub metric: Metric,
    /// The paper's thresholds, or such as scale with what two logs have in common.
    pub is_literal: bool,
    /// The paper's merge, or ours.
    pub is_paper: bool,
    /// Elements are chosen by our patterns; otherwise drawn, as in the paper.
    pub by_family: bool,
    pub failing: usize,
    pub passing: usize,
    pub budget: u32,
    pub seed: u64,
}

/// How often what has reproduced the failure is tried again; only if it always does so does it count.
const AGAIN: usize = 20;

pub fn metric(name: &str) -> Result<Metric, String> {
    match name {
        "psim" => Ok(Metric::Plain),
        "dsim" => Ok(Metric::Dispersion),
        "none" => Ok(Metric::None),
        _ => Err(format!("'{name}' is no metric: psim, dsim, none")),
    }
}

pub fn merge(program: &Path, folder: &Path, cell: &Cell) -> Answer {
    let kept = Kept::load(folder)?;
    let trials = Trials::new(program, folder, kept.failure()?)?;
    let elements: Vec<ElementId> = kept.accessed().into_iter().collect();
    let size = rounded(elements.len(), cell.share);
    let mut parts = Parts::new(cell, &elements, size);
    let mut builder = UniverseBuilder::new(elements.iter().copied());
    let mut vectors = BTreeMap::new();
    let failing = kept.failing.iter().take(cell.failing);
    for log in failing.chain(kept.passing.iter().take(cell.passing)) {
        let part = parts.of(log);
        builder.add(&part);
        for (id, recorded) in part.elements {
            vectors.insert((id, recorded.hash), recorded.vector);
        }
    }
    let universe = builder.build();
    let mut merger = Merger::new(&universe, settings(cell));
    let started = Instant::now();
    let mut verdicts: BTreeMap<String, u64> = BTreeMap::new();
    let mut found: Option<(u64, Candidate)> = None;
    let mut given = 0;
    let mut lucky: Option<u64> = None;
    while found.is_none() {
        let batch: Vec<Candidate> = (0..processors()).map_while(|_| merger.next()).collect();
        if batch.is_empty() {
            break;
        }
        let tried: Vec<Trial> = batch.iter().map(|candidate| trial(candidate, &vectors)).collect();
        for (candidate, came) in batch.into_iter().zip(trials.all(&tried)?) {
            given += 1;
            let mut feedback = feedback(&came);
            let told = format!("{:?}", feedback.verdict);
            if feedback.verdict == Verdict::Reproduced && found.is_none() {
                match again(&trials, &candidate, &vectors)? {
                    AGAIN => found = Some((given, candidate.clone())),
                    // That was luck, as it is of runs that keep to nothing.
                    _ => {
                        feedback.verdict = Verdict::Passed;
                        lucky.get_or_insert(given);
                    }
                }
            }
            *verdicts.entry(told).or_default() += 1;
            merger.report(candidate.id, feedback);
        }
    }
    let ms = started.elapsed().as_millis() as u64 / given.max(1);
    let Some((attempts, candidate)) = found else {
        return Ok(
            json!({ "attempts": null, "lucky": lucky, "given": given, "verdicts": verdicts, "ms": ms, "recorded": size }),
        );
    };
    Ok(json!({
        "attempts": attempts,
        "given": given,
        "verdicts": verdicts,
        "ms": ms,
        "recorded": size,
        "stage": format!("{:?}", candidate.stage),
        "lucky": lucky,
    }))
}

/// How often in a row it reproduces the failure.
fn again(trials: &Trials<'_>, candidate: &Candidate, vectors: &Recorded) -> Result<usize, Box<dyn Error>> {
    let mut reproduced = 0;
    while reproduced < AGAIN {
        let some = (AGAIN - reproduced).min(processors() as usize);
        let same: Vec<Trial> = (0..some).map(|_| trial(candidate, vectors)).collect();
        let came = trials.all(&same)?;
        reproduced += came.iter().take_while(|came| came.is_reproduced).count();
        if came.iter().any(|came| !came.is_reproduced) {
            break;
        }
    }
    Ok(reproduced)
}

fn settings(cell: &Cell) -> MergeSettings {
    let mut settings = match cell.is_paper {
        true => MergeSettings::paper(cell.metric),
        false => MergeSettings::new(cell.metric),
    };
    settings.neighbours.threshold = match cell.is_literal {
        true => Threshold::Literal,
        false => Threshold::Scaled,
    };
    settings.budget = cell.budget;
    settings.seed = cell.seed;
    settings
}

type Recorded = BTreeMap<(ElementId, VectorHash), partial_logs::AccessVector>;

fn trial(candidate: &Candidate, vectors: &Recorded) -> Trial {
    let chosen = candidate.elements.iter();
    let chosen = chosen.filter_map(|(id, chosen)| {
        let vector = vectors.get(&(*id, chosen.hash))?;
        Some((*id, (vector.clone(), chosen.rank)))
    });
    Trial {
        vectors: chosen.collect::<Vectors>(),
        is_strict: candidate.is_strict,
    }
}

fn feedback(came: &Came) -> Feedback {
    let Some(tried) = &came.tried else {
        return Verdict::Passed.into();
    };
    let verdict = match () {
        () if came.is_reproduced => Verdict::Reproduced,
        () if tried.is_stuck => Verdict::Stuck,
        () if tried.failure.is_some() => Verdict::OtherFailure,
        () => Verdict::Passed,
    };
    Feedback {
        verdict,
        blamed: tried.blamed.iter().copied().collect(),
        let_go: tried.let_go.iter().copied().collect(),
    }
}

/// Chooses what is left of complete logs.
struct Parts<'a> {
    elements: &'a [ElementId],
    size: usize,
    family: Option<Family>,
    random: Random,
}

impl<'a> Parts<'a> {
    fn new(cell: &Cell, elements: &'a [ElementId], size: usize) -> Parts<'a> {
        let costs: BTreeMap<ElementId, u64> = elements.iter().map(|id| (*id, 1)).collect();
        let family = || Family::new(cell.share, &costs, &BTreeSet::new());
        Parts {
            elements,
            size,
            family: cell.by_family.then(family),
            random: Random(cell.seed ^ 0x00c0_ffee),
        }
    }

    fn of(&mut self, log: &PartialLog) -> PartialLog {
        let Some(family) = &self.family else {
            return part_of(log, self.elements, self.size, &mut self.random);
        };
        let number = self.random.below(u64::from(PATTERNS)) as u16;
        let chosen = family.elements(number).cloned().unwrap_or_default();
        reduced(log, &chosen)
    }
}

/// So many elements of a log, drawn.
pub fn part_of(log: &PartialLog, elements: &[ElementId], size: usize, random: &mut Random) -> PartialLog {
    let mut order: Vec<(u64, ElementId)> = elements.iter().map(|id| (random.draw(), *id)).collect();
    order.sort_unstable();
    let chosen = order.into_iter().take(size).map(|(_, id)| id).collect();
    reduced(log, &chosen)
}

fn reduced(log: &PartialLog, chosen: &BTreeSet<ElementId>) -> PartialLog {
    let mut log = log.clone();
    log.elements.retain(|id, _| chosen.contains(id));
    log
}
