//! Several logs in one message: each its length (4 bytes, little endian) and its bytes.
use std::fmt;

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBatch {
    /// It has no log.
    Empty,
    TooMany {
        most: usize,
    },
    /// It ends in the middle of the log that begins there.
    Cut {
        offset: usize,
    },
}

impl fmt::Display for NoBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoBatch::Empty => f.write_str("the batch has no log"),
            NoBatch::TooMany { most } => {
                write!(f, "a batch has at most {most} logs; send the others in another one")
            }
            NoBatch::Cut { offset } => write!(
                f,
                "the batch ends in the middle of the log that begins at byte {offset}; send it again"
            ),
        }
    }
}

impl std::error::Error for NoBatch {}

/// Each of less than 4 GiB.
pub fn join<'a>(logs: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for log in logs {
        let length = u32::try_from(log.len()).expect("a log of less than 4 GiB");
        bytes.extend(length.to_le_bytes());
        bytes.extend(log);
    }
    bytes
}

/// The bytes of each log, none of which was looked at.
pub fn split(bytes: &[u8], most: usize) -> Result<Vec<&[u8]>, NoBatch> {
    let mut left = bytes;
    let mut logs = Vec::new();
    while !left.is_empty() {
        if logs.len() == most {
            return Err(NoBatch::TooMany { most });
        }
        let log = left.split_first_chunk::<4>().and_then(|(length, rest)| {
            let length = u32::from_le_bytes(*length) as usize;
            (length <= rest.len()).then(|| rest.split_at(length))
        });
        let Some((log, rest)) = log else {
            let offset = bytes.len() - left.len();
            return Err(NoBatch::Cut { offset });
        };
        logs.push(log);
        left = rest;
    }
    match logs.is_empty() {
        true => Err(NoBatch::Empty),
        false => Ok(logs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_apart() {
        let bytes = join([&b"ab"[..], b"", b"c"]);
        assert_eq!(split(&bytes, 3), Ok(vec![&b"ab"[..], b"", b"c"]));
        assert_eq!(split(&bytes, 2), Err(NoBatch::TooMany { most: 2 }));
        assert_eq!(split(b"", 2), Err(NoBatch::Empty));
        for end in 1..bytes.len() {
            // Between two logs, it is a shorter batch.
            assert_eq!(split(&bytes[..end], 9).is_ok(), end == 6 || end == 10, "{end}");
        }
        assert_eq!(split(b"\xff\xff\xff\xffab", 2), Err(NoBatch::Cut { offset: 0 }));
    }
}
