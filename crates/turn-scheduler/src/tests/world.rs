//! A process for the scheduler to decide in: programs of `programs.rs` that run as threads of the simulated machine, with locks as libc makes them of
//! futexes. It knows by itself who can go on, and notes whatever contradicts that.
use crate::FutexCall;
use crate::Order;
use crate::Process;
use crate::RecordedWaits;
use crate::Scheduler;
use crate::SignalDue;
use crate::State;
use crate::Turns;
use crate::Way;
use crate::tests::programs::Op;
use crate::tests::programs::Program;
use core::sync::atomic::Ordering::SeqCst;
use machine::Machine;
use machine::Word;
use run_model::RunKind;
use runtime_abi::turns_file::EditEntry;
use runtime_abi::turns_file::NO_RUN;
use runtime_abi::turns_file::ThreadTurns;
use runtime_abi::turns_file::TurnRun;
use runtime_abi::turns_file::what;
use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::vec;
use std::vec::Vec;

pub(crate) const THREADS: usize = 4;
const FUTEX_WAIT: i32 = 0;
const FUTEX_WAKE: i32 = 1;
const PRIVATE: i32 = 0x80;

/// Where a lock is, and behind it who holds it.
pub(crate) fn lock_at(lock: u64) -> u64 {
    0x1_0000 + lock * 0x1000
}

/// Where the kernel writes zero when the thread has ended.
fn end_at(thread: u32) -> u64 {
    0x8_0000 + u64::from(thread) * 0x1000
}

fn name(thread: u32) -> u32 {
    1000 + thread
}

/// Where a thread is, as it knows itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Unborn,
    /// Wherever else; it could go on.
    Running,
    Input,
    /// In a futex call, since this wait of all.
    Waiting {
        address: u64,
        expected: u32,
        since: u64,
        is_woken: bool,
    },
    Over,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) words: BTreeMap<u64, u32>,
    at: Vec<At>,
    waits: u64,
    /// Inputs that have happened, and each thing that was done, in order.
    pub(crate) inputs: Vec<u32>,
    pub(crate) trace: Vec<(u32, Op)>,
    pub(crate) wrong: Vec<String>,
    /// Nobody could go on, and whose input was due.
    pub(crate) deadlock: Option<Option<u32>>,
    reached: u64,
    is_exiting: bool,
    pub(crate) missed_edits: u32,
}

pub(crate) struct World<M: Machine> {
    pub(crate) scheduler: Scheduler<M, THREADS>,
    machine: M,
    program: Program,
    /// In which order inputs happen.
    order: Vec<u32>,
    threads: Vec<ThreadTurns>,
    runs: Vec<TurnRun>,
    edits: Vec<EditEntry>,
    /// The kernel has let go of the thread.
    gone: [M::U32; THREADS],
    never: M::U32,
    model: Mutex<Model>,
}

/// As `log_format` writes it: runs of one thread's inputs.
pub(crate) fn runs_of(order: &[u32]) -> (Vec<ThreadTurns>, Vec<TurnRun>) {
    let mut runs: Vec<TurnRun> = Vec::new();
    for thread in order {
        match runs.last_mut().filter(|run| run.thread == *thread) {
            Some(run) => run.count += 1,
            None => runs.push(TurnRun {
                thread: *thread,
                count: 1,
                next: NO_RUN,
                kind: RunKind::Inputs as u32,
            }),
        }
    }
    link(&mut runs)
}

/// Each thread's first run, and each run's next of the same thread.
pub(crate) fn link(runs: &mut Vec<TurnRun>) -> (Vec<ThreadTurns>, Vec<TurnRun>) {
    let mut threads = vec![
        ThreadTurns {
            first: NO_RUN,
            ..ThreadTurns::default()
        };
        THREADS
    ];
    for index in (0..runs.len()).rev() {
        let first = &mut threads[runs[index].thread as usize].first;
        runs[index].next = core::mem::replace(first, index as u32);
    }
    (threads, core::mem::take(runs))
}

impl<M: Machine> World<M> {
    pub(crate) fn new(machine: M, program: &Program, order: &[u32], edits: &[EditEntry]) -> World<M> {
        let (threads, runs) = runs_of(order);
        let mut model = Model {
            at: vec![At::Unborn; THREADS],
            ..Model::default()
        };
        model.at[0] = At::Running;
        World {
            scheduler: Scheduler::new(),
            machine,
            program: program.clone(),
            order: order.to_vec(),
            threads,
            runs,
            edits: edits.to_vec(),
            gone: [const { M::U32::ZERO }; THREADS],
            never: M::U32::ZERO,
            model: Mutex::new(model),
        }
    }

    /// The order is this one instead, with places where threads stop or go on.
    pub(crate) fn set_runs(&mut self, mut runs: Vec<TurnRun>) {
        (self.threads, self.runs) = link(&mut runs);
    }

    pub(crate) fn turns(&self) -> Turns<'_, M, &World<M>, THREADS> {
        Turns {
            scheduler: &self.scheduler,
            machine: self.machine,
            process: self,
        }
    }

    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn wrong(&self, message: String) {
        self.model().wrong.push(message);
    }

    fn set(&self, thread: u32, at: At) {
        self.model().at[thread as usize] = at;
    }

    pub(crate) fn is_over(&self) -> bool {
        let over = |thread: &usize| self.model().at[*thread] == At::Over;
        (0..self.program.len()).all(|thread| over(&thread))
    }

    /// Could the thread go on if it were its turn?
    pub(crate) fn is_able(&self, thread: u32) -> bool {
        let at = self.model().at[thread as usize];
        match at {
            At::Running => true,
            // It may not quite have come there.
            At::Input => self.is_due(thread) || self.scheduler.turn_state(thread).state() == State::Ready,
            At::Waiting {
                address,
                expected,
                is_woken,
                ..
            } => is_woken || self.load(address) != expected,
            At::Unborn | At::Over => false,
        }
    }

    /// Is the next input of the recorded order one of the thread's?
    fn is_due(&self, thread: u32) -> bool {
        self.order.get(self.model().inputs.len()) == Some(&thread)
    }

    fn inputs_of(&self, thread: u32, inputs: &[u32]) -> usize {
        inputs.iter().filter(|input| **input == thread).count()
    }

    /// What the virtual thread `me` does, from its beginning to its end.
    pub(crate) fn run(&self, me: u32) {
        if me != 0 {
            self.turns().arrive(me);
        }
        for op in &self.program[me as usize] {
            if !self.turns().has_turn(me) {
                self.wrong(format!("{me} does {op:?} without the turn"));
            }
            self.perform(me, *op);
            self.model().trace.push((me, *op));
        }
        self.set(me, At::Over);
        self.turns().leave(me);
        // The kernel takes its time.
        self.gone[me as usize].store(1, SeqCst);
    }

    fn perform(&self, me: u32, op: Op) {
        match op {
            Op::Input => {
                self.set(me, At::Input);
                self.turns().wait_for_event(me, || 0);
                if !self.is_due(me) {
                    self.wrong(format!("an input of {me} out of order"));
                }
                self.set(me, At::Running);
                self.model().inputs.push(me);
                self.turns().event_happened();
            }
            Op::Lock(lock) => self.lock(me, lock_at(lock)),
            Op::Unlock(lock) => self.unlock(me, lock_at(lock)),
            Op::Yield => self.turns().give_way(me, Way::Asked),
            Op::Create(other) => {
                self.set(other, At::Running);
                self.turns().created(other);
                self.turns().switch(me, 0, what::SPAWN, 0);
            }
            Op::Join(other) => {
                self.turns().switch(me, 0, what::ACQUIRE, 0);
                while self.load(end_at(other)) != 0 {
                    self.futex_wait(me, end_at(other), name(other), 0);
                }
            }
        }
    }

    /// As glibc: 0 is free, 1 held, 2 held and perhaps waited for; eight bytes behind is who holds it.
    fn lock(&self, me: u32, address: u64) {
        self.turns().switch(me, address, what::ACQUIRE, 0);
        let mut taken = 1;
        while self.load(address) != 0 {
            self.store(address, 2);
            self.futex_wait(me, address, 2, PRIVATE);
            taken = 2;
        }
        self.store(address, taken);
        self.store(address + 8, name(me));
    }

    fn unlock(&self, me: u32, address: u64) {
        self.store(address + 8, 0);
        let was = self.load(address);
        self.store(address, 0);
        if was != 2 {
            return self.turns().switch(me, address, what::RELEASE, 0);
        }
        if let Some(waiter) = self.first_waiter(address)
            && let At::Waiting { is_woken, .. } = &mut self.model().at[waiter as usize]
        {
            *is_woken = true;
        }
        let call = call(address, FUTEX_WAKE | PRIVATE, 1);
        let mut nothing = Begins {
            world: self,
            me,
            address,
            expected: 0,
        };
        self.turns().futex(me, &call, &mut nothing, || 0);
    }

    /// Who is to be woken: the one whose next input is the earliest, and of several the one that waits longest.
    fn first_waiter(&self, waited_for: u64) -> Option<u32> {
        let model = self.model();
        let waiting = model.at.iter().enumerate().filter_map(|(thread, at)| match at {
            At::Waiting {
                address,
                since,
                is_woken: false,
                ..
            } if *address == waited_for => {
                let left = &self.order[model.inputs.len()..];
                let next = left.iter().position(|of| *of == thread as u32).unwrap_or(usize::MAX);
                Some((next, *since, thread as u32))
            }
            _ => None,
        });
        waiting.min().map(|(.., thread)| thread)
    }

    fn futex_wait(&self, me: u32, address: u64, expected: u32, flags: i32) {
        let call = call(address, FUTEX_WAIT | flags, expected);
        let mut begins = Begins {
            world: self,
            me,
            address,
            expected,
        };
        self.turns().futex(me, &call, &mut begins, || 0);
        if !self.is_able(me) {
            self.wrong(format!("{me} is woken though others come first"));
        }
        self.set(me, At::Running);
    }

    fn begin_wait(&self, me: u32, address: u64, expected: u32) {
        let mut model = self.model();
        model.waits += 1;
        let since = model.waits;
        if model.at[me as usize] == At::Running {
            model.at[me as usize] = At::Waiting {
                address,
                expected,
                since,
                is_woken: false,
            };
        }
    }
}

fn call(address: u64, operation: i32, value: u32) -> FutexCall {
    FutexCall {
        address,
        operation,
        value,
        fourth: 0,
        other: 0,
        last: 0,
    }
}

/// No wait had a time limit; but when it is asked for, the thread is about to wait.
struct Begins<'a, M: Machine> {
    world: &'a World<M>,
    me: u32,
    address: u64,
    expected: u32,
}

impl<M: Machine> RecordedWaits for Begins<'_, M> {
    fn next_timed_wait(&self) -> Option<i64> {
        self.world.begin_wait(self.me, self.address, self.expected);
        None
    }
    fn next_signal(&self) -> Option<SignalDue> {
        None
    }
    fn take(&mut self) {}
}

impl<M: Machine> Process for &World<M> {
    fn order(&self) -> Order<'_> {
        Order {
            threads: &self.threads,
            runs: &self.runs,
            edits: &self.edits,
        }
    }

    fn creator_of(&self, thread: u32) -> Option<u32> {
        let creates = |ops: &Vec<Op>| ops.contains(&Op::Create(thread));
        self.program.iter().position(creates).map(|thread| thread as u32)
    }

    fn others_are_done(&self, thread: u32) -> bool {
        (0..THREADS as u32).all(|other| other == thread || !self.is_short(other))
    }

    fn is_short(&self, thread: u32) -> bool {
        self.inputs_of(thread, &self.model().inputs) < self.inputs_of(thread, &self.order)
    }

    fn orders_synchronisations(&self) -> bool {
        false
    }

    fn threads(&self) -> u32 {
        self.program.len() as u32
    }

    fn is_unused(&self, thread: u32) -> bool {
        self.model().at[thread as usize] == At::Unborn
    }

    fn name_of(&self, thread: u32) -> u32 {
        name(thread)
    }

    fn names_joined_threads(&self) -> bool {
        false
    }

    fn reached(&self) -> u64 {
        self.model().reached
    }

    fn set_reached(&self, inputs: u64) {
        self.model().reached = inputs;
    }

    fn note_missed_edit(&self) {
        self.model().missed_edits += 1;
    }

    fn load(&self, address: u64) -> u32 {
        if let Some(thread) = (0..THREADS as u32).find(|thread| end_at(*thread) == address) {
            let is_gone = self.gone[thread as usize].load(SeqCst) != 0;
            return if is_gone { 0 } else { name(thread) };
        }
        self.model().words.get(&address).copied().unwrap_or(0)
    }

    fn store(&self, address: u64, value: u32) {
        self.model().words.insert(address, value);
    }

    fn or(&self, address: u64, bits: u32) {
        *self.model().words.entry(address).or_default() |= bits;
    }

    fn before_pass(&self, next: u32) {
        // Whoever is to decide need not be able to go on.
        if !self.model().is_exiting && !self.is_able(next) {
            let at = self.model().at[next as usize];
            self.wrong(format!("the turn passes to {next}, which cannot go on: {at:?}"));
        }
    }

    fn before_exit(&self, thread: u32) -> u32 {
        self.model().is_exiting = true;
        thread + 1
    }

    fn wait_until_gone(&self, leaving: u32) {
        while self.gone[leaving as usize - 1].load(SeqCst) == 0 {
            self.machine.spin();
        }
        self.model().is_exiting = false;
    }

    fn nobody_can_go_on(&self, due: Option<u32>) -> ! {
        self.model().deadlock = Some(due);
        if let Some(able) = (0..THREADS as u32).find(|thread| self.is_able(*thread)) {
            self.wrong(format!("a deadlock is reported, and {able} could go on"));
        }
        loop {
            self.machine.futex_wait(&self.never, 0, 0);
        }
    }
}
