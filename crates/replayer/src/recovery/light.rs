//! Recovery of light (Liu, Zhang, Tripp, Zheng: PLDI 2015): which of two writes came first is solved, where nothing that was
//! recorded says it (docs/solving.md). At scope sync, nothing is recorded of plain accesses: if a replay shows that they race, their order is searched for (docs/search.md).
use super::Found;
use super::Recovering;
use super::Search;
use super::Sought;
use super::provide;
use crate::Result;
use crate::search;
use crate::search::Searching;
use crate::steered;

pub(super) fn recover(run: &mut Recovering<'_>) -> Result<Vec<Found>> {
    let mut found = run.solve()?;
    if !steered::is_possible(&run.loaded) {
        return Ok(found);
    }
    steered::apply_kept(&run.loaded, &mut found)?;
    let is_kept = search::searching(&run.loaded.run);
    let options = match (&run.options.search, is_kept) {
        (Search::Never, _) | (Search::Once(_), Searching::Found) => return Ok(found),
        (Search::Once(_), Searching::Unfound) => {
            run.sought = Sought::InVain;
            return Ok(found);
        }
        (Search::Once(_), Searching::NotBegun) if steered::is_long(&run.loaded) => return Ok(found),
        (Search::Once(options) | Search::Always(options), _) => options,
    };
    if !run.options.to_replay {
        // Where it cannot be replayed, there is nothing to search with.
        let Ok(stage) = provide(&run.loaded) else {
            return Ok(found);
        };
        run.stage = stage;
    }
    let name = &run.options.run_name;
    let searched = steered::search(&run.loaded, run.stage.as_ref(), &mut found, name, options, run.observer)?;
    if let Some(searched) = searched {
        run.sought = Sought::Now(Box::new(searched));
    }
    Ok(found)
}
