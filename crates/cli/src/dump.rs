//! `refrain dump`
use crate::Ended;
use crate::Failure;
use crate::arguments::DumpArguments;
use crate::output::print;
use crate::output::print_json;
use crate::output::say;
use log_format::Log;
use replayer::Input;
use replayer::Overview;
use replayer::SiteBook;
use replayer::Symbols;
use replayer::What;
use replayer::describe;
use run_model::Kind;
use run_model::Record;
use run_store::Store;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::io::Write;

/// Records shown on each side of `--around`.
const AROUND: usize = 10;

pub fn dump(arguments: &DumpArguments) -> Ended {
    let store = Store::from_environment()?;
    let run = store.open(arguments.run.as_deref())?;
    let overview = Overview::load(&run)?;
    let sites = SiteBook::load(&run);
    let threads = overview.slots.len() as u32;
    if let Some(thread) = arguments.thread
        && thread >= threads
    {
        return Err(Failure::usage(format!(
            "{} has no thread {thread}; it has {threads} threads",
            run.name()
        )));
    }
    let threads = (0..threads).filter(|thread| arguments.thread.is_none_or(|wanted| wanted == *thread));
    let mut damages = Vec::new();
    if arguments.count {
        let mut counts = Counts::default();
        for thread in threads {
            let (log, damage) = replayer::load_prefix(&run, thread);
            damages.extend(damage);
            counts.events += overview.slots[thread as usize].count;
            log.records.iter().for_each(|record| counts.add(record));
        }
        return counts.show(arguments.json).map(|()| ended(&damages));
    }
    let symbols = if arguments.inputs {
        Symbols::load(&run)
    } else {
        Symbols::default()
    };
    print(|out| {
        for thread in threads {
            if arguments.inputs {
                let (inputs, damage) = replayer::load_inputs(&run, thread);
                damages.extend(damage);
                write_inputs(out, thread, &inputs, &symbols, arguments)?;
                continue;
            }
            let (log, damage) = replayer::load_prefix(&run, thread);
            damages.extend(damage);
            let shown = selected(&log.records, arguments, |record| record.event);
            if arguments.json {
                shown
                    .iter()
                    .try_for_each(|record| writeln!(out, "{}", record_json(thread, record, &sites)))?;
            } else {
                write_thread(out, &log, overview.slots[thread as usize].count, shown, &sites)?;
            }
        }
        Ok(())
    })?;
    Ok(ended(&damages))
}

fn ended(damages: &[impl Display]) -> u8 {
    damages.iter().for_each(|damage| say(format_args!("{damage}")));
    if damages.is_empty() { 0 } else { 3 }
}

/// How much of what there is.
#[derive(Default)]
struct Counts {
    events: u64,
    /// Records and their sources, by kind.
    kinds: BTreeMap<Kind, (u64, u64)>,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        let (records, sources) = self.kinds.entry(record.kind).or_default();
        *records += 1;
        *sources += record.sources.len() as u64;
    }

    fn show(&self, as_json: bool) -> Result<(), Failure> {
        let rows = Kind::ALL.map(|kind| (kind_name(kind), self.kinds.get(&kind).copied().unwrap_or_default()));
        if as_json {
            let kinds: serde_json::Map<String, Value> = rows
                .into_iter()
                .map(|(name, (records, sources))| (name, json!({ "records": records, "sources": sources })))
                .collect();
            return print_json(&json!({ "events": self.events, "kinds": kinds }));
        }
        print(|out| {
            writeln!(out, "{} events", self.events)?;
            for (name, (records, sources)) in rows.iter().filter(|(_, (records, _))| *records > 0) {
                writeln!(out, "  {name:<8} {records:>12} records from {sources} sources")?;
            }
            Ok(())
        })
    }
}

fn kind_name(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

fn selected<'a, T>(records: &'a [T], arguments: &DumpArguments, event_of: impl Fn(&T) -> u64) -> &'a [T] {
    let mut shown = records;
    if let Some(event) = arguments.around {
        let from = records.partition_point(|record| event_of(record) < event);
        let to = records.partition_point(|record| event_of(record) <= event);
        shown = &records[from.saturating_sub(AROUND)..to.saturating_add(AROUND).min(records.len())];
    }
    &shown[..shown.len().min(arguments.limit.unwrap_or(usize::MAX))]
}

fn write_thread(out: &mut dyn Write, log: &Log, events: u64, shown: &[Record], sites: &SiteBook) -> io::Result<()> {
    writeln!(
        out,
        "thread {}: {events} events, {} records",
        log.thread.0,
        log.records.len()
    )?;
    for record in shown {
        writeln!(out, "  {:>10}  {}", record.event, describe::record(record, sites))?;
    }
    if shown.len() < log.records.len() {
        writeln!(out, "  … {} of {} records shown", shown.len(), log.records.len())?;
    }
    Ok(())
}

fn write_inputs(
    out: &mut dyn Write,
    thread: u32,
    inputs: &[Input],
    symbols: &Symbols,
    arguments: &DumpArguments,
) -> io::Result<()> {
    let place = |input: &Input| match input.label {
        0 => None,
        label => Some(symbols.function(label).unwrap_or_else(|| format!("{label:#x}"))),
    };
    let shown = selected(inputs, arguments, |input| input.event);
    if arguments.json {
        return shown.iter().try_for_each(|input| {
            let (call, signal) = match input.what {
                What::Call(number) => (Some(replayer::call_name(number)), None),
                What::Sync(op) => (Some(describe::sync(op)), None),
                What::Signal(signal) => (None, Some(signal)),
                What::Rest => (None, None),
            };
            let (event, result, bytes, time) = (input.event, input.result, input.bytes, input.time);
            let line = json!({ "thread": thread, "event": event, "call": call, "signal": signal, "result": result,
                               "bytes": bytes, "time": time, "place": place(input) });
            writeln!(out, "{line}")
        });
    }
    writeln!(out, "thread {thread}: {} inputs", inputs.len())?;
    for input in shown {
        write!(out, "  {:>10}  ", input.event)?;
        match input.what {
            What::Call(number) => write!(out, "{} = {}", replayer::call_name(number), input.result)?,
            What::Sync(op) => write!(out, "{} = {}", describe::sync(op), input.result)?,
            What::Signal(signal) => write!(out, "signal {signal}")?,
            What::Rest => write!(out, "comes to a stop")?,
        }
        if input.bytes != 0 {
            write!(out, ", {} bytes", input.bytes)?;
        }
        match place(input) {
            Some(place) => writeln!(out, " at {place}")?,
            None => writeln!(out)?,
        }
    }
    if shown.len() < inputs.len() {
        writeln!(out, "  … {} of {} inputs shown", shown.len(), inputs.len())?;
    }
    Ok(())
}

fn record_json(thread: u32, record: &Record, sites: &SiteBook) -> Value {
    let place = sites.place(record.site).map(
        |place| json!({ "file": place.file, "line": place.line, "column": place.column, "function": place.function }),
    );
    json!({
        "thread": thread,
        "event": record.event,
        "kind": kind_name(record.kind),
        "what": describe::operation(record.kind, record.op, record.access),
        "object": format!("{:#x}", record.object),
        "value": record.value,
        "site": record.site.0,
        "place": place,
        "sources": record.sources.iter().map(|s| json!({ "thread": s.thread.0, "count": s.count })).collect::<Vec<_>>(),
    })
}
