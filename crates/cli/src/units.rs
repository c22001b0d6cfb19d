//! `refrain units`: the bitcode that is kept of programs built with `--det`.
use crate::Ended;
use crate::Failure;
use crate::arguments::UnitsArguments;
use crate::output::count;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use crate::output::size;
use instrumentor::units::Unit;
use instrumentor::units::UnitError;
use instrumentor::units::Units;
use serde_json::json;
use std::fs;
use std::path::Path;

pub fn list(arguments: &UnitsArguments) -> Ended {
    let units = Units::read(&arguments.program).map_err(failure)?.units;
    if let Some(directory) = &arguments.output {
        extract(&arguments.program, &units, directory)?;
    }
    if arguments.json {
        let each: Vec<_> = units
            .iter()
            .map(|unit| {
                json!({
                    "name": unit.name,
                    "number": unit.number,
                    "functions": unit.functions.len(),
                    "traced_functions": traced(unit),
                    "blocks": unit.blocks(),
                    "branches": unit.branches(),
                    "values": unit.values,
                    "bitcode_bytes": unit.bitcode_bytes,
                    "stored_bytes": unit.stored_bytes,
                    "total_bytes": unit.total_bytes,
                    "successors": (0..unit.blocks()).map(|block| unit.successors(block)).collect::<Vec<_>>(),
                    "first_blocks": unit.functions.iter().map(|function| function.blocks.start).collect::<Vec<_>>(),
                    "names": unit.functions.iter().map(|function| function.name.as_str()).collect::<Vec<_>>(),
                })
            })
            .collect();
        print_json(&json!(each))?;
        return Ok(0);
    }
    print(|out| {
        writeln!(out, "UNIT      FUNCTIONS  BLOCKS  BRANCHES   BITCODE      KEPT  SOURCE")?;
        for unit in &units {
            let number = unit.number.map_or("-".to_owned(), |number| number.to_string());
            writeln!(
                out,
                "{number:8}  {:9}  {:6}  {:8}  {:>8}  {:>8}  {}",
                unit.functions.len(),
                unit.blocks(),
                unit.branches(),
                size(unit.bitcode_bytes),
                size(unit.total_bytes),
                unit.name
            )?;
        }
        let total = units.iter().map(|unit| unit.total_bytes).sum();
        let whole = fs::metadata(&arguments.program).map_or(0, |metadata| metadata.len());
        writeln!(
            out,
            "{}: {} of the {} of {}",
            count(units.len() as u64, "unit"),
            size(total),
            size(whole),
            arguments.program.display()
        )
    })?;
    Ok(0)
}

fn traced(unit: &Unit) -> usize {
    unit.functions.iter().filter(|function| function.is_traced).count()
}

/// As for `spes`.
fn failure(error: UnitError) -> Failure {
    let status = match error {
        UnitError::Corrupt { .. } => 3,
        UnitError::Unreadable { .. } | UnitError::NotElf { .. } | UnitError::NothingKept { .. } => 2,
    };
    Failure {
        sentence: error.to_string(),
        status,
    }
}

/// `DIR/N-SOURCE.bc`, one for each unit.
fn extract(program: &Path, units: &[Unit], directory: &Path) -> Result<(), Failure> {
    let cannot = |doing: &str, path: &Path, why: &dyn std::fmt::Display| Failure {
        sentence: format!("cannot {doing} {}: {why}", path.display()),
        status: 3,
    };
    fs::create_dir_all(directory).map_err(|e| cannot("create", directory, &e))?;
    for (index, unit) in units.iter().enumerate() {
        let bitcode = unit.bitcode().ok_or_else(|| {
            failure(UnitError::Corrupt {
                file: program.to_owned(),
                offset: unit.offset,
                why: format!("the bitcode of {} is not the one that was kept", unit.name),
            })
        })?;
        let source = unit.name.rsplit('/').next().unwrap_or("");
        let safe: String = source
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' })
            .collect();
        let path = directory.join(format!("{index}-{safe}.bc"));
        fs::write(&path, bitcode).map_err(|e| cannot("write", &path, &e))?;
    }
    say(format_args!(
        "wrote the bitcode of {} to {}",
        count(units.len() as u64, "unit"),
        directory.display()
    ));
    Ok(())
}
