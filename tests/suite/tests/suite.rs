//! Collects the trials of all modules and runs them.
use libtest_mimic::Arguments;
use libtest_mimic::Trial;
use refrain_suite::bad_input;
use refrain_suite::bugs;
use refrain_suite::canary;
use refrain_suite::compiler;
use refrain_suite::copied;
use refrain_suite::coverage;
use refrain_suite::debugger;
use refrain_suite::declared;
use refrain_suite::deterministic;
use refrain_suite::deterministic_build;
use refrain_suite::deterministic_calls;
use refrain_suite::deterministic_inputs;
use refrain_suite::deterministic_polls;
use refrain_suite::deterministic_programs;
use refrain_suite::deterministic_signals;
use refrain_suite::deterministic_stacks;
use refrain_suite::deterministic_steps;
use refrain_suite::deterministic_traces;
use refrain_suite::explain;
use refrain_suite::explain_rust;
use refrain_suite::fleet;
use refrain_suite::fleet_guests;
use refrain_suite::fleet_merged;
use refrain_suite::hosted;
use refrain_suite::inputs;
use refrain_suite::interrupted;
use refrain_suite::kept;
use refrain_suite::killed;
use refrain_suite::live;
use refrain_suite::packed;
use refrain_suite::private;
use refrain_suite::probe;
use refrain_suite::processes;
use refrain_suite::projects;
use refrain_suite::promised;
use refrain_suite::raced;
use refrain_suite::readme;
use refrain_suite::rust;
use refrain_suite::schedules;
use refrain_suite::scripts;
use refrain_suite::searched;
use refrain_suite::serial;
use refrain_suite::speed;
use refrain_suite::surroundings;
use refrain_suite::turns;
use std::process::ExitCode;

fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    trials.extend(canary::trials()?);
    trials.extend(compiler::trials());
    trials.extend(projects::trials());
    trials.extend(rust::trials());
    trials.extend(readme::trials()?);
    trials.extend(raced::trials()?);
    trials.extend(coverage::trials()?);
    trials.extend(bugs::trials()?);
    trials.extend(serial::trials()?);
    trials.extend(explain::trials()?);
    trials.extend(explain_rust::trials());
    trials.extend(fleet_guests::trials()?);
    trials.extend(private::trials());
    trials.extend(probe::trials()?);
    trials.extend(speed::trials()?);
    trials.extend(bad_input::trials()?);
    trials.extend(hosted::trials()?);
    trials.extend(inputs::trials());
    trials.extend(interrupted::trials()?);
    trials.extend(kept::trials());
    trials.extend(promised::trials());
    trials.extend(killed::trials());
    trials.extend(scripts::trials());
    trials.extend(live::trials()?);
    trials.extend(schedules::trials()?);
    trials.extend(deterministic::trials()?);
    trials.extend(deterministic_signals::trials()?);
    trials.extend(deterministic_stacks::trials()?);
    trials.extend(deterministic_calls::trials()?);
    trials.extend(deterministic_polls::trials()?);
    trials.extend(declared::trials()?);
    trials.extend(deterministic_inputs::trials()?);
    trials.extend(deterministic_build::trials()?);
    trials.extend(deterministic_programs::trials()?);
    trials.extend(deterministic_steps::trials()?);
    trials.extend(deterministic_traces::trials()?);
    trials.extend(packed::trials()?);
    trials.extend(debugger::trials()?);
    trials.extend(processes::trials()?);
    trials.extend(surroundings::trials());
    trials.extend(turns::trials()?);
    trials.extend(searched::trials()?);
    trials.extend(copied::trials()?);
    trials.extend(fleet::trials());
    trials.extend(fleet_merged::trials());
    trials.push(promised::named(&trials));
    Ok(trials)
}

fn main() -> ExitCode {
    match trials() {
        Ok(trials) => libtest_mimic::run(&Arguments::from_args(), trials).exit_code(),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
