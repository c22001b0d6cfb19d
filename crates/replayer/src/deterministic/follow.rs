//! A whole trace is followed: does every thread go from block to block as its code allows?
//!
//! The first block of a function begins an activation, which ends when it is left. Any other block is one that may come after the last of the innermost
//! activation; or, if an exception came up, of one further out. What this proves is that the numbers in the trace are those of the bitcode that is kept.
use crate::units::UnitBook;
use instrumentor::units::Unit;
use run_model::WholeEntry;
use std::fmt;

/// What was followed of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    pub blocks: u64,
    pub activations: u64,
    /// Steps from a block to one that may come after it.
    pub edges: u64,
    /// Activations that an exception ended, or that were left when the thread ended.
    pub left: u64,
    pub values: u64,
    /// Accesses and events.
    pub steps: u64,
}

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Astray {
    /// There is no such unit, or it has no such block.
    Unknown { unit: u32, block: u32 },
    /// No block of an activation leads there.
    NoWay {
        unit: u32,
        block: u32,
        from: Option<(u32, u32)>,
    },
    /// It is in no function.
    NothingToLeave,
    /// The value is none of the block that the thread is in, nor an argument or local variable of its function.
    NoValue { unit: u32, value: u32 },
}

impl fmt::Display for Astray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Astray::Unknown { unit, block } => write!(f, "no object of the program has block {block} of unit {unit}"),
            Astray::NoWay {
                unit,
                block,
                from: None,
            } => {
                write!(f, "block {block} of unit {unit} is not where a function begins")
            }
            Astray::NoWay {
                unit,
                block,
                from: Some((from_unit, from)),
            } => write!(
                f,
                "block {block} of unit {unit} does not come after block {from} of unit {from_unit}"
            ),
            Astray::NothingToLeave => write!(f, "the thread leaves a function, and is in none"),
            Astray::NoValue { unit, value } => write!(
                f,
                "value {value} of unit {unit} is not computed in the block that the thread is in"
            ),
        }
    }
}

/// Where a thread is.
#[derive(Debug)]
pub struct Follower<'a> {
    units: &'a UnitBook,
    /// The last block of each activation, the innermost last.
    stack: Vec<(u32, u32)>,
    pub followed: Followed,
}

impl<'a> Follower<'a> {
    pub fn new(units: &'a UnitBook) -> Follower<'a> {
        Follower {
            units,
            stack: Vec::new(),
            followed: Followed::default(),
        }
    }

    /// How many functions it is in.
    pub fn depth(&self) -> usize {
        self.stack.len()
    }

    pub fn step(&mut self, entry: &WholeEntry) -> Result<(), Astray> {
        match entry {
            WholeEntry::Block { unit, block } => self.block(*unit, *block),
            WholeEntry::Value { unit, value, .. } => self.value(*unit, *value),
            WholeEntry::Step(_) => {
                self.followed.steps += 1;
                Ok(())
            }
            WholeEntry::Left => match self.stack.pop() {
                Some(_) => Ok(()),
                None => Err(Astray::NothingToLeave),
            },
            WholeEntry::Call { .. } | WholeEntry::Brought { .. } => Ok(()),
        }
    }

    fn block(&mut self, unit: u32, block: u32) -> Result<(), Astray> {
        let unknown = Astray::Unknown { unit, block };
        let code = self.units.find(unit).ok_or(unknown)?;
        let function = code.function_of(block).ok_or(unknown)?;
        self.followed.blocks += 1;
        if function.blocks.start == block {
            self.stack.push((unit, block));
            self.followed.activations += 1;
            return Ok(());
        }
        let innermost = self.stack.last().copied();
        while let Some((from_unit, from)) = self.stack.pop() {
            if from_unit == unit && code.successors(from).contains(&block) {
                self.stack.push((unit, block));
                self.followed.edges += 1;
                return Ok(());
            }
            self.followed.left += 1;
        }
        let from = innermost;
        Err(Astray::NoWay { unit, block, from })
    }

    fn value(&mut self, unit: u32, value: u32) -> Result<(), Astray> {
        self.followed.values += 1;
        let is_known = self.stack.last().is_some_and(|(of, block)| {
            let has = |code: &Unit| {
                let function = code.function_of(*block)?;
                let of_block = |block| code.instructions(block).is_some_and(|own| own.contains(&value));
                Some(function.arguments.contains(&value) || of_block(*block) || of_block(function.blocks.start))
            };
            *of == unit && self.units.find(unit).and_then(has) == Some(true)
        });
        is_known.then_some(()).ok_or(Astray::NoValue { unit, value })
    }
}
