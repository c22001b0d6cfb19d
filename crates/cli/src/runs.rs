//! `refrain ls`, `refrain info`, `refrain rm`
use crate::Ended;
use crate::Failure;
use crate::arguments::InfoArguments;
use crate::arguments::ListArguments;
use crate::arguments::RemoveArguments;
use crate::output::count;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use crate::output::size;
use crate::output::when;
use crate::pack;
use crate::pack::manifest_json;
use crate::pack::write_packed;
use crate::record;
use replayer::Overview;
use replayer::SiteBook;
use run_store::FileIdentity;
use run_store::Manifest;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::RunState;
use run_store::Scope;
use run_store::Store;
use run_store::Text;
use run_store::UnrecordedCalls;
use run_store::shown;
use run_store::shown_path;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::io;
use std::io::Write;

/// Threads listed one by one by `info`; JSON has all.
const THREADS_SHOWN: usize = 64;
/// Functions named by it; JSON has all.
const FUNCTIONS_SHOWN: usize = 12;
/// The file of the library that is inside the program.
const RUNTIME: &str = "/librefrain_runtime.so";

pub fn list(arguments: &ListArguments) -> Ended {
    let store = Store::from_environment()?;
    let runs = store.list()?;
    if arguments.json {
        print_json(&Value::Array(runs.iter().map(list_json).collect()))?;
        return Ok(0);
    }
    if runs.is_empty() {
        say(format_args!("there are no runs in {}", store.root().display()));
        return Ok(0);
    }
    let rows: Vec<[String; 5]> = runs.iter().map(list_row).collect();
    let heading = ["NAME", "WHEN", "SIZE", "OUTCOME", "COMMAND"].map(str::to_owned);
    let width = |column: usize| {
        rows.iter()
            .chain([&heading])
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let [name, when, bytes, outcome] = [width(0), width(1), width(2), width(3)];
    print(|out| {
        for row in [&heading].into_iter().chain(&rows) {
            writeln!(
                out,
                "{:<name$}  {:<when$}  {:>bytes$}  {:<outcome$}  {}",
                row[0], row[1], row[2], row[3], row[4]
            )?;
        }
        Ok(())
    })?;
    Ok(0)
}

fn list_row(run: &RunDirectory) -> [String; 5] {
    let bytes = run.disk_bytes().map_or_else(|_| "?".to_owned(), size);
    match run.load() {
        Ok((meta, state)) => [
            shown(&run.name()).into_owned(),
            when(meta.started),
            bytes,
            outcome(&meta, state),
            command(&meta),
        ],
        Err(error) => [
            shown(&run.name()).into_owned(),
            "?".to_owned(),
            bytes,
            "unreadable".to_owned(),
            error.to_string(),
        ],
    }
}

fn list_json(run: &RunDirectory) -> Value {
    let mut value = json!({
        "name": run.name(),
        "directory": run.path().to_string_lossy(),
        "bytes": run.disk_bytes().ok(),
    });
    match run.load() {
        Ok((meta, state)) => {
            value["state"] = json!(state_word(state));
            value["started"] = json!(meta.started);
            value["outcome"] = json!(meta.ending.as_ref().map(|ending| ending.outcome));
            value["argv"] = json!(meta.program_arguments());
        }
        Err(error) => {
            value["state"] = json!("unreadable");
            value["error"] = json!(error.to_string());
        }
    }
    value
}

fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Complete => "complete",
        RunState::Recording => "recording",
        RunState::Interrupted => "interrupted",
    }
}

fn outcome(meta: &RunMeta, state: RunState) -> String {
    match &meta.ending {
        Some(ending) if ending.truncated.or(ending.others_truncated).is_some() => {
            format!("{}, truncated", ending.outcome)
        }
        Some(ending) => ending.outcome.to_string(),
        None => state_word(state).to_owned(),
    }
}

fn command(meta: &RunMeta) -> String {
    as_typed(meta.program_arguments())
}

/// The words as they could be typed again.
pub fn as_typed(words: &[Text]) -> String {
    let quote = |text: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/=,:@%".contains(c);
        let is_plain = !text.is_empty() && text.chars().all(plain);
        if is_plain {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let words: Vec<String> = words.iter().map(|word| quote(word.to_string())).collect();
    words.join(" ")
}

pub fn info(arguments: &InfoArguments) -> Ended {
    let store = Store::from_environment()?;
    let run = match store.open(arguments.run.as_deref()) {
        Err(run_store::Error::NotARun { path }) if path.is_file() => return pack::info(&path, arguments.json),
        other => other?,
    };
    let overview = Overview::load(&run)?;
    let packed = run.packed()?;
    if arguments.json {
        print_json(&info_json(&run, &overview, packed.as_ref(), arguments.show_secrets))?;
    } else {
        print(|out| write_info(out, &run, &overview, packed.as_ref()))?;
    }
    Ok(0)
}

/// What stands for the value of a variable whose name looks secret.
const HIDDEN: &str = "(hidden; --show-secrets shows it)";

fn without_secrets(meta: &RunMeta) -> RunMeta {
    let mut meta = meta.clone();
    for (name, value) in &mut meta.env {
        if replayer::looks_secret(name.as_os_str()) {
            *value = HIDDEN.into();
        }
    }
    meta
}

fn info_json(run: &RunDirectory, overview: &Overview, packed: Option<&Manifest>, shows_secrets: bool) -> Value {
    let shown = |meta: &RunMeta| match shows_secrets {
        true => meta.clone(),
        false => without_secrets(meta),
    };
    let thread = |(index, slot): (usize, &run_store::SlotSnapshot)| json!({ "thread": index, "parent": slot.parent, "events": slot.count, "records": slot.records });
    json!({
        "name": run.name(),
        "directory": run.path().to_string_lossy(),
        "state": state_word(overview.state),
        "bytes": run.disk_bytes().ok(),
        "meta": shown(&overview.meta),
        "truncated": overview.truncated().or(overview.truncated_process().map(|(_, why)| why)),
        "packed": packed.map(manifest_json),
        "threads": overview.slots.iter().enumerate().map(thread).collect::<Vec<_>>(),
        "started_programs": overview.header.spawned,
        "unrecorded_processes": overview.header.forked,
        "unobserved_functions": unobserved_functions(&overview.meta),
        "unobserved_assembly": unobserved_assembly(run, &overview.meta),
        "processes": overview.processes.iter().map(|process| json!({
            "meta": shown(&process.meta),
            "threads": process.slots.iter().enumerate().map(thread).collect::<Vec<_>>(),
            "events": process.own_events(),
            "truncated": process.truncated(),
            "system_calls_recorded": process.header.calls,
        })).collect::<Vec<_>>(),
    })
}

/// The other processes of the run, and what is missing of them.
fn write_processes(out: &mut dyn Write, overview: &Overview) -> io::Result<()> {
    if let Some(process) = &overview.meta.process {
        let how = match process.forked_by {
            Some(parent) => format!("forked by process {parent}"),
            None => "a program that was executed".to_owned(),
        };
        writeln!(out, "part        process {} of a run: {how}", process.number)?;
    }
    for process in &overview.processes {
        let events = process.own_events();
        let number = process.meta.process.as_ref().map_or(0, |process| process.number);
        let forked_by = process.meta.process.as_ref().and_then(|process| process.forked_by);
        let how = match forked_by {
            Some(parent) => format!("forked by {parent}"),
            None => command(&process.meta),
        };
        let ended = process.meta.ending.as_ref().map(|ending| ending.outcome.to_string());
        writeln!(
            out,
            "process {number:<3} {how}: {events} events, {}{}",
            ended.as_deref().unwrap_or("end unknown"),
            if process.header.calls {
                ""
            } else {
                ", its system calls are not recorded"
            }
        )?;
    }
    if overview.header.spawned > 0 {
        writeln!(
            out,
            "started     {} by posix_spawn, system or popen; those built with refrain are listed as processes",
            match overview.header.spawned {
                1 => "1 program".to_owned(),
                more => format!("{more} programs"),
            }
        )?;
    }
    if overview.header.forked {
        writeln!(out, "forked      it started processes that were not recorded")?;
    }
    Ok(())
}

fn write_info(
    out: &mut dyn Write,
    run: &RunDirectory,
    overview: &Overview,
    packed: Option<&Manifest>,
) -> io::Result<()> {
    let meta = &overview.meta;
    writeln!(out, "run         {}", shown(&run.name()))?;
    writeln!(out, "directory   {}", shown_path(run.path()))?;
    writeln!(out, "command     {}", command(meta))?;
    writeln!(out, "in          {}", meta.cwd)?;
    writeln!(out, "recorded    {} by refrain {}", when(meta.started), meta.refrain)?;
    match (&meta.ending, overview.state) {
        (Some(ending), _) => {
            let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
            let (wall, cpu) = (seconds(ending.duration_ms), seconds(ending.cpu_ms));
            writeln!(out, "outcome     {} after {wall:.3} s", ending.outcome)?;
            writeln!(
                out,
                "used        {cpu:.3} s of processor time, {} of memory",
                size(ending.memory_bytes)
            )?;
        }
        (None, RunState::Recording) => writeln!(out, "outcome     still being recorded")?,
        (None, _) => writeln!(
            out,
            "outcome     unknown: the recording was interrupted; the logs are whole up to their last events"
        )?,
    }
    if let Some(reason) = overview.truncated() {
        writeln!(out, "truncated   the log ends before the program did, because {reason}")?;
    }
    for process in &overview.processes {
        if let Some(reason) = process.truncated() {
            let number = process.number();
            writeln!(
                out,
                "truncated   the log of process {number} ends before that did, because {reason}"
            )?;
        }
    }
    for UnrecordedCalls { path, places } in &meta.unrecorded_calls {
        writeln!(
            out,
            "calls       {path}: {} in its code cannot be recorded",
            count(*places, "system call")
        )?;
    }
    for sentence in record::unobserved(meta) {
        writeln!(out, "observed    {sentence}")?;
    }
    if let Some(ending) = meta.ending.as_ref().filter(|ending| ending.left_running > 0) {
        writeln!(out, "left        {}", record::left_running(ending.left_running))?;
    }
    if let Some(number) = overview.header.unknown_call {
        writeln!(
            out,
            "calls       system call {number} is not known to this version: what it wrote is not recorded"
        )?;
    }
    if let Some(number) = overview.header.refused_call {
        writeln!(out, "calls       {}", record::refused(number))?;
    }
    if overview.header.overruns > 0 {
        writeln!(out, "threads     {}", record::overrun(overview.header.overruns))?;
    }
    if !meta.redacted.is_empty() {
        writeln!(out, "redacted    {}", names_of(&meta.redacted))?;
    }
    write_processes(out, overview)?;
    let without = match meta.settings.without.names() {
        [] => String::new(),
        parts => format!(" without {}", parts.join(" and ")),
    };
    let order = match (meta.settings.sync_order, meta.settings.one_at_a_time) {
        (_, true) => ", one thread at a time",
        (true, false) => " and the order of synchronisations",
        (false, false) => "",
    };
    writeln!(
        out,
        "method      {}{without}, scope {}{order}",
        meta.settings.method.name(),
        meta.settings.scope.name()
    )?;
    if let Some(seed) = meta.settings.chaos_seed {
        writeln!(out, "chaos       seed {seed}")?;
    }
    let unobserved = unobserved_functions(meta);
    if !unobserved.is_empty() {
        writeln!(
            out,
            "unobserved  memory that it gives to {}",
            some_of(&unobserved, FUNCTIONS_SHOWN)
        )?;
    }
    let assembly = unobserved_assembly(run, meta);
    if !assembly.is_empty() {
        writeln!(
            out,
            "unobserved  {} memory in ways that are not observed, at {}",
            match assembly.len() {
                1 => "1 inline assembly statement accesses".to_owned(),
                several => format!("{several} inline assembly statements access"),
            },
            some_of(&assembly, FUNCTIONS_SHOWN)
        )?;
    }
    let (events, records) = overview
        .slots
        .iter()
        .fold((0, 0), |(e, r), slot| (e + slot.count, r + slot.records));
    writeln!(
        out,
        "threads     {} with {events} events, {records} records",
        overview.slots.len()
    )?;
    if let Some(ending) = &meta.ending {
        writeln!(out, "log         {}", size(ending.log_bytes))?;
        if ending.input_bytes != 0 {
            writeln!(out, "inputs      {}", size(ending.input_bytes))?;
        }
        for (name, captured) in [("stdout", ending.stdout), ("stderr", ending.stderr)] {
            let rest = match (captured.complete, captured.reader_gone) {
                (true, _) => "",
                (false, true) => ", then whoever read it went away",
                (false, false) => ", and more that could not be kept",
            };
            writeln!(out, "{name}      {} bytes{rest}", captured.bytes)?;
        }
    }
    writeln!(
        out,
        "on disk     {}",
        run.disk_bytes().map_or_else(|_| "?".to_owned(), size)
    )?;
    if let Some(manifest) = packed {
        write_packed(out, manifest)?;
    }
    writeln!(
        out,
        "executable  {} {}",
        short(&meta.executable.hash),
        meta.executable.path
    )?;
    for library in &meta.libraries {
        writeln!(out, "library     {} {}", short(&library.hash), library.path)?;
    }
    for (index, slot) in overview.slots.iter().enumerate().take(THREADS_SHOWN) {
        writeln!(out, "thread {index:<4} {} events, {} records", slot.count, slot.records)?;
    }
    if overview.slots.len() > THREADS_SHOWN {
        writeln!(
            out,
            "… and {} more threads (see --json)",
            overview.slots.len() - THREADS_SHOWN
        )?;
    }
    Ok(())
}

/// Functions of libraries that the program imports, and whose accesses to memory were not observed though other threads' were.
/// None are known if its files are not there any more.
fn unobserved_functions(meta: &RunMeta) -> Vec<String> {
    if meta.settings.scope != Scope::Memory {
        return Vec::new();
    }
    let runtime = meta
        .libraries
        .iter()
        .find(|library| library.path.to_string().ends_with(RUNTIME));
    let read = |file: &FileIdentity| fs::read(file.path.as_os_str());
    let found = runtime.and_then(|runtime| {
        let (program, runtime) = (read(&meta.executable).ok()?, read(runtime).ok()?);
        instrumentor::imports::unobserved(&program, &runtime).ok()
    });
    found.unwrap_or_default()
}

/// Where the program's inline assembly accesses memory in ways that are not observed, though other accesses are.
fn unobserved_assembly(run: &RunDirectory, meta: &RunMeta) -> Vec<String> {
    if meta.settings.scope == Scope::Inputs {
        return Vec::new();
    }
    SiteBook::load(run).unobserved_assembly()
}

/// The first `shown` of them, and how many more there are.
pub fn some_of(names: &[String], shown: usize) -> String {
    let first = names[..names.len().min(shown)].join(", ");
    match names.len().saturating_sub(shown) {
        0 => first,
        more => format!("{first} and {more} more (see --json)"),
    }
}

/// The names of variables, with commas between them.
pub fn names_of(variables: &[Text]) -> String {
    let names: Vec<String> = variables.iter().map(Text::to_string).collect();
    names.join(", ")
}

pub fn short(hash: &str) -> &str {
    hash.get(..16).unwrap_or(hash)
}

pub fn remove(arguments: &RemoveArguments) -> Ended {
    let store = Store::from_environment()?;
    let runs = if arguments.all {
        store.list()?
    } else {
        // All names are looked up before anything is deleted.
        arguments
            .runs
            .iter()
            .map(|name| store.open(Some(name)))
            .collect::<Result<Vec<_>, _>>()?
    };
    let (mut removed, mut first_failure) = (Vec::new(), None);
    for run in runs {
        match store.remove(&run) {
            Ok(()) => removed.push(run.name()),
            Err(error) => {
                let failure = Failure::from(error);
                say(format_args!("{}", failure.sentence));
                first_failure.get_or_insert(failure.status);
            }
        }
    }
    if arguments.json {
        print_json(&json!(removed))?;
    } else {
        removed.iter().for_each(|name| say(format_args!("removed {name}")));
    }
    Ok(first_failure.unwrap_or(0))
}
