//! The page that `cargo xtask bench fleet` writes.
use super::Options;
use super::Row;
use super::Way;
use super::paper::FAILED;
use super::paper::NOT_TRIED;
use super::paper::SHARES;
use crate::bench::table::grouped;
use serde_json::Value;
use std::fmt::Write as _;

pub fn text(rows: &[Row], options: &Options) -> String {
    let mut text = String::new();
    programs(&mut text, rows);
    attempts(&mut text, rows, options);
    dispersion(&mut text, rows);
    sizes(&mut text, rows, options);
    text.trim_end().to_owned()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

/// Table II, what complete logs bring back, and the controls.
fn programs(text: &mut String, rows: &[Row]) {
    text.push_str(
        "| guest | elements (paper) | accesses (paper) | failing, passing logs | whole logs: strict | soft | no vectors | random vectors |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let elements = row.described["elements"].as_array().map_or(0, Vec::len);
        let of = |value: &Value| format!("{} of {}", number(value, "reproduced"), number(value, "of"));
        let accesses = match row.guest.accesses {
            0 => "-".to_owned(),
            accesses => grouped(u64::from(accesses)),
        };
        let _ = writeln!(
            text,
            "| {} | {elements} ({}) | {} ({accesses}) | {}, {} | {} | {} | {} | {} |",
            row.guest.name,
            row.guest.elements,
            grouped(number(&row.described, "accesses")),
            number(&row.described, "failing"),
            number(&row.described, "passing"),
            of(&row.whole["strict"]),
            of(&row.whole["soft"]),
            of(&row.controls[0]),
            of(&row.controls[1]),
        );
    }
    text.push('\n');
}

/// Tables III and IV: for each way, the attempts of each guest at each share.
fn attempts(text: &mut String, rows: &[Row], options: &Options) {
    let columns: Vec<String> = options.shares.iter().map(|share| percent(*share)).collect();
    let _ = writeln!(text, "| guest | merge | {} |", columns.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len()));
    for row in rows {
        for (name, of_paper) in [("PSIM", &row.guest.psim), ("DSIM", &row.guest.dsim)] {
            let cells = options.shares.iter().map(|share| cell_of_paper(of_paper, *share));
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(
                text,
                "| {} | the paper's figures, {name} | {} |",
                row.guest.name,
                cells.join(" | ")
            );
        }
        for way in options.ways() {
            let cells = options.shares.iter().map(|share| cell(row.cells.get(&(way, *share))));
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(text, "| {} | {} | {} |", row.guest.name, told(way), cells.join(" | "));
        }
    }
    text.push('\n');
}

fn told(way: Way) -> String {
    let metric = match way.metric {
        "none" => "no metric",
        "psim" => "PSIM",
        _ => "DSIM",
    };
    let mode = if way.mode == "paper" { "as the paper" } else { "ours" };
    let threshold = if way.metric == "none" { "" } else { way.threshold };
    let by = if way.selection == "family" { "our patterns" } else { "" };
    let words = [mode, metric, threshold, by];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

fn cell_of_paper(cells: &[u32; 6], share: u32) -> String {
    let column = SHARES.iter().position(|known| *known == share);
    match column.map(|column| cells[column]) {
        None | Some(NOT_TRIED) => "-".to_owned(),
        Some(FAILED) => "X".to_owned(),
        Some(attempts) => attempts.to_string(),
    }
}

/// What came back once, and not each time, was no reproduction; it is told if there was no other.
fn cell(cell: Option<&Value>) -> String {
    let Some(cell) = cell else { return "-".to_owned() };
    match (cell["attempts"].as_u64(), cell["lucky"].as_u64()) {
        (Some(attempts), _) => attempts.to_string(),
        (None, Some(lucky)) => format!("X (once: {lucky})"),
        (None, None) => "X".to_owned(),
    }
}

fn percent(share: u32) -> String {
    match share % 100 {
        0 => format!("{} %", share / 100),
        rest => format!("{}.{} %", share / 100, format!("{rest:02}").trim_end_matches('0')),
    }
}

/// Figure 3.
fn dispersion(text: &mut String, rows: &[Row]) {
    text.push_str("| guest | dispersion of each element, ascending (accesses) |\n|---|---|\n");
    for row in rows {
        let mut elements: Vec<(f64, u64)> = Vec::new();
        for element in row.described["elements"].as_array().into_iter().flatten() {
            let dispersion = element["dispersion"].as_f64().unwrap_or(0.0);
            elements.push((dispersion, number(element, "accesses")));
        }
        elements.sort_by(|one, other| one.0.total_cmp(&other.0));
        let told = elements
            .iter()
            .map(|(dispersion, accesses)| format!("{dispersion:.2} ({})", grouped(*accesses)));
        let told: Vec<String> = told.collect();
        let _ = writeln!(text, "| {} | {} |", row.guest.name, told.join(", "));
    }
    text.push('\n');
}

/// Figure 5.
fn sizes(text: &mut String, rows: &[Row], options: &Options) {
    let columns: Vec<String> = options.shares.iter().map(|share| percent(*share)).collect();
    let _ = writeln!(text, "| guest | complete log | {} |", columns.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len()));
    for row in rows {
        let of = |share: &u32| row.sizes.get(share).cloned().unwrap_or_default();
        let cells = options
            .shares
            .iter()
            .map(|share| format!("{:.2}", of(share)["ratio"].as_f64().unwrap_or(0.0)));
        let cells: Vec<String> = cells.collect();
        let bytes = options.shares.first().map_or(0, |share| number(&of(share), "bytes"));
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            row.guest.name,
            crate::bench::table::bytes(bytes as f64),
            cells.join(" | ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_say_when_a_reproduction_does_not_repeat() {
        assert_eq!(cell(None), "-");
        assert_eq!(cell(Some(&json!({ "attempts": null, "given": 500 }))), "X");
        assert_eq!(cell(Some(&json!({ "attempts": 3, "lucky": 1 }))), "3");
        assert_eq!(cell(Some(&json!({ "attempts": null, "lucky": 7 }))), "X (once: 7)");
        assert_eq!(percent(1_250), "12.5 %");
        assert_eq!(percent(1_670), "16.7 %");
    }
}
