//! `refrain fleet …`: done by the program `refrain-fleet` beside this one, so that whoever has no fleet builds no server.
use crate::Ended;
use crate::Failure;
use crate::arguments::UploadFlags;
use run_store::RunDirectory;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const NAME: &str = "refrain-fleet";
/// A server, or what it takes to reach one, cannot be used.
const UNUSABLE: u8 = 3;

/// Becomes the other program if that is what the command line asks for.
pub fn run_if_asked(mut arguments: impl Iterator<Item = OsString>) -> Option<Ended> {
    if arguments.nth(1)? != "fleet" {
        return None;
    }
    Some(program().and_then(|program| {
        let error = Command::new(&program).arg0(NAME).args(arguments).exec();
        Err(cannot_start(&program, &error))
    }))
}

/// What `--upload` needs is there, so that nobody waits for a program that then cannot be sent.
pub fn check(flags: &UploadFlags) -> Result<(), Failure> {
    if !flags.upload {
        return match flags.to.is_some() || flags.token_file.is_some() || flags.with_inputs {
            true => Err(Failure::usage(
                "--to, --token-file and --with-inputs say how --upload sends",
            )),
            false => Ok(()),
        };
    }
    let is_given = |given: bool, variable| given || env::var_os(variable).is_some_and(|value| !value.is_empty());
    if !is_given(flags.to.is_some(), "REFRAIN_FLEET_URL")
        || !is_given(flags.token_file.is_some(), "REFRAIN_FLEET_TOKEN_FILE")
    {
        return Err(Failure::usage(
            "--upload needs a server and a token: --to URL --token-file FILE, or REFRAIN_FLEET_URL and REFRAIN_FLEET_TOKEN_FILE",
        ));
    }
    program().map(drop)
}

/// Sends a run that was just recorded. What goes wrong is said, and the log waits; the program's status is what counts.
pub fn upload(run: &RunDirectory, flags: &UploadFlags) -> Result<(), Failure> {
    let program = program()?;
    let mut command = Command::new(&program);
    command.arg("upload").arg(run.path());
    if let Some(to) = &flags.to {
        command.arg("--to").arg(to);
    }
    if let Some(file) = &flags.token_file {
        command.arg("--token-file").arg(file);
    }
    if flags.with_inputs {
        command.arg("--with-inputs");
    }
    command.status().map_err(|error| cannot_start(&program, &error))?;
    Ok(())
}

fn program() -> Result<PathBuf, Failure> {
    let failed = |sentence| Failure {
        sentence,
        status: UNUSABLE,
    };
    let own = env::current_exe().map_err(|error| failed(format!("cannot find my own executable: {error}")))?;
    let program = own.with_file_name(NAME);
    match program.is_file() {
        true => Ok(program),
        false => Err(failed(format!(
            "there is no {NAME} beside {}: `cargo build --release -p fleet` in a clone of Refrain makes one",
            own.file_name().unwrap_or(OsStr::new("refrain")).display()
        ))),
    }
}

fn cannot_start(program: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure {
        sentence: format!("cannot start {}: {error}", program.display()),
        status: UNUSABLE,
    }
}
