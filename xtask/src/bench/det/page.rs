//! The tables and figures of what deterministic runs cost.
use super::Row;
use super::guest::Lesson;
use super::guest::START_UP;
use crate::bench::bars::Bar;
use crate::bench::bars::Bars;
use crate::bench::bars::Group;
use crate::bench::table::geometric_mean;
use crate::bench::table::grouped;
use crate::bench::table::median;

/// Native processor time per hand-over that stands for 10,000 instructions: no guest executes fewer than one in a nanosecond.
const SELDOM_S: f64 = 10_000.0 * 1e-9;

/// What the samples of a row come to.
struct Figures<'a> {
    name: &'a str,
    native_s: f64,
    /// Wall time against the native run of the same repetition: quartiles.
    hybrid: [f64; 3],
    sync_only: [f64; 3],
    /// Hybrid against synchronisation only.
    of_sync_only: [f64; 3],
    /// Hybrid against native, both without what starting takes.
    without_start: f64,
    hand_overs: [u64; 3],
    /// Native processor time per hand-over.
    between_s: f64,
}

/// A value beside another one of the same repetition.
fn ratios(values: &[f64], to: &[f64]) -> [f64; 3] {
    quartiles(values.iter().zip(to).map(|(value, to)| value / to).collect())
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| match values.len() {
        0 => f64::NAN,
        n => values[((n - 1) * quarter + 2) / 4],
    };
    [at(1), median(values.iter().copied()), at(3)]
}

fn median_of(row: &Row, figure: impl Fn(&Lesson) -> f64) -> f64 {
    median(row.lessons.iter().map(figure))
}

impl Figures<'_> {
    fn of<'a>(row: &'a Row, start: &Row) -> Figures<'a> {
        let measured = &row.measured;
        let typical = |samples: &[f64]| median(samples.iter().copied());
        let above = |of: fn(&Row) -> &[f64]| typical(of(row)) - typical(of(start));
        let mut hand_overs: Vec<u64> = row.lessons.iter().map(|lesson| lesson.hand_overs).collect();
        hand_overs.sort_unstable();
        let middle = hand_overs.get(hand_overs.len() / 2).copied().unwrap_or(0);
        Figures {
            name: row.guest.name,
            native_s: typical(&measured.native),
            hybrid: ratios(&measured.hybrid, &measured.native),
            sync_only: ratios(&measured.sync_only, &measured.native),
            of_sync_only: ratios(&measured.hybrid, &measured.sync_only),
            without_start: above(|row| &row.measured.hybrid) / above(|row| &row.measured.native),
            hand_overs: [
                hand_overs.first().copied().unwrap_or(0),
                middle,
                hand_overs.last().copied().unwrap_or(0),
            ],
            between_s: typical(&measured.native_cpu) / middle.max(1) as f64,
        }
    }

    fn is_seldom(&self) -> bool {
        self.between_s >= SELDOM_S
    }
}

/// All but the guest that does nothing.
fn figures_of(rows: &[Row]) -> Vec<Figures<'_>> {
    let Some(start) = rows.iter().find(|row| row.guest.name == START_UP) else {
        return Vec::new();
    };
    let guests = rows.iter().filter(|row| row.guest.name != START_UP);
    guests.map(|row| Figures::of(row, start)).collect()
}

pub fn text(rows: &[Row]) -> String {
    let figures = figures_of(rows);
    [speed(rows, &figures), learning(rows)].join("\n\n")
}

/// Figures 11 and 12.
fn speed(rows: &[Row], figures: &[Figures<'_>]) -> String {
    let mut lines = vec![
        "| guest | native | hybrid | sync only | hybrid / sync only | hybrid without start-up | hand-overs | native CPU per hand-over |".to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for figure in figures {
        let [fewest, hand_overs, most] = figure.hand_overs;
        lines.push(format!(
            "| {} | {:.0} ms | {} | {} | {} | {:.2}× | {} ({} to {}) | {} |",
            figure.name,
            figure.native_s * 1e3,
            spread(&figure.hybrid),
            spread(&figure.sync_only),
            spread(&figure.of_sync_only),
            figure.without_start,
            grouped(hand_overs),
            grouped(fewest),
            grouped(most),
            duration(figure.between_s),
        ));
    }
    let seldom: Vec<&Figures<'_>> = figures.iter().filter(|figure| figure.is_seldom()).collect();
    let name = format!("the {} with a hand-over in 10 µs or more", seldom.len());
    for (name, figures) in [(name, seldom), ("all".to_owned(), figures.iter().collect())] {
        let mean = |of: fn(&Figures<'_>) -> f64| geometric_mean(figures.iter().map(|figure| of(figure)).collect());
        lines.push(format!(
            "| **geometric mean, {name}** | | **{:.2}×** | **{:.2}×** | **{:.2}×** | **{:.2}×** | | |",
            mean(|figure| figure.hybrid[1]),
            mean(|figure| figure.sync_only[1]),
            mean(|figure| figure.of_sync_only[1]),
            mean(|figure| figure.without_start),
        ));
    }
    if let Some(start) = rows.iter().find(|row| row.guest.name == START_UP) {
        let ms = |samples: &[f64]| median(samples.iter().copied()) * 1e3;
        lines.push(format!(
            "\nStarting and ending takes {:.1} ms natively, {:.1} ms enforced: the time of a guest with two threads that does next to nothing, \
             which the sixth column leaves out.",
            ms(&start.measured.native),
            ms(&start.measured.hybrid),
        ));
    }
    lines.join("\n")
}

/// Figure 13.
fn learning(rows: &[Row]) -> String {
    let mut lines = vec![
        "| guest | `refrain record` | recorded to learn | to learn / `refrain record` | solved | traced | relaxed and checked | accesses | synchronisations | constraints |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut columns: [Vec<f64>; 3] = Default::default();
    for row in rows.iter().filter(|row| row.guest.name != START_UP) {
        let values = learning_ratios(row);
        columns
            .iter_mut()
            .zip(values)
            .for_each(|(column, value)| column.push(value));
        let [recorded, learned, more] = values;
        let seconds = |figure: fn(&Lesson) -> f64| duration(median_of(row, figure));
        let number = |figure: fn(&Lesson) -> u64| grouped(median_of(row, |lesson| figure(lesson) as f64) as u64);
        lines.push(format!(
            "| {} | {recorded:.2}× | {learned:.2}× | {more:.2}× | {} | {} | {} | {} | {} | {} |",
            row.guest.name,
            seconds(|lesson| lesson.solving_s),
            seconds(|lesson| lesson.tracing_s),
            seconds(|lesson| lesson.relaxing_s),
            number(|lesson| lesson.accesses),
            number(|lesson| lesson.steps),
            number(|lesson| lesson.constraints),
        ));
    }
    let [recorded, learned, more] = columns.map(geometric_mean);
    lines.push(format!(
        "| **geometric mean** | **{recorded:.2}×** | **{learned:.2}×** | **{more:.2}×** | | | | | | |"
    ));
    lines.join("\n")
}

/// Wall time of an ordinary recording, and of one to learn from, against native code; and of the latter against the former.
fn learning_ratios(row: &Row) -> [f64; 3] {
    let native = &row.measured.recorded_native;
    let learned: Vec<f64> = row.lessons.iter().map(|lesson| lesson.recording_s).collect();
    [
        ratios(&row.measured.recorded, native)[1],
        ratios(&learned, native)[1],
        ratios(&learned, &row.measured.recorded)[1],
    ]
}

fn spread([low, middle, high]: &[f64; 3]) -> String {
    format!("**{middle:.2}×** ({low:.2} to {high:.2})")
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

/// Figures 11 and 13; figure 12 is the difference of two bars of the former.
pub fn figures(rows: &[Row]) -> Vec<(&'static str, String)> {
    let label = |value: f64| format!("{value:.2}×");
    let bar = |colour: usize, value: f64| Bar {
        parts: vec![(colour, value)],
        label: label(value),
    };
    let chart = |title: &str, legend: Vec<(usize, &'static str)>, groups| Bars {
        title: title.to_owned(),
        x_label: "wall time, of the native run's",
        tick: |value| format!("{value}×"),
        legend,
        groups,
    };
    let speed = figures_of(rows).into_iter().map(|figure| Group {
        name: figure.name.to_owned(),
        bars: vec![bar(0, figure.hybrid[1]), bar(1, figure.sync_only[1])],
    });
    let speed = speed.collect();
    let learning = rows.iter().filter(|row| row.guest.name != START_UP).map(|row| {
        let [recorded, learned, _] = learning_ratios(row);
        Group {
            name: row.guest.name.to_owned(),
            bars: vec![bar(0, learned), bar(1, recorded)],
        }
    });
    let speed = chart(
        "Time of enforced runs (PEREGRINE, figures 11 and 12)",
        vec![(0, "hybrid"), (1, "synchronisation only")],
        speed,
    );
    let learning = chart(
        "Time of recording (PEREGRINE, figure 13)",
        vec![(0, "recorded to learn"), (1, "refrain record")],
        learning.collect(),
    );
    vec![("det-speed.svg", speed.svg()), ("det-learning.svg", learning.svg())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_samples() {
        assert_eq!(quartiles(vec![5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![2.0]), [2.0, 2.0, 2.0]);
        assert!(quartiles(Vec::new())[1].is_nan());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!([1.5e-6, 0.25, 3.0].map(duration), ["1.5 µs", "250 ms", "3.0 s"]);
    }
}
