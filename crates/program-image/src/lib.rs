//! What an ELF executable wants to be in memory: its parts, where it begins, and who is to load it. And what a script says of
//! its interpreter (`script`).
//!
//! The tool reads it to find out how a program can be recorded, and the runtime, inside a process, to load one itself (`host`).
//! Nothing is allocated, and whatever the bytes say, nothing here panics: every number is checked before it is used.
#![no_std]
#![forbid(unsafe_code)]

pub mod script;

use core::fmt;

/// As much of a file as is looked at; program headers are within it.
pub const HEAD_BYTES: usize = 4096;
/// Program headers, at most.
pub const HEADERS_MAX: usize = 64;
/// The longest name of a dynamic loader that is looked at.
pub const INTERPRETER_BYTES_MAX: usize = 255;

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const PAGE: u64 = 4096;
/// Where the user's half of the address space ends.
const ADDRESSES_END: u64 = 1 << 47;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;

/// Bits of `Segment::flags`.
pub const EXECUTABLE: u32 = 1;
pub const WRITABLE: u32 = 2;
pub const READABLE: u32 = 4;

/// Why this is no program that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotElf,
    Not64Bit,
    NotX86,
    NotExecutable,
    /// A number in it makes no sense.
    Malformed,
}

impl Refusal {
    /// Follows the name of the file.
    pub fn words(self) -> &'static str {
        match self {
            Refusal::NotElf => "is not an ELF executable",
            Refusal::Not64Bit => "is not a 64-bit ELF executable",
            Refusal::NotX86 => "is not an x86-64 program",
            Refusal::NotExecutable => "is neither an executable nor a shared object",
            Refusal::Malformed => "is a malformed ELF file",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A part that is to be in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub address: u64,
    pub offset: u64,
    /// Bytes that come from the file, and bytes in memory; the rest is zero.
    pub file_bytes: u64,
    pub memory_bytes: u64,
    /// Some of `EXECUTABLE`, `WRITABLE`, `READABLE`.
    pub flags: u32,
}

impl Segment {
    pub fn end(&self) -> u64 {
        self.address + self.memory_bytes
    }
}

/// An executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// It can only be at its own addresses.
    pub is_fixed: bool,
    pub entry: u64,
    /// Where in the file its program headers are, and how many.
    pub headers_offset: u64,
    pub headers: usize,
    /// Where in the file the name of its dynamic loader is, with the terminating zero.
    pub interpreter: Option<(u64, usize)>,
    segments: [Segment; HEADERS_MAX],
    count: usize,
}

impl Image {
    /// Reads what the first bytes of a file say, `HEAD_BYTES` of them if there are as many.
    pub fn read(head: &[u8]) -> Result<Image, Refusal> {
        let head = &head[..head.len().min(HEAD_BYTES)];
        if !head.starts_with(b"\x7fELF") {
            return Err(Refusal::NotElf);
        }
        // Class and byte order.
        if head.get(4) != Some(&2) || head.get(5) != Some(&1) || head.len() < HEADER_BYTES {
            return Err(Refusal::Not64Bit);
        }
        let kind = number::<2>(head, 16)? as u16;
        if number::<2>(head, 18)? as u16 != EM_X86_64 {
            return Err(Refusal::NotX86);
        }
        if kind != ET_EXEC && kind != ET_DYN {
            return Err(Refusal::NotExecutable);
        }
        let mut image = Image {
            is_fixed: kind == ET_EXEC,
            entry: number::<8>(head, 24)?,
            headers_offset: number::<8>(head, 32)?,
            headers: number::<2>(head, 56)? as usize,
            interpreter: None,
            segments: [Segment::default(); HEADERS_MAX],
            count: 0,
        };
        if number::<2>(head, 54)? as usize != PROGRAM_HEADER_BYTES || image.headers > HEADERS_MAX {
            return Err(Refusal::Malformed);
        }
        for header in 0..image.headers {
            let at = usize::try_from(image.headers_offset).ok();
            let at = at.and_then(|at| at.checked_add(header * PROGRAM_HEADER_BYTES));
            image.add(head, at.ok_or(Refusal::Malformed)?)?;
        }
        match image.count {
            0 => Err(Refusal::Malformed),
            _ => Ok(image),
        }
    }

    fn add(&mut self, head: &[u8], at: usize) -> Result<(), Refusal> {
        let end = at.checked_add(PROGRAM_HEADER_BYTES).ok_or(Refusal::Malformed)?;
        let header = head.get(at..end).ok_or(Refusal::Malformed)?;
        let field = |offset: usize| number::<8>(header, offset);
        let flags_and_kind = field(0)?;
        let (kind, flags) = (flags_and_kind as u32, (flags_and_kind >> 32) as u32);
        let segment = Segment {
            offset: field(8)?,
            address: field(16)?,
            file_bytes: field(32)?,
            memory_bytes: field(40)?,
            flags: flags & (EXECUTABLE | WRITABLE | READABLE),
        };
        match kind {
            PT_INTERP => {
                let bytes = segment.file_bytes as usize;
                if self.interpreter.is_some() || !(2..=INTERPRETER_BYTES_MAX as u64).contains(&segment.file_bytes) {
                    return Err(Refusal::Malformed);
                }
                self.interpreter = Some((segment.offset, bytes));
            }
            PT_LOAD if segment.memory_bytes > 0 => self.add_segment(segment)?,
            _ => {}
        }
        Ok(())
    }

    fn add_segment(&mut self, segment: Segment) -> Result<(), Refusal> {
        let end = segment.address.checked_add(segment.memory_bytes);
        let is_in_reach = end.is_some_and(|end| end <= ADDRESSES_END)
            && segment
                .offset
                .checked_add(segment.file_bytes)
                .is_some_and(|end| end < 1 << 62);
        let is_behind = self.segments().last().is_none_or(|last| last.end() <= segment.address);
        let is_aligned = segment.address % PAGE == segment.offset % PAGE || segment.file_bytes == 0;
        if !is_in_reach || !is_behind || !is_aligned || segment.file_bytes > segment.memory_bytes {
            return Err(Refusal::Malformed);
        }
        // As many as there are headers.
        self.segments[self.count] = segment;
        self.count += 1;
        Ok(())
    }

    /// In ascending order of addresses; there is at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.count]
    }

    /// All of it, in whole pages: where it begins and where it ends.
    pub fn extent(&self) -> (u64, u64) {
        let start = self.segments().first().map_or(0, |first| first.address / PAGE * PAGE);
        let end = self.segments().last().map_or(0, Segment::end);
        (start, end.next_multiple_of(PAGE))
    }

    /// Where its program headers are in memory, if they are.
    pub fn headers_address(&self) -> Option<u64> {
        let bytes = (self.headers * PROGRAM_HEADER_BYTES) as u64;
        let end = self.headers_offset.checked_add(bytes)?;
        let holds =
            |segment: &&Segment| segment.offset <= self.headers_offset && end <= segment.offset + segment.file_bytes;
        let segment = self.segments().iter().find(holds)?;
        Some(segment.address + (self.headers_offset - segment.offset))
    }
}

/// Who loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// The kernel alone: it is linked statically.
    Nobody,
    /// musl's, which knows nothing of how glibc's is given a library.
    Musl,
    /// Any other, as glibc's.
    Other,
}

impl Loader {
    /// `interpreter`: the name that the program has of it, if it has one.
    pub fn of(interpreter: Option<&[u8]>) -> Loader {
        const MUSL: &[u8] = b"ld-musl";
        let Some(path) = interpreter else {
            return Loader::Nobody;
        };
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        let name = path[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        match name.starts_with(MUSL) {
            true => Loader::Musl,
            false => Loader::Other,
        }
    }
}

/// A little-endian number of so many bytes.
fn number<const BYTES: usize>(head: &[u8], at: usize) -> Result<u64, Refusal> {
    let end = at.checked_add(BYTES).ok_or(Refusal::Malformed)?;
    let bytes = head.get(at..end).ok_or(Refusal::Malformed)?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec::Vec;

    /// A header, and program headers of (kind, flags, offset, address, file bytes, memory bytes).
    fn elf(kind: u16, headers: &[(u32, u32, u64, u64, u64, u64)]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(EM_X86_64.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(0x40_1000u64.to_le_bytes());
        bytes.extend(64u64.to_le_bytes());
        bytes.resize(54, 0);
        bytes.extend(56u16.to_le_bytes());
        bytes.extend((headers.len() as u16).to_le_bytes());
        bytes.resize(64, 0);
        for (kind, flags, offset, address, file, memory) in headers {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            for number in [offset, address, address, file, memory, &0x1000] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes
    }

    const TEXT: (u32, u32, u64, u64, u64, u64) = (PT_LOAD, 5, 0, 0x40_0000, 0x2345, 0x2345);
    const DATA: (u32, u32, u64, u64, u64, u64) = (PT_LOAD, 6, 0x2e00, 0x40_3e00, 0x200, 0x900);

    #[test]
    fn a_static_program_has_its_parts() {
        let image = Image::read(&elf(ET_EXEC, &[TEXT, DATA])).expect("a program");
        assert!(image.is_fixed && image.interpreter.is_none());
        assert_eq!(image.entry, 0x40_1000);
        assert_eq!(image.extent(), (0x40_0000, 0x40_5000));
        assert_eq!(image.headers_address(), Some(0x40_0040));
        assert_eq!(image.segments().len(), 2);
        assert_eq!(image.segments()[1].memory_bytes, 0x900);
    }

    #[test]
    fn loaders_are_told_apart() {
        assert_eq!(Loader::of(None), Loader::Nobody);
        assert_eq!(Loader::of(Some(b"/lib/ld-musl-x86_64.so.1\0")), Loader::Musl);
        assert_eq!(Loader::of(Some(b"/lib64/ld-linux-x86-64.so.2\0")), Loader::Other);
        assert_eq!(Loader::of(Some(b"/ld-musl/ld.so\0")), Loader::Other);
        assert_eq!(Loader::of(Some(b"")), Loader::Other);
    }

    #[test]
    fn the_name_of_a_loader_is_found() {
        let interpreter = (PT_INTERP, 4, 0x318, 0x318, 25, 25);
        let image = Image::read(&elf(ET_DYN, &[interpreter, TEXT])).expect("a program");
        assert_eq!((image.is_fixed, image.interpreter), (false, Some((0x318, 25))));
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |bytes: &[u8]| Image::read(bytes).expect_err("nonsense");
        assert_eq!(refused(b"#!/bin/sh"), Refusal::NotElf);
        assert_eq!(refused(b"\x7fELF\x01\x01"), Refusal::Not64Bit);
        assert_eq!(refused(&elf(ET_EXEC, &[])), Refusal::Malformed);
        assert_eq!(refused(&elf(1, &[TEXT])), Refusal::NotExecutable);
        // Backwards, out of the address space, more in the file than in memory, on different places of a page.
        for wrong in [
            (PT_LOAD, 5, 0, 0x1000, 16, 16),
            (PT_LOAD, 5, 0, 1 << 47, 16, 16),
            (PT_LOAD, 5, 0, !0xfff, 16, u64::MAX),
            (PT_LOAD, 5, 0, 0x50_0000, 32, 16),
            (PT_LOAD, 5, 8, 0x50_0000, 16, 16),
            (PT_INTERP, 4, 0, 0, 4096, 4096),
        ] {
            assert_eq!(refused(&elf(ET_EXEC, &[TEXT, wrong])), Refusal::Malformed, "{wrong:x?}");
        }
        let whole = elf(ET_EXEC, &[TEXT, DATA]);
        for length in 0..whole.len() {
            assert!(Image::read(&whole[..length]).is_err(), "the first {length} bytes");
        }
    }
}
