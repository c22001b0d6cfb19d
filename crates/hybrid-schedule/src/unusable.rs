//! Why there is no hybrid schedule of some traces.
use run_model::Instance;
use run_model::ThreadIndex;
use std::fmt;

/// What is wrong with the traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable<E> {
    /// One of them cannot be read.
    Unreadable { thread: ThreadIndex, error: E },
    /// An entry's sequence is not after that of the entry before it, in its thread or in all.
    Sequence {
        thread: ThreadIndex,
        previous: u64,
        found: u64,
    },
    /// Control transfers are fewer than those of an access before, with no event between.
    Transfers {
        thread: ThreadIndex,
        previous: u64,
        found: u64,
    },
    /// An end of a constraint cannot be told from another instance of the same instruction: there is no control transfer between.
    Ambiguous { thread: ThreadIndex, instance: Instance },
    /// The constraints are a circle: an instruction was traced as several accesses, and another thread came between them.
    Circle { thread: ThreadIndex, instance: Instance },
    /// More threads, accesses, places or memory than are provided for.
    TooLarge { what: &'static str },
}

impl<E: fmt::Display> fmt::Display for Unusable<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Unreadable { thread, error } => write!(f, "the trace of thread {}: {error}", thread.0),
            Unusable::Sequence {
                thread,
                previous,
                found,
            } => write!(
                f,
                "the trace of thread {}: sequence {found} comes after {previous}",
                thread.0
            ),
            Unusable::Transfers {
                thread,
                previous,
                found,
            } => write!(
                f,
                "the trace of thread {}: {found} control transfers after {previous}, with no event between",
                thread.0
            ),
            Unusable::Ambiguous { thread, instance } => write!(
                f,
                "thread {} raced in instruction {}.{}, which it executed twice after {} events and {} control transfers",
                thread.0, instance.place.site.0, instance.place.ordinal, instance.segment, instance.place.transfers
            ),
            Unusable::Circle { thread, instance } => write!(
                f,
                "instruction {}.{} of thread {}, after {} events and {} control transfers, raced with what came before and \
                 after it at once",
                instance.place.site.0, instance.place.ordinal, thread.0, instance.segment, instance.place.transfers
            ),
            Unusable::TooLarge { what } => write!(f, "the traces have too many {what}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Unusable<E> {}
