//! What no compiler checks: leftovers, links that lead nowhere, several imports on one line.
use crate::command::Failure;
use crate::root;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// Extensions of files that people write.
const TEXT: [&str; 9] = ["rs", "md", "toml", "c", "h", "cpp", "py", "sh", "map"];
const SKIPPED_FOLDERS: [&str; 4] = ["target", ".git", "corpus", "artifacts"];
/// Written apart, so that this file is not its own first finding.
const LEFTOVERS: [&str; 4] = [
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("unimple", "mented!"),
    concat!("to", "do!("),
];

/// What a sentence about safety may not say instead of saying what makes it so: written apart, too.
const POINTERS: [&str; 6] = [
    concat!("as ", "above"),
    concat!("see ", "above"),
    concat!("as ", "in `"),
    concat!("as ", "for "),
    concat!("caller's ", "promise"),
    concat!("callers' ", "promise"),
];

pub fn tidy() -> Result<(), Failure> {
    let mut files = Vec::new();
    collect(&root(), &mut files)?;
    let mut findings = Vec::new();
    for file in &files {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let shown = file.strip_prefix(root()).unwrap_or(file).display().to_string();
        for (number, line) in text.lines().enumerate() {
            let mut find = |what: String| findings.push(format!("{shown}:{}: {what}", number + 1));
            if let Some(leftover) = LEFTOVERS.iter().find(|leftover| line.contains(**leftover)) {
                find(format!("leftover {leftover}"));
            }
            let is_import = line.trim_start().trim_start_matches("pub ").starts_with("use ");
            if shown.ends_with(".rs") && is_import && line.contains('{') {
                find("several imports on one line".to_owned());
            }
            if let Some(pointer) = points_elsewhere(line) {
                find(format!("a sentence about safety that says \"{pointer}\" and not what"));
            }
            for link in links(line, shown.ends_with(".md")) {
                if !leads_somewhere(file, &link) {
                    find(format!("link to {link}, which does not exist"));
                }
            }
        }
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("untidy:\n  {}", findings.join("\n  "))))
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type()?.is_dir() {
            if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                collect(&path, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| TEXT.iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// Does a sentence about safety send its reader elsewhere? It must be true by itself, and name what was promised.
fn points_elsewhere(line: &str) -> Option<&'static str> {
    let (_, sentence) = line.split_once(concat!("// ", "SAFETY: "))?;
    let sentence = sentence.to_lowercase();
    let begins = |pointer: &str| sentence.starts_with(pointer) || sentence.contains(&format!("; {pointer}"));
    let is_there = |pointer: &&&str| match pointer.ends_with("promise") {
        true => sentence.contains(**pointer),
        false => begins(pointer),
    };
    POINTERS.iter().find(is_there).copied()
}

/// Links of Markdown, and mentions of `docs/….md` anywhere.
fn links(line: &str, is_markdown: bool) -> Vec<String> {
    let mut found = Vec::new();
    if is_markdown {
        for part in line.split("](").skip(1) {
            if let Some(link) = part.split(')').next() {
                found.push(link.to_owned());
            }
        }
    }
    for (start, _) in line.match_indices("docs/") {
        // Part of a longer path or address, or of a pattern.
        let is_whole = !line[..start].ends_with(|c: char| c.is_alphanumeric() || "/.-_".contains(c));
        let rest = &line[start..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)))
            .unwrap_or(rest.len());
        let link = rest[..end].trim_end_matches('.');
        if is_whole && link.ends_with(".md") {
            found.push(format!("/{link}"));
        }
    }
    found
}

/// Addresses and anchors are not followed. A leading slash means the top of the repository.
fn leads_somewhere(file: &Path, link: &str) -> bool {
    let path = link.split(['#', ' ']).next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    match path.strip_prefix('/') {
        Some(path) => root().join(path).exists(),
        None => file.parent().is_some_and(|folder| folder.join(path).exists()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_about_safety_stand_alone() {
        let of = |sentence: &str| points_elsewhere(&format!("    // {}: {sentence}", "SAFETY"));
        assert_eq!(of(&format!("as {}.", "above")), Some(POINTERS[0]));
        assert_eq!(of(&format!("mapped; as {}.", "in `free`")), Some(POINTERS[2]));
        assert_eq!(of(&format!("the caller's {}.", "promise")), Some(POINTERS[4]));
        assert_eq!(of("the caller promises that the range can be read."), None);
        assert_eq!(of("both have that many bytes. Recorded, as in `calloc`."), None);
        assert_eq!(points_elsewhere(&format!("// as {}.", "above")), None);
    }

    #[test]
    fn links_are_found() {
        assert_eq!(
            links("see [a](b.md#c) and [d](https://e)", true),
            ["b.md#c", "https://e"]
        );
        assert_eq!(
            links("// The bytes are in `docs/log-format.md`.", false),
            ["/docs/log-format.md"]
        );
        assert_eq!(
            links("https://x.org/docs/y.md and docs/*.md", false),
            Vec::<String>::new()
        );
    }
}
