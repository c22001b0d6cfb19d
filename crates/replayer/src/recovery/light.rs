//! Recovery of light (Liu, Zhang, Tripp, Zheng: PLDI 2015): which of two writes came first is solved, where nothing that was
//! recorded says it (docs/solving.md).
use super::Found;
use super::Recovering;
use crate::Result;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    run.solve()
}
