//! Where everything of ours is in a recorded or replayed process. Every fixed address comes from here.
//!
//! NOTE [Address space]: Address-space randomisation is off in such a process, so a program's memory lies in four regions: [`PROGRAM`]. Shadows and what the runtime maps
//! are where none of these are; reserved without memory, only pages that are touched cost.
//!
//! - The word of a chunk is at `CHUNK_SHADOW + p / 64 * 8`.
//! - The words of a cell and of a ghost object are at `(p & !7) ^ CELL_XOR` and `(p & !7) ^ GHOST_XOR`. The constants differ from zero in their low bits so that data
//!   and shadow do not alias modulo 4096; whole pages are permuted inside, nothing leaves the region's shadow.
//! - The link of a free block is at `FREE_BLOCKS + (p - ARENA) / 32 * 8`: no two blocks begin within the same 32 bytes.
//! - Jumps that replace system calls reach 2 GiB. For those of the executable there are some pages of ours below it.
//! - In a host (`runtime`, host/mod.rs) the runtime is the executable; its guest is at its fixed addresses or at [`HOSTED_PROGRAM`], musl's loader at
//!   [`HOSTED_LOADER`], each with a heap behind it and pages of ours below, or above those that begin where memory does.
//!
//! No two regions have a byte in common, whatever a process does: recording and replaying are not either one or the other. That is proved when this
//! is compiled. `docs/memory-map.md` is the picture; a test writes it from here.
use crate::CONTROL_BYTES;
use crate::CONTROL_STRIDE;
use crate::PROCESSES_MAX;
use crate::THREADS_MAX;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Words of cells and ghost objects, from the address they belong to.
pub const CELL_XOR: u64 = 0x2000_0000_0840;
pub const GHOST_XOR: u64 = 0x3000_0000_0840;
pub const CHUNK_BYTES: u64 = 64;
pub const CHUNK_WORD_BYTES: u64 = 8;
/// The smallest block of the heap, with its header.
pub const BLOCK_BYTES_MIN: u64 = 32;
pub const FREE_BLOCK_WORD_BYTES: u64 = 8;
/// What is hidden is noted page by page, a byte for each of the whole address space.
const ADDRESS_SPACE_BYTES: u64 = 1 << 47;

/// Who has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Program,
    /// What is known of the program's memory.
    Shadow,
    Runtime,
}

/// A part of the address space.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub name: &'static str,
    pub start: u64,
    pub bytes: u64,
    /// The part that each thread, process or channel has: by its index. 0: it is one thing.
    pub stride: u64,
    pub owner: Owner,
    pub what: &'static str,
}

impl Region {
    const fn new(name: &'static str, start: u64, bytes: u64, owner: Owner, what: &'static str) -> Region {
        assert!(start.is_multiple_of(PAGE) && bytes != 0 && bytes.is_multiple_of(PAGE));
        Region {
            name,
            start,
            bytes,
            stride: 0,
            owner,
            what,
        }
    }

    /// Of `count` parts.
    const fn of_each(name: &'static str, start: u64, count: u64, stride: u64, what: &'static str) -> Region {
        let region = Region::new(name, start, count * stride, Owner::Runtime, what);
        assert!(stride.is_multiple_of(PAGE));
        Region { stride, ..region }
    }

    const fn shadow_of(name: &'static str, program: Region, xor: u64, what: &'static str) -> Region {
        Region::new(
            name,
            program.start ^ (xor & !(PAGE - 1)),
            program.bytes,
            Owner::Shadow,
            what,
        )
    }

    /// Of a region of the program's: the part of [`CHUNK_WORDS`] that is about it.
    pub const fn chunk_words(&self) -> Region {
        Region {
            start: CHUNK_WORDS.start + self.start / CHUNK_BYTES * CHUNK_WORD_BYTES,
            bytes: self.bytes / CHUNK_BYTES * CHUNK_WORD_BYTES,
            ..CHUNK_WORDS
        }
    }

    pub const fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// Where the part with this index begins.
    pub const fn part(&self, index: u64) -> u64 {
        self.start + index * self.stride
    }

    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end()
    }

    /// May so many bytes be mapped here?
    pub const fn has_room_for(&self, bytes: u64) -> bool {
        bytes <= self.bytes
    }

    const fn is_apart_from(&self, other: &Region) -> bool {
        self.end() <= other.start || other.end() <= self.start
    }

    const fn is_inside(&self, other: &Region) -> bool {
        other.start <= self.start && self.end() <= other.end()
    }
}

/// Each region as a constant of its name, and all of them as `ALL`: none can be forgotten there.
macro_rules! regions {
    ($($name:ident = $make:ident($($argument:expr),*);)*) => {
        $(pub const $name: Region = Region::$make(stringify!($name), $($argument),*);)*
        /// In no particular order.
        pub const ALL: &[Region] = &[$($name),*];
    };
}

const THREADS: u64 = THREADS_MAX as u64;

regions! {
    // The program's.
    FIXED_PROGRAM = new(0, 8 * GIB, Owner::Program, "executables linked at a fixed address, and their `brk` heap");
    PROGRAM_ANYWHERE = new(0x5500_0000_0000, 2 * TIB, Owner::Program, "position-independent executables, and their `brk` heap");
    ARENA = new(0x6000_0000_0000, 4 * TIB, Owner::Program, "our arena for it: heap, stacks of created threads, anonymous mappings");
    LIBRARIES = new(0x7e00_0000_0000, 2 * TIB, Owner::Program, "shared libraries, the main stack, the kernel's choices");

    // Shadows.
    CHUNK_WORDS = new(0x1000_0000_0000, ADDRESS_SPACE_BYTES / CHUNK_BYTES * CHUNK_WORD_BYTES, Owner::Shadow, "the word of each chunk");
    FIXED_PROGRAM_CELLS = shadow_of(FIXED_PROGRAM, CELL_XOR, "words of its cells");
    FIXED_PROGRAM_GHOSTS = shadow_of(FIXED_PROGRAM, GHOST_XOR, "words of its ghost objects");
    ARENA_CELLS = shadow_of(ARENA, CELL_XOR, "words of its cells");
    FREE_BLOCKS = new(0x2800_0000_0000, ARENA.bytes / BLOCK_BYTES_MIN * FREE_BLOCK_WORD_BYTES, Owner::Shadow, "of each block of the heap that is free: the next one");
    LIBRARIES_GHOSTS = shadow_of(LIBRARIES, GHOST_XOR, "words of their ghost objects");
    ARENA_GHOSTS = shadow_of(ARENA, GHOST_XOR, "words of its ghost objects");
    LIBRARIES_CELLS = shadow_of(LIBRARIES, CELL_XOR, "words of their cells");
    PROGRAM_ANYWHERE_GHOSTS = shadow_of(PROGRAM_ANYWHERE, GHOST_XOR, "words of its ghost objects");
    PROGRAM_ANYWHERE_CELLS = shadow_of(PROGRAM_ANYWHERE, CELL_XOR, "words of its cells");

    // The runtime's.
    CONTROL = new(0x6800_0000_0000, (CONTROL_BYTES as u64).next_multiple_of(PAGE), Owner::Runtime, "the control memory of the process");
    LOCALS = of_each(0x6810_0000_0000, THREADS, 64 << 10, "what the runtime knows of each thread");
    ROOT_CONTROL = of_each(0x6820_0000_0000, PROCESSES_MAX as u64, CONTROL_STRIDE as u64, "the control memory of all processes; recording, of the first one");
    HOSTED_THREADS = of_each(0x6840_0000_0000, THREADS, 512 << 10, "a host: stacks and block of each of the guest's threads; elsewhere, of a thread made by `clone`: its first stack and what its thread pointer leads to");
    LOGS = of_each(0x6880_0000_0000, THREADS, 64 * MIB, "recording: the log of each thread");
    INPUTS = of_each(0x6a80_0000_0000, THREADS, 32 * MIB, "recording: the inputs of each thread; recording and replay: in the second half of a part, memory for copies of what calls write and read");
    HIDING_PAGES = new(0x6c00_0000_0000, ADDRESS_SPACE_BYTES / PAGE, Owner::Runtime, "one byte for each page of the whole address space");
    TRACES = of_each(0x6c80_0000_0000, THREADS, 64 * MIB, "a traced replay: what each thread does; recording for a schedule: what came in to each thread");
    RECORDED_INPUTS = new(0x6e80_0000_0000, TIB / 2, Owner::Runtime, "replay: the inputs of all threads, whole, one behind the other");
    ECHOES = new(0x6f00_0000_0000, TIB / 4, Owner::Runtime, "replay: words that the kernel gives back to the program");
    CHANNELS = of_each(0x6f40_0000_0000, CHANNEL_SIDES, 2 * MIB, "replay: bytes under way in pipes and sockets of the process to itself, by side");
    SNAPSHOT = new(0x6f80_0000_0000, (CONTROL_BYTES as u64).next_multiple_of(PAGE), Owner::Runtime, "a checkpoint: control memory as it was");
    BROUGHT_BACK = new(0x6fa0_0000_0000, 64 * MIB, Owner::Runtime, "recording: what the child of a `vfork` has written, for its parent");
    CHECKPOINT_STACKS = of_each(0x6fc0_0000_0000, THREADS, 64 << 10, "a checkpoint: the stack on which each thread waits to be copied");
    SCHEDULE = new(0x7000_0000_0000, TIB + TIB / 2, Owner::Runtime, "replay: the schedule");
    POINTS = new(0x7180_0000_0000, TIB / 8, Owner::Runtime, "a deterministic run: the accesses that its schedule orders");
    OWN_STEPS = new(0x71a0_0000_0000, TIB / 8, Owner::Runtime, "a deterministic run: the steps of its schedule at which nobody waits");
    LEARNED_INPUTS = new(0x71c0_0000_0000, TIB / 4, Owner::Runtime, "a deterministic run: what came in when its schedule was learned");
    TURNS = new(0x7200_0000_0000, TIB / 2, Owner::Runtime, "replay: the order in which threads take turns");
    OTHER_TURNS = new(0x7280_0000_0000, TIB / 4, Owner::Runtime, "an attempt of a search: its own order, until it is compared with that");
    PROCESS_ORDER = new(0x72c0_0000_0000, TIB / 4, Owner::Runtime, "replay: the order of processes that share memory");
    SWITCH_POINTS = new(0x7300_0000_0000, TIB, Owner::Runtime, "replay: switch points that are written down");
    ACCESSES = new(0x7400_0000_0000, TIB, Owner::Runtime, "replay: accesses that are written down");
    CHOSEN = new(0x6fd0_0000_0000, MIB, Owner::Runtime, "recording a part: the elements that were chosen");
    ELEMENTS = new(0x6fd0_0100_0000, MIB, Owner::Runtime, "recording a part: who used each of them last");
    FOLLOWED = new(0x6fd0_0200_0000, MIB, Owner::Runtime, "an attempt: how far threads have come in their access vectors");
    VECTORS = new(0x6fe0_0000_0000, TIB / 16, Owner::Runtime, "an attempt: access vectors that threads keep to");
}

/// Pipes and pairs of sockets that are followed at a time; each has two sides.
pub const CHANNELS_MAX: usize = 256;
const CHANNEL_SIDES: u64 = 2 * CHANNELS_MAX as u64;

/// The program's memory: what shadows are for.
pub const PROGRAM: [Region; 4] = [FIXED_PROGRAM, PROGRAM_ANYWHERE, ARENA, LIBRARIES];
pub const CELLS: [Region; 4] = [
    FIXED_PROGRAM_CELLS,
    PROGRAM_ANYWHERE_CELLS,
    ARENA_CELLS,
    LIBRARIES_CELLS,
];
pub const GHOSTS: [Region; 4] = [
    FIXED_PROGRAM_GHOSTS,
    PROGRAM_ANYWHERE_GHOSTS,
    ARENA_GHOSTS,
    LIBRARIES_GHOSTS,
];

/// The word that a free block at this address of the arena has for itself.
pub const fn free_block_word(block: u64) -> u64 {
    FREE_BLOCKS.start + (block - ARENA.start) / BLOCK_BYTES_MIN * FREE_BLOCK_WORD_BYTES
}

/// Where a host puts what can be anywhere: parts of [`PROGRAM_ANYWHERE`], of which the first has the host itself.
pub const HOST: Region = Region::new(
    "HOST",
    0x5500_0000_0000,
    TIB,
    Owner::Program,
    "the host, which is the runtime",
);
pub const HOSTED_PROGRAM: Region =
    Region::new("HOSTED_PROGRAM", 0x5600_0000_0000, TIB / 2, Owner::Program, "its guest");
pub const HOSTED_LOADER: Region = Region::new(
    "HOSTED_LOADER",
    0x5680_0000_0000,
    TIB / 2,
    Owner::Program,
    "musl's loader",
);
pub const HOSTED: [Region; 3] = [HOST, HOSTED_PROGRAM, HOSTED_LOADER];

/// All that the runtime maps at fixed addresses lies in here, and nothing of the program's does.
pub const RUNTIME: Region = Region::new(
    "RUNTIME",
    0x6800_0000_0000,
    0x7500_0000_0000 - 0x6800_0000_0000,
    Owner::Runtime,
    "everything of the runtime's",
);

const _: () = assert!(are_apart(ALL) && are_apart(&HOSTED));
const _: () = assert!(are_inside(&HOSTED, &PROGRAM_ANYWHERE));
const _: () = {
    let mut at = 0;
    while at < ALL.len() {
        let is_ours = matches!(ALL[at].owner, Owner::Runtime);
        assert!(ALL[at].end() <= ADDRESS_SPACE_BYTES);
        assert!(if is_ours {
            ALL[at].is_inside(&RUNTIME)
        } else {
            ALL[at].is_apart_from(&RUNTIME)
        });
        at += 1;
    }
};

/// Have no two of them a byte in common?
pub const fn are_apart(regions: &[Region]) -> bool {
    let mut one = 0;
    while one < regions.len() {
        let mut other = one + 1;
        while other < regions.len() {
            if !regions[one].is_apart_from(&regions[other]) {
                return false;
            }
            other += 1;
        }
        one += 1;
    }
    true
}

const fn are_inside(regions: &[Region], whole: &Region) -> bool {
    let mut at = 0;
    while at < regions.len() {
        if !regions[at].is_inside(whole) {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::borrow::ToOwned;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memory-map.md");

    fn size(bytes: u64) -> String {
        let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")];
        let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap();
        match bytes % unit {
            0 => format!("{} {name}", bytes / unit),
            _ => format!("{:.1} {name}", bytes as f64 / unit as f64),
        }
    }

    fn rows(regions: &[Region]) -> String {
        let mut sorted: Vec<&Region> = regions.iter().collect();
        sorted.sort_by_key(|region| region.start);
        let row = |region: &&Region| {
            let halves = |address: u64| {
                format!(
                    "{:04x}_{:04x}_{:04x}",
                    address >> 32,
                    address >> 16 & 0xffff,
                    address & 0xffff
                )
            };
            let each = match region.stride {
                0 => String::new(),
                stride => format!("{} × {}", region.bytes / stride, size(stride)),
            };
            let (start, end) = (halves(region.start), halves(region.end()));
            let (name, bytes, what) = (region.name, size(region.bytes), region.what);
            format!("| `{start}` | `{end}` | {bytes} | {each} | `{name}` | {what} |\n")
        };
        sorted.iter().map(row).collect()
    }

    fn document() -> String {
        let head = "| from | to | bytes | parts | region | what |\n|---|---|---|---|---|---|\n";
        let introduction = "# The memory map\n\n\
            What lies where in a recorded or replayed process: the regions of `crates/runtime-abi/src/memory_map.rs`, from which every fixed address of the runtime comes. \
            No two of them overlap, which is proved when that file is compiled. A test of `runtime-abi` compares this file with it, and writes it anew if \
            `REFRAIN_BLESS` is set.\n\n";
        let host = "\nIn a host, `PROGRAM_ANYWHERE` is divided:\n\n";
        [introduction, head, &rows(ALL), host, head, &rows(&HOSTED)].concat()
    }

    #[test]
    fn the_picture_in_the_documents_is_this_table() {
        let document = document();
        if std::env::var_os("REFRAIN_BLESS").is_some() {
            std::fs::write(FILE, &document).unwrap();
        }
        let written = std::fs::read_to_string(FILE).unwrap_or_default();
        for (ours, theirs) in document.lines().zip(written.lines().chain(std::iter::repeat(""))) {
            assert_eq!(
                ours.to_owned(),
                theirs.to_owned(),
                "docs/memory-map.md is old: REFRAIN_BLESS=1 cargo test -p runtime-abi"
            );
        }
        assert_eq!(document.len(), written.len());
    }

    #[test]
    fn regions_that_share_a_byte_are_found() {
        let moved = |region: &Region, start| Region { start, ..*region };
        for (index, region) in ALL.iter().enumerate() {
            let mut regions: Vec<Region> = ALL.to_vec();
            let other = &ALL[(index + 1) % ALL.len()];
            regions[index] = moved(region, other.end() - PAGE);
            assert!(
                !are_apart(&regions),
                "{} on the last page of {}",
                region.name,
                other.name
            );
        }
        // What there was once: the bytes of channels where the snapshot is, traces where logs are.
        assert!(!are_apart(&[moved(&CHANNELS, SNAPSHOT.start), SNAPSHOT]));
        assert!(!are_apart(&[moved(&TRACES, LOGS.start), LOGS]));
    }

    #[test]
    fn each_block_has_a_word_of_its_own() {
        let word = |block: u64| free_block_word(block);
        let last = ARENA.end() - BLOCK_BYTES_MIN / 2;
        for block in [ARENA.start + 16, ARENA.start + 4096, last] {
            assert!(FREE_BLOCKS.contains(word(block)) && FREE_BLOCKS.contains(word(block) + FREE_BLOCK_WORD_BYTES - 1));
        }
        // Blocks are multiples of 16 long and never shorter than that.
        for start in (ARENA.start + 16..ARENA.start + 4096).step_by(16) {
            assert!(word(start + BLOCK_BYTES_MIN) - word(start) == FREE_BLOCK_WORD_BYTES);
        }
    }

    #[test]
    fn shadows_stay_in_their_regions() {
        for (region, (cells, ghosts)) in PROGRAM.iter().zip(CELLS.iter().zip(&GHOSTS)) {
            for address in [region.start, region.start + region.bytes / 2, region.end() - 8] {
                assert!(cells.contains(address ^ CELL_XOR), "{address:x}");
                assert!(ghosts.contains(address ^ GHOST_XOR), "{address:x}");
                let word = CHUNK_WORDS.start + address / CHUNK_BYTES * CHUNK_WORD_BYTES;
                assert!(
                    region.chunk_words().contains(word) && region.chunk_words().is_inside(&CHUNK_WORDS),
                    "{address:x}"
                );
            }
        }
    }
}
