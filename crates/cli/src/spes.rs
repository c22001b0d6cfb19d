//! `refrain spes`
use crate::Ended;
use crate::Failure;
use crate::arguments::SpesArguments;
use crate::output::count;
use crate::output::print;
use crate::output::print_json;
use instrumentor::sites::SiteError;
use instrumentor::sites::SiteTable;
use instrumentor::spes::Spe;
use instrumentor::spes::SpeList;
use serde_json::Value;
use serde_json::json;
use std::io;
use std::io::Write;

/// Names longer than this push their line's other columns to the right.
const NAME_COLUMNS_MAX: usize = 48;

pub fn list(arguments: &SpesArguments) -> Ended {
    let tables: Result<Vec<SiteTable>, SiteError> =
        arguments.objects.iter().map(|path| SiteTable::read(path)).collect();
    let list = SpeList::of(&tables.map_err(failure)?);
    if arguments.json {
        print_json(&as_json(&list))?;
    } else {
        print(|out| write(out, &list))?;
    }
    Ok(0)
}

/// As for `record`: a file that is no program of ours is wrong usage, a damaged one cannot be read.
fn failure(error: SiteError) -> Failure {
    let status = match error {
        SiteError::Corrupt { .. } => 3,
        SiteError::Unreadable { .. } | SiteError::NotElf { .. } | SiteError::NotInstrumented { .. } => 2,
    };
    Failure {
        sentence: error.to_string(),
        status,
    }
}

fn place(spe: &Spe) -> String {
    match (spe.file.as_str(), spe.line) {
        ("", _) => "-".to_owned(),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    }
}

fn write(out: &mut dyn Write, list: &SpeList) -> io::Result<()> {
    let width = |text: &str| text.chars().count().min(NAME_COLUMNS_MAX);
    let names = list.elements.iter().map(|listed| width(&listed.spe.name)).max();
    let names = names.unwrap_or(0).max("NAME".len());
    writeln!(out, "ID        KIND    {:names$}  SITES  DECLARED", "NAME")?;
    for listed in &list.elements {
        let spe = &listed.spe;
        writeln!(
            out,
            "{:08x}  {:6}  {:names$}  {:5}  {}",
            spe.id,
            spe.kind,
            spe.name,
            listed.sites,
            place(spe)
        )?;
    }
    for group in list.collisions() {
        let names: Vec<String> = group.iter().map(|spe| format!("{} {}", spe.kind, spe.name)).collect();
        writeln!(
            out,
            "{:08x} is the id of {}: they are recorded as one",
            group[0].id,
            names.join(" and of ")
        )?;
    }
    writeln!(
        out,
        "{}; {} of {} do not say by themselves what they access",
        count(list.elements.len() as u64, "shared program element"),
        list.sites_indefinite,
        count(list.sites as u64, "site"),
    )
}

fn as_json(list: &SpeList) -> Value {
    let elements: Vec<Value> = list
        .elements
        .iter()
        .map(|listed| {
            json!({
                "id": format!("{:08x}", listed.spe.id),
                "kind": listed.spe.kind.to_string(),
                "name": listed.spe.name,
                "file": listed.spe.file,
                "line": listed.spe.line,
                "sites": listed.sites,
            })
        })
        .collect();
    let collisions: Vec<String> = list
        .collisions()
        .iter()
        .map(|group| format!("{:08x}", group[0].id))
        .collect();
    json!({
        "spes": elements,
        "collisions": collisions,
        "sites": list.sites,
        "sites_indefinite": list.sites_indefinite,
    })
}
