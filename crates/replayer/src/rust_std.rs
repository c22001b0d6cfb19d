//! What Rust's standard library does, in words of the report: panics, and locks that are atomics.
//!
//! A traced replay sees the library from within. Its locks are words that are compared and exchanged, its panics a count that goes up.
//! Here they become what they are to the program. How they are known: the count by its symbol; the word of a lock by the library's
//! function that was called, or inlined, where it is accessed; that it was taken or given back, by the values before and after.
//! A word that does something else is left as it is.
use crate::sites::Place;
use crate::symbols::Symbols;
use failure_report::Access;
use failure_report::Entry;
use failure_report::Traces;
use failure_report::What;
use run_model::Op;
use run_model::SiteId;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What a word of the library's is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Mutex,
    RwLock,
    Condvar,
}

/// Files of the standard library, and what the words are for that are accessed there. The condition variable comes last: it also
/// gives back a mutex, and takes it again.
const FILES: [(&str, Word); 6] = [
    ("/library/std/src/sync/poison/mutex.rs", Word::Mutex),
    ("/library/std/src/sys/sync/mutex/futex.rs", Word::Mutex),
    ("/library/std/src/sync/poison/rwlock.rs", Word::RwLock),
    ("/library/std/src/sys/sync/rwlock/futex.rs", Word::RwLock),
    ("/library/std/src/sync/poison/condvar.rs", Word::Condvar),
    ("/library/std/src/sys/sync/condvar/futex.rs", Word::Condvar),
];
/// Parts of the library that keep books of threads, and of who waits for whom. Their memory is nobody else's.
const BOOKS: [&str; 6] = [
    "/library/std/src/sys/",
    "/library/std/src/thread/",
    "/library/std/src/panicking.rs",
    "/library/std/src/sync/mpmc/waker.rs",
    "/library/std/src/sync/mpmc/context.rs",
    "/library/test/src/",
];
/// Words are of this size; flags beside them, that say whether the lock is poisoned, are smaller.
const WORD_BYTES: u64 = 4;
/// A read-write lock that is held by a writer has all these bits.
const WRITE_LOCKED: u64 = (1 << 30) - 1;
/// EBUSY
const BUSY: i64 = 16;

/// Puts the library's doings into the report's words.
pub fn translate(traces: &mut Traces, place: &dyn Fn(SiteId) -> Option<Place>, symbols: &Symbols) {
    let words = words(traces, place);
    traces.library_cells = library_cells(traces, place, symbols);
    if let Some(count) = symbols.panic_count() {
        mark_panics(traces, count.get());
    }
    for trace in &mut traces.threads {
        trace.entries.retain_mut(|entry| translate_entry(entry, &words));
    }
}

fn word_of(place: &Place) -> Option<Word> {
    let called = place.library.as_ref().map(|(file, _)| file.as_str());
    let of_file = |file: &str| FILES.iter().find(|(end, _)| file.ends_with(end)).map(|(_, word)| *word);
    called.and_then(of_file).or_else(|| of_file(&place.file))
}

/// The words of locks and condition variables, by address.
fn words(traces: &Traces, place: &dyn Fn(SiteId) -> Option<Place>) -> BTreeMap<u64, Word> {
    let mut known: BTreeMap<SiteId, Option<Word>> = BTreeMap::new();
    let mut words = BTreeMap::new();
    for (site, access) in atomics(traces).filter(|(_, access)| access.bytes == WORD_BYTES) {
        let word = known
            .entry(site)
            .or_insert_with(|| place(site).as_ref().and_then(word_of));
        if let Some(word) = word {
            let found = words.entry(access.address).or_insert(*word);
            *found = (*found).min(*word);
        }
    }
    words
}

/// Memory that is the library's own: its variables, and what stands beside the words of its locks.
fn library_cells(traces: &Traces, place: &dyn Fn(SiteId) -> Option<Place>, symbols: &Symbols) -> BTreeSet<u64> {
    let accesses = traces.threads.iter().flat_map(|trace| &trace.entries);
    let accesses = accesses.filter_map(|entry| match &entry.what {
        What::Access(access) => Some((entry.site, access)),
        _ => None,
    });
    let is_of_books = |place: &Place| {
        let called = place.library.as_ref().map(|(file, _)| file.as_str());
        let is_one = |file: &str| BOOKS.iter().any(|part| file.contains(part));
        // What is inlined into the program's own line works on its memory.
        place.is_of_library() && (is_one(&place.file) || called.is_some_and(is_one))
    };
    let mut of_books: BTreeMap<SiteId, bool> = BTreeMap::new();
    let mut of_lock: BTreeMap<SiteId, bool> = BTreeMap::new();
    let mut named: BTreeMap<u64, bool> = BTreeMap::new();
    let mut cells = BTreeSet::new();
    for (site, access) in accesses {
        let is_of_lock = access.atomic
            && *of_lock
                .entry(site)
                .or_insert_with(|| place(site).as_ref().and_then(word_of).is_some());
        let is_named = *named.entry(access.address).or_insert_with(|| {
            let name = symbols.name(access.address);
            name.is_some_and(|name| is_of_library(&name))
        });
        let is_booked = *of_books
            .entry(site)
            .or_insert_with(|| place(site).as_ref().is_some_and(is_of_books));
        if is_of_lock || is_named || is_booked {
            cells.insert(access.address);
        }
    }
    cells
}

/// `std::rt::cleanup::CLEANUP`, `<std::thread::…>::…`
fn is_of_library(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&']);
    ["std::", "core::", "alloc::", "test::", "std_detect::"]
        .iter()
        .any(|start| path.starts_with(start))
}

fn atomics(traces: &Traces) -> impl Iterator<Item = (SiteId, &Access)> {
    let entries = traces.threads.iter().flat_map(|trace| &trace.entries);
    entries.filter_map(|entry| match &entry.what {
        What::Access(access) if access.atomic => Some((entry.site, access)),
        _ => None,
    })
}

/// The count of panics goes up before a message is printed or anything unwound, and down when a panic is caught. If it was seen
/// to, what the unwinder says of panics comes too late to be of use.
fn mark_panics(traces: &mut Traces, count: u64) {
    let change = |entry: &Entry| match entry.what {
        What::Access(Access {
            address,
            atomic: true,
            writes: true,
            value: Some(after),
            before: Some(before),
            ..
        }) if address == count => Some(after.cmp(&before)).filter(|change| change.is_ne()),
        _ => None,
    };
    let mut entries = traces.threads.iter().flat_map(|trace| &trace.entries);
    if !entries.any(|entry| change(entry).is_some()) {
        return;
    }
    for trace in &mut traces.threads {
        trace
            .entries
            .retain(|entry| entry.what != What::Thrown { is_panic: true });
        for entry in &mut trace.entries {
            match change(entry) {
                Some(change) if change.is_gt() => entry.what = What::Thrown { is_panic: true },
                Some(_) => entry.what = What::Caught,
                None => {}
            }
        }
    }
}

/// False if the entry says nothing that the report should know.
fn translate_entry(entry: &mut Entry, words: &BTreeMap<u64, Word>) -> bool {
    let sync = |op: Op, object: u64, value: i64| What::Sync {
        op,
        object,
        value,
        other: None,
    };
    match entry.what {
        What::Access(access) if access.atomic && !access.pending => {
            let Some(word) = words.get(&access.address) else {
                return true;
            };
            // The word beside that of a read-write lock only counts who waits.
            let is_lock = lock(words, access.address).is_some_and(|(object, _)| object == access.address);
            let Some((op, value)) = operation(*word, &access).filter(|_| is_lock) else {
                // A look at a lock, or a mark that somebody waits for it, orders nothing. A condition variable's word is what is waited for.
                return *word == Word::Condvar;
            };
            entry.what = sync(op, access.address, value);
            true
        }
        // Who waits for a lock and is woken learns nothing by it: it has to take the lock all the same.
        What::Sync {
            op: Op::FutexWait | Op::FutexWake,
            object,
            ..
        } => lock(words, object).is_none_or(|(_, word)| word == Word::Condvar),
        What::Stopped {
            op: Op::FutexWait,
            object,
            other,
        } => {
            if let Some((object, word)) = lock(words, object) {
                let op = match word {
                    Word::Mutex => Op::MutexLock,
                    Word::RwLock => Op::RwWriteLock,
                    Word::Condvar => Op::CondWake,
                };
                entry.what = What::Stopped { op, object, other };
            }
            true
        }
        _ => true,
    }
}

/// The word that says whether a lock is held. Writers of a read-write lock wait for the one beside it.
fn lock(words: &BTreeMap<u64, Word>, object: u64) -> Option<(u64, Word)> {
    let word = *words.get(&object)?;
    let beside = object.wrapping_sub(WORD_BYTES);
    match words.get(&beside) {
        Some(Word::RwLock) if word == Word::RwLock => Some((beside, word)),
        _ => Some((object, word)),
    }
}

/// What an access does to the lock, and what comes of it: 0, or `BUSY`.
fn operation(word: Word, access: &Access) -> Option<(Op, i64)> {
    let (before, after) = (access.before?, access.value?);
    match word {
        _ if !access.writes => None,
        // A comparison that failed: somebody has it.
        Word::Mutex if before == after => (before != 0).then_some((Op::MutexTryLock, BUSY)),
        Word::RwLock if before == after => (before & WRITE_LOCKED != 0).then_some((Op::RwTryWriteLock, BUSY)),
        _ => change(word, before, after).map(|op| (op, 0)),
    }
}

/// What has become of the lock.
fn change(word: Word, before: u64, after: u64) -> Option<Op> {
    match word {
        _ if before == after => None,
        Word::Mutex if before == 0 => Some(Op::MutexLock),
        Word::Mutex if after == 0 => Some(Op::MutexUnlock),
        Word::Mutex => None,
        Word::RwLock => {
            let (was, is) = (before & WRITE_LOCKED, after & WRITE_LOCKED);
            match (was, is) {
                (0, WRITE_LOCKED) => Some(Op::RwWriteLock),
                (WRITE_LOCKED, 0) => Some(Op::RwUnlock),
                _ if is == was + 1 && is != WRITE_LOCKED => Some(Op::RwReadLock),
                _ if was == is + 1 => Some(Op::RwUnlock),
                _ => None,
            }
        }
        Word::Condvar => (after == before.wrapping_add(1)).then_some(Op::CondBroadcast),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use failure_report::ThreadTrace;

    const WORD: u64 = 0x1000;

    fn update(address: u64, before: u64, after: u64) -> What {
        What::Access(Access {
            address,
            bytes: WORD_BYTES,
            reads: true,
            writes: true,
            atomic: true,
            value: Some(after),
            before: Some(before),
            ..Access::default()
        })
    }

    /// What becomes of these steps, all on a line that calls a function of `file`.
    fn translated(file: &str, steps: &[What]) -> Vec<What> {
        let entry = |(sequence, what): (u64, &What)| Entry {
            sequence,
            event: sequence,
            site: SiteId(1),
            what: *what,
        };
        let mut traces = Traces {
            threads: vec![ThreadTrace {
                entries: (1..).zip(steps).map(entry).collect(),
                ..ThreadTrace::default()
            }],
            ..Traces::default()
        };
        let place = |_| {
            Some(Place {
                file: "src/main.rs".to_owned(),
                line: 3,
                column: 5,
                function: "main".to_owned(),
                library: Some((format!("/rustc/0123{file}"), 492)),
                access: String::new(),
            })
        };
        translate(&mut traces, &place, &Symbols::default());
        traces.threads[0].entries.iter().map(|entry| entry.what).collect()
    }

    fn ops(translated: &[What]) -> Vec<Option<Op>> {
        let op = |what: &What| match what {
            What::Sync { op, .. } | What::Stopped { op, .. } => Some(*op),
            _ => None,
        };
        translated.iter().map(op).collect()
    }

    #[test]
    fn a_mutex_is_taken_and_given_back() {
        let waited = What::Sync {
            op: Op::FutexWait,
            object: WORD,
            value: 0,
            other: None,
        };
        let stopped = What::Stopped {
            op: Op::FutexWait,
            object: WORD,
            other: None,
        };
        // The second time somebody else holds it: a comparison fails, 1 becomes 2, and that is no lock yet.
        let steps = [
            update(WORD, 0, 1),
            update(WORD, 1, 0),
            update(WORD, 1, 1),
            update(WORD, 1, 2),
            waited,
            update(WORD, 0, 2),
            stopped,
        ];
        assert_eq!(
            ops(&translated("/library/std/src/sync/poison/mutex.rs", &steps)),
            [
                Some(Op::MutexLock),
                Some(Op::MutexUnlock),
                Some(Op::MutexTryLock),
                Some(Op::MutexLock),
                Some(Op::MutexLock)
            ]
        );
    }

    #[test]
    fn a_read_write_lock_has_readers_or_a_writer() {
        let steps = [
            update(WORD, 0, 1),
            update(WORD, 1, 2),
            update(WORD, 2, 1),
            update(WORD, 1, 0),
            update(WORD, 0, WRITE_LOCKED),
            update(WORD, WRITE_LOCKED, 0),
        ];
        let expected = [
            Op::RwReadLock,
            Op::RwReadLock,
            Op::RwUnlock,
            Op::RwUnlock,
            Op::RwWriteLock,
            Op::RwUnlock,
        ];
        assert_eq!(
            ops(&translated("/library/std/src/sync/poison/rwlock.rs", &steps)),
            expected.map(Some)
        );
    }

    #[test]
    fn the_count_beside_a_read_write_lock_is_none() {
        let beside = WORD + WORD_BYTES;
        let steps = [update(WORD, 0, 1), update(beside, 0, 1), update(WORD, 1, 0)];
        assert_eq!(
            ops(&translated("/library/std/src/sync/poison/rwlock.rs", &steps)),
            [Op::RwReadLock, Op::RwUnlock].map(Some)
        );
    }

    #[test]
    fn other_atomics_stay_what_they_are() {
        let steps = [update(WORD, 0, 1), update(WORD, 1, 0)];
        assert_eq!(translated("/library/core/src/sync/atomic.rs", &steps), steps);
    }

    #[test]
    fn the_count_of_panics_goes_up_and_down() {
        let unwinding = What::Thrown { is_panic: true };
        let mut traces = Traces::default();
        let steps = [update(WORD, 0, 1), unwinding, update(WORD, 1, 0)];
        let entries = steps.map(|what| Entry {
            sequence: 1,
            event: 1,
            site: SiteId(1),
            what,
        });
        traces.threads.push(ThreadTrace {
            entries: entries.to_vec(),
            ..ThreadTrace::default()
        });
        mark_panics(&mut traces, WORD);
        let found: Vec<What> = traces.threads[0].entries.iter().map(|entry| entry.what).collect();
        assert_eq!(found, [What::Thrown { is_panic: true }, What::Caught]);
    }
}
