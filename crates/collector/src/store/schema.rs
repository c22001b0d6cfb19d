//! The tables, and what a store says of itself.

/// What this build writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// Times are milliseconds since 1970; hashes are 32 bytes. Vectors are each project's own, so that no project learns from another's.
pub const TABLES: &str = "
CREATE TABLE packs (number INTEGER PRIMARY KEY, length INTEGER NOT NULL);
CREATE TABLE vectors (
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, hash BLOB NOT NULL,
  pack INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
  UNIQUE (project, hash));
CREATE TABLE builds (
  project TEXT NOT NULL, build BLOB NOT NULL, bytes INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (project, build)) WITHOUT ROWID;
CREATE TABLE build_elements (
  project TEXT NOT NULL, build BLOB NOT NULL, element INTEGER NOT NULL,
  kind TEXT NOT NULL, name TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, sites INTEGER NOT NULL,
  PRIMARY KEY (project, build, element)) WITHOUT ROWID;
CREATE TABLE bugs (
  id TEXT PRIMARY KEY, project TEXT NOT NULL, build BLOB NOT NULL,
  outcome INTEGER NOT NULL, value INTEGER NOT NULL, frames TEXT NOT NULL, said TEXT NOT NULL,
  first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, logs INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX bugs_of_project ON bugs (project, logs DESC);
CREATE TABLE bug_hours (bug TEXT NOT NULL, hour INTEGER NOT NULL, logs INTEGER NOT NULL, PRIMARY KEY (bug, hour)) WITHOUT ROWID;
CREATE TABLE logs (
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, hash BLOB NOT NULL, build BLOB NOT NULL, bug TEXT,
  inputs BLOB NOT NULL, share INTEGER NOT NULL, number INTEGER NOT NULL,
  outcome INTEGER NOT NULL, value INTEGER NOT NULL, at INTEGER NOT NULL, bytes INTEGER NOT NULL,
  elements BLOB NOT NULL, UNIQUE (project, hash));
CREATE INDEX logs_of_bug ON logs (bug) WHERE bug IS NOT NULL;
CREATE INDEX logs_passing ON logs (project, build) WHERE bug IS NULL;
CREATE TABLE element_uses (
  project TEXT NOT NULL, build BLOB NOT NULL, element INTEGER NOT NULL,
  logs INTEGER NOT NULL, shared INTEGER NOT NULL, conflicts INTEGER NOT NULL, accesses INTEGER NOT NULL,
  PRIMARY KEY (project, build, element)) WITHOUT ROWID;
CREATE TABLE inputs (
  project TEXT NOT NULL, log BLOB NOT NULL, digest BLOB NOT NULL, archive BLOB NOT NULL, bytes INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (project, log)) WITHOUT ROWID;
CREATE INDEX inputs_of_digest ON inputs (project, digest);
CREATE TABLE uses (token BLOB PRIMARY KEY, logs INTEGER NOT NULL, bytes INTEGER NOT NULL, unregistered INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE merges (
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, bug TEXT NOT NULL, wanted TEXT NOT NULL, is_fetch INTEGER NOT NULL,
  state TEXT NOT NULL, said TEXT NOT NULL, at INTEGER NOT NULL, ended_at INTEGER, run TEXT, summary TEXT NOT NULL);
CREATE INDEX merges_of_bug ON merges (bug);
CREATE TABLE attempts (
  merge INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL,
  base BLOB, relevance REAL, verdict TEXT NOT NULL, detail TEXT NOT NULL,
  PRIMARY KEY (merge, number)) WITHOUT ROWID;
";
