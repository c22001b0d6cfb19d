//! What the threads of a simulated run do.
use crate::memory::BASE;
use crate::memory::CELL_BYTES;
use crate::memory::CHUNK_BYTES;
use crate::random::Random;
use crate::random::mix;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Load {
        address: u64,
        bytes: u64,
    },
    /// Stores a value that depends on all the thread has read.
    Store {
        address: u64,
        bytes: u64,
    },
    AtomicLoad {
        address: u64,
    },
    AtomicStore {
        address: u64,
    },
    AtomicAdd {
        address: u64,
    },
    Lock {
        mutex: u64,
    },
    Unlock {
        mutex: u64,
    },
    Spawn {
        thread: u32,
    },
    Join {
        thread: u32,
    },
    /// Leaves out the next instruction if what the thread has read is odd. Not an event.
    Perhaps,
}

/// Thread 0 begins; every other one is created once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub threads: Vec<Vec<Instruction>>,
    pub chunks: u64,
    /// How many different values are stored; 0: hardly any twice.
    pub values: u64,
}

/// How large programs get.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: u64,
    /// Per thread, without locks, spawns and joins.
    pub accesses: u64,
    pub chunks: u64,
    /// Cells of each chunk that are used.
    pub cells: u64,
    pub mutexes: u64,
}

impl Shape {
    pub const SMALL: Shape = Shape {
        threads: 3,
        accesses: 3,
        chunks: 1,
        cells: 2,
        mutexes: 1,
    };
    pub const MEDIUM: Shape = Shape {
        threads: 4,
        accesses: 14,
        chunks: 2,
        cells: 2,
        mutexes: 2,
    };
    pub const LARGE: Shape = Shape {
        threads: 8,
        accesses: 60,
        chunks: 4,
        cells: 3,
        mutexes: 3,
    };
    /// Everybody at one cell.
    pub const HOT: Shape = Shape {
        threads: 4,
        accesses: 12,
        chunks: 1,
        cells: 1,
        mutexes: 1,
    };
}

pub fn generate(seed: u64, shape: Shape) -> Program {
    let mut random = Random::new(seed);
    let count = 2 + random.below(shape.threads - 1);
    let mut threads: Vec<Vec<Instruction>> = (0..count).map(|_| body(&mut random, shape)).collect();
    for child in 1..count {
        // Parents have smaller numbers than their children, so nobody waits for himself.
        let parent = random.below(child) as usize;
        let at = place(&mut random, &threads[parent]);
        threads[parent].insert(at, Instruction::Spawn { thread: child as u32 });
        if random.once_in(2) {
            let join = threads[parent].len()
                - if random.once_in(2) {
                    0
                } else {
                    threads[parent].len() - at - 1
                };
            if outside_lock(&threads[parent], join) && join > at {
                threads[parent].insert(join, Instruction::Join { thread: child as u32 });
            }
        }
    }
    Program {
        threads,
        chunks: shape.chunks,
        values: 0,
    }
}

/// Accesses, some of them in critical sections.
fn body(random: &mut Random, shape: Shape) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    let mut left = 1 + random.below(shape.accesses);
    while left > 0 {
        let section = if random.once_in(5) {
            1 + random.below(3).min(left - 1)
        } else {
            0
        };
        let mutex = random.below(shape.mutexes);
        if section > 0 {
            instructions.push(Instruction::Lock { mutex });
        }
        for _ in 0..section.max(1) {
            if random.once_in(6) {
                instructions.push(Instruction::Perhaps);
            }
            instructions.push(access(random, shape));
            left -= 1;
        }
        if section > 0 {
            instructions.push(Instruction::Unlock { mutex });
        }
    }
    instructions
}

fn access(random: &mut Random, shape: Shape) -> Instruction {
    let cell = BASE + random.below(shape.chunks) * CHUNK_BYTES + random.below(shape.cells) * CELL_BYTES;
    let (mut address, mut bytes) = (cell, CELL_BYTES);
    match random.below(10) {
        // Part of a cell.
        0 => (address, bytes) = (cell + random.below(5), 1 << random.below(2)),
        // Two cells; at the end of a chunk, two chunks.
        1 => bytes = 16,
        2 if shape.chunks > 1 => (address, bytes) = (BASE + CHUNK_BYTES - 4, 8),
        _ => {}
    }
    match random.below(12) {
        0..=4 => Instruction::Load { address, bytes },
        5..=8 => Instruction::Store { address, bytes },
        9 => Instruction::AtomicLoad { address: cell },
        10 => Instruction::AtomicStore { address: cell },
        _ => Instruction::AtomicAdd { address: cell },
    }
}

/// Somewhere a spawn does no harm: not between a `Perhaps` and what it leaves out, and not in a critical section.
fn place(random: &mut Random, instructions: &[Instruction]) -> usize {
    let start = random.below(1 + instructions.len() as u64 / 2) as usize;
    (start..instructions.len())
        .find(|at| outside_lock(instructions, *at))
        .unwrap_or(instructions.len())
}

fn outside_lock(instructions: &[Instruction], at: usize) -> bool {
    let before = &instructions[..at];
    let locks = before.iter().filter(|i| matches!(i, Instruction::Lock { .. })).count();
    let unlocks = before
        .iter()
        .filter(|i| matches!(i, Instruction::Unlock { .. }))
        .count();
    locks == unlocks && before.last() != Some(&Instruction::Perhaps)
}

/// Where a thread is, and all it has read, in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Progress {
    next: usize,
    read: u64,
    values: u64,
}

impl Progress {
    pub(crate) fn new(thread: usize, values: u64) -> Progress {
        Progress {
            next: 0,
            read: mix(thread as u64),
            values,
        }
    }

    /// The instruction that is the thread's next event; `None` when it has done all.
    pub(crate) fn instruction(&mut self, instructions: &[Instruction]) -> Option<Instruction> {
        while let Some(Instruction::Perhaps) = instructions.get(self.next) {
            self.next += if self.read & 1 == 1 { 2 } else { 1 };
        }
        instructions.get(self.next).copied()
    }

    pub(crate) fn value(&self) -> u128 {
        let low = mix(self.read ^ self.next as u64);
        if self.values > 0 {
            return u128::from(low % self.values) * 0x0101_0101_0101_0101_0101_0101_0101_0101;
        }
        u128::from(low) | u128::from(mix(low)) << 64
    }

    /// The instruction is done, and read `value` if it reads.
    pub(crate) fn advance(&mut self, value: Option<u128>) {
        self.next += 1;
        if let Some(value) = value {
            self.read = mix(self.read ^ value as u64 ^ mix((value >> 64) as u64));
        }
    }
}
