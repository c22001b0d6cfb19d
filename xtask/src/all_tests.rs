//! All tests of the workspace. What fails of the suite while others run beside it is looked at again by itself.
//!
//! The suite's tests run real programs whose threads race for the processors of the machine, several tests at a time. So a failure
//! may be one of a timeout, or of an interleaving that did not come. A few such tests are run again, alone and several times in a
//! row: each time they must pass, and their names are said at the end, because a test that fails now and then is somebody's fault.
use crate::command::Cargo;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Stdio;

/// More failures than these are no matter of chance.
const LOOKED_AT_AGAIN_MAX: usize = 4;
/// How often each of them must pass in a row.
const TIMES: usize = 3;

/// What came of some tests.
struct Outcome {
    succeeded: bool,
    passed: usize,
    failed: Vec<String>,
}

/// Runs all tests. Returns the names of those that failed at first, and then passed by themselves.
pub fn run() -> Result<Vec<String>, Failure> {
    // Optimised, because guests are run hundreds of times; one profile, so that nothing is built twice.
    let outcome = watched(Cargo::new("test").args(["--release", "--workspace", "--no-fail-fast"]))?;
    if outcome.succeeded {
        return Ok(Vec::new());
    }
    let failed = outcome.failed;
    if failed.is_empty() {
        return Err(Failure::new("the tests could not be run to their end"));
    }
    let names = failed.join(", ");
    if failed.len() > LOOKED_AT_AGAIN_MAX || !failed.iter().all(|name| is_of_suite(name)) {
        return Err(Failure::new(format!("{} tests failed: {names}", failed.len())));
    }
    for name in &failed {
        for time in 1..=TIMES {
            eprintln!("xtask: {name} failed; by itself, {time} of {TIMES}:");
            // The whole workspace's features, or its dependencies would be built again.
            let alone = ["--release", "--workspace", "--test", "suite", "--", "--exact", name];
            let outcome = watched(Cargo::new("test").args(alone))?;
            if !outcome.succeeded || outcome.passed != 1 {
                return Err(Failure::new(format!(
                    "{name} failed, also by itself; of all tests failed: {names}"
                )));
            }
        }
    }
    Ok(failed)
}

/// Runs tests, and shows what they print.
fn watched(tests: Cargo) -> Result<Outcome, Failure> {
    let mut tests = tests.env("REFRAIN_BIN", refrain());
    let mut child = tests.command().stdout(Stdio::piped()).spawn()?;
    let mut outcome = Outcome {
        succeeded: false,
        passed: 0,
        failed: Vec::new(),
    };
    if let Some(printed) = child.stdout.take() {
        for line in BufReader::new(printed).split(b'\n') {
            let mut line = line?;
            match verdict(&String::from_utf8_lossy(&line)) {
                Some((_, true)) => outcome.passed += 1,
                Some((name, false)) => outcome.failed.push(name.to_owned()),
                None => {}
            }
            line.push(b'\n');
            io::stdout().lock().write_all(&line)?;
        }
    }
    outcome.succeeded = child.wait()?.success();
    Ok(outcome)
}

/// The test that this line is about, and whether it passed.
fn verdict(line: &str) -> Option<(&str, bool)> {
    let (name, said) = line.strip_prefix("test ")?.rsplit_once("... ")?;
    let passed = match said.trim_end() {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    Some((name.trim_end(), passed))
}

/// Tests of the suite are named `part/name`; those of crates have paths of Rust, and a test in a document a line.
fn is_of_suite(name: &str) -> bool {
    name.contains('/') && !name.contains("::") && !name.contains(" - ")
}

#[cfg(test)]
mod tests {
    use super::is_of_suite;
    use super::verdict;

    #[test]
    fn lines_say_which_test_failed() {
        let padded = "test bugs/lost_update              ... FAILED";
        assert_eq!(verdict(padded), Some(("bugs/lost_update", false)));
        assert_eq!(
            verdict("test bugs/lost_update ... ok"),
            Some(("bugs/lost_update", true))
        );
        assert_eq!(verdict("test slow ... ignored"), None);
        assert_eq!(verdict("test result: FAILED. 1 passed; 1 failed"), None);
        assert_eq!(verdict("    bugs/lost_update"), None);
    }

    #[test]
    fn only_tests_of_the_suite_are_looked_at_again() {
        assert!(is_of_suite("explain/rust/two_stage"));
        assert!(!is_of_suite("chunk::tests::owners"));
        assert!(!is_of_suite("crates/cli/src/lib.rs - parse (line 3)"));
        assert!(!is_of_suite("every_record_survives"));
    }
}
