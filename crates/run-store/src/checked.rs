//! JSON that says of itself whether every byte is the one that was written.
use crate::hash_bytes;
use serde::Serialize;

/// How it begins: with the BLAKE3, in hexadecimal, of all bytes but its own digits.
const CHECKSUM: &[u8] = b"{\n  \"checksum\": \"";
const DIGITS: usize = 64;

/// A structure as JSON, with its checksum as the first field.
pub(crate) fn encode(fields: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_vec_pretty(fields).expect("metadata has only string keys");
    let rest = [
        b"\",\n",
        json.strip_prefix(b"{\n").expect("an object with fields"),
        b"\n",
    ]
    .concat();
    [CHECKSUM, checksum(&rest).as_bytes(), &rest].concat()
}

fn checksum(rest: &[u8]) -> String {
    hash_bytes([CHECKSUM, rest])
}

/// Is every byte the one that was written? `None`: there is no checksum where it belongs.
pub(crate) fn is_whole(bytes: &[u8]) -> Option<bool> {
    let (digits, rest) = bytes.strip_prefix(CHECKSUM)?.split_at_checked(DIGITS)?;
    Some(digits == checksum(rest).as_bytes())
}
