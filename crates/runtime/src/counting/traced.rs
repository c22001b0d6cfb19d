//! The trace of which hybrid schedules are made: every thread writes down its events and its accesses with their places
//! (`log_format::hybrid_trace`), numbered over all threads by one counter. A number is taken after the gate and before the count of events grows, for
//! which others wait at their gates; so what the schedule of the recorded run keeps in order has numbers in that order.
use crate::access::Reach;
use crate::control;
use crate::counting::counting;
use crate::line::Line;
use crate::local::Local;
use crate::local::counting::Ordered;
use crate::replay::Doing;
use crate::replay::PLAIN;
use crate::run_directory;
use crate::sites;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use log_format::hybrid_trace;
use log_format::hybrid_trace::HEADER_BYTES;
use log_format::hybrid_trace::MAX_ENTRY_BYTES;
use log_format::hybrid_trace::TraceEncoder;
use log_format::hybrid_trace::whole;
use log_format::hybrid_trace::whole::MAX_TOLD_BYTES;
use log_format::hybrid_trace::whole::ToldEncoder;
use run_model::Access;
use run_model::Kind;
use run_model::Op;
use run_model::Points;
use run_model::Record;
use run_model::SiteId;
use run_model::ThreadIndex;
use runtime_abi::counting::ACCESSES_MAX;
use runtime_abi::schedule_file::GateEntry;

/// The next number over all threads.
fn next_number() -> u64 {
    static SEQUENCE: AtomicU64 = AtomicU64::new(1);
    // Relaxed: one counter has one order, and what happens before is counted before.
    SEQUENCE.fetch_add(1, Relaxed)
}

/// The file in which the first thing is named that a schedule cannot deal with.
pub const SEALED_FILE_NAME: &[u8] = b"sealed";

/// There was no room for an entry of some thread: no thread writes another, so that no trace has a hole. Relaxed: each thread stops at its next entry.
static CUT: AtomicBool = AtomicBool::new(false);

/// The file that says so, without bytes.
pub const CUT_FILE_NAME: &[u8] = b"cut";

/// What a hybrid schedule cannot deal with.
#[derive(Clone, Copy)]
pub enum Unhandled {
    /// A function that cannot count was entered.
    Function,
    /// A copy of more memory than places can tell apart.
    LargeCopy,
    /// The trace could not be written.
    NoRoom,
}

impl Unhandled {
    fn name(self) -> &'static [u8] {
        match self {
            Unhandled::Function => b"function",
            Unhandled::LargeCopy => b"large-copy",
            Unhandled::NoRoom => b"no-room",
        }
    }
}

impl Local {
    /// The gate of an event has been passed that has a position among all: it is written down when it is complete.
    pub fn note_ordered(&self, doing: Doing, gate: Option<&'static GateEntry>) {
        let Doing { kind, op, object } = doing;
        self.enter_turn(op);
        self.counting.ordered.set(Some(Ordered { kind, op, object, gate }));
    }

    pub fn trace_event(&self) {
        let Some(event) = self.counting.ordered.take() else {
            return self.append(|encoder, out| encoder.unordered(out));
        };
        let mut record = Record {
            kind: event.kind,
            op: event.op,
            object: event.object,
            site: sites::number(self.slot.site.load(Relaxed)),
            sources: Points::NONE,
            ..Record::default()
        };
        if let Some(gate) = event.gate {
            record.kind = Kind::from_u8(gate.kind).unwrap_or(event.kind);
            record.op = Op::from_u8(gate.op).unwrap_or(event.op);
            record.access = Access(gate.access);
            record.object = gate.object;
            record.value = gate.value;
            record.site = SiteId(gate.site);
        }
        let sequence = next_number();
        self.append(|encoder, out| encoder.ordered(sequence, &record, out));
    }

    /// An atomic access is about to happen, and its gate has been passed: NOTE [Atomics] (`counting/mod.rs`).
    pub fn trace_between_steps(&self, address: u64, bytes: u64, reach: Reach, gate: Option<&'static GateEntry>) {
        self.note_ordered(PLAIN, gate);
        self.count_event();
        counting().ordinal.store(0, Relaxed);
        self.trace_place(address, bytes, reach);
        // The second step, which is written down when the access is complete.
        self.note_ordered(PLAIN, None);
    }

    /// An access is about to happen, and its gate has been passed.
    pub fn trace_place(&self, address: u64, bytes: u64, reach: Reach) {
        if counting().ordinal.load(Relaxed) & ACCESSES_MAX == ACCESSES_MAX {
            self.seal(Unhandled::LargeCopy);
        }
        let place = self.next_place();
        let sequence = next_number();
        let uses = (reach != Reach::Writes, reach.writes());
        self.append(|encoder, out| encoder.access(sequence, address, bytes as u32, uses, &place, out));
    }

    fn trace_header(&self) -> [u8; HEADER_BYTES] {
        match control::traces_all() {
            true => whole::header(ThreadIndex(self.index)),
            false => hybrid_trace::header(ThreadIndex(self.index)),
        }
    }

    /// An entry that whole traces have besides.
    pub fn append_told(&self, encode: impl FnOnce(&mut ToldEncoder, &mut [u8; MAX_TOLD_BYTES]) -> usize) {
        if CUT.load(Relaxed) {
            return;
        }
        let file = &self.counting.file;
        let Ok(place) = file.room(MAX_TOLD_BYTES, || self.trace_header()) else {
            return self.seal(Unhandled::NoRoom);
        };
        // SAFETY: `room` gave so many bytes, which nobody else uses; and no other reference to the encoder is there, as its field says.
        let bytes = unsafe { encode(&mut *self.counting.told.get(), &mut *place.cast()) };
        file.advance(bytes);
    }

    fn append(&self, encode: impl FnOnce(&mut TraceEncoder, &mut [u8; MAX_ENTRY_BYTES]) -> usize) {
        if CUT.load(Relaxed) {
            return;
        }
        let file = &self.counting.file;
        let Ok(place) = file.room(MAX_ENTRY_BYTES, || self.trace_header()) else {
            return self.seal(Unhandled::NoRoom);
        };
        // SAFETY: `room` gave so many bytes, which nobody else uses; and no other reference to the encoder is there, as its field says.
        let bytes = unsafe { encode(&mut *self.counting.encoder.get(), &mut *place.cast()) };
        file.advance(bytes);
    }

    /// The schedule that is made of this trace is not to be used, and why; what was named first stays.
    #[cold]
    pub fn seal(&self, why: Unhandled) {
        if matches!(why, Unhandled::NoRoom)
            && !CUT.swap(true, Relaxed)
            && let Ok(file) = run_directory::open(CUT_FILE_NAME, libc::O_WRONLY | libc::O_CREAT)
        {
            sys::close(file);
        }
        static SEALED: AtomicBool = AtomicBool::new(false);
        if SEALED.swap(true, Relaxed) {
            return;
        }
        let mut line = Line::default();
        line.text(why.name());
        line.text(b" ");
        line.number(u64::from(sites::number(self.slot.site.load(Relaxed)).0));
        line.text(b"\n");
        if let Ok(file) = run_directory::open(SEALED_FILE_NAME, libc::O_WRONLY | libc::O_CREAT) {
            sys::write_all(file, line.bytes());
            sys::close(file);
        }
    }
}
