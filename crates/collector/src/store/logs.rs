//! Taking in logs, a batch at a time.
use super::ElementUse;
use super::Store;
use super::Writer;
use super::locked;
use super::packs::Place;
use crate::Error;
use crate::Grant;
use crate::Limits;
use crate::Result;
use crate::hex;
use crate::journal::now_ms;
use partial_logs::Failure;
use partial_logs::Outcome;
use partial_logs::PartialLog;
use partial_logs::VectorHash;
use rusqlite::OptionalExtension;
use rusqlite::Transaction;
use rusqlite::params;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What became of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// On disk. The bug is that of a failing run.
    Accepted {
        hash: [u8; 32],
        bug: Option<String>,
    },
    /// It was there before.
    Duplicate {
        hash: [u8; 32],
        bug: Option<String>,
    },
    Refused {
        why: String,
    },
}

/// A log that was read and found to be right.
struct Checked {
    hash: [u8; 32],
    bytes: usize,
    log: PartialLog,
    bug: Option<String>,
}

/// What a token has used so far, and what this batch adds.
struct Use {
    logs: u64,
    bytes: u64,
    unregistered: u64,
}

impl Store {
    /// Each log is accepted or refused by itself; what is accepted is on disk when this returns. If this fails, nothing of the batch was stored.
    pub fn add_logs(&self, grant: &Grant, limits: &Limits, logs: &[&[u8]]) -> Result<Vec<Answer>> {
        let checked: Vec<_> = logs.iter().map(|bytes| check(&grant.project, limits, bytes)).collect();
        let mut writer = locked(&self.writer);
        let Writer { database, packs } = &mut *writer;
        let failed = || Error::database("take in logs");
        let transaction = database.transaction().map_err(failed())?;
        let mut batch = Batch::begin(&transaction, grant, limits).map_err(failed())?;
        let mut answers = Vec::with_capacity(checked.len());
        let mut accepted = Vec::new();
        for one in checked {
            answers.push(match one {
                Err(why) => Answer::Refused { why },
                Ok(log) => {
                    let answer = batch.decide(&log).map_err(failed())?;
                    if matches!(answer, Answer::Accepted { .. }) {
                        accepted.push(log);
                    }
                    answer
                }
            });
        }
        if accepted.is_empty() {
            return Ok(answers);
        }
        let (new, mut ids) = batch.vectors_of(&accepted).map_err(failed())?;
        let end = packs.end();
        let places = match new.is_empty() {
            true => Vec::new(),
            false => packs.append(&new)?,
        };
        let stored = batch
            .store_vectors(&new, &places, packs.end(), &mut ids)
            .and_then(|()| batch.store_logs(&accepted, &ids))
            .and_then(|()| transaction.commit());
        stored.map_err(|error| {
            let error = failed()(error);
            // A commit that could not be written is none. One that could not be synced may yet turn out to be one, so its vectors stay.
            if matches!(&error, Error::Database { error, .. } if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull))
            {
                packs.take_back(end);
            }
            error
        })?;
        Ok(answers)
    }
}

/// Everything that can be said of a log by itself.
fn check(project: &str, limits: &Limits, bytes: &[u8]) -> std::result::Result<Checked, String> {
    if bytes.len() > limits.log_bytes_max {
        return Err(format!(
            "it has {} bytes, and a log may have {}",
            bytes.len(),
            limits.log_bytes_max
        ));
    }
    let log = PartialLog::decode(bytes).map_err(|corrupt| corrupt.to_string())?;
    if log.elements.len() > limits.log_elements_max {
        return Err(format!(
            "it has {} elements, and a log may have {}",
            log.elements.len(),
            limits.log_elements_max
        ));
    }
    let bug = log
        .failure
        .as_ref()
        .map(|failure| bug_id(project, &log.build.0, failure));
    Ok(Checked {
        hash: *blake3::hash(bytes).as_bytes(),
        bytes: bytes.len(),
        log,
        bug,
    })
}

/// Of a failure of a build in a project.
pub fn bug_id(project: &str, build: &[u8; 32], failure: &Failure) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("refrain fleet bug");
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(project.as_bytes());
    part(build);
    let (kind, value) = outcome_numbers(failure.outcome);
    part(&[kind, value]);
    failure.frames.iter().for_each(|frame| part(frame.as_bytes()));
    part(failure.text.as_bytes());
    hex(&hasher.finalize().as_bytes()[..8])
}

pub fn outcome_numbers(outcome: Outcome) -> (u8, u8) {
    match outcome {
        Outcome::Exit(status) => (0, status),
        Outcome::Signal(signal) => (1, signal),
        Outcome::TimedOut => (2, 0),
    }
}

pub fn outcome_of_numbers(kind: u8, value: u8) -> Outcome {
    match kind {
        0 => Outcome::Exit(value),
        1 => Outcome::Signal(value),
        _ => Outcome::TimedOut,
    }
}

/// A batch that is being taken in.
struct Batch<'a> {
    transaction: &'a Transaction<'a>,
    grant: &'a Grant,
    limits: &'a Limits,
    used: Use,
    bugs: u64,
    /// Of this batch.
    seen: BTreeSet<[u8; 32]>,
    new_bugs: BTreeSet<String>,
    /// Elements of registered builds; nothing for others.
    elements: BTreeMap<[u8; 32], Option<BTreeSet<u32>>>,
}

impl<'a> Batch<'a> {
    fn begin(transaction: &'a Transaction<'a>, grant: &'a Grant, limits: &'a Limits) -> rusqlite::Result<Batch<'a>> {
        let used = "SELECT logs, bytes, unregistered FROM uses WHERE token = ?1";
        let used = transaction.query_row(used, [grant.id.as_slice()], |row| {
            Ok(Use {
                logs: row.get::<_, i64>(0)? as u64,
                bytes: row.get::<_, i64>(1)? as u64,
                unregistered: row.get::<_, i64>(2)? as u64,
            })
        });
        let used = used.optional()?.unwrap_or(Use {
            logs: 0,
            bytes: 0,
            unregistered: 0,
        });
        let bugs = "SELECT count(*) FROM bugs WHERE project = ?1";
        let bugs: i64 = transaction.query_row(bugs, [&grant.project], |row| row.get(0))?;
        Ok(Batch {
            transaction,
            grant,
            limits,
            used,
            bugs: bugs as u64,
            seen: BTreeSet::new(),
            new_bugs: BTreeSet::new(),
            elements: BTreeMap::new(),
        })
    }

    fn decide(&mut self, log: &Checked) -> rusqlite::Result<Answer> {
        let (hash, bug) = (log.hash, log.bug.clone());
        let project = &self.grant.project;
        let known = "SELECT 1 FROM logs WHERE project = ?1 AND hash = ?2";
        let mut known = self.transaction.prepare_cached(known)?;
        if self.seen.contains(&hash) || known.exists(params![project, hash])? {
            return Ok(Answer::Duplicate { hash, bug });
        }
        if let Some(why) = self.why_not(log)? {
            return Ok(Answer::Refused { why });
        }
        self.seen.insert(hash);
        Ok(Answer::Accepted { hash, bug })
    }

    /// Counts it as used if there is no reason.
    fn why_not(&mut self, log: &Checked) -> rusqlite::Result<Option<String>> {
        let limits = self.limits;
        if self.used.logs >= limits.token_logs_max {
            return Ok(Some(format!(
                "this token has stored {} logs, its quota",
                self.used.logs
            )));
        }
        let bytes = log.bytes as u64;
        if self.used.bytes.saturating_add(bytes) > limits.token_bytes_max {
            return Ok(Some(format!(
                "this token has stored {} bytes of its quota of {}",
                self.used.bytes, limits.token_bytes_max
            )));
        }
        let is_registered = match self.elements_of(&log.log.build.0)? {
            None => false,
            Some(known) => {
                let unknown = log.log.elements.keys().find(|element| !known.contains(&element.0));
                if let Some(element) = unknown {
                    return Ok(Some(format!("its build has no element {}", element.0)));
                }
                true
            }
        };
        if !is_registered && self.used.unregistered >= limits.token_unregistered_logs_max {
            return Ok(Some(format!(
                "build {} is not registered, and this token has stored {} logs of such builds: an operator registers it with add-build",
                hex(&log.log.build.0),
                self.used.unregistered
            )));
        }
        if let Some(bug) = &log.bug
            && !self.new_bugs.contains(bug)
        {
            let mut known = self.transaction.prepare_cached("SELECT 1 FROM bugs WHERE id = ?1")?;
            if !known.exists([bug])? {
                if self.bugs >= limits.project_bugs_max {
                    return Ok(Some(format!(
                        "this project has {} bugs, and no more are taken",
                        self.bugs
                    )));
                }
                self.bugs += 1;
                self.new_bugs.insert(bug.clone());
            }
        }
        self.used.logs += 1;
        self.used.bytes += bytes;
        self.used.unregistered += u64::from(!is_registered);
        Ok(None)
    }

    fn elements_of(&mut self, build: &[u8; 32]) -> rusqlite::Result<Option<&BTreeSet<u32>>> {
        if !self.elements.contains_key(build) {
            let project = &self.grant.project;
            let known = "SELECT 1 FROM builds WHERE project = ?1 AND build = ?2";
            let is_registered = self
                .transaction
                .prepare_cached(known)?
                .exists(params![project, build])?;
            let elements = match is_registered {
                false => None,
                true => {
                    let all = "SELECT element FROM build_elements WHERE project = ?1 AND build = ?2";
                    let mut all = self.transaction.prepare_cached(all)?;
                    let rows = all.query_map(params![project, build], |row| row.get(0))?;
                    Some(rows.collect::<rusqlite::Result<_>>()?)
                }
            };
            self.elements.insert(*build, elements);
        }
        Ok(self.elements.get(build).and_then(Option::as_ref))
    }

    /// Those that are not in the store yet, and the numbers of those that are.
    #[expect(clippy::type_complexity, reason = "hash and bytes, as packs take them")]
    fn vectors_of(
        &self,
        accepted: &[Checked],
    ) -> rusqlite::Result<(Vec<([u8; 32], Vec<u8>)>, BTreeMap<[u8; 32], i64>)> {
        let mut known = self
            .transaction
            .prepare_cached("SELECT id FROM vectors WHERE project = ?1 AND hash = ?2")?;
        let mut new: BTreeMap<[u8; 32], Vec<u8>> = BTreeMap::new();
        let mut ids = BTreeMap::new();
        for recorded in accepted.iter().flat_map(|one| one.log.elements.values()) {
            let VectorHash(hash) = recorded.hash;
            if new.contains_key(&hash) || ids.contains_key(&hash) {
                continue;
            }
            let id = known.query_row(params![self.grant.project, hash], |row| row.get(0));
            match id.optional()? {
                Some(id) => _ = ids.insert(hash, id),
                None => _ = new.insert(hash, recorded.vector.encode()),
            }
        }
        Ok((new.into_iter().collect(), ids))
    }

    fn store_vectors(
        &self,
        new: &[([u8; 32], Vec<u8>)],
        places: &[Place],
        end: (u32, u64),
        ids: &mut BTreeMap<[u8; 32], i64>,
    ) -> rusqlite::Result<()> {
        let insert = "INSERT INTO vectors (project, hash, pack, offset, length) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = self.transaction.prepare_cached(insert)?;
        for ((hash, _), place) in new.iter().zip(places) {
            let offset = place.offset as i64;
            let id = insert.insert(params![self.grant.project, hash, place.pack, offset, place.length])?;
            ids.insert(*hash, id);
        }
        self.transaction.execute(
            "INSERT INTO packs (number, length) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET length = excluded.length",
            params![end.0, end.1 as i64],
        )?;
        Ok(())
    }

    fn store_logs(&self, accepted: &[Checked], ids: &BTreeMap<[u8; 32], i64>) -> rusqlite::Result<()> {
        let at = now_ms();
        let mut uses: BTreeMap<([u8; 32], u32), ElementUse> = BTreeMap::new();
        for one in accepted {
            self.store_log(one, at, ids)?;
            if let (Some(bug), Some(failure)) = (&one.bug, &one.log.failure) {
                self.count_bug(bug, &one.log, failure, at)?;
            }
            for (element, recorded) in &one.log.elements {
                let sums = uses.entry((one.log.build.0, element.0)).or_default();
                let is_shared = recorded.vector.is_shared();
                sums.logs += 1;
                sums.shared += u64::from(is_shared);
                sums.conflicts += u64::from(is_shared && recorded.has_conflict);
                sums.accesses = sums.accesses.saturating_add(recorded.vector.accesses());
            }
        }
        self.store_uses(&uses)?;
        let used = &self.used;
        self.transaction.execute(
            "INSERT INTO uses (token, logs, bytes, unregistered) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET logs = excluded.logs, bytes = excluded.bytes, unregistered = excluded.unregistered",
            params![
                self.grant.id.as_slice(),
                used.logs as i64,
                used.bytes as i64,
                used.unregistered as i64
            ],
        )?;
        Ok(())
    }

    fn store_log(&self, one: &Checked, at: i64, ids: &BTreeMap<[u8; 32], i64>) -> rusqlite::Result<()> {
        let log = &one.log;
        let mut elements = Vec::with_capacity(12 * log.elements.len());
        for (element, recorded) in &log.elements {
            elements.extend(element.0.to_le_bytes());
            elements.extend(ids[&recorded.hash.0].to_le_bytes());
        }
        let (kind, value) = outcome_numbers(log.outcome);
        let insert =
            "INSERT INTO logs (project, hash, build, bug, inputs, share, number, outcome, value, at, bytes, elements)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        self.transaction.prepare_cached(insert)?.execute(params![
            self.grant.project,
            one.hash,
            log.build.0,
            one.bug,
            log.inputs.0,
            log.pattern.share,
            log.pattern.number,
            kind,
            value,
            at,
            one.bytes as i64,
            elements
        ])?;
        Ok(())
    }

    fn count_bug(&self, bug: &str, log: &PartialLog, failure: &Failure, at: i64) -> rusqlite::Result<()> {
        let (kind, value) = outcome_numbers(failure.outcome);
        let frames = serde_json::Value::from(failure.frames.clone()).to_string();
        let insert = "INSERT INTO bugs (id, project, build, outcome, value, frames, said, first_at, last_at, logs)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, 1)
                      ON CONFLICT DO UPDATE SET logs = logs + 1, last_at = excluded.last_at";
        let mut insert = self.transaction.prepare_cached(insert)?;
        insert.execute(params![
            bug,
            self.grant.project,
            log.build.0,
            kind,
            value,
            frames,
            failure.text,
            at
        ])?;
        let count =
            "INSERT INTO bug_hours (bug, hour, logs) VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET logs = logs + 1";
        let mut count = self.transaction.prepare_cached(count)?;
        count.execute(params![bug, at / 3_600_000])?;
        Ok(())
    }

    fn store_uses(&self, uses: &BTreeMap<([u8; 32], u32), ElementUse>) -> rusqlite::Result<()> {
        let add =
            "INSERT INTO element_uses (project, build, element, logs, shared, conflicts, accesses) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                   ON CONFLICT DO UPDATE SET logs = logs + excluded.logs, shared = shared + excluded.shared, conflicts = conflicts + excluded.conflicts,
                     accesses = min(accesses + excluded.accesses, 4611686018427387904)";
        let mut add = self.transaction.prepare_cached(add)?;
        for ((build, element), used) in uses {
            // Two of these never overflow.
            let accesses = used.accesses.min(1 << 61) as i64;
            let (logs, shared, conflicts) = (used.logs as i64, used.shared as i64, used.conflicts as i64);
            add.execute(params![
                self.grant.project,
                build,
                element,
                logs,
                shared,
                conflicts,
                accesses
            ])?;
        }
        Ok(())
    }
}
