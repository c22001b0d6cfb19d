//! What is kept of bugs and logs, read back.
use super::Store;
use super::logs::outcome_of_numbers;
use super::packs::Place;
use crate::Result;
use partial_logs::Failure;
use partial_logs::Outcome;
use rusqlite::OptionalExtension;
use rusqlite::Row;
use rusqlite::params;
use std::collections::BTreeMap;

/// One failure of one build.
#[derive(Clone, Debug)]
pub struct BugRow {
    pub id: String,
    pub build: [u8; 32],
    pub is_registered: bool,
    pub failure: Failure,
    pub first_at_ms: i64,
    pub last_at_ms: i64,
    pub logs: u64,
    /// By hours since 1970, those with any.
    pub hours: BTreeMap<i64, u64>,
}

#[derive(Clone, Debug)]
pub struct LogRow {
    /// In the order in which they came.
    pub id: i64,
    pub hash: [u8; 32],
    pub inputs: [u8; 32],
    pub share: u16,
    pub number: u16,
    pub outcome: Outcome,
    pub at_ms: i64,
    pub elements: u64,
    pub has_inputs: bool,
}

/// The elements of one log, each with the number of its vector in the store. Equal vectors of one project have equal numbers.
#[derive(Clone, Debug)]
pub struct Postings {
    pub log: i64,
    pub hash: [u8; 32],
    pub inputs: [u8; 32],
    pub elements: Vec<(u32, i64)>,
}

#[derive(Clone, Copy, Debug)]
struct PlacedVector {
    hash: [u8; 32],
    place: Place,
}

const BUG: &str =
    "SELECT id, build, EXISTS (SELECT 1 FROM builds WHERE builds.project = bugs.project AND builds.build = bugs.build),
                     outcome, value, frames, said, first_at, last_at, logs FROM bugs";
const LOG: &str = "SELECT id, hash, inputs, share, number, outcome, value, at, length(elements) / 12,
                     EXISTS (SELECT 1 FROM inputs WHERE inputs.project = logs.project AND inputs.log = logs.hash) FROM logs";
/// Hours that a trend goes back.
pub const TREND_HOURS: i64 = 24 * 14;

impl Store {
    /// The most frequent first.
    pub fn bugs(&self, project: &str, most: usize) -> Result<Vec<BugRow>> {
        self.read("read bugs", |db| {
            let mut query = db.prepare_cached(&format!(
                "{BUG} WHERE project = ?1 ORDER BY logs DESC, last_at DESC, id LIMIT ?2"
            ))?;
            let rows = query.query_map(params![project, most as i64], bug_of_row)?;
            let mut bugs: Vec<BugRow> = rows.collect::<rusqlite::Result<_>>()?;
            for bug in &mut bugs {
                bug.hours = hours(db, bug)?;
            }
            Ok(bugs)
        })
    }

    /// Those of a project whose ids begin so, in the order of their ids, two at most: then it is not said which of them is meant.
    pub fn bugs_beginning(&self, project: &str, id: &str) -> Result<Vec<BugRow>> {
        self.read("read a bug", |db| {
            let mut query = db.prepare_cached(&format!(
                "{BUG} WHERE project = ?1 AND substr(id, 1, length(?2)) = ?2 ORDER BY id LIMIT 2"
            ))?;
            let rows = query.query_map(params![project, id], bug_of_row)?;
            let mut bugs: Vec<BugRow> = rows.collect::<rusqlite::Result<_>>()?;
            for bug in &mut bugs {
                bug.hours = hours(db, bug)?;
            }
            Ok(bugs)
        })
    }

    /// Nothing if this project has none of that id.
    pub fn bug(&self, project: &str, id: &str) -> Result<Option<BugRow>> {
        let bugs = self.bugs_beginning(project, id)?;
        Ok(bugs.into_iter().find(|bug| bug.id == id))
    }

    /// In the order in which they came, those after `after`.
    pub fn logs_of_bug(&self, bug: &str, after: i64, most: usize) -> Result<Vec<LogRow>> {
        self.read("read logs", |db| {
            let mut query = db.prepare_cached(&format!("{LOG} WHERE bug = ?1 AND id > ?2 ORDER BY id LIMIT ?3"))?;
            let rows = query.query_map(params![bug, after, most as i64], log_of_row)?;
            rows.collect()
        })
    }

    pub fn log(&self, project: &str, hash: &[u8; 32]) -> Result<Option<LogRow>> {
        self.read("read a log", |db| {
            let mut query = db.prepare_cached(&format!("{LOG} WHERE project = ?1 AND hash = ?2"))?;
            query.query_row(params![project, hash], log_of_row).optional()
        })
    }

    /// How many runs of the build did not fail.
    pub fn passing_logs(&self, project: &str, build: &[u8; 32]) -> Result<u64> {
        self.read("count logs that passed", |db| {
            let count = "SELECT count(*) FROM logs WHERE project = ?1 AND build = ?2 AND bug IS NULL";
            db.query_row(count, params![project, build], |row| row.get::<_, i64>(0))
                .map(|count| count as u64)
        })
    }

    /// Elements of the logs of a bug, of those after `after`, in the order in which they came.
    pub fn failing_postings(&self, bug: &str, after: i64, most: usize) -> Result<Vec<Postings>> {
        self.read("read elements of logs", |db| {
            let query = "SELECT id, hash, inputs, elements FROM logs WHERE bug = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map(params![bug, after, most as i64], postings_of_row)?;
            rows.collect()
        })
    }

    /// The same of runs of the build that did not fail.
    pub fn passing_postings(&self, project: &str, build: &[u8; 32], after: i64, most: usize) -> Result<Vec<Postings>> {
        self.read("read elements of logs", |db| {
            let query = "SELECT id, hash, inputs, elements FROM logs
                         WHERE project = ?1 AND build = ?2 AND bug IS NULL AND id > ?3 ORDER BY id LIMIT ?4";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map(params![project, build, after, most as i64], postings_of_row)?;
            rows.collect()
        })
    }

    /// Hashes of the vectors of these logs, by their numbers.
    pub fn hashes_of(&self, logs: &[Postings]) -> Result<BTreeMap<i64, [u8; 32]>> {
        self.read("find vectors", |db| {
            let mut query = db.prepare_cached("SELECT hash FROM vectors WHERE id = ?1")?;
            let mut hashes = BTreeMap::new();
            for (_, vector) in logs.iter().flat_map(|log| &log.elements) {
                if !hashes.contains_key(vector) {
                    hashes.insert(*vector, query.query_row([vector], |row| row.get(0))?);
                }
            }
            Ok(hashes)
        })
    }

    /// The bytes of a vector that some log of this project has.
    pub fn vector_of_hash(&self, project: &str, hash: &[u8; 32]) -> Result<Option<Vec<u8>>> {
        let placed = self.read("find a vector", |db| {
            let query = "SELECT hash, pack, offset, length FROM vectors WHERE project = ?1 AND hash = ?2";
            let mut query = db.prepare_cached(query)?;
            query.query_row(params![project, hash], placed_of_row).optional()
        })?;
        placed.map(|placed| self.vector(&placed.hash, placed.place)).transpose()
    }
}

fn bug_of_row(row: &Row<'_>) -> rusqlite::Result<BugRow> {
    let frames: String = row.get(5)?;
    Ok(BugRow {
        id: row.get(0)?,
        build: row.get(1)?,
        is_registered: row.get(2)?,
        failure: Failure {
            outcome: outcome_of_numbers(row.get(3)?, row.get(4)?),
            frames: serde_json::from_str(&frames).unwrap_or_default(),
            text: row.get(6)?,
        },
        first_at_ms: row.get(7)?,
        last_at_ms: row.get(8)?,
        logs: row.get::<_, i64>(9)? as u64,
        hours: BTreeMap::new(),
    })
}

fn hours(db: &rusqlite::Connection, bug: &BugRow) -> rusqlite::Result<BTreeMap<i64, u64>> {
    let mut query = db.prepare_cached("SELECT hour, logs FROM bug_hours WHERE bug = ?1 AND hour > ?2")?;
    let first = crate::journal::now_ms() / 3_600_000 - TREND_HOURS;
    let rows = query.query_map(params![bug.id, first], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
    })?;
    rows.collect()
}

fn log_of_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    Ok(LogRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        inputs: row.get(2)?,
        share: row.get(3)?,
        number: row.get(4)?,
        outcome: outcome_of_numbers(row.get(5)?, row.get(6)?),
        at_ms: row.get(7)?,
        elements: row.get::<_, i64>(8)? as u64,
        has_inputs: row.get(9)?,
    })
}

fn postings_of_row(row: &Row<'_>) -> rusqlite::Result<Postings> {
    let bytes: Vec<u8> = row.get(3)?;
    let (entries, _) = bytes.as_chunks::<12>();
    let elements = entries.iter().map(|entry| {
        let (mut element, mut vector) = ([0; 4], [0; 8]);
        element.copy_from_slice(&entry[..4]);
        vector.copy_from_slice(&entry[4..]);
        (u32::from_le_bytes(element), i64::from_le_bytes(vector))
    });
    Ok(Postings {
        log: row.get(0)?,
        hash: row.get(1)?,
        inputs: row.get(2)?,
        elements: elements.collect(),
    })
}

fn placed_of_row(row: &Row<'_>) -> rusqlite::Result<PlacedVector> {
    Ok(PlacedVector {
        hash: row.get(0)?,
        place: Place {
            pack: row.get(1)?,
            offset: row.get::<_, i64>(2)? as u64,
            length: row.get(3)?,
        },
    })
}
