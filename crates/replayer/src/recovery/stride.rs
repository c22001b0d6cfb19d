//! Recovery of stride (Zhou, Xiao, Zhang: ICSE 2012): versions and values say which write each read saw.
use super::Found;
use super::Recovering;
use crate::Result;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    run.solve()
}
