//! Threads by who created them, which is the same in every run in which they do the same.

/// The first thread has no steps; `[2]` is the third thread that it created, `[2, 0]` the first that that one created.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadName(pub Vec<u32>);

impl ThreadName {
    pub const FIRST: ThreadName = ThreadName(Vec::new());

    /// The `nth` thread, counted from 0, that this one created.
    pub fn child(&self, nth: u32) -> ThreadName {
        let mut steps = self.0.clone();
        steps.push(nth);
        ThreadName(steps)
    }
}

impl std::fmt::Display for ThreadName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("T")?;
        self.0.iter().try_for_each(|nth| write!(f, ".{nth}"))
    }
}
