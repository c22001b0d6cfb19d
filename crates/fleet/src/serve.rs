//! `refrain fleet serve`: the server, and what it needs of us: a program's elements, and attempts.
use crate::arguments::ServeArguments;
use crate::output::say;
use crate::trouble::Result;
use crate::trouble::Trouble;
use crate::trying;
use collector::AttemptAnswer;
use collector::AttemptRequest;
use collector::Attempts;
use collector::ElementInfo;
use collector::Limits;
use collector::Options;
use collector::Tls;
use replayer::fleet;
use replayer::fleet::INPUTS_BYTES_MAX;
use replayer::fleet::RunInputs;
use run_store::Store;
use run_store::shown_path;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::path::absolute;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub fn serve(arguments: &ServeArguments) -> Result<u8> {
    let tls = arguments.tls_certificate.clone().zip(arguments.tls_key.clone());
    let options = Options {
        // Attempts run in other folders than ours.
        store: absolute(&arguments.store)
            .map_err(|e| Trouble::usage(format!("--store {}: {e}", shown_path(&arguments.store))))?,
        listen: arguments.listen,
        token_file: arguments.token_file.clone(),
        tls: tls.map(|(certificate, key)| Tls { certificate, key }),
        allows_plain_remote: arguments.allow_plain_remote,
        limits: Limits {
            inputs_bytes_max: INPUTS_BYTES_MAX + (1 << 20),
            attempt_timeout: Duration::from_secs(arguments.attempt_timeout),
            attempts_at_a_time: arguments.attempts_at_a_time,
            ..Limits::default()
        },
    };
    collector::serve(options, Arc::new(Apart)).map_err(|error| Trouble::unusable(error.to_string()))?;
    say(format_args!("the server has ended"));
    Ok(0)
}

/// Programs are run in processes of their own.
struct Apart;

impl Attempts for Apart {
    fn elements(&self, program: &Path) -> std::result::Result<Vec<ElementInfo>, String> {
        let elements = fleet::elements_of(program).map_err(|error| error.to_string())?;
        let info = |element: fleet::Element| ElementInfo {
            id: element.id.0,
            kind: element.kind.map_or(String::new(), |kind| kind.to_string()),
            name: element.name,
            file: element.file,
            line: element.line,
            sites: element.sites,
        };
        Ok(elements.into_iter().map(info).collect())
    }

    fn attempt(&self, request: &AttemptRequest<'_>) -> std::result::Result<AttemptAnswer, String> {
        let sent = fs::read(request.inputs).map_err(|error| format!("cannot read the inputs: {error}"))?;
        let inputs = RunInputs::decode(&sent)?;
        let answer = trying::try_apart(
            &trying::Request {
                program: request.program,
                inputs: &inputs,
                vectors: request.vectors,
                is_strict: request.is_strict,
                timeout: request.timeout,
                folder: request.output,
            },
            &|| request.is_stopped.load(Relaxed),
        );
        let answer = answer.map_err(|trouble| trouble.sentence)?;
        let run = match &answer.failure {
            Some(_) => Some(packed(&answer.run, request.output).map_err(|trouble| trouble.sentence)?),
            None => None,
        };
        Ok(AttemptAnswer {
            outcome: answer.outcome,
            failure: answer.failure,
            is_stuck: answer.is_stuck,
            let_go: answer.let_go,
            blamed: answer.blamed,
            run,
        })
    }
}

/// The run as one file, with its program and libraries.
fn packed(run: &Path, folder: &Path) -> Result<PathBuf> {
    let archive = folder.join("run.refrain");
    let run = Store::at(folder)?.open(Some(run.as_os_str()))?;
    replayer::pack(&run, &archive)?;
    Ok(archive)
}
