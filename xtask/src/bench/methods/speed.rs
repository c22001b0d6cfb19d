//! Time and space of recording: Light, §5.2 and §5.4.
use super::Options;
use super::Section;
use super::figures;
use super::guest_source;
use super::program;
use super::program::Programs;
use super::program::Reason;
use super::program::Recipe;
use super::program::Taken;
use super::speed_page::page;
use super::statistics::Breakdown;
use super::variant::Build;
use super::variant::Variant;
use crate::bench::table::median;
use crate::command::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A guest, and what makes it so small that methods which record every access are done in about a second: some five million
/// accesses. Arrays are made smaller rather than passes fewer, because first touches cost more than later ones.
pub struct Subject {
    pub file: &'static str,
    folder: &'static str,
    pub defines: &'static str,
    /// It races, and may find that out.
    may_fail: bool,
}

const fn speed(file: &'static str, defines: &'static str) -> Subject {
    Subject {
        file,
        folder: "bench",
        defines,
        may_fail: false,
    }
}

pub const SUBJECTS: [Subject; 14] = [
    speed("bank.c", "-DSCALE=1/30"),
    Subject {
        file: "bank_racy.c",
        folder: "methods",
        defines: "-DOPERATIONS=1000 -DROUNDS=1000",
        may_fail: true,
    },
    speed("buffer_exchange.cpp", "-DSCALE=2/THREADS/20"),
    speed("crypt.c", "-DSIZE=60000"),
    speed("hash_table.c", "-DSCALE=1/30"),
    speed("lufact.c", "-DSIZE=100"),
    speed("matmul.c", "-DSIZE=50"),
    speed("montecarlo.cpp", "-DSCALE=1/15"),
    speed("pipeline.c", "-DSCALE=2/THREADS/250"),
    speed("radix.c", "-DSIZE=200000 -DSCALE=1/8"),
    speed("raytracer.cpp", "-DSCALE=1/25"),
    speed("series.c", "-DSCALE=1/20"),
    speed("sor.c", "-DSIZE=100 -DSCALE=1/9"),
    speed("sparsematmult.c", "-DSIZE=2000 -DSCALE=1/25"),
];

/// Larger logs are counted once.
const COUNTED_BYTES: f64 = 5e6;

impl Subject {
    pub fn name(&self) -> &'static str {
        self.file.split('.').next().unwrap_or(self.file)
    }

    pub fn recipe(&self, threads: u32) -> Recipe {
        let mut defines: Vec<String> = self.defines.split(' ').map(str::to_owned).collect();
        defines.push(format!("-DTHREADS={threads}"));
        Recipe {
            name: format!("{}-{threads}", self.name()),
            source: guest_source(self.folder, self.file),
            defines,
            measured: true,
        }
    }
}

/// One recorded run against the native one of the same repetition.
struct Sample {
    cpu: f64,
    wall: f64,
    log_bytes: f64,
}

#[derive(Default)]
struct Cell {
    samples: Vec<Sample>,
    /// Long integers, and those of access vectors without runs.
    longs: Vec<(f64, f64)>,
    /// There is nothing to show but this.
    reason: Option<Reason>,
}

/// A guest with so many threads, in all variants.
pub struct Row {
    pub guest: &'static str,
    pub threads: u32,
    pub native_s: Vec<f64>,
    cells: BTreeMap<Variant, Cell>,
}

impl Row {
    fn median(&self, variant: Variant, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        let cell = self.cells.get(&variant)?;
        (cell.reason.is_none() && !cell.samples.is_empty()).then(|| median(cell.samples.iter().map(figure)))
    }

    /// Added processor time, in units of the native run.
    pub fn overhead(&self, variant: Variant) -> Option<f64> {
        self.median(variant, |sample| sample.cpu - 1.0)
    }

    /// Wall time, in units of the native run.
    pub fn wall(&self, variant: Variant) -> Option<f64> {
        self.median(variant, |sample| sample.wall)
    }

    pub fn log_bytes(&self, variant: Variant) -> Option<f64> {
        self.median(variant, |sample| sample.log_bytes)
    }

    fn median_longs(&self, variant: Variant, figure: impl Fn(&(f64, f64)) -> f64) -> Option<f64> {
        let cell = self.cells.get(&variant)?;
        (cell.reason.is_none() && !cell.longs.is_empty()).then(|| median(cell.longs.iter().map(figure)))
    }

    pub fn longs(&self, variant: Variant) -> Option<f64> {
        self.median_longs(variant, |(longs, _)| *longs)
    }

    /// Long integers of LEAP if access vectors are not kept as runs.
    pub fn accesses_of_leap(&self) -> Option<f64> {
        self.median_longs(Variant::Leap, |(_, events)| *events)
    }

    /// What O1 and O2 take away of V_basic.
    pub fn breakdown(&self, figure: impl Fn(&Row, Variant) -> Option<f64>, floor: f64) -> Option<Breakdown> {
        let [basic, one, both] = [Variant::Basic, Variant::WithoutO2, Variant::Light].map(|v| figure(self, v));
        Breakdown::of(basic?, one?, both?, floor)
    }

    pub fn shown(&self, variant: Variant, figure: impl Fn(f64) -> String, value: Option<f64>) -> String {
        let reason = self.cells.get(&variant).and_then(|cell| cell.reason.clone());
        value.map_or_else(|| reason.unwrap_or_else(|| "?".to_owned()), figure)
    }
}

pub fn measure(options: &Options, folder: &Path) -> Result<Section, Failure> {
    let chosen = || SUBJECTS.iter().filter(|subject| options.is_chosen(subject.name()));
    let pairs: Vec<(&Subject, u32)> = options
        .threads
        .iter()
        .flat_map(|threads| chosen().map(|subject| (subject, *threads)))
        .collect();
    let recipes: Vec<Recipe> = pairs
        .iter()
        .map(|(subject, threads)| subject.recipe(*threads))
        .collect();
    let builds = [Build::Native, Build::Instrumented, Build::Everything];
    let programs = program::build_all(&recipes, &builds, folder)?;
    let mut rows: Vec<Row> = pairs
        .iter()
        .map(|(subject, threads)| Row {
            guest: subject.name(),
            threads: *threads,
            native_s: Vec::new(),
            cells: BTreeMap::new(),
        })
        .collect();
    for repetition in 0..options.repetitions {
        for ((row, programs), (subject, threads)) in rows.iter_mut().zip(&programs).zip(&pairs) {
            let (name, of) = (subject.name(), options.repetitions);
            eprintln!("xtask: {name}, {threads} threads ({} of {of})", repetition + 1);
            repeat(subject, programs, folder, row)?;
        }
    }
    Ok(Section {
        text: page(&rows, options),
        figures: figures::of_speed(&rows, options.threads[0]),
    })
}

/// All variants once, one after the other.
fn repeat(subject: &Subject, programs: &Programs, folder: &Path, row: &mut Row) -> Result<(), Failure> {
    let is_right = |status: Option<i32>| status == Some(0) || subject.may_fail && status == Some(1);
    let native = match &programs[&Build::Native] {
        Ok(program) => program::native(program)?,
        Err(reason) => Err(reason.clone()),
    };
    let native = native.and_then(|(taken, ended)| match is_right(ended.status) {
        true => Ok((taken, ended.stdout)),
        false => Err(ended.reason()),
    });
    if let Ok((taken, _)) = &native {
        row.native_s.push(taken.cpu_s);
    }
    for variant in Variant::ALL.into_iter().skip(1) {
        let cell = row.cells.entry(variant).or_default();
        if cell.reason.is_some() {
            continue;
        }
        let (taken, expected) = match &native {
            Ok((taken, stdout)) => (*taken, stdout),
            Err(reason) => {
                cell.reason = Some(format!("native: {reason}"));
                continue;
            }
        };
        let program = match &programs[&variant.build()] {
            Ok(program) => program,
            Err(reason) => {
                cell.reason = Some(reason.clone());
                continue;
            }
        };
        let extra = ["--timeout", "60"];
        match program::record(program, variant, &extra, folder, Duration::from_secs(90))? {
            Err(reason) => cell.reason = Some(reason),
            Ok(recorded) if !is_right(recorded.ended.status) => cell.reason = Some(recorded.ended.reason()),
            // A fast wrong answer is no answer.
            Ok(recorded) if recorded.ended.stdout != *expected => {
                cell.reason = Some("printed something else than natively".to_owned());
            }
            Ok(recorded) => {
                let sample = program::taken(&recorded.ended.stderr).map(|mine| sample(mine, taken, recorded.log_bytes));
                match sample {
                    Some(sample) => cell.samples.push(sample),
                    None => cell.reason = Some("did not say what it took".to_owned()),
                }
                // Counting millions of records takes a second; such logs hardly differ.
                if cell.longs.is_empty() || recorded.log_bytes < COUNTED_BYTES {
                    match recorded.count()? {
                        Ok(counted) => cell.longs.push((counted.longs(variant), counted.events())),
                        Err(reason) => cell.reason = Some(reason),
                    }
                }
            }
        }
    }
    Ok(())
}

fn sample(mine: Taken, native: Taken, log_bytes: f64) -> Sample {
    Sample {
        cpu: mine.cpu_s / native.cpu_s,
        wall: mine.wall_s / native.wall_s,
        log_bytes,
    }
}
