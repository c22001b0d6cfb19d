//! Archives of inputs, which some clients send along. They are kept as they came, and never opened here.
use super::Store;
use super::Upload;
use crate::Grant;
use crate::Result;
use crate::hex;
use crate::journal::now_ms;
use rusqlite::OptionalExtension;
use rusqlite::params;
use std::path::PathBuf;

/// A log whose inputs are here.
#[derive(Clone, Debug)]
pub struct WithInputs {
    pub log: [u8; 32],
    pub digest: [u8; 32],
    pub archive: PathBuf,
}

impl Store {
    /// Of a log that is there. Counted as bytes of the token's; nothing if that would be more than its quota.
    pub fn add_inputs(
        &self,
        grant: &Grant,
        quota: u64,
        log: &[u8; 32],
        digest: &[u8; 32],
        upload: Upload,
    ) -> Result<Option<()>> {
        let (archive, bytes) = (upload.hash(), upload.bytes());
        if self.used(&grant.id)?.1.saturating_add(bytes) > quota {
            return Ok(None);
        }
        let path = self.archive(&archive);
        if !path.exists() {
            upload.keep(&path, 0o600)?;
        }
        self.write("keep inputs", |db| {
            let insert =
                "INSERT OR IGNORE INTO inputs (project, log, digest, archive, bytes, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let bytes = bytes as i64;
            let added = db.execute(insert, params![grant.project, log, digest, archive, bytes, now_ms()])?;
            if added == 1 {
                db.execute(
                    "INSERT INTO uses (token, logs, bytes, unregistered) VALUES (?1, 0, ?2, 0)
                     ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
                    params![grant.id.as_slice(), bytes],
                )?;
            }
            Ok(Some(()))
        })
    }

    fn archive(&self, hash: &[u8; 32]) -> PathBuf {
        self.folder().join("inputs").join(hex(hash))
    }

    /// Inputs of logs of this bug, the oldest first.
    pub fn inputs_of_bug(&self, bug: &str, most: usize) -> Result<Vec<WithInputs>> {
        self.read("find inputs", |db| {
            let query = "SELECT inputs.log, inputs.digest, inputs.archive FROM logs
                         JOIN inputs ON inputs.project = logs.project AND inputs.log = logs.hash
                         WHERE logs.bug = ?1 ORDER BY logs.id LIMIT ?2";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map(params![bug, most as i64], |row| {
                Ok(WithInputs {
                    log: row.get(0)?,
                    digest: row.get(1)?,
                    archive: self.archive(&row.get(2)?),
                })
            })?;
            rows.collect()
        })
    }

    /// Digests of the inputs of a bug's logs, each with how many have it.
    pub fn digests_of_bug(&self, bug: &str) -> Result<Vec<([u8; 32], u64)>> {
        self.read("count inputs", |db| {
            let query = "SELECT inputs, count(*) FROM logs WHERE bug = ?1 GROUP BY inputs ORDER BY inputs";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map([bug], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
            rows.collect()
        })
    }

    /// The digest that a log says its inputs have.
    pub fn digest_of_log(&self, project: &str, log: &[u8; 32]) -> Result<Option<[u8; 32]>> {
        self.read("find a log", |db| {
            let query = "SELECT inputs FROM logs WHERE project = ?1 AND hash = ?2";
            db.query_row(query, params![project, log], |row| row.get(0)).optional()
        })
    }
}
