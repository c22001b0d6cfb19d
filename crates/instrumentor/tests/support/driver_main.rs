//! `refrain cc` without the rest of `refrain`, for tests that need a compiler command:
//! `instrumentor-test-driver PASS RUNTIME_DIRECTORY (cc|c++) ARGUMENTS…`
use instrumentor::driver;
use instrumentor::driver::Language;
use instrumentor::driver::Toolchain;
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let mut next = || {
        arguments
            .next()
            .expect("instrumentor-test-driver PASS RUNTIME_DIRECTORY (cc|c++) ARGUMENTS…")
    };
    let (pass, runtime_directory, language) = (next(), next(), next());
    let tools = Toolchain {
        clang: "clang-22".into(),
        clangxx: "clang++-22".into(),
        pass: pass.into(),
        runtime_directory: runtime_directory.into(),
    };
    let language = if language == "c++" { Language::Cxx } else { Language::C };
    let rest: Vec<OsString> = arguments.collect();
    match driver::run(&tools, language, &rest) {
        Ok(status) => ExitCode::from(status as u8),
        Err(why) => {
            eprintln!("refrain: {why}");
            ExitCode::from(2)
        }
    }
}
