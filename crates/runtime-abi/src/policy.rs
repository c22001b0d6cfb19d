//! The two policies of a process, chosen once at its start: who orders its threads, and where its inputs come from.
//!
//! They are independent questions, and most of the runtime asks only one of them. Not every pair of answers makes sense; [`pair`]
//! knows which do, and says of each of the others why not.
use run_model::Scope;

/// Who orders the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Order {
    /// Nobody: the kernel does, and nothing is noted.
    Free = 0,
    /// The kernel does, and a recorder notes what it needs to have it again. Which recorder: scope and method say so.
    Observed = 1,
    /// A schedule does: threads run in parallel, and wait at its gates.
    Gated = 2,
    /// One thread runs at a time, in an order of the inputs.
    Turns = 3,
}

/// Where inputs come from: system calls, clocks, signals, random numbers, ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Inputs {
    /// From outside, and nothing is noted.
    Live = 0,
    /// From outside, and they are noted.
    Recorded = 1,
    /// From what was noted: nothing outside is touched.
    Answered = 2,
}

impl Order {
    pub const fn name(self) -> &'static str {
        match self {
            Order::Free => "free",
            Order::Observed => "observed",
            Order::Gated => "gated",
            Order::Turns => "turns",
        }
    }
}

impl Inputs {
    pub const fn name(self) -> &'static str {
        match self {
            Inputs::Live => "live",
            Inputs::Recorded => "recorded",
            Inputs::Answered => "answered",
        }
    }
}

pub const ORDERS: [Order; 4] = [Order::Free, Order::Observed, Order::Gated, Order::Turns];
pub const INPUTS: [Inputs; 3] = [Inputs::Live, Inputs::Recorded, Inputs::Answered];

/// A pair that makes sense: [`pair`] gives it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    order: Order,
    inputs: Inputs,
}

/// Why a pair is refused: a sentence that names it.
pub type Refusal = &'static str;

/// For each order and each source of inputs: what the pair is called, or why there is none.
const PAIRS: [[Result<&str, Refusal>; INPUTS.len()]; ORDERS.len()] = [
    [
        Ok("not recorded"),
        Err(
            "order free with inputs recorded: without the order of its threads, nobody could say whose inputs these were",
        ),
        Err(
            "order free with inputs answered: threads that run in another order ask for other inputs than were recorded",
        ),
    ],
    [
        Err("order observed with inputs live: a recorded order without its inputs cannot be replayed"),
        Ok("recording"),
        Err("order observed with inputs answered: a replay records nothing, it has one order already"),
    ],
    [
        Ok("replay with live inputs"),
        Err("order gated with inputs recorded: a replay records nothing, it has its inputs already"),
        Ok("replay"),
    ],
    [
        Err(
            "order turns with inputs live: turns are taken in the order of recorded inputs, which live ones need not have",
        ),
        Err("order turns with inputs recorded: a replay records nothing, it has its inputs already"),
        Ok("replay of one thread at a time"),
    ],
];

/// The pair of these two policies, if there is one.
pub const fn pair(order: Order, inputs: Inputs) -> Result<Pair, Refusal> {
    match PAIRS[order as usize][inputs as usize] {
        Ok(_) => Ok(Pair { order, inputs }),
        Err(refusal) => Err(refusal),
    }
}

impl Pair {
    pub const NOT_RECORDED: Pair = known(Order::Free, Inputs::Live);
    pub const RECORDING: Pair = known(Order::Observed, Inputs::Recorded);
    pub const REPLAY: Pair = known(Order::Gated, Inputs::Answered);
    pub const REPLAY_IN_TURNS: Pair = known(Order::Turns, Inputs::Answered);
    pub const REPLAY_WITH_LIVE_INPUTS: Pair = known(Order::Gated, Inputs::Live);

    pub const fn order(self) -> Order {
        self.order
    }

    pub const fn inputs(self) -> Inputs {
        self.inputs
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match PAIRS[self.order as usize][self.inputs as usize] {
            Ok(name) => name,
            Err(refusal) => refusal,
        }
    }

    /// Can it be had at this scope?
    pub const fn at_scope(self, scope: Scope) -> Result<Pair, Refusal> {
        match (self.order, self.inputs) {
            (Order::Turns, _) if !matches!(scope, Scope::Inputs) => {
                Err("order turns at scope sync or memory: what is known there of locks and memory is a schedule")
            }
            (Order::Gated, Inputs::Live) if matches!(scope, Scope::Inputs) => {
                Err("order gated with inputs live at scope inputs: nothing was recorded there but the inputs")
            }
            _ => Ok(self),
        }
    }
}

/// A pair that is named here.
const fn known(order: Order, inputs: Inputs) -> Pair {
    match pair(order, inputs) {
        Ok(pair) => pair,
        Err(_) => panic!("a pair that is refused has a name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::BTreeSet;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    fn lower(value: impl core::fmt::Debug) -> String {
        format!("{value:?}").to_lowercase()
    }

    fn all() -> impl Iterator<Item = (Order, Inputs)> {
        ORDERS
            .into_iter()
            .flat_map(|order| INPUTS.into_iter().map(move |inputs| (order, inputs)))
    }

    #[test]
    fn these_pairs_make_sense_and_no_others() {
        let sensible: Vec<Pair> = all().filter_map(|(order, inputs)| pair(order, inputs).ok()).collect();
        assert_eq!(
            sensible,
            [
                Pair::NOT_RECORDED,
                Pair::RECORDING,
                Pair::REPLAY_WITH_LIVE_INPUTS,
                Pair::REPLAY,
                Pair::REPLAY_IN_TURNS,
            ]
        );
    }

    #[test]
    fn a_pair_has_the_policies_it_was_asked_for_with() {
        for (order, inputs) in all() {
            if let Ok(pair) = pair(order, inputs) {
                assert_eq!((pair.order(), pair.inputs()), (order, inputs));
            }
        }
    }

    #[test]
    fn a_refusal_names_its_pair_and_says_why() {
        for (order, inputs) in all() {
            if let Err(refusal) = pair(order, inputs) {
                let name = format!("order {} with inputs {}: ", lower(order), lower(inputs));
                let why = refusal.strip_prefix(name.as_str());
                assert!(why.is_some_and(|why| why.len() > 20), "{name}{refusal}");
            }
        }
    }

    #[test]
    fn names_and_refusals_are_all_different() {
        let said = all().map(|(order, inputs)| match pair(order, inputs) {
            Ok(pair) => pair.name(),
            Err(refusal) => refusal,
        });
        assert_eq!(said.collect::<BTreeSet<_>>().len(), all().count());
    }

    #[test]
    fn scope_inputs_has_turns_and_no_live_gates() {
        let scopes = Scope::ALL;
        let at = |pair: Pair| scopes.map(|scope| pair.at_scope(scope).is_ok());
        assert_eq!(at(Pair::NOT_RECORDED), [true; 3]);
        assert_eq!(at(Pair::RECORDING), [true; 3]);
        assert_eq!(at(Pair::REPLAY), [true; 3]);
        assert_eq!(at(Pair::REPLAY_IN_TURNS), [true, false, false]);
        assert_eq!(at(Pair::REPLAY_WITH_LIVE_INPUTS), [false, true, true]);
    }
}
