//! The problem as Light gave it to Z3 (PLDI 2015, §4.2): an integer for each node, difference constraints, disjunctions.
use constraint_solver::problem::Choice;
use constraint_solver::problem::Clause;
use constraint_solver::problem::Edge;
use constraint_solver::problem::Interval;
use constraint_solver::problem::Node;
use constraint_solver::problem::Problem;
use std::time::Duration;
use std::time::Instant;
use z3::Params;
use z3::SatResult;
use z3::Solver;
use z3::ast::Bool;
use z3::ast::Int;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Satisfiable,
    Unsatisfiable,
    /// Not within the time it was given.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub answer: Answer,
    /// Of the whole call, and of Z3 alone without stating the problem.
    pub total: Duration,
    pub checking: Duration,
}

/// Integer difference logic, as the paper has it.
const LOGIC: &str = "QF_IDL";

pub fn ask(problem: &Problem, limit: Duration) -> Verdict {
    let started = Instant::now();
    let solver = Solver::new_for_logic(LOGIC).expect("Z3 knows difference logic");
    let mut params = Params::new();
    params.set_u32("timeout", limit.as_millis().min(u128::from(u32::MAX)) as u32);
    solver.set_params(&params);
    let nodes: Vec<Vec<Int>> = problem
        .chains
        .iter()
        .map(|length| (0..*length).map(|_| Int::fresh_const("n")).collect())
        .collect();
    let statement = Statement { solver, nodes };
    statement.state(problem);
    let stated = Instant::now();
    let answer = match statement.solver.check() {
        SatResult::Sat => Answer::Satisfiable,
        SatResult::Unsat => Answer::Unsatisfiable,
        SatResult::Unknown => Answer::Unknown,
    };
    Verdict {
        answer,
        total: started.elapsed(),
        checking: stated.elapsed(),
    }
}

struct Statement {
    solver: Solver,
    nodes: Vec<Vec<Int>>,
}

impl Statement {
    fn state(&self, problem: &Problem) {
        for chain in &self.nodes {
            for pair in chain.windows(2) {
                self.solver.assert(pair[0].lt(&pair[1]));
            }
        }
        for edge in &problem.edges {
            self.solver.assert(self.holds(edge));
        }
        for exclusion in &problem.exclusions {
            for (index, one) in exclusion.iter().enumerate() {
                for other in &exclusion[index + 1..] {
                    let ways = [self.is_before(one, other), self.is_before(other, one)];
                    self.solver
                        .assert(Bool::or(&ways.into_iter().flatten().collect::<Vec<Bool>>()));
                }
            }
        }
        for (choice, Choice { alternatives }) in problem.choices.iter().enumerate() {
            let ways = alternatives.iter().enumerate().map(|(alternative, edges)| {
                let of = |clause: &&Clause| (clause.choice, clause.alternative) == (choice as u32, alternative as u32);
                let clauses = problem.clauses.iter().filter(of).map(|clause| self.any(&clause.one_of));
                self.all(edges.iter().map(|edge| self.holds(edge)).chain(clauses))
            });
            self.solver.assert(Bool::or(&ways.collect::<Vec<Bool>>()));
        }
    }

    fn any(&self, edges: &[Edge]) -> Bool {
        Bool::or(&edges.iter().map(|edge| self.holds(edge)).collect::<Vec<Bool>>())
    }

    fn of(&self, node: Node) -> &Int {
        &self.nodes[node.chain as usize][node.position as usize]
    }

    fn holds(&self, edge: &Edge) -> Bool {
        self.of(edge.before).lt(self.of(edge.after))
    }

    /// `None`: nothing comes before `other`.
    fn is_before(&self, one: &Interval, other: &Interval) -> Option<Bool> {
        let start = self.of(other.start?);
        Some(self.all(one.ends.iter().map(|end| self.of(*end).lt(start))))
    }

    fn all(&self, mut conditions: impl Iterator<Item = Bool>) -> Bool {
        match (conditions.next(), conditions.next()) {
            (None, _) => Bool::from_bool(true),
            (Some(only), None) => only,
            (Some(first), Some(second)) => {
                let list: Vec<Bool> = [first, second].into_iter().chain(conditions).collect();
                Bool::and(&list)
            }
        }
    }
}
