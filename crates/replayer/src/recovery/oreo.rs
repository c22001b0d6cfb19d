//! Recovery of oreo: as that of stride where versions make sense; where they contradict each other, what each read saw is
//! searched for (docs/methods.md#oreo).
use super::Found;
use super::Recovering;
use crate::Result;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    run.solve()
}
