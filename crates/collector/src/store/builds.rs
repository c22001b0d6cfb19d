//! Programs that an operator registered, and what is known of their elements.
use super::Store;
use super::Upload;
use crate::ElementInfo;
use crate::Result;
use crate::hex;
use crate::journal::now_ms;
use rusqlite::OptionalExtension;
use rusqlite::params;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct BuildRow {
    pub build: [u8; 32],
    pub bytes: u64,
    pub at_ms: i64,
    pub elements: u64,
    /// Of clients, failing or not.
    pub logs: u64,
}

/// How an element was used in the runs of a build whose logs have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementUse {
    pub logs: u64,
    /// Logs in which more than one thread used it.
    pub shared: u64,
    /// Of these, logs in which the order of its uses may have mattered.
    pub conflicts: u64,
    /// Of all logs together.
    pub accesses: u64,
}

impl Store {
    /// Where a registered program is. Programs are each project's own.
    pub fn program(&self, project: &str, build: &[u8; 32]) -> PathBuf {
        self.folder().join("builds").join(format!("{project}-{}", hex(build)))
    }

    /// Keeps the program, without saying yet that it is registered: its elements are to be read first.
    pub fn keep_program(&self, project: &str, upload: Upload) -> Result<PathBuf> {
        let path = self.program(project, &upload.hash());
        if !path.exists() {
            upload.keep(&path, 0o700)?;
        }
        Ok(path)
    }

    pub fn forget_program(&self, path: &Path) {
        // It is not registered, and the next try overwrites it.
        _ = fs::remove_file(path);
    }

    pub fn add_build(&self, project: &str, build: &[u8; 32], bytes: u64, elements: &[ElementInfo]) -> Result<()> {
        self.write("register a build", |db| {
            let insert = "INSERT OR IGNORE INTO builds (project, build, bytes, at) VALUES (?1, ?2, ?3, ?4)";
            db.execute(insert, params![project, build, bytes as i64, now_ms()])?;
            let insert =
                "INSERT OR REPLACE INTO build_elements (project, build, element, kind, name, file, line, sites)
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let mut insert = db.prepare_cached(insert)?;
            for info in elements {
                let sites = info.sites as i64;
                insert.execute(params![
                    project, build, info.id, info.kind, info.name, info.file, info.line, sites
                ])?;
            }
            Ok(())
        })
    }

    pub fn is_registered(&self, project: &str, build: &[u8; 32]) -> Result<bool> {
        self.read("find a build", |db| {
            let known = "SELECT 1 FROM builds WHERE project = ?1 AND build = ?2";
            db.prepare_cached(known)?.exists(params![project, build])
        })
    }

    /// The newest first.
    pub fn builds(&self, project: &str) -> Result<Vec<BuildRow>> {
        self.read("read builds", |db| {
            let query = "SELECT build, bytes, at,
                           (SELECT count(*) FROM build_elements e WHERE e.project = b.project AND e.build = b.build),
                           (SELECT count(*) FROM logs l WHERE l.project = b.project AND l.build = b.build AND l.bug IS NULL)
                           + (SELECT coalesce(sum(logs), 0) FROM bugs g WHERE g.project = b.project AND g.build = b.build)
                         FROM builds b WHERE project = ?1 ORDER BY at DESC, build";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map([project], |row| {
                Ok(BuildRow {
                    build: row.get(0)?,
                    bytes: row.get::<_, i64>(1)? as u64,
                    at_ms: row.get(2)?,
                    elements: row.get::<_, i64>(3)? as u64,
                    logs: row.get::<_, i64>(4)? as u64,
                })
            })?;
            rows.collect()
        })
    }

    /// By their numbers. Empty if the build is not registered.
    pub fn elements(&self, project: &str, build: &[u8; 32]) -> Result<BTreeMap<u32, ElementInfo>> {
        self.read("read elements", |db| {
            let query =
                "SELECT element, kind, name, file, line, sites FROM build_elements WHERE project = ?1 AND build = ?2";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map(params![project, build], |row| {
                let info = ElementInfo {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    name: row.get(2)?,
                    file: row.get(3)?,
                    line: row.get(4)?,
                    sites: row.get::<_, i64>(5)? as u64,
                };
                Ok((info.id, info))
            })?;
            rows.collect()
        })
    }

    pub fn element_uses(&self, project: &str, build: &[u8; 32]) -> Result<BTreeMap<u32, ElementUse>> {
        self.read("read how elements were used", |db| {
            let query =
                "SELECT element, logs, shared, conflicts, accesses FROM element_uses WHERE project = ?1 AND build = ?2";
            let mut query = db.prepare_cached(query)?;
            let rows = query.query_map(params![project, build], |row| {
                let number = |at| row.get::<_, i64>(at).map(|number| number as u64);
                Ok((
                    row.get(0)?,
                    ElementUse {
                        logs: number(1)?,
                        shared: number(2)?,
                        conflicts: number(3)?,
                        accesses: number(4)?,
                    },
                ))
            })?;
            rows.collect()
        })
    }

    /// What this token may still store, less what it has: logs and bytes that it has stored.
    pub fn used(&self, token: &[u8; 16]) -> Result<(u64, u64)> {
        self.read("read a quota", |db| {
            let query = "SELECT logs, bytes FROM uses WHERE token = ?1";
            let used = db.query_row(query, [token.as_slice()], |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
            });
            Ok(used.optional()?.unwrap_or_default())
        })
    }
}
