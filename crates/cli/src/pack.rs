//! `refrain pack`, `refrain unpack`, and what `refrain info` says about unpacked runs
use crate::Ended;
use crate::arguments::PackArguments;
use crate::arguments::UnpackArguments;
use crate::output::count;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use crate::output::size;
use crate::record::spelling;
use run_store::Manifest;
use run_store::Role;
use run_store::Store;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

pub fn pack(arguments: &PackArguments) -> Ended {
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let file = match &arguments.output {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{}.refrain", run.name())),
    };
    let manifest = replayer::pack(&run, &file)?;
    let bytes = fs::metadata(&file).map_or(0, |metadata| metadata.len());
    for missing in &manifest.missing {
        say(format_args!("not packed: {}", missing.why));
    }
    if arguments.json {
        let mut value = manifest_json(&manifest);
        value["run"] = json!(run.name());
        value["file"] = json!(file.to_string_lossy());
        value["bytes"] = json!(bytes);
        print_json(&value)?;
        return Ok(0);
    }
    say(format_args!(
        "packed {} with {} into {} ({})",
        run.name(),
        brought(&manifest),
        file.display(),
        size(bytes)
    ));
    if manifest.is_self_contained() {
        say(format_args!(
            "replay it on any machine like this one with: refrain unpack {} && refrain replay",
            file.file_name().unwrap_or_default().to_string_lossy()
        ));
    } else {
        say(format_args!(
            "it can be replayed only where what is missing is in its place"
        ));
    }
    Ok(0)
}

pub fn unpack(arguments: &UnpackArguments) -> Ended {
    let store = Store::from_environment()?;
    let unpacked = run_store::unpack(&store, &arguments.file, arguments.output.as_deref())?;
    let (run, manifest) = (&unpacked.run, &unpacked.manifest);
    store.set_latest(run)?;
    if arguments.json {
        let mut value = manifest_json(manifest);
        value["run"] = json!(run.name());
        value["directory"] = json!(run.path().to_string_lossy());
        print_json(&value)?;
        return Ok(0);
    }
    say(format_args!(
        "unpacked {} with {} into {}",
        manifest.name,
        brought(manifest),
        run.path().display()
    ));
    for missing in &manifest.missing {
        say(format_args!("not in it: {}", missing.path));
    }
    say(format_args!("replay it with: refrain replay {}", spelling(run, &store)));
    Ok(0)
}

/// `refrain info` of a file: what is in it, without unpacking it.
pub fn info(file: &Path, json: bool) -> Ended {
    let manifest = run_store::read_manifest(file)?;
    if json {
        let mut value = manifest_json(&manifest);
        value["run"] = json!(manifest.name);
        value["file"] = json!(file.to_string_lossy());
        print_json(&value)?;
        return Ok(0);
    }
    print(|out| {
        writeln!(out, "run         {}", run_store::shown(&manifest.name))?;
        writeln!(out, "file        {}, not unpacked yet", run_store::shown_path(file))?;
        write_packed(out, &manifest)?;
        for (_, entry) in manifest.files() {
            let original = entry.original.clone().unwrap_or_default();
            writeln!(
                out,
                "holds       {} {original}",
                entry.hash.get(..16).unwrap_or_default()
            )?;
        }
        Ok(())
    })?;
    Ok(0)
}

/// "its program and 5 libraries"
fn brought(manifest: &Manifest) -> String {
    let libraries = manifest
        .entries
        .iter()
        .filter(|entry| entry.role == Role::Library)
        .count();
    let noun = if libraries == 1 { "library" } else { "libraries" };
    format!("its program and {libraries} {noun}")
}

pub fn manifest_json(manifest: &Manifest) -> Value {
    json!({
        "self_contained": manifest.is_self_contained(),
        "packed_by": manifest.refrain,
        "files": manifest.files().map(|(_, entry)| entry).collect::<Vec<_>>(),
        "missing": manifest.missing,
    })
}

/// The lines of `refrain info`.
pub fn write_packed(out: &mut dyn Write, manifest: &Manifest) -> io::Result<()> {
    if manifest.is_self_contained() {
        return writeln!(out, "packed      self-contained: {} are in the run", brought(manifest));
    }
    let missing = count(manifest.missing.len() as u64, "file");
    writeln!(
        out,
        "packed      {} are in the run, {missing} missing:",
        brought(manifest)
    )?;
    for missing in &manifest.missing {
        writeln!(out, "missing     {}", missing.path)?;
    }
    Ok(())
}
