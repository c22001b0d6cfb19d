//! Records and waits in words and source lines.
use crate::sites::SiteBook;
use run_model::Access;
use run_model::Extent;
use run_model::Kind;
use run_model::Op;
use run_model::Points;
use run_model::Record;
use std::fmt::Write;

/// One line: what, on which object, with which result, where, and after what.
pub fn record(record: &Record, sites: &SiteBook) -> String {
    let mut line = operation(record.kind, record.op, record.access);
    let element = sites.element(record.object).filter(|_| record.kind == Kind::Vector);
    match element {
        Some(name) => push(&mut line, format_args!(" {name}")),
        None if record.object != 0 => push(&mut line, format_args!(" {:#x}", record.object)),
        None => {}
    }
    match record.kind {
        Kind::Sync => push(&mut line, format_args!(" = {}", record.value)),
        Kind::Share | Kind::Seen | Kind::Exit => push(&mut line, format_args!(" epoch {}", record.value)),
        Kind::Spawn => push(&mut line, format_args!(" thread {}", record.value)),
        Kind::Read | Kind::Write => {
            let unknown = Extent::unpack(record.access, record.object).is_some_and(|extent| extent.unknown);
            let value = if unknown {
                "?".to_owned()
            } else {
                record.value.to_string()
            };
            push(&mut line, format_args!(" = {value} version {}", record.version));
        }
        Kind::Take | Kind::Run | Kind::Start | Kind::Vector => {}
    }
    if let Some(place) = sites.place(record.site) {
        push(&mut line, format_args!(" at {place}"));
    }
    if !record.sources.is_empty() {
        push(&mut line, format_args!(" after {}", points(&record.sources)));
    }
    line
}

/// "take", "mutex lock", "run of reads" …
pub fn operation(kind: Kind, op: Op, access: Access) -> String {
    match kind {
        Kind::Sync => sync(op),
        Kind::Run => {
            let what = match (access.reads(), access.writes()) {
                (true, true) => "update",
                (false, true) => "overwrite",
                _ => "read",
            };
            let atomic = if access.0 & Access::ATOMIC != 0 { "atomic " } else { "" };
            format!("{atomic}{what} of cell")
        }
        Kind::Take => "take chunk".to_owned(),
        Kind::Share => "share chunk".to_owned(),
        Kind::Seen => "see".to_owned(),
        Kind::Spawn => "create".to_owned(),
        Kind::Start => "start".to_owned(),
        Kind::Exit => "end".to_owned(),
        Kind::Vector => "access element".to_owned(),
        Kind::Read => "read".to_owned(),
        Kind::Write => "write".to_owned(),
    }
}

/// "mutex lock"
pub fn sync(op: Op) -> String {
    words(&format!("{op:?}"))
}

/// `T2@17` is the moment at which thread 2 has completed 17 events.
pub fn points(points: &Points) -> String {
    let shown: Vec<String> = points
        .iter()
        .map(|point| format!("T{}@{}", point.thread.0, point.count))
        .collect();
    shown.join(" ")
}

/// `MutexLock` is "mutex lock".
fn words(name: &str) -> String {
    let mut text = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

pub(crate) fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::Point;
    use run_model::SiteId;
    use run_model::ThreadIndex;

    #[test]
    fn records_read_like_sentences() {
        let lock = Record {
            event: 4,
            kind: Kind::Sync,
            op: Op::MutexTryLock,
            object: 0x40,
            value: 16,
            site: SiteId(0),
            sources: Points::one(Point {
                thread: ThreadIndex(2),
                count: 17,
            }),
            ..Record::default()
        };
        assert_eq!(
            record(&lock, &SiteBook::default()),
            "mutex try lock 0x40 = 16 after T2@17"
        );
        let run = Record {
            kind: Kind::Run,
            access: Access(Access::WRITES),
            object: 8,
            ..Record::default()
        };
        assert_eq!(record(&run, &SiteBook::default()), "overwrite of cell 0x8");
    }
}
