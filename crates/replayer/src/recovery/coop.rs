//! Recovery of coop: there is none of a single run. What it has is a part; a run is made of many such parts (docs/fleet.md).
use super::Found;
use super::Recovering;
use crate::Error;
use crate::Result;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    Err(Error::PartialRun {
        path: run.loaded.run.path().to_owned(),
    })
}
