//! The two policies of this process, chosen once when it is taken over (`runtime_abi::policy`).
//!
//! *Order* is about threads: their numbers, locks, conditions, joins, ends, accesses to memory. *Inputs* are about the outside: system calls,
//! clocks, signals, ids, output. Whoever asks, asks for one of them. What is observed at all is a third question, the scope (`control.rs`).
use crate::control;
use crate::control::SWITCHES;
use crate::control::Switches;
use crate::failure;
use access_protocol::Recorder as OfAccesses;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use run_model::Method;
use run_model::Scope;
use runtime_abi::ControlHeader;
use runtime_abi::RunSettings;
use runtime_abi::policy;
use runtime_abi::policy::Pair;
use runtime_abi::settings::Without;

pub use runtime_abi::policy::Inputs;

/// Who orders the threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The program was started by itself, or is not recorded any more: everything passes through.
    Free,
    Observed(Recorder),
    /// By the schedule in the run's directory.
    Gated,
    Turns,
}

/// What notes the order of an observed process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Recorder {
    /// Scope `inputs`: the times of inputs; and of synchronisations, if that is wanted.
    Inputs,
    /// Scope `sync`: users of ghost objects, and atomics.
    Sync,
    /// Scope `memory`: plain accesses as well, each as the run's method wants it.
    Memory(OfAccesses),
}

// The same as one byte, in an order that makes `sees_every_access` one comparison.
const INPUTS_ALONE: u8 = 0;
const WITH_SYNC: u8 = 1;
const IN_RUNS: u8 = 2;
/// From here on: the recorder of accesses with this number.
const OTHERWISE: u8 = 3;

const FREE: u8 = policy::Order::Free as u8;
const OBSERVED: u8 = policy::Order::Observed as u8;
const GATED: u8 = policy::Order::Gated as u8;
const TURNS: u8 = policy::Order::Turns as u8;
const RECORDED: u8 = Inputs::Recorded as u8;
const ANSWERED: u8 = Inputs::Answered as u8;
// `is_imposed` is one comparison.
const _: () = assert!(GATED > OBSERVED && TURNS > GATED && GATED > FREE);

/// The settings that the tool has written down for a process, with policies that make sense. If they do not, this one ends, and says which and why.
pub fn wanted(header: &ControlHeader) -> (RunSettings, Pair) {
    let settings = match header.settings.read() {
        Ok(settings) => settings,
        Err(unknown) => failure::die(unknown.why.as_bytes(), 0),
    };
    let pair = settings.policies().and_then(|pair| pair.at_scope(settings.scope));
    (
        settings,
        pair.unwrap_or_else(|refusal| failure::die(refusal.as_bytes(), 0)),
    )
}

/// Chooses the policies for this process.
///
/// Relaxed, here and wherever they are asked for: chosen before there is a second thread, and again in the child of a fork, which has one.
pub fn choose(header: &ControlHeader) -> RunSettings {
    let (settings, pair) = wanted(header);
    set(&SWITCHES, pair);
    if is_observed() {
        choose_recorder(&settings);
    }
    settings
}

/// The child of a fork that is not recorded: everything passes through from here on.
pub fn let_go() {
    set(&SWITCHES, Pair::NOT_RECORDED);
    control::detach();
}

/// A deterministic run goes on without its schedule: everything passes through from here on. `freed.rs`.
pub fn leave_schedule() {
    control::observe_nothing();
    set(&SWITCHES, Pair::NOT_RECORDED);
    // Pairs with the fence in `Local::install`: a thread that begins sees it, or is seen.
    fence(SeqCst);
}

fn set(switches: &Switches, pair: Pair) {
    switches.order.store(pair.order() as u8, Relaxed);
    switches.inputs.store(pair.inputs() as u8, Relaxed);
}

fn choose_recorder(settings: &RunSettings) {
    let recorder = match settings.scope {
        Scope::Inputs => INPUTS_ALONE,
        Scope::Sync => WITH_SYNC,
        Scope::Memory => match OfAccesses::of(settings.method, !settings.without.has(Without::O1)) {
            OfAccesses::Runs => IN_RUNS,
            other => OTHERWISE + other as u8,
        },
    };
    let has_o2 = settings.method == Method::Light && !settings.without.has(Without::O2);
    SWITCHES.recorder.store(recorder, Relaxed);
    SWITCHES
        .repeats
        .store(settings.scope == Scope::Memory && !has_o2, Relaxed);
}

/// Who orders the threads, in full. Where one of the answers is enough, ask `is_imposed` and its neighbours.
#[inline]
pub fn order() -> Order {
    match SWITCHES.order.load(Relaxed) {
        OBSERVED => Order::Observed(recorder()),
        GATED => Order::Gated,
        TURNS => Order::Turns,
        _ => Order::Free,
    }
}

/// Nobody orders the threads, and nothing is noted: the program was started by itself.
#[inline]
pub fn is_free() -> bool {
    SWITCHES.order.load(Relaxed) == FREE
}

/// The order of threads is being recorded.
#[inline]
pub fn is_observed() -> bool {
    SWITCHES.order.load(Relaxed) == OBSERVED
}

/// The order of threads is one that they had before: gated, or in turns.
#[inline]
pub fn is_imposed() -> bool {
    SWITCHES.order.load(Relaxed) >= GATED
}

/// One thread runs at a time.
#[inline]
pub fn takes_turns() -> bool {
    SWITCHES.order.load(Relaxed) == TURNS
}

#[inline]
pub fn inputs() -> Inputs {
    match SWITCHES.inputs.load(Relaxed) {
        RECORDED => Inputs::Recorded,
        ANSWERED => Inputs::Answered,
        _ => Inputs::Live,
    }
}

#[inline]
pub fn are_inputs_recorded() -> bool {
    SWITCHES.inputs.load(Relaxed) == RECORDED
}

#[inline]
pub fn are_inputs_answered() -> bool {
    SWITCHES.inputs.load(Relaxed) == ANSWERED
}

/// Observed: what notes the order.
#[inline]
pub fn recorder() -> Recorder {
    match SWITCHES.recorder.load(Relaxed) {
        INPUTS_ALONE => Recorder::Inputs,
        WITH_SYNC => Recorder::Sync,
        IN_RUNS => Recorder::Memory(OfAccesses::Runs),
        other => Recorder::Memory(OfAccesses::from_number(other - OTHERWISE)),
    }
}

/// Observed: does every access come to the runtime?
#[inline]
pub fn sees_every_access() -> bool {
    SWITCHES.recorder.load(Relaxed) >= OTHERWISE
}

/// Observed: may an atomic be recorded the quick way: at scope `sync`, with nothing to disturb?
pub fn may_be_quick() -> bool {
    order() == Order::Observed(Recorder::Sync) && control::header().settings.chaos_seed.number() == 0
}
