//! The papers' figures, drawn from what was measured here.
use super::speed::Row;
use super::statistics::Breakdown;
use super::statistics::TIME_FLOOR;
use super::variant::Variant;
use crate::bench::bars::Bar;
use crate::bench::bars::Bars;
use crate::bench::bars::Group;

/// What a bar of a normalised chart shows, and its colour.
type Shown = (&'static str, usize, fn(&Row) -> Option<f64>);

const TIMES: [Shown; 3] = [
    ("LEAP", Variant::Leap.colour(), |row| row.overhead(Variant::Leap)),
    ("STRIDE", Variant::Stride.colour(), |row| row.overhead(Variant::Stride)),
    ("Light", Variant::Light.colour(), |row| row.overhead(Variant::Light)),
];
const SIZES: [Shown; 4] = [
    ("LEAP, accesses", 5, Row::accesses_of_leap),
    ("LEAP, runs", Variant::Leap.colour(), |row| row.longs(Variant::Leap)),
    ("STRIDE", Variant::Stride.colour(), |row| row.longs(Variant::Stride)),
    ("Light", Variant::Light.colour(), |row| row.longs(Variant::Light)),
];
const REST: usize = 0;
const BY_O2: usize = 1;
const BY_O1: usize = 4;

/// Light's figures 4, 5, 7a and 7b.
pub fn of_speed(rows: &[Row], threads: u32) -> Vec<(String, String)> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).collect();
    let time = normalised(
        &rows,
        format!("Time overhead of recording, {threads} threads (Light, figure 4)"),
        &TIMES,
        |value| format!("{value:.2}"),
    );
    let space = normalised(
        &rows,
        format!("Long integers in the log, {threads} threads (Light, figure 5)"),
        &SIZES,
        thousands,
    );
    let parts_of_time = stacked(
        &rows,
        format!("What O1 and O2 take away of the time overhead, {threads} threads (Light, figure 7a)"),
        |row| row.breakdown(Row::overhead, TIME_FLOOR),
    );
    let parts_of_space = stacked(
        &rows,
        format!("What O1 and O2 take away of the log, {threads} threads (Light, figure 7b)"),
        |row| row.breakdown(Row::log_bytes, 0.0),
    );
    [
        ("methods-time.svg", time),
        ("methods-space.svg", space),
        ("methods-o1-o2-time.svg", parts_of_time),
        ("methods-o1-o2-space.svg", parts_of_space),
    ]
    .map(|(name, bars)| (name.to_owned(), bars.svg()))
    .to_vec()
}

fn normalised(rows: &[&Row], title: String, shown: &[Shown], label: impl Fn(f64) -> String) -> Bars {
    let group = |row: &&Row| {
        let values: Vec<(usize, Option<f64>)> =
            shown.iter().map(|(_, colour, figure)| (*colour, figure(row))).collect();
        // Noise may leave nothing, or less.
        let most = values
            .iter()
            .filter_map(|(_, value)| *value)
            .fold(f64::MIN_POSITIVE, f64::max);
        let bar = |(colour, value): (usize, Option<f64>)| Bar {
            parts: vec![(colour, value.unwrap_or(0.0).max(0.0) / most)],
            label: value.map_or("not measured".to_owned(), &label),
        };
        Group {
            name: row.guest.to_owned(),
            bars: values.into_iter().map(bar).collect(),
        }
    };
    Bars {
        title,
        x_label: "of the most expensive",
        tick: percent,
        legend: shown.iter().map(|(name, colour, _)| (*colour, *name)).collect(),
        groups: rows.iter().map(group).collect(),
    }
}

fn stacked(rows: &[&Row], title: String, breakdown: impl Fn(&Row) -> Option<Breakdown>) -> Bars {
    let group = |row: &&Row| Group {
        name: row.guest.to_owned(),
        bars: vec![match breakdown(row) {
            Some(parts) => Bar {
                parts: lengths(&parts),
                label: format!(
                    "{}, {}, {}",
                    percent(parts.rest),
                    percent(parts.second),
                    percent(parts.first)
                ),
            },
            None => Bar {
                parts: Vec::new(),
                label: "not measured, or nothing to reduce".to_owned(),
            },
        }],
    };
    Bars {
        title,
        x_label: "of Light without both",
        tick: percent,
        legend: vec![
            (REST, "what remains"),
            (BY_O2, "taken away by O2"),
            (BY_O1, "taken away by O1"),
        ],
        groups: rows.iter().map(group).collect(),
    }
}

/// The whole is 100 %, also where an optimisation makes it dearer or noise leaves less than nothing; the label has the truth.
fn lengths(parts: &Breakdown) -> Vec<(usize, f64)> {
    let rest = parts.rest.clamp(0.0, 1.0);
    let with_o2 = (parts.rest + parts.second).clamp(rest, 1.0);
    vec![(REST, rest), (BY_O2, with_o2 - rest), (BY_O1, 1.0 - with_o2)]
}

/// OREO's figure 2: overhead by threads and operations.
pub fn of_bank(rows: &[(String, [Option<f64>; 2])]) -> (String, String) {
    let methods = [Variant::Oreo, Variant::Stride];
    let group = |(name, values): &(String, [Option<f64>; 2])| Group {
        name: name.clone(),
        bars: methods
            .iter()
            .zip(values)
            .map(|(method, value)| Bar {
                parts: vec![(method.colour(), value.unwrap_or(0.0).max(0.0))],
                label: value.map_or("not measured".to_owned(), percent),
            })
            .collect(),
    };
    let bars = Bars {
        title: "Recording overhead of the unsynchronised bank (OREO, figure 2)".to_owned(),
        x_label: "added processor time, of the native run's",
        tick: percent,
        legend: methods.map(|method| (method.colour(), method.name())).to_vec(),
        groups: rows.iter().map(group).collect(),
    };
    ("methods-bank.svg".to_owned(), bars.svg())
}

/// Long integers, in thousands.
fn thousands(value: f64) -> String {
    match value / 1e3 {
        small if small < 10.0 => format!("{small:.2} K"),
        large => format!("{large:.0} K"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_parts_are_always_a_whole() {
        for (first, second, rest) in [(0.6, 0.3, 0.1), (0.9, 0.2, -0.1), (-0.5, 0.5, 1.0), (0.5, -0.7, 1.2)] {
            let lengths = lengths(&Breakdown { first, second, rest });
            assert!(lengths.iter().all(|(_, length)| *length >= 0.0), "{lengths:?}");
            assert!((lengths.iter().map(|(_, length)| length).sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
}
