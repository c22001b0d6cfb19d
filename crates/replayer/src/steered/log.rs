//! The log that a steered replay has to meet: all events of the run, in one order that its gates allow.
use crate::Error;
use crate::Result;
use crate::loaded::LoadedRun;
use run_model::Kind;
use run_model::Record;
use run_model::ThreadIndex;
use run_model::Turns;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Label;
use schedule_search::LoggedEvent;

/// The end of the run, which is no event.
pub const END: Label = Label(1);
pub const FIRST_LABEL: u64 = 2;

/// What a replay has to meet: all events in the order, and the end.
pub fn event_log(loaded: &LoadedRun, order: &Turns) -> Result<EventLog> {
    let mut next = vec![0u64; order.threads as usize];
    let mut records = vec![0usize; order.threads as usize];
    let mut events = Vec::new();
    for run in &order.runs {
        let thread = run.thread.0 as usize;
        let own: &[Record] = loaded.logs.threads.get(thread).map_or(&[], |log| &log.records);
        for _ in 0..run.count {
            let event = next[thread];
            while own.get(records[thread]).is_some_and(|record| record.event < event) {
                records[thread] += 1;
            }
            let record = own.get(records[thread]).filter(|record| record.event == event);
            let kind = match record.map(|record| (record.kind, record.value)) {
                Some((Kind::Spawn, child)) => EventKind::Spawn {
                    child: ThreadIndex(child as u32),
                },
                Some((Kind::Exit, _)) => EventKind::End,
                _ => EventKind::Call,
            };
            events.push(LoggedEvent {
                thread: run.thread,
                index: event,
                label: record.map_or(Label::NONE, |record| Label(FIRST_LABEL + u64::from(record.site.0))),
                kind,
            });
            next[thread] += 1;
        }
    }
    let ended = loaded.ended_in.map_or(0, |(thread, _)| thread);
    events.push(LoggedEvent {
        thread: ThreadIndex(ended),
        index: next.get(ended as usize).copied().unwrap_or(0),
        label: END,
        kind: EventKind::Failure,
    });
    EventLog::new(events).map_err(|why| Error::UnusableOrder {
        run: loaded.run.name(),
        why: why.to_string(),
    })
}

/// Of each thread: where its events are in the order.
pub fn places_of(log: &EventLog) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); log.threads()];
    for (place, event) in log.events().iter().enumerate() {
        places[event.thread.0 as usize].push(place);
    }
    places
}
