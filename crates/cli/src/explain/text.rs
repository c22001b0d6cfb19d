//! The report for people, in the manner of a compiler's diagnostics.
use crate::explain::sentences;
use crate::explain::sentences::Names;
use crate::explain::source::Source;
use crate::output::count;
use failure_report::Awaited;
use failure_report::Ending;
use failure_report::Finding;
use failure_report::Order;
use failure_report::Read;
use failure_report::Report;
use failure_report::Step;
use failure_report::Writer;
use replayer::LoadedRun;
use std::io;
use std::io::Write;

const RACES_SHOWN: usize = 5;
const ALSO_SHOWN: usize = 2;

pub fn write(out: &mut dyn Write, loaded: &LoadedRun, report: &Report, names: &Names<'_>) -> io::Result<()> {
    let mut page = Page {
        out,
        loaded,
        names,
        source: Source::default(),
    };
    page.ending(report)?;
    page.culprit(report)?;
    page.reads(&report.reads)?;
    page.races(report)?;
    page.notes(report)
}

struct Page<'a> {
    out: &'a mut dyn Write,
    loaded: &'a LoadedRun,
    names: &'a Names<'a>,
    source: Source,
}

impl Page<'_> {
    /// `words` and where, with the source line.
    fn step(&mut self, words: &str, step: &Step) -> io::Result<()> {
        writeln!(self.out, "  {words} at {}", self.names.whole_place(step))?;
        let shown = self.names.before(step).unwrap_or(step);
        match self.names.place(shown) {
            Some(place) => self.source.quote(self.out, &self.loaded.meta, &place),
            None => Ok(()),
        }
    }

    fn deed(&mut self, step: &Step) -> io::Result<()> {
        self.step(&format!("T{} {}", step.thread, sentences::deed(step)), step)
    }

    fn ending(&mut self, report: &Report) -> io::Result<()> {
        writeln!(self.out, "{}: {}", self.loaded.run.name(), sentences::ending(report))?;
        if let Some(anchor) = &report.anchor {
            self.step("before that it was last seen", anchor)?;
        }
        if let Some(fault) = report.fault.as_ref().filter(|_| report.anchor.is_none()) {
            match (&fault.access, &fault.step) {
                (Some(access), _) => self.deed(access)?,
                (None, Some(step)) => self.step("it was last seen", step)?,
                (None, None) => {}
            }
            if let Some(pointer) = &fault.pointer {
                let words = format!(
                    "the bad pointer is what T{} {}",
                    pointer.thread,
                    sentences::deed(pointer)
                );
                self.step(&words, pointer)?;
            }
        }
        let is_stopped = report.ending == Ending::Stopped;
        for wait in report.waits.iter().filter(|_| is_stopped) {
            let sentence = sentences::wait(wait, self.names);
            match &wait.step {
                Some(step) if wait.awaited != Awaited::Nothing => self.step(&format!("{sentence},"), step)?,
                Some(step) => self.step(&format!("{sentence}; it was last seen"), step)?,
                None => writeln!(self.out, "  {sentence}")?,
            }
        }
        writeln!(self.out)
    }

    fn culprit(&mut self, report: &Report) -> io::Result<()> {
        let conclusion = sentences::conclusion(report, self.names);
        let found = sentences::culprit(report);
        match found {
            Some(finding) => {
                let how = if finding.order == Order::Unordered {
                    "likely"
                } else {
                    "possible"
                };
                writeln!(self.out, "{how} culprit: {conclusion}")?;
                self.finding(finding)?;
            }
            None => writeln!(self.out, "conclusion: {conclusion}")?,
        }
        for finding in report
            .findings
            .iter()
            .skip(1)
            .take(ALSO_SHOWN)
            .filter(|_| found.is_some())
        {
            writeln!(self.out, "also near: {}", sentences::finding(finding, self.names))?;
        }
        writeln!(self.out)
    }

    /// Its steps in the order in which they happened.
    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        let mut steps: Vec<Step> = [Some(finding.mine), Some(finding.theirs), finding.again]
            .into_iter()
            .flatten()
            .collect();
        steps.sort_by_key(|step| step.entry.sequence);
        steps.iter().try_for_each(|step| self.deed(step))
    }

    fn reads(&mut self, reads: &[Read]) -> io::Result<()> {
        let Some(first) = reads.first() else { return Ok(()) };
        writeln!(
            self.out,
            "what T{} read last of memory that is written in the run, one read for each place in the source, the newest first:",
            first.step.thread
        )?;
        for read in reads {
            let step = &read.step;
            let value = step.access().and_then(|access| {
                let value = sentences::found(access).filter(|_| access.bytes <= 8)?;
                Some(format!(" = {}", sentences::value(access, value)))
            });
            let writer = match &read.writer {
                Writer::Step(writer, order) => {
                    let order = match order {
                        Order::Same => "",
                        Order::Synchronised => ", ordered",
                        Order::Unordered => ", UNORDERED",
                        Order::Unknown => ", order unknown",
                    };
                    let is_whole = match (writer.access(), step.access()) {
                        (Some(write), Some(read)) => write.covers(read),
                        _ => true,
                    };
                    let part = if is_whole { "" } else { "in part " };
                    let (thread, line) = (writer.thread, self.names.line(writer));
                    format!("{part}written by T{thread} at {line}{order}")
                }
                Writer::Nobody => "no write of it was observed".to_owned(),
                Writer::Unknown => "no write of it is in the trace, which is not complete".to_owned(),
            };
            let (variable, value) = (self.names.variable_of(step), value.unwrap_or_default());
            writeln!(self.out, "  {}: {variable}{value}, {writer}", self.names.line(step))?;
        }
        writeln!(self.out)
    }

    fn races(&mut self, report: &Report) -> io::Result<()> {
        if report.races.is_empty() {
            return writeln!(self.out, "{}", sentences::no_races(report));
        }
        let pairs = count(report.races.len() as u64, "pair");
        writeln!(
            self.out,
            "unordered accesses, each with the nearest of another thread: {pairs} of places, the last first:"
        )?;
        for race in report.races.iter().take(RACES_SHOWN) {
            let side = |step: &Step| {
                format!(
                    "T{} {} at {}",
                    step.thread,
                    sentences::deed(step),
                    self.names.line(step)
                )
            };
            let (variable, times) = (self.names.variable_of(&race.second), count(race.times, "time"));
            // Only nearest accesses are compared, so there may be more.
            writeln!(
                self.out,
                "  {variable}: {}, then {} ({times} at least){}",
                side(&race.first),
                side(&race.second),
                sentences::so_far(&[&race.first, &race.second])
            )?;
        }
        match report.races.len().saturating_sub(RACES_SHOWN) {
            0 => Ok(()),
            more => writeln!(self.out, "  … and {more} more; --json has them all"),
        }
    }

    fn notes(&mut self, report: &Report) -> io::Result<()> {
        let (private, shared) = (report.private_lost, report.shared_lost);
        if private + shared > 0 {
            writeln!(
                self.out,
                "note: the trace is bounded: {private} older accesses to memory that one thread used, and {shared} other steps, are missing"
            )?;
        }
        if report.uses_openmp {
            writeln!(
                self.out,
                "note: barriers inside the OpenMP runtime are not observed, so pairs may look unordered that are not"
            )?;
        }
        let is_dark = sentences::culprit(report).is_none_or(|found| sentences::is_dark(found.pattern));
        if is_dark && report.ending != Ending::Success && report.cycle.is_empty() {
            writeln!(
                self.out,
                "note: variables that are always used under the same lock are not observed, unless the program is compiled with REFRAIN_O2=0"
            )?;
        }
        if !report.has_plain_accesses && report.ending != Ending::Success {
            writeln!(
                self.out,
                "note: no plain access was observed; record it at scope memory to see more"
            )?;
        }
        Ok(())
    }
}
