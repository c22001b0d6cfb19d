//! Parts of several pages.
use crate::ElementInfo;
use crate::html::Html;
use crate::store::BugRow;
use crate::store::TREND_HOURS;
use partial_logs::Outcome;
use std::collections::BTreeMap;

/// Of a sparkline: a column for so many hours.
const HOURS_EACH: i64 = 8;
const COLUMNS: i64 = TREND_HOURS / HOURS_EACH;
const HEIGHT: u64 = 20;

/// How it ended, where, and what it said.
pub fn failure(page: &mut Html, bug: &BugRow) {
    page.text(ending(bug.failure.outcome));
    if let Some(frame) = bug.failure.frames.first() {
        page.raw(" in <code>").text(frame).raw("</code>");
    }
    if !bug.failure.text.is_empty() {
        page.raw(": ").text(bug.failure.text.lines().next().unwrap_or_default());
    }
}

pub fn ending(outcome: Outcome) -> String {
    match outcome {
        Outcome::Exit(status) => format!("exit status {status}"),
        Outcome::Signal(signal) => match signal_name(signal) {
            Some(name) => name.to_owned(),
            None => format!("signal {signal}"),
        },
        Outcome::TimedOut => "timed out".to_owned(),
    }
}

fn signal_name(signal: u8) -> Option<&'static str> {
    Some(match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// Logs of the last two weeks: a column for eight hours, the highest as high as there is room.
pub fn sparkline(page: &mut Html, hours: &BTreeMap<i64, u64>) {
    let newest = crate::journal::now_ms() / 3_600_000;
    let columns: Vec<u64> = (0..COLUMNS)
        .map(|column| {
            let until = newest - (COLUMNS - 1 - column) * HOURS_EACH;
            hours.range(until - HOURS_EACH + 1..=until).map(|(_, logs)| logs).sum()
        })
        .collect();
    let highest = columns.iter().copied().max().unwrap_or(0).max(1);
    page.raw("<svg width=\"")
        .text(COLUMNS * 3)
        .raw("\" height=\"")
        .text(HEIGHT);
    page.raw("\" role=\"img\" fill=\"currentColor\"><title>Logs of the last two weeks; at most ")
        .text(highest);
    page.raw(" in eight hours</title>");
    for (column, logs) in columns.iter().enumerate() {
        let height = (logs * HEIGHT).div_ceil(highest);
        if height > 0 {
            page.raw("<rect width=\"2\" x=\"")
                .text(column * 3)
                .raw("\" y=\"")
                .text(HEIGHT - height);
            page.raw("\" height=\"").text(height).raw("\"/>");
        }
    }
    page.raw("</svg>");
}

/// An element in words of the source, or its number.
pub fn element(page: &mut Html, id: u32, known: Option<&ElementInfo>) {
    let Some(info) = known else {
        page.raw("element ").text(id);
        return;
    };
    page.text(&info.kind).raw(" <code>").text(&info.name).raw("</code>");
    if !info.file.is_empty() {
        page.raw(" <span class=\"soft\">")
            .text(&info.file)
            .raw(":")
            .text(info.line)
            .raw("</span>");
    }
}

/// In UTC, to the minute.
pub fn time(at_ms: i64) -> String {
    let minutes = at_ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1_440), minutes.rem_euclid(1_440));
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

/// Of so many days after the first of January 1970 (Howard Hinnant, *chrono-compatible low-level date algorithms*).
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(time(0), "1970-01-01 00:00 UTC");
        assert_eq!(time(951_782_399_999), "2000-02-28 23:59 UTC");
        assert_eq!(time(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(time(1_795_046_400_000), "2026-11-19 00:00 UTC");
    }

    #[test]
    fn a_trend_is_as_high_as_there_is_room() {
        let newest = crate::journal::now_ms() / 3_600_000;
        let mut page = Html::default();
        sparkline(&mut page, &BTreeMap::from([(newest, 4), (newest - 20, 1)]));
        let svg = page.finish();
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(
            svg.contains("height=\"20\"/>") && svg.contains("height=\"5\"/>"),
            "{svg}"
        );
    }
}
