//! The file `programs`: which programs there are in a folder, how they are built, and what is compared of their runs.
//!
//! A program begins with its name in brackets. Each line below it is `KEY: VALUE`; empty lines and those that begin with `#` are for people.
use crate::command::Failure;

/// One program, as the list has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    /// Files and directories of the folder that are copied to where it is built.
    pub sources: Vec<String>,
    /// Lines for `sh`, in which `$CC` and `$CXX` are the compilers.
    pub build: Vec<String>,
    /// The words of its command line.
    pub run: Vec<String>,
    /// What it reads from standard input.
    pub stdin: Option<String>,
    /// A line for `sh` through which its output goes before it is compared.
    pub filter: Option<String>,
    /// Files that it writes.
    pub outputs: Vec<String>,
}

pub fn read(text: &str) -> Result<Vec<Listed>, Failure> {
    let mut programs: Vec<Listed> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |why: String| Failure::new(format!("programs, line {}: {why}", index + 1));
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
                return Err(wrong(format!(
                    "'{name}' names a directory later: letters, digits, - _ . + only"
                )));
            }
            if programs.iter().any(|known| known.name == name) {
                return Err(wrong(format!("there is a program '{name}' already")));
            }
            programs.push(Listed {
                name: name.to_owned(),
                ..Listed::default()
            });
            continue;
        }
        let program = programs
            .last_mut()
            .ok_or_else(|| wrong("a program begins with its name: [name]".to_owned()))?;
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| wrong(format!("'{line}' is not KEY: VALUE")))?;
        program.take(key.trim(), value.trim()).map_err(wrong)?;
    }
    match programs.iter().find(|program| program.run.is_empty()) {
        Some(program) => Err(Failure::new(format!(
            "programs: {} has no line that says how it is run",
            program.name
        ))),
        None => Ok(programs),
    }
}

impl Listed {
    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let words = || value.split_whitespace().map(str::to_owned);
        if value.is_empty() {
            return Err(format!("'{key}' has no value"));
        }
        let once = |is_there: bool| match is_there {
            true => Err(format!("'{key}' is there twice")),
            false => Ok(()),
        };
        match key {
            "sources" => self.sources.extend(words()),
            "build" => self.build.push(value.to_owned()),
            "run" => {
                once(!self.run.is_empty())?;
                self.run = words().collect();
            }
            "stdin" => {
                once(self.stdin.is_some())?;
                self.stdin = Some(value.to_owned());
            }
            "filter" => {
                once(self.filter.is_some())?;
                self.filter = Some(value.to_owned());
            }
            "output" => self.outputs.push(value.to_owned()),
            _ => {
                return Err(format!("'{key}' is none of sources, build, run, stdin, filter, output"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "# two\n[one]\nsources: one.c data\nbuild: $CC -O2 one.c -o one\nbuild: strip one\nrun: ./one -a 2\n\n[two]\nrun: two\nstdin: data\nfilter: grep -v time: \noutput: a.out\noutput: b.out\n";
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = [
            Listed {
                name: "one".to_owned(),
                sources: strings(&["one.c", "data"]),
                build: strings(&["$CC -O2 one.c -o one", "strip one"]),
                run: strings(&["./one", "-a", "2"]),
                ..Listed::default()
            },
            Listed {
                name: "two".to_owned(),
                run: strings(&["two"]),
                stdin: Some("data".to_owned()),
                filter: Some("grep -v time:".to_owned()),
                outputs: strings(&["a.out", "b.out"]),
                ..Listed::default()
            },
        ];
        assert_eq!(read(text).expect("a list"), expected);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, why) in [
            ("run: a\n", "line 1: a program begins with its name"),
            ("[a]\nrun\n", "line 2: 'run' is not KEY: VALUE"),
            ("[a]\nrun:\n", "line 2: 'run' has no value"),
            ("[a]\nrun: a\nrun: b\n", "line 3: 'run' is there twice"),
            ("[a]\nruns: a\n", "line 2: 'runs' is none of"),
            ("[a]\nrun: a\n[a]\n", "line 3: there is a program 'a' already"),
            ("[../a]\n", "line 1: '../a' names a directory"),
            ("[a]\nbuild: make\n", "a has no line that says how it is run"),
        ] {
            let failure = read(text).expect_err(text).to_string();
            assert!(failure.contains(why), "{text:?}: {failure}");
        }
    }
}
