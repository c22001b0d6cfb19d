//! One file for each method of recording accesses (`run_model::methods!`), and what they share. Which one is used is chosen once,
//! for the whole run.
//!
//! A recorder is a function of [`Thread`] that does an access as one event: it makes sure that the order of the access among
//! conflicting ones can be told from the log, calls `access`, and completes the event. `docs/methods.md` says how one is added.
pub mod loops;
pub mod runs;
mod versions;

use crate::Reach;
use crate::Thread;
use crate::Values;
use crate::World;
use run_model::Method;
use run_model::methods;

/// The first of two: where the second only says that there is one.
macro_rules! first {
    ($first:expr, $second:ident) => {
        $first
    };
}

/// For each method that observes accesses: its file, its number, and its way there.
macro_rules! recorders {
    ($($name:ident: $variant:ident = $number:literal {
        scopes: [$($scope:ident),+],
        evidence: $evidence:ident,
        recorder: [$($recorder:ident)?],
        users: $users:ident,
        says: $says:literal,
    })+) => {
        $($(pub mod $recorder;)?)+

        /// How accesses to memory are recorded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Recorder {
            /// Light, whole: runs, found by who owns what.
            Runs = u8::MAX,
            $($(#[doc = concat!("As `", stringify!($recorder), "` does; light, without runs.")] $variant = $number,)?)+
        }

        impl Recorder {
            /// The one of a method; of light, if it is whole, `in_runs`.
            pub fn of(method: Method, in_runs: bool) -> Recorder {
                match method {
                    Method::Light if in_runs => Recorder::Runs,
                    $($(Method::$variant => first!(Recorder::$variant, $recorder),)?)+
                    // Observes no accesses.
                    _ => Recorder::Runs,
                }
            }

            #[inline]
            pub fn from_number(number: u8) -> Recorder {
                match number {
                    $($($number => first!(Recorder::$variant, $recorder),)?)+
                    _ => Recorder::Runs,
                }
            }
        }

        impl<W: World> Thread<W> {
            /// The access, as methods other than light record it, or light without a part of it.
            fn perform_otherwise<R, V: Values>(
                &self,
                what: Access,
                access: impl FnMut() -> R,
                seen: impl FnOnce(Option<&R>) -> V,
            ) -> R {
                match self.world.recorder() {
                    // Not for us.
                    Recorder::Runs => light::perform(self, what, access, seen),
                    $($(Recorder::$variant => $recorder::perform(self, what, access, seen),)?)+
                }
            }
        }
    };
}

methods!(recorders);

impl Recorder {
    /// Does every access come to the recorder? Else compiled code does those that a chunk word allows.
    pub fn sees_every_access(self) -> bool {
        self != Recorder::Runs
    }
}

/// An access to `[address, address + bytes)`, which is one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub address: u64,
    pub bytes: u64,
    pub reach: Reach,
    /// An atomic operation of the program's: synchronisation.
    pub is_atomic: bool,
}

/// Locks that one access can hold: 64 cells are 512 bytes, more than any single access covers.
pub const CELLS_MAX: usize = 72;

impl<W: World> Thread<W> {
    /// Does a plain access as one event, as the run's recorder wants it. `seen` says which values it moved, given its
    /// result; or which it is going to write, without.
    #[inline(always)]
    pub fn perform<R, V: Values>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        access: impl FnMut() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        if self.world.sees_every_access() {
            let what = Access {
                address,
                bytes,
                reach,
                is_atomic: false,
            };
            return self.perform_otherwise(what, access, seen);
        }
        self.perform_in_run(address, bytes, reach, access, seen)
    }

    /// The same for an atomic operation. `alone` is the same operation for somebody who holds the cell.
    #[inline(always)]
    pub fn perform_atomic<R, V: Values>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        access: impl FnMut() -> R,
        alone: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> V,
    ) -> R {
        if self.world.sees_every_access() {
            let what = Access {
                address,
                bytes,
                reach,
                is_atomic: true,
            };
            return self.perform_otherwise(what, access, seen);
        }
        self.perform_atomic_in_run(address, bytes, reach, access, alone, seen)
    }
}
