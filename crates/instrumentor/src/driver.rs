//! `refrain cc` and `refrain c++`: clang with our pass and our runtime, for use as CC and CXX.
//!
//! Arguments go to clang as they came; we only look at them to decide what to add. That decision is [`plan`], a
//! function of its arguments, so that it can be tested without running anything.
//!
//! | the command line asks for            | added                                                        |
//! |--------------------------------------|--------------------------------------------------------------|
//! | information (`--version`, no inputs) | nothing                                                      |
//! | preprocessing, syntax                | the definitions and the directory that compiling would add   |
//! | objects, assembly, bitcode           | the pass, line numbers, the directory of `refrain.h`         |
//! | a program or a shared library        | the same, and the runtime before all other libraries         |
//! | the same with `-flto`                | also the pass for the linker (`driver/whole.rs`)             |
mod arguments;
mod functions;
mod whole;
mod why;

use arguments::Goal;
use arguments::Request;
pub(crate) use arguments::split as split_words;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// Tells the pass that the debug information is ours, and that lines are enough for the user (`pass/abi.h`).
const BORROWED_TYPES: &str = "refrain-lines-only";

/// Functions are to have a version that counts, for `refrain run`.
const DETERMINISTIC: &str = "--det";
/// The same for the pass (`pass/options.h`).
const COUNTED_VARIABLE: &str = "REFRAIN_BUILD_DET";

/// Functions are to have a version that observes a part, for `refrain record --method coop`.
const PARTIAL: &str = "--coop";
/// The same for the pass.
const PARTIAL_VARIABLE: &str = "REFRAIN_BUILD_COOP";

/// A file that says what functions outside do with memory; `--functions FILE` or `--functions=FILE`.
const FUNCTIONS: &str = "--functions";
/// The same for build systems that cannot pass it on.
const FUNCTIONS_VARIABLE: &str = "REFRAIN_FUNCTIONS";

/// What `refrain cc --help` says behind clang's own help.
const OWN_OPTIONS: &str = "
REFRAIN'S OPTIONS:
  --why FILE:LINE         Say which accesses of this line a recording observes, and why or why not; may be given several times
  --why-json FILE:LINE    The same as JSON, on standard output
  --det                   Build for deterministic runs (refrain run)
  --coop                  Build for recordings of a part (refrain record --method coop)
  --functions FILE        FILE says what functions outside do with memory
";

/// Usage errors, like everywhere in `refrain`.
const EXIT_USAGE: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
}

/// What the driver works with.
#[derive(Clone, Debug)]
pub struct Toolchain {
    pub clang: OsString,
    pub clangxx: OsString,
    /// The LLVM pass.
    pub pass: PathBuf,
    /// The directory with the runtime, which becomes a run path of what is linked.
    pub runtime_directory: PathBuf,
}

impl Toolchain {
    /// The pass and the runtime lie beside this executable; `REFRAIN_CC` and `REFRAIN_CXX` name another clang.
    pub fn installed() -> Result<Toolchain, String> {
        let executable = env::current_exe().map_err(|error| format!("cannot find my own executable: {error}"))?;
        let directory = executable.parent().unwrap_or(Path::new("/")).to_path_buf();
        let choice = |variable: &str, default: &str| {
            env::var_os(variable)
                .filter(|value| !value.is_empty())
                .unwrap_or_else(|| OsString::from(default))
        };
        Ok(Toolchain {
            clang: choice("REFRAIN_CC", "clang-22"),
            clangxx: choice("REFRAIN_CXX", "clang++-22"),
            pass: directory.join(crate::PASS_LIBRARY),
            runtime_directory: directory,
        })
    }

    fn compiler(&self, language: Language) -> &OsStr {
        match language {
            Language::C => &self.clang,
            Language::Cxx => &self.clangxx,
        }
    }
}

/// Runs the compiler with our additions. The result is the exit status.
pub fn main(language: Language, arguments: Vec<OsString>) -> i32 {
    let result = Toolchain::installed().and_then(|tools| run(&tools, language, &arguments));
    result.unwrap_or_else(|why| {
        eprintln!("refrain: {why}");
        EXIT_USAGE
    })
}

/// The same with a given toolchain; the error is a sentence for the user.
pub fn run(tools: &Toolchain, language: Language, arguments: &[OsString]) -> Result<i32, String> {
    let own = Own::take(arguments)?;
    let functions = own
        .functions
        .as_deref()
        .map(|file| functions::read(Path::new(file)))
        .transpose()?;
    let planned = plan(tools, language, &own.others)?;
    let request = Request::parse(language, &own.others)?;
    own.questions.refuse_without_code(request.goal)?;
    whole::refuse_early_questions(&request, &own.questions)?;
    let compiler = tools.compiler(language);
    let mut command = Command::new(compiler);
    // The pass has no command line of its own.
    if own.is_counted {
        command.env(COUNTED_VARIABLE, "1");
    }
    if own.is_in_parts {
        command.env(PARTIAL_VARIABLE, "1");
    }
    if let Some(functions) = functions {
        command.env(functions::VARIABLE, functions);
    }
    let awaited = own.questions.ask(&mut command)?;
    let status = command.args(planned).status().map_err(|error| {
        format!(
            "cannot start {}: {error}. Install it with `apt-get install clang-22 lld-22`, or name another clang 22 in {}",
            compiler.display(),
            match language {
                Language::C => "REFRAIN_CC",
                Language::Cxx => "REFRAIN_CXX",
            }
        )
    })?;
    if status.success() && own.others.iter().any(|argument| argument == "--help") {
        print!("{OWN_OPTIONS}");
    }
    match awaited {
        Some(awaited) if status.success() => awaited.say(),
        // A compiler that died by a signal has no code; make sees a failure either way.
        _ => Ok(status.code().unwrap_or(1)),
    }
}

/// The arguments without those that are ours and not clang's, and what these say.
struct Own {
    others: Vec<OsString>,
    is_counted: bool,
    is_in_parts: bool,
    /// The file of `--functions`.
    functions: Option<OsString>,
    questions: why::Questions,
}

impl Own {
    fn take(arguments: &[OsString]) -> Result<Own, String> {
        let mut own = Own {
            others: Vec::new(),
            is_counted: false,
            is_in_parts: false,
            functions: env::var_os(FUNCTIONS_VARIABLE).filter(|file| !file.is_empty()),
            questions: why::Questions::default(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                // What follows is a file name, whatever it looks like.
                own.others.push(argument.clone());
                own.others.extend(arguments.by_ref().cloned());
            } else if argument == DETERMINISTIC {
                own.is_counted = true;
            } else if argument == PARTIAL {
                own.is_in_parts = true;
            } else if argument == FUNCTIONS {
                let file = arguments.next();
                own.functions = Some(
                    file.ok_or("--functions is followed by a file: --functions FILE")?
                        .clone(),
                );
            } else if let Some(file) = argument.to_string_lossy().strip_prefix("--functions=") {
                own.functions = Some(file.into());
            } else if let Some((option, joined)) = why::option(argument) {
                let place = joined.or_else(|| arguments.next().cloned()).unwrap_or_default();
                own.questions.is_json |= option == why::JSON;
                own.questions.places.push(why::Place::parse(option, &place)?);
            } else {
                own.others.push(argument.clone());
            }
        }
        if own.is_counted && own.is_in_parts {
            return Err(
                "--det and --coop give functions different versions; build the program twice, once with each"
                    .to_owned(),
            );
        }
        Ok(own)
    }
}

/// The arguments for clang, or why there are none.
pub fn plan(tools: &Toolchain, language: Language, arguments: &[OsString]) -> Result<Vec<OsString>, String> {
    let request = Request::parse(language, arguments)?;
    request.refuse_unsupported()?;
    whole::refuse_unsupported(&request)?;
    let definitions = definitions(&request);
    let (before, after) = match request.goal {
        Goal::Information => (Vec::new(), Vec::new()),
        Goal::Preprocess => (definitions, header_options(tools)),
        Goal::Compile => (definitions, compile_options(tools, &request)?),
        Goal::Link => {
            let mut before = link_options(tools)?;
            before.extend(definitions);
            (before, link_and_compile_options(tools, &request)?)
        }
        // A relocatable object is linked again later, by us or by someone else.
        Goal::LinkRelocatable => (definitions, link_and_compile_options(tools, &request)?),
    };
    // What follows a lone "--" is a file name, whatever it looks like.
    let end = arguments
        .iter()
        .position(|argument| argument == "--")
        .unwrap_or(arguments.len());
    let mut planned = before;
    planned.extend_from_slice(&arguments[..end]);
    planned.extend(after);
    planned.extend_from_slice(&arguments[end..]);
    Ok(planned)
}

/// Without this the member functions of std::string and the streams are taken from libstdc++.so, where nobody observes
/// them; with it they are instantiated, and instrumented, in the program.
fn definitions(request: &Request) -> Vec<OsString> {
    if request.has_cxx_input {
        vec!["-D_GLIBCXX_EXTERN_TEMPLATE=0".into()]
    } else {
        Vec::new()
    }
}

fn compile_options(tools: &Toolchain, request: &Request) -> Result<Vec<OsString>, String> {
    require(&tools.pass, "the compiler pass")?;
    let mut plugin = OsString::from("-fpass-plugin=");
    plugin.push(&tools.pass);
    // Between these two, clang does not complain about options that the inputs at hand have no use for.
    let mut options: Vec<OsString> = vec!["--start-no-unused-arguments".into(), plugin];
    if !request.has_debug_types {
        // Types give the names of what is accessed; the pass takes them away again and leaves line tables.
        options.extend(["-g", "-Xclang", "-dwarf-debug-flags", "-Xclang", BORROWED_TYPES].map(OsString::from));
    }
    if request.has_cxx_input {
        // Otherwise a class is described only where it is constructed, and has no fields to name elsewhere.
        options.push("-fstandalone-debug".into());
    }
    if request.is_fortified {
        // Fortified string functions go past the wrappers that observe them.
        options.push("-U_FORTIFY_SOURCE".into());
    }
    options.extend(header_options(tools));
    options.push("--end-no-unused-arguments".into());
    Ok(options)
}

fn link_and_compile_options(tools: &Toolchain, request: &Request) -> Result<Vec<OsString>, String> {
    let mut options = compile_options(tools, request)?;
    options.extend(whole::link_options(tools, request));
    Ok(options)
}

/// Where `refrain.h` is found, behind all other directories: a header of that name that the program has itself stays the one.
fn header_options(tools: &Toolchain) -> Vec<OsString> {
    vec!["-idirafter".into(), tools.runtime_directory.join("include").into()]
}

/// The runtime comes first, so that its functions are found before those of libc and libpthread.
pub(crate) fn link_options(tools: &Toolchain) -> Result<Vec<OsString>, String> {
    let library = tools.runtime_directory.join(runtime_abi::RUNTIME_LIBRARY);
    require(&library, "the runtime")?;
    let with = |prefix: &str| {
        let mut option = OsString::from(prefix);
        option.push(&tools.runtime_directory);
        option
    };
    Ok(vec![
        "-Wl,--push-state,--no-as-needed".into(),
        with("-L"),
        "-lrefrain_runtime".into(),
        "-Wl,--pop-state".into(),
        // Not with -Wl, which would cut the path at a comma.
        "-Xlinker".into(),
        "-rpath".into(),
        "-Xlinker".into(),
        with(""),
    ])
}

fn require(file: &Path, what: &str) -> Result<(), String> {
    if file.exists() {
        return Ok(());
    }
    Err(format!(
        "{what} is missing: there is no {}. Build it with `cargo build --release`",
        file.display()
    ))
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
