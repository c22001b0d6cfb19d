//! No promise without a test: `docs/promises.md` quotes what the documents promise and names the tests that show it.
//!
//! A heading of that page links to the document that the rows below it quote. A quotation must be there word for word, and every test must be in the
//! source: a test of the suite by its name (`kept/cap_on_loud_programs`), a test of a crate by its file and function (`crates/x/tests/y.rs::name`).
//! Documents and tests change; then the row has to change with them, and somebody reads it.
use crate::command::Failure;
use crate::root;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

const PAGE: &str = "docs/promises.md";
const SUITE: &str = "tests/suite/src";
const GUESTS: &str = "tests/guests";

/// A row of the page.
#[derive(Debug, PartialEq, Eq)]
struct Promise {
    line: usize,
    /// Relative to the top of the repository.
    document: String,
    quotation: String,
    tests: Vec<String>,
}

pub fn check() -> Result<(), Failure> {
    let page = fs::read_to_string(root().join(PAGE))?;
    let suite = Suite::read()?;
    let mut findings = Vec::new();
    for promise in promises(&page) {
        let mut find = |what: String| findings.push(format!("{PAGE}:{}: {what}", promise.line));
        match fs::read_to_string(root().join(&promise.document)) {
            Ok(text) if is_quoted(&text, &promise.quotation) => {}
            Ok(_) => find(format!("{} does not say \"{}\"", promise.document, promise.quotation)),
            Err(e) => find(format!("cannot read {}: {e}", promise.document)),
        }
        if promise.tests.is_empty() {
            find("no test is named".to_owned());
        }
        for test in &promise.tests {
            let is_there = match test.split_once("::") {
                Some((file, function)) => {
                    fs::read_to_string(root().join(file)).is_ok_and(|source| has_test(&source, function))
                }
                None => suite.has(test),
            };
            if !is_there {
                find(format!("there is no test {test}"));
            }
        }
    }
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "promises and tests do not fit:\n  {}",
            findings.join("\n  ")
        ))),
    }
}

/// The rows of all tables, each with the document that the heading above it links to.
fn promises(page: &str) -> Vec<Promise> {
    let mut found = Vec::new();
    let mut document = String::new();
    for (index, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            let link = line.split_once("](").and_then(|(_, rest)| rest.split_once(')'));
            document = link.map_or_else(String::new, |(link, _)| from_docs(link));
        }
        let cells: Vec<&str> = line.trim().split('|').map(str::trim).collect();
        // Empty before the first bar and behind the last.
        let [_, quotation, tests, _] = cells[..] else { continue };
        if quotation.starts_with("---") || document.is_empty() || quotation == "promise" {
            continue;
        }
        let named = tests.split('`').skip(1).step_by(2);
        found.push(Promise {
            line: index + 1,
            document: document.clone(),
            quotation: quotation.to_owned(),
            tests: named.map(str::to_owned).collect(),
        });
    }
    found
}

/// A link of a page in `docs`, seen from the top.
fn from_docs(link: &str) -> String {
    let path = link.split('#').next().unwrap_or_default();
    path.strip_prefix("../")
        .map_or_else(|| format!("docs/{path}"), str::to_owned)
}

/// Is it there word for word? Lines may be broken elsewhere.
fn is_quoted(text: &str, quotation: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    words(text).contains(&words(quotation))
}

/// Is there a `#[test]` of this name?
fn has_test(source: &str, function: &str) -> bool {
    let head = format!("fn {function}(");
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with(&head) {
            return is_test;
        }
        // Other attributes, and comments, may stand between the two.
        is_test = line == "#[test]" || is_test && (line.starts_with("#[") || line.starts_with("//"));
    }
    false
}

/// The sources of the suite, and what the guests are called, after which some tests are named.
struct Suite {
    sources: Vec<String>,
    guests: Vec<String>,
}

impl Suite {
    fn read() -> Result<Suite, Failure> {
        let (mut sources, mut guests) = (Vec::new(), Vec::new());
        for path in files_below(&root().join(SUITE))? {
            sources.push(fs::read_to_string(path)?);
        }
        for path in files_below(&root().join(GUESTS))? {
            // One that has several files is a folder.
            let names = [path.file_stem(), path.parent().and_then(Path::file_name)];
            guests.extend(
                names
                    .into_iter()
                    .flatten()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
        Ok(Suite { sources, guests })
    }

    /// Some file names it: as a whole, or as a pattern whose gaps are filled with texts of the same file or with names of guests.
    fn has(&self, test: &str) -> bool {
        self.sources.iter().any(|source| {
            let is_text = |word: &str| source.contains(&format!("\"{word}\""));
            let is_guest = |word: &str| self.guests.iter().any(|guest| guest == word);
            // What is between the texts as well, which is never the name of a test.
            let mut patterns = source.split('"').filter_map(|pattern| filled(pattern, test));
            patterns.any(|gaps| gaps.iter().all(|word| is_text(word) || is_guest(word)))
        })
    }
}

/// Is `name` made from this pattern, which has one gap at most between two slashes? And what is in the gaps?
fn filled<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let (patterns, names) = (pattern.split('/'), name.split('/'));
    if !name.contains('/') || patterns.clone().count() != names.clone().count() {
        return None;
    }
    let mut gaps = Vec::new();
    for (pattern, name) in patterns.zip(names) {
        match pattern
            .split_once('{')
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?.1)))
        {
            Some((before, after)) => gaps.push(name.strip_prefix(before)?.strip_suffix(after)?),
            None if pattern == name => {}
            None => return None,
        }
    }
    gaps.iter().all(|word| !word.is_empty()).then_some(gaps)
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(files_below(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_their_document() {
        let page = "# Promises\n| promise | shown by |\n|---|---|\n## [README](../README.md)\n| promise | shown by |\n|---|---|\n\
                    | it opens no file | `a/b`, `crates/x/tests/y.rs::z` |\n## [limits](limits.md#sizes)\n| so many | somebody |\n";
        let row = |line, document: &str, quotation: &str, tests: &[&str]| Promise {
            line,
            document: document.to_owned(),
            quotation: quotation.to_owned(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        assert_eq!(
            promises(page),
            [
                row(7, "README.md", "it opens no file", &["a/b", "crates/x/tests/y.rs::z"]),
                row(9, "docs/limits.md", "so many", &[]),
            ]
        );
    }

    #[test]
    fn quotations_are_word_for_word() {
        let text = "A run of a few hundred\n  KB is the least; less is refused.";
        assert!(is_quoted(text, "hundred KB is the least"));
        assert!(!is_quoted(text, "hundred MB is the least"));
    }

    #[test]
    fn functions_that_are_no_tests_are_none() {
        let source =
            "#[test]\n// Why.\nfn a_test() {\n}\nfn not_one() {\n}\n#[test]\n#[cfg(unix)]\nfn another() {\n}\n";
        assert!(has_test(source, "a_test") && has_test(source, "another"));
        assert!(!has_test(source, "not_one") && !has_test(source, "a_tes") && !has_test(source, "gone"));
    }

    #[test]
    fn tests_of_the_suite_are_found_by_name() {
        let suite = Suite {
            sources: vec![
                r#"trial("kept/latest", latest), ("program_killed", x), trial(format!("cut/{name}"), y)"#.to_owned(),
                r#"format!("modes/umask_{umask}_on") for ["022"]; format!("coverage/{}", name)"#.to_owned(),
                r#"for group in ["turns"]: format!("{group}/{}", guest), format!("hosted/{}/{}", "musl", guest)"#
                    .to_owned(),
            ],
            guests: vec!["barrier".to_owned()],
        };
        for there in [
            "kept/latest",
            "cut/program_killed",
            "modes/umask_022_on",
            "coverage/barrier",
        ] {
            assert!(suite.has(there), "{there}");
        }
        for not_there in [
            "kept/lates",
            "cut/latest",
            "modes/umask_077_on",
            "coverage/nothing",
            "kept",
            "cut/",
        ] {
            assert!(!suite.has(not_there), "{not_there}");
        }
    }
}
