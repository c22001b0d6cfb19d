//! Source lines, quoted as a compiler does.
use replayer::Place;
use run_store::RunMeta;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;

/// Files that were read already; `None` for those that cannot be.
#[derive(Default)]
pub struct Source {
    files: BTreeMap<String, Option<Vec<String>>>,
}

impl Source {
    /// The line of `place`, with its number and a mark under its column. Nothing, if the file is not there.
    pub fn quote(&mut self, out: &mut dyn Write, meta: &RunMeta, place: &Place) -> io::Result<()> {
        let lines = self
            .files
            .entry(place.file.clone())
            .or_insert_with(|| read(meta, &place.file));
        let index = (place.line as usize).wrapping_sub(1);
        let Some(line) = lines.as_ref().and_then(|lines| lines.get(index)) else {
            return Ok(());
        };
        let number = place.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(out, "  {margin} |")?;
        writeln!(out, "  {number} | {line}")?;
        match mark(line, place.column) {
            Some(mark) => writeln!(out, "  {margin} | {mark}"),
            None => Ok(()),
        }
    }
}

/// As the compiler named it, or relative to where the program was run.
fn read(meta: &RunMeta, file: &str) -> Option<Vec<String>> {
    let beside = Path::new(meta.cwd.as_os_str()).join(file);
    let text = fs::read(file).or_else(|_| fs::read(beside)).ok()?;
    Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

/// Blanks up to the column, tabs kept, and a caret.
fn mark(line: &str, column: u16) -> Option<String> {
    let before = line.get(..(column as usize).checked_sub(1)?)?;
    let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
    Some(before.chars().map(blank).chain(['^']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_under_their_column() {
        assert_eq!(mark("\tcounter++;", 2).as_deref(), Some("\t^"));
        assert_eq!(mark("x = y;", 5).as_deref(), Some("    ^"));
        assert_eq!(mark("x", 0), None);
        assert_eq!(mark("x", 9), None);
    }
}
