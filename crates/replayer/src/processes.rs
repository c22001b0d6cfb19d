//! The processes of a run other than the first: what is known of them, and whether they are still there.
use crate::Error;
use crate::Result;
use crate::libraries;
use crate::proven;
use crate::proven::Mapped;
use crate::proven::Proven;
use crate::record::input_bytes;
use run_store::Captured;
use run_store::ControlFile;
use run_store::Ended;
use run_store::Ending;
use run_store::FileIdentity;
use run_store::HeaderSnapshot;
use run_store::Origin;
use run_store::Outcome;
use run_store::PROGRAM;
use run_store::ProcessMeta;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::SlotSnapshot;
use run_store::Text;
use run_store::Truncated;
use runtime_abi::start_file::CHECKS as START_CHECKS;
use runtime_abi::start_file::check as start_check;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// More than a kernel gives a program in all.
const STRINGS_BYTES_MAX: u64 = 64 << 20;

/// What is known of each process that joined the run, in the order in which they began. One that did not come far enough
/// to be described is left out.
pub fn describe_all(run: &RunDirectory, first: &RunMeta) -> Result<BTreeMap<u32, RunMeta>> {
    let mut known = BTreeMap::from([(0, first.clone())]);
    for number in run.processes()? {
        if let Some(meta) = describe(run, number, &known)? {
            known.insert(number, meta);
        }
    }
    known.remove(&0);
    Ok(known)
}

fn describe(run: &RunDirectory, number: u32, known: &BTreeMap<u32, RunMeta>) -> Result<Option<RunMeta>> {
    let part = run.process(number);
    match part.load() {
        Ok((meta, _)) => {
            part.check_files(&meta)?;
            Ok(Some(meta))
        }
        Err(run_store::Error::NotARun { .. }) => describe_unsealed(&part, number, known),
        Err(error) => Err(error.into()),
    }
}

/// What a process said of itself, of whose part nobody has made anything.
fn describe_unsealed(part: &RunDirectory, number: u32, known: &BTreeMap<u32, RunMeta>) -> Result<Option<RunMeta>> {
    let Ok(header) = part.control().and_then(|control| control.header()) else {
        return Ok(None);
    };
    // It was killed before it had said who it is.
    if !header.attached {
        return Ok(None);
    }
    let meta = match header.origin {
        Origin::First => None,
        Origin::Forked { parent } => known.get(&parent).map(|parent_meta| RunMeta {
            process: Some(ProcessMeta {
                number,
                forked_by: Some(parent),
                executed_as: Text::default(),
                blocked_signals: 0,
                ignored_signals: 0,
                has_program: false,
            }),
            files: BTreeMap::new(),
            ..parent_meta.clone()
        }),
        Origin::Executed => match known.get(&0) {
            Some(first) => executed(part, number, first)?,
            None => None,
        },
    };
    Ok(meta.map(|meta| RunMeta { ending: None, ..meta }))
}

/// A program that was executed, from what it wrote down when it began.
fn executed(part: &RunDirectory, number: u32, first: &RunMeta) -> Result<Option<RunMeta>> {
    check_start(part)?;
    Ok(executed_whole(part, number, first))
}

/// The program wrote checksums down when it had written everything else; until then, it has not begun.
fn check_start(part: &RunDirectory) -> Result<()> {
    let path = part.file("start");
    let bytes = |path: &Path| fs::read(path).unwrap_or_default();
    let start = bytes(&path);
    let Some((said, checks)) = start.split_last_chunk::<{ START_CHECKS * size_of::<u64>() }>() else {
        return Ok(());
    };
    let files = [
        said.to_vec(),
        bytes(&part.file("arguments")),
        bytes(&part.file("environment")),
    ];
    for (check, file) in checks.chunks_exact(size_of::<u64>()).zip(files) {
        if check != start_check(&file).to_le_bytes() {
            return Err(run_store::Error::corrupt(
                &path,
                "checksums",
                "those of how the program was started",
                "others",
            )
            .into());
        }
    }
    Ok(())
}

fn executed_whole(part: &RunDirectory, number: u32, first: &RunMeta) -> Option<RunMeta> {
    let start = start_strings(&part.file("start"))?;
    let ([called, executable, cwd], signals) = start.split_first_chunk::<3>()?;
    let mut signals = signals.iter().flat_map(numbers);
    let path = Path::new(executable.as_os_str());
    let kept = part.file(PROGRAM);
    let has_program = kept.is_file();
    let (hash, bytes) =
        run_store::hash_file_once(if has_program { &kept } else { path }).unwrap_or_else(|_| ("unknown".to_owned(), 0));
    let argv = strings(&part.file("arguments")).filter(|argv| !argv.is_empty())?;
    let variable = |text: &Text| {
        let bytes = text.as_os_str().as_bytes();
        let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let value = bytes.get(end + 1..).unwrap_or_default();
        (text_of(&bytes[..end]), text_of(value))
    };
    Some(RunMeta {
        argv,
        cwd: cwd.clone(),
        env: strings(&part.file("environment"))?.iter().map(variable).collect(),
        executable: FileIdentity {
            path: executable.clone(),
            hash,
            bytes,
        },
        libraries: libraries::used_by(part, path).ok()?,
        process: Some(ProcessMeta {
            number,
            forked_by: None,
            executed_as: called.clone(),
            blocked_signals: signals.next().unwrap_or(0),
            ignored_signals: signals.next().unwrap_or(0),
            has_program,
        }),
        ..first.clone()
    })
}

fn numbers(text: &Text) -> Vec<u64> {
    let text = text.as_os_str().to_string_lossy();
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}

fn text_of(bytes: &[u8]) -> Text {
    OsStr::from_bytes(bytes).into()
}

/// The strings of `start`, without the checksums behind them.
fn start_strings(path: &Path) -> Option<Vec<Text>> {
    let bytes = fs::read(path).ok()?;
    let (said, _) = bytes.split_last_chunk::<{ START_CHECKS * size_of::<u64>() }>()?;
    Some(split(said))
}

/// The strings of a file, each of which ends with NUL.
fn strings(path: &Path) -> Option<Vec<Text>> {
    if fs::metadata(path).ok()?.len() > STRINGS_BYTES_MAX {
        return None;
    }
    Some(split(&fs::read(path).ok()?))
}

fn split(bytes: &[u8]) -> Vec<Text> {
    let whole = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let strings = whole.split(|byte| *byte == 0).map(text_of);
    if whole.is_empty() {
        Vec::new()
    } else {
        strings.collect()
    }
}

/// What is said of processes other than the first where the run is described.
#[derive(Debug, Default)]
pub struct SealedOthers {
    /// One of them did not come far enough to be part of the run.
    pub is_one_left_out: bool,
    /// Why the log of one of them ends before it did.
    pub truncated: Option<Truncated>,
}

/// Makes the parts of all processes complete.
pub fn seal_all(run: &RunDirectory, first: &RunMeta) -> Result<SealedOthers> {
    let known = describe_all(run, first)?;
    let begun = run.control()?.header()?.processes;
    let mut others = SealedOthers {
        is_one_left_out: known.len() as u32 + 1 < begun,
        truncated: None,
    };
    for (number, mut meta) in known {
        let part = run.process(number);
        let control = part.control()?;
        let (header, slots) = (control.header()?, control.slots()?);
        others.truncated = others.truncated.or(header.truncated);
        meta.ending = Some(Ending {
            duration_ms: 0,
            cpu_ms: 0,
            memory_bytes: 0,
            outcome: outcome(&header),
            truncated: header.truncated,
            others_truncated: None,
            forked: header.forked,
            unknown_call: header.unknown_call,
            refused_call: header.refused_call,
            overruns: header.overruns,
            left_running: 0,
            unknown_threads: 0,
            threads: header.threads,
            events: slots.iter().map(|slot| slot.count).sum(),
            records: slots.iter().map(|slot| slot.records).sum(),
            log_bytes: header.log_bytes,
            input_bytes: input_bytes(&part, header.threads),
            stdout: Captured::default(),
            stderr: Captured::default(),
        });
        meta.files = part.checksums()?;
        part.seal_part(&meta)?;
    }
    Ok(others)
}

/// How a process ended, by its own account.
pub fn outcome(header: &HeaderSnapshot) -> Outcome {
    match header.ended {
        Ended::Exited(status) => Outcome::Exited(status),
        Ended::Signaled(signal) => Outcome::Signaled(signal),
        Ended::Replaced => Outcome::Replaced,
        Ended::Unknown => Outcome::Lost,
    }
}

/// How often a process that is not found under its number is looked for everywhere.
const LOOK_EVERYWHERE_EVERY: Duration = Duration::from_millis(200);

/// The other processes of a recording.
#[derive(Default)]
pub struct Others {
    /// How many have begun.
    pub arrived: u32,
    /// One has become another program, which has yet to begin.
    pub is_one_executed: bool,
    /// Those that have not said that they have ended, by their numbers in the run.
    found: BTreeMap<u32, Proven>,
    looked_everywhere: Option<Instant>,
}

impl Others {
    /// `first`: of the first process.
    pub fn look(&mut self, run: &RunDirectory, first: &HeaderSnapshot) -> Result<()> {
        self.arrived = 0;
        let (mut replaced, mut executed) = (Vec::from_iter(replaced(first)), 0);
        let is_due = |at: Instant| at.elapsed() >= LOOK_EVERYWHERE_EVERY;
        let look_everywhere = self.looked_everywhere.is_none_or(is_due);
        for number in run.processes()? {
            // One that has just begun has no control file yet; the next look finds it.
            let part = run.process(number);
            let Ok(header) = part.control().and_then(|control| control.header()) else {
                continue;
            };
            self.arrived += 1;
            executed += usize::from(header.origin == Origin::Executed);
            replaced.extend(self::replaced(&header));
            if header.ended != Ended::Unknown {
                self.found.remove(&number);
            } else if !self.found.contains_key(&number)
                && let Some(process) = proven::of_recording(&part.file("control"), header.pid, look_everywhere)
            {
                self.found.insert(number, process);
            }
        }
        if look_everywhere {
            self.looked_everywhere = Some(Instant::now());
        }
        self.found.retain(|_, process| process.is_running());
        self.is_one_executed = executed < replaced.len() && replaced.into_iter().any(is_running);
        Ok(())
    }

    /// Those that have not ended, as far as they can be found.
    pub fn running(&self) -> impl ExactSizeIterator<Item = &Proven> {
        self.found.values()
    }

    /// The same, by their numbers in the run.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.found.keys().copied()
    }
}

/// The id of a process that has become another program.
fn replaced(header: &HeaderSnapshot) -> Option<u32> {
    (header.ended == Ended::Replaced).then_some(header.pid)
}

/// Is there a process with this id that has not ended, whoever that is?
fn is_running(process: u32) -> bool {
    let Ok(status) = fs::read(format!("/proc/{process}/stat")) else {
        return false;
    };
    // The state comes behind the name, which is in parentheses and may have some in it.
    let name_end = status.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    process != 0 && !matches!(status.get(name_end + 2), Some(b'Z' | b'X' | b'x') | None)
}

/// A process of a replay that was forked, once it is there and if it has not ended.
pub fn forked(control: &ControlFile, slots: &[SlotSnapshot]) -> Result<Forked> {
    let header = control.header().map_err(Error::Store)?;
    let id = slots.iter().find(|slot| slot.os_thread != 0).map(|slot| slot.os_thread);
    let Some(id) = id.filter(|_| header.attached) else {
        return Ok(Forked::NotYet);
    };
    let file = Mapped::new(control.file()).map_err(Error::Wait)?;
    Ok(Proven::by_id(id, &file).map_or(Forked::Ended, Forked::Running))
}

pub enum Forked {
    NotYet,
    Running(Proven),
    Ended,
}
