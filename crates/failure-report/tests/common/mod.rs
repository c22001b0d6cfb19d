//! Small traces by hand: each call adds one step, in the order in which they happened.
#![allow(dead_code, reason = "each test file uses a part of it")]
use failure_report::Access;
use failure_report::Entry;
use failure_report::ThreadTrace;
use failure_report::Traces;
use failure_report::What;
use run_model::Op;
use run_model::SiteId;

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
