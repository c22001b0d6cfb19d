//! The README, and the server's page, as a reader follows them: each command in it is run, section by section, and what it prints has the shape that is shown.
//!
//! Numbers, sizes and times are not compared; `…` in a line stands for anything, and as a line of its own for any lines. The order of lines is not compared
//! either: standard output and standard error come by two ways.
use crate::Checked;
use crate::Problem;
use crate::failed;
use crate::require;
use crate::rust;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// The README is read to its end, not longer.
const LINES_MAX: usize = 170;
/// The demonstration, and the standard library of Rust if it was not instrumented before, on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// What stands below a heading.
struct Section {
    heading: String,
    commands: Vec<Command>,
}

struct Command {
    typed: String,
    shown: Vec<String>,
}

pub fn trials() -> Result<Vec<Trial>, String> {
    let text = document("README.md")?;
    let lines = text.lines().count();
    let mut trials = vec![trial("readme/is_short", move |_| {
        require(lines <= LINES_MAX, || {
            format!("README.md has {lines} lines, and should have at most {LINES_MAX}")
        })
    })];
    let of_others = sections(&document("docs/fleet-server.md")?);
    for section in sections(&text).into_iter().chain(of_others) {
        let name = section
            .heading
            .to_lowercase()
            .replace(|c: char| !c.is_alphanumeric(), "_");
        trials.push(trial(format!("readme/{}", name.trim_matches('_')), move |sandbox| {
            follow(sandbox, &section)
        }));
    }
    Ok(trials)
}

fn document(name: &str) -> Result<String, String> {
    let path = repository().join(name);
    fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn repository() -> PathBuf {
    let tests = tool::guests().join("../..");
    tests.canonicalize().unwrap_or(tests)
}

/// Sections with commands.
fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut is_console = false;
    for line in text.lines() {
        let commands = sections.last_mut().map(|section| &mut section.commands);
        match (line, commands) {
            ("```console", _) => is_console = true,
            ("```", _) => is_console = false,
            (_, Some(commands)) if is_console => match line.strip_prefix("$ ") {
                Some(typed) => commands.push(Command {
                    typed: typed.to_owned(),
                    shown: Vec::new(),
                }),
                None => {
                    if let Some(command) = commands.last_mut() {
                        command.shown.push(line.to_owned());
                    }
                }
            },
            _ => {
                if let Some(heading) = line.strip_prefix("## ") {
                    sections.push(Section {
                        heading: heading.to_owned(),
                        commands: Vec::new(),
                    });
                }
            }
        }
    }
    sections.retain(|section| !section.commands.is_empty());
    sections
}

/// Runs a section's commands where its reader is: in a clone of the repository, or in a project of their own.
fn follow(sandbox: &Sandbox, section: &Section) -> Checked {
    let directory = match section.heading.as_str() {
        "Install" => repository(),
        "Your own program" => own_project(sandbox)?,
        _ => {
            for folder in ["", "deterministic"] {
                let copied = sandbox.work().join("tests/guests").join(folder);
                copy(&tool::guests().join(folder), &copied)?;
            }
            sandbox.work().to_owned()
        }
    };
    let followed = section
        .commands
        .iter()
        .try_for_each(|command| run(sandbox, &directory, command));
    // A server that nobody came to end goes on.
    let server = fs::read_to_string(directory.join("server.pid"));
    if let (Err(_), Ok(pid)) = (&followed, server) {
        // It may have ended by itself.
        let _ = sandbox.other("kill", [pid.trim()]).run();
    }
    followed
}

fn run(sandbox: &Sandbox, directory: &Path, command: &Command) -> Checked {
    // A reader has one terminal for both streams.
    let both = format!("exec 2>&1\n{}", command.typed);
    let mut line = sandbox
        .other("bash", ["-c", &both])
        .var("PATH", path_with_refrain()?)
        .within(LIMIT);
    line.directory = directory.to_owned();
    let line = rust::with_cargo(line)?;
    let ended = match command.typed.contains("cargo") {
        true => rust::alone(|| sandbox.run(&line)),
        false => sandbox.run(&line),
    }?;
    // What is recorded until it fails passes on how it failed.
    let is_right = (ended.status != 0) == command.typed.contains("--until-failure");
    require(is_right, || ended.told("a command of the README ends otherwise"))?;
    let printed = ended.stdout_text();
    let mut printed: Vec<String> = printed.lines().map(shape).collect();
    let is_whole = !command.shown.iter().any(|line| line == "…");
    for shown in command.shown.iter().filter(|line| *line != "…") {
        let Some(at) = printed.iter().position(|line| fits(&shape(shown), line)) else {
            return failed(ended.told(&format!("the README shows a line that is not printed: {shown}")));
        };
        printed.remove(at);
    }
    require(command.shown.is_empty() || !is_whole || printed.is_empty(), || {
        ended.told("it prints more than the README shows")
    })
}

/// The tool is found first.
fn path_with_refrain() -> Checked<OsString> {
    let refrain = tool::refrain().map_err(Problem::Failed)?;
    let directory = refrain.parent().unwrap_or(&refrain);
    let others = env::var_os("PATH").unwrap_or_default();
    let all = [directory.to_owned()].into_iter().chain(env::split_paths(&others));
    env::join_paths(all).or_else(|error| failed(format!("PATH: {error}")))
}

/// A line without what differs from one time to the next: `12.5 MB`, `7`, `0x5f` are all `#`.
fn shape(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let is_unit = ["B", "KB", "MB", "ms", "s", "µs"].contains(&word.trim_end_matches([',', ';', ')']));
        let ends_in_number = words.last().is_some_and(|last: &String| last.ends_with('#'));
        if is_unit && ends_in_number {
            continue;
        }
        let mut shape = String::new();
        for character in word.chars() {
            match character.is_ascii_digit() {
                true if shape.ends_with('#') => {}
                true if shape.ends_with("#.") => _ = shape.pop(),
                true => shape.push('#'),
                false => shape.push(character),
            }
        }
        words.push(shape);
    }
    words.join(" ")
}

/// Does a printed line look like the one that is shown, in which `…` stands for anything?
fn fits(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let mut is_open = false;
    for part in parts {
        is_open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    is_open || rest.is_empty()
}

/// A project with a makefile that is a Rust package, too, with a test that fails now and then.
fn own_project(sandbox: &Sandbox) -> Checked<PathBuf> {
    copy(&tool::guests().join("project"), sandbox.work())?;
    sandbox.write(
        "Cargo.toml",
        "[package]\nname = \"counting\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n",
    )?;
    sandbox.write("src/lib.rs", COUNTING)?;
    Ok(sandbox.work().to_owned())
}

/// Adds one by a load and a store.
const COUNTING: &str = "\
#[test]
fn counts_every_visitor() {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;
    static VISITORS: AtomicU32 = AtomicU32::new(0);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..20 {
                    VISITORS.store(VISITORS.load(SeqCst) + 1, SeqCst);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(VISITORS.load(SeqCst), 60);
}
";

fn copy(from: &Path, to: &Path) -> Checked {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_do_not_count() {
        assert_eq!(
            shape("recorded 4 threads, 932 B of log"),
            shape("recorded 12 threads, 1.0 KB of log")
        );
        assert_eq!(shape("(4.1 ms each)"), shape("(1.2 s each)"));
        assert_ne!(shape("replayed 20 of 20"), shape("replayed 20 of"));
    }

    #[test]
    fn dots_stand_for_anything() {
        assert!(fits("in …/heisenbug-#", "in #/tmp/heisenbug-#"));
        assert!(fits("a … b…", "a x y b and more"));
        assert!(!fits("a …b", "a c"));
        assert!(!fits("a b", "a b c"));
    }

    #[test]
    fn commands_belong_to_sections() {
        let text = "# T\n## A\n```console\n$ one\nout\n$ two\n```\n## B\nnothing\n";
        let sections = sections(text);
        assert_eq!(sections.len(), 1);
        assert_eq!(sections[0].commands.len(), 2);
        assert_eq!(sections[0].commands[0].shown, ["out"]);
    }
}
