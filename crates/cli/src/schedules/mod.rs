//! `refrain schedules`: what is in the cache of learned schedules.
mod arguments;
mod info;
mod travel;
mod why;

pub use arguments::SchedulesArguments;

use crate::Ended;
use crate::Failure;
use crate::output::count;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use crate::output::when;
use crate::runs::as_typed;
use arguments::SchedulesCommand;
use run_store::ScheduleCache;
use run_store::ScheduleMeta;
use run_store::SchedulePlace;
use run_store::shown;
use serde_json::Value;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;

pub fn schedules(arguments: &SchedulesArguments) -> Ended {
    let cache = ScheduleCache::from_environment(arguments.cache.as_deref())?;
    let json = arguments.json;
    match &arguments.command {
        SchedulesCommand::Ls => list(&cache, json),
        SchedulesCommand::Info { name } => info::info(&cache, name, json),
        SchedulesCommand::Why { command } => why::why(&cache, command, json),
        SchedulesCommand::Check { names } => check(&cache, names, json),
        SchedulesCommand::Rm { names, all: _ } => remove(&cache, names, json),
        SchedulesCommand::Pack { names, output } => travel::pack(&cache, names, output, json),
        SchedulesCommand::Unpack { file } => travel::unpack(&cache, file, json),
    }
}

/// Those of these names, in their order and each once, or all if there are none.
fn chosen(cache: &ScheduleCache, names: &[OsString]) -> Result<Vec<SchedulePlace>, run_store::Error> {
    if names.is_empty() {
        return cache.list();
    }
    let mut places: Vec<SchedulePlace> = Vec::new();
    for name in names {
        let place = cache.find(name)?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

fn say_empty(cache: &ScheduleCache) {
    say(format_args!(
        "there are no schedules in {}; `refrain run -- PROG` learns one",
        cache.root().display()
    ));
}

/// The name of the program's file.
fn program(meta: &ScheduleMeta) -> String {
    let path = Path::new(meta.key.build().program.path.as_os_str());
    let name = path.file_name().unwrap_or(path.as_os_str());
    shown(&name.to_string_lossy()).into_owned()
}

fn state(meta: &ScheduleMeta) -> &'static str {
    match meta.learned.sealed {
        Some(_) => "sealed",
        None => "ready",
    }
}

fn list(cache: &ScheduleCache, json: bool) -> Ended {
    let places = cache.list()?;
    if json {
        let each = places.iter().map(|place| list_json(cache, place));
        print_json(&Value::Array(each.collect()))?;
        return Ok(0);
    }
    if places.is_empty() {
        say_empty(cache);
        return Ok(0);
    }
    let heading = [
        "NAME",
        "PROGRAM",
        "STATE",
        "LEARNED",
        "THREADS",
        "STEPS",
        "CONSTRAINTS",
        "ARGUMENTS",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(places.iter().map(|place| list_row(cache, place)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    print(|out| {
        for row in &rows {
            for (column, text) in row.iter().enumerate() {
                let width = widths[column];
                match column {
                    4..=6 => write!(out, "{text:>width$}  ")?,
                    // The last one has no spaces behind it.
                    7 => writeln!(out, "{text}")?,
                    _ => write!(out, "{text:<width$}  ")?,
                }
            }
        }
        Ok(())
    })?;
    Ok(0)
}

fn list_row(cache: &ScheduleCache, place: &SchedulePlace) -> [String; 8] {
    let unknown = || "?".to_owned();
    match cache.meta(place) {
        Ok(meta) => [
            place.name(),
            program(&meta),
            state(&meta).to_owned(),
            when(meta.learned.learned_at),
            meta.learned.threads.to_string(),
            meta.learned.steps.to_string(),
            meta.learned.constraints.to_string(),
            as_typed(meta.key.arguments().get(1..).unwrap_or_default()),
        ],
        Err(error) => [
            place.name(),
            shown(&place.folder()).into_owned(),
            "unreadable".to_owned(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
            error.to_string(),
        ],
    }
}

fn list_json(cache: &ScheduleCache, place: &SchedulePlace) -> Value {
    let mut value = json!({
        "name": place.name(),
        "directory": place.path().to_string_lossy(),
    });
    match cache.meta(place) {
        Ok(meta) => {
            let learned = &meta.learned;
            value["state"] = json!(state(&meta));
            value["sealed"] = json!(learned.sealed);
            value["program"] = json!(meta.key.build().program.path);
            value["argv"] = json!(meta.key.arguments());
            value["threads"] = json!(learned.threads);
            value["steps"] = json!(learned.steps);
            value["constraints"] = json!(learned.constraints);
            value["learned_at"] = json!(learned.learned_at);
        }
        Err(error) => {
            value["state"] = json!("unreadable");
            value["error"] = json!(error.to_string());
        }
    }
    value
}

fn check(cache: &ScheduleCache, names: &[OsString], json: bool) -> Ended {
    let places = chosen(cache, names)?;
    let checked: Vec<(String, Vec<String>)> = places
        .iter()
        .map(|place| {
            let problems = cache.check(place).iter().map(ToString::to_string).collect();
            (place.name(), problems)
        })
        .collect();
    let wrong = checked.iter().filter(|(_, problems)| !problems.is_empty()).count();
    if json {
        let each = checked
            .iter()
            .map(|(name, problems)| json!({ "name": name, "ok": problems.is_empty(), "problems": problems }));
        print_json(&Value::Array(each.collect()))?;
        return Ok(u8::from(wrong > 0));
    }
    if places.is_empty() {
        say_empty(cache);
        return Ok(0);
    }
    print(|out| {
        for (name, problems) in &checked {
            if problems.is_empty() {
                writeln!(out, "{name}  as it was written")?;
            }
            for problem in problems {
                writeln!(out, "{name}  {problem}")?;
            }
        }
        Ok(())
    })?;
    if wrong > 0 {
        let total = count(checked.len() as u64, "schedule");
        say(format_args!("{wrong} of {total} cannot be used"));
    }
    Ok(u8::from(wrong > 0))
}

/// All if there are no names.
fn remove(cache: &ScheduleCache, names: &[OsString], json: bool) -> Ended {
    // All names are looked up before anything is deleted.
    let places = chosen(cache, names)?;
    let (mut removed, mut first_failure) = (Vec::new(), None);
    for place in places {
        match cache.remove(&place) {
            Ok(()) => removed.push(place.name()),
            Err(error) => {
                let failure = Failure::from(error);
                say(format_args!("{}", failure.sentence));
                first_failure.get_or_insert(failure.status);
            }
        }
    }
    if json {
        print_json(&json!(removed))?;
    } else {
        removed.iter().for_each(|name| say(format_args!("removed {name}")));
    }
    Ok(first_failure.unwrap_or(0))
}
