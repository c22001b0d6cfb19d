//! Small programs with locks, inputs and threads, and what they can do at all: a model that knows nothing of turns.
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

/// One thing that a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// A system call that has a place in the order.
    Input,
    Lock(u64),
    Unlock(u64),
    /// Asks to let others run.
    Yield,
    Create(u32),
    /// Waits for the end of a thread.
    Join(u32),
}

/// What each thread does, from its beginning to its end. Thread 0 is there at first.
pub(crate) type Program = Vec<Vec<Op>>;

/// How far a program is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Progress {
    /// How much each thread has done; nothing: it is not there yet.
    done: Vec<Option<usize>>,
    owners: Vec<(u64, u32)>,
    inputs: Vec<u32>,
}

impl Progress {
    pub(crate) fn begin(program: &Program) -> Progress {
        let mut done = vec![None; program.len()];
        done[0] = Some(0);
        Progress {
            done,
            owners: Vec::new(),
            inputs: Vec::new(),
        }
    }

    fn next(&self, program: &Program, thread: u32) -> Option<Op> {
        program[thread as usize].get(self.done[thread as usize]?).copied()
    }

    fn is_over(&self, program: &Program, thread: u32) -> bool {
        self.done[thread as usize] == Some(program[thread as usize].len())
    }

    pub(crate) fn is_all_over(&self, program: &Program) -> bool {
        (0..program.len() as u32).all(|thread| self.is_over(program, thread))
    }

    /// Who can do something. `order`: in which order inputs happen, if that matters.
    pub(crate) fn able(&self, program: &Program, order: Option<&[u32]>) -> Vec<u32> {
        let can = |thread: &u32| match self.next(program, *thread) {
            Some(Op::Input) => order.is_none_or(|order| order.get(self.inputs.len()) == Some(thread)),
            Some(Op::Lock(lock)) => self.owners.iter().all(|(held, _)| *held != lock),
            Some(Op::Join(other)) => self.is_over(program, other),
            Some(_) => true,
            None => false,
        };
        (0..program.len() as u32).filter(can).collect()
    }

    /// The thread, which is able to, does the next thing.
    pub(crate) fn step(&mut self, program: &Program, thread: u32) {
        match self.next(program, thread) {
            Some(Op::Input) => self.inputs.push(thread),
            Some(Op::Lock(lock)) => {
                self.owners.push((lock, thread));
                self.owners.sort();
            }
            Some(Op::Unlock(lock)) => self.owners.retain(|(held, _)| *held != lock),
            Some(Op::Create(other)) => self.done[other as usize] = Some(0),
            _ => {}
        }
        *self.done[thread as usize].as_mut().expect("it is there") += 1;
    }
}

/// An order of inputs that the program can have: `choose` draws one of so many.
pub(crate) fn record(program: &Program, mut choose: impl FnMut(usize) -> usize) -> Option<Vec<u32>> {
    let mut progress = Progress::begin(program);
    while !progress.is_all_over(program) {
        let able = progress.able(program, None);
        if able.is_empty() {
            return None;
        }
        progress.step(program, able[choose(able.len())]);
    }
    Some(progress.inputs)
}

/// Can the program come to where nobody can go on, if its inputs happen in this order? By trying everything.
pub(crate) fn can_get_stuck(program: &Program, order: &[u32]) -> bool {
    let mut seen = BTreeSet::new();
    let mut left = vec![Progress::begin(program)];
    while let Some(progress) = left.pop() {
        let able = progress.able(program, Some(order));
        if able.is_empty() && !progress.is_all_over(program) {
            return true;
        }
        for thread in able {
            let mut next = progress.clone();
            next.step(program, thread);
            if seen.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    false
}
