//! The wrapper of rustc: compiles crates of the target to bitcode, and leaves those of the host alone.
use super::Note;
use super::TARGET;
use super::variable;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// What a command line of rustc says, as far as it matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// There is something to compile; otherwise cargo only asks a question.
    crate_name: Option<String>,
    is_target: bool,
    is_test: bool,
    extra_filename: String,
    out_directory: Option<PathBuf>,
    opt_level: String,
    has_debug_information: bool,
    is_incremental: bool,
    linker: Option<String>,
    makes_static_library: bool,
}

impl Invocation {
    pub fn parse(arguments: &[OsString]) -> Invocation {
        let mut found = Invocation::default();
        let words: Vec<String> = arguments
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value)),
                _ if word.starts_with("-C") && word.len() > 2 => ("-C", Some(&word[2..])),
                _ => (word, None),
            };
            let takes_value = [
                "--crate-name",
                "--target",
                "--out-dir",
                "--crate-type",
                "-C",
                "--codegen",
            ]
            .contains(&name);
            let value = match joined {
                Some(value) => value,
                None if takes_value => words.next().unwrap_or(""),
                None => "",
            };
            match name {
                "--crate-name" => found.crate_name = Some(value.to_owned()),
                "--target" => found.is_target = value == TARGET,
                "--out-dir" => found.out_directory = Some(value.into()),
                "--crate-type" => found.makes_static_library |= value.split(',').any(|kind| kind == "staticlib"),
                "--test" => found.is_test = true,
                "-g" => found.has_debug_information = true,
                "-O" => found.opt_level = "3".to_owned(),
                "-C" | "--codegen" => found.option(value),
                _ => {}
            }
        }
        found
    }

    fn option(&mut self, option: &str) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "opt-level" => self.opt_level = value.to_owned(),
            "debuginfo" => self.has_debug_information = !matches!(value, "0" | "none"),
            "extra-filename" => self.extra_filename = value.to_owned(),
            "incremental" => self.is_incremental = true,
            "linker" => self.linker = Some(value.to_owned()),
            _ => {}
        }
    }

    fn is_optimised(&self) -> bool {
        !matches!(self.opt_level.as_str(), "" | "0")
    }

    fn stem(&self) -> String {
        format!("{}{}", self.crate_name.as_deref().unwrap_or(""), self.extra_filename)
    }
}

/// `-C lto` asks rustc for what happens after us; link-time optimisation of a recorded program is left out.
fn without_lto(arguments: &[OsString]) -> Vec<OsString> {
    let is_lto = |option: &OsStr| {
        let option = option.to_string_lossy();
        option == "lto" || option.starts_with("lto=")
    };
    let mut kept = Vec::new();
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let joined = argument.to_string_lossy();
        if joined
            .strip_prefix("-C")
            .is_some_and(|option| is_lto(OsStr::new(option)))
        {
            continue;
        }
        if joined == "-C" && rest.peek().is_some_and(|option| is_lto(option)) {
            rest.next();
            continue;
        }
        kept.push(argument.clone());
    }
    kept
}

/// What rustc is given instead.
pub fn plan(invocation: &Invocation, arguments: &[OsString], us: &Path) -> Vec<OsString> {
    if invocation.crate_name.is_none() {
        return arguments.to_vec();
    }
    let mut linker = OsString::from("-Clinker=");
    linker.push(us);
    if !invocation.is_target {
        // C code of the target may be linked into a build script, too: both have the same name for their machine.
        let mut planned = arguments.to_vec();
        planned.push(linker);
        return planned;
    }
    let mut planned = without_lto(arguments);
    planned.extend(["-Clinker-plugin-lto", "-Cstrip=none"].map(OsString::from));
    planned.push(linker);
    if !invocation.has_debug_information {
        // Reports speak in source lines.
        planned.push("-Cdebuginfo=line-tables-only".into());
    }
    if !invocation.is_incremental {
        // Each unit costs two processes when it is instrumented. One unit also optimises better, which makes up for the
        // exchange between units that rustc leaves to the linker now, and names more sites after the user's lines.
        planned.push("-Ccodegen-units=1".into());
    }
    planned
}

/// Runs rustc in our way. The result is its exit status, or the sentence that says why there is none.
pub fn run(compiler: &OsStr, arguments: &[OsString], us: &Path) -> Result<i32, String> {
    let invocation = Invocation::parse(arguments);
    let planned = plan(&invocation, arguments, us);
    let wrapper = env::var_os(variable::WRAPPER).filter(|wrapper| !wrapper.is_empty());
    let mut command = match &wrapper {
        Some(wrapper) => {
            let mut command = Command::new(wrapper);
            command.arg(compiler);
            command
        }
        None => Command::new(compiler),
    };
    command.args(planned);
    command.env(variable::LINK_FOR, if invocation.is_target { "target" } else { "host" });
    command.env(variable::LINKER, invocation.linker.as_deref().unwrap_or("cc"));
    if let (true, Some(directory), Some(_)) = (invocation.is_target, &invocation.out_directory, &invocation.crate_name)
    {
        let note = Note {
            is_optimised: invocation.is_optimised(),
            has_harness: invocation.is_test,
        };
        let stem = invocation.stem();
        note.write(directory, &stem)
            .map_err(|error| format!("cannot write a note about {stem} into {}: {error}", directory.display()))?;
    }
    let status = command
        .status()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    if status.success()
        && invocation.is_target
        && invocation.makes_static_library
        && let Some(directory) = &invocation.out_directory
    {
        super::link::instrument_in_place(&directory.join(format!("lib{}.a", invocation.stem())))?;
    }
    Ok(status.code().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn planned(line: &str) -> String {
        let arguments = words(line);
        let plan = plan(&Invocation::parse(&arguments), &arguments, Path::new("/US"));
        let text: Vec<String> = plan.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        text.join(" ")
    }

    #[test]
    fn crates_of_the_target_become_bitcode() {
        let line = "--crate-name a --target x86_64-unknown-linux-gnu -C opt-level=3 -C lto=fat -Clto a.rs";
        assert_eq!(
            planned(line),
            "--crate-name a --target x86_64-unknown-linux-gnu -C opt-level=3 a.rs -Clinker-plugin-lto -Cstrip=none \
             -Clinker=/US -Cdebuginfo=line-tables-only -Ccodegen-units=1"
        );
        let line = "--crate-name a --target x86_64-unknown-linux-gnu -C debuginfo=2 a.rs";
        assert!(planned(line).ends_with("-Clinker=/US -Ccodegen-units=1"));
        let line = "--crate-name a --target x86_64-unknown-linux-gnu -C debuginfo=2 -C incremental=dir a.rs";
        assert!(planned(line).ends_with("-Clinker=/US"));
    }

    #[test]
    fn the_host_and_questions_are_left_alone() {
        let line = "--crate-name build_script_build --crate-type bin -C lto build.rs";
        assert_eq!(planned(line), format!("{line} -Clinker=/US"));
        assert_eq!(planned("-vV"), "-vV");
        assert_eq!(planned("- --print=cfg"), "- --print=cfg");
    }

    #[test]
    fn what_matters_is_read_off_the_command_line() {
        let line = "--crate-name t1 --edition=2024 --crate-type lib,staticlib --test -C extra-filename=-abc --out-dir /o \
                    -C linker=clang --target=x86_64-unknown-linux-gnu -C debuginfo=0";
        let invocation = Invocation::parse(&words(line));
        assert_eq!(invocation.stem(), "t1-abc");
        assert!(invocation.is_target && invocation.is_test && invocation.makes_static_library);
        assert!(!invocation.has_debug_information && !invocation.is_optimised());
        assert_eq!(invocation.linker.as_deref(), Some("clang"));
    }
}
