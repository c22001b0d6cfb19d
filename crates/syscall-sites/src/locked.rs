//! Instructions that lock memory, in programs that the runtime hosts: with them locks are made. A replay of several threads stops
//! before each of them, to see whether another thread is to go on.
use crate::AFTER_MAX;
use crate::BEFORE_MAX;
use crate::Site;
use crate::objects::Function;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use runtime_abi::call_sites::JUMP_BYTES;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;
use std::collections::BTreeSet;
use std::ops::Range;

/// Does it lock memory? An exchange does without saying so.
pub fn is_locked(instruction: &Instruction) -> bool {
    let is_exchange = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    instruction.has_lock_prefix() || is_exchange
}

/// The sites in a function: windows that nobody can know an address inside of, and that `taken`, which are windows in
/// ascending order, have nothing of.
pub fn sites(function: &Function, known: &BTreeSet<u64>, taken: &[Range<u64>], found: &mut Vec<Site>) {
    let code = &function.code;
    let mut free_from = 0;
    for at in (0..code.len()).filter(|at| is_locked(&code[*at])) {
        let window = window(code, at, known, free_from, taken);
        let Some(window) = window.filter(|_| function.is_clean && function.is_reached[at]) else {
            continue;
        };
        free_from = code[window.end - 1].next_ip();
        let start = code[window.start].ip();
        let offset = |address: u64| (address - function.start) as usize;
        let bytes = function.bytes[offset(start)..offset(free_from)].to_vec();
        let relative = code[window].iter().find(|each| each.is_ip_rel_memory_operand());
        found.push(Site {
            address: start,
            syscall_at: 0,
            address_at: relative.map(|each| (each.ip() - start) as usize + displacement_in(each, &bytes, start)),
            bytes,
        });
    }
}

/// The shortest one.
fn window(
    code: &[Instruction],
    at: usize,
    known: &BTreeSet<u64>,
    free_from: u64,
    taken: &[Range<u64>],
) -> Option<Range<usize>> {
    let candidates = (0..=BEFORE_MAX).flat_map(|before| (0..=AFTER_MAX).map(move |after| (before, after)));
    let fits = |(before, after): (usize, usize)| {
        let range = at.checked_sub(before)?..at + after + 1;
        let run = code.get(range.clone())?;
        let (start, end) = (run.first()?.ip(), run.last()?.next_ip());
        let bytes = (end - start) as usize;
        let is_contiguous = run.windows(2).all(|pair| pair[0].next_ip() == pair[1].ip());
        let relative = run.iter().filter(|each| each.is_ip_rel_memory_operand()).count();
        let next = taken.partition_point(|window| window.end <= start);
        let is_free = start >= free_from && taken.get(next).is_none_or(|window| window.start >= end);
        let fits = (JUMP_BYTES..=WINDOW_BYTES_MAX).contains(&bytes)
            && is_contiguous
            && relative <= 1
            && is_free
            && run.iter().all(is_movable)
            && known.range(start + 1..end).next().is_none();
        fits.then_some((bytes, range))
    };
    let fitting = candidates.filter_map(fits);
    fitting.min_by_key(|(bytes, _)| *bytes).map(|(_, range)| range)
}

/// Does it do the same elsewhere, once its distance to what it accesses has been corrected?
fn is_movable(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::Next
        && instruction.near_branch_target() == 0
        && !matches!(instruction.mnemonic(), Mnemonic::INVALID | Mnemonic::Syscall)
}

/// Where in the instruction, one of a window's that begins at `start`, its distance to what it accesses is.
fn displacement_in(instruction: &Instruction, window: &[u8], start: u64) -> usize {
    let at = (instruction.ip() - start) as usize;
    let mut decoder = Decoder::with_ip(64, &window[at..], instruction.ip(), DecoderOptions::NONE);
    let again = decoder.decode();
    decoder.get_constant_offsets(&again).displacement_offset()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Function;

    fn found(code: &[u8]) -> Vec<Site> {
        let function = Function::decode((0x1000, code), is_locked).expect("it has one");
        let mut found = Vec::new();
        sites(&function, &BTreeSet::new(), &[], &mut found);
        found
    }

    #[test]
    fn a_lock_and_its_neighbour_are_a_window() {
        // mov $1,%edx; lock cmpxchg %edx,(%rdi); jne +1; ret; ret
        let code = [0xba, 1, 0, 0, 0, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0x01, 0xc3, 0xc3];
        let found = found(&code);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].address, found[0].bytes.len(), found[0].address_at),
            (0x1000, 9, None)
        );
    }

    #[test]
    fn a_distance_is_found() {
        // nop; lock incl 0x10(%rip); ret
        let code = [0x90, 0xf0, 0xff, 0x05, 0x10, 0, 0, 0, 0xc3];
        let found = found(&code);
        assert_eq!(
            (found[0].address, found[0].bytes.len(), found[0].address_at),
            (0x1001, 7, Some(3))
        );
    }

    #[test]
    fn an_exchange_locks() {
        // xchg %eax,(%rdi); test %eax,%eax; mov %eax,%ecx; ret
        let found = found(&[0x87, 0x07, 0x85, 0xc0, 0x89, 0xc1, 0xc3]);
        assert_eq!((found[0].address, found[0].bytes.len()), (0x1000, 6));
        // One of two registers does not.
        let code = [0x87, 0xc8, 0xf0, 0x0f, 0xb1, 0x17, 0x90, 0xc3];
        assert_eq!(super::tests::found(&code).len(), 1);
    }

    #[test]
    fn windows_of_calls_are_left_alone() {
        // lock incl (%rdi); nop; nop; ret
        let code = [0xf0, 0xff, 0x07, 0x90, 0x90, 0xc3];
        let function = Function::decode((0x1000, &code), is_locked).expect("it has one");
        let mut found = Vec::new();
        let taken = [0x1004..0x1009, 0x2000..0x2005];
        sites(&function, &BTreeSet::new(), &taken, &mut found);
        assert_eq!(found, []);
    }
}
