//! What a server has told this client of a build: elements that only one thread ever uses, or whose order never mattered, and how much the others are used. It is kept beside the runs, and
//! is about which elements are worth recording: without it, or with an old one, recordings are as true.
use crate::Result;
use partial_logs::BuildId;
use partial_logs::ElementId;
use run_store::Store;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::PathBuf;

/// No honest advice is near this.
const BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    #[serde(default)]
    pub never_shared: BTreeSet<u32>,
    /// Of the others, those of which no memory was used by several threads of which one wrote.
    #[serde(default)]
    pub without_conflict: BTreeSet<u32>,
    /// Accesses in a run, on average.
    #[serde(default)]
    pub costs: BTreeMap<u32, u64>,
}

impl Advice {
    pub fn path(store: &Store, build: BuildId) -> PathBuf {
        let mut name = String::new();
        for byte in build.0 {
            // Writing to a string does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        store.root().join("fleet/advice").join(format!("{name}.json"))
    }

    /// None that can be read is none.
    pub fn load(store: &Store, build: BuildId) -> Advice {
        let path = Advice::path(store, build);
        let is_small = fs::metadata(&path).is_ok_and(|meta| meta.len() <= BYTES_MAX);
        let bytes = Some(path).filter(|_| is_small).and_then(|path| fs::read(path).ok());
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    pub fn save(&self, store: &Store, build: BuildId) -> Result<()> {
        let path = Advice::path(store, build);
        let failed = |e: io::Error| run_store::Error::io("write", &path, e);
        let folder = path.parent().unwrap_or(store.root());
        run_store::create_directories(folder).map_err(failed)?;
        let text = serde_json::to_vec(self).map_err(|e| failed(e.into()))?;
        let part = path.with_extension(format!("{}.part", std::process::id()));
        run_store::write_file(&part, &text).map_err(failed)?;
        fs::rename(&part, &path).map_err(failed)?;
        Ok(())
    }

    /// Elements whose vectors tell nothing: whoever comes first, the values are the same.
    pub fn without_order(&self) -> BTreeSet<ElementId> {
        let without_order = self.never_shared.union(&self.without_conflict);
        without_order.map(|id| ElementId(*id)).collect()
    }
}
