//! Our options among cargo's.
use crate::Failure;
use crate::arguments::Arguments;
use crate::arguments::Command;
use crate::arguments::RecordArguments;
use clap::Parser;
use instrumentor::rust::TARGET;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Options of `refrain record` that have a value.
const WITH_VALUE: [&str; 10] = [
    "--scope",
    "--timeout",
    "--keep",
    "--max-size",
    "--max-time",
    "--method",
    "--without",
    "--follow",
    "--output",
    "-o",
];
/// The same, whose value is optional and joined.
const WITH_JOINED_VALUE: [&str; 2] = ["--chaos", "--until-failure"];

/// A command line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// For `refrain record`.
    pub record: Vec<String>,
    /// For cargo, what follows `--` included.
    pub cargo: Vec<OsString>,
    /// The target directory that was named.
    pub target_directory: Option<PathBuf>,
    pub manifest: Option<OsString>,
    /// How many tests are recorded at a time, and how many compilers run.
    pub jobs: Option<NonZeroUsize>,
}

impl Options {
    /// Of what follows the subcommand.
    pub fn parse(arguments: &[OsString]) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            if text == "--" {
                options.cargo.push(argument.clone());
                options.cargo.extend(rest.cloned());
                break;
            }
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (&*text, None),
            };
            let mut value = |joined: Option<String>| match joined {
                Some(value) => Ok(value),
                None => rest
                    .next()
                    .map(|value| value.to_string_lossy().into_owned())
                    .ok_or_else(|| Failure::usage(format!("{name} wants a value"))),
            };
            match name {
                _ if WITH_JOINED_VALUE.contains(&name) => options.record.push(text.into_owned()),
                _ if WITH_VALUE.contains(&name) => {
                    let value = value(joined)?;
                    options.record.extend([name.to_owned(), value]);
                }
                "--target-dir" => options.target_directory = Some(value(joined)?.into()),
                "--target" => {
                    let target = value(joined)?;
                    if target != TARGET {
                        return Err(Failure::usage(format!(
                            "--target {target} cannot be recorded: only {TARGET} can"
                        )));
                    }
                }
                "--manifest-path" => {
                    let path = value(joined)?;
                    options.manifest = Some(path.clone().into());
                    options.cargo.extend(["--manifest-path".into(), path.into()]);
                }
                "--jobs" | "-j" => {
                    let jobs = value(joined)?;
                    // What cargo makes of other words, it says.
                    options.jobs = jobs.parse().ok();
                    options.cargo.extend([name.into(), jobs.into()]);
                }
                _ if text.starts_with("-j") => {
                    options.jobs = text[2..].parse().ok();
                    options.cargo.push(argument.clone());
                }
                _ => options.cargo.push(argument.clone()),
            }
        }
        Ok(options)
    }

    /// Whether an option of cargo's is there, before `--`.
    pub fn has(&self, names: &[&str]) -> bool {
        self.cargo
            .iter()
            .map(|argument| argument.to_string_lossy())
            .take_while(|argument| argument != "--")
            .any(|argument| names.contains(&argument.split('=').next().unwrap_or("")))
    }
}

/// The options for `refrain record`, checked by its own parser, on a program.
pub fn record_arguments(options: &[String], command: &[OsString]) -> Result<RecordArguments, Failure> {
    let mut line: Vec<OsString> = ["refrain", "record"].map(OsString::from).to_vec();
    line.extend(options.iter().map(OsString::from));
    line.push("--".into());
    line.extend_from_slice(command);
    match Arguments::try_parse_from(line).map(|arguments| arguments.command) {
        Ok(Command::Record(arguments)) => Ok(arguments),
        Ok(_) => unreachable!("the line says record"),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or("wrong usage");
            Err(Failure::usage(first.trim_start_matches("error: ").to_owned()))
        }
    }
}

/// One string for a variable, and back.
pub fn encode(options: &[String]) -> String {
    options.join("\u{1f}")
}

/// What stands for the number of tests at a time, in front of options for `refrain record`.
const JOBS: &str = "--jobs=";

pub fn encode_jobs(jobs: Option<NonZeroUsize>) -> Option<String> {
    jobs.map(|jobs| format!("{JOBS}{jobs}"))
}

pub fn decode_jobs(options: &[String]) -> (Option<NonZeroUsize>, &[String]) {
    match options.split_first() {
        Some((first, rest)) if first.starts_with(JOBS) => (first[JOBS.len()..].parse().ok(), rest),
        _ => (None, options),
    }
}

pub fn decode(text: &str) -> Vec<String> {
    text.split('\u{1f}')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Options::parse(&arguments).map_err(|failure| failure.sentence)
    }

    #[test]
    fn our_options_are_told_from_cargos() {
        let line = "--release --until-failure=20 -p a --timeout 5 --chaos flaky --target-dir=/t -- --chaos --nocapture";
        let options = parse(line).unwrap();
        assert_eq!(options.record, ["--until-failure=20", "--timeout", "5", "--chaos"]);
        assert_eq!(
            options.cargo,
            ["--release", "-p", "a", "flaky", "--", "--chaos", "--nocapture"]
        );
        assert_eq!(options.target_directory, Some("/t".into()));
        assert!(options.has(&["--release"]) && !options.has(&["--nocapture"]));
    }

    #[test]
    fn jobs_are_cargos_and_ours() {
        for (line, cargo) in [
            ("--jobs 3 a", &["--jobs", "3", "a"][..]),
            ("--jobs=3", &["--jobs", "3"]),
            ("-j3", &["-j3"]),
            ("-j 3", &["-j", "3"]),
        ] {
            let options = parse(line).unwrap();
            assert_eq!(options.jobs, NonZeroUsize::new(3), "{line}");
            assert_eq!(options.cargo, cargo, "{line}");
        }
        assert_eq!(parse("-- -j3").unwrap().jobs, None);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(
            parse("--target aarch64-unknown-linux-gnu")
                .unwrap_err()
                .contains("cannot be recorded")
        );
        assert_eq!(parse("--timeout").unwrap_err(), "--timeout wants a value");
        let wrong = record_arguments(&["--timeout".to_owned(), "soon".to_owned()], &["x".into()]);
        assert!(wrong.err().unwrap().sentence.contains("soon"));
    }

    #[test]
    fn options_survive_a_variable() {
        let options = vec!["--chaos".to_owned(), "-o".to_owned(), "a b".to_owned()];
        assert_eq!(decode(&encode(&options)), options);
        assert!(decode("").is_empty());
        let jobs = NonZeroUsize::new(4);
        let words: Vec<String> = encode_jobs(jobs).into_iter().chain(options.clone()).collect();
        assert_eq!(decode_jobs(&words), (jobs, &options[..]));
        assert_eq!(decode_jobs(&options), (None, &options[..]));
    }
}
