//! `--why FILE:LINE`: which accesses at a line are observed, how, and which are not, by which rule (docs/observed.md).
//!
//! The pass answers (`pass/why.h`): it is told in one variable what is asked, and appends to the file that another one names, a
//! record for each line of text. Here the answers of all modules that a command compiles are put together and said.
use crate::driver::arguments::Goal;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process;
use std::process::Command;

pub const TEXT: &str = "--why";
pub const JSON: &str = "--why-json";

/// For the pass: `LINE FILE ABSOLUTE`, separated by tabs, one place in each line.
const ASKED_VARIABLE: &str = "REFRAIN_BUILD_WHY";
const ANSWER_VARIABLE: &str = "REFRAIN_BUILD_WHY_TO";

/// A line without an access, as for a search that finds nothing.
const EXIT_NOTHING: i32 = 1;
/// Nothing that was compiled has anything of the file.
const EXIT_NOT_HERE: i32 = 2;

/// One of our options, and its value if that is in the same word.
pub fn option(argument: &OsStr) -> Option<(&'static str, Option<OsString>)> {
    let word = argument.to_string_lossy();
    [TEXT, JSON]
        .into_iter()
        .find_map(|option| match word.strip_prefix(option)? {
            "" => Some((option, None)),
            rest => Some((option, Some(rest.strip_prefix('=')?.into()))),
        })
}

/// A place in the source, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    file: String,
    line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Place {
    pub fn parse(option: &str, word: &OsStr) -> Result<Place, String> {
        let word = word.to_string_lossy();
        let wrong = || format!("{option} is followed by FILE:LINE, such as {option} prog.c:12; \"{word}\" is not");
        let (file, line) = word.rsplit_once(':').ok_or_else(wrong)?;
        let line = line.parse().ok().filter(|&line| line > 0).ok_or_else(wrong)?;
        if let Some((file, before)) = file.rsplit_once(':')
            && before.parse::<u32>().is_ok()
        {
            return Err(format!(
                "{option} is about whole lines: say {option} {file}:{before}, without the column"
            ));
        }
        let file = file.strip_prefix("./").unwrap_or(file).to_owned();
        if file.is_empty() || file.contains(['\t', '\n']) {
            return Err(wrong());
        }
        let place = Place { file, line };
        place.check_length()?;
        Ok(place)
    }

    /// A file that can be read has so many lines.
    fn check_length(&self) -> Result<(), String> {
        let Ok(text) = fs::read(&self.file) else {
            return Ok(());
        };
        let lines = text.split_inclusive(|&byte| byte == b'\n').count();
        if self.line as usize > lines {
            return Err(format!(
                "there is no line {} in {}: it has {lines}",
                self.line, self.file
            ));
        }
        Ok(())
    }

    fn absolute(&self) -> String {
        fs::canonicalize(&self.file).map_or_else(|_| self.file.clone(), |path| path.to_string_lossy().into_owned())
    }
}

/// What was asked, and how the answer is to be said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    pub places: Vec<Place>,
    pub is_json: bool,
}

/// How much of a place was found, from little to much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    #[default]
    Nothing,
    File,
    Code,
    Accesses,
}

/// One access, in the order of the pass's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access {
    file: String,
    function: String,
    written_in: String,
    library: String,
    what: String,
    element: String,
    rule: String,
    reason: String,
    line: u32,
    column: u32,
    is_observed: bool,
    how: String,
}

#[derive(Default)]
struct Answer {
    found: Found,
    /// In the order of the program, each with how often it is there.
    accesses: Vec<(Access, usize)>,
}

/// The file that the pass writes its answers to, as long as they are awaited.
pub struct Awaited {
    path: PathBuf,
    questions: Questions,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Questions {
    pub fn refuse_without_code(&self, goal: Goal) -> Result<(), String> {
        match (self.places.first(), goal) {
            (Some(_), Goal::Information | Goal::Preprocess) => Err(format!(
                "{TEXT} is about code that is compiled, and this command compiles none; leave it out, or the option that stops before"
            )),
            _ => Ok(()),
        }
    }

    /// Tells the compiler's pass; nothing if nothing is asked.
    pub fn ask(self, compiler: &mut Command) -> Result<Option<Awaited>, String> {
        compiler.env_remove(ASKED_VARIABLE).env_remove(ANSWER_VARIABLE);
        if self.places.is_empty() {
            return Ok(None);
        }
        let path = env::temp_dir().join(format!("refrain-why-{}", process::id()));
        let _ = fs::remove_file(&path);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| {
                format!(
                    "cannot write {}: {error}; TMPDIR names another directory",
                    path.display()
                )
            })?;
        let asked: Vec<String> = self
            .places
            .iter()
            .map(|place| format!("{}\t{}\t{}", place.line, place.file, place.absolute()))
            .collect();
        compiler
            .env(ASKED_VARIABLE, asked.join("\n"))
            .env(ANSWER_VARIABLE, &path);
        Ok(Some(Awaited { path, questions: self }))
    }
}

impl Awaited {
    /// Says the answers, on standard error, or as JSON on standard output. The result is the exit status.
    pub fn say(self) -> Result<i32, String> {
        let text =
            fs::read_to_string(&self.path).map_err(|error| format!("cannot read {}: {error}", self.path.display()))?;
        let answers = collect(&text, self.questions.places.len())
            .ok_or("the compiler pass is not of this build: its answers to --why are others. Build both with `cargo build --release`")?;
        let has_compiled = !text.is_empty();
        if self.questions.is_json {
            let places: Vec<Value> = self.asked(&answers).map(|(place, answer)| answer.json(place)).collect();
            println!("{}", json!({ "places": places }));
        } else {
            for (place, answer) in self.asked(&answers) {
                for sentence in answer.sentences(place, has_compiled) {
                    eprintln!("refrain: {sentence}");
                }
            }
        }
        Ok(answers.iter().map(Answer::status).max().unwrap_or(0))
    }

    fn asked<'a>(&'a self, answers: &'a [Answer]) -> impl Iterator<Item = (&'a Place, &'a Answer)> {
        self.questions.places.iter().zip(answers)
    }
}

/// The answers of all modules, by place; none if the text is not what this version of the pass writes.
fn collect(text: &str, places: usize) -> Option<Vec<Answer>> {
    let mut answers: Vec<Answer> = (0..places).map(|_| Answer::default()).collect();
    let mut known: Vec<BTreeMap<String, usize>> = vec![BTreeMap::new(); places];
    for record in text.lines() {
        let (kind, rest) = record.split_once('\t')?;
        let (place, rest) = rest.split_once('\t')?;
        let place: usize = place.parse().ok()?;
        let answer = answers.get_mut(place)?;
        let found = match (kind, rest) {
            ("file", "none") => Found::Nothing,
            ("file", "file") => Found::File,
            ("file", "code") => Found::Code,
            ("access", fields) => {
                let next = answer.accesses.len();
                match *known[place].entry(fields.to_owned()).or_insert(next) {
                    at if at == next => answer.accesses.push((Access::parse(fields)?, 1)),
                    at => answer.accesses[at].1 += 1,
                }
                Found::Accesses
            }
            _ => return None,
        };
        answer.found = answer.found.max(found);
    }
    for answer in &mut answers {
        answer.accesses.sort_by_key(|(access, _)| access.column);
    }
    Some(answers)
}

impl Access {
    fn parse(fields: &str) -> Option<Access> {
        let mut words = fields.split('\t');
        let mut next = || words.next().map(str::to_owned);
        let access = Access {
            file: next()?,
            function: next()?,
            written_in: next()?,
            library: next()?,
            what: next()?,
            element: next()?,
            rule: next()?,
            reason: next()?,
            line: next()?.parse().ok()?,
            column: next()?.parse().ok()?,
            is_observed: next()? == "1",
            how: next()?,
        };
        next().is_none().then_some(access)
    }

    /// "8-byte load of account.balance in deposit, inlined into main"
    fn name(&self) -> String {
        let mut name = self.what.clone();
        if !self.element.is_empty() {
            name += &format!(" of {}", self.element);
        }
        if !self.library.is_empty() {
            name += &format!(" ({})", self.library);
        }
        match self.written_in.as_str() {
            "" => name += &format!(" in {}", self.function),
            written_in => name += &format!(" in {written_in}, inlined into {}", self.function),
        }
        name
    }

    fn verdict(&self) -> String {
        let mut verdict = match self.is_observed {
            true => "observed".to_owned(),
            false => format!("not observed ({})", self.rule),
        };
        for part in [&self.reason, &self.how] {
            if !part.is_empty() {
                verdict += if part == &self.reason { ": " } else { "; " };
                verdict += part;
            }
        }
        verdict
    }
}

impl Answer {
    fn status(&self) -> i32 {
        match self.found {
            Found::Accesses => 0,
            Found::Code | Found::File => EXIT_NOTHING,
            Found::Nothing => EXIT_NOT_HERE,
        }
    }

    fn sentences(&self, place: &Place, has_compiled: bool) -> Vec<String> {
        match self.found {
            Found::Nothing if !has_compiled => vec![format!(
                "{place}: this command compiled nothing, so no access was seen; {TEXT} goes with the command that compiles {}",
                place.file
            )],
            Found::Nothing => vec![format!(
                "{place}: nothing that was compiled here has code of {}; name the file as the compiler does, or ask where it is compiled",
                place.file
            )],
            Found::File => vec![format!(
                "{place}: no access: there is no code of this line, or the optimiser has left nothing of it"
            )],
            Found::Code => vec![format!(
                "{place}: no access: what this line does is done in registers, by functions that it calls, or was merged with accesses elsewhere"
            )],
            Found::Accesses => self
                .accesses
                .iter()
                .map(|(access, times)| {
                    let column = match access.column {
                        0 => String::new(),
                        column => format!(":{column}"),
                    };
                    let often = match times {
                        1 => String::new(),
                        times => format!(" ({times} times)"),
                    };
                    format!("{place}{column}: {}{often}: {}", access.name(), access.verdict())
                })
                .collect(),
        }
    }

    fn json(&self, place: &Place) -> Value {
        let found = match self.found {
            Found::Nothing => "not here",
            Found::File => "no code",
            Found::Code => "no access",
            Found::Accesses => "accesses",
        };
        let or_null = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
        let accesses: Vec<Value> = self
            .accesses
            .iter()
            .map(|(access, times)| {
                json!({
                    "file": access.file,
                    "line": access.line,
                    "column": access.column,
                    "function": access.function,
                    "written_in": or_null(&access.written_in),
                    "library": or_null(&access.library),
                    "what": access.what,
                    "element": or_null(&access.element),
                    "times": times,
                    "observed": access.is_observed,
                    "rule": if access.is_observed { Value::Null } else { access.rule.as_str().into() },
                    "reason": access.reason,
                    "how": or_null(&access.how),
                })
            })
            .collect();
        json!({ "file": place.file, "line": place.line, "found": found, "accesses": accesses })
    }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
