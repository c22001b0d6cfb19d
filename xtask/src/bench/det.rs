//! What deterministic runs cost (PEREGRINE, figures 11, 12 and 13): speed guests as native code, and under `refrain run` with all of their schedule and with the order
//! of synchronisations alone, interleaved in one run; and what was paid for it once, when the schedule was learned, beside ordinary recording.
//!
//! Compared is the wall time of the program itself, since waiting for its turn is what a thread does here. Learning writes down every
//! access, so the guests have less to do than in the other benchmarks, and what starting takes is measured by a guest that does next to nothing. How
//! fast a schedule is depends on the run that it was learned from, so each guest is learned anew several times, and the
//! repetitions are divided among these schedules.
pub mod guest;
mod page;

use super::Options;
use super::table;
use crate::command::Failure;
use crate::root;
use crate::target;
use guest::GUESTS;
use guest::Guest;
use guest::Lesson;
use std::fs;

/// Schedules that are learned of each guest.
const LESSONS: usize = 3;

/// Wall times in seconds, one of each for every repetition.
#[derive(Default)]
struct Measured {
    native: Vec<f64>,
    /// Processor time of the native run.
    native_cpu: Vec<f64>,
    hybrid: Vec<f64>,
    sync_only: Vec<f64>,
    /// Ordinary recordings, one for each lesson, and the native run beside it.
    recorded: Vec<f64>,
    recorded_native: Vec<f64>,
}

/// All that is known of a guest.
struct Row {
    guest: Guest,
    lessons: Vec<Lesson>,
    measured: Measured,
}

pub fn det(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse("det", "--guests", 15, arguments)?;
    if let Some(name) = options
        .names
        .iter()
        .find(|name| !GUESTS.iter().any(|(guest, ..)| guest == *name))
    {
        return Err(Failure::new(format!("'{name}' is not among the measured guests")));
    }
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench-det");
    fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for (name, source, size) in GUESTS {
        if options.names.is_empty() || name == guest::START_UP || options.names.iter().any(|chosen| chosen == name) {
            rows.push(Row {
                guest: guest::build(name, source, size, &folder)?,
                lessons: Vec::new(),
                measured: Measured::default(),
            });
        }
    }
    for lesson in 0..LESSONS.min(options.repetitions) {
        for row in &mut rows {
            eprintln!("xtask: {} is learned ({} of {LESSONS})", row.guest.name, lesson + 1);
            row.learn()?;
        }
        let share = |lesson: usize| options.repetitions * lesson / LESSONS.min(options.repetitions);
        for repetition in share(lesson)..share(lesson + 1) {
            for row in &mut rows {
                let name = row.guest.name;
                eprintln!("xtask: {name} ({} of {})", repetition + 1, options.repetitions);
                row.measure()?;
            }
        }
    }
    let text = page::text(&rows);
    println!("{text}");
    if options.write && options.names.is_empty() {
        let command = format!("cargo xtask bench det --repetitions {}", options.repetitions);
        for (name, svg) in page::figures(&rows) {
            fs::write(root().join("docs").join(name), svg)?;
        }
        table::write(&root().join("docs/benchmarks.md"), "det", &command, &text)?;
    }
    Ok(())
}

impl Row {
    /// A new schedule, and an ordinary recording beside it.
    fn learn(&mut self) -> Result<(), Failure> {
        let (native, expected) = self.guest.native()?;
        let recorded = self.guest.record(&expected)?;
        self.measured.recorded_native.push(native.wall_s);
        self.measured.recorded.push(recorded.wall_s);
        self.lessons.push(self.guest.learn()?);
        Ok(())
    }

    /// Every variant once, one after the other.
    fn measure(&mut self) -> Result<(), Failure> {
        let (native, expected) = self.guest.native()?;
        self.measured.native.push(native.wall_s);
        self.measured.native_cpu.push(native.cpu_s);
        self.measured.hybrid.push(self.guest.enforce(&[], &expected)?);
        let sync_only = self.guest.enforce(&["--sync-only"], &expected)?;
        self.measured.sync_only.push(sync_only);
        Ok(())
    }
}
