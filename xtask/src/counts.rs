//! Numbers that say how entangled the runtime is: `cargo xtask counts [CHECKOUT…]`, a column for each.
use crate::command::Failure;
use crate::cycles;
use crate::root;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// One row: what is counted, and in which checkout how many there are.
type Count = (&'static str, fn(&Runtime) -> usize);

const COUNTS: [Count; 9] = [
    ("lines", |runtime| runtime.code().count()),
    ("tests for a mode", |runtime| {
        runtime.having(&["mode() ==", "mode() !=", "match control::mode()", "(control::mode(),"])
    }),
    ("files that name a mode", |runtime| runtime.files_having("Mode::")),
    ("statics", |runtime| {
        runtime.code().filter(|line| is_static(line)).count()
    }),
    ("unsafe blocks", |runtime| runtime.having(&[concat!("unsafe", " {")])),
    ("SAFETY sentences that only point elsewhere", |runtime| {
        runtime.pointing_elsewhere()
    }),
    ("references that give out `&'static mut` thread state", |runtime| {
        runtime.having(&["&'static mut Local"])
    }),
    ("parts in circles of imports", |runtime| {
        runtime.circles.iter().map(Vec::len).sum()
    }),
    ("the largest circle", |runtime| {
        runtime.circles.iter().map(Vec::len).max().unwrap_or(0)
    }),
];

struct Runtime {
    files: Vec<String>,
    circles: Vec<Vec<String>>,
}

pub fn counts(checkouts: &[&str]) -> Result<(), Failure> {
    let checkouts: Vec<PathBuf> = match checkouts {
        [] => vec![root()],
        given => given.iter().map(PathBuf::from).collect(),
    };
    let runtimes: Vec<Runtime> = checkouts
        .iter()
        .map(|path| Runtime::read(path))
        .collect::<Result<_, _>>()?;
    let names: Vec<String> = checkouts.iter().map(|path| path.display().to_string()).collect();
    println!("| of `crates/runtime` | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for (what, count) in COUNTS {
        let numbers: Vec<String> = runtimes.iter().map(|runtime| count(runtime).to_string()).collect();
        println!("| {what} | {} |", numbers.join(" | "));
    }
    Ok(())
}

impl Runtime {
    fn read(checkout: &Path) -> Result<Runtime, Failure> {
        let source = checkout.join("crates/runtime/src");
        let mut paths = Vec::new();
        cycles::collect(&source, &mut paths)?;
        Ok(Runtime {
            files: paths.iter().map(fs::read_to_string).collect::<Result<_, _>>()?,
            circles: cycles::circles(&cycles::imports(&source)?),
        })
    }

    /// Lines that are neither empty nor a comment.
    fn code(&self) -> impl Iterator<Item = &str> {
        let lines = self.files.iter().flat_map(|file| file.lines()).map(str::trim_start);
        lines.filter(|line| !line.is_empty() && !line.starts_with("//"))
    }

    fn having(&self, words: &[&str]) -> usize {
        let of_line = |line: &str| words.iter().map(|word| line.matches(word).count()).sum::<usize>();
        self.code().map(of_line).sum()
    }

    fn files_having(&self, word: &str) -> usize {
        self.files.iter().filter(|file| file.contains(word)).count()
    }

    fn pointing_elsewhere(&self) -> usize {
        let lines = self.files.iter().flat_map(|file| file.lines()).map(str::trim);
        let sentences = lines.filter_map(|line| line.strip_prefix("// SAFETY: "));
        let points = |sentence: &&str| {
            let sentence = sentence.to_lowercase();
            ["as above", "the caller's promise", "see above", "as in "]
                .iter()
                .any(|start| sentence.starts_with(start))
        };
        sentences.filter(points).count()
    }
}

/// Does a static begin here, other than one that is somebody else's?
fn is_static(line: &str) -> bool {
    let line = line
        .strip_prefix("pub ")
        .or_else(|| line.strip_prefix("pub(crate) "))
        .unwrap_or(line);
    line.starts_with("static ") && !line.ends_with(';') || line.starts_with("static ") && line.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statics_are_told_from_declarations() {
        assert!(is_static("pub static SWITCHES: Switches = Switches {"));
        assert!(is_static("static FIRST: AtomicBool = AtomicBool::new(true);"));
        assert!(!is_static("static environ: *const u8;"));
        assert!(!is_static("let x: &'static str = y;"));
    }
}
