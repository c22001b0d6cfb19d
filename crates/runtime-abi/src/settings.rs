//! How a process is recorded or replayed: its settings, defined once. The tool makes a [`RunSettings`] of its command line, keeps it in `run.json` and writes
//! it into the control file; the runtime finds a [`SettingsSection`] there. None of them copies fields one by one, so that a new
//! setting is a line in the table below, the option that sets it (`crates/cli/src/settings.rs`), and what looks at it.
//!
//! In the control file each setting is one 64-bit word, whatever it means. A word that means nothing is found when it is read: no bytes that somebody else
//! has written are taken for an enum.
use crate::counting::CountingFor;
use crate::policy::INPUTS;
use crate::policy::Inputs;
use crate::policy::ORDERS;
use crate::policy::Order;
use crate::policy::Pair;
use crate::relay::OnDivergence;
use crate::relay::Relay;
use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Method;
use run_model::Scope;

/// What a setting is in text, as `run.json` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    Nothing,
    Flag(bool),
    Number(u64),
    Word(&'a str),
    Words(&'a [&'a str]),
}

/// What a setting may be.
pub trait Value: Copy + Eq {
    /// In the control file.
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Option<Self>;
    /// In `run.json`.
    fn to_text(self) -> Text<'static>;
    fn from_text(text: Text<'_>) -> Option<Self>;
}

/// A setting in the control file. Any bits may be there: whoever reads it, checks.
#[repr(transparent)]
pub struct Word<T> {
    bits: AtomicU64,
    means: PhantomData<T>,
}

impl<T: Value> Word<T> {
    pub const fn new(bits: u64) -> Word<T> {
        Word {
            bits: AtomicU64::new(bits),
            means: PhantomData,
        }
    }

    /// Nothing, if the bits do not mean anything.
    #[inline]
    pub fn get(&self) -> Option<T> {
        // Relaxed: written before the process starts, or a number that stands for itself.
        T::from_word(self.bits.load(Relaxed))
    }

    #[inline]
    pub fn is(&self, value: T) -> bool {
        self.bits.load(Relaxed) == value.to_word()
    }
}

impl Word<Option<NonZeroU64>> {
    /// The number; 0: nothing.
    #[inline]
    pub fn number(&self) -> u64 {
        // Relaxed: stands for itself.
        self.bits.load(Relaxed)
    }
}

/// A setting was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchValue {
    pub setting: &'static str,
    /// A sentence.
    pub why: &'static str,
}

/// What there is to say of a value of the setting `$name` that is none.
macro_rules! no_such_value {
    ($name:ident) => {
        NoSuchValue {
            setting: stringify!($name),
            why: concat!(
                "the setting `",
                stringify!($name),
                "` has a value that this version does not know"
            ),
        }
    };
}

macro_rules! settings {
    ($($(#[$about:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        /// How a process is recorded or replayed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct RunSettings {
            $($(#[$about])* pub $name: $type,)*
        }

        /// The same in the control file.
        #[repr(C)]
        pub struct SettingsSection {
            $(pub $name: Word<$type>,)*
        }

        /// Their names, in the order of the words.
        pub const NAMES: [&str; COUNT] = [$(stringify!($name)),*];
        pub const COUNT: usize = [$(stringify!($name)),*].len();

        impl Default for RunSettings {
            /// A recording of which nothing is said.
            fn default() -> RunSettings {
                RunSettings { $($name: $default,)* }
            }
        }

        impl RunSettings {
            /// As they are in the control file.
            pub fn to_words(&self) -> [u64; COUNT] {
                [$(self.$name.to_word()),*]
            }

            pub fn from_words(words: [u64; COUNT]) -> Result<RunSettings, NoSuchValue> {
                let [$($name),*] = words;
                Ok(RunSettings {
                    $($name: Value::from_word($name).ok_or(no_such_value!($name))?,)*
                })
            }

            /// All of them, with their names.
            pub fn for_each<E>(&self, mut act: impl FnMut(&'static str, Text<'static>) -> Result<(), E>) -> Result<(), E> {
                $(act(stringify!($name), self.$name.to_text())?;)*
                Ok(())
            }

            /// Sets the one of this name. False: there is none.
            pub fn set(&mut self, name: &str, text: Text<'_>) -> Result<bool, NoSuchValue> {
                match name {
                    $(stringify!($name) => {
                        self.$name = Value::from_text(text).ok_or(no_such_value!($name))?;
                    })*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        impl SettingsSection {
            /// All of them, if each means something.
            pub fn read(&self) -> Result<RunSettings, NoSuchValue> {
                Ok(RunSettings {
                    $($name: self.$name.get().ok_or(no_such_value!($name))?,)*
                })
            }
        }
    };
}

settings! {
    /// Who orders the threads.
    order: Order = Order::Observed;
    /// Where inputs come from.
    inputs: Inputs = Inputs::Recorded;
    /// What is observed.
    scope: Scope = Scope::Memory;
    method: Method = Method::Light;
    /// Parts of the method light that are left out.
    without: Without = Without::NOTHING;
    /// Scope inputs: the order of synchronisations is recorded, too.
    sync_order: bool = false;
    /// Scope inputs: one thread runs at a time while it is recorded, too.
    one_at_a_time: bool = false;
    /// Disturbs the timing of a recording. It also decides which stores are late, then and in replay; nothing: all that may be.
    chaos_seed: Option<NonZeroU64> = None;
    /// Stop logging when all logs together have this many bytes. The tool may lower it while the program runs.
    log_bytes_max: Option<NonZeroU64> = None;
    /// The processes that this one starts are recorded, or replayed, too.
    follow: bool = true;
    /// Method coop: how much of the shared program elements is recorded, in hundredths of a percent.
    share: Option<NonZeroU64> = None;
    /// Method coop: which part, one more than the number of the pattern.
    pattern: Option<NonZeroU64> = None;
    /// Recording: threads keep to the access vectors in the run's directory (`vectors_file`).
    keep_to_vectors: bool = false;
    /// Replay: delays at gates, which must not change anything.
    jitter_seed: Option<NonZeroU64> = None;
    /// Replay: every thread writes down what it does (`trace_file`).
    trace: bool = false;
    /// Replay of a run of scope sync: one thread runs at a time, plain accesses are seen, and threads stop before those that edits name (`turns_file`).
    steered: bool = false;
    /// Compiled code counts control transfers instead of asking at every access.
    counting: CountingFor = CountingFor::Nothing;
    /// Replay: how threads wait at gates.
    relay: Relay = Relay::Auto;
    /// A deterministic run that leaves its schedule: what then.
    on_divergence: OnDivergence = OnDivergence::Stop;
    /// Replay: how long threads wait at gates is measured.
    measure_waits: bool = false;
    /// Traced replay of a Rust program: the address of the standard library's count of panics.
    panic_count: Option<NonZeroU64> = None;
}

const _: () = assert!(size_of::<SettingsSection>() == COUNT * size_of::<u64>());

impl RunSettings {
    /// The two policies, if they go together.
    pub fn policies(&self) -> Result<Pair, crate::policy::Refusal> {
        crate::policy::pair(self.order, self.inputs)
    }

    pub fn with_policies(self, policies: Pair) -> RunSettings {
        RunSettings {
            order: policies.order(),
            inputs: policies.inputs(),
            ..self
        }
    }

    /// The same for an attempt so much later: each has the next number as its seed.
    pub fn of_attempt(self, later: u64) -> RunSettings {
        let seed = |first: NonZeroU64| NonZeroU64::new(first.get().wrapping_add(later)).unwrap_or(NonZeroU64::MIN);
        RunSettings {
            chaos_seed: self.chaos_seed.map(seed),
            ..self
        }
    }

    /// Of what was recorded so: its replay. What limited the recording does not limit that.
    pub fn in_replay(self, policies: Pair) -> RunSettings {
        RunSettings {
            log_bytes_max: None,
            follow: true,
            ..self.with_policies(policies)
        }
    }
}

/// Parts of the method light that are left out, to see what they are good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without(u8);

impl Without {
    pub const NOTHING: Without = Without(0);
    /// Sequences of one thread's accesses to a place are one run (lemma 4.3).
    pub const O1: Without = Without(1);
    /// What recorded orders already say is not recorded again (lemma 4.2, while running).
    pub const O2: Without = Without(2);
    const BOTH: Without = Without(Without::O1.0 | Without::O2.0);

    pub const fn and(self, more: Without) -> Without {
        Without(self.0 | more.0)
    }

    pub const fn has(self, part: Without) -> bool {
        self.0 & part.0 == part.0
    }

    pub fn is_nothing(self) -> bool {
        self == Without::NOTHING
    }

    pub fn names(self) -> &'static [&'static str] {
        match self {
            Without::O1 => &["o1"],
            Without::O2 => &["o2"],
            Without::BOTH => &["o1", "o2"],
            _ => &[],
        }
    }
}

impl Value for Without {
    fn to_word(self) -> u64 {
        u64::from(self.0)
    }

    fn from_word(word: u64) -> Option<Without> {
        (word <= Without::BOTH.to_word()).then_some(Without(word as u8))
    }

    fn to_text(self) -> Text<'static> {
        Text::Words(self.names())
    }

    fn from_text(text: Text<'_>) -> Option<Without> {
        let Text::Words(names) = text else { return None };
        names.iter().try_fold(Without::NOTHING, |all, name| match *name {
            "o1" => Some(all.and(Without::O1)),
            "o2" => Some(all.and(Without::O2)),
            _ => None,
        })
    }
}

impl Value for bool {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }

    #[inline]
    fn from_word(word: u64) -> Option<bool> {
        [false, true].into_iter().find(|value| value.to_word() == word)
    }

    fn to_text(self) -> Text<'static> {
        Text::Flag(self)
    }

    fn from_text(text: Text<'_>) -> Option<bool> {
        match text {
            Text::Flag(value) => Some(value),
            _ => None,
        }
    }
}

impl Value for Option<NonZeroU64> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(0, NonZeroU64::get)
    }

    #[inline]
    fn from_word(word: u64) -> Option<Self> {
        Some(NonZeroU64::new(word))
    }

    fn to_text(self) -> Text<'static> {
        self.map_or(Text::Nothing, |number| Text::Number(number.get()))
    }

    fn from_text(text: Text<'_>) -> Option<Self> {
        match text {
            Text::Nothing => Some(None),
            Text::Number(number) => Some(NonZeroU64::new(number)),
            _ => None,
        }
    }
}

/// One of a few, each with a name.
macro_rules! named {
    ($($type:ty: $all:expr, $name:expr;)*) => {$(
        impl Value for $type {
            #[inline]
            fn to_word(self) -> u64 {
                self as u64
            }

            fn from_word(word: u64) -> Option<$type> {
                $all.iter().copied().find(|value| value.to_word() == word)
            }

            fn to_text(self) -> Text<'static> {
                Text::Word($name(self))
            }

            fn from_text(text: Text<'_>) -> Option<$type> {
                $all.iter().copied().find(|value| value.to_text() == text)
            }
        }
    )*};
}

named! {
    Order: ORDERS, Order::name;
    Inputs: INPUTS, Inputs::name;
    Scope: Scope::ALL, Scope::name;
    Method: Method::ALL, Method::name;
    Relay: Relay::ALL, Relay::name;
    OnDivergence: OnDivergence::ALL, OnDivergence::name;
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    /// Settings that differ from the default in one field, for each value a few words can say.
    fn others() -> impl Iterator<Item = (&'static str, RunSettings)> {
        let default = RunSettings::default().to_words();
        let each = (0..COUNT).flat_map(move |index| {
            (0..64).filter_map(move |word| {
                let mut words = default;
                words[index] = word;
                Some((NAMES[index], RunSettings::from_words(words).ok()?))
            })
        });
        each.filter(|(_, settings)| *settings != RunSettings::default())
    }

    #[test]
    fn each_setting_survives_as_a_word_and_as_text() {
        let mut met = Vec::new();
        for (name, settings) in others() {
            assert_eq!(RunSettings::from_words(settings.to_words()), Ok(settings), "{name}");
            let mut read = RunSettings::default();
            let all = settings.for_each(|name, text| read.set(name, text).map(|is_there| assert!(is_there, "{name}")));
            assert_eq!((all, read), (Ok(()), settings), "{name}");
            met.push(name);
        }
        met.dedup();
        assert_eq!(met, NAMES);
    }

    #[test]
    fn what_means_nothing_is_named() {
        let numbers = [
            "chaos_seed",
            "log_bytes_max",
            "jitter_seed",
            "panic_count",
            "share",
            "pattern",
        ];
        for (index, name) in NAMES
            .into_iter()
            .enumerate()
            .filter(|(_, name)| !numbers.contains(name))
        {
            let mut words = RunSettings::default().to_words();
            words[index] = u64::MAX;
            let nonsense = Text::Words(&["nonsense"]);
            for wrong in [
                RunSettings::from_words(words).map(drop),
                RunSettings::default().set(name, nonsense).map(drop),
            ] {
                let refusal = wrong.expect_err(name);
                assert_eq!(refusal.setting, name);
                assert!(refusal.why.contains(name), "{}", refusal.why);
            }
        }
        assert_eq!(RunSettings::default().set("colour", Text::Flag(true)), Ok(false));
    }
}
