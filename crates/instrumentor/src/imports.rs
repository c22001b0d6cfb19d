//! Which functions of libraries a program uses that may read or write its memory unobserved: `pass/library.def` has those of libc that do not.
use object::Object;
use object::ObjectSymbol;
use object::SymbolKind;
use std::collections::BTreeSet;

const TABLE: &str = include_str!("../pass/library.def");

/// Names of functions, sorted: those that `program` imports, that `runtime` does not stand in front of, and that are neither observed in compiled
/// code nor harmless.
pub fn unobserved(program: &[u8], runtime: &[u8]) -> Result<Vec<String>, object::Error> {
    let (program, runtime) = (object::File::parse(program)?, object::File::parse(runtime)?);
    let exported: BTreeSet<&str> = (runtime.dynamic_symbols())
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    let known: BTreeSet<&str> = TABLE.lines().filter_map(row).map(|(_, name)| name).collect();
    let is_unknown = |name: &&str| !exported.contains(name) && !known.contains(name) && is_plain(name);
    let imported: BTreeSet<&str> = (program.dynamic_symbols())
        .filter(|symbol| symbol.is_undefined() && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown))
        .filter_map(|symbol| symbol.name().ok())
        .filter(is_unknown)
        .collect();
    Ok(imported.into_iter().map(str::to_owned).collect())
}

/// A row of the table: what becomes of the function's memory, and its name.
fn row(line: &str) -> Option<(&str, &str)> {
    let line = line.split("//").next()?.trim();
    let (kind, rest) = line.split_once('(')?;
    Some((kind, rest.strip_suffix(')')?))
}

/// Is it neither ours nor one of C++'s or Rust's?
fn is_plain(name: &&str) -> bool {
    ![
        "_Z",
        "_R",
        "__refrain_",
        "_ITM_",
        "_Unwind_",
        "__cxa_",
        "__gxx_",
        "__kmpc_",
        "omp_",
        "GOMP_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_kind_and_there_once() {
        let mut names = BTreeSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with("//")) {
            let (kind, name) = row(line).unwrap_or_else(|| panic!("{line}"));
            assert!(
                ["OBSERVED", "OBSERVED_LIST", "OBSERVED_RANGE", "KERNEL", "NONE"].contains(&kind),
                "{line}"
            );
            assert!(names.insert(name), "{name} is there twice");
        }
        assert!(names.len() > 500, "{} functions", names.len());
    }
}
