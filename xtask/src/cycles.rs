//! Which parts of the runtime import each other in circles. A part is a file or a folder directly below its `src`.
//!
//! An import is `crate::part` anywhere in a file that is not a comment: in a `use`, or in a path.
use crate::command::Failure;
use crate::root;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// Parts that may import each other in circles. A part that is in none any more has to be taken off.
const ALLOWED: &[&str] = &[];

/// For each part, those that it imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

pub fn check() -> Result<(), Failure> {
    let found = circles(&imports(&root().join("crates/runtime/src"))?);
    let findings = findings(&found, ALLOWED);
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "crates/runtime/src:\n  {}",
            findings.join("\n  ")
        ))),
    }
}

/// Circles with a part in them that is not `allowed` to be in one, and parts that are allowed and in none.
fn findings(found: &[Vec<String>], allowed: &[&str]) -> Vec<String> {
    let is_allowed = |circle: &&Vec<String>| circle.iter().all(|part| allowed.contains(&part.as_str()));
    let new = found.iter().filter(|circle| !is_allowed(circle));
    let new = new.map(|circle| format!("import each other in a circle: {}", circle.join(", ")));
    let is_in_one = |part: &&&str| found.iter().flatten().any(|other| other == **part);
    let freed = allowed.iter().filter(|part| !is_in_one(part));
    let freed =
        freed.map(|part| format!("{part} is in no circle any more: take it off the list in xtask/src/cycles.rs"));
    new.chain(freed).collect()
}

/// What the parts of the crate whose sources are in `source` import.
pub fn imports(source: &Path) -> Result<Imports, Failure> {
    let mut imports = Imports::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let part = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if part == "lib" {
            continue;
        }
        let mut files = Vec::new();
        collect(&path, &mut files)?;
        let of_part = imports.entry(part.clone()).or_default();
        for file in files {
            of_part.extend(
                imported(&fs::read_to_string(&file)?)
                    .filter(|other| *other != part)
                    .map(str::to_owned),
            );
        }
    }
    let parts: BTreeSet<String> = imports.keys().cloned().collect();
    imports
        .values_mut()
        .for_each(|of_part| of_part.retain(|other| parts.contains(other)));
    Ok(imports)
}

/// The Rust files at `path`, or below it.
pub fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// The first names behind `crate::` in a file's code.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1)).map(|path| {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
        &path[..end.unwrap_or(path.len())]
    })
}

/// Sets of parts each of which reaches each other one, of two or more; the largest first.
pub fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|part| (part, reach(imports, part))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for part in imports.keys() {
        if circles.iter().any(|circle| circle.contains(part)) {
            continue;
        }
        let circle: Vec<String> = reached[part]
            .iter()
            .filter(|other| reached[**other].contains(part))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// Everything that `part` imports, and what that imports, and so on.
fn reach<'a>(imports: &'a Imports, part: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = imports.get(part).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&imports[next]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Imports {
        let mut imports = Imports::new();
        for (from, to) in edges {
            imports.entry((*to).to_owned()).or_default();
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        imports
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_none() {
        assert!(circles(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        let found = circles(&graph(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("d", "a"),
            ("e", "f"),
            ("f", "e"),
        ]));
        assert_eq!(found, [vec!["a", "b", "c"], vec!["e", "f"]]);
    }

    #[test]
    fn the_list_can_only_become_shorter() {
        let found = [vec!["a".to_owned(), "b".to_owned()]];
        assert!(findings(&found, &["a", "b"]).is_empty());
        assert_eq!(findings(&found, &["a"]), ["import each other in a circle: a, b"]);
        let freed = findings(&found, &["a", "b", "c"]);
        assert!(freed.len() == 1 && freed[0].starts_with("c is in no circle"));
    }

    #[test]
    fn imports_are_seen_in_paths_and_not_in_comments() {
        let text = "use crate::a::B;\n// crate::c\nlet x = crate::d::e(crate::f);";
        assert_eq!(imported(text).collect::<Vec<_>>(), ["a", "d", "f"]);
    }
}
