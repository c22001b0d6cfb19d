//! The options of `refrain record` that are settings of the run: each flag, and the setting that it sets (`runtime_abi::settings`).
use crate::Failure;
use crate::arguments::bytes;
use crate::coop;
use crate::method;
use clap::Args;
use clap::ValueEnum;
use replayer::Method;
use replayer::RunSettings;
use replayer::Without;
use run_store::Scope;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::num::NonZeroU64;

#[derive(Debug, Args)]
pub struct SettingsArguments {
    #[arg(long, value_name = "METHOD", help = method::help())]
    pub method: Option<String>,
    /// Leave out a part of light, to see what it is good for: o1 (sequences without interleaving are one run) or o2 (what
    /// recorded synchronisation says is not recorded again); may be given twice
    #[arg(long, value_enum, value_name = "PART")]
    pub without: Vec<Part>,
    /// What is observed: memory (the default: also plain accesses, needed if the program races), sync (locks and atomics),
    /// inputs (system calls and signals only: cheap, for any program; replays if it has one thread)
    #[arg(long, value_name = "SCOPE")]
    pub scope: Option<String>,
    /// With --scope inputs, and by default: record also in which order the threads synchronise by functions of libc (mutexes,
    /// conditions, semaphores …), so that a replay has only races to search for
    #[arg(long, overrides_with = "no_sync_order")]
    pub sync_order: bool,
    /// With --scope inputs: do not record that. It costs less where locks are busy, and a replay may have much to search for
    #[arg(long, overrides_with = "sync_order")]
    pub no_sync_order: bool,
    /// With --scope inputs, which it implies: let one thread run at a time, and have it go on until it makes a call. Slower, but what threads do to each other
    /// through memory, without locks of libc's, then comes back as well: for programs that cannot be built with refrain (Go, Java, own locks)
    #[arg(long, conflicts_with_all = ["sync_order", "no_sync_order"])]
    pub one_at_a_time: bool,
    /// With --method coop: how much of the program's shared elements is recorded, such as 25% (the default); the rest runs at nearly its own speed
    #[arg(long, value_name = "P%", value_parser = coop::share)]
    pub share: Option<u64>,
    /// With --method coop: which part, 0 to 63; otherwise one is drawn
    #[arg(long, value_name = "N")]
    pub pattern: Option<u16>,
    /// Disturb the threads' timing, so that rare interleavings become likely
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "SEED")]
    pub chaos: Option<Option<u64>>,
    /// The run directory takes at most B bytes (K, M and G are understood) on the disk, with copies of the output: recording stops there, and the program runs on
    #[arg(long, value_name = "B", value_parser = bytes)]
    pub max_size: Option<u64>,
    /// Which processes that the program starts are recorded with it: all that were forked, and programs built with refrain;
    /// or none
    #[arg(long, value_enum, default_value = "all", value_name = "WHICH")]
    pub follow: Follow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    O1,
    O2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Follow {
    All,
    None,
}

impl SettingsArguments {
    /// What they ask for, or why they do not go together.
    pub fn settings(&self) -> Result<RunSettings, Failure> {
        let implied = self.one_at_a_time.then_some(Scope::Inputs.name());
        let (method, scope) = method::chosen(self.method.as_deref(), self.scope.as_deref().or(implied))?;
        if self.one_at_a_time && scope != Scope::Inputs {
            return Err(Failure::usage(format!(
                "--one-at-a-time goes with --scope inputs; at scope {} threads run in parallel and come back",
                scope.name()
            )));
        }
        if (self.sync_order || self.no_sync_order) && scope != Scope::Inputs {
            return Err(Failure::usage(format!(
                "--{} goes with --scope inputs; scope {} has the order of synchronisations anyway",
                if self.sync_order { "sync-order" } else { "no-sync-order" },
                scope.name()
            )));
        }
        if method != Method::Light && !self.without.is_empty() {
            return Err(Failure::usage(
                "--without leaves out parts of light; no other method has them",
            ));
        }
        let part = |part: &Part| match part {
            Part::O1 => Without::O1,
            Part::O2 => Without::O2,
        };
        let seed = |seed: Option<u64>| NonZeroU64::new(seed.unwrap_or_else(random_seed)).unwrap_or(NonZeroU64::MIN);
        let settings = RunSettings {
            scope,
            method,
            without: self.without.iter().map(part).fold(Without::NOTHING, Without::and),
            sync_order: scope == Scope::Inputs && !self.no_sync_order && !self.one_at_a_time,
            one_at_a_time: self.one_at_a_time,
            chaos_seed: self.chaos.map(seed),
            log_bytes_max: self.max_size.and_then(NonZeroU64::new),
            follow: self.follow == Follow::All,
            ..RunSettings::default()
        };
        coop::settings(settings, self.share, self.pattern, random_seed())
    }
}

/// 32 bits are short enough to be typed again.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) & 0xffff_ffff
}
