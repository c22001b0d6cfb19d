//! The files of one session: what `enter` starts, what the scripts inside gdb know, and what they tell us.
use crate::Error;
use crate::Result;
use crate::debug::DebugOptions;
use crate::debug::STDERR_FD;
use crate::debug::STDOUT_FD;
use crate::debug::failure::Failure;
use crate::describe;
use crate::launch;
use crate::loaded::LoadedRun;
use crate::plan::Plan;
use crate::plan::Temporary;
use crate::supervise;
use crate::supervise::Setting;
use crate::sys;
use crate::sys::OrphanedProgram;
use crate::turns;
use run_model::Access;
use run_model::Kind;
use run_model::Op;
use run_store::Beginning;
use run_store::ControlFile;
use run_store::FailurePoint;
use run_store::Outcome;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::Text;
use run_store::write_whole;
use runtime_abi::CONTROL_ADDRESS;
use runtime_abi::CONTROL_FD;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::ThreadSlot;
use runtime_abi::policy::Pair;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Tells the scripts in which directory they are.
pub const VARIABLE: &str = "REFRAIN_GDB_SESSION";
const LAUNCH: &str = "launch.json";
const ABOUT: &str = "about.json";
const ENDED: &str = "ended";
const START: &str = "start.gdb";
const PYTHON: &str = "refrain.py";
const PLAIN: &str = "plain.gdb";

/// All that is needed to start the program for a replay.
#[derive(Debug, Serialize, Deserialize)]
struct Launch {
    meta: RunMeta,
    failure: Option<FailurePoint>,
    /// All processes of the run, the first one first.
    processes: Vec<Process>,
}

/// What a process of the replay has from its recording.
#[derive(Debug, Serialize, Deserialize)]
struct Process {
    /// The recording's own control file, which has the call sites.
    recorded_control: Text,
    schedule_directory: Text,
    ended_in: Option<(u32, u32)>,
    pid: u32,
    beginning: Beginning,
    /// Its threads are replayed one at a time.
    takes_turns: bool,
    /// The same, under gates.
    is_steered: bool,
}

/// What the Python script knows about the run.
#[derive(Serialize)]
struct About<'a> {
    run: &'a str,
    run_directory: Text,
    tool: Text,
    program: &'a Text,
    /// As recorded.
    outcome: String,
    /// Recorded events of each thread.
    events: Vec<u64>,
    failure: Option<&'a Failure>,
    layout: Layout,
    /// Words for `ThreadSlot::stopped_at`.
    kinds: BTreeMap<u8, String>,
    operations: BTreeMap<u8, String>,
}

/// Where the script finds its numbers in the control memory; no script knows them by heart.
#[derive(Serialize)]
struct Layout {
    descriptor: i32,
    threads: usize,
    divergence_kind: usize,
    slots: usize,
    slot_bytes: usize,
    count: usize,
    state: usize,
    wait_thread: usize,
    wait_count: usize,
    os_thread: usize,
    stopped_at: usize,
    stopped_object: usize,
}

const LAYOUT: Layout = Layout {
    descriptor: CONTROL_FD,
    threads: offset_of!(ControlHeader, progress.threads),
    divergence_kind: offset_of!(ControlHeader, divergence.kind),
    slots: HEADER_BYTES,
    slot_bytes: size_of::<ThreadSlot>(),
    count: offset_of!(ThreadSlot, count),
    state: offset_of!(ThreadSlot, state),
    wait_thread: offset_of!(ThreadSlot, wait_thread),
    wait_count: offset_of!(ThreadSlot, wait_count),
    os_thread: offset_of!(ThreadSlot, os_thread),
    stopped_at: offset_of!(ThreadSlot, stopped_at),
    stopped_object: offset_of!(ThreadSlot, stopped_object),
};

pub struct Session {
    directory: Temporary,
    launch: Launch,
    /// The script beside `START`.
    script: &'static str,
}

impl Session {
    pub fn create(
        loaded: &LoadedRun,
        plan: &Plan,
        failure: Option<&Failure>,
        options: &DebugOptions,
        has_python: bool,
    ) -> Result<Session> {
        let directory = Temporary::create()?;
        let process = |(loaded, plan): (&LoadedRun, &Plan)| Process {
            recorded_control: loaded.run.file("control").into_os_string().into(),
            schedule_directory: plan.directory.as_os_str().into(),
            ended_in: loaded.ended_in,
            pid: loaded.pid,
            beginning: loaded.beginning.clone(),
            takes_turns: turns::are_taken(loaded),
            is_steered: plan.schedule.steered().is_some(),
        };
        let launch = Launch {
            meta: loaded.meta.clone(),
            failure: failure.and_then(|failure| failure.point),
            processes: loaded.all().zip(plan.all()).map(process).collect(),
        };
        let session = Session {
            script: if has_python { PYTHON } else { PLAIN },
            directory,
            launch,
        };
        session.write(LAUNCH, &json(&session.launch))?;
        session.write(START, start_commands(&session, options).as_bytes())?;
        if has_python {
            session.write(ABOUT, &json(&about(loaded, failure, options)))?;
            session.write(PYTHON, include_bytes!("refrain.py"))?;
        } else {
            session.write(PLAIN, plain_commands(failure).as_bytes())?;
        }
        Ok(session)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(write_whole(&self.path().join(name), bytes)?)
    }

    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// Makes `file` the control memory of the first replay; `enter` does so again for each.
    pub fn control(&self, file: &File) -> Result<ControlFile> {
        self.launch.control(file)
    }

    /// gdb's command line: our scripts, the user's, and then whatever the user adds.
    pub fn arguments(&self, options: &DebugOptions) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = ["-q", "-se"].map(OsString::from).into();
        arguments.push(self.launch.meta.executable.path.as_os_str().to_owned());
        let ours = [START, self.script].map(|name| self.path().join(name));
        for script in ours.iter().chain(&options.scripts) {
            arguments.push("-x".into());
            arguments.push(script.into());
        }
        arguments.extend(options.arguments.iter().cloned());
        arguments
    }

    /// How the program ended, as gdb's Python saw it.
    pub fn outcome(&self) -> Option<Outcome> {
        let text = fs::read_to_string(self.path().join(ENDED)).ok()?;
        let (how, number) = text.trim().split_once(' ')?;
        let number = number.parse().ok()?;
        match how {
            "exited" => Some(Outcome::Exited(number)),
            "signaled" => Some(Outcome::Signaled(number)),
            _ => None,
        }
    }
}

impl Launch {
    fn control(&self, file: &File) -> Result<ControlFile> {
        let call_sites = |process: &Process| {
            let recorded = ControlFile::open(Path::new(process.recorded_control.as_os_str()))?;
            recorded.call_sites()
        };
        let all_sites: run_store::Result<Vec<Vec<u8>>> = self.processes.iter().map(call_sites).collect();
        let all_sites = all_sites?;
        let settings = self
            .processes
            .iter()
            .zip(&all_sites)
            .map(|(process, call_sites)| Setting {
                settings: RunSettings {
                    steered: process.is_steered,
                    ..self.meta.settings.in_replay(match process.takes_turns {
                        true => Pair::REPLAY_IN_TURNS,
                        false => Pair::REPLAY,
                    })
                },
                ended_in: process.ended_in,
                call_sites,
                pid: process.pid,
                beginning: process.beginning.clone(),
                schedule_directory: Path::new(process.schedule_directory.as_os_str()),
            });
        let settings: Vec<Setting> = settings.collect();
        let mut controls = supervise::set_up(file, &settings)?.into_iter();
        let first = controls.next().ok_or(Error::NotInDebugger)?;
        first.expect_debugger(self.failure)?;
        controls.try_for_each(|control| control.expect_debugger(None))?;
        Ok(first)
    }
}

/// Becomes the program, as gdb's child. Comes back only if it cannot.
pub fn enter(directory: &Path) -> Error {
    match become_program(directory) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn become_program(directory: &Path) -> Result<std::convert::Infallible> {
    let bytes = fs::read(directory.join(LAUNCH)).map_err(|_| Error::NotInDebugger)?;
    let launch: Launch = serde_json::from_slice(&bytes).map_err(|_| Error::NotInDebugger)?;
    let file = |number| sys::inherited_file(number).ok_or(Error::NotInDebugger);
    let (control, stdout, stderr) = (file(CONTROL_FD)?, file(STDOUT_FD)?, file(STDERR_FD)?);
    // It tells of the replay before this one, if there was one.
    let _ = fs::remove_file(directory.join(ENDED));
    let control = launch.control(&control)?;
    let (mut command, _) = launch::command(&launch.meta, &control, None, OrphanedProgram::IsKilled)?;
    command.stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    Err(Error::CannotStart {
        path: launch.meta.executable.path.as_os_str().into(),
        source: command.exec(),
    })
}

fn about<'a>(loaded: &'a LoadedRun, failure: Option<&'a Failure>, options: &'a DebugOptions) -> About<'a> {
    let ending = loaded.meta.ending.as_ref();
    let outcome = ending.map_or_else(|| "unknown".to_owned(), |ending| ending.outcome.to_string());
    let words = |kind, op| describe::operation(kind, op, Access(0));
    About {
        run: &options.run_name,
        run_directory: loaded.run.path().as_os_str().into(),
        tool: options.tool.as_os_str().into(),
        program: &loaded.meta.executable.path,
        outcome,
        events: loaded.logs.threads.iter().map(|log| log.events).collect(),
        failure,
        layout: LAYOUT,
        kinds: (0..=u8::MAX)
            .filter_map(|n| Kind::from_u8(n).map(|kind| (n, words(kind, Op::None))))
            .collect(),
        operations: (0..=u8::MAX)
            .filter_map(|n| Op::from_u8(n).map(|op| (n, words(Kind::Sync, op))))
            .collect(),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("maps have only keys that are strings or numbers")
}

/// What any gdb understands: how to look, and how to start the program.
fn start_commands(session: &Session, options: &DebugOptions) -> String {
    let wrapper = [options.tool.as_path(), Path::new("gdb-enter"), session.path()];
    let wrapper: Vec<String> = wrapper.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    format!(
        "set pagination off\n\
         set confirm off\n\
         set print thread-events off\n\
         set prompt (refrain) \n\
         set startup-with-shell on\n\
         set disable-randomization on\n\
         set exec-wrapper {}\n",
        wrapper.join(" ")
    )
}

/// For gdb without Python: stops at the same places, and shows the same numbers.
fn plain_commands(failure: Option<&Failure>) -> String {
    let slots = CONTROL_ADDRESS + HEADER_BYTES as u64;
    let mut text = include_str!("plain.gdb")
        .replace(
            "THREADS",
            &format!(
                "*(unsigned *){:#x}",
                CONTROL_ADDRESS + offset_of!(ControlHeader, progress.threads) as u64
            ),
        )
        .replace(
            "SLOT",
            &format!("({slots:#x} + $refrain_thread * {})", size_of::<ThreadSlot>()),
        )
        .replace("COUNT", &offset_of!(ThreadSlot, count).to_string())
        .replace("STATE", &offset_of!(ThreadSlot, state).to_string())
        .replace("AWAITED", &offset_of!(ThreadSlot, wait_thread).to_string())
        .replace("UNTIL", &offset_of!(ThreadSlot, wait_count).to_string())
        .replace("OS_THREAD", &offset_of!(ThreadSlot, os_thread).to_string());
    if let Some(failure) = failure {
        text.push_str("run\n");
        for line in &failure.account {
            text.push_str(&format!("echo refrain: {}\\n\n", line.text.replace('\\', "\\\\")));
        }
    }
    text
}

/// As a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("/a b/c"), "'/a b/c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn plain_commands_have_numbers_for_all_names() {
        let text = plain_commands(None);
        for name in ["THREADS", "SLOT", "COUNT", "STATE", "AWAITED", "UNTIL", "OS_THREAD"] {
            assert!(!text.contains(name), "{name} is left in {text}");
        }
    }
}
