//! How an enforced schedule holds threads, and what becomes of a program that leaves it: settings of deterministic runs.

/// How a thread waits at a gate until its turn has come (PEREGRINE, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relay {
    /// It looks for a while, as long as that has paid, and sleeps then.
    #[default]
    Auto,
    /// It looks until the turn has come, and offers its processor to others meanwhile.
    Flag,
    /// It sleeps at once.
    Semaphore,
}

impl Relay {
    pub const ALL: [Relay; 3] = [Relay::Auto, Relay::Flag, Relay::Semaphore];

    pub const fn name(self) -> &'static str {
        match self {
            Relay::Auto => "auto",
            Relay::Flag => "flag",
            Relay::Semaphore => "semaphore",
        }
    }
}

/// What becomes of a program that leaves its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDivergence {
    #[default]
    Stop,
    /// It goes on as if it had none.
    Free,
}

impl OnDivergence {
    pub const ALL: [OnDivergence; 2] = [OnDivergence::Stop, OnDivergence::Free];

    pub const fn name(self) -> &'static str {
        match self {
            OnDivergence::Stop => "stop",
            OnDivergence::Free => "free",
        }
    }
}
