//! Samples to a Markdown table, and into the page that shows it.
use super::Guest;
use super::Samples;
use super::Variant;
use super::measure::Sample;
use crate::command::Failure;
use std::fs;
use std::path::Path;

/// Ratios to the native run of the same repetition; the median over the repetitions.
pub fn table(guests: &[Guest], results: &[Samples]) -> String {
    let mut lines = vec![
        "| guest | kind | native CPU | TSan | memory | sync | replay (wall) | log | memory use |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut columns: [Vec<f64>; 4] = Default::default();
    for (guest, samples) in guests.iter().zip(results) {
        let cpu = |variant| ratio(samples, variant, |sample| sample.cpu_s);
        let ratios = [
            cpu(Variant::Tsan),
            cpu(Variant::Memory),
            cpu(Variant::Sync),
            ratio(samples, Variant::Replay, |sample| sample.wall_s),
        ];
        columns
            .iter_mut()
            .zip(ratios)
            .for_each(|(column, ratio)| column.push(ratio));
        let native = median(of(samples, Variant::Native).iter().map(|sample| sample.cpu_s));
        let rate = median(
            of(samples, Variant::Memory)
                .iter()
                .map(|s| s.log_bytes / s.wall_s.max(0.001)),
        );
        let memory = ratio(samples, Variant::Memory, |sample| sample.memory_bytes);
        let [tsan, recorded, sync, replay] = ratios;
        lines.push(format!(
            "| {} | {} | {native:.2} s | {tsan:.2}× | {recorded:.2}× | {sync:.2}× | {replay:.2}× | {} | {memory:.1}× |",
            guest.name,
            guest.kind,
            per_second(rate)
        ));
    }
    // Guests that ThreadSanitizer or the recording does not slow down have no added time to compare.
    let added = columns[0]
        .iter()
        .zip(&columns[1])
        .filter(|(tsan, memory)| **tsan > 1.02 && **memory > 1.02);
    let cheaper: Vec<f64> = added.map(|(tsan, memory)| (tsan - 1.0) / (memory - 1.0)).collect();
    let compared = cheaper.len();
    let [tsan, recorded, sync, replay] = columns.map(geometric_mean);
    lines.push(format!(
        "| **geometric mean** | | | **{tsan:.2}×** | **{recorded:.2}×** | **{sync:.2}×** | **{replay:.2}×** | | |"
    ));
    if recorded > 1.0 && compared > 0 {
        lines.push(format!(
            "\nThreadSanitizer's added time divided by that of scope memory: {:.1} as the geometric mean of the {compared} \
             guests that both slow down; {:.1} from the two means above.",
            geometric_mean(cheaper),
            (tsan - 1.0) / (recorded - 1.0)
        ));
    }
    lines.join("\n")
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

    #[test]
    fn means_are_means() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!((geometric_mean(vec![1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
