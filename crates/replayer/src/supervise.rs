//! One replay from start to end: the program runs under its schedule, and we watch it through the control file.
use crate::Error;
use crate::Result;
use crate::checkpoints::Start;
use crate::guardian;
use crate::launch::Running;
use crate::launch::outcome_of;
use crate::libraries;
use crate::loaded::LoadedRun;
use crate::output::Compare;
use crate::output::Comparison;
use crate::output::PassTo;
use crate::plan::Plan;
use crate::processes;
use crate::processes::Forked;
use crate::proven::Proven;
use crate::record::Show;
use crate::stage::Stage;
use crate::symbols::Symbols;
use crate::sys;
use crate::sys::OrphanedProgram;
use crate::turns;
use crate::verify;
use run_model::ThreadLog;
use run_store::Beginning;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::DivergenceReport;
use run_store::Ended;
use run_store::Origin;
use run_store::Outcome;
use run_store::RunMeta;
use run_store::RunSettings;
use run_store::SlotSnapshot;
use run_store::ThreadState;
use run_store::TurnsSnapshot;
use runtime_abi::counting::CountingFor;
use runtime_abi::policy;
use runtime_abi::policy::Inputs;
use runtime_abi::policy::Order;
use runtime_abi::policy::Pair;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// How often the control file is looked at. The end of the program is noticed at once in any case.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a program that diverged may still take to end by itself, so that its last words are seen.
const GRACE: Duration = Duration::from_millis(200);
/// How long a process that was killed when it was recorded may go on behind its last event, while nobody else moves, before it counts as standing there.
const BEHIND_THE_END: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// A replay in which nothing moves for this long is given up.
    pub patience: Duration,
    /// 0: none. Otherwise the runtime delays threads at their gates, which must not change anything.
    pub jitter_seed: u64,
    /// Every thread writes down what it does, beside the schedule.
    pub trace: bool,
    /// Where inputs come from: the recording, or outside.
    pub inputs: Inputs,
    /// What functions that were built with `--det` count for.
    pub counting: CountingFor,
}

/// How a replay came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Program(Outcome),
    /// All threads that have not ended stand at the end of their logs: the recording has nothing more.
    AllStopped,
    Diverged(DivergenceReport),
    /// No thread moved for as long as patience lasted.
    Stuck,
    /// Another process went wrong first, or this one never began.
    GivenUp,
}

/// What is left after a replay.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Where its inputs came from.
    pub inputs: Inputs,
    pub end: End,
    pub slots: Vec<SlotSnapshot>,
    pub stdout: Comparison,
    pub stderr: Comparison,
    pub duration: Duration,
    /// /proc/PID/maps of a replay that went wrong while it was watched; otherwise empty.
    pub maps: Vec<u8>,
    /// The other processes, in the run's order.
    pub processes: Vec<ObservedProcess>,
    /// Of the first process, if its threads take turns.
    pub turns: TurnsSnapshot,
}

/// The same of a process other than the first. What it prints is part of the first one's output.
#[derive(Clone, Debug)]
pub struct ObservedProcess {
    pub end: End,
    pub slots: Vec<SlotSnapshot>,
    /// If its threads take turns.
    pub turns: TurnsSnapshot,
}

/// Runs the program of `loaded` once, with the schedules of `plan`, and all its processes.
pub fn replay_once(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    plan: &Plan,
    watch: &Watch,
    show: Show,
) -> Result<Observed> {
    replay_from(loaded, stage, plan, watch, show, &Start::default())
}

/// The same from a checkpoint, or leaving some behind.
pub fn replay_from(
    loaded: &LoadedRun,
    stage: Option<&Stage>,
    plan: &Plan,
    watch: &Watch,
    show: Show,
    start: &Start<'_>,
) -> Result<Observed> {
    let memory = anonymous_control()?;
    let settings: Vec<Setting> = Setting::of_all(loaded, plan, watch).collect::<Result<_>>()?;
    let mut controls = set_up(&memory, &settings)?.into_iter();
    let control = controls.next().expect("a run has a first process");
    let compare = |name, stream: usize, pass| {
        let path = loaded.run.file(name);
        let unreadable = |e| run_store::Error::io("read", &path, e);
        let file = File::open(&path).map_err(unreadable)?;
        let pass = if show == Show::Output { pass } else { PassTo::nowhere() };
        Ok::<_, Error>(match start.from.map(|checkpoint| checkpoint.shown(stream)) {
            Some((shown, difference)) => Compare::after(file, shown, difference, pass).map_err(unreadable)?,
            None => Compare::new(file, loaded.others[stream], pass),
        })
    };
    let output = [
        compare("stdout", 0, PassTo::stdout())?,
        compare("stderr", 1, PassTo::stderr())?,
    ];
    let started = Instant::now();
    let running = match start.from {
        Some(from) => {
            Running::copy(from, &plan.directory, &control, output, start.wishes).map_err(Error::CannotCopy)?
        }
        None => Running::start_with(
            &loaded.meta,
            stage,
            &control,
            OrphanedProgram::IsKilled,
            output,
            start.wishes,
        )?,
    };
    let mut all = Everybody {
        running,
        loaded,
        control,
        end: None,
        others: Vec::new(),
        maps: Vec::new(),
    };
    let ended = all
        .start_others(&memory, controls, stage)
        .and_then(|()| all.supervise(watch));
    let killed = all.kill();
    ended.and(killed)?;
    let duration = started.elapsed();
    let Everybody {
        running,
        control,
        end,
        others,
        maps,
        ..
    } = all;
    let (out, err) = running.finish();
    let unreadable = |e: io::Error| Error::Store(run_store::Error::io("read", loaded.run.path(), e));
    let header = control.header()?;
    if !header.attached {
        return Err(Error::NeverAttached {
            path: loaded.meta.executable.path.as_os_str().into(),
        });
    }
    let processes = others.into_iter().map(|other| {
        Ok(ObservedProcess {
            end: final_end(other.end, &other.control)?,
            slots: other.control.slots()?,
            turns: other.control.header()?.turns,
        })
    });
    Ok(Observed {
        inputs: watch.inputs,
        end: final_end(end, &control)?,
        slots: control.slots()?,
        turns: header.turns,
        processes: processes.collect::<Result<_>>()?,
        stdout: out.finish().map_err(unreadable)?,
        stderr: err.finish().map_err(unreadable)?,
        duration,
        maps,
    })
}

/// A divergence is written a moment before the program ends; whoever watched may have seen only the end.
fn final_end(end: Option<End>, control: &ControlFile) -> Result<End> {
    Ok(match (end, control.header()?.divergence) {
        (Some(End::Program(_) | End::AllStopped) | None, Some(report)) => End::Diverged(report),
        (Some(end), _) => end,
        (None, None) => End::GivenUp,
    })
}

/// What a process of a replay has from its recording, apart from schedule and inputs, and how it is to be run.
pub struct Setting<'a> {
    pub settings: RunSettings,
    pub ended_in: Option<(u32, u32)>,
    pub call_sites: &'a [u8],
    pub pid: u32,
    pub beginning: Beginning,
    pub schedule_directory: &'a Path,
}

impl<'a> Setting<'a> {
    /// The first process's, and those of all others.
    pub fn of_all(loaded: &'a LoadedRun, plan: &'a Plan, watch: &Watch) -> impl Iterator<Item = Result<Setting<'a>>> {
        let setting = |(loaded, plan): (&'a LoadedRun, &'a Plan)| {
            Ok(Setting {
                settings: RunSettings {
                    jitter_seed: NonZeroU64::new(watch.jitter_seed),
                    trace: watch.trace,
                    counting: watch.counting,
                    // What is live may wait for others, who do not run.
                    steered: plan.schedule.steered().is_some() && watch.inputs == Inputs::Answered,
                    panic_count: watch.trace.then(|| Symbols::load(&loaded.run).panic_count()).flatten(),
                    ..loaded.meta.settings.in_replay(policies(loaded, watch.inputs)?)
                },
                ended_in: loaded.ended_in,
                call_sites: &loaded.call_sites,
                pid: loaded.pid,
                beginning: loaded.beginning.clone(),
                schedule_directory: &plan.directory,
            })
        };
        loaded.all().zip(plan.all()).map(setting)
    }
}

/// Who orders the threads of a process in replay, and where its inputs come from.
pub fn policies(loaded: &LoadedRun, inputs: Inputs) -> Result<Pair> {
    let order = match turns::are_taken(loaded) {
        true => Order::Turns,
        false => Order::Gated,
    };
    let pair = policy::pair(order, inputs).and_then(|pair| pair.at_scope(loaded.meta.settings.scope));
    pair.map_err(|refusal| Error::Refused {
        run: loaded.run.name(),
        why: refusal.to_owned(),
    })
}

/// What messages call it.
const CONTROL_NAME: &str = "the control memory of the replay";

/// Not a file in the run directory: any number of replays may go on at once, and none leaves anything behind.
pub fn anonymous_control() -> Result<File> {
    let failed = |e| run_store::Error::io("create", Path::new(CONTROL_NAME), e);
    guardian::watch();
    Ok(sys::anonymous_file(guardian::name()).map_err(failed)?)
}

/// Makes `file` the control memory of a replay that is about to start, whatever it held before.
pub fn set_up(file: &File, settings: &[Setting<'_>]) -> Result<Vec<ControlFile>> {
    let setups = settings.iter().map(|setting| ControlSetup {
        settings: setting.settings,
        run_directory: setting.schedule_directory,
        call_sites: setting.call_sites,
        pid: setting.pid,
        beginning: setting.beginning.clone(),
        stack_limit: None,
    });
    let setups: Vec<ControlSetup> = setups.collect();
    let controls = ControlFile::initialise_all(file, Path::new(CONTROL_NAME), &setups)?;
    for (control, setting) in controls.iter().zip(settings) {
        if let Some((thread, signal)) = setting.ended_in {
            control.expect_signal(thread, signal)?;
        }
    }
    Ok(controls)
}

/// All processes of one replay.
struct Everybody<'a> {
    running: Running<Compare>,
    loaded: &'a LoadedRun,
    control: ControlFile,
    end: Option<End>,
    others: Vec<Other<'a>>,
    maps: Vec<u8>,
}

/// A process other than the first.
struct Other<'a> {
    loaded: &'a LoadedRun,
    control: ControlFile,
    /// Of a program that was executed. One that is forked comes by itself.
    child: Option<Child>,
    /// One that is forked, once it was seen.
    forked: Option<Proven>,
    end: Option<End>,
}

/// How far all threads have come, and whether they move.
type Progress = (u64, Vec<ThreadState>);

impl<'a> Everybody<'a> {
    fn start_others(
        &mut self,
        memory: &File,
        controls: impl Iterator<Item = ControlFile>,
        stage: Option<&Stage>,
    ) -> Result<()> {
        for (loaded, control) in self.loaded.processes.iter().zip(controls) {
            let child = match (&loaded.meta.process, loaded.origin) {
                (Some(process), Origin::Executed) => {
                    let executable = libraries::executable_of(&self.loaded.run, &loaded.meta);
                    let meta = RunMeta {
                        executable,
                        ..loaded.meta.clone()
                    };
                    Some(self.running.start_executed(&meta, process, stage, memory)?)
                }
                _ => None,
            };
            self.others.push(Other {
                loaded,
                control,
                child,
                forked: None,
                end: None,
            });
        }
        self.running.close_ends();
        Ok(())
    }

    /// Returns when all have ended, or one has gone wrong.
    fn supervise(&mut self, watch: &Watch) -> Result<()> {
        let mut progress: Progress = (0, Vec::new());
        let mut last_progress = Instant::now();
        loop {
            let mut now: Progress = (0, Vec::new());
            if self.end.is_none() {
                self.look_at_first(&mut now)?;
            } else {
                thread::sleep(LOOK_EVERY);
            }
            self.control.pass_turns(&self.loaded.skipped_turns)?;
            for other in &mut self.others {
                other.look(&mut now)?;
            }
            if self.ends().any(|end| matches!(end, Some(End::Diverged(_)))) {
                return self.let_speak();
            }
            // The others may wait for ever for the turns of one that has ended too early.
            let ended_wrongly = |other: &Other<'_>| {
                let check = other.end.map(|end| verify::check_outcome(other.loaded, end));
                check.is_some_and(|check| !check.passed)
            };
            if self.others.iter().any(ended_wrongly) {
                return Ok(());
            }
            if self.ends().all(|end| end.is_some()) || self.is_nobody_left()? {
                return Ok(());
            }
            if now != progress {
                (progress, last_progress) = (now, Instant::now());
            } else if last_progress.elapsed() >= BEHIND_THE_END && self.stop_those_that_were_killed()? {
                last_progress = Instant::now();
            } else if last_progress.elapsed() >= watch.patience {
                self.maps = self.running.maps();
                self.end = self.end.or(Some(End::Stuck));
                return Ok(());
            }
        }
    }

    /// Nobody moves. Who was killed when it was recorded, and has nothing more to come to, is where it was: it computes, and was killed there. Returns whether there was
    /// one.
    fn stop_those_that_were_killed(&mut self) -> Result<bool> {
        let mut are_some = false;
        if self.end.is_none() && goes_on_behind_its_end(&self.control, self.loaded)? {
            self.end = Some(End::AllStopped);
            self.running.kill()?;
            are_some = true;
        }
        for other in self.others.iter_mut().filter(|other| other.end.is_none()) {
            if goes_on_behind_its_end(&other.control, other.loaded)? {
                other.end = Some(End::AllStopped);
                other.kill();
                are_some = true;
            }
        }
        Ok(are_some)
    }

    fn ends(&self) -> impl Iterator<Item = Option<End>> {
        let others = self.others.iter().map(|other| other.end);
        std::iter::once(self.end).chain(others)
    }

    /// Are those that have not ended only ones that were never forked?
    fn is_nobody_left(&self) -> Result<bool> {
        if self.end.is_none() {
            return Ok(false);
        }
        let (forked, arrived) = self.forked()?;
        let is_over = |other: &Other<'_>| {
            let is_here = other.child.is_some() || other.control.header().is_ok_and(|header| header.attached);
            other.end.is_some() || !is_here
        };
        Ok(arrived >= forked && self.others.iter().all(is_over))
    }

    fn look_at_first(&mut self, now: &mut Progress) -> Result<()> {
        if let Some(status) = self.running.wait(Some(LOOK_EVERY))? {
            let header = self.control.header()?;
            if let Some(report) = header.divergence {
                self.end = Some(End::Diverged(report));
                return Ok(());
            }
            let is_replaced = header.ended == Ended::Replaced;
            let outcome = if is_replaced {
                Outcome::Replaced
            } else {
                outcome_of(status)
            };
            self.end = Some(End::Program(outcome));
            return Ok(());
        }
        self.end = look(&self.control, self.loaded, now)?;
        if self.end == Some(End::AllStopped) {
            self.running.kill()?;
        }
        Ok(())
    }

    /// Whoever diverged gets a moment for its last words.
    fn let_speak(&mut self) -> Result<()> {
        if matches!(self.end, Some(End::Diverged(_))) {
            self.maps = self.running.maps();
        }
        self.running.wait_until(Instant::now() + GRACE)?;
        Ok(())
    }

    /// Nobody is left behind: not even who was just being forked.
    fn kill(&mut self) -> Result<()> {
        self.running.kill()?;
        let deadline = Instant::now() + GRACE;
        loop {
            self.others.iter_mut().for_each(Other::kill);
            let (forked, arrived) = self.forked()?;
            if arrived >= forked || Instant::now() >= deadline {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many processes were forked, and how many of them have begun.
    fn forked(&self) -> Result<(u32, u32)> {
        // Looked at first: whoever is forked later is forked by somebody who has not ended.
        let forked = self.control.header()?.processes;
        let mut arrived = 0;
        for other in self.others.iter().filter(|other| other.child.is_none()) {
            arrived += u32::from(other.control.header()?.attached);
        }
        Ok((forked, arrived))
    }
}

impl Other<'_> {
    fn look(&mut self, now: &mut Progress) -> Result<()> {
        if self.end.is_some() {
            return Ok(());
        }
        self.end = look(&self.control, self.loaded, now)?;
        let is_over = match &mut self.child {
            Some(child) => child.try_wait().map_err(Error::Wait)?.is_some(),
            None => self.has_forked_ended()?,
        };
        if self.end.is_none() && is_over {
            // Looked at again: what it wrote last counts.
            self.end = Some(match look(&self.control, self.loaded, now)? {
                Some(end) => end,
                None => End::Program(processes::outcome(&self.control.header()?)),
            });
        }
        if self.end == Some(End::AllStopped) {
            self.kill();
        }
        Ok(())
    }

    fn kill(&mut self) {
        match &mut self.child {
            Some(child) => {
                // Errors mean that it has ended already.
                let _ = child.kill();
                let _ = child.wait();
            }
            None => {
                // What cannot be read is nobody's any more.
                let _ = self.has_forked_ended();
                if let Some(process) = &self.forked {
                    process.signal(9);
                }
            }
        }
    }

    /// Of one that comes by itself: was it there, and is it no more?
    fn has_forked_ended(&mut self) -> Result<bool> {
        if let Some(process) = &self.forked {
            return Ok(!process.is_running());
        }
        match processes::forked(&self.control, &self.control.slots()?)? {
            Forked::NotYet => Ok(false),
            Forked::Ended => Ok(true),
            Forked::Running(process) => {
                self.forked = Some(process);
                Ok(false)
            }
        }
    }
}

/// Has the process come to an end that shows in its control memory?
fn look(control: &ControlFile, loaded: &LoadedRun, now: &mut Progress) -> Result<Option<End>> {
    if let Some(report) = control.header()?.divergence {
        return Ok(Some(End::Diverged(report)));
    }
    let slots = control.slots()?;
    if is_all_stopped(&slots, loaded) {
        return Ok(Some(End::AllStopped));
    }
    now.0 += slots.iter().map(|slot| slot.count).sum::<u64>();
    now.1.extend(slots.iter().map(|slot| slot.state));
    Ok(None)
}

/// Was the recorded process cut off, and has this one had all of its events, and still uses the processor?
fn goes_on_behind_its_end(control: &ControlFile, loaded: &LoadedRun) -> Result<bool> {
    let is_there = control.header()?.attached;
    let slots = control.slots()?;
    let is_at_end = |(thread, log): (usize, &ThreadLog)| {
        log.events == 0 || slots.get(thread).is_some_and(|slot| slot.count >= log.events)
    };
    let computes = |slot: &SlotSnapshot| slot.state == ThreadState::Running;
    Ok(is_there
        && verify::is_cut_off(loaded)
        && loaded.logs.threads.iter().enumerate().all(is_at_end)
        && slots.iter().any(computes))
}

/// Some thread stands at the end of its log, and none can still do anything.
pub fn is_all_stopped(slots: &[SlotSnapshot], loaded: &LoadedRun) -> bool {
    let is_over = |(thread, slot): (usize, &SlotSnapshot)| match slot.state {
        ThreadState::Stopped | ThreadState::Exited => true,
        // Created, perhaps, and about to start.
        ThreadState::Unused => loaded.logs.threads.get(thread).is_none_or(|log| log.events == 0),
        ThreadState::Running | ThreadState::Waiting | ThreadState::Blocked => false,
    };
    slots.iter().enumerate().all(is_over) && slots.iter().any(|slot| slot.state == ThreadState::Stopped)
}
