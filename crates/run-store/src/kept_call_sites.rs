//! Where libc enters the kernel, kept from one command to the next: finding that takes some milliseconds, and libc hardly ever changes.
//!
//! One file in the place where runs live, `libc-call-sites`: `MAGIC`, 64 hexadecimal digits, and the table (`runtime_abi::call_sites`). The digits are the BLAKE3 of the
//! table and of what it was found by: path and state of the libc, and of the program that looked, which may look otherwise in its next version. Whatever is not
//! exactly that counts as not there, is found again, and is kept instead. Nothing depends on it but time, so nobody is told if it cannot be read or written.
use crate::FileState;
use crate::Store;
use crate::hash_bytes;
use crate::schedules::owned;
use crate::write_whole;
use runtime_abi::call_sites::Table;
use std::env;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

const NAME: &str = "libc-call-sites";
const MAGIC: &[u8] = b"RFRNLCS\x01";
const DIGITS: usize = 64;

impl Store {
    /// The table that was kept for this libc, if it is as it was then, and so are we.
    pub fn kept_call_sites(&self, libc: &Path) -> Option<Vec<u8>> {
        let bytes_max = (MAGIC.len() + DIGITS + size_of::<Table>()) as u64;
        let (file, length) = owned::file(&self.place()).ok()??;
        if length > bytes_max {
            return None;
        }
        let mut bytes = Vec::new();
        // It may have grown since.
        file.take(bytes_max).read_to_end(&mut bytes).ok()?;
        let (digits, table) = bytes.strip_prefix(MAGIC)?.split_at_checked(DIGITS)?;
        (digits == digest(libc, table)?.as_bytes()).then(|| table.to_vec())
    }

    /// Keeps it, if there is a place where runs live.
    pub fn keep_call_sites(&self, libc: &Path, table: &[u8]) {
        if let (true, Some(digits)) = (self.root().is_dir(), digest(libc, table)) {
            // The next command finds it again.
            let _ = write_whole(&self.place(), &[MAGIC, digits.as_bytes(), table].concat());
        }
    }

    fn place(&self) -> PathBuf {
        self.root().join(NAME)
    }
}

fn digest(libc: &Path, table: &[u8]) -> Option<String> {
    let us = env::current_exe().ok()?;
    let states = [FileState::of(libc).ok()?, FileState::of(&us).ok()?];
    let states = serde_json::to_vec(&states).ok()?;
    let paths = [libc, &us].map(|path| path.as_os_str().as_encoded_bytes());
    Some(hash_bytes([MAGIC, paths[0], paths[1], &states, table]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A store in a directory of its own, and a file that stands for libc.
    fn store(name: &str) -> (Store, PathBuf) {
        let root = env::temp_dir().join(format!("refrain-kept-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).expect("a directory");
        let libc = root.join("libc");
        fs::write(&libc, "code").expect("a file");
        (Store::at(&root).expect("a store"), libc)
    }

    #[test]
    fn a_table_is_kept_until_libc_changes() {
        let (store, libc) = store("changes");
        assert_eq!(store.kept_call_sites(&libc), None);
        store.keep_call_sites(&libc, b"table");
        assert_eq!(store.kept_call_sites(&libc).as_deref(), Some(&b"table"[..]));
        let other = store.root().join("other");
        fs::copy(&libc, &other).expect("a copy");
        assert_eq!(store.kept_call_sites(&other), None);
        fs::write(&libc, "more code").expect("a file");
        assert_eq!(store.kept_call_sites(&libc), None);
        fs::remove_dir_all(store.root()).expect("it is ours");
    }

    #[test]
    fn what_is_damaged_or_may_be_somebody_elses_is_not_there() {
        let (store, libc) = store("damaged");
        store.keep_call_sites(&libc, b"table");
        let whole = fs::read(store.place()).expect("it was kept");
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(store.place(), &damaged).expect("it is ours");
            assert_eq!(store.kept_call_sites(&libc), None, "byte {place}");
            fs::write(store.place(), &whole[..place]).expect("it is ours");
            assert_eq!(store.kept_call_sites(&libc), None, "cut at {place}");
        }
        fs::write(store.place(), &whole).expect("it is ours");
        assert!(store.kept_call_sites(&libc).is_some());
        fs::set_permissions(store.place(), fs::Permissions::from_mode(0o666)).expect("it is ours");
        assert_eq!(store.kept_call_sites(&libc), None);
        fs::remove_dir_all(store.root()).expect("it is ours");
    }

    #[test]
    fn a_store_is_not_made_for_it() {
        let (store, libc) = store("absent");
        let absent = Store::at(&store.root().join("absent")).expect("a store");
        absent.keep_call_sites(&libc, b"table");
        assert!(!absent.root().exists());
        fs::remove_dir_all(store.root()).expect("it is ours");
    }
}
