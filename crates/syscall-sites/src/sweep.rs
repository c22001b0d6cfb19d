//! Where functions begin in an object that does not tell: stripped, and without a table for unwinders, as static programs of musl's are.
//!
//! All code is decoded from its first byte to its last, as one. A function begins where a call leads to, or where an address leads to that is in an
//! instruction or in data, if nothing goes on to there from before. What is no instruction of this sweep is none of these: data among code looks like
//! calls to anywhere. A beginning too many does no harm: it is an address that somebody may know, and code is decoded from it as it is from elsewhere.
use crate::objects::is_constant;
use crate::objects::is_end;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use std::collections::HashMap;

/// `pointers`: addresses that are in data.
pub fn starts(code: &[(u64, &[u8])], pointers: impl Iterator<Item = u64>, is_fixed: bool) -> Vec<u64> {
    // Each instruction, and whether something goes on to it.
    let mut begins = HashMap::new();
    let mut called = Vec::new();
    let mut named: Vec<u64> = pointers.collect();
    for (address, bytes) in code {
        let mut goes_on = false;
        for each in &mut Decoder::with_ip(64, bytes, *address, DecoderOptions::NONE) {
            begins.insert(each.ip(), goes_on);
            // Between two functions there may be some that do nothing.
            if !matches!(each.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                goes_on = !is_end(&each);
            }
            match each.flow_control() {
                FlowControl::Call => called.push(each.near_branch_target()),
                _ => named.extend(addresses_in(&each, is_fixed)),
            }
        }
    }
    called.retain(|start| begins.contains_key(start));
    named.retain(|start| begins.get(start) == Some(&false));
    called.extend(named);
    called
}

fn addresses_in(instruction: &Instruction, is_fixed: bool) -> impl Iterator<Item = u64> {
    let relative = instruction
        .is_ip_rel_memory_operand()
        .then(|| instruction.ip_rel_memory_address());
    let constants = (0..instruction.op_count())
        .filter(move |operand| is_fixed && is_constant(instruction.op_kind(*operand)))
        .map(|operand| instruction.immediate(operand));
    relative.into_iter().chain(constants)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// call 0x1008; ret; nop; nop. Then, at 0x1008, `second`.
    fn swept(second: &[u8], pointers: &[u64]) -> Vec<u64> {
        let code = [&[0xe8, 3, 0, 0, 0, 0xc3, 0x90, 0x90], second].concat();
        let mut starts = starts(&[(0x1000, &code)], pointers.iter().copied(), false);
        starts.sort_unstable();
        starts
    }

    #[test]
    fn a_call_leads_to_a_beginning() {
        assert_eq!(swept(&[0xc3], &[]), [0x1008]);
        // mov $1,%eax; ret: nothing begins inside of it.
        assert_eq!(swept(&[0xb8, 1, 0, 0, 0, 0xc3], &[0x1009, 0x100d]), [0x1008]);
    }

    #[test]
    fn what_is_called_inside_of_an_instruction_is_none() {
        // The call leads into the constant of: mov $0x90909090,%eax; ret.
        let code = [0xe8, 2, 0, 0, 0, 0xc3, 0xb8, 0x90, 0x90, 0x90, 0x90, 0xc3];
        assert_eq!(starts(&[(0x1000, &code)], [].into_iter(), false), []);
    }

    #[test]
    fn an_address_leads_to_a_beginning_if_nothing_goes_on_to_it() {
        // ret; nop; ret. The second one is known to data.
        assert_eq!(swept(&[0xc3, 0x90, 0xc3], &[0x100a]), [0x1008, 0x100a]);
        // lea 0(%rip),%rax; ret; and the next one, which something does go on to.
        assert_eq!(
            swept(&[0x48, 0x8d, 0x05, 1, 0, 0, 0, 0xc3, 0xc3], &[]),
            [0x1008, 0x1010]
        );
        assert_eq!(swept(&[0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x50, 0xc3], &[]), [0x1008]);
    }
}
