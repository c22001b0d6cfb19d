//! `refrain trace`: everything that the threads of one run did.
use crate::Ended;
use crate::Failure;
use crate::arguments::TraceArguments;
use crate::output::count;
use crate::output::print;
use crate::output::say;
use crate::output::size;
use crate::progress::ProgressLine;
use replayer::SiteBook;
use replayer::call_name;
use replayer::demangled;
use replayer::deterministic::Follower;
use replayer::deterministic::KeptTrace;
use replayer::deterministic::KeptTraceError;
use replayer::deterministic::Subject;
use run_model::Kind;
use run_model::TraceEntry;
use run_model::WholeEntry;
use std::io;
use std::io::Write;
use std::path::Path;

pub fn trace(arguments: &TraceArguments) -> Ended {
    match (&arguments.text, &arguments.check, &arguments.output) {
        (Some(directory), ..) => show(directory, arguments.thread),
        (_, Some(directory), _) => check(directory),
        (.., Some(directory)) => make(arguments, directory),
        _ => Err(Failure::usage(
            "say where the trace is to be kept: refrain trace -o DIR -- PROG ARGS",
        )),
    }
}

fn make(arguments: &TraceArguments, directory: &Path) -> Ended {
    let subject = Subject::of(arguments.command.clone())?;
    let traced = subject.trace_whole(directory, &ProgressLine::new())?;
    if let Some(signal) = traced.interrupted {
        say(format_args!("stopped by signal {signal}; there is no trace"));
        return Ok((128 + signal) as u8);
    }
    say(format_args!(
        "traced {} in {} ({}): refrain trace --text {}",
        count(traced.threads as u64, "thread"),
        directory.display(),
        size(traced.bytes),
        directory.display()
    ));
    if traced.is_cut {
        say_cut();
    }
    Ok(traced.outcome.exit_status() as u8)
}

fn say_cut() {
    say(format_args!(
        "the trace ends before the run does: there was no room for more of it; make room, or trace a shorter run"
    ));
}

impl From<KeptTraceError> for Failure {
    fn from(error: KeptTraceError) -> Failure {
        match error {
            KeptTraceError::Run(error) => error.into(),
            other => Failure {
                sentence: other.to_string(),
                status: 3,
            },
        }
    }
}

/// Follows all threads through the code that is kept in the program.
fn check(directory: &Path) -> Ended {
    let kept = KeptTrace::open(directory)?;
    let mut astray = 0;
    for thread in 0..kept.threads {
        let Some(entries) = kept.thread(thread)? else { continue };
        let mut follower = Follower::new(&kept.units);
        let mut way = Ok(());
        for entry in entries {
            let entry = entry.map_err(|error| kept.unreadable(thread, error))?;
            way = follower.step(&entry);
            if way.is_err() {
                break;
            }
        }
        let followed = follower.followed;
        let found = format!(
            "t{thread}  {} in {}, {} between them; {}, {} accesses and events",
            count(followed.blocks, "block"),
            count(followed.activations, "activation"),
            count(followed.edges, "way"),
            count(followed.values, "value"),
            followed.steps,
        );
        match way {
            Ok(()) => print(|out| writeln!(out, "{found}: as the code allows"))?,
            Err(why) => {
                astray += 1;
                print(|out| writeln!(out, "{found}; then it goes astray: {why}"))?;
            }
        }
    }
    if kept.is_cut {
        say_cut();
    }
    Ok(u8::from(astray > 0))
}

/// The text, thread by thread.
fn show(directory: &Path, wanted: Option<u32>) -> Ended {
    let kept = KeptTrace::open(directory)?;
    if let Some(thread) = wanted.filter(|thread| *thread >= kept.threads) {
        return Err(Failure::usage(format!(
            "there is no thread {thread} in {}; it has {}",
            directory.display(),
            count(u64::from(kept.threads), "thread")
        )));
    }
    let sites = SiteBook::load(&kept.run);
    let mut first_failure = None;
    print(|out| {
        for thread in (0..kept.threads).filter(|thread| wanted.is_none_or(|wanted| wanted == *thread)) {
            writeln!(out, "t{thread}")?;
            if let Err(failure) = write_thread(out, &kept, &sites, thread)? {
                first_failure.get_or_insert(failure);
            }
        }
        Ok(())
    })?;
    if kept.is_cut {
        say_cut();
    }
    first_failure.map_or(Ok(0), |failure| Err(failure.into()))
}

fn write_thread(
    out: &mut dyn Write,
    kept: &KeptTrace,
    sites: &SiteBook,
    thread: u32,
) -> io::Result<Result<(), KeptTraceError>> {
    let entries = match kept.thread(thread) {
        Ok(entries) => entries,
        Err(error) => return Ok(Err(error)),
    };
    for entry in entries.into_iter().flatten() {
        match entry {
            Ok(entry) => write_entry(out, kept, sites, &entry)?,
            Err(error) => return Ok(Err(kept.unreadable(thread, error))),
        }
    }
    Ok(Ok(()))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn write_entry(out: &mut dyn Write, kept: &KeptTrace, sites: &SiteBook, entry: &WholeEntry) -> io::Result<()> {
    match entry {
        WholeEntry::Step(step) => write_step(out, sites, step),
        WholeEntry::Block { unit, block } => {
            let code = kept.units.find(*unit);
            let function = code.and_then(|code| code.function_of(*block));
            let name = function.map_or("?".to_owned(), |function| demangled(&function.name));
            let enters = function.is_some_and(|function| function.blocks.start == *block);
            let line = code.and_then(|code| code.line(*block));
            let line = line.map_or(String::new(), |(file, line)| format!("  {}:{line}", file_name(&file)));
            let what = if enters { "enter" } else { "block" };
            writeln!(out, "  {what} {block} {name}{line}")
        }
        WholeEntry::Left => writeln!(out, "  leave"),
        WholeEntry::Value {
            value, offset, data, ..
        } => {
            let part = if *offset == 0 {
                String::new()
            } else {
                format!("+{offset}")
            };
            match data.word() {
                Some(word) => writeln!(out, "      value {value}{part} = {word:#x}"),
                None => writeln!(out, "      value {value}{part} = {data:?}"),
            }
        }
        WholeEntry::Call { number, result } => writeln!(out, "    {} = {result}", call_name(*number)),
        WholeEntry::Brought { address, data } => {
            writeln!(
                out,
                "      brought {} to {address:#x}: {data:?}",
                count(data.bytes().len() as u64, "byte")
            )
        }
    }
}

fn write_step(out: &mut dyn Write, sites: &SiteBook, step: &TraceEntry) -> io::Result<()> {
    let line = |site| {
        let place = sites.place(site);
        place.map_or(String::new(), |place| {
            format!("  {}:{}", file_name(&place.file), place.line)
        })
    };
    match step {
        TraceEntry::Unordered => writeln!(out, "    event"),
        TraceEntry::Ordered { sequence, record } => {
            let what = match record.kind {
                Kind::Sync => format!("{:?}", record.op),
                kind => format!("{kind:?}"),
            };
            writeln!(out, "    {what} {:#x}{}  @{sequence}", record.object, line(record.site))
        }
        TraceEntry::Access {
            sequence,
            address,
            bytes,
            reads,
            writes,
            at,
        } => {
            let what = match (reads, writes) {
                (true, true) => "update",
                (false, true) => "write",
                _ => "read",
            };
            let bytes = count(u64::from(*bytes), "byte");
            writeln!(out, "    {what} {bytes} at {address:#x}{}  @{sequence}", line(at.site))
        }
    }
}
