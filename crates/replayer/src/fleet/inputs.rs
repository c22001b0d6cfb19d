//! What a run was given, so that it can be given again: arguments, environment, folder, standard input, and the files it read. It leaves a client only if
//! that says so (`--with-inputs`).
//!
//! ```text
//! inputs = "refrainI", version (2 bytes), length (4), JSON (`Head`), standard input, contents of the files in their order
//! ```
//!
//! NOTE [Inputs from others]
//!
//! Whoever runs a program on inputs that somebody sent runs the program, and nothing that was sent. So variables that make a loader, or libc, load code are
//! not among them; files are seen by the attempt alone ([`Stage`]), none of them where systems keep their programs, libraries and settings, and none of them
//! a program itself.
use super::partial::read;
use crate::Error;
use crate::Result;
use crate::stage::Stage;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Text;
use run_store::shown_path;
use runtime_abi::vectors_file::SOURCES_FILE_NAME;
use runtime_abi::vectors_file::source;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;

const MAGIC: [u8; 8] = *b"refrainI";
const VERSION: u16 = 1;
const PREFIX_BYTES: usize = MAGIC.len() + 2 + 4;
/// Of everything together.
pub const INPUTS_BYTES_MAX: usize = 64 << 20;
/// Where every machine has its own.
const OF_THE_SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
];
/// Variables by which a program, its loader or its libc is made to load or run other code.
const LOADING: [&str; 12] = [
    "LD_", "GLIBC_", "GCONV_", "LOCPATH", "NLSPATH", "OPENSSL_", "PYTHON", "PERL", "RUBY", "NODE_", "BASH_ENV", "ENV",
];
const ELF: &[u8] = b"\x7fELF";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunInputs {
    /// Behind the program's name.
    pub arguments: Vec<Text>,
    pub environment: Vec<(Text, Text)>,
    pub folder: Text,
    pub standard_input: Vec<u8>,
    /// Files that it read, by their paths.
    pub files: BTreeMap<Text, Vec<u8>>,
    /// Folders of files that it only wrote.
    pub folders: BTreeSet<Text>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    arguments: Vec<Text>,
    environment: Vec<(Text, Text)>,
    folder: Text,
    standard_input: u64,
    files: Vec<(Text, u64)>,
    #[serde(default)]
    folders: BTreeSet<Text>,
}

/// A record of the run's file `sources`.
#[derive(Default)]
struct Sources {
    files: BTreeSet<PathBuf>,
    written: BTreeSet<PathBuf>,
    /// Thread and event of reads of standard input, in their order.
    reads: Vec<(u32, u64)>,
    is_terminal: bool,
    is_connected: bool,
}

impl Sources {
    fn parse(bytes: &[u8]) -> Sources {
        let mut sources = Sources::default();
        for record in bytes.split(|byte| *byte == 0) {
            let Some((kind, what)) = record.split_first() else {
                continue;
            };
            let path = || PathBuf::from(OsStr::from_bytes(what));
            match *kind {
                source::FILE => _ = sources.files.insert(path()),
                source::WRITTEN => _ = sources.written.insert(path()),
                source::TERMINAL => sources.is_terminal = true,
                source::CONNECTION => sources.is_connected = true,
                source::STANDARD_INPUT => sources.reads.extend(read_place(what)),
                _ => {}
            }
        }
        sources
    }
}

fn read_place(text: &[u8]) -> Option<(u32, u64)> {
    let (thread, event) = str::from_utf8(text).ok()?.split_once(' ')?;
    Some((thread.parse().ok()?, event.parse().ok()?))
}

impl RunInputs {
    /// What a run that was recorded here was given, or why that cannot be sent.
    pub fn gather(run: &RunDirectory) -> Result<RunInputs> {
        let (meta, _) = run.load()?;
        let cannot = |why: String| Error::InputsStayHere {
            path: run.path().to_owned(),
            why,
        };
        let noted = run.file(SOURCES_FILE_NAME);
        if !noted.exists() {
            return Err(cannot(
                "which files it read, only recordings by --method coop note".to_owned(),
            ));
        }
        let sources = Sources::parse(&read(&noted)?);
        if sources.is_connected {
            return Err(cannot("it had a connection to another program".to_owned()));
        }
        if sources.is_terminal {
            return Err(cannot("it read from a terminal".to_owned()));
        }
        let mut inputs = RunInputs::of_command(&meta);
        inputs.standard_input = standard_input(run, &sources.reads);
        for path in sources.files.iter().filter(|path| is_own(path)) {
            let Ok(file) = fs::metadata(path) else {
                return Err(cannot(format!("{} is no longer there", shown_path(path))));
            };
            // Devices, pipes and folders are not files to send; what they said is gone.
            if !file.is_file() {
                continue;
            }
            if file.mtime() as u64 >= meta.started.max(1) {
                return Err(cannot(format!("{} was changed since it began", shown_path(path))));
            }
            let bytes = read(path)?;
            if bytes.starts_with(ELF) {
                continue;
            }
            inputs.files.insert(Text(path.clone().into_os_string()), bytes);
            if inputs.bytes() > INPUTS_BYTES_MAX {
                return Err(cannot(format!("they are more than {} MB", INPUTS_BYTES_MAX >> 20)));
            }
        }
        let folders = sources
            .written
            .iter()
            .filter_map(|path| path.parent())
            .filter(|path| is_own(path));
        inputs.folders = folders.map(|path| Text(path.as_os_str().to_owned())).collect();
        Ok(inputs)
    }

    /// Arguments, environment and folder, without the values of variables that are nobody's business.
    pub fn of_command(meta: &RunMeta) -> RunInputs {
        let is_sent = |(name, _): &&(Text, Text)| !meta.redacted.contains(name) && !loads_code(name.as_os_str());
        RunInputs {
            arguments: meta.program_arguments().iter().skip(1).cloned().collect(),
            environment: meta.env.iter().filter(is_sent).cloned().collect(),
            folder: meta.cwd.clone(),
            ..RunInputs::default()
        }
    }

    fn bytes(&self) -> usize {
        self.standard_input.len() + self.files.values().map(Vec::len).sum::<usize>()
    }

    pub fn encode(&self) -> Vec<u8> {
        let head = Head {
            arguments: self.arguments.clone(),
            environment: self.environment.clone(),
            folder: self.folder.clone(),
            standard_input: self.standard_input.len() as u64,
            files: self
                .files
                .iter()
                .map(|(path, bytes)| (path.clone(), bytes.len() as u64))
                .collect(),
            folders: self.folders.clone(),
        };
        let head = serde_json::to_vec(&head).expect("strings and numbers can be written as JSON");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((head.len() as u32).to_le_bytes());
        bytes.extend(head);
        bytes.extend(&self.standard_input);
        self.files.values().for_each(|file| bytes.extend(file));
        bytes
    }

    /// What somebody sent, if it is harmless: see NOTE [Inputs from others]. The error is a sentence.
    pub fn decode(bytes: &[u8]) -> std::result::Result<RunInputs, String> {
        let (prefix, rest) = bytes
            .split_at_checked(PREFIX_BYTES)
            .filter(|(prefix, _)| prefix.starts_with(&MAGIC))
            .ok_or("these are not the inputs of a run of Refrain's")?;
        let version = u16::from_le_bytes([prefix[8], prefix[9]]);
        if version != VERSION {
            return Err(format!("inputs of format v{version}; this build reads v{VERSION}"));
        }
        let length = u32::from_le_bytes([prefix[10], prefix[11], prefix[12], prefix[13]]) as usize;
        let (head, mut rest) = rest.split_at_checked(length).ok_or("the inputs are cut off")?;
        let head: Head = serde_json::from_slice(head).map_err(|e| format!("the head of the inputs is damaged: {e}"))?;
        let mut take = |length: u64| {
            let taken = usize::try_from(length)
                .ok()
                .and_then(|length| rest.split_at_checked(length));
            let (taken, others) = taken.ok_or("the inputs are cut off")?;
            rest = others;
            Ok::<_, String>(taken.to_vec())
        };
        let standard_input = take(head.standard_input)?;
        let mut files = BTreeMap::new();
        for (path, length) in head.files {
            files.insert(path, take(length)?);
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes follow the inputs", rest.len()));
        }
        let inputs = RunInputs {
            arguments: head.arguments,
            environment: head.environment,
            folder: head.folder,
            standard_input,
            files,
            folders: head.folders,
        };
        inputs.harmless()
    }

    fn harmless(self) -> std::result::Result<RunInputs, String> {
        let has_nul = |text: &Text| text.as_os_str().as_bytes().contains(&0);
        let named = self.environment.iter().flat_map(|(name, value)| [name, value]);
        if self.arguments.iter().chain(named).chain([&self.folder]).any(has_nul) {
            return Err("an argument, variable or folder of the inputs has a zero byte".to_owned());
        }
        if let Some((name, _)) = self.environment.iter().find(|(name, _)| loads_code(name.as_os_str())) {
            return Err(format!("the inputs set {name}, by which code is loaded"));
        }
        let paths = self.files.keys().chain(&self.folders);
        for path in paths.map(|text| Path::new(text.as_os_str())) {
            if !is_plain(path) || !is_own(path) {
                return Err(format!(
                    "the inputs have a file at {}, where none may be",
                    shown_path(path)
                ));
            }
        }
        if !is_plain(Path::new(self.folder.as_os_str())) {
            return Err("the folder of the inputs is not a plain absolute path".to_owned());
        }
        match self.files.iter().find(|(_, bytes)| bytes.starts_with(ELF)) {
            Some((path, _)) => Err(format!("{path} among the inputs is a program")),
            None => Ok(self),
        }
    }

    /// Starts a command that finds these files where they were, in the folder that was the run's. Copies of the files are put into `copies`, which must stay
    /// as long as it runs.
    pub fn spawn(&self, command: &mut Command, copies: &Path) -> Result<Child> {
        let mut stage = Stage::default();
        for (number, (path, bytes)) in self.files.iter().enumerate() {
            let path = Path::new(path.as_os_str());
            if fs::read(path).is_ok_and(|here| here == *bytes) {
                continue;
            }
            let copy = copies.join(format!("file-{number}"));
            run_store::write_file(&copy, bytes).map_err(|e| run_store::Error::io("write", &copy, e))?;
            stage.put_file(path, &copy);
        }
        let folder = Path::new(self.folder.as_os_str());
        let folders = self.folders.iter().map(|text| Path::new(text.as_os_str()));
        folders.chain([folder]).for_each(|folder| stage.put_directory(folder));
        let path = PathBuf::from(command.get_program());
        if stage.is_empty() {
            let spawned = command.current_dir(folder).spawn();
            return spawned.map_err(|source| Error::CannotStart { path, source });
        }
        let staging = stage.set(command, folder)?;
        command.spawn().map_err(|source| {
            let failed = staging.failed_step(&source);
            failed.unwrap_or(Error::CannotStart { path, source })
        })
    }
}

/// Is it a file of the user's, not of the system's?
fn is_own(path: &Path) -> bool {
    !OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// Absolute, and nothing in it but names.
fn is_plain(path: &Path) -> bool {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::RootDir);
    path.is_absolute() && path.components().all(is_name) && !path.as_os_str().as_bytes().contains(&0)
}

fn loads_code(name: &OsStr) -> bool {
    LOADING.iter().any(|prefix| match *prefix {
        "ENV" => name == "ENV",
        prefix => name.as_bytes().starts_with(prefix.as_bytes()),
    })
}

/// What the reads of standard input brought, in their order.
fn standard_input(run: &RunDirectory, reads: &[(u32, u64)]) -> Vec<u8> {
    let mut brought: BTreeMap<(u32, u64), Vec<u8>> = BTreeMap::new();
    let threads: BTreeSet<u32> = reads.iter().map(|(thread, _)| *thread).collect();
    for thread in threads {
        super::partial::for_each_call(run, thread, |entry, data| {
            brought.insert((thread, entry.event), data.to_vec());
        });
    }
    reads
        .iter()
        .filter_map(|place| brought.get(place))
        .flatten()
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> RunInputs {
        RunInputs {
            arguments: vec!["4".into(), "in put".into()],
            environment: vec![("HOME".into(), "/home/me".into())],
            folder: "/home/me".into(),
            standard_input: b"12\n".to_vec(),
            files: BTreeMap::from([
                ("/home/me/a".into(), b"one".to_vec()),
                ("/home/me/b".into(), Vec::new()),
            ]),
            folders: BTreeSet::from(["/home/me/out".into()]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(RunInputs::decode(&inputs().encode()), Ok(inputs()));
    }

    #[test]
    fn what_is_cut_or_goes_on_is_refused() {
        let bytes = inputs().encode();
        for length in 0..bytes.len() {
            assert!(RunInputs::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        assert!(RunInputs::decode(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn nothing_that_was_sent_is_executed() {
        let refused = |change: fn(&mut RunInputs)| {
            let mut inputs = inputs();
            change(&mut inputs);
            assert!(RunInputs::decode(&inputs.encode()).is_err());
        };
        refused(|inputs| inputs.environment.push(("LD_PRELOAD".into(), "/home/me/a".into())));
        refused(|inputs| _ = inputs.files.insert("/lib/x86_64-linux-gnu/libc.so.6".into(), vec![1]));
        refused(|inputs| _ = inputs.files.insert("/home/me/../../etc/passwd".into(), vec![1]));
        refused(|inputs| _ = inputs.files.insert("relative".into(), vec![1]));
        refused(|inputs| _ = inputs.files.insert("/home/me/a".into(), b"\x7fELF\x02".to_vec()));
        refused(|inputs| inputs.folder = "..".into());
    }

    #[test]
    fn sources_are_understood() {
        let sources = Sources::parse(b"F/home/me/a\0I0 17\0W/home/me/out\0I2 4\0I2\0\0C\0");
        assert_eq!(sources.files, BTreeSet::from(["/home/me/a".into()]));
        assert_eq!(sources.reads, [(0, 17), (2, 4)]);
        assert!(sources.is_connected && !sources.is_terminal);
    }
}
