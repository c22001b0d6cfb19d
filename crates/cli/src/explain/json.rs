//! The report for programs.
use crate::explain::sentences;
use crate::explain::sentences::Names;
use failure_report::Awaited;
use failure_report::Ending;
use failure_report::Finding;
use failure_report::Order;
use failure_report::Read;
use failure_report::Report;
use failure_report::Step;
use failure_report::Wait;
use failure_report::What;
use failure_report::Writer;
use replayer::Explained;
use replayer::Place;
use serde_json::Value;
use serde_json::json;

pub fn explained(explained: &Explained, names: &Names<'_>) -> Value {
    let mut value = json!({
        "run": explained.loaded.run.name(),
        "directory": explained.loaded.run.path().to_string_lossy(),
        "identical": explained.verdict.identical,
        "checks": explained.verdict.checks,
        "divergence": explained.verdict.divergence,
        "notes": explained.notes,
    });
    if let Some(report) = &explained.report {
        let more = report_json(report, names);
        if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
            fields.extend(more);
        }
    }
    value
}

fn report_json(report: &Report, names: &Names<'_>) -> Value {
    let findings: Vec<Value> = report.findings.iter().map(|found| finding(found, names)).collect();
    json!({
        "ending": ending(report.ending),
        "anchor": report.anchor.map(|found| step(&found, names)),
        "tried": report.tried,
        "conclusion": sentences::conclusion(report, names),
        "culprit": sentences::culprit(report).and(findings.first()),
        "findings": findings,
        "fault": report.fault.map(|fault| json!({
            "step": fault.step.map(|found| step(&found, names)),
            "access": fault.access.map(|found| step(&found, names)),
            "pointer": fault.pointer.map(|found| step(&found, names)),
        })),
        "reads": report.reads.iter().map(|found| read(found, names)).collect::<Vec<_>>(),
        "waits": report.waits.iter().map(|found| wait(found, names)).collect::<Vec<_>>(),
        "cycle": report.cycle,
        "races": report.races.iter().map(|race| json!({
            "first": step(&race.first, names),
            "second": step(&race.second, names),
            "times": race.times,
        })).collect::<Vec<_>>(),
        "steps": report.steps,
        "private_lost": report.private_lost,
        "shared_lost": report.shared_lost,
    })
}

fn ending(ending: Ending) -> Value {
    match ending {
        Ending::Signal { thread, signal } => {
            json!({ "how": "signal", "thread": thread, "signal": sentences::signal_name(signal) })
        }
        Ending::Status { thread, status } => json!({ "how": "status", "thread": thread, "status": status }),
        Ending::Stopped => json!({ "how": "stopped" }),
        Ending::Success => json!({ "how": "success" }),
    }
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Same => "same thread",
        Order::Synchronised => "synchronised",
        Order::Unordered => "unordered",
        Order::Unknown => "unknown",
    }
}

fn step(step: &Step, names: &Names<'_>) -> Value {
    let before = names.before(step).and_then(|before| names.place(before));
    let place = names.place(step).map(|place| {
        let mut fields = place_json(&place);
        fields["library"] = match &place.library {
            Some((file, line)) => json!({ "file": file, "line": line }),
            None => Value::Null,
        };
        fields["called_after"] = before.as_ref().map_or(Value::Null, place_json);
        fields
    });
    let (what, address, bytes, value) = match step.entry.what {
        What::Access(access) => {
            let what = match (access.reads, access.writes) {
                (true, true) => "update",
                (false, true) => "write",
                _ => "read",
            };
            (what, Some(access.address), Some(access.bytes), access.value)
        }
        What::Free { address, bytes } => ("free", Some(address), Some(bytes), None),
        What::Allocate { address, bytes } => ("allocate", Some(address), Some(bytes), None),
        What::Sync { object, .. } => ("synchronisation", Some(object), None, None),
        What::Stopped { object, .. } => ("stopped", Some(object), None, None),
        What::Fatal { address, .. } => ("fatal signal", Some(address), None, None),
        What::Spawn { .. } => ("create", None, None, None),
        What::Start => ("start", None, None, None),
        What::Exit => ("end", None, None, None),
        What::Thrown { is_panic: true } => ("panic", None, None, None),
        What::Thrown { is_panic: false } => ("throw", None, None, None),
        What::Caught => ("catch", None, None, None),
        What::Exiting => ("exit", None, None, None),
        What::Skipping => ("skipping", None, None, None),
    };
    json!({
        "thread": step.thread,
        "event": step.entry.event,
        "what": what,
        "address": address.map(|address| format!("{address:#x}")),
        "variable": address.and_then(|address| names.symbols.name(address)),
        "bytes": bytes,
        "value": value.map(|value| format!("{value:#x}")),
        "before": before_update(step).map(|value| format!("{value:#x}")),
        "atomic": step.access().is_some_and(|access| access.atomic),
        "place": place,
    })
}

/// What an atomic update found.
fn before_update(step: &Step) -> Option<u64> {
    step.access()
        .filter(|access| access.reads && access.writes)
        .and_then(sentences::found)
}

fn place_json(place: &Place) -> Value {
    json!({ "file": place.file, "line": place.line, "column": place.column, "function": place.function })
}

fn finding(found: &Finding, names: &Names<'_>) -> Value {
    json!({
        "pattern": sentences::pattern(found.pattern),
        "sentence": sentences::finding(found, names),
        "mine": step(&found.mine, names),
        "theirs": step(&found.theirs, names),
        "again": found.again.map(|again| step(&again, names)),
        "order": order(found.order),
        "depth": found.depth,
    })
}

fn read(read: &Read, names: &Names<'_>) -> Value {
    let (writer, ordered) = match &read.writer {
        Writer::Step(writer, ordered) => (step(writer, names), order(*ordered)),
        Writer::Nobody => (Value::Null, "no observed write"),
        Writer::Unknown => (Value::Null, "unknown"),
    };
    json!({ "read": step(&read.step, names), "writer": writer, "order": ordered })
}

fn wait(wait: &Wait, names: &Names<'_>) -> Value {
    let holders: Vec<Value> = match &wait.awaited {
        Awaited::Lock { holders, .. } => holders
            .iter()
            .map(|holder| json!({ "thread": holder.thread, "taken": step(&holder.taken, names) }))
            .collect(),
        _ => Vec::new(),
    };
    json!({
        "thread": wait.thread,
        "sentence": sentences::wait(wait, names),
        "at": wait.step.map(|found| step(&found, names)),
        "holders": holders,
    })
}
