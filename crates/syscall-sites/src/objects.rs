//! Sites of objects of which nothing is known beforehand: stripped ones, with data among code, with jump tables.
//!
//! A jump into a window's middle would be a disaster, so a window is only taken if nobody can know an address inside it.
//! Code is decoded function by function, from starts that the file names: symbols, and the table that unwinders use; or, if there are
//! neither, from those that a sweep finds (`sweep.rs`). All
//! addresses of code that the object can have from anywhere count as jumped to: targets of branches, entries of jump
//! tables, addresses that instructions compute, and words of data that look like one. What is left are jumps to computed
//! addresses; a function with a jump that looks like that is left alone.
use crate::AFTER_MAX;
use crate::Also;
use crate::BEFORE_MAX;
use crate::CLONE;
use crate::CLONE_VM;
use crate::Error;
use crate::LOOK_BACK;
use crate::NUMBERS;
use crate::Site;
use crate::Sites;
use crate::asks_processor;
use crate::is_call;
use crate::is_wanted;
use crate::locked;
use crate::movable_run;
use crate::site;
use crate::sweep;
use iced_x86::Code;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;
use object::LittleEndian;
use object::Object as _;
use object::ObjectSection as _;
use object::ObjectSymbol as _;
use object::SectionKind;
use object::SymbolKind;
use object::elf;
use object::read::elf::ElfFile64;
use object::read::elf::FileHeader as _;
use object::read::elf::ProgramHeader as _;
use std::collections::BTreeSet;
use std::collections::HashSet;
use std::ops::Range;

type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// `syscall`, `rdtsc`, `cpuid`, and the beginning of `rdtscp`.
const WANTED: [[u8; 2]; 4] = [[0x0f, 0x05], [0x0f, 0x31], [0x0f, 0xa2], [0x0f, 0x01]];
const CALLS: [[u8; 2]; 1] = [[0x0f, 0x05]];
/// rt_sigreturn and exit: nothing comes back from them, so nothing is missed.
const LAST: [u64; 2] = [15, 60];
const CLONE3: u64 = 435;
/// Bytes on either side of a `syscall` that a window can reach.
const NEAR: u64 = 64;
/// Instructions before an indirect jump in which its register is looked for.
const JUMP_LOOK_BACK: usize = 12;
/// Entries of one jump table, at most.
const TABLE_MAX: u64 = 1 << 16;

/// Finds the sites of any ELF object. `Sites::no_room` has those that were left alone.
pub fn find_anywhere(elf: &[u8]) -> Result<Sites, Error> {
    let file = Elf::parse(elf).map_err(|e| Error::NotElf(e.to_string()))?;
    find_in(&Image::new(&file, elf), Wanted::ThoseThatReturn)
}

/// The same of a program that the runtime hosts: it makes the threads itself, and ends them.
pub fn find_all(elf: &[u8]) -> Result<Sites, Error> {
    let file = Elf::parse(elf).map_err(|e| Error::NotElf(e.to_string()))?;
    find_in(&Image::new(&file, elf), Wanted::All)
}

/// Which calls are to be replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Not those of `LAST`; and none of an object that makes threads.
    ThoseThatReturn,
    All,
}

fn find_in(image: &Image<'_>, wanted: Wanted) -> Result<Sites, Error> {
    let mut found = Sites::default();
    let (bytes, is_of_interest): (&[[u8; 2]], fn(&Instruction) -> bool) = match wanted {
        Wanted::All => (&CALLS, is_call),
        Wanted::ThoseThatReturn => (&WANTED, is_wanted),
    };
    let suspects = image.suspects(bytes).into_iter();
    let functions: Vec<Function> = suspects
        .filter_map(|suspect| Function::decode(suspect, is_of_interest))
        .collect();
    let calls: Vec<u64> = functions.iter().flat_map(|each| each.all(is_of_interest)).collect();
    if calls.is_empty() {
        return Ok(found);
    }
    if wanted != Wanted::All && functions.iter().any(Function::makes_threads) {
        // Threads that nobody knows of must not come to the recorder.
        found.no_room = functions.iter().flat_map(Function::plausible_calls).collect();
        return Ok(found);
    }
    let locking: Vec<Function> = match wanted {
        Wanted::All => image
            .functions()
            .filter_map(|each| Function::decode(each, locked::is_locked))
            .collect(),
        Wanted::ThoseThatReturn => Vec::new(),
    };
    let mut places = calls;
    places.extend(locking.iter().flat_map(|each| each.all(locked::is_locked)));
    places.sort_unstable();
    let known = image.known_addresses(&places);
    for function in &functions {
        function.sites(&known, wanted, &mut found);
    }
    let window = |site: &Site| site.address..site.address + site.bytes.len() as u64;
    let mut taken: Vec<Range<u64>> = found.sites.iter().map(window).collect();
    taken.sort_unstable_by_key(|window| window.start);
    for function in &locking {
        locked::sites(function, &known, &taken, &mut found.locked);
    }
    let count = found.sites.len() + found.instructions.len();
    match count > crate::SITES_MAX {
        true => Err(Error::TooMany(count)),
        false => Ok(found),
    }
}

/// Bytes at their address; `None` if there are none, or no such addresses.
fn place(address: u64, bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = address.checked_add(bytes.len() as u64)?;
    (end > address).then_some((address, bytes))
}

/// What the object will look like in memory.
struct Image<'a> {
    /// Address and bytes of all that is loaded.
    loaded: Vec<(u64, &'a [u8])>,
    /// The same of what is code.
    code: Vec<(u64, &'a [u8])>,
    /// Where functions begin, and where code ends.
    starts: BTreeSet<u64>,
    /// Addresses that relocations put into data.
    relocated: Vec<u64>,
    /// Linked at a fixed address: instructions may have addresses as constants.
    is_fixed: bool,
}

impl<'a> Image<'a> {
    fn new(file: &Elf<'a>, elf: &'a [u8]) -> Image<'a> {
        let segments = file.elf_program_headers();
        let load = |segment: &elf::ProgramHeader64<LittleEndian>| {
            place(segment.p_vaddr(LittleEndian), segment.data(LittleEndian, elf).ok()?)
        };
        let kind = |segment: &&elf::ProgramHeader64<LittleEndian>| segment.p_type(LittleEndian);
        let loads = || segments.iter().filter(|segment| kind(segment) == elf::PT_LOAD);
        let mut code: Vec<(u64, &'a [u8])> = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .filter_map(|section| place(section.address(), section.data().ok()?))
            .collect();
        if code.is_empty() {
            let executable = loads().filter(|segment| segment.p_flags(LittleEndian) & elf::PF_X != Default::default());
            code = executable.filter_map(load).collect();
        }
        let mut image = Image {
            loaded: loads().filter_map(load).collect(),
            code,
            starts: BTreeSet::new(),
            relocated: Vec::new(),
            is_fixed: file.elf_header().e_type(LittleEndian) == elf::ET_EXEC,
        };
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        let mut starts: Vec<u64> = functions.map(|symbol| symbol.address()).collect();
        let unwinding = segments.iter().filter(|segment| kind(segment) == elf::PT_GNU_EH_FRAME);
        for (address, table) in unwinding.filter_map(load) {
            starts.extend(functions_in(table, address));
        }
        image.relocated = file
            .dynamic_relocations()
            .into_iter()
            .flatten()
            .map(|(_, relocation)| relocation.addend() as u64)
            .collect();
        if starts.is_empty() {
            starts = sweep::starts(&image.code, image.pointers(), image.is_fixed);
        }
        starts.push(file.entry());
        starts.retain(|start| image.is_code(*start));
        image.starts = starts.into_iter().collect();
        let sections = image
            .code
            .iter()
            .flat_map(|(at, bytes)| [*at, *at + bytes.len() as u64]);
        image.starts.extend(sections.collect::<Vec<_>>());
        image
    }

    fn is_code(&self, address: u64) -> bool {
        let holds = |(at, bytes): &(u64, &[u8])| (*at..*at + bytes.len() as u64).contains(&address);
        self.code.iter().any(holds)
    }

    fn bytes_at(&self, address: u64) -> Option<&'a [u8]> {
        self.loaded.iter().find_map(|(at, bytes)| {
            let offset = address.checked_sub(*at)?;
            bytes.get(offset as usize..)
        })
    }

    /// Words of what is loaded, and those that relocations put there: some are addresses.
    fn pointers(&self) -> impl Iterator<Item = u64> {
        let words = self.loaded.iter().flat_map(|(_, bytes)| bytes.as_chunks::<8>().0);
        let relocated = self.relocated.iter().copied();
        relocated.chain(words.map(|word| u64::from_le_bytes(*word)))
    }

    /// The functions that have one of these pairs of bytes somewhere.
    fn suspects(&self, wanted: &[[u8; 2]]) -> Vec<(u64, &'a [u8])> {
        let mut found = Vec::new();
        for (address, bytes) in &self.code {
            let mut at = 0;
            while let Some(next) = bytes[at..]
                .windows(2)
                .position(|pair| pair[0] == wanted[0][0] && wanted.iter().any(|wanted| pair == wanted))
            {
                let here = *address + (at + next) as u64;
                let start = self.starts.range(..=here).next_back().copied().unwrap_or(*address);
                let end = self.starts.range(here + 1..).next().copied();
                let end = (end.unwrap_or(u64::MAX).min(*address + bytes.len() as u64) - address) as usize;
                let start = start.max(*address);
                found.push((start, &bytes[(start - address) as usize..end]));
                at = end;
            }
        }
        found
    }

    /// All of the code, from one start to the next.
    fn functions(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.code.iter().flat_map(|(address, bytes)| {
            let end = *address + bytes.len() as u64;
            let starts = self.starts.range(*address..end).copied();
            let ends = self.starts.range(*address + 1..=end).copied();
            let part = move |start: u64, end: u64| &bytes[(start - address) as usize..(end - address) as usize];
            starts.zip(ends).map(move |(start, end)| (start, part(start, end)))
        })
    }

    /// All addresses near one of `calls` that some jump could have.
    fn known_addresses(&self, calls: &[u64]) -> BTreeSet<u64> {
        let mut near = Near {
            calls,
            known: self.starts.clone(),
        };
        let mut bases = BTreeSet::new();
        for (start, function) in self.functions() {
            for instruction in &mut Decoder::with_ip(64, function, start, DecoderOptions::NONE) {
                self.note(&instruction, &mut near, &mut bases);
            }
        }
        self.pointers().for_each(|address| near.add(address));
        for base in &bases {
            let next = bases.range(base + 1..).next().copied().unwrap_or(u64::MAX);
            self.note_table(*base, next, &mut near);
        }
        near.known
    }

    fn note(&self, instruction: &Instruction, near: &mut Near<'_>, bases: &mut BTreeSet<u64>) {
        near.add(instruction.near_branch_target());
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            near.add(address);
            if instruction.mnemonic() == Mnemonic::Lea && !self.is_code(address) {
                bases.insert(address);
            }
        }
        if self.is_fixed {
            let constants = (0..instruction.op_count()).filter(|i| is_constant(instruction.op_kind(*i)));
            constants.for_each(|i| {
                let constant = instruction.immediate(i);
                near.add(constant);
                bases.extend((self.bytes_at(constant).is_some() && !self.is_code(constant)).then_some(constant));
            });
        }
    }

    /// A table of distances from itself, as compilers make them for `switch`; up to the first that leads to no code, or
    /// to the next table.
    fn note_table(&self, base: u64, next: u64, near: &mut Near<'_>) {
        let Some(bytes) = self.bytes_at(base) else { return };
        let most = TABLE_MAX.min((next - base) / 4) as usize;
        let (distances, _) = bytes.as_chunks::<4>();
        for distance in distances.iter().take(most) {
            let target = base.wrapping_add_signed(i64::from(i32::from_le_bytes(*distance)));
            if !self.is_code(target) {
                break;
            }
            near.add(target);
        }
    }
}

/// Collects addresses near some calls; of all others nobody wants to know.
struct Near<'a> {
    /// In ascending order.
    calls: &'a [u64],
    known: BTreeSet<u64>,
}

impl Near<'_> {
    fn add(&mut self, address: u64) {
        let next = self.calls.partition_point(|call| call + NEAR < address);
        if self
            .calls
            .get(next)
            .is_some_and(|call| call.saturating_sub(NEAR) <= address)
        {
            self.known.insert(address);
        }
    }
}

pub fn is_constant(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
    )
}

/// The functions that an `.eh_frame_hdr` lists, if it has the one form that linkers write: version 1, pairs of 32-bit
/// distances from its own start.
fn functions_in(table: &[u8], address: u64) -> Vec<u64> {
    const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    if !table.starts_with(&FORM) {
        return Vec::new();
    }
    let (pairs, _) = table.get(12..).unwrap_or_default().as_chunks::<8>();
    let start = |pair: &[u8; 8]| {
        let distance = i32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        address.wrapping_add_signed(i64::from(distance))
    };
    pairs.iter().map(start).collect()
}

/// A function with at least one `syscall`, or with data that looks like one.
pub struct Function {
    pub start: u64,
    pub bytes: Vec<u8>,
    pub code: Vec<Instruction>,
    /// Which instructions can be come to: after a jump that is always taken, only those that some branch here leads to.
    pub is_reached: Vec<bool>,
    /// All of it is code, as far as that shows: what is reached is valid, and branches lead to instructions.
    pub is_clean: bool,
}

impl Function {
    /// `None`: there is nothing of interest in it.
    pub fn decode((start, bytes): (u64, &[u8]), is_of_interest: fn(&Instruction) -> bool) -> Option<Function> {
        let code: Vec<Instruction> = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
            .iter()
            .collect();
        if !code.iter().any(is_of_interest) {
            return None;
        }
        let end = start + bytes.len() as u64;
        let targets: HashSet<u64> = code
            .iter()
            .map(Instruction::near_branch_target)
            .filter(|target| (start..end).contains(target))
            .collect();
        let begins: HashSet<u64> = code.iter().map(Instruction::ip).collect();
        let has_table = code
            .iter()
            .any(|each| each.flow_control() == FlowControl::IndirectBranch);
        let mut is_reached = Vec::with_capacity(code.len());
        let mut goes_on = true;
        for each in &code {
            // Entries of a jump table are not known here; what looks like code behind its jump counts as reached.
            goes_on |= targets.contains(&each.ip()) || has_table;
            is_reached.push(goes_on);
            goes_on &= !is_end(each);
        }
        let is_valid = |(each, is_reached): (&Instruction, &bool)| !is_reached || each.mnemonic() != Mnemonic::INVALID;
        let is_clean = targets.is_subset(&begins)
            && code.iter().zip(&is_reached).all(is_valid)
            && code.iter().enumerate().all(|(at, _)| jumps_to_known(&code, at));
        Some(Function {
            start,
            bytes: bytes.to_vec(),
            code,
            is_reached,
            is_clean,
        })
    }

    /// Addresses of the instructions of interest.
    fn all(&self, is_of_interest: fn(&Instruction) -> bool) -> impl Iterator<Item = u64> {
        self.code
            .iter()
            .filter(move |each| is_of_interest(each))
            .map(Instruction::ip)
    }

    fn all_calls(&self) -> impl Iterator<Item = usize> {
        (0..self.code.len()).filter(|at| self.code[*at].mnemonic() == Mnemonic::Syscall)
    }

    /// Those that a number is put in place for.
    fn plausible_calls(&self) -> impl Iterator<Item = u64> {
        self.all_calls()
            .filter(|at| self.puts_number(*at))
            .map(|at| self.code[at].ip())
    }

    fn puts_number(&self, call: usize) -> bool {
        let before = &self.code[call.saturating_sub(LOOK_BACK)..call];
        let number = |each: &Instruction| match each.mnemonic() {
            Mnemonic::Mov if is_constant(each.op1_kind()) => each.immediate(1) < NUMBERS,
            Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Xor | Mnemonic::Pop | Mnemonic::Lea => true,
            _ => false,
        };
        before.iter().any(|each| writes(each, Register::RAX) && number(each))
    }

    /// Does it have a thread made by the kernel? (vfork is not among them: the runtime makes it a fork.)
    fn makes_threads(&self) -> bool {
        self.all_calls().any(|at| match self.constant(at, Register::RAX) {
            Some(CLONE3) => true,
            Some(CLONE) => self
                .constant(at, Register::RDI)
                .is_none_or(|flags| flags & CLONE_VM != 0),
            _ => false,
        })
    }

    /// What the instruction that last set the register put there.
    fn constant(&self, call: usize, register: Register) -> Option<u64> {
        let before = &self.code[call.saturating_sub(LOOK_BACK)..call];
        let last = before.iter().rev().find(|each| writes(each, register))?;
        let constant = last.mnemonic() == Mnemonic::Mov && is_constant(last.op1_kind());
        constant.then(|| last.immediate(1))
    }

    fn sites(&self, known: &BTreeSet<u64>, wanted: Wanted, found: &mut Sites) {
        let mut free_from = 0;
        for at in (0..self.code.len()).filter(|at| is_wanted(&self.code[*at])) {
            if asks_processor(&self.code[at]) {
                let window = self.window(at, known).filter(|window| window.start >= free_from);
                let is_sure = wanted != Wanted::All && self.is_clean && self.is_reached[at];
                if let Some(window) = window.filter(|_| is_sure) {
                    free_from = window.end;
                    let instruction = site(&self.code, window, at, &self.bytes, self.start);
                    found.instructions.push(instruction);
                }
                continue;
            }
            let number = self.constant(at, Register::RAX);
            if wanted != Wanted::All && number.is_some_and(|number| LAST.contains(&number)) {
                found.special += 1;
                continue;
            }
            let window = self.window(at, known).filter(|window| window.start >= free_from);
            match window {
                Some(window) if self.is_clean && self.is_reached[at] => {
                    free_from = window.end;
                    found.sites.push(site(&self.code, window, at, &self.bytes, self.start));
                }
                _ if self.is_reached[at] && self.is_clean || self.puts_number(at) => {
                    found.no_room.push(self.code[at].ip())
                }
                _ => {}
            }
        }
    }

    /// The shortest window that nobody can know an address inside of.
    fn window(&self, at: usize, known: &BTreeSet<u64>) -> Option<Range<usize>> {
        let candidates = (0..=BEFORE_MAX).flat_map(|before| (0..=AFTER_MAX).map(move |after| (before, after)));
        let fits = |(before, after): (usize, usize)| {
            let (run, bytes) = movable_run(&self.code, at, (before, after), Also::AddressOrEnd)?;
            let inside = self.code[run.start].ip() + 1..self.code[run.end - 1].next_ip();
            known.range(inside).next().is_none().then_some((bytes, run))
        };
        let fitting = candidates.filter_map(fits);
        fitting.min_by_key(|(bytes, _)| *bytes).map(|(_, run)| run)
    }
}

/// Does nothing go on to the next instruction from here?
pub fn is_end(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception
    ) || instruction.code() == Code::Hlt
}

/// Does it put something into the register, as the first of its operands?
fn writes(instruction: &Instruction, register: Register) -> bool {
    let reads_only = matches!(
        instruction.mnemonic(),
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push | Mnemonic::Bt | Mnemonic::Nop
    );
    let is_target = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == register;
    let by_call = register == Register::RAX
        && matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
    (is_target && !reads_only) || by_call
}

/// If it jumps to an address in a register: is it one that has been read from memory whole, or the sum of a jump table's
/// base and one of its entries? Addresses that are made otherwise are not known to `known_addresses`.
fn jumps_to_known(code: &[Instruction], at: usize) -> bool {
    let jump = &code[at];
    if jump.flow_control() != FlowControl::IndirectBranch || jump.op0_kind() != OpKind::Register {
        return true;
    }
    let register = jump.op0_register().full_register();
    let before = &code[at.saturating_sub(JUMP_LOOK_BACK)..at];
    let Some(last) = before.iter().rposition(|each| writes(each, register)) else {
        return false;
    };
    match before[last].mnemonic() {
        Mnemonic::Mov => before[last].op1_kind() == OpKind::Memory,
        Mnemonic::Pop => true,
        Mnemonic::Add => {
            let operands = [register, before[last].op1_register().full_register()];
            let loads = |each: &Instruction| {
                each.mnemonic() == Mnemonic::Movsxd
                    && each.op1_kind() == OpKind::Memory
                    && operands.iter().any(|operand| writes(each, *operand))
            };
            before[..last].iter().any(loads)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0x1000;
    const DATA: u64 = 0x8000;
    const SOME_CALL: [u8; 7] = [0xb8, 0x27, 0, 0, 0, 0x0f, 0x05];
    const RET: u8 = 0xc3;

    fn image<'a>(code: &'a [u8], data: &'a [u8]) -> Image<'a> {
        Image {
            loaded: vec![(TEXT, code), (DATA, data)],
            code: vec![(TEXT, code)],
            starts: BTreeSet::from([TEXT, TEXT + code.len() as u64]),
            relocated: Vec::new(),
            is_fixed: false,
        }
    }

    fn found(code: &[u8], data: &[u8]) -> Sites {
        find_in(&image(code, data), Wanted::ThoseThatReturn).expect("few sites")
    }

    fn replaced(code: &[u8], data: &[u8]) -> Vec<Site> {
        found(code, data).sites
    }

    /// Left alone, and counted.
    fn is_refused(code: &[u8], data: &[u8]) -> bool {
        let found = found(code, data);
        found.sites.is_empty() && found.no_room.len() == 1
    }

    #[test]
    fn what_is_empty_or_nowhere_has_no_place() {
        assert_eq!(place(0x1000, &[]), None);
        assert_eq!(place(u64::MAX - 1, &[0; 4]), None);
        assert_eq!(place(0x1000, &[1, 2]), Some((0x1000, &[1u8, 2][..])));
    }

    #[test]
    fn a_call_with_its_number_is_replaced() {
        let code = [&SOME_CALL[..], &[RET]].concat();
        let sites = replaced(&code, &[]);
        assert_eq!(
            (sites[0].address, sites[0].syscall_at, sites[0].bytes.len()),
            (TEXT, 5, 7)
        );
        assert_eq!(sites[0].address_at, None);
    }

    #[test]
    fn an_address_goes_with_the_call() {
        // lea 0x2fba(%rip),%rdi; syscall; ret
        let code = [0x48, 0x8d, 0x3d, 0xba, 0x2f, 0, 0, 0x0f, 0x05, RET];
        let sites = replaced(&code, &[]);
        assert_eq!((sites[0].syscall_at, sites[0].address_at), (7, Some(0)));
        // The same of 32 bits is another instruction.
        let narrow = [0x8d, 0x3d, 0xba, 0x2f, 0, 0, 0x0f, 0x05, RET, RET, RET, RET];
        assert!(replaced(&narrow, &[]).is_empty());
    }

    #[test]
    fn the_filling_behind_a_function_is_room() {
        // jmp to the syscall; syscall; ret; nopl
        let code = [0xeb, 0x00, 0x0f, 0x05, RET, 0x0f, 0x1f, 0x40, 0x00];
        let sites = replaced(&code, &[]);
        assert_eq!(
            (sites[0].address, sites[0].syscall_at, sites[0].bytes.len()),
            (TEXT + 2, 0, 7)
        );
        // The next function begins where it would be.
        let mut next = image(&code, &[]);
        next.starts.insert(TEXT + 5);
        let found = find_in(&next, Wanted::ThoseThatReturn).expect("few sites");
        assert_eq!((found.sites.len(), found.no_room.len()), (0, 1));
    }

    #[test]
    fn another_function_may_jump_into_the_window() {
        // mov $39,%eax; syscall; ret; and, in another function: jmp to the syscall
        let code = [&SOME_CALL[..], &[RET, 0xeb, 0xfb]].concat();
        assert_eq!(found(&code[..8], &[]).sites.len(), 1);
        let mut both = image(&code, &[]);
        both.starts.insert(TEXT + 8);
        let found = find_in(&both, Wanted::ThoseThatReturn).expect("few sites");
        assert_eq!((found.sites.len(), found.no_room.len()), (0, 1));
    }

    #[test]
    fn an_address_in_data_may_be_jumped_to() {
        let code = [&SOME_CALL[..], &[RET]].concat();
        assert!(is_refused(&code, &(TEXT + 5).to_le_bytes()));
        assert_eq!(replaced(&code, &TEXT.to_le_bytes()).len(), 1);
        let mut relocated = image(&code, &[]);
        relocated.relocated.push(TEXT + 5);
        assert!(find_in(&relocated, Wanted::ThoseThatReturn).is_ok_and(|found| found.sites.is_empty()));
    }

    /// lea table(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax
    fn switch() -> Vec<u8> {
        let distance = (DATA - TEXT - 7) as u32;
        let mut code = vec![0x48, 0x8d, 0x15];
        code.extend(distance.to_le_bytes());
        code.extend([0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0]);
        code
    }

    #[test]
    fn jump_tables_are_read() {
        let code = [&switch()[..], &SOME_CALL, &[RET]].concat();
        let (start, call) = (TEXT + 16, TEXT + 21);
        let entry = |target: u64| (target.wrapping_sub(DATA) as u32).to_le_bytes();
        assert_eq!(replaced(&code, &entry(start)).len(), 1);
        assert!(is_refused(&code, &[entry(start), entry(call)].concat()));
        // What follows a table is none of its entries.
        assert_eq!(
            replaced(&code, &[entry(start), [1, 0, 0, 0], entry(call)].concat()).len(),
            1
        );
    }

    #[test]
    fn computed_jumps_are_not_trusted() {
        // lea (%rdx,%rdi,8),%rax; jmp *%rax
        let computed = [&[0x48, 0x8d, 0x04, 0xfa, 0xff, 0xe0][..], &SOME_CALL, &[RET]].concat();
        assert!(is_refused(&computed, &[]));
        // jmp *%rdi, from who knows where
        let given = [&[0xff, 0xe7][..], &SOME_CALL, &[RET]].concat();
        assert!(is_refused(&given, &[]));
        // jmp *0x10(%rax): a pointer to a function
        let pointer = [&[0xff, 0x60, 0x10][..], &SOME_CALL, &[RET]].concat();
        assert_eq!(replaced(&pointer, &[]).len(), 1);
    }

    #[test]
    fn data_among_code_stays() {
        // ret; then bytes nobody comes to, which look like a call without a number
        assert_eq!(
            found(&[RET, 0x31, 0xff, 0x0f, 0x05, 0x90, 0x90, 0x90], &[]),
            Sites::default()
        );
        // The bytes are part of a constant.
        assert_eq!(found(&[0xbf, 0x0f, 0x05, 0, 0, RET], &[]), Sites::default());
        // A branch leads into the middle of what was taken for an instruction.
        let odd = [&[0xeb, 0x01, 0xb8, 0x90, 0x90, 0x90, 0x90][..], &SOME_CALL, &[RET]].concat();
        assert!(is_refused(&odd, &[]));
    }

    #[test]
    fn objects_that_make_threads_stay() {
        // mov $56,%eax (clone, with flags from somewhere); syscall; then another call
        let code = [&[0xb8, 56, 0, 0, 0, 0x0f, 0x05][..], &SOME_CALL, &[RET]].concat();
        let all = found(&code, &[]);
        assert_eq!((all.sites.len(), all.no_room.len()), (0, 2));
    }

    #[test]
    fn what_never_returns_is_not_missed() {
        // mov $15,%eax (rt_sigreturn); syscall; ret
        let found = found(&[0xb8, 15, 0, 0, 0, 0x0f, 0x05, RET], &[]);
        assert_eq!((found.sites.len(), found.no_room.len(), found.special), (0, 0, 1));
    }
}
