//! Which bugs come back: Light, §5.3 and table 1, and all other bug guests.
use super::Options;
use super::Section;
use super::program;
use super::program::Programs;
use super::program::Reason;
use super::program::Recipe;
use super::program::Recorded;
use super::variant::Build;
use super::variant::Variant;
use crate::bench::directive;
use crate::bench::limited::shortened;
use crate::bench::stem;
use crate::bench::table::bytes;
use crate::bench::table::grouped;
use crate::command::Failure;
use crate::root;
use std::fs;
use std::path::Path;
use std::time::Duration;

const REPLAYS: u64 = 5;
/// For all attempts to make a bug happen.
const ATTEMPTS: Duration = Duration::from_secs(120);

/// Light's table 1: thousands of long integers, seconds to solve, seconds to replay.
const PAPER: [(&str, [u32; 3]); 8] = [
    ("fig6_cache4j", [297, 39, 8]),
    ("fig6_ftpserver", [13, 10, 42]),
    ("fig6_lucene_481", [1088, 112, 62]),
    ("fig6_lucene_651", [2596, 301, 87]),
    ("fig6_tomcat_37458", [15, 5, 23]),
    ("fig6_tomcat_50885", [590, 30, 44]),
    ("fig6_tomcat_53498", [28, 4, 9]),
    ("fig6_weblech", [2, 2, 3]),
];

struct Bug {
    name: String,
    /// What `refrain record` ends with when it happened.
    status: i32,
    attempts: String,
    timeout: String,
    recipe: Recipe,
}

/// A failing run that was recorded.
struct Caught {
    log_bytes: f64,
    longs: f64,
    /// Whole milliseconds, as refrain has them.
    solve_ms: f64,
    replay_ms: f64,
    identical: u64,
    /// Why it is not `REPLAYS`.
    difference: Option<Reason>,
}

type Cell = Result<Caught, Reason>;

pub fn measure(options: &Options, folder: &Path) -> Result<Section, Failure> {
    let bugs = bugs(options)?;
    let recipes: Vec<Recipe> = bugs.iter().map(|bug| bug.recipe.clone()).collect();
    let programs = program::build_all(&recipes, &[Build::Instrumented, Build::Everything], folder)?;
    let mut rows = Vec::new();
    for (bug, programs) in bugs.iter().zip(&programs) {
        let mut row = Vec::new();
        for method in Variant::METHODS {
            eprintln!("xtask: {}, {}", bug.name, method.name());
            row.push(catch(bug, method, programs, folder)?);
        }
        rows.push(row);
    }
    Ok(Section {
        text: page(&bugs, &rows),
        figures: Vec::new(),
    })
}

fn bugs(options: &Options) -> Result<Vec<Bug>, Failure> {
    let mut bugs = Vec::new();
    for entry in fs::read_dir(root().join("tests/guests/bugs"))? {
        let source = entry?.path();
        let text = fs::read_to_string(&source)?;
        let name = stem(&source);
        let of_papers = name == "bank" || name.starts_with("contest_") || name.starts_with("fig6_");
        let Some(fails) = directive(&text, "fails") else {
            continue;
        };
        if !options.is_chosen(&name) || options.quick && !of_papers {
            continue;
        }
        bugs.push(Bug {
            status: status(&fails)?,
            attempts: directive(&text, "chaos").unwrap_or_else(|| "100".to_owned()),
            timeout: directive(&text, "timeout").unwrap_or_else(|| "10".to_owned()),
            recipe: Recipe {
                name: name.clone(),
                source,
                defines: Vec::new(),
                measured: false,
            },
            name,
        });
    }
    bugs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(bugs)
}

/// The exit status that stands for a way to fail.
fn status(fails: &str) -> Result<i32, Failure> {
    match fails.split(' ').collect::<Vec<_>>()[..] {
        ["assert"] => Ok(128 + libc::SIGABRT),
        ["signal", "SEGV"] => Ok(128 + libc::SIGSEGV),
        ["hang"] => Ok(124),
        ["exit", code] => code
            .parse()
            .map_err(|_| Failure::new(format!("'{code}' is not a status"))),
        _ => Err(Failure::new(format!("'{fails}' is not a way to fail"))),
    }
}

fn catch(bug: &Bug, method: Variant, programs: &Programs, folder: &Path) -> Result<Cell, Failure> {
    let program = match &programs[&method.build()] {
        Ok(program) => program,
        Err(reason) => return Ok(Err(reason.clone())),
    };
    let until = format!("--until-failure={}", bug.attempts);
    let extra = ["--chaos=1", &until, "--timeout", &bug.timeout];
    let recorded = match program::record(program, method, &extra, folder, ATTEMPTS)? {
        Ok(recorded) => recorded,
        Err(reason) => return Ok(Err(reason)),
    };
    match recorded.ended.status {
        Some(status) if status == bug.status => replay(&recorded, method),
        Some(0) => Ok(Err(format!("did not fail in {} attempts", bug.attempts))),
        _ => Ok(Err(format!("another failure: {}", recorded.ended.reason()))),
    }
}

fn replay(recorded: &Recorded, method: Variant) -> Result<Cell, Failure> {
    let counted = match recorded.count()? {
        Ok(counted) => counted,
        Err(reason) => return Ok(Err(reason)),
    };
    let solved = match recorded.ask("solve", &["--again"])? {
        Ok(solved) => solved,
        Err(reason) => return Ok(Err(format!("not solved: {reason}"))),
    };
    let times = REPLAYS.to_string();
    let verdict = match recorded.ask("replay", &["--times", &times])? {
        Ok(verdict) => verdict,
        Err(reason) => return Ok(Err(format!("not replayed: {reason}"))),
    };
    let identical = verdict["identical"].as_u64().unwrap_or(0);
    let difference = verdict["divergence"]["what"].as_str().unwrap_or("it was another run");
    Ok(Ok(Caught {
        log_bytes: recorded.log_bytes,
        longs: counted.longs(method),
        solve_ms: solved["statistics"]["solve_ms"].as_f64().unwrap_or(f64::NAN),
        replay_ms: verdict["elapsed_ms"].as_f64().unwrap_or(f64::NAN) / REPLAYS as f64,
        identical,
        difference: (identical < REPLAYS).then(|| shortened(difference)),
    }))
}

fn page(bugs: &[Bug], rows: &[Vec<Cell>]) -> String {
    let mut text = format!(
        "Each cell: log, long integers, solving, one replay, identical replays of {REPLAYS}; or why there is none. The first figures are the \
         paper's, for Light: thousands of long integers, solving and replay with Z3 and the original programs.\n\n{}\n",
        heading("bug of figure 6 | paper")
    );
    let of_paper = |name: &str| PAPER.iter().find(|(paper, _)| *paper == name);
    for (bug, row) in bugs.iter().zip(rows) {
        if let Some((_, [space, solve, replay])) = of_paper(&bug.name) {
            let name = bug.name.trim_start_matches("fig6_");
            text += &line(&format!("{name} | {space} K · {solve} s · {replay} s"), row);
        }
    }
    text += &format!("\n{}\n", heading("bug"));
    for (bug, row) in bugs.iter().zip(rows).filter(|(bug, _)| of_paper(&bug.name).is_none()) {
        text += &line(&bug.name, row);
    }
    text += &format!("\n{}\n\n", summary(rows));
    text += &super::goals(&goals(bugs, rows));
    text
}

fn heading(first: &str) -> String {
    let names: Vec<&str> = Variant::METHODS.iter().map(|method| method.name()).collect();
    let columns = first.matches('|').count() + 1 + names.len();
    format!("| {first} | {} |\n|{}", names.join(" | "), "---|".repeat(columns))
}

fn line(first: &str, row: &[Cell]) -> String {
    let cells: Vec<String> = row.iter().map(shown).collect();
    format!("| {first} | {} |\n", cells.join(" | "))
}

fn shown(cell: &Cell) -> String {
    match cell {
        Err(reason) => format!("**missed**: {reason}"),
        Ok(caught) => {
            let solved = milliseconds(caught.solve_ms);
            let end = match &caught.difference {
                Some(difference) => format!("**{}**: {difference}", caught.identical),
                None => caught.identical.to_string(),
            };
            format!(
                "{} · {} · {solved} · {:.0} ms · {end}",
                bytes(caught.log_bytes),
                grouped(caught.longs as u64),
                caught.replay_ms
            )
        }
    }
}

/// Refrain has whole ones.
fn milliseconds(value: f64) -> String {
    match value {
        short if short < 1.0 => "< 1 ms".to_owned(),
        other => format!("{other:.0} ms"),
    }
}

fn is_reproduced(cell: &Cell) -> bool {
    cell.as_ref().is_ok_and(|caught| caught.difference.is_none())
}

fn summary(rows: &[Vec<Cell>]) -> String {
    let mut lines = vec![
        "| | bugs that came back, each time | log, average | solving, average | longest | replay, average |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for (index, method) in Variant::METHODS.iter().enumerate() {
        let cells = || rows.iter().map(|row| &row[index]);
        let caught: Vec<&Caught> = cells().filter_map(|cell| cell.as_ref().ok()).collect();
        let average = |figure: fn(&Caught) -> f64| caught.iter().map(|c| figure(c)).sum::<f64>() / caught.len() as f64;
        let came_back = format!(
            "{} of {}",
            cells().filter(|cell| is_reproduced(cell)).count(),
            rows.len()
        );
        lines.push(match caught.is_empty() {
            true => format!("| {} | {came_back} | | | | |", method.name()),
            false => format!(
                "| {} | {came_back} | {} | {} | {} | {:.0} ms |",
                method.name(),
                bytes(average(|c| c.log_bytes)),
                milliseconds(average(|c| c.solve_ms)),
                milliseconds(caught.iter().map(|c| c.solve_ms).fold(0.0, f64::max)),
                average(|c| c.replay_ms)
            ),
        });
    }
    lines.join("\n")
}

fn goals(bugs: &[Bug], rows: &[Vec<Cell>]) -> Vec<(String, String, Option<bool>)> {
    let expected = |name: &str| name == "bank" || name.starts_with("contest_") || name.starts_with("fig6_");
    let goal = |(index, method): (usize, &Variant)| {
        let of_papers = || bugs.iter().zip(rows).filter(|(bug, _)| expected(&bug.name));
        let missed: Vec<&str> = of_papers()
            .filter(|(_, row)| !is_reproduced(&row[index]))
            .map(|(bug, _)| bug.name.as_str())
            .collect();
        let all = of_papers().count();
        let measured = match missed.is_empty() {
            true => format!("{all} of {all}"),
            false => format!("{} of {all}; not {}", all - missed.len(), missed.join(", ")),
        };
        let goal = format!(
            "{} reproduces every bug of ConTest and figure 6, and the bank's",
            method.name()
        );
        (goal, measured, (all > 0).then_some(missed.is_empty()))
    };
    Variant::METHODS.iter().enumerate().map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_fail_have_statuses() {
        let known = ["assert", "signal SEGV", "hang", "exit 3"].map(|fails| status(fails).ok());
        assert_eq!(known, [Some(134), Some(139), Some(124), Some(3)]);
        assert!(status("somehow").is_err());
    }

    #[test]
    fn cells_say_what_was_missed() {
        assert_eq!(shown(&Err("no".to_owned())), "**missed**: no");
        let caught = Caught {
            log_bytes: 1234.0,
            longs: 5678.0,
            solve_ms: 0.0,
            replay_ms: 12.4,
            identical: 5,
            difference: None,
        };
        assert_eq!(shown(&Ok(caught)), "1.2 kB · 5,678 · < 1 ms · 12 ms · 5");
    }
}
