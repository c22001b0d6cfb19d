//! `refrain replay --gdb`
use crate::Ended;
use crate::Failure;
use crate::arguments::ReplayArguments;
use crate::output::say;
use crate::progress::ProgressLine;
use crate::record::spelling;
use crate::replay::print_divergence;
use replayer::DebugOptions;
use replayer::Divergence;
use run_store::Store;
use std::env;

pub fn debug(arguments: &ReplayArguments) -> Ended {
    for script in &arguments.scripts {
        if !script.is_file() {
            return Err(Failure::usage(format!(
                "there is no file {} for gdb to read; check -x",
                script.display()
            )));
        }
    }
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let name = run.name();
    let options = DebugOptions {
        run_name: spelling(&run, &store),
        goto_failure: arguments.goto_failure,
        scripts: arguments.scripts.clone(),
        arguments: arguments.gdb_arguments.clone(),
        tool: env::current_exe().map_err(|e| Failure::usage(format!("cannot find the refrain command itself: {e}")))?,
    };
    let mut tell = |divergence: &Divergence| print_divergence(&name, divergence);
    let debugged = replayer::debug(run, &options, &ProgressLine::new(), &mut tell)?;
    if !arguments.quiet {
        for note in &debugged.notes {
            say(format_args!("note: {note}"));
        }
        match debugged.outcome {
            Some(outcome) if !debugged.has_diverged => {
                say(format_args!("the replay of {name} ended as recorded: {outcome}"));
            }
            _ => {}
        }
    }
    Ok(u8::from(debugged.has_diverged))
}
