//! Recovery of serial: the log says the order of all accesses; there is nothing to decide.
use super::Found;
use super::Recovering;
use crate::Result;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    run.solve()
}
