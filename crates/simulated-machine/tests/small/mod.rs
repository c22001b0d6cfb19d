//! Small programs, explored in every order of their threads' steps.
use constraint_solver::Hints;
use constraint_solver::solve;
use run_model::Method;
use schedule_checker::check;
use simulated_machine::Instruction;
use simulated_machine::Mistake;
use simulated_machine::Part;
use simulated_machine::Program;
use simulated_machine::Recording;
use simulated_machine::Replay;
use simulated_machine::Tuning;
use simulated_machine::case;
use simulated_machine::explore::Ending;
use simulated_machine::explore::Limits;
use simulated_machine::explore::Report;
use simulated_machine::explore::explore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

/// The first thread begins by creating the others.
fn program(threads: &[&[Instruction]]) -> Program {
    let mut threads: Vec<Vec<Instruction>> = threads.iter().map(|thread| thread.to_vec()).collect();
    for child in (1..threads.len() as u32).rev() {
        threads[0].insert(0, Instruction::Spawn { thread: child });
    }
    Program {
        threads,
        chunks: 3,
        values: 0,
    }
}

pub type Known = BTreeSet<(Vec<Vec<u8>>, Vec<u64>, Vec<Vec<Option<u128>>>)>;

/// Does the recording explain what was read, whichever way its schedule is followed?
fn explains(program: &Program, recording: &Recording) -> Result<(), String> {
    let logs = recording.logs();
    for hints in [Hints::Use, Hints::Ignore] {
        let solution = solve(&logs, hints).map_err(|unsolvable| format!("{hints:?}: {unsolvable}"))?;
        let schedule = solution.schedule;
        check(&logs, &schedule).map_err(|rejection| format!("{hints:?}: {rejection}"))?;
        for (thread, count) in recording.counts.iter().enumerate() {
            if schedule.threads[thread].events != *count {
                return Err(format!("thread {thread} is not replayed to its end"));
            }
        }
        let replays = Replay::new(program, recording, &schedule).run_all(50_000);
        replays.map_err(|deviation| format!("{hints:?}: {deviation:?}"))?;
    }
    Ok(())
}

fn checked(
    program: &Program,
    known: Arc<Mutex<Known>>,
) -> impl FnOnce(&Ending, Recording) -> Result<(), String> + 'static {
    let program = program.clone();
    move |ending, recording| {
        if !ending.is_complete() || ending.idle > 0 {
            return Err(format!("{ending:?}"));
        }
        let what = (
            recording.files.clone(),
            recording.counts.clone(),
            recording.reads.clone(),
        );
        match known.lock().unwrap().insert(what) {
            true => explains(&program, &recording),
            false => Ok(()),
        }
    }
}

/// A program, and what its threads have done before it is explored.
pub struct Small<'a> {
    pub program: Program,
    pub first: &'a [usize],
    pub method: Method,
    pub tuning: Tuning,
}

impl Small<'_> {
    pub fn explore(&self, mistake: Option<Mistake>, limits: &Limits) -> (Report, usize) {
        let (report, known) = self.recordings(mistake, limits);
        (report, known.len())
    }

    /// All that its threads' orders lead to.
    pub fn recordings(&self, mistake: Option<Mistake>, limits: &Limits) -> (Report, Known) {
        let known = Arc::new(Mutex::new(Known::new()));
        let report = explore(limits, || {
            let check = checked(&self.program, known.clone());
            case(
                &self.program,
                self.method,
                self.tuning,
                mistake,
                Part::After(self.first),
                check,
            )
        });
        let known = std::mem::take(&mut *known.lock().unwrap());
        (report, known)
    }

    /// Nothing is wrong in any order: all of them, or all with at most so many delays.
    pub fn is_clean(&self, name: &str, delays: Option<usize>) {
        let (report, distinct) = self.explore(None, &limits(delays));
        println!(
            "{name}: {} executions, {} cut, {distinct} recordings, {} steps",
            report.executions, report.cut, report.steps_max
        );
        report.assert_clean();
    }
}

pub fn limits(delays: Option<usize>) -> Limits {
    Limits {
        executions: 300_000,
        delays,
        ..Limits::default()
    }
}

pub fn small<'a>(threads: &[&[Instruction]], first: &'a [usize], method: Method, tuning: Tuning) -> Small<'a> {
    Small {
        program: program(threads),
        first,
        method,
        tuning,
    }
}

/// The mistake is found, and without it the same case is clean.
pub fn is_found(name: &str, small: &Small<'_>, mistake: Mistake, delays: Option<usize>) {
    let (report, _) = small.explore(Some(mistake), &limits(delays));
    let Some(failure) = report.failure else {
        panic!("{name}: {mistake:?} was not found in {} executions", report.executions);
    };
    println!(
        "{name}: found after {} executions: {}",
        report.executions, failure.message
    );
    small.is_clean(name, delays);
}
