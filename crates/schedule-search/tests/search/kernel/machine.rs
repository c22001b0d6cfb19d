//! The state of a program in execution. A step of a thread is one moment.
use super::program::Op;
use super::program::Operand;
use super::program::Operator;
use super::program::Program;
use run_model::ThreadIndex;
use schedule_search::EventKind;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    pub shared: Vec<i64>,
    pub owners: Vec<Option<usize>>,
    /// Who waits for each condition, the first to come first.
    pub waiting: Vec<Vec<usize>>,
    pub threads: Vec<Thread>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    pub method: usize,
    pub at: usize,
    pub locals: Vec<i64>,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Running,
    /// In the middle of a wait, not signalled yet.
    Waiting,
    /// Signalled; needs the lock to go on.
    Woken,
    Ended,
}

/// An event as the log of the test has it; `value` is what was written, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub thread: ThreadIndex,
    pub label: u64,
    pub kind: EventKind,
    pub value: i64,
}

impl Machine {
    pub fn new(program: &Program) -> Machine {
        let mut machine = Machine {
            shared: program.shared.clone(),
            owners: vec![None; program.locks],
            waiting: vec![Vec::new(); program.conditions],
            threads: Vec::new(),
        };
        machine.spawn(program, program.entry);
        machine
    }

    fn spawn(&mut self, program: &Program, method: usize) {
        let locals = vec![0; program.methods[method].locals];
        self.threads.push(Thread {
            method,
            at: 0,
            locals,
            state: State::Running,
        });
    }

    pub fn op(&self, program: &Program, thread: usize) -> (u64, Op) {
        let Thread { method, at, .. } = self.threads[thread];
        program.methods[method].ops[at]
    }

    pub fn value(&self, thread: usize, operand: Operand) -> i64 {
        match operand {
            Operand::Constant(value) => value,
            Operand::Local(local) => self.threads[thread].locals[local],
        }
    }

    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(|thread| thread.state == State::Ended)
    }

    pub fn can_step(&self, program: &Program, thread: usize) -> bool {
        let free = |lock: usize| self.owners[lock].is_none_or(|owner| owner == thread);
        match (self.threads[thread].state, self.op(program, thread).1) {
            (State::Ended | State::Waiting, _) => false,
            (State::Woken, Op::Wait { lock, .. }) | (State::Running, Op::Acquire { lock }) => free(lock),
            _ => true,
        }
    }

    /// The logged event that the thread would make now. What a read brings, the caller knows.
    pub fn event(&self, program: &Program, thread: usize) -> Option<Entry> {
        if self.threads[thread].state != State::Running {
            return None;
        }
        let (label, op) = self.op(program, thread);
        let (kind, value) = match op {
            Op::Read { .. } => (EventKind::Call, 0),
            Op::Write { value } => (EventKind::Call, self.value(thread, value)),
            Op::Spawn { .. } => (
                EventKind::Spawn {
                    child: ThreadIndex(self.threads.len() as u32),
                },
                0,
            ),
            Op::Assert { value } if self.value(thread, value) == 0 => (EventKind::Failure, 0),
            Op::End => (EventKind::End, 0),
            _ => return None,
        };
        Some(Entry {
            thread: ThreadIndex(thread as u32),
            label,
            kind,
            value,
        })
    }

    /// The shared variable that the thread would access now, and whether it would write.
    pub fn access(&self, program: &Program, thread: usize) -> Option<(usize, bool)> {
        match self.op(program, thread).1 {
            Op::Load { from, .. } => Some((from, false)),
            Op::Store { into, .. } => Some((into, true)),
            _ => None,
        }
    }

    /// One step of a thread that can make one; `input` is what a read brings.
    pub fn step(&mut self, program: &Program, thread: usize, input: i64) {
        let op = self.op(program, thread).1;
        let mut next = self.threads[thread].at + 1;
        match op {
            Op::Load { into, from } => self.threads[thread].locals[into] = self.shared[from],
            Op::Store { into, value } => self.shared[into] = self.value(thread, value),
            Op::Compute {
                into,
                left,
                operator,
                right,
            } => {
                let (left, right) = (self.value(thread, left), self.value(thread, right));
                self.threads[thread].locals[into] = operator.apply(left, right);
            }
            Op::Read { into } => self.threads[thread].locals[into] = input,
            Op::Write { .. } | Op::Assert { .. } => {}
            Op::Spawn { method } => self.spawn(program, method),
            Op::Acquire { lock } => self.owners[lock] = Some(thread),
            Op::Release { lock } => self.owners[lock] = None,
            Op::Wait { condition, lock } if self.threads[thread].state == State::Running => {
                self.owners[lock] = None;
                self.waiting[condition].push(thread);
                self.threads[thread].state = State::Waiting;
                next = self.threads[thread].at;
            }
            Op::Wait { lock, .. } => {
                self.owners[lock] = Some(thread);
                self.threads[thread].state = State::Running;
            }
            Op::Signal { condition } => {
                if !self.waiting[condition].is_empty() {
                    let woken = self.waiting[condition].remove(0);
                    self.threads[woken].state = State::Woken;
                }
            }
            Op::Broadcast { condition } => {
                for woken in std::mem::take(&mut self.waiting[condition]) {
                    self.threads[woken].state = State::Woken;
                }
            }
            Op::Jump { to } => next = to,
            Op::JumpUnless { value, to } => {
                if self.value(thread, value) == 0 {
                    next = to;
                }
            }
            Op::End => {
                self.threads[thread].state = State::Ended;
                next = self.threads[thread].at;
            }
        }
        self.threads[thread].at = next;
    }
}

impl Operator {
    fn apply(self, left: i64, right: i64) -> i64 {
        match self {
            Operator::Plus => left.wrapping_add(right),
            Operator::Minus => left.wrapping_sub(right),
            Operator::Times => left.wrapping_mul(right),
            Operator::Modulo => left.checked_rem(right).unwrap_or(0),
            Operator::Less => (left < right).into(),
            Operator::Equal => (left == right).into(),
            Operator::Unequal => (left != right).into(),
        }
    }
}
