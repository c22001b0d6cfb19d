//! Any bytes as an archive of schedules: an answer and no panic, never more read than there is; members have names that schedules have.
//!
//! The input is tried as it is, and again as the manifest and the members of an archive whose stamp fits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use run_store::ScheduleArchive;
use run_store::ScheduleFile;
use std::io::Cursor;
use std::path::Path;

const BLOCK_BYTES: usize = 512;

fuzz_target!(|input: &[u8]| {
    read(input);
    // The first two bytes say how long the manifest is.
    let Some((length, rest)) = input.split_at_checked(2) else { return };
    let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
    let (manifest, members) = rest.split_at(length);
    let hash = blake3::hash(manifest).to_hex();
    let stamp = format!("refrain schedules 1\nmanifest {hash} {}\n", manifest.len());
    let mut archive = member("refrain-schedules", stamp.as_bytes());
    archive.extend(member("manifest.json", manifest));
    archive.extend_from_slice(members);
    read(&archive);
});

fn read(archive: &[u8]) {
    let length = archive.len() as u64;
    let Ok(mut reader) = ScheduleArchive::open(Cursor::new(archive), length, Path::new("fuzzed")) else { return };
    loop {
        let mut bytes = 0;
        let copied = reader.copy_next(|_| {
            Ok(|part: &[u8]| {
                bytes += part.len() as u64;
                Ok(())
            })
        });
        let Ok(copied) = copied else { return };
        let Some(copied) = copied else { break };
        assert_eq!(bytes, copied.bytes);
        assert!(bytes <= length);
        let is_known = ScheduleFile::ALL.iter().any(|file| file.name() == copied.name);
        assert!(is_known || copied.name == "schedule.json");
    }
    let _ = reader.finish();
}

/// A plain file of a tar archive.
fn member(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0; BLOCK_BYTES];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, name.as_bytes());
    put(100, b"0000644\x000000000\x000000000\0");
    put(124, format!("{:011o}\x0000000000000\0        0", content.len()).as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = [&header[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}
