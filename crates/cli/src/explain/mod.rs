//! `refrain explain`
mod json;
mod sentences;
mod source;
mod text;

use crate::Ended;
use crate::Failure;
use crate::arguments::ExplainArguments;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use crate::progress::ProgressLine;
use crate::record::spelling;
use crate::replay::print_divergence;
use run_store::Store;
use sentences::Names;
use std::collections::BTreeMap;
use std::env;

pub fn explain(arguments: &ExplainArguments) -> Ended {
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let run_name = spelling(&run, &store);
    // Whatever is wrong now is wrong with the run or with what it needs, not with the command line.
    let explained = replayer::explain(run, &run_name, &ProgressLine::new()).map_err(|error| Failure {
        sentence: error.to_string(),
        status: 3,
    })?;
    let names = Names {
        sites: &explained.loaded.sites,
        symbols: &explained.symbols,
        directory: env::current_dir().unwrap_or_default(),
        before: explained
            .report
            .as_ref()
            .map_or_else(BTreeMap::new, |report| report.before.clone()),
    };
    if arguments.json {
        print_json(&json::explained(&explained, &names))?;
    } else if let Some(report) = &explained.report {
        print(|out| text::write(out, &explained.loaded, report, &names))?;
        explained
            .notes
            .iter()
            .for_each(|note| say(format_args!("note: {note}")));
    }
    if let Some(divergence) = &explained.verdict.divergence {
        if !arguments.json {
            print_divergence(&explained.loaded.run.name(), divergence);
            say(format_args!(
                "the traced replay was not the same run, so there is nothing to explain; does `refrain replay {run_name}` pass?"
            ));
        }
        return Ok(1);
    }
    Ok(0)
}
