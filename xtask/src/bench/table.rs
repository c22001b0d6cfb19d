//! Samples to a Markdown table, and into the page that shows it.
use super::measure::Sample;
use super::record::Guest;
use super::record::Samples;
use super::record::Variant;
use crate::command::Failure;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The guests of the means that older tables have: array kernels and programs that lock.
const FIRST_KERNELS: [&str; 13] = [
    "bank",
    "buffer_exchange",
    "crypt",
    "hash_table",
    "lufact",
    "matmul",
    "montecarlo",
    "pipeline",
    "radix",
    "raytracer",
    "series",
    "sor",
    "sparsematmult",
];
/// Stands beside what is dearer than under ThreadSanitizer.
const DEARER: &str = " ▲";

/// One guest's ratios to native runs, medians over the repetitions. Not a number: not measured.
struct Row {
    tsan: Pair,
    memory: Pair,
    sync: Pair,
    replays: [f64; 2],
    memory_use: [f64; 2],
}

/// Processor time and wall time.
#[derive(Clone, Copy)]
struct Pair {
    cpu: f64,
    wall: f64,
}

/// Ratios to the native run of the same repetition; the median over the repetitions.
pub fn table(guests: &[Guest], results: &[Samples]) -> String {
    let mut lines = vec![
        "| guest | threads | kind | native CPU / wall | TSan CPU / wall | memory CPU / wall | sync CPU / wall | replay of memory | \
         of sync (wall) | logs | memory use: TSan | memory |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let rows: Vec<Row> = results.iter().map(Row::new).collect();
    for ((guest, samples), row) in guests.iter().zip(results).zip(&rows) {
        let native = |figure: fn(&Sample) -> f64| median(of(samples, Variant::Native).iter().map(figure));
        let log = |variant| median(of(samples, variant).iter().map(|sample| sample.log_bytes));
        let logs = [Variant::Memory, Variant::Sync]
            .map(log)
            .into_iter()
            .filter(|bytes| !bytes.is_nan());
        let logs: Vec<String> = logs.map(bytes).collect();
        lines.push(format!(
            "| {} | {} | {} | {:.2} / {:.2} s | {} | {} | {} | {} |",
            guest.name,
            guest.threads,
            guest.kind,
            native(|sample| sample.cpu_s),
            native(|sample| sample.wall_s),
            row.cells(),
            logs.join(", "),
            times(row.memory_use[0], 1),
            times(row.memory_use[1], 1),
        ));
    }
    for (name, threads, chosen) in groups(guests) {
        let rows: Vec<&Row> = chosen.iter().map(|number| &rows[*number]).collect();
        let middle = |which: usize| {
            let measured = rows.iter().map(|row| row.memory_use[which]);
            times(median(measured.filter(|times| !times.is_nan())), 1)
        };
        lines.push(format!(
            "| **{name}, geometric mean** | {threads} | | | {} | | {} (median) | {} (median) |",
            Row::mean(&rows).cells(),
            middle(0),
            middle(1),
        ));
    }
    for (name, threads, chosen) in groups(guests) {
        let chosen: Vec<(&str, &Row)> = chosen
            .iter()
            .map(|at| (guests[*at].name.as_str(), &rows[*at]))
            .collect();
        lines.push(against_tsan(&name, threads, &chosen));
    }
    lines.join("\n")
}

/// The guests that have a mean of their own, by their places: those of each number of threads, and the first ones among them.
fn groups(guests: &[Guest]) -> Vec<(String, usize, Vec<usize>)> {
    let teams: BTreeSet<usize> = guests.iter().map(|guest| guest.threads).collect();
    let mut groups = Vec::new();
    for threads in teams {
        let places = |is_one: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let all = guests.iter().enumerate();
            let chosen = all.filter(|(_, guest)| guest.threads == threads && is_one(&guest.name));
            chosen.map(|(place, _)| place).collect()
        };
        let (all, first) = (places(&|_| true), places(&|name| FIRST_KERNELS.contains(&name)));
        if first.len() == FIRST_KERNELS.len() && all.len() > first.len() {
            groups.push(("the 13 kernels".to_owned(), threads, first));
        }
        groups.push((format!("all {}", all.len()), threads, all));
    }
    groups
}

/// Which guests are dearer than under ThreadSanitizer, and how the added times compare.
fn against_tsan(group: &str, threads: usize, rows: &[(&str, &Row)]) -> String {
    let compared = rows.iter().filter(|(_, row)| !row.tsan.cpu.is_nan());
    let dearer = compared.clone().filter(|(_, row)| row.memory.cpu > row.tsan.cpu);
    let names: Vec<&str> = dearer.map(|(name, _)| *name).collect();
    let mut text = format!(
        "\n{group}, threads: {threads}. Scope memory needs more processor time than ThreadSanitizer (▲) in {} of {} rows",
        names.len(),
        compared.clone().count()
    );
    if !names.is_empty() {
        text.push_str(&format!(": {}", names.join(", ")));
    }
    // Guests that ThreadSanitizer or the recording does not slow down have no added time to compare.
    let added = compared.filter(|(_, row)| row.tsan.cpu > 1.02 && row.memory.cpu > 1.02);
    let cheaper: Vec<f64> = added
        .map(|(_, row)| (row.tsan.cpu - 1.0) / (row.memory.cpu - 1.0))
        .collect();
    match cheaper.len() {
        0 => text.push('.'),
        count => text.push_str(&format!(
            ". ThreadSanitizer's added time divided by that of scope memory: {:.1} as the geometric mean of the {count} \
             that both slow down.",
            geometric_mean(cheaper)
        )),
    }
    text
}

impl Row {
    fn new(samples: &Samples) -> Row {
        let pair = |variant| Pair {
            cpu: ratio(samples, variant, |sample| sample.cpu_s),
            wall: ratio(samples, variant, |sample| sample.wall_s),
        };
        let memory_use = |variant| ratio(samples, variant, |sample| sample.memory_bytes);
        Row {
            tsan: pair(Variant::Tsan),
            memory: pair(Variant::Memory),
            sync: pair(Variant::Sync),
            replays: [Variant::ReplayMemory, Variant::ReplaySync].map(|variant| pair(variant).wall),
            memory_use: [Variant::Tsan, Variant::Memory].map(memory_use),
        }
    }

    /// Of what was measured of each.
    fn mean(rows: &[&Row]) -> Row {
        let mean = |figure: &dyn Fn(&Row) -> f64| {
            let measured = rows.iter().map(|row| figure(row));
            geometric_mean(measured.filter(|times| !times.is_nan()).collect())
        };
        let pair = |which: fn(&Row) -> Pair| Pair {
            cpu: mean(&|row| which(row).cpu),
            wall: mean(&|row| which(row).wall),
        };
        Row {
            tsan: pair(|row| row.tsan),
            memory: pair(|row| row.memory),
            sync: pair(|row| row.sync),
            replays: [0, 1].map(|which| mean(&|row| row.replays[which])),
            memory_use: [0, 1].map(|which| mean(&|row| row.memory_use[which])),
        }
    }

    /// The five columns of ratios of time.
    fn cells(&self) -> String {
        let cells = [
            self.tsan.cell(None),
            self.memory.cell(Some(self.tsan)),
            self.sync.cell(Some(self.tsan)),
            times(self.replays[0], 2),
            times(self.replays[1], 2),
        ];
        cells.join(" | ")
    }
}

impl Pair {
    /// What is dearer than under ThreadSanitizer stands out.
    fn cell(self, tsan: Option<Pair>) -> String {
        let text = |own: f64, other: Option<f64>| match other {
            Some(other) if own > other => format!("**{}{DEARER}**", times(own, 2)),
            _ => times(own, 2),
        };
        let cpu = text(self.cpu, tsan.map(|tsan| tsan.cpu));
        format!("{cpu} / {}", text(self.wall, tsan.map(|tsan| tsan.wall)))
    }
}

/// A ratio, if it was measured.
fn times(ratio: f64, digits: usize) -> String {
    match ratio.is_nan() {
        true => "–".to_owned(),
        false => format!("{ratio:.digits$}×"),
    }
}

fn of(samples: &Samples, variant: Variant) -> &[Sample] {
    samples.get(&variant).map_or(&[], Vec::as_slice)
}

fn ratio(samples: &Samples, variant: Variant, figure: impl Fn(&Sample) -> f64) -> f64 {
    let pairs = of(samples, variant).iter().zip(of(samples, Variant::Native));
    median(pairs.map(|(sample, native)| figure(sample) / figure(native)))
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

pub fn geometric_mean(values: Vec<f64>) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}

pub fn per_second(bytes: f64) -> String {
    if bytes >= 1e6 {
        format!("{:.1} MB/s", bytes / 1e6)
    } else {
        format!("{:.1} kB/s", bytes / 1e3)
    }
}

pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e3 => format!("{bytes:.0} B"),
        bytes if bytes < 1e4 => format!("{:.1} kB", bytes / 1e3),
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.0} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// With a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| std::str::from_utf8(part).unwrap_or_default())
        .collect();
    parts.join(",")
}

/// Puts the table between the markers that the page has for it.
pub fn write(page: &Path, name: &str, command: &str, table: &str) -> Result<(), Failure> {
    let marker = |what: &str| format!("<!-- bench {name}: {what} -->");
    let (first, last) = (marker("begin"), marker("end"));
    let text = fs::read_to_string(page)?;
    let (Some(begin), Some(end)) = (text.find(&first), text.find(&last)) else {
        return Err(Failure::new(format!(
            "{} has no lines '{first}' and '{last}'",
            page.display()
        )));
    };
    let section = format!("{first}\n`{command}`\n\n{table}\n");
    let text = format!("{}{section}{}", &text[..begin], &text[end..]);
    Ok(fs::write(page, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }

    fn samples(seconds: &[(Variant, f64)]) -> Samples {
        let sample = |seconds: f64| Sample {
            cpu_s: seconds,
            wall_s: seconds / 2.0,
            memory_bytes: seconds * 1e6,
            log_bytes: 1e6,
        };
        seconds
            .iter()
            .map(|(variant, seconds)| (*variant, vec![sample(*seconds)]))
            .collect()
    }

    #[test]
    fn what_is_dearer_than_under_tsan_stands_out() {
        let row = Row::new(&samples(&[
            (Variant::Native, 1.0),
            (Variant::Tsan, 4.0),
            (Variant::Memory, 5.0),
            (Variant::Sync, 2.0),
            (Variant::ReplayMemory, 3.0),
        ]));
        assert_eq!(
            row.cells(),
            "4.00× / 4.00× | **5.00× ▲** / **5.00× ▲** | 2.00× / 2.00× | 3.00× | –"
        );
        assert!(against_tsan("all", 2, &[("slow", &row)]).contains("in 1 of 1 rows: slow."));
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let measured = samples(&[(Variant::Native, 1.0), (Variant::Tsan, 8.0), (Variant::Memory, 2.0)]);
        let without = samples(&[(Variant::Native, 1.0), (Variant::Memory, 8.0)]);
        let (measured, without) = (Row::new(&measured), Row::new(&without));
        let mean = Row::mean(&[&measured, &without]);
        assert!((mean.memory.cpu - 4.0).abs() < 1e-12 && (mean.tsan.cpu - 8.0).abs() < 1e-12);
        assert_eq!(without.cells(), "– / – | 8.00× / 8.00× | – / – | – | –");
        let text = against_tsan("all 2", 1, &[("a", &measured), ("b", &without)]);
        assert!(
            text.contains("in 0 of 1 rows. ") && text.contains(": 7.0 as the geometric mean of the 1"),
            "{text}"
        );
    }

    #[test]
    fn means_are_means() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!((geometric_mean(vec![1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
