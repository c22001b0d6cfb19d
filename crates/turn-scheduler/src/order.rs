//! The recorded order of inputs: runs of one thread's inputs, and where a thread has to come to a stop, or to go on, between them.
use crate::process::Process;
use crate::scheduler::Turns;
use core::sync::atomic::Ordering::Relaxed;
use machine::Machine;
use machine::Word;
use run_model::RunKind;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::NO_RUN;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;

const REST: u32 = RunKind::Rest as u32;
const RETURN: u32 = RunKind::Return as u32;

/// The file `turns`, as it lies in memory.
#[derive(Clone, Copy, Default)]
pub struct Order<'a> {
    pub threads: &'a [ThreadTurns],
    pub runs: &'a [TurnRun],
    pub edits: &'a [EditEntry],
}

impl<M: Machine, P: Process, const THREADS: usize> Turns<'_, M, P, THREADS> {
    /// The inputs that `thread` has had when it enters the window.
    pub fn window_of(&self, thread: u32) -> u64 {
        let of = self.process.order().threads.get(thread as usize);
        of.map_or(0, |thread| thread.window)
    }

    /// The run that has the first input of `thread`.
    pub(crate) fn first_run(&self, thread: u32) -> u32 {
        let of = self.process.order().threads.get(thread as usize);
        of.map_or(NO_RUN, |thread| thread.first)
    }

    fn run_at(&self, index: u32) -> Option<TurnRun> {
        self.process.order().runs.get(index as usize).copied()
    }

    fn run_under_way(&self) -> u32 {
        self.scheduler.run.load(Relaxed)
    }

    /// Whose input is the next one of the order, or who has to come to a stop before it; nobody, if all have happened.
    pub fn next_thread(&self) -> Option<u32> {
        loop {
            let index = self.run_under_way();
            let run = self.run_at(index)?;
            let is_passed = match run.kind {
                REST => self.is_at_rest(run.thread),
                // Nobody else could go on.
                RETURN => self.turn_state(run.thread).next_run() != index,
                _ => false,
            };
            if !is_passed {
                return Some(run.thread);
            }
            self.begin_next(&run);
        }
    }

    /// Whose input is next, if nobody has to come to a stop, or to go on, before it.
    pub fn next_input(&self) -> Option<u32> {
        let thread = self.next_thread()?;
        let is_input = self.run_at(self.run_under_way())?.count != 0;
        is_input.then_some(thread)
    }

    /// Is the next input of the order one of `thread`'s?
    pub fn is_next(&self, thread: u32) -> bool {
        self.next_input() == Some(thread)
    }

    /// Does `thread` have to wait until the order has it go on behind its last input?
    pub fn has_to_return(&self, thread: u32) -> bool {
        let run = self.run_at(self.turn_state(thread).next_run());
        run.is_some_and(|run| run.kind == RETURN)
    }

    /// It goes on.
    pub(crate) fn pass_return(&self, thread: u32) {
        let state = self.turn_state(thread);
        if let Some(run) = self.run_at(state.next_run()) {
            state.set_next_run(run.next);
        }
    }

    /// Nobody can go on: if somebody was to come to a stop first, that one need not.
    pub(crate) fn pass_rest(&self) -> bool {
        let rest = self.run_at(self.run_under_way()).filter(|run| run.kind == REST);
        rest.map(|run| self.begin_next(&run)).is_some()
    }

    fn begin_next(&self, run: &TurnRun) {
        let index = self.run_under_way();
        self.scheduler.happened.store(0, Relaxed);
        self.scheduler.run.store(index + 1, Relaxed);
        let state = self.turn_state(run.thread);
        if state.next_run() == index {
            state.set_next_run(run.next);
        }
    }

    /// The next input of the order has happened.
    pub(crate) fn advance(&self) {
        let Some(run) = self.run_at(self.run_under_way()) else {
            return;
        };
        self.process.set_reached(self.process.reached() + 1);
        let happened = self.scheduler.happened.load(Relaxed) + 1;
        if happened < run.count {
            return self.scheduler.happened.store(happened, Relaxed);
        }
        self.begin_next(&run);
    }
}
