//! `refrain schedules pack` and `refrain schedules unpack`
use super::chosen;
use crate::Ended;
use crate::Failure;
use crate::output::count;
use crate::output::print_json;
use crate::output::say;
use crate::output::size;
use run_store::ScheduleCache;
use run_store::SchedulePlace;
use serde_json::json;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

pub fn pack(cache: &ScheduleCache, names: &[OsString], output: &Path, json: bool) -> Ended {
    let places = chosen(cache, names)?;
    if places.is_empty() {
        return Err(Failure::usage(format!(
            "there are no schedules in {} that could be packed; `refrain run -- PROG` learns one",
            cache.root().display()
        )));
    }
    let entries = places
        .iter()
        .map(|place| cache.open(place))
        .collect::<Result<Vec<_>, _>>()?;
    cache.pack(&entries, output)?;
    let bytes = fs::metadata(output).map_or(0, |metadata| metadata.len());
    if json {
        print_json(&json!({
            "file": output.to_string_lossy(),
            "bytes": bytes,
            "schedules": names_of(&places),
        }))?;
        return Ok(0);
    }
    say(format_args!(
        "packed {} into {} ({})",
        count(places.len() as u64, "schedule"),
        output.display(),
        size(bytes)
    ));
    Ok(0)
}

pub fn unpack(cache: &ScheduleCache, file: &Path, json: bool) -> Ended {
    let unpacked = cache.unpack(file)?;
    if json {
        print_json(&json!({
            "cache": cache.root().to_string_lossy(),
            "added": names_of(&unpacked.added),
            "there_before": names_of(&unpacked.there_before),
        }))?;
        return Ok(0);
    }
    say(format_args!(
        "added {} to {}",
        count(unpacked.added.len() as u64, "schedule"),
        cache.root().display()
    ));
    if !unpacked.there_before.is_empty() {
        let kept = count(unpacked.there_before.len() as u64, "schedule");
        say(format_args!("it has {kept} of the file already, and keeps its own"));
    }
    Ok(0)
}

fn names_of(places: &[SchedulePlace]) -> Vec<String> {
    places.iter().map(SchedulePlace::name).collect()
}
