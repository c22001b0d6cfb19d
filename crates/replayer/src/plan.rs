//! The files from which a replay has its schedules: in the run directory, or in one that goes away.
use crate::Result;
use crate::loaded::LoadedRun;
use crate::process_order;
use crate::recovery::Found;
use crate::recovery::write_schedule;
use crate::turns;
use log_format::turns::Wanted;
use run_model::Schedule;
use run_store::write_whole;
use runtime_abi::schedule_file;
use runtime_abi::turns_file;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;

/// A schedule that the checker accepted, and the directory with the files the runtime reads.
#[derive(Debug)]
pub struct Plan {
    pub schedule: Schedule,
    pub directory: PathBuf,
    /// Those of the other processes, in the same order as in the run.
    pub processes: Vec<Plan>,
    /// Owns `directory` if it had to be made for this replay alone.
    _temporary: Option<Temporary>,
}

impl Plan {
    /// For replays that leave nothing behind: in the run directory, as far as that is ours to write.
    pub fn in_run(loaded: &LoadedRun, found: Vec<Found>) -> Result<Plan> {
        let in_run = |loaded: &LoadedRun, found: Found| {
            let directory = loaded.run.path().to_owned();
            if !found.is_in_run || !Plan::put_turns(loaded, &found.schedule) {
                return Plan::in_directory_of_its_own(loaded, found.schedule);
            }
            Ok(Plan {
                schedule: found.schedule,
                directory,
                processes: Vec::new(),
                _temporary: None,
            })
        };
        Plan::of_all(loaded, found, in_run)
    }

    /// For replays that leave files beside their schedules: each in a directory of its own that goes away with the plan.
    pub fn in_temporary(loaded: &LoadedRun, schedules: Vec<Schedule>) -> Result<Plan> {
        Plan::of_all(loaded, schedules, Plan::in_directory_of_its_own)
    }

    /// `each` is given a process and what was found for it.
    fn of_all<T>(loaded: &LoadedRun, found: Vec<T>, each: impl Fn(&LoadedRun, T) -> Result<Plan>) -> Result<Plan> {
        let mut plans = loaded.all().zip(found).map(|(loaded, found)| each(loaded, found));
        let mut plan = plans.next().expect("a run has a first process")?;
        plan.processes = plans.collect::<Result<_>>()?;
        plan.with_process_order(loaded)
    }

    /// Writes the order of the processes that share memory beside what each of them reads.
    fn with_process_order(mut self, loaded: &LoadedRun) -> Result<Plan> {
        let Some(order) = process_order::order_of(loaded, self.all().map(|plan| plan.schedule.turns()))? else {
            return Ok(self);
        };
        let bytes = log_format::turns::encode(&order, &Wanted::default());
        let write = |plan: &mut Plan, loaded: &LoadedRun| -> Result<()> {
            if !loaded.shares_memory {
                return Ok(());
            }
            let is_room = plan._temporary.is_some() || loaded.room.take(bytes.len() as u64);
            if is_room && write_whole(&plan.directory.join(turns_file::PROCESS_ORDER_FILE_NAME), &bytes).is_ok() {
                return Ok(());
            }
            let moved = Plan::in_directory_of_its_own(loaded, plan.schedule.clone())?;
            write_whole(&moved.directory.join(turns_file::PROCESS_ORDER_FILE_NAME), &bytes)?;
            (plan.directory, plan._temporary) = (moved.directory, moved._temporary);
            Ok(())
        };
        let mut others = std::mem::take(&mut self.processes);
        write(&mut self, loaded)?;
        for (plan, loaded) in others.iter_mut().zip(&loaded.processes) {
            write(plan, loaded)?;
        }
        self.processes = others;
        Ok(self)
    }

    /// The process's own and, if it is the first, those of all others.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.processes)
    }

    /// Puts the order of inputs, if there is one, beside the gates. False: it cannot be written there, or may not be.
    fn put_turns(loaded: &LoadedRun, schedule: &Schedule) -> bool {
        let path = loaded.run.file(turns_file::FILE_NAME);
        run_store::remove_abandoned_parts(&path);
        let Some(turns) = schedule.one_at_a_time() else {
            return true;
        };
        let bytes = log_format::turns::encode(turns, &Wanted::default());
        loaded.room.take(bytes.len() as u64) && write_whole(&path, &bytes).is_ok()
    }

    fn in_directory_of_its_own(loaded: &LoadedRun, schedule: Schedule) -> Result<Plan> {
        let temporary = Temporary::create()?;
        if let Some(turns) = schedule.one_at_a_time() {
            turns::write(&temporary.path, turns, &Wanted::default())?;
        }
        write_schedule(&temporary.path.join(schedule_file::FILE_NAME), &schedule)?;
        // The runtime looks for the inputs beside the schedule.
        let of_threads = (0..loaded.logs.threads.len()).map(|thread| loaded.run.thread_inputs(thread as u32));
        for inputs in of_threads.chain([loaded.run.file("changes")]) {
            if let (true, Some(name)) = (inputs.exists(), inputs.file_name()) {
                let link = temporary.path.join(name);
                symlink(&inputs, &link).map_err(|e| run_store::Error::io("create", &link, e))?;
            }
        }
        Ok(Plan {
            schedule,
            directory: temporary.path.clone(),
            processes: Vec::new(),
            _temporary: Some(temporary),
        })
    }
}

/// A directory that goes away with its owner.
#[derive(Debug)]
pub struct Temporary {
    pub path: PathBuf,
}

impl Temporary {
    pub fn create() -> Result<Temporary> {
        let base = std::env::temp_dir();
        for attempt in 0..1000 {
            let path = base.join(format!("refrain-{}-{attempt}", std::process::id()));
            run_store::note_temporary(&path);
            // Ours alone: what a run was started with may be secret.
            match run_store::create_directory(&path) {
                Ok(()) => return Ok(Temporary { path }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(run_store::Error::io("create", &path, e).into()),
            }
        }
        let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(run_store::Error::io("create a directory in", Path::new(&base), taken).into())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Best effort: what cannot be removed is a small file in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}
