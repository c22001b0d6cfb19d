//! The file of `--functions`: what functions that are not compiled here do with memory. One line for each, `#` begins a comment:
//!
//! ```text
//! alloc  my_malloc size=1                 # returns new memory
//! free   my_free 1                        # gives it back
//! copy   my_memcpy dst=1 src=2 len=3      # from one range to another
//! fill   my_memset dst=1 len=3            # writes all of a range
//! reads  checksum 1 len=2                 # reads a range
//! writes update 1 bytes=16                # reads a range, and writes it or parts of it
//! ```
//!
//! Numbers are those of arguments, from 1; `bytes=` is a constant instead of an argument's number.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// For the pass (`pass/declared.h`).
pub const VARIABLE: &str = "REFRAIN_BUILD_FUNCTIONS";
/// The kernel takes variables of 128 KB.
const BYTES_MAX: usize = 100_000;
/// No function has more arguments.
const ARGUMENTS_MAX: u32 = 127;

/// What the pass is to know, or a sentence that names the file, the line and the remedy.
pub fn read(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        format!(
            "cannot read {}: {error}; --functions names a file that says what functions do with memory",
            path.display()
        )
    })?;
    let mut planned = Planned::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        planned
            .line(line)
            .map_err(|why| format!("{}:{number}: {why}", path.display()))?;
    }
    match planned.text.len() {
        0..=BYTES_MAX => Ok(planned.text),
        _ => Err(format!(
            "{} has too many functions: what they do must fit in 100,000 bytes; leave out those that this program does not call",
            path.display()
        )),
    }
}

#[derive(Default)]
struct Planned {
    text: String,
    /// Which argument of which function was said to be what.
    said: BTreeMap<(String, u32), ()>,
}

const VERBS: &str = "alloc, free, copy, fill, reads or writes";

impl Planned {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let Some(verb) = words.next() else { return Ok(()) };
        let example = example(verb).ok_or_else(|| format!("\"{verb}\" is none of {VERBS}"))?;
        let wrong = |why: String| format!("{why}; write it like this: {example}");
        let name = words
            .next()
            .ok_or_else(|| wrong("the name of a function is missing".to_owned()))?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$@".contains(c);
        if !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong(format!("\"{name}\" is not the name of a function")));
        }
        let mut fields = Fields::parse(words).map_err(wrong)?;
        let mut one = |key: &str| fields.argument(key).map_err(wrong);
        let ranges = match verb {
            "alloc" => vec![('a', one("size")?)],
            "free" => vec![('f', one("")?)],
            "copy" => vec![('w', one("dst")?), ('r', one("src")?)],
            "fill" => vec![('w', one("dst")?)],
            "reads" => vec![('r', one("")?)],
            _ => vec![('u', one("")?)],
        };
        let length = match verb {
            "alloc" | "free" => "0".to_owned(),
            _ => fields.length().map_err(wrong)?,
        };
        if let Some(key) = fields.0.keys().next() {
            return Err(wrong(format!(
                "{verb} has no {}",
                if key.is_empty() { "number there" } else { key }
            )));
        }
        for (what, argument) in ranges {
            if self.said.insert((name.to_owned(), argument), ()).is_some() {
                return Err(format!(
                    "argument {argument} of {name} was declared before; leave one of the two out"
                ));
            }
            self.text.push_str(&format!("{name} {what} {argument} {length}\n"));
        }
        Ok(())
    }
}

fn example(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "alloc" => "alloc my_malloc size=1",
        "free" => "free my_free 1",
        "copy" => "copy my_memcpy dst=1 src=2 len=3",
        "fill" => "fill my_memset dst=1 len=3",
        "reads" => "reads checksum 1 len=2",
        "writes" => "writes update 1 len=2",
        _ => return None,
    })
}

/// `key=number`, or a number alone, whose key is empty.
struct Fields(BTreeMap<String, u64>);

impl Fields {
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Fields, String> {
        let mut fields = BTreeMap::new();
        for word in words {
            let (key, number) = word.split_once('=').unwrap_or(("", word));
            let number = number.parse().map_err(|_| format!("\"{word}\" is not a number"))?;
            if fields.insert(key.to_owned(), number).is_some() {
                return Err(format!("\"{word}\" is there twice"));
            }
        }
        Ok(Fields(fields))
    }

    fn argument(&mut self, key: &str) -> Result<u32, String> {
        let missing = || match key {
            "" => "the number of an argument is missing".to_owned(),
            key => format!("{key}= is missing"),
        };
        let number = self.0.remove(key).ok_or_else(missing)?;
        u32::try_from(number)
            .ok()
            .filter(|number| (1..=ARGUMENTS_MAX).contains(number))
            .ok_or_else(|| format!("there is no argument {number}: they are counted from 1"))
    }

    fn length(&mut self) -> Result<String, String> {
        match (self.0.remove("bytes"), self.0.contains_key("len")) {
            (Some(_), true) => Err("it has both len= and bytes=".to_owned()),
            (Some(bytes), false) => Ok(format!("#{bytes}")),
            (None, _) => Ok(self.argument("len")?.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Planned;

    fn planned(lines: &[&str]) -> Result<String, String> {
        let mut planned = Planned::default();
        lines.iter().try_for_each(|line| planned.line(line))?;
        Ok(planned.text)
    }

    #[test]
    fn lines_say_what_functions_do() {
        let lines = [
            "",
            "copy my_memcpy dst=1 src=2 len=3",
            "alloc my_malloc size=1",
            "free my_free 1",
            "reads sum 2 bytes=16",
        ];
        let expected = "my_memcpy w 1 3\nmy_memcpy r 2 3\nmy_malloc a 1 0\nmy_free f 1 0\nsum r 2 #16\n";
        assert_eq!(planned(&lines).as_deref(), Ok(expected));
    }

    #[test]
    fn wrong_lines_are_refused() {
        for (line, why) in [
            ("move a 1 2", "\"move\" is none of"),
            ("copy", "the name of a function is missing"),
            (
                "copy f dst=1 src=2",
                "len= is missing; write it like this: copy my_memcpy dst=1 src=2 len=3",
            ),
            ("copy f dst=0 src=2 len=3", "there is no argument 0"),
            ("copy f dst=1 src=1 len=3", "argument 1 of f was declared before"),
            ("free f 1 len=2", "free has no len"),
            ("reads f x len=2", "\"x\" is not a number"),
            ("reads f 1 len=2 bytes=3", "both len= and bytes="),
            ("reads f() 1 len=2", "\"f()\" is not the name of a function"),
        ] {
            let error = planned(&[line]).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
