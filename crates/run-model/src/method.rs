//! Methods of recording: the one table that knows them all (docs/methods.md).
//!
//! Whoever has to do something for each method (the names on a command line, the recorders of the runtime, the recoveries of
//! the replayer) makes it from [`methods!`](crate::methods), so that a new method is a row here, a recorder and a recovery.

/// Hands the table to the macro `$callback`, behind whatever is given in parentheses.
///
/// A row is `name: Variant = number { … }`. Its name is also that of the file of its recovery (`crates/replayer/src/recovery/`).
/// The number is what a control file says, and is never used again for another method.
///
/// | column | meaning |
/// |---|---|
/// | `scopes` | what it may observe; the first is what it observes if nothing is said |
/// | `evidence` | what its logs say about accesses to memory: by this they are judged |
/// | `recorder` | the file of its recorder; nothing, if it observes no accesses |
/// | `users` | who may record by it |
/// | `says` | what it logs, for people |
#[macro_export]
macro_rules! methods {
    ($callback:ident $(($($given:tt)*))?) => {
        $callback! {
            $($($given)*)?
            light: Light = 0 {
                scopes: [Memory, Sync],
                evidence: Dependences,
                recorder: [light],
                users: Everybody,
                says: "which accesses depend on which of other threads, where nothing recorded says so already",
            }
            leap: Leap = 1 {
                scopes: [Memory],
                evidence: Sources,
                recorder: [leap],
                users: Everybody,
                says: "for each shared program element, the order of the threads that access it",
            }
            stride: Stride = 2 {
                scopes: [Memory],
                evidence: Versions,
                recorder: [stride],
                users: Everybody,
                says: "each write with its value and version, in their order; each read with what it saw",
            }
            oreo: Oreo = 3 {
                scopes: [Memory],
                evidence: RelaxedVersions,
                recorder: [oreo],
                users: Everybody,
                says: "the same, but nothing orders writes and their versions: two may get the same",
            }
            inputs: Inputs = 4 {
                scopes: [Inputs],
                evidence: Sources,
                recorder: [],
                users: Everybody,
                says: "system calls, signals and threads of any program; nothing about locks and memory",
            }
            serial: Serial = 5 {
                scopes: [Memory],
                evidence: Sources,
                recorder: [serial],
                users: Tests,
                says: "the order of all accesses, each of which is made under one lock",
            }
            coop: Coop = 6 {
                scopes: [Memory],
                evidence: Sources,
                recorder: [coop],
                users: Everybody,
                says: "as leap, of a part of the elements; many such logs make one run (docs/fleet.md)",
            }
        }
    };
}

/// Methods of the design that other versions of refrain will have: they are refused by name.
pub const PLANNED: [&str; 1] = ["det"];

/// What is observed; each scope includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Inputs,
    Sync,
    Memory,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Inputs, Scope::Sync, Scope::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Scope::Inputs => "inputs",
            Scope::Sync => "sync",
            Scope::Memory => "memory",
        }
    }

    pub fn from_name(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// What logs say about accesses to memory, beyond the sources of their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: what a record comes after, it names.
    Sources,
    /// Runs of accesses to contended cells: which write a run reads from is known, which of two writes came first may not be.
    Dependences,
    /// Writes are versioned, in their order; reads say what they saw, and the newest version they may have seen.
    Versions,
    /// The same, but nothing orders writes and their versions.
    RelaxedVersions,
}

impl Evidence {
    /// Do accesses say what they read and wrote, and which version?
    pub fn has_versions(self) -> bool {
        matches!(self, Evidence::Versions | Evidence::RelaxedVersions)
    }
}

/// Who may record by a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    Everybody,
    /// The tests of refrain itself.
    Tests,
}

macro_rules! define_method {
    ($($name:ident: $variant:ident = $number:literal {
        scopes: [$($scope:ident),+],
        evidence: $evidence:ident,
        recorder: [$($recorder:ident)?],
        users: $users:ident,
        says: $says:literal,
    })+) => {
        /// How a run was recorded. All methods record inputs alike, and all that observe it synchronisation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Method {
            $(#[doc = $says] $variant = $number,)+
        }

        impl Method {
            pub const ALL: &[Method] = &[$(Method::$variant),+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Method::$variant => stringify!($name),)+
                }
            }

            /// What it logs, for people.
            pub fn says(self) -> &'static str {
                match self {
                    $(Method::$variant => $says,)+
                }
            }

            /// What it may observe; the first is what it observes if nothing is said.
            pub fn scopes(self) -> &'static [Scope] {
                match self {
                    $(Method::$variant => &[$(Scope::$scope),+],)+
                }
            }

            pub fn evidence(self) -> Evidence {
                match self {
                    $(Method::$variant => Evidence::$evidence,)+
                }
            }

            pub fn users(self) -> Users {
                match self {
                    $(Method::$variant => Users::$users,)+
                }
            }
        }
    };
}

methods!(define_method);

#[expect(
    clippy::derivable_impls,
    reason = "the variants come from the table, which does not say which is the default"
)]
impl Default for Method {
    fn default() -> Method {
        Method::Light
    }
}

impl Method {
    pub fn from_name(name: &str) -> Option<Method> {
        Method::ALL.iter().copied().find(|method| method.name() == name)
    }

    /// The method of a control file.
    pub fn from_number(number: u32) -> Option<Method> {
        Method::ALL.iter().copied().find(|method| *method as u32 == number)
    }

    /// The method that observes this if no other is asked for.
    pub fn of_scope(scope: Scope) -> Method {
        let observes = |method: &Method| method.scopes().contains(&scope);
        Method::ALL.iter().copied().find(observes).unwrap_or_default()
    }

    /// The method of a recorded run. Scope inputs was once said to be of light.
    pub fn of_run(name: &str, scope: Scope) -> Option<Method> {
        let method = Method::from_name(name)?;
        let was_meant = method == Method::Light && !method.scopes().contains(&scope);
        Some(if was_meant { Method::of_scope(scope) } else { method })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_its_name_and_by_its_number() {
        for method in Method::ALL {
            assert_eq!(Method::from_name(method.name()), Some(*method));
            assert_eq!(Method::from_number(*method as u32), Some(*method));
            assert!(!method.scopes().is_empty() && !method.says().is_empty());
            assert!(!PLANNED.contains(&method.name()), "{} is here", method.name());
        }
        assert_eq!(Method::from_name("magic"), None);
        assert_eq!(Method::from_number(u32::MAX), None);
    }

    #[test]
    fn numbers_in_control_files_stay() {
        let numbers = |name: &str| Method::from_name(name).map(|method| method as u32);
        let first = ["light", "leap", "stride", "oreo", "inputs"];
        assert_eq!(first.map(numbers), [0, 1, 2, 3, 4].map(Some));
    }

    #[test]
    fn each_scope_has_a_method() {
        assert_eq!(
            Scope::ALL.map(Method::of_scope),
            [Method::Inputs, Method::Light, Method::Light]
        );
        for scope in Scope::ALL {
            assert_eq!(Method::of_scope(scope).users(), Users::Everybody);
        }
    }

    #[test]
    fn runs_of_earlier_versions_have_their_method() {
        assert_eq!(Method::of_run("light", Scope::Inputs), Some(Method::Inputs));
        assert_eq!(Method::of_run("inputs", Scope::Inputs), Some(Method::Inputs));
        assert_eq!(Method::of_run("light", Scope::Sync), Some(Method::Light));
        assert_eq!(Method::of_run("leap", Scope::Memory), Some(Method::Leap));
        assert_eq!(Method::of_run("magic", Scope::Memory), None);
    }
}
