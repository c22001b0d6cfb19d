//! Waiting for what another thread is about to do.
use crate::World;

/// How often somebody has looked in vain.
#[derive(Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    #[inline]
    pub fn wait<W: World>(&mut self, world: W) {
        self.rounds = self.rounds.saturating_add(1);
        world.rest(self.rounds);
    }
}
