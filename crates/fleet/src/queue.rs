//! Logs that wait to be sent: on disk from the moment they are made until the server has said that it has them.
//!
//! `$REFRAIN_DIR/fleet/queue/SERVER/HASH.log`, and `HASH.inputs` if its inputs are to be sent, too. Names appear by a rename, so that whoever is killed leaves
//! a whole log or none. Several commands may send the same logs at once: the server takes each once.
use crate::trouble::Result;
use crate::trouble::Trouble;
use run_store::Store;
use run_store::shown_path;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;

const LOG: &str = "log";
const INPUTS: &str = "inputs";
/// What one request carries.
const BATCH_LOGS: usize = 200;
const BATCH_BYTES: usize = 8 << 20;

pub struct Queue {
    folder: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// BLAKE3 of the log, in hexadecimal.
    pub hash: String,
    pub log: Vec<u8>,
}

impl Queue {
    /// Of logs for the server at `url`.
    pub fn open(store: &Store, url: &str) -> Result<Queue> {
        let server = blake3::hash(url.as_bytes()).to_hex();
        let folder = store.root().join("fleet/queue").join(&server[..16]);
        run_store::create_directories(&folder).map_err(|e| failed("create", &folder, &e))?;
        Ok(Queue { folder })
    }

    pub fn add(&self, log: &[u8], inputs: Option<&[u8]>) -> Result<String> {
        let hash = blake3::hash(log).to_hex().to_string();
        // First, so that the log is never sent without them.
        if let Some(inputs) = inputs {
            self.write(&self.path(&hash, INPUTS), inputs)?;
        }
        self.write(&self.path(&hash, LOG), log)?;
        Ok(hash)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let part = self.folder.join(format!(
            ".{}-{}",
            std::process::id(),
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        let write = || -> io::Result<()> {
            run_store::write_file(&part, bytes)?;
            File::open(&part)?.sync_all()?;
            fs::rename(&part, path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|e| failed("write", path, &e))
    }

    fn path(&self, hash: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{hash}.{extension}"))
    }

    /// All hashes that wait, in their order.
    pub fn hashes(&self) -> Result<Vec<String>> {
        let read = fs::read_dir(&self.folder).map_err(|e| failed("read", &self.folder, &e))?;
        let hash = |entry: io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let stem = path.file_stem()?.to_str()?;
            let is_log = path.extension() == Some(OsStr::new(LOG)) && is_hash(stem);
            is_log.then(|| stem.to_owned())
        };
        let mut hashes: Vec<String> = read.filter_map(hash).collect();
        hashes.sort();
        Ok(hashes)
    }

    /// As many of these as fit into one request. What somebody else has sent meanwhile is left out, and what is damaged is put aside.
    pub fn batch(&self, hashes: &mut Vec<String>) -> Vec<Waiting> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(hash) = hashes.last() {
            if let Some(log) = self.read(hash, LOG).filter(|log| self.is_whole(hash, log)) {
                if !batch.is_empty() && (bytes + log.len() > BATCH_BYTES || batch.len() >= BATCH_LOGS) {
                    break;
                }
                bytes += log.len();
                batch.push(Waiting {
                    hash: hash.clone(),
                    log,
                });
            }
            hashes.pop();
        }
        batch
    }

    fn is_whole(&self, hash: &str, log: &[u8]) -> bool {
        let is_whole = blake3::hash(log).to_hex().as_str() == hash;
        if !is_whole {
            let path = self.path(hash, LOG);
            // Whoever cannot rename it meets it again.
            let _ = fs::rename(&path, path.with_extension("damaged"));
        }
        is_whole
    }

    fn read(&self, hash: &str, extension: &str) -> Option<Vec<u8>> {
        fs::read(self.path(hash, extension)).ok()
    }

    pub fn inputs(&self, hash: &str) -> Option<Vec<u8>> {
        self.read(hash, INPUTS)
    }

    /// The server has it, or will never take it.
    pub fn remove(&self, hash: &str) {
        // What stays is sent again, and does no harm.
        let _ = fs::remove_file(self.path(hash, LOG));
        let _ = fs::remove_file(self.path(hash, INPUTS));
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Trouble {
    Trouble::unusable(format!("cannot {doing} {}: {error}", shown_path(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn queue() -> (TempDir, Queue) {
        let root = TempDir::new().expect("a temporary directory");
        let store = Store::at(root.path()).expect("a store");
        let queue = Queue::open(&store, "http://127.0.0.1:1").expect("a queue");
        (root, queue)
    }

    #[test]
    fn what_is_added_waits_until_it_is_removed() {
        let (_root, queue) = queue();
        let one = queue.add(b"one", None).expect("added");
        let two = queue.add(b"two", Some(b"inputs")).expect("added");
        assert_eq!(queue.add(b"one", None).expect("added"), one);
        let mut hashes = queue.hashes().expect("hashes");
        assert_eq!(hashes.len(), 2);
        assert_eq!(queue.batch(&mut hashes).len(), 2);
        assert_eq!(queue.inputs(&two).as_deref(), Some(&b"inputs"[..]));
        queue.remove(&one);
        queue.remove(&two);
        assert_eq!(queue.hashes().expect("hashes"), Vec::<String>::new());
        assert_eq!(queue.inputs(&two), None);
    }

    #[test]
    fn damaged_logs_are_put_aside_and_the_others_are_sent() {
        let (_root, queue) = queue();
        let one = queue.add(b"one", None).expect("added");
        queue.add(b"two", None).expect("added");
        fs::write(queue.path(&one, LOG), b"on").expect("written");
        let batch = queue.batch(&mut queue.hashes().expect("hashes"));
        assert_eq!(batch.iter().map(|w| &w.log[..]).collect::<Vec<_>>(), [b"two"]);
        assert_eq!(queue.hashes().expect("hashes").len(), 1);
    }

    #[test]
    fn large_queues_go_in_several_requests() {
        let (_root, queue) = queue();
        let log = |n: u8| vec![n; BATCH_BYTES / 2 + 1];
        (0..3).for_each(|n| _ = queue.add(&log(n), None).expect("added"));
        let mut hashes = queue.hashes().expect("hashes");
        for _ in 0..3 {
            assert_eq!(queue.batch(&mut hashes).len(), 1);
        }
        assert!(queue.batch(&mut hashes).is_empty());
    }
}
