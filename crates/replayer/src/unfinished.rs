//! Calls that threads were in when their process ended: output, and forks.
//!
//! Both are logged before they happen, as the thread may not come back from them, and so they may never have happened. Whether a fork did, its child tells.
//! Whether output arrived, the kept copy tells: processes write there in turns, whose order is logged, so it is known where
//! in it the bytes have to be. A turn that was taken and not used is passed over in replay.
use crate::loaded::Overview;
use crate::output::ByOthers;
use log_format::inputs;
use log_format::inputs::CHECKED_BYTES;
use log_format::inputs::Entry;
use log_format::inputs::GATHERED_BYTES;
use log_format::inputs::Lengths;
use log_format::inputs::labels::LABEL;
use run_model::ThreadIndex;
use run_store::Ended;
use run_store::Origin;
use run_store::RunDirectory;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const STREAMS: [&str; 2] = ["stdout", "stderr"];
const WRITE: u32 = libc::SYS_write as u32;
const WRITEV: u32 = libc::SYS_writev as u32;
const FORKS: [u32; 4] = [
    libc::SYS_fork as u32,
    libc::SYS_vfork as u32,
    libc::SYS_clone as u32,
    libc::SYS_clone3 as u32,
];

/// A thread of a process, by their numbers.
type Thread = (u32, u32);

/// What is known of all processes' unfinished calls.
#[derive(Debug, Default)]
pub struct Unfinished {
    /// The processes of the run.
    processes: BTreeSet<u32>,
    /// Of threads that were writing in turn: did it arrive?
    arrived: BTreeMap<Thread, bool>,
    /// For standard output and error: turns that were taken and not used.
    pub skipped_turns: [BTreeSet<u32>; 2],
    /// Bytes there that no replay writes: those of programs that are not recorded, and parts of what somebody wrote who was killed meanwhile.
    pub others: [ByOthers; 2],
}

impl Unfinished {
    pub fn of(run: &RunDirectory, first: &Overview) -> Unfinished {
        let mut unfinished = Unfinished {
            processes: first.processes.iter().map(Overview::number).collect(),
            ..Unfinished::default()
        };
        let mut lost = [Lost::default(); 2];
        if is_any_in_turn(run, first)
            && let Some(turns) = Turns::read(run, first)
        {
            for (stream, name) in STREAMS.into_iter().enumerate() {
                if let Ok(kept) = File::open(run.file(name)) {
                    lost[stream] = unfinished.look(stream, &turns, &kept, first);
                }
            }
        }
        unfinished.others = by_others(run, first, lost);
        unfinished
    }

    /// Finds out what of the turns of one stream is in `kept`.
    fn look(&mut self, stream: usize, turns: &Turns, kept: &File, first: &Overview) -> Lost {
        let taken = turns.of_stream(stream);
        let by_first = taken.iter().filter(|turn| turn.thread.0 == 0).map(Turn::bytes).sum();
        // What the first process wrote while it was alone comes before all turns.
        let mut position = first.header.shown_bytes[stream].saturating_sub(by_first);
        let mut is_in_place = true;
        let mut lost = Lost::default();
        for (index, turn) in taken.iter().enumerate() {
            let is_there = turn.write.is_some_and(|write| is_at(kept, position, &write));
            match turn.write {
                None => {
                    self.skipped_turns[stream].insert(turn.number);
                }
                Some(_) if !turn.is_unfinished => {
                    position += turn.bytes();
                    is_in_place = is_there;
                }
                // Somebody who is not recorded wrote there as well: nothing can be said.
                Some(_) if is_there || !is_in_place => {
                    self.arrived.insert(turn.thread, true);
                    position += turn.bytes();
                }
                Some(_) => {
                    self.arrived.insert(turn.thread, false);
                    self.skipped_turns[stream].insert(turn.number);
                    let part = part_of(kept, position, turn, &taken[index + 1..]);
                    lost.logged += turn.bytes();
                    lost.has_parts |= part > 0;
                    position += part;
                }
            }
        }
        lost
    }

    /// Has the call happened that a thread was in when it had completed `events`? `missing` is of its process.
    pub fn has_happened(&self, run: &RunDirectory, thread: Thread, events: u64, missing: &mut [u64; 2]) -> bool {
        let Some(entry) = last_entry(&run.thread_inputs(thread.1), thread.1).filter(|entry| entry.event == events)
        else {
            return false;
        };
        if FORKS.contains(&entry.number) {
            return self.processes.contains(&entry.check);
        }
        if entry.number != WRITE || entry.result <= 0 {
            return false;
        }
        if let Some(arrived) = self.arrived.get(&thread) {
            return *arrived;
        }
        match missing.iter_mut().find(|missing| **missing == entry.result as u64) {
            Some(missing) => {
                *missing = 0;
                false
            }
            None => true,
        }
    }
}

/// Of standard output and error: bytes that a process alone logged and that did not arrive.
pub fn missing_bytes(overview: &Overview) -> [u64; 2] {
    let ending = overview.meta.ending.as_ref();
    let arrived = ending.map(|ending| [ending.stdout, ending.stderr]);
    [0, 1].map(|stream| match arrived {
        // More may have arrived than was logged: from children.
        Some(arrived) if arrived[stream].complete => {
            overview.header.shown_bytes[stream].saturating_sub(arrived[stream].bytes)
        }
        _ => 0,
    })
}

/// What was logged as written, and is not replayed.
#[derive(Clone, Copy, Default)]
struct Lost {
    logged: u64,
    /// Some of it arrived all the same.
    has_parts: bool,
}

/// Bytes of standard output and error that no replay writes: more arrived than the processes of the run logged.
fn by_others(run: &RunDirectory, first: &Overview, lost: [Lost; 2]) -> [ByOthers; 2] {
    let all = || std::iter::once(first).chain(&first.processes);
    let replaced = all().filter(|process| process.header.ended == Ended::Replaced).count();
    let executed = all()
        .filter(|process| process.header.origin == Origin::Executed)
        .count();
    let were_there = first.header.forked
        || first.header.spawned > 0
        // What it adds counts as theirs.
        || first.meta.ending.as_ref().is_some_and(|ending| ending.stdout.on_terminal)
        // Who could not be recorded to the end, or not at all, wrote on.
        || all().any(|process| process.header.truncated.is_some())
        || first.header.origin == Origin::First && first.processes.len() + 1 < first.header.processes as usize
        || executed < replaced;
    // When one thread's log ends, others have logged what depends on more than there is, which is not replayed.
    let is_all_replayed = !all().any(|process| process.header.truncated.is_some() && process.slots.len() > 1);
    let ending = first.meta.ending.as_ref();
    let kept = ending.map(|ending| [ending.stdout, ending.stderr]);
    [0, 1].map(|stream| {
        let logged: u64 = all().map(|process| process.header.shown_bytes[stream]).sum();
        let is_any = were_there || lost[stream].has_parts;
        match kept.map(|kept| kept[stream]).filter(|kept| kept.complete) {
            Some(kept) if is_all_replayed && (is_any || replaced > 0) => {
                ByOthers::Exactly((kept.bytes + lost[stream].logged).saturating_sub(logged))
            }
            _ if is_any => ByOthers::AtMost(fs::metadata(run.file(STREAMS[stream])).map_or(0, |file| file.len())),
            _ => ByOthers::Exactly(0),
        }
    })
}

/// Has a thread of some process come to its end in a turn? Otherwise nobody has to read all inputs.
fn is_any_in_turn(run: &RunDirectory, first: &Overview) -> bool {
    let is_in_turn = |directory: &RunDirectory, thread: u32, events: u64| {
        let last = last_entry(&directory.thread_inputs(thread), thread);
        last.is_some_and(|last| last.number == inputs::TURN || last.number == WRITE && last.event >= events)
    };
    !first.processes.is_empty()
        && std::iter::once(first).chain(&first.processes).any(|process| {
            let directory = directory_of(run, process);
            (0..)
                .zip(&process.slots)
                .any(|(thread, slot)| is_in_turn(&directory, thread, slot.count))
        })
}

fn directory_of(run: &RunDirectory, process: &Overview) -> RunDirectory {
    match process.number() {
        0 => run.clone(),
        number => run.process(number),
    }
}

/// A turn to write.
#[derive(Clone, Copy)]
struct Turn {
    number: u32,
    thread: Thread,
    /// `None`: whoever had it came to its end before it said more.
    write: Option<Entry>,
    /// It came to its end in that call.
    is_unfinished: bool,
}

impl Turn {
    fn bytes(&self) -> u64 {
        self.write.map_or(0, |write| write.result.max(0) as u64)
    }
}

/// The turns of all processes, for each stream.
struct Turns([Vec<Turn>; 2]);

impl Turns {
    /// `None` if the inputs do not say it, or cannot be read; that is told elsewhere.
    fn read(run: &RunDirectory, first: &Overview) -> Option<Turns> {
        let mut turns = Turns([Vec::new(), Vec::new()]);
        for process in std::iter::once(first).chain(&first.processes) {
            let directory = directory_of(run, process);
            for (thread, slot) in (0..).zip(&process.slots) {
                let path = directory.thread_inputs(thread);
                // A thread that made no call has none.
                if fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
                    turns.add(&path, (process.number(), thread), slot.count)?;
                }
            }
        }
        Some(turns)
    }

    fn add(&mut self, path: &Path, thread: Thread, events: u64) -> Option<()> {
        let stream = inputs::stream_of(&fs::read(path).ok()?, ThreadIndex(thread.1)).ok()?;
        let mut reader = inputs::Reader::new(&stream);
        let mut taken: Option<(usize, Turn)> = None;
        while let Some(call) = reader.next_call().ok()? {
            let entry = call.entry;
            match (entry.number, taken.take()) {
                (inputs::TURN, _) => {
                    let stream = (entry.check as usize).checked_sub(1).filter(|stream| *stream < 2)?;
                    let turn = Turn {
                        number: entry.result as u32,
                        thread,
                        write: None,
                        is_unfinished: true,
                    };
                    taken = Some((stream, turn));
                }
                (LABEL, before) => taken = before,
                (_, Some((stream, turn))) => self.0[stream].push(Turn {
                    write: Some(entry),
                    is_unfinished: entry.event >= events,
                    ..turn
                }),
                (_, None) => {}
            }
        }
        if let Some((stream, turn)) = taken {
            self.0[stream].push(turn);
        }
        Some(())
    }

    /// In their order. One that was logged, but taken by somebody else because its first owner came to its end, is the other's.
    fn of_stream(&self, stream: usize) -> Vec<Turn> {
        let mut turns: Vec<Turn> = self.0[stream].clone();
        turns.sort_by_key(|turn| (turn.number, turn.write.is_none()));
        turns.dedup_by_key(|turn| turn.number);
        turns
    }
}

/// Are these bytes there, as far as their check says?
fn is_at(kept: &File, position: u64, write: &Entry) -> bool {
    let Ok(count) = usize::try_from(write.result) else {
        return true;
    };
    let most = if write.number == WRITEV {
        GATHERED_BYTES
    } else {
        CHECKED_BYTES
    };
    let mut first = vec![0; count.min(most)];
    let is_whole = kept.metadata().is_ok_and(|kept| kept.len() >= position + count as u64);
    if !is_whole || kept.read_exact_at(&mut first, position).is_err() {
        return false;
    }
    let (recorded, given) = write.compared(inputs::condensed(&first, count));
    recorded == 0 || recorded == given
}

/// How many bytes of `turn`, which did not arrive as a whole, are there nevertheless: those before what was written next.
fn part_of(kept: &File, position: u64, turn: &Turn, after: &[Turn]) -> u64 {
    let next = after.iter().find(|turn| turn.bytes() > 0 && !turn.is_unfinished);
    let length = kept.metadata().map_or(position, |kept| kept.len());
    match next.and_then(|next| next.write) {
        Some(write) => {
            let is_before = |part: &u64| is_at(kept, position + part, &write);
            (0..turn.bytes()).find(is_before).unwrap_or(0)
        }
        None => length.saturating_sub(position).min(turn.bytes()),
    }
}

/// The last of a thread's recorded calls, if it brought nothing in.
fn last_entry(path: &Path, thread: u32) -> Option<Entry> {
    let file = File::open(path).ok()?;
    let mut header = [0; inputs::HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    let bytes = file.metadata().ok()?.len() as usize;
    let lengths = Lengths::read(&header, bytes, ThreadIndex(thread)).ok()?;
    let mut entry = [0; inputs::ENTRY_BYTES];
    let [shelf, desk] = lengths.last_places(entry.len())?;
    let (first, second) = entry.split_at_mut(shelf.1);
    file.read_exact_at(first, shelf.0 as u64).ok()?;
    file.read_exact_at(second, desk.0 as u64).ok()?;
    inputs::last_entry(&entry)
}
