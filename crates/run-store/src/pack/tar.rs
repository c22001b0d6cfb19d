//! The headers of a tar archive (POSIX.1-1988, "ustar"): plain files only, everything that may vary fixed.

pub const BLOCK_BYTES: u64 = 512;
/// Two empty blocks end an archive.
pub const END_BYTES: u64 = 2 * BLOCK_BYTES;
/// 11 octal digits.
const OCTAL_SIZE_MAX: u64 = (1 << 33) - 1;

/// The header of a file. The name has at most 100 bytes; the members of our archives have less than 30.
pub fn header(name: &str, bytes: u64, mode: u32) -> [u8; BLOCK_BYTES as usize] {
    assert!(name.len() <= 100, "the member name {name} is too long for a tar header");
    let mut block = [0; BLOCK_BYTES as usize];
    let mut put = |at: usize, field: &[u8]| block[at..at + field.len()].copy_from_slice(field);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000"); // Owner and group: nobody's business.
    put(116, b"0000000");
    if bytes <= OCTAL_SIZE_MAX {
        put(124, format!("{bytes:011o}").as_bytes());
    } else {
        // Larger ones as GNU, BSD and libarchive write them: big-endian, marked by the highest bit.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &bytes.to_be_bytes());
    }
    put(136, b"00000000000"); // Time: the same run, the same bytes.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Zeros between a file of this length and the next header.
pub fn padding(bytes: u64) -> usize {
    (bytes.wrapping_neg() % BLOCK_BYTES) as usize
}

/// Header, content and padding. `None`: more than any file has.
pub fn member_bytes(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(BLOCK_BYTES)?.checked_add(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_whole_blocks() {
        for (bytes, padded) in [(0, 512), (1, 1024), (512, 1024), (513, 1536)] {
            assert_eq!(member_bytes(bytes), Some(padded));
            assert_eq!(bytes + padding(bytes) as u64 + BLOCK_BYTES, padded);
        }
        assert_eq!(member_bytes(u64::MAX), None);
        assert_eq!(member_bytes(u64::MAX - 600), None);
    }

    #[test]
    fn long_files_have_binary_sizes() {
        assert_eq!(&header("a", OCTAL_SIZE_MAX, 0o644)[124..136], b"77777777777\0");
        assert_eq!(
            &header("a", OCTAL_SIZE_MAX + 1, 0o644)[124..136],
            b"\x80\0\0\0\0\0\0\x02\0\0\0\0"
        );
    }
}
