//! The files of a traced replay, read into the values that `failure-report` works on.
//!
//! The program wrote them, and it may have died at any moment: every number is checked, none is trusted as a length.
use crate::Error;
use crate::Result;
use failure_report::Access;
use failure_report::Entry;
use failure_report::ThreadTrace;
use failure_report::Traces;
use failure_report::What;
use run_model::Op;
use run_model::SiteId;
use runtime_abi::trace_file::FILE_PREFIX;
use runtime_abi::trace_file::HEADER_BYTES;
use runtime_abi::trace_file::MAGIC;
use runtime_abi::trace_file::PRIVATE_RING;
use runtime_abi::trace_file::RING_BYTES;
use runtime_abi::trace_file::RING_ENTRIES;
use runtime_abi::trace_file::RINGS;
use runtime_abi::trace_file::TraceEntry;
use runtime_abi::trace_file::TraceHeader;
use runtime_abi::trace_file::access;
use runtime_abi::trace_file::what;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The traces of all threads of a replay that was traced into `directory`.
pub fn read(directory: &Path, threads: u32) -> Result<Traces> {
    let threads = (0..threads).map(|thread| {
        let path = directory.join(format!("{FILE_PREFIX}{thread}"));
        match File::open(&path) {
            // A thread that was about to start when the process ended.
            Ok(file) if !has_begun(&file) => Ok(ThreadTrace::default()),
            Ok(file) => decode(&path, |bytes, offset| file.read_exact_at(bytes, offset)),
            // A thread that never started.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(ThreadTrace::default()),
            Err(e) => Err(run_store::Error::io("read", &path, e).into()),
        }
    });
    Ok(Traces {
        threads: threads.collect::<Result<_>>()?,
        ..Traces::default()
    })
}

/// A file is created, then given room for its header, and then the first word of that.
fn has_begun(file: &File) -> bool {
    let mut magic = [0; 8];
    file.read_exact_at(&mut magic, 0).is_ok() && magic != [0; 8]
}

/// `read` fills a buffer from an offset of the file: most of it is a hole, and not worth reading.
fn decode(path: &Path, read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> Result<ThreadTrace> {
    let read = |bytes: usize, offset: u64| {
        let mut buffer = vec![0; bytes];
        read(&mut buffer, offset).map_err(|e| Error::Store(run_store::Error::io("read", path, e)))?;
        Ok::<_, Error>(buffer)
    };
    let corrupt = |place: &str, expected: String, found: String| {
        Error::Store(run_store::Error::corrupt(path, place, expected, found))
    };
    let header = read(HEADER_BYTES, 0)?;
    let number = |at: usize| u64_at(&header, at).unwrap_or(0);
    let magic = number(offset_of!(TraceHeader, magic));
    if magic != MAGIC {
        return Err(corrupt(
            "magic at byte 0",
            format!("{MAGIC:#018x}"),
            format!("{magic:#018x}"),
        ));
    }
    let errno = number(offset_of!(TraceHeader, errno)) as u32;
    if errno != 0 {
        return Err(Error::NotTraced {
            file: path.to_owned(),
            source: io::Error::from_raw_os_error(errno as i32),
        });
    }
    let mut trace = ThreadTrace::default();
    for ring in 0..RINGS {
        let written = number(offset_of!(TraceHeader, written) + 8 * ring);
        let start = HEADER_BYTES as u64 + ring as u64 * RING_BYTES;
        let bytes = read(written.min(RING_ENTRIES) as usize * size_of::<TraceEntry>(), start)?;
        let first = trace.entries.len();
        for (place, entry) in bytes.chunks_exact(size_of::<TraceEntry>()).enumerate() {
            let wrong = || {
                corrupt(
                    "entry",
                    "one of a known kind".to_owned(),
                    format!("another in place {place}"),
                )
            };
            trace.entries.push(decode_entry(entry).ok_or_else(wrong)?);
        }
        let lost = written.saturating_sub(RING_ENTRIES);
        let oldest = trace.entries[first..].iter().map(|entry| entry.sequence).min();
        if ring == PRIVATE_RING {
            trace.private_lost = lost;
            trace.private_from = if lost > 0 { oldest.unwrap_or(u64::MAX) } else { 0 };
            trace.entries[first..].iter_mut().for_each(set_private);
        } else if lost > 0 {
            trace.shared_lost += lost;
            trace.complete_from = trace.complete_from.max(oldest.unwrap_or(u64::MAX));
        }
    }
    trace.entries.sort_by_key(|entry| entry.sequence);
    // A read that took an equal one's place may still stand in its own.
    trace.entries.dedup_by_key(|entry| entry.sequence);
    Ok(trace)
}

fn set_private(entry: &mut Entry) {
    if let What::Access(access) = &mut entry.what {
        access.private = true;
    }
}

fn decode_entry(bytes: &[u8]) -> Option<Entry> {
    let number = |at: usize| u64_at(bytes, at);
    let address = number(offset_of!(TraceEntry, address))?;
    let (value, other) = (
        number(offset_of!(TraceEntry, value))?,
        number(offset_of!(TraceEntry, other))?,
    );
    let last = number(offset_of!(TraceEntry, site))?;
    let (site, length, what, detail) = (last as u32, (last >> 32) as u16, (last >> 48) as u8, (last >> 56) as u8);
    let thread = u32::try_from(other).ok();
    Some(Entry {
        sequence: number(offset_of!(TraceEntry, sequence))?,
        event: number(offset_of!(TraceEntry, event))?,
        site: SiteId(site),
        what: match what {
            what::ACCESS => What::Access(decode_access(address, length, value, other, detail)),
            what::ALLOCATE => What::Allocate { address, bytes: other },
            what::FREE => What::Free { address, bytes: other },
            what::SYNC => What::Sync {
                op: Op::from_u8(detail)?,
                object: address,
                value: value as i64,
                other: thread,
            },
            what::SPAWN => What::Spawn { thread: value as u32 },
            what::START => What::Start,
            what::EXIT => What::Exit,
            what::STOPPED => What::Stopped {
                op: Op::from_u8(detail)?,
                object: address,
                other: thread,
            },
            what::THROWN => What::Thrown { is_panic: detail == 1 },
            what::EXITING => What::Exiting,
            what::SKIPPING => What::Skipping,
            what::FATAL => What::Fatal {
                signal: u32::from(detail),
                address,
            },
            _ => return None,
        },
    })
}

fn decode_access(address: u64, bytes: u16, value: u64, before: u64, flags: u8) -> Access {
    let has = |flag: u8| flags & flag != 0;
    let is_known = !has(access::NO_VALUE) && !has(access::PENDING);
    Access {
        address,
        bytes: u64::from(bytes),
        reads: has(access::READS),
        writes: has(access::WRITES),
        atomic: has(access::ATOMIC),
        pending: has(access::PENDING),
        private: false,
        value: is_known.then_some(value),
        before: (is_known && has(access::ATOMIC)).then_some(before),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

// One read takes the site and all that comes after it.
const _: () = assert!(offset_of!(TraceEntry, bytes) == offset_of!(TraceEntry, site) + 4);
const _: () = assert!(offset_of!(TraceEntry, what) == offset_of!(TraceEntry, site) + 6);
const _: () = assert!(offset_of!(TraceEntry, detail) == offset_of!(TraceEntry, site) + 7);
const _: () = assert!(offset_of!(TraceHeader, errno) + 8 <= HEADER_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[[u64; 6]], written: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&written.to_le_bytes());
        bytes.extend(entries.iter().flatten().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    fn decoded(bytes: &[u8]) -> Result<ThreadTrace> {
        decode(Path::new("trace-0"), |buffer, offset| {
            if buffer.is_empty() {
                return Ok(());
            }
            let from = bytes.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
            buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn packed(site: u64, length: u64, what: u8, detail: u8) -> u64 {
        site | length << 32 | u64::from(what) << 48 | u64::from(detail) << 56
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let flags = access::READS | access::ATOMIC;
        let bytes = file(&[[7, 3, 0x1000, 42, 41, packed(9, 4, what::ACCESS, flags)]], 1);
        let trace = decoded(&bytes).expect("a good trace");
        let access = Access {
            address: 0x1000,
            bytes: 4,
            reads: true,
            atomic: true,
            private: true,
            value: Some(42),
            before: Some(41),
            ..Access::default()
        };
        let entry = Entry {
            sequence: 7,
            event: 3,
            site: SiteId(9),
            what: What::Access(access),
        };
        assert_eq!(trace.entries, [entry]);
        assert_eq!((trace.private_lost, trace.shared_lost), (0, 0));
    }

    #[test]
    fn threads_that_were_about_to_start_have_no_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("trace-0"), []).expect("an empty file");
        std::fs::write(folder.path().join("trace-1"), [0; HEADER_BYTES]).expect("a file with room");
        let traces = read(folder.path(), 3).expect("nothing is damaged");
        assert!(traces.threads.iter().all(|trace| trace.entries.is_empty()));
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = [7, 3, 0x1000, 42, 41, packed(9, 4, what::ACCESS, 1)];
        let unknown = [7, 3, 0x1000, 42, 41, packed(9, 4, 99, 1)];
        let cases = [
            (Vec::new(), "empty"),
            (file(&[good], 2), "shorter than its count"),
            (file(&[unknown], 1), "an unknown kind"),
            (file(&[good], u64::MAX), "an absurd count"),
        ];
        for (bytes, case) in cases {
            assert!(decoded(&bytes).is_err(), "{case} was accepted");
        }
        let mut full = file(&[good], 1);
        full[offset_of!(TraceHeader, errno)] = 28;
        let message = decoded(&full).expect_err("a trace without room").to_string();
        assert!(
            message.contains("no space left") && message.contains("TMPDIR"),
            "{message}"
        );
    }
}
