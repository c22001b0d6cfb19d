//! Small traces by hand: each call adds one step, in the order in which they happened.
#![allow(dead_code, reason = "each test file uses a part of it")]
use failure_report::Access;
use failure_report::Ending;
use failure_report::Entry;
use failure_report::Finding;
use failure_report::Pattern;
use failure_report::Report;
use failure_report::ThreadTrace;
use failure_report::Traces;
use failure_report::What;
use failure_report::explain;
use run_model::Op;
use run_model::SiteId;

pub const X: u64 = 0x1000;
pub const Y: u64 = 0x2000;
pub const LOCK: u64 = 0x10;
pub const OTHER_LOCK: u64 = 0x20;
pub const ABORT: u32 = 6;
pub const SEGV: u32 = 11;

/// What is said if this thread aborted.
pub fn died(script: Script, thread: u32) -> Report {
    died_in(&script.traces(), thread)
}

pub fn died_in(traces: &Traces, thread: u32) -> Report {
    explain(traces, Ending::Signal { thread, signal: ABORT })
}

/// Pattern, site of mine, site of theirs, of the likeliest finding.
pub fn culprit(report: &Report) -> (Pattern, u32, u32) {
    let found: &Finding = report.findings.first().expect("a finding");
    (found.pattern, found.mine.entry.site.0, found.theirs.entry.site.0)
}

#[derive(Default)]
pub struct Script {
    traces: Traces,
    sequence: u64,
}

impl Script {
    /// Adds a step of `thread` at `site`, and returns its sequence number.
    pub fn step(&mut self, thread: u32, site: u32, what: What) -> u64 {
        let threads = &mut self.traces.threads;
        while threads.len() <= thread as usize {
            threads.push(ThreadTrace::default());
        }
        let entries = &mut threads[thread as usize].entries;
        self.sequence += 1;
        entries.push(Entry {
            sequence: self.sequence,
            event: entries.len() as u64,
            site: SiteId(site),
            what,
        });
        self.sequence
    }

    pub fn read(&mut self, thread: u32, site: u32, address: u64, value: u64) -> u64 {
        let access = Access {
            reads: true,
            ..word(address, value)
        };
        self.step(thread, site, What::Access(access))
    }

    pub fn write(&mut self, thread: u32, site: u32, address: u64, value: u64) -> u64 {
        let access = Access {
            writes: true,
            ..word(address, value)
        };
        self.step(thread, site, What::Access(access))
    }

    pub fn atomic(&mut self, thread: u32, site: u32, address: u64, reads: bool, writes: bool) -> u64 {
        let access = Access {
            reads,
            writes,
            atomic: true,
            // A new value each time, so that no update looks like a failed one.
            before: Some(self.sequence),
            ..word(address, self.sequence + 1)
        };
        self.step(thread, site, What::Access(access))
    }

    pub fn sync(&mut self, thread: u32, site: u32, op: Op, object: u64) -> u64 {
        let what = What::Sync {
            op,
            object,
            value: 0,
            other: None,
        };
        self.step(thread, site, what)
    }

    pub fn join(&mut self, thread: u32, other: u32) -> u64 {
        let what = What::Sync {
            op: Op::Join,
            object: 1,
            value: 0,
            other: Some(other),
        };
        self.step(thread, 0, what)
    }

    pub fn spawn(&mut self, thread: u32, other: u32) {
        self.step(thread, 0, What::Spawn { thread: other });
        self.step(other, 0, What::Start);
    }

    pub fn stop(&mut self, thread: u32, site: u32, op: Op, object: u64) {
        let what = What::Stopped {
            op,
            object,
            other: None,
        };
        self.step(thread, site, what);
    }

    pub fn traces(self) -> Traces {
        self.traces
    }
}

fn word(address: u64, value: u64) -> Access {
    Access {
        address,
        bytes: 8,
        value: Some(value),
        ..Access::default()
    }
}
