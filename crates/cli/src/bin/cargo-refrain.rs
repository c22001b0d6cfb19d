//! `cargo refrain`, and what cargo and rustc call on its behalf. All of it is in `refrain`, which lies beside this file;
//! this is a name for it, because cargo and rustc want programs without arguments of ours.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::process::ExitCode;

/// Variables of a build, which must not reach the program that was built (`instrumentor::rust::variable`).
const OF_THE_BUILD: [&str; 9] = [
    "REFRAIN_BUILD_SCOPE",
    "REFRAIN_BUILD_COOP",
    "REFRAIN_CARGO_CACHE",
    "REFRAIN_CARGO_WRAPPER",
    "REFRAIN_CARGO_RECORD",
    "RUSTC_WRAPPER",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
    "CC_x86_64_unknown_linux_gnu",
    "CXX_x86_64_unknown_linux_gnu",
];

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let first = arguments.first().cloned().unwrap_or_default();
    let is_set = |name: &str| env::var_os(name).is_some();
    let mut command = match env::current_exe() {
        Ok(path) => Command::new(path.with_file_name("refrain")),
        Err(error) => {
            eprintln!("refrain: cannot find my own executable: {error}");
            return ExitCode::from(2);
        }
    };
    // rustc calls its linker; cargo the runner, this subcommand, or the wrapper of rustc.
    let role = if is_set("REFRAIN_CARGO_LINK_FOR") {
        "cargo-link"
    } else if first == "--runner" {
        arguments[0] = env::var_os("REFRAIN_CARGO_RECORD").unwrap_or_default();
        for name in OF_THE_BUILD {
            command.env_remove(name);
        }
        "cargo-runner"
    } else if first == "refrain" {
        arguments.remove(0);
        "cargo"
    } else if is_set("REFRAIN_CARGO_CACHE") {
        "cargo-rustc"
    } else {
        "cargo"
    };
    let error = command.arg(role).args(arguments).exec();
    eprintln!("refrain: cannot start refrain, which has to lie beside cargo-refrain: {error}");
    ExitCode::from(2)
}
