//! The access vector of an element: whose turn it was, from the first access to the last.
use crate::ThreadName;
use crate::codec::THREADS_MAX;

/// Accesses of one thread, none of another in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// Index into the vector's `threads`.
    pub thread: u16,
    /// At least 1.
    pub accesses: u64,
}

/// Two neighbouring runs are never of the same thread, and `threads` are in the order in which they first appear: equal orders are equal vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessVector {
    pub threads: Vec<ThreadName>,
    pub runs: Vec<Run>,
}

/// BLAKE3 of a vector's canonical bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorHash(pub [u8; 32]);

impl AccessVector {
    /// The vector of these turns, in their order. Turns of no access are none.
    pub fn of_turns(turns: impl IntoIterator<Item = (ThreadName, u64)>) -> AccessVector {
        let mut vector = AccessVector::default();
        for (name, accesses) in turns {
            vector.push(&name, accesses);
        }
        vector
    }

    pub fn push(&mut self, name: &ThreadName, accesses: u64) {
        if accesses == 0 {
            return;
        }
        let known = self.threads.iter().position(|other| other == name);
        let thread = known.unwrap_or_else(|| {
            self.threads.push(name.clone());
            self.threads.len() - 1
        });
        assert!(
            thread < THREADS_MAX,
            "an access vector of more than {THREADS_MAX} threads"
        );
        let thread = thread as u16;
        match self.runs.last_mut() {
            Some(last) if last.thread == thread => last.accesses = last.accesses.saturating_add(accesses),
            _ => self.runs.push(Run { thread, accesses }),
        }
    }

    /// All of its accesses.
    pub fn accesses(&self) -> u64 {
        self.runs
            .iter()
            .fold(0, |sum: u64, run| sum.saturating_add(run.accesses))
    }

    /// Did more than one thread use the element?
    pub fn is_shared(&self) -> bool {
        self.threads.len() > 1
    }

    /// Turns with the names of their threads.
    pub fn turns(&self) -> impl Iterator<Item = (&ThreadName, u64)> {
        self.runs
            .iter()
            .map(|run| (&self.threads[run.thread as usize], run.accesses))
    }
}
