//! What came into a run from outside, thread by thread, as it can be looked at.
use crate::Error;
use log_format::inputs::Entry;
use log_format::inputs::FIRST_SIGNAL;
use log_format::inputs::REST;
use log_format::inputs::SYNC;
use log_format::inputs::labels;
use log_format::inputs::labels::LABEL;
use log_format::inputs::labels::Labels;
use run_model::Op;
use run_model::ThreadIndex;
use run_store::RunDirectory;
use std::fs;
use std::io;
use std::path::Path;

/// What one system call, or one signal, brought in.
#[derive(Clone, Debug)]
pub struct Input {
    pub event: u64,
    pub what: What,
    pub result: i64,
    /// Bytes that were written into the program's memory.
    pub bytes: u64,
    /// The processor's time-stamp counter; 0: not taken.
    pub time: u64,
    /// Where the program went on behind it, the nearest address of its own code; 0: not known.
    pub label: u64,
    /// The same when the thread came to it, if it may have waited there; otherwise 0.
    pub began: u64,
    /// The same when the thread went on, if it may have done something before; otherwise 0.
    pub ended: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Call(u32),
    /// The order of synchronisations was recorded.
    Sync(Op),
    Signal(u32),
    /// Nothing: the thread came to a stop.
    Rest,
}

impl What {
    fn of(entry: &Entry) -> What {
        match entry.number.checked_sub(FIRST_SIGNAL) {
            Some(signal) => What::Signal(signal),
            None if entry.number == SYNC => What::Sync(Op::from_u8(entry.check as u8).unwrap_or_default()),
            None if entry.number == REST => What::Rest,
            None => What::Call(entry.number),
        }
    }
}

/// As much of a thread's inputs as can be read, for looking at; the error says what is wrong with the rest.
pub fn load_inputs(run: &RunDirectory, thread: u32) -> (Vec<Input>, Option<Error>) {
    let file = run.thread_inputs(thread);
    let mut inputs = Vec::new();
    let damaged = |file: &Path, damage| {
        Some(Error::Inputs {
            file: file.to_owned(),
            damage,
        })
    };
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        // A thread that made no call has none.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (inputs, None),
        Err(e) => return (inputs, Some(run_store::Error::io("read", &file, e).into())),
    };
    // The process ended when the thread was about to make its first.
    if bytes.is_empty() {
        return (inputs, None);
    }
    let stream = match log_format::inputs::stream_of(&bytes, ThreadIndex(thread)) {
        Ok(stream) => stream,
        Err(damage) => return (inputs, damaged(&file, damage)),
    };
    let mut reader = log_format::inputs::Reader::new(&stream);
    let (mut labels, mut written) = (Labels::new(), None);
    loop {
        match reader.next_call() {
            Ok(Some(call)) if call.entry.number == LABEL => {
                written = Some(labels::join(call.entry.check, call.entry.result));
            }
            Ok(Some(call)) => inputs.push(Input {
                event: call.entry.event,
                what: What::of(&call.entry),
                result: call.entry.result,
                bytes: call.ranges().map(|(_, bytes)| bytes.len() as u64).sum(),
                time: call.entry.time,
                label: match Labels::has_one(call.entry.number, call.entry.time) {
                    true => labels.next(call.entry.number, written.take()),
                    false => 0,
                },
                began: call.entry.began().unwrap_or(0),
                ended: call.entry.ended().unwrap_or(0),
            }),
            Ok(None) => return (inputs, None),
            Err(damage) => return (inputs, damaged(&file, damage)),
        }
    }
}
