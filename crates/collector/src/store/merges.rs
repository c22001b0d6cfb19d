//! Merges, and what came of their attempts.
use super::Store;
use crate::Result;
use crate::journal::now_ms;
use rusqlite::OptionalExtension;
use rusqlite::Row;
use rusqlite::params;
use std::path::PathBuf;

/// What one that was under way says when a server starts.
pub const INTERRUPTED: &str = "the server was stopped while it was under way; start it again";

#[derive(Clone, Debug)]
pub struct MergeRow {
    pub id: i64,
    pub bug: String,
    /// What was asked for, as JSON.
    pub wanted: String,
    /// A client tries the candidates.
    pub is_fetch: bool,
    /// `running`, `reproduced`, `exhausted`, `cancelled`, `failed` or `interrupted`.
    pub state: String,
    /// A sentence for a person.
    pub said: String,
    pub at_ms: i64,
    pub ended_at_ms: Option<i64>,
    /// The archive of the merged run, if there is one.
    pub run: Option<PathBuf>,
    /// What the run came from, as JSON; empty as long as there is none.
    pub summary: String,
}

#[derive(Clone, Debug)]
pub struct AttemptRow {
    pub number: u32,
    pub at_ms: i64,
    /// The log that was completed.
    pub base: Option<[u8; 32]>,
    pub relevance: Option<f64>,
    pub verdict: String,
    /// JSON.
    pub detail: String,
}

const MERGE: &str = "SELECT id, bug, wanted, is_fetch, state, said, at, ended_at, run, summary FROM merges";

impl Store {
    pub fn begin_merge(&self, project: &str, bug: &str, wanted: &str, is_fetch: bool) -> Result<i64> {
        self.write("begin a merge", |db| {
            let insert = "INSERT INTO merges (project, bug, wanted, is_fetch, state, said, at, summary)
                          VALUES (?1, ?2, ?3, ?4, 'running', '', ?5, '')";
            db.execute(insert, params![project, bug, wanted, is_fetch, now_ms()])?;
            Ok(db.last_insert_rowid())
        })
    }

    pub fn end_merge(&self, id: i64, state: &str, said: &str, has_run: bool, summary: &str) -> Result<()> {
        self.write("end a merge", |db| {
            let run = has_run.then(|| run_name(id));
            db.execute(
                "UPDATE merges SET state = ?2, said = ?3, ended_at = ?4, run = ?5, summary = ?6 WHERE id = ?1",
                params![id, state, said, now_ms(), run, summary],
            )
            .map(|_| ())
        })
    }

    /// The same number again replaces what was said of it.
    pub fn add_attempt(&self, merge: i64, attempt: &AttemptRow) -> Result<()> {
        self.write("keep an attempt", |db| {
            let insert = "INSERT OR REPLACE INTO attempts (merge, number, at, base, relevance, verdict, detail)
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            db.prepare_cached(insert)?
                .execute(params![
                    merge,
                    attempt.number,
                    attempt.at_ms,
                    attempt.base,
                    attempt.relevance,
                    attempt.verdict,
                    attempt.detail
                ])
                .map(|_| ())
        })
    }

    pub fn merge(&self, project: &str, id: i64) -> Result<Option<MergeRow>> {
        self.read("read a merge", |db| {
            let mut query = db.prepare_cached(&format!("{MERGE} WHERE project = ?1 AND id = ?2"))?;
            query
                .query_row(params![project, id], |row| self.merge_of_row(row))
                .optional()
        })
    }

    /// The newest first.
    pub fn merges_of_bug(&self, bug: &str, most: usize) -> Result<Vec<MergeRow>> {
        self.read("read merges", |db| {
            let mut query = db.prepare_cached(&format!("{MERGE} WHERE bug = ?1 ORDER BY id DESC LIMIT ?2"))?;
            let rows = query.query_map(params![bug, most as i64], |row| self.merge_of_row(row))?;
            rows.collect()
        })
    }

    pub fn attempts(&self, merge: i64, most: usize) -> Result<Vec<AttemptRow>> {
        self.read("read attempts", |db| {
            let query = "SELECT number, at, base, relevance, verdict, detail FROM attempts WHERE merge = ?1 ORDER BY number LIMIT ?2";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map(params![merge, most as i64], |row| {
                Ok(AttemptRow {
                    number: row.get(0)?,
                    at_ms: row.get(1)?,
                    base: row.get(2)?,
                    relevance: row.get(3)?,
                    verdict: row.get(4)?,
                    detail: row.get(5)?,
                })
            })?;
            rows.collect()
        })
    }

    /// Where the archive of a merge's run is to be.
    pub fn run_of_merge(&self, id: i64) -> PathBuf {
        self.folder().join("runs").join(run_name(id))
    }

    pub(super) fn interrupt_merges(&self) -> Result<()> {
        self.write("mark merges as interrupted", |db| {
            db.execute(
                "UPDATE merges SET state = 'interrupted', said = ?1, ended_at = ?2 WHERE state = 'running'",
                params![INTERRUPTED, now_ms()],
            )
            .map(|_| ())
        })
    }

    fn merge_of_row(&self, row: &Row<'_>) -> rusqlite::Result<MergeRow> {
        let run: Option<String> = row.get(8)?;
        Ok(MergeRow {
            id: row.get(0)?,
            bug: row.get(1)?,
            wanted: row.get(2)?,
            is_fetch: row.get(3)?,
            state: row.get(4)?,
            said: row.get(5)?,
            at_ms: row.get(6)?,
            ended_at_ms: row.get(7)?,
            run: run.map(|name| self.folder().join("runs").join(name)),
            summary: row.get(9)?,
        })
    }
}

fn run_name(id: i64) -> String {
    format!("merge-{id}.refrain")
}
