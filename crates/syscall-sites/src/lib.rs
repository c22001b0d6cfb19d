//! Where a library enters the kernel: each `syscall` instruction, and a run of bytes around it that can give way to a
//! jump without anybody noticing. The same for instructions that ask the processor for the time, or who it is.
//!
//! The runtime inside the program replaces these bytes, but does not decode instructions itself; this crate does, outside,
//! and hands over a table (`runtime_abi::call_sites`). The bytes of a window move to a trampoline as they are, so only
//! instructions that mean the same everywhere qualify, and nothing may jump into the window's middle.
#![forbid(unsafe_code)]

mod locked;
mod objects;
mod sweep;

pub use objects::find_all;
pub use objects::find_anywhere;

use iced_x86::Code;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;
use object::Object;
use object::ObjectSection;
use object::SectionKind;
use runtime_abi::call_sites::JUMP_BYTES;
use runtime_abi::call_sites::LEA_BYTES;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;
use std::fmt;
use std::ops::Range;

/// Calls after which the caller, or a child with the same memory, goes on elsewhere: rt_sigreturn, clone, vfork, exit,
/// clone3.
const SPECIAL: [u64; 5] = [15, CLONE, 58, 60, 435];
const CLONE: u64 = 56;
/// The flag without which clone is a fork: the child comes back to the same place, in memory of its own.
const CLONE_VM: u64 = 0x100;
/// Instructions before the `syscall` in which its arguments are looked for.
const LOOK_BACK: usize = 8;
/// More than the kernel has numbers for calls.
const NUMBERS: u64 = 600;
/// Instructions before and after the `syscall` that a window may take in.
const BEFORE_MAX: usize = 3;
const AFTER_MAX: usize = 3;
/// Instructions that are decoded before they are looked at.
const PART: usize = 4096;

/// One `syscall` instruction that can be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Address of the window in the object's own numbering.
    pub address: u64,
    /// The window's bytes, at least `JUMP_BYTES` of them.
    pub bytes: Vec<u8>,
    /// Where among them the `syscall` is.
    pub syscall_at: usize,
    /// Where among them an address is computed that depends on where the instruction is: by a `lea` of `LEA_BYTES`.
    pub address_at: Option<usize>,
}

/// All of an object's sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    pub sites: Vec<Site>,
    /// Left alone on purpose.
    pub special: usize,
    /// Left alone because no window fits: addresses of the instructions.
    pub no_room: Vec<u64>,
    /// Instructions that ask the processor, as far as they can be replaced: `rdtsc`, `rdtscp`, `cpuid`. In these, `Site::syscall_at` is where such a
    /// one is.
    pub instructions: Vec<Site>,
    /// Instructions that lock memory, and what is around them (`find_all`). In these, `Site::address_at` is where a distance of 32 bits is that has to
    /// be corrected.
    pub locked: Vec<Site>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    NotElf(String),
    TooMany(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotElf(why) => write!(f, "not a 64-bit ELF object: {why}"),
            Error::TooMany(count) => write!(f, "it has {count} system calls, more than {SITES_MAX}"),
        }
    }
}

impl std::error::Error for Error {}

/// Finds the sites of an ELF object whose executable sections contain nothing but code, as libc's do.
pub fn find(elf: &[u8]) -> Result<Sites, Error> {
    let file =
        object::read::elf::ElfFile64::<object::LittleEndian>::parse(elf).map_err(|e| Error::NotElf(e.to_string()))?;
    let mut found = Sites::default();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        if let Ok(bytes) = section.data() {
            sweep(bytes, section.address(), &mut found);
        }
    }
    let count = found.sites.len() + found.instructions.len();
    if count > SITES_MAX {
        return Err(Error::TooMany(count));
    }
    Ok(found)
}

fn is_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Syscall
}

/// Does it ask the processor something that is not the same each time?
fn asks_processor(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Cpuid
    )
}

fn is_wanted(instruction: &Instruction) -> bool {
    is_call(instruction) || asks_processor(instruction)
}

fn sweep(bytes: &[u8], address: u64, found: &mut Sites) {
    let mut targets = Targets::within(address, bytes.len());
    // No window begins before this instruction.
    let mut free_from = 0;
    for surroundings in surroundings(bytes, address, &mut targets) {
        let Surroundings { first, at, code } = surroundings;
        let free_window = || window(&code, at, &targets).filter(|window| first + window.start >= free_from);
        if asks_processor(&code[at]) {
            if let Some(window) = free_window() {
                free_from = first + window.end;
                found.instructions.push(site(&code, window, at, bytes, address));
            }
            continue;
        }
        let number = constant_before(&code, at, Register::RAX);
        let is_fork = number == Some(CLONE)
            && constant_before(&code, at, Register::RDI).is_some_and(|flags| flags & CLONE_VM == 0);
        if number.is_some_and(|number| SPECIAL.contains(&number)) && !is_fork {
            found.special += 1;
            continue;
        }
        let Some(window) = free_window() else {
            found.no_room.push(code[at].ip());
            continue;
        };
        free_from = first + window.end;
        found.sites.push(site(&code, window, at, bytes, address));
    }
}

/// A wanted instruction, and those around it that may matter to its window.
struct Surroundings {
    /// Number of the first of these instructions among all.
    first: usize,
    /// Where the wanted one is among these.
    at: usize,
    code: Vec<Instruction>,
}

/// Those of all wanted instructions, in their order; `targets` learns of all that is jumped to. libc has hundreds of thousands of instructions, and this is done
/// before each run, so all of them are never there at once.
fn surroundings(bytes: &[u8], address: u64, targets: &mut Targets) -> Vec<Surroundings> {
    let mut found = Vec::new();
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    // A part of the code, how many instructions are before it, and from where on in it wanted ones are looked for.
    let mut code: Vec<Instruction> = Vec::with_capacity(PART);
    let (mut before, mut next) = (0, 0);
    loop {
        while decoder.can_decode() && code.len() < PART {
            let instruction = decoder.decode();
            targets.insert(instruction.near_branch_target());
            code.push(instruction);
        }
        let is_last = !decoder.can_decode();
        // What is behind the others comes with the next part.
        let known = if is_last { code.len() } else { code.len() - AFTER_MAX };
        for at in (next..known).filter(|at| is_wanted(&code[*at])) {
            let first = at.saturating_sub(LOOK_BACK);
            let end = (at + 1 + AFTER_MAX).min(code.len());
            found.push(Surroundings {
                first: before + first,
                at: at - first,
                code: code[first..end].to_vec(),
            });
        }
        if is_last {
            return found;
        }
        let gone = known - LOOK_BACK;
        code.drain(..gone);
        before += gone;
        next = LOOK_BACK;
    }
}

/// Addresses within a section that are jumped to: a bit for each.
struct Targets {
    address: u64,
    bytes: usize,
    bits: Vec<u64>,
}

impl Targets {
    fn within(address: u64, bytes: usize) -> Targets {
        Targets {
            address,
            bytes,
            bits: vec![0; bytes.div_ceil(64)],
        }
    }

    fn place(&self, target: u64) -> Option<usize> {
        let at = usize::try_from(target.checked_sub(self.address)?).ok()?;
        (at < self.bytes).then_some(at)
    }

    fn insert(&mut self, target: u64) {
        // No jump has the target 0, nor any that is not known.
        if let Some(at) = self.place(target).filter(|_| target != 0) {
            self.bits[at / 64] |= 1 << (at % 64);
        }
    }

    fn contains(&self, address: u64) -> bool {
        let is_set = |at: usize| self.bits[at / 64] >> (at % 64) & 1 != 0;
        self.place(address).is_some_and(is_set)
    }
}

/// The site of the `syscall` at `at`, with this window. `bytes`, at `address`, is what `code` was decoded from.
fn site(code: &[Instruction], window: Range<usize>, at: usize, bytes: &[u8], address: u64) -> Site {
    let (start, end) = (code[window.start].ip(), code[window.end - 1].next_ip());
    Site {
        address: start,
        bytes: bytes[(start - address) as usize..(end - address) as usize].to_vec(),
        syscall_at: (code[at].ip() - start) as usize,
        address_at: code[window]
            .iter()
            .find(|each| computes_address(each))
            .map(|each| (each.ip() - start) as usize),
    }
}

/// What is in `register`, or in its lower half, at a system call, if a constant is moved there shortly before.
fn constant_before(code: &[Instruction], site: usize, register: Register) -> Option<u64> {
    code[site.saturating_sub(LOOK_BACK)..site].iter().rev().find_map(|i| {
        let is_there = i.mnemonic() == Mnemonic::Mov
            && i.op0_kind() == OpKind::Register
            && i.op0_register().full_register() == register;
        let constant = matches!(i.op1_kind(), OpKind::Immediate32 | OpKind::Immediate32to64);
        (is_there && constant).then(|| i.immediate(1))
    })
}

/// The shortest run of movable instructions around `site` that a jump fits into.
fn window(code: &[Instruction], site: usize, targets: &Targets) -> Option<Range<usize>> {
    let candidates = (0..=BEFORE_MAX).flat_map(|before| (0..=AFTER_MAX).map(move |after| (before, after)));
    let fits = |(before, after): (usize, usize)| {
        let (run, bytes) = movable_run(code, site, (before, after), Also::Nothing)?;
        // Whoever jumps to the window's first byte finds the jump there; to any other, half of it.
        let rest = &code[run.start + 1..run.end];
        let undisturbed = rest.iter().all(|each| !targets.contains(each.ip()));
        undisturbed.then_some((bytes, run))
    };
    candidates
        .filter_map(fits)
        .min_by_key(|(bytes, _)| *bytes)
        .map(|(_, run)| run)
}

/// What a window may have apart from instructions that mean the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Also {
    Nothing,
    /// One address that is computed from the instruction's own (`Site::address_at`), and, after the `syscall`, the
    /// function's end with the filling behind it.
    AddressOrEnd,
}

/// The instructions from `before` before the one at `site` to `after` after it, and their bytes, if they can be moved and a
/// jump fits into their place.
fn movable_run(
    code: &[Instruction],
    site: usize,
    (before, after): (usize, usize),
    also: Also,
) -> Option<(Range<usize>, usize)> {
    let (first, end) = (site.checked_sub(before)?, site + after + 1);
    let run = code.get(first..end)?;
    let bytes: usize = run.iter().map(Instruction::len).sum();
    let is_end = |each: &Instruction| each.mnemonic() == Mnemonic::Ret;
    let filling = |each: &Instruction| matches!(each.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
    let last = match also {
        Also::Nothing => run.len(),
        Also::AddressOrEnd => run
            .iter()
            .skip(before + 1)
            .position(is_end)
            .map_or(run.len(), |at| before + 1 + at),
    };
    let addresses = run.iter().filter(|each| computes_address(each)).count();
    let movable = run[..last].iter().enumerate().all(|(i, each)| {
        first + i == site
            || is_movable(each)
            || (also == Also::AddressOrEnd && computes_address(each) && addresses == 1)
    }) && run.iter().skip(last + 1).all(filling);
    let contiguous = run.windows(2).all(|pair| pair[0].next_ip() == pair[1].ip());
    let right_size = (JUMP_BYTES..=WINDOW_BYTES_MAX).contains(&bytes);
    (movable && contiguous && right_size).then_some((first..end, bytes))
}

/// `lea` of an address relative to the instruction's own, in the form that the runtime can replace.
fn computes_address(instruction: &Instruction) -> bool {
    instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() && instruction.len() == LEA_BYTES
}

/// Does it do the same wherever it stands, and go on to the next?
fn is_movable(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::Next
        && !instruction.is_ip_rel_memory_operand()
        && instruction.near_branch_target() == 0
        && instruction.mnemonic() != Mnemonic::INVALID
        && !is_wanted(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites_of(bytes: &[u8]) -> Sites {
        let mut found = Sites::default();
        sweep(bytes, 0x1000, &mut found);
        found
    }

    #[test]
    fn a_number_moved_right_before_goes_with_the_call() {
        // mov $0x27,%eax; syscall; ret
        let found = sites_of(&[0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        assert_eq!(found.sites.len(), 1);
        assert_eq!((found.sites[0].address, found.sites[0].syscall_at), (0x1000, 5));
        assert_eq!(found.sites[0].bytes, [0xb8, 0x27, 0, 0, 0, 0x0f, 0x05]);
    }

    /// The code is looked at part by part, and it does not matter where a part ends.
    #[test]
    fn sites_are_found_wherever_they_are() {
        // je to the comparison; mov $0x27,%eax; syscall; cmp; ret; mov $15,%eax (rt_sigreturn); syscall; ret; rdtsc; shl $32,%rdx; ret
        let code = [
            0x74, 0x07, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0xc3, 0xb8, 15, 0, 0, 0,
            0x0f, 0x05, 0xc3, 0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0xc3,
        ];
        let alone = sites_of(&code);
        assert_eq!((alone.sites.len(), alone.special, alone.instructions.len()), (1, 1, 1));
        for before in (0..20).chain(PART - 20..PART + 4).chain(2 * PART - 30..2 * PART) {
            // Nothing moves across a ret.
            let mut bytes = vec![0xc3; before];
            bytes.extend(code);
            let mut expected = alone.clone();
            for site in expected.sites.iter_mut().chain(&mut expected.instructions) {
                site.address += before as u64;
            }
            assert_eq!(sites_of(&bytes), expected, "{before} instructions before it");
        }
    }

    #[test]
    fn a_window_is_not_jumped_into() {
        // jmp to the syscall; mov $0x27,%eax; syscall; ret: nothing but the ret follows, so there is no room.
        let found = sites_of(&[0xeb, 0x05, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        assert_eq!(found.sites, []);
        assert_eq!(found.no_room, [0x1007]);
        // The same with a comparison after it, which is not jumped to.
        let code = [
            0xeb, 0x05, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0xc3,
        ];
        let found = sites_of(&code);
        assert_eq!((found.sites[0].address, found.sites[0].syscall_at), (0x1007, 0));
        assert_eq!(found.sites[0].bytes.len(), 8);
    }

    #[test]
    fn an_instruction_that_asks_for_the_time_has_a_window_of_its_own() {
        // rdtsc; shl $32,%rdx; or %rdx,%rax; rdtscp; shl $32,%rdx; cpuid; ret
        let code = [
            0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0x0f, 0x01, 0xf9, 0x48, 0xc1, 0xe2, 0x20, 0x0f, 0xa2,
            0xc3,
        ];
        let found = sites_of(&code);
        assert_eq!(found.sites, []);
        let places: Vec<_> = found
            .instructions
            .iter()
            .map(|site| (site.address, site.syscall_at))
            .collect();
        // The first one's window takes the shift behind it; those of the others what is left before them. None overlap.
        assert_eq!(places, [(0x1000, 0), (0x1006, 3), (0x100c, 4)]);
    }

    #[test]
    fn what_depends_on_its_place_stays() {
        // syscall; lea 0(%rip),%rax; ret
        assert_eq!(
            sites_of(&[0x0f, 0x05, 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3]).no_room,
            [0x1000]
        );
        // syscall; ja +1; ret
        assert_eq!(sites_of(&[0x0f, 0x05, 0x77, 0x01, 0xc3, 0xc3]).no_room, [0x1000]);
    }

    #[test]
    fn calls_that_go_on_elsewhere_stay() {
        // mov $56,%eax (clone); syscall; cmp
        let found = sites_of(&[0xb8, 0x38, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff]);
        assert_eq!((found.sites.len(), found.special), (0, 1));
        // mov $0x50f00,%edi (flags with CLONE_VM); mov $56,%eax; syscall; cmp
        let thread = [
            0xbf, 0x00, 0x0f, 0x05, 0, 0xb8, 0x38, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff,
        ];
        assert_eq!((sites_of(&thread).sites.len(), sites_of(&thread).special), (0, 1));
    }

    #[test]
    fn a_fork_comes_back_twice_to_its_place() {
        // mov $0x1200011,%edi (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD); mov $56,%eax; syscall; cmp
        let fork = [
            0xbf, 0x11, 0, 0x20, 0x01, 0xb8, 0x38, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff,
        ];
        assert_eq!((sites_of(&fork).sites.len(), sites_of(&fork).special), (1, 0));
    }

    #[test]
    fn the_libc_of_this_machine_is_covered() {
        let candidates = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/libc.so.6",
            "/usr/lib/libc.so.6",
        ];
        let libc = candidates.iter().find_map(|path| std::fs::read(path).ok());
        let libc = libc.expect("libc is in one of the usual places");
        let found = find(&libc).expect("libc is an ELF object");
        assert!(found.sites.len() > 300, "{} sites", found.sites.len());
        assert!(
            found.no_room.len() * 50 < found.sites.len(),
            "no room at {:x?}",
            found.no_room
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(find(b""), Err(Error::NotElf(_))));
        assert!(matches!(find(&[0x7f; 200]), Err(Error::NotElf(_))));
        assert!(matches!(find_anywhere(&[0x7f; 200]), Err(Error::NotElf(_))));
    }
}
