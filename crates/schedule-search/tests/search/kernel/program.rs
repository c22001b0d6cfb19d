//! Programs as text, compiled to steps that access shared memory at most once each.
//!
//! ```text
//! shared x = 3, y           shared variables, 0 unless said otherwise; every other name is local to its thread
//! thread main               runs from the beginning, others when they are spawned
//!   spawn worker
//!   acquire L               also: release L, wait C L, signal C, broadcast C
//!   x := x + 1              at most one operator: + - * % < == !=
//!   release L
//!   read v                  a logged event that brings a value
//!   write x                 a logged event that gives one out
//!   if x == 4               … end
//!   while y == 0            … end
//!   assert x                a logged failure, if it fails
//! ```
//!
//! The label of a statement is the number of its line.
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Constant(i64),
    Local(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load {
        into: usize,
        from: usize,
    },
    Store {
        into: usize,
        value: Operand,
    },
    Compute {
        into: usize,
        left: Operand,
        operator: Operator,
        right: Operand,
    },
    Read {
        into: usize,
    },
    Write {
        value: Operand,
    },
    Spawn {
        method: usize,
    },
    Acquire {
        lock: usize,
    },
    Release {
        lock: usize,
    },
    Wait {
        condition: usize,
        lock: usize,
    },
    Signal {
        condition: usize,
    },
    Broadcast {
        condition: usize,
    },
    Jump {
        to: usize,
    },
    JumpUnless {
        value: Operand,
        to: usize,
    },
    Assert {
        value: Operand,
    },
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Plus,
    Minus,
    Times,
    Modulo,
    Less,
    Equal,
    Unequal,
}

#[derive(Clone, Debug, Default)]
pub struct Method {
    /// Each with its label.
    pub ops: Vec<(u64, Op)>,
    pub locals: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub methods: Vec<Method>,
    pub entry: usize,
    pub shared: Vec<i64>,
    pub locks: usize,
    pub conditions: usize,
}

#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn get(&mut self, name: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

#[derive(Default)]
struct Compiler {
    program: Program,
    shared: BTreeMap<String, usize>,
    locks: Names,
    conditions: Names,
    methods: Names,
    locals: Names,
    temporaries: usize,
    /// Open blocks: where the condition begins if it is a loop, and the jump to fill in.
    open: Vec<(Option<usize>, usize)>,
    line: u64,
}

impl Program {
    pub fn parse(text: &str) -> Program {
        let mut compiler = Compiler::default();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("thread ") {
                compiler.methods.get(name.trim());
            } else if let Some(names) = line.strip_prefix("shared ") {
                names.split(',').for_each(|part| compiler.declare(part));
            }
        }
        compiler.program.entry = compiler.methods.get("main");
        for (number, line) in text.lines().enumerate() {
            compiler.line = number as u64 + 1;
            compiler.statement(line.split('#').next().unwrap_or_default().trim());
        }
        compiler.line += 1;
        compiler.end_method();
        compiler.program.locks = compiler.locks.0.len();
        compiler.program.conditions = compiler.conditions.0.len();
        compiler.program
    }
}

impl Compiler {
    fn statement(&mut self, text: &str) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "" | "shared" => {}
            "thread" => {
                self.end_method();
                self.program.methods.push(Method::default());
            }
            "spawn" => {
                let method = self.methods.get(rest);
                self.emit(Op::Spawn { method });
            }
            "acquire" => {
                let lock = self.locks.get(rest);
                self.emit(Op::Acquire { lock });
            }
            "release" => {
                let lock = self.locks.get(rest);
                self.emit(Op::Release { lock });
            }
            "wait" => {
                let (condition, lock) = rest.split_once(' ').expect("wait CONDITION LOCK");
                let (condition, lock) = (self.conditions.get(condition), self.locks.get(lock.trim()));
                self.emit(Op::Wait { condition, lock });
            }
            "signal" => {
                let condition = self.conditions.get(rest);
                self.emit(Op::Signal { condition });
            }
            "broadcast" => {
                let condition = self.conditions.get(rest);
                self.emit(Op::Broadcast { condition });
            }
            "read" => {
                let into = self.locals.get(rest);
                self.emit(Op::Read { into });
            }
            "write" => {
                let value = self.expression(rest);
                self.emit(Op::Write { value });
            }
            "assert" => {
                let value = self.expression(rest);
                self.emit(Op::Assert { value });
            }
            "if" | "while" => {
                let start = self.here();
                let value = self.expression(rest);
                self.open.push(((word == "while").then_some(start), self.here()));
                self.emit(Op::JumpUnless { value, to: 0 });
            }
            "end" => {
                let (start, jump) = self.open.pop().expect("an open block");
                if let Some(to) = start {
                    self.emit(Op::Jump { to });
                }
                let here = self.here();
                let method = self.program.methods.last_mut().expect("a thread");
                if let (_, Op::JumpUnless { to, .. }) = &mut method.ops[jump] {
                    *to = here;
                }
            }
            _ => self.assignment(text),
        }
    }

    fn declare(&mut self, part: &str) {
        let (name, value) = part.split_once('=').unwrap_or((part, "0"));
        self.shared.insert(name.trim().to_owned(), self.program.shared.len());
        self.program.shared.push(value.trim().parse().expect("a number"));
    }

    fn assignment(&mut self, text: &str) {
        let (name, rest) = text
            .split_once(":=")
            .unwrap_or_else(|| panic!("line {}: {text}", self.line));
        let name = name.trim();
        match self.shared.get(name).copied() {
            Some(into) => {
                let value = self.expression(rest);
                self.emit(Op::Store { into, value });
            }
            None => {
                let value = self.expression(rest);
                let into = self.locals.get(name);
                let zero = Operand::Constant(0);
                self.emit(Op::Compute {
                    into,
                    left: value,
                    operator: Operator::Plus,
                    right: zero,
                });
            }
        }
    }

    fn expression(&mut self, text: &str) -> Operand {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [one] => self.operand(one),
            [left, operator, right] => {
                let (left, right) = (self.operand(left), self.operand(right));
                let operator = match operator {
                    "+" => Operator::Plus,
                    "-" => Operator::Minus,
                    "*" => Operator::Times,
                    "%" => Operator::Modulo,
                    "<" => Operator::Less,
                    "==" => Operator::Equal,
                    "!=" => Operator::Unequal,
                    other => panic!("line {}: operator {other}", self.line),
                };
                let into = self.temporary();
                self.emit(Op::Compute {
                    into,
                    left,
                    operator,
                    right,
                });
                Operand::Local(into)
            }
            _ => panic!("line {}: {text}", self.line),
        }
    }

    fn operand(&mut self, word: &str) -> Operand {
        if let Ok(number) = word.parse() {
            return Operand::Constant(number);
        }
        match self.shared.get(word).copied() {
            Some(from) => {
                let into = self.temporary();
                self.emit(Op::Load { into, from });
                Operand::Local(into)
            }
            None => Operand::Local(self.locals.get(word)),
        }
    }

    fn temporary(&mut self) -> usize {
        self.temporaries += 1;
        self.locals.get(&format!("%{}", self.temporaries))
    }

    fn here(&self) -> usize {
        self.program.methods.last().map_or(0, |method| method.ops.len())
    }

    fn emit(&mut self, op: Op) {
        let method = self.program.methods.last_mut().expect("a thread");
        method.ops.push((self.line, op));
    }

    fn end_method(&mut self) {
        if !self.program.methods.is_empty() {
            assert!(self.open.is_empty(), "an open block at line {}", self.line);
            self.emit(Op::End);
            let locals = std::mem::take(&mut self.locals).0.len();
            if let Some(method) = self.program.methods.last_mut() {
                method.locals = locals;
            }
        }
    }
}
