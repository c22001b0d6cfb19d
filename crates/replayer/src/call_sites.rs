//! Where the objects of a program enter the kernel, as the runtime wants to know it: libc beforehand, others when asked.
use crate::Error;
use crate::Result;
use crate::proven;
use crate::sys::SharedWord;
use log_format::inputs::RangeHash;
use object::Endianness;
use object::elf;
use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader;
use run_store::ControlFile;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Store;
use run_store::Text;
use run_store::UnrecordedCalls;
use runtime_abi::ControlHeader;
use runtime_abi::RUNTIME_LIBRARY;
use runtime_abi::call_sites::IDENTITY_BYTES;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;
use runtime_abi::call_sites::kind;
use runtime_abi::question;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Release;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use syscall_sites::Site;
use syscall_sites::Sites;

/// Libraries whose calls pass on purpose (`runtime`, `calls/objects.rs`), and those that are treated otherwise.
const LEFT_ALONE: [&str; 6] = [
    "libc.so.6",
    "ld-linux",
    "libgcc_s.so",
    "libomp.so",
    "libomp5.so",
    "libgomp.so",
];
/// How long to sleep between looks for questions if nobody wakes us.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Entries that one object may have; libc and others need some, too.
const LOCKED_MAX: usize = 4000;

type Identity = [u8; IDENTITY_BYTES];

/// What has been found out about the files of a program. Shared by all attempts to record it.
pub struct CallSites {
    /// The table that the first process begins with, or the reason why there is none: inputs are then not recorded.
    pub first: std::result::Result<Vec<u8>, String>,
    /// By the path, and whether all calls are wanted, because the file is a program that the runtime hosts.
    known: Mutex<Known>,
}

type Known = BTreeMap<(PathBuf, bool), Option<Arc<Analysed>>>;

struct Analysed {
    identity: Identity,
    sites: Sites,
}

impl CallSites {
    /// `store` keeps what was found out about libc.
    pub fn of(executable: &Path, store: Option<&Store>) -> CallSites {
        CallSites {
            first: table_for(executable, store),
            known: Mutex::default(),
        }
    }

    /// Was the file of this path looked at already?
    fn is_known(&self, path: &Path, is_guest: bool) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        path.is_absolute() && known.contains_key(&(path.to_owned(), is_guest))
    }

    /// Nothing for a file that cannot be read, or is no object. `path` is what it is known as, `file` where it is.
    fn analyse(&self, path: &Path, file: &Path, is_guest: bool) -> Option<Arc<Analysed>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = match is_guest {
            true => syscall_sites::find_all,
            false => syscall_sites::find_anywhere,
        };
        let analysed = known.entry((path.to_owned(), is_guest)).or_insert_with(|| {
            let bytes = fs::read(file).or_else(|_| fs::read(path)).ok()?;
            Some(Arc::new(Analysed {
                identity: identity(&bytes)?,
                sites: find(&bytes).ok()?,
            }))
        });
        analysed.clone()
    }

    /// The files of a run whose calls, or some of them, were not recorded.
    pub fn unrecorded(&self, run: &RunDirectory, meta: &RunMeta) -> Result<Vec<UnrecordedCalls>> {
        let mut objects = run.control()?.objects()?;
        for number in run.processes()? {
            // One that did not come far has no table.
            let table = run.process(number).control().and_then(|control| control.objects());
            objects.extend(table.unwrap_or_default());
        }
        let replaced: BTreeSet<Identity> = objects
            .into_iter()
            .filter(|object| object.is_replaced)
            .map(|object| object.identity)
            .collect();
        let files = std::iter::once(&meta.executable).chain(&meta.libraries);
        let mut paths: BTreeSet<PathBuf> = files.map(|file| PathBuf::from(file.path.as_os_str())).collect();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        paths.extend(known.keys().map(|(path, _)| path.clone()));
        // What the runtime could not replace there, the kernel sends to it.
        for (guest, _) in known.keys().filter(|(_, is_guest)| *is_guest) {
            paths.remove(guest);
        }
        drop(known);
        let places = |path: &Path| {
            let Analysed { identity, sites } = &*self.analyse(path, path, false)?;
            let all = sites.no_room.len() + sites.sites.len();
            Some(if replaced.contains(identity) {
                sites.no_room.len()
            } else {
                all
            })
        };
        let unrecorded = paths
            .into_iter()
            .filter(|path| !is_left_alone(path))
            .filter_map(|path| {
                let places = places(&path).filter(|places| *places > 0)?;
                Some(UnrecordedCalls {
                    path: Text::from(path.into_os_string()),
                    places: places as u64,
                })
            });
        Ok(unrecorded.collect())
    }
}

fn is_left_alone(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == RUNTIME_LIBRARY || LEFT_ALONE.iter().any(|known| name.starts_with(known))
}

/// Answers the questions of a recording's processes, from another thread, until it is dropped.
pub struct Answers {
    word: Arc<SharedWord>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    pub fn begin(sites: &Arc<CallSites>, run: &RunDirectory, control: &ControlFile) -> Result<Answers> {
        let offset = offset_of!(ControlHeader, question);
        let failed = |e| Error::Store(run_store::Error::io("map", &run.file("control"), e));
        let word = Arc::new(SharedWord::map(control.file(), offset).map_err(failed)?);
        let mut answers = Answers { word, thread: None };
        if sites.first.is_ok() {
            answers.word.word().store(question::FREE, Release);
            let (sites, word, run) = (sites.clone(), answers.word.clone(), run.clone());
            answers.thread = Some(thread::spawn(move || answer_all(&sites, &word, &run)));
        }
        Ok(answers)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.word.word().store(question::CLOSED, Release);
        self.word.wake_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did, there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

fn answer_all(sites: &CallSites, word: &SharedWord, run: &RunDirectory) {
    loop {
        match word.word().load(Acquire) {
            question::CLOSED => return,
            question::ASKED => {
                // Who gets no answer goes on, and the file is named when the run is complete.
                let _ = answer(sites, run);
                let (from, to) = (question::ASKED, question::ANSWERED);
                let _ = word.word().compare_exchange(from, to, Release, Acquire);
                word.wake_all();
            }
            other => word.wait(other, LOOK_EVERY),
        }
    }
}

fn answer(sites: &CallSites, run: &RunDirectory) -> Result<()> {
    let first = ControlFile::open(&run.file("control"))?;
    let question = first.question()?;
    let own = match question.process {
        0 => run.file("control"),
        number => run.process(number).file("control"),
    };
    // Held while we look at what it sees. One that cannot be found has the root and the directory that we have.
    let asker = match sites.is_known(&question.path, question.is_of_guest) {
        true => None,
        false => proven::of_recording(&own, question.pid, true),
    };
    let process = asker.map(|asker| Path::new("/proc").join(asker.id.to_string()));
    let process = process.unwrap_or_else(|| PathBuf::from("/proc/self"));
    let path = match question.path.is_absolute() {
        true => question.path,
        false => fs::read_link(process.join("cwd"))
            .unwrap_or_default()
            .join(question.path),
    };
    // As the process sees it, which may have another root.
    let file = process.join("root").join(path.strip_prefix("/").unwrap_or(&path));
    let Some(analysed) = sites.analyse(&path, &file, question.is_of_guest) else {
        return Ok(());
    };
    let Sites {
        sites,
        locked,
        instructions,
        ..
    } = &analysed.sites;
    if sites.is_empty() && instructions.is_empty() {
        return Ok(());
    }
    // Those that there is no room for are those at the end: a thread runs through them.
    let room = LOCKED_MAX.saturating_sub(sites.len()).min(locked.len());
    let locked = encode(&locked[..room], kind::LOCKED);
    let entries = [
        encode(sites, kind::CALL),
        encode(instructions, kind::INSTRUCTION),
        locked,
    ]
    .concat();
    ControlFile::open_to_write(&own)?.add_object(&analysed.identity, &entries)?;
    Ok(())
}

/// The table with libc alone.
fn table_for(executable: &Path, store: Option<&Store>) -> std::result::Result<Vec<u8>, String> {
    let libc = libc_of(executable)?;
    if let Some(table) = store.and_then(|store| store.kept_call_sites(&libc)) {
        return Ok(table);
    }
    let bytes = fs::read(&libc).map_err(|e| format!("cannot read {}: {e}", libc.display()))?;
    let sites = syscall_sites::find(&bytes).map_err(|e| format!("{}: {e}", libc.display()))?;
    let identity = identity(&bytes).ok_or_else(|| format!("{} has no program headers", libc.display()))?;
    let entries = [
        encode(&sites.sites, kind::CALL),
        encode(&sites.instructions, kind::INSTRUCTION),
    ];
    let table = run_store::call_sites_of(&identity, &entries.concat());
    if let Some(store) = store {
        store.keep_call_sites(&libc, &table);
    }
    Ok(table)
}

/// The libc beside the program's dynamic loader.
fn libc_of(executable: &Path) -> std::result::Result<PathBuf, String> {
    let shown = executable.display();
    let bytes = fs::read(executable).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let loader = interpreter(&bytes).ok_or_else(|| format!("{shown} names no dynamic loader"))?;
    let loader = fs::canonicalize(&loader).map_err(|e| format!("cannot find {}: {e}", loader.display()))?;
    let libc = loader.with_file_name("libc.so.6");
    match libc.is_file() {
        true => Ok(libc),
        false => Err(format!("there is no libc.so.6 beside {}", loader.display())),
    }
}

fn interpreter(elf: &[u8]) -> Option<PathBuf> {
    let header = FileHeader64::<Endianness>::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, elf).ok()?;
    let path = segments
        .iter()
        .find(|segment| segment.p_type(endian) == elf::PT_INTERP)?
        .data(endian, elf)
        .ok()?;
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}

/// What tells the object apart from others of its process; the runtime says the same of what it finds in memory.
fn identity(elf: &[u8]) -> Option<Identity> {
    let header = FileHeader64::<Endianness>::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, elf).ok()?;
    for segment in segments {
        let Ok(Some(mut notes)) = segment.notes(endian, elf) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            let is_id = note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID;
            if let (true, Ok(id)) = (is_id, note.desc().try_into()) {
                return Some(id);
            }
        }
    }
    let unwinding = segments
        .iter()
        .find(|segment| segment.p_type(endian) == elf::PT_GNU_EH_FRAME);
    let unwinding = unwinding.and_then(|segment| segment.data(endian, elf).ok());
    Some(condense(
        object::bytes_of_slice(segments),
        unwinding.unwrap_or_default(),
    ))
}

fn condense(headers: &[u8], unwinding: &[u8]) -> Identity {
    let (one, other) = unwinding.split_at(unwinding.len() / 2);
    let condensed = [headers, unwinding, one, other].map(|bytes| RangeHash::of(bytes).fold());
    let mut identity = [0; IDENTITY_BYTES];
    let numbers = condensed.into_iter().chain([unwinding.len() as u32]);
    for (place, number) in identity.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    identity
}

/// As many `runtime_abi::call_sites::Entry`.
fn encode(sites: &[Site], kind: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for site in sites {
        bytes.extend(site.address.to_le_bytes());
        let address_at = site.address_at.map_or(0, |at| at as u8 + 1);
        bytes.extend([site.bytes.len() as u8, site.syscall_at as u8, address_at, kind]);
        let mut window = [0; WINDOW_BYTES_MAX];
        window[..site.bytes.len()].copy_from_slice(&site.bytes);
        bytes.extend(window);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime_abi::call_sites::Entry;
    use runtime_abi::call_sites::Object;
    use runtime_abi::call_sites::Table;

    #[test]
    fn the_table_has_the_layout_the_runtime_maps() {
        let site = Site {
            address: 0x1234,
            bytes: vec![1, 2, 3, 4, 5, 6],
            syscall_at: 4,
            address_at: None,
        };
        let bytes = run_store::call_sites_of(&[7; 20], &encode(&[site], kind::CALL));
        assert_eq!(bytes.len(), offset_of!(Table, entries) + size_of::<Entry>());
        assert_eq!(bytes[offset_of!(Table, count)], 1);
        let object = &bytes[offset_of!(Table, objects)..];
        assert_eq!(object[offset_of!(Object, identity)..][..20], [7; 20]);
        assert_eq!(object[offset_of!(Object, entries)], 1);
        let entry = &bytes[offset_of!(Table, entries)..];
        assert_eq!(entry[offset_of!(Entry, address)..][..2], [0x34, 0x12]);
        assert_eq!(entry[offset_of!(Entry, length)], 6);
        assert_eq!(entry[offset_of!(Entry, syscall_at)], 4);
        assert_eq!(entry[offset_of!(Entry, bytes)..][..6], [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn our_own_libc_is_found() {
        let me = std::env::current_exe().expect("a test has an executable");
        assert!(table_for(&me, None).expect("a table").len() > 300 * 32);
    }

    #[test]
    fn objects_are_told_apart_without_build_ids() {
        let headers = [1; 56];
        assert_ne!(
            condense(&headers, b"some functions"),
            condense(&headers, b"more functions")
        );
        assert_ne!(condense(&headers, b""), condense(&[2; 56], b""));
    }
}
