//! `refrain cc …` and `refrain c++ …`, also as `refrain-cc` and `refrain-c++` for build systems that want one word.
use instrumentor::driver;
use instrumentor::driver::Language;
use std::ffi::OsString;
use std::path::Path;

/// Runs the compiler driver if that is what the command line asks for.
pub fn run_if_asked(arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    let arguments: Vec<OsString> = arguments.collect();
    let called_as = arguments.first().map(Path::new).and_then(Path::file_name)?.to_str()?;
    let (language, rest) = match called_as.strip_prefix("refrain-").and_then(language) {
        Some(language) => (language, 1),
        None => (language(arguments.get(1)?.to_str()?)?, 2),
    };
    Some(driver::main(language, arguments[rest..].to_vec()) as u8)
}

fn language(name: &str) -> Option<Language> {
    match name {
        "cc" => Some(Language::C),
        "c++" | "cxx" => Some(Language::Cxx),
        _ => None,
    }
}
