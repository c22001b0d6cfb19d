//! The page about time and space: the papers' figures beside ours.
use super::Options;
use super::speed::Row;
use super::statistics;
use super::statistics::Breakdown;
use super::statistics::Summary;
use super::variant::Variant;
use crate::bench::table::bytes;
use crate::bench::table::geometric_mean;
use crate::bench::table::median;

/// Time overhead of the paper: average, median, minimum, maximum of Light, LEAP, STRIDE.
const PAPER_TIME: [[f64; 3]; 4] = [
    [0.44, 4.11, 4.66],
    [0.42, 2.58, 2.92],
    [0.15, 0.17, 0.19],
    [0.73, 17.85, 23.89],
];
/// Thousands of long integers of Light and STRIDE. "Leap and Stride are largely tied in space consumption."
const PAPER_SPACE: [[f64; 2]; 4] = [
    [9_429.0, 135_570.0],
    [1_461.0, 34_566.0],
    [1.0, 30.0],
    [69_559.0, 1_394_378.0],
];
const STATISTICS: [&str; 4] = ["average", "median", "minimum", "maximum"];

pub fn page(rows: &[Row], options: &Options) -> String {
    let first = options.threads[0];
    let mut text = format!(
        "![Time overhead by guest](methods-time.svg)\n\n![Log by guest](methods-space.svg)\n\n\
         Light's figures 4 and 5, with {first} threads: bars are normalised to the most expensive of LEAP, STRIDE and Light, labels \
         are what was measured.\n\n"
    );
    text += &format!(
        "Time overhead (added processor time ÷ native processor time), over {} guests; the paper's are of 24 Java programs with 8 \
         threads on 8 processors:\n\n{}\n\n{}\n\n",
        rows.len() / options.threads.len(),
        time_table(rows, options),
        compared_time(rows, options)
    );
    text += &format!(
        "Log, in thousands of long integers (ints are halves) and in bytes:\n\n{}\n\n{}\n\n",
        space_table(rows, options),
        compared_space(rows, options)
    );
    text += &format!(
        "![What O1 and O2 take away of the time](methods-o1-o2-time.svg)\n\n![… of the log](methods-o1-o2-space.svg)\n\n\
         Light's figure 7, with {first} threads. {}\n\n",
        optimisations(rows, first)
    );
    text += &super::goals(&goals(rows));
    text += &format!(
        "\n\n<details><summary>All guests: processor time in units of the native run</summary>\n\n{}\n\n</details>\n",
        all(rows, |row, variant| {
            row.shown(variant, |value| format!("{:.2}×", value + 1.0), row.overhead(variant))
        })
    );
    text += &format!(
        "\n<details><summary>All guests: log</summary>\n\n{}\n\n</details>",
        all(rows, |row, variant| row
            .log_bytes(variant)
            .map_or("–".to_owned(), bytes))
    );
    text
}

/// What was measured with so many threads.
fn values(rows: &[Row], threads: u32, figure: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.threads == threads)
        .filter_map(figure)
        .collect()
}

/// Rows of statistics: for each, the column of each figure.
fn statistics_of(columns: &[Vec<f64>], shown: impl Fn(f64) -> String) -> Vec<String> {
    let columns: Vec<Option<[f64; 4]>> = columns
        .iter()
        .map(|values| Summary::of(values).map(|summary| summary.rows().map(|row| row.1)))
        .collect();
    (0..STATISTICS.len())
        .map(|index| {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| column.map_or("?".to_owned(), |values| shown(values[index])))
                .collect();
            format!("{} | {}", STATISTICS[index], cells.join(" | "))
        })
        .collect()
}

fn time_table(rows: &[Row], options: &Options) -> String {
    let mut lines = vec![
        "| | | Light | LEAP | STRIDE | OREO |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for (name, [light, leap, stride]) in STATISTICS.iter().zip(PAPER_TIME) {
        lines.push(format!("| paper | {name} | {light:.2} | {leap:.2} | {stride:.2} | |"));
    }
    for threads in &options.threads {
        let columns = Variant::METHODS.map(|method| values(rows, *threads, |row| row.overhead(method)));
        let summaries = statistics_of(&columns, |value| format!("{value:.2}"));
        lines.extend(
            summaries
                .iter()
                .map(|summary| format!("| {threads} threads | {summary} |")),
        );
    }
    lines.join("\n")
}

fn space_table(rows: &[Row], options: &Options) -> String {
    let mut lines = vec![
        "| | | Light | LEAP, runs | LEAP, accesses | STRIDE | OREO | Light | LEAP | STRIDE | OREO |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (name, [light, stride]) in STATISTICS.iter().zip(PAPER_SPACE) {
        lines.push(format!("| paper | {name} | {light} | | | {stride} | | | | | |"));
    }
    for threads in &options.threads {
        let longs = |method| values(rows, *threads, |row| row.longs(method).map(|longs| longs / 1e3));
        let plain = values(rows, *threads, |row| row.accesses_of_leap().map(|longs| longs / 1e3));
        let columns = [
            longs(Variant::Light),
            longs(Variant::Leap),
            plain,
            longs(Variant::Stride),
            longs(Variant::Oreo),
        ];
        let logs = Variant::METHODS.map(|method| values(rows, *threads, |row| row.log_bytes(method)));
        let summaries = statistics_of(&columns, thousands);
        for (longs, bytes) in summaries.iter().zip(statistics_of(&logs, bytes)) {
            let (_, bytes) = bytes.split_once(" | ").unwrap_or_default();
            lines.push(format!("| {threads} threads | {longs} | {bytes} |"));
        }
    }
    lines.join("\n")
}

fn thousands(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        large => format!("{large:.0}"),
    }
}

/// Light against the others, over guests with so many threads, or all.
fn pairs(
    rows: &[Row],
    threads: Option<u32>,
    other: Variant,
    figure: impl Fn(&Row, Variant) -> Option<f64>,
) -> Vec<(f64, f64)> {
    rows.iter()
        .filter(|row| threads.is_none_or(|threads| threads == row.threads))
        .filter_map(|row| Some((figure(row, Variant::Light)?, figure(row, other)?)))
        .collect()
}

fn compared_time(rows: &[Row], options: &Options) -> String {
    let mut parts = Vec::new();
    for threads in &options.threads {
        let of = |other| {
            quotient(statistics::added_time(&pairs(
                rows,
                Some(*threads),
                other,
                Row::overhead,
            )))
        };
        parts.push(format!(
            "{} of LEAP's, {} of STRIDE's and {} of OREO's with {threads} threads",
            of(Variant::Leap),
            of(Variant::Stride),
            of(Variant::Oreo)
        ));
    }
    let wall = |variant| {
        let values: Vec<f64> = rows.iter().filter_map(|row| row.wall(variant)).collect();
        match values.is_empty() {
            true => "?".to_owned(),
            false => format!("{:.2}×", geometric_mean(values)),
        }
    };
    let walls: Vec<String> = Variant::METHODS
        .iter()
        .map(|m| format!("{} {}", m.name(), wall(*m)))
        .collect();
    format!(
        "On the geometric mean of the guests, Light adds {}. In the paper the averages have quotients of 0.11 and 0.09. Wall time, \
         geometric mean of all: {}.",
        parts.join("; "),
        walls.join(", ")
    )
}

fn compared_space(rows: &[Row], options: &Options) -> String {
    let mut parts = Vec::new();
    for threads in &options.threads {
        let of = |other| quotient(statistics::sizes(&pairs(rows, Some(*threads), other, Row::log_bytes)));
        parts.push(format!(
            "{} of LEAP's, {} of STRIDE's and {} of OREO's with {threads} threads",
            of(Variant::Leap),
            of(Variant::Stride),
            of(Variant::Oreo)
        ));
    }
    format!(
        "In bytes, on the geometric mean of the guests, Light's log is {}. In the paper the averages of Light and STRIDE have a quotient of 0.07.",
        parts.join("; ")
    )
}

fn quotient(mean: Option<(f64, usize)>) -> String {
    match mean {
        Some((mean, _)) if mean < 0.001 => format!("{mean:.5}"),
        Some((mean, _)) if mean < 0.1 => format!("{mean:.3}"),
        Some((mean, _)) => format!("{mean:.2}"),
        None => "? (not measured)".to_owned(),
    }
}

/// In how many guests which optimisation takes away how much.
fn optimisations(rows: &[Row], threads: u32) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.threads == threads).collect();
    let times: Vec<Breakdown> = rows
        .iter()
        .filter_map(|row| row.breakdown(Row::overhead, statistics::TIME_FLOOR))
        .collect();
    let sizes: Vec<Breakdown> = rows
        .iter()
        .filter_map(|row| row.breakdown(Row::log_bytes, 0.0))
        .collect();
    let at_least = |parts: &[Breakdown], share: f64, of: fn(&Breakdown) -> f64| {
        format!(
            "{} of {}",
            parts.iter().filter(|part| of(part) >= share).count(),
            parts.len()
        )
    };
    format!(
        "O1 takes away at least 20 % of the added time in {} guests (paper: 20 of 24) and at least 50 % in {} (8 of 24), O2 at least 20 % in {} \
         (9 of 24) and at least 50 % in {} (4 of 24). Of the log, O1 takes away at least 50 % in {} (16 of 24), O2 at least 20 % in {} (6 of 24).",
        at_least(&times, 0.2, |part| part.first),
        at_least(&times, 0.5, |part| part.first),
        at_least(&times, 0.2, |part| part.second),
        at_least(&times, 0.5, |part| part.second),
        at_least(&sizes, 0.5, |part| part.first),
        at_least(&sizes, 0.2, |part| part.second)
    )
}

fn goals(rows: &[Row]) -> Vec<(String, String, Option<bool>)> {
    let of_all = |mean: Option<(f64, usize)>, most: f64| {
        let measured = mean.map_or("?".to_owned(), |(_, count)| {
            format!("{} over {count} pairs of guest and threads", quotient(mean))
        });
        (measured, mean.map(|(mean, _)| mean <= most))
    };
    let mut goals = Vec::new();
    for other in [Variant::Leap, Variant::Stride] {
        let (measured, met) = of_all(statistics::added_time(&pairs(rows, None, other, Row::overhead)), 0.25);
        let name = other.name();
        goals.push((
            format!("Light's added time is at most 0.25 of {name}'s (geometric mean)"),
            measured,
            met,
        ));
        let (measured, met) = of_all(statistics::sizes(&pairs(rows, None, other, Row::log_bytes)), 0.1);
        goals.push((
            format!("Light's log is at most 0.1 of {name}'s (bytes, geometric mean)"),
            measured,
            met,
        ));
    }
    goals
}

fn all(rows: &[Row], cell: impl Fn(&Row, Variant) -> String) -> String {
    let names: Vec<&str> = Variant::ALL.iter().skip(1).map(|variant| variant.name()).collect();
    let mut lines = vec![
        format!("| guest | threads | native | {} |", names.join(" | ")),
        format!("|---|---|---|{}", "---|".repeat(names.len())),
    ];
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.guest, row.threads));
    for row in sorted {
        let cells: Vec<String> = Variant::ALL.iter().skip(1).map(|variant| cell(row, *variant)).collect();
        let native = median(row.native_s.iter().map(|seconds| seconds * 1e3));
        lines.push(format!(
            "| {} | {} | {native:.1} ms | {} |",
            row.guest,
            row.threads,
            cells.join(" | ")
        ));
    }
    lines.join("\n")
}
