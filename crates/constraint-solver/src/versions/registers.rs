//! A cell whose versions do not tell what its reads saw, as registers: one for each range of bytes that every access
//! covers wholly or not at all.
use crate::problem::ANYTHING;
use crate::problem::Node;
use crate::problem::Register;
use crate::problem::Use;
use crate::versions::access::Access;
use crate::versions::access::bytes_of;
use crate::versions::cell::atoms;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// `is_free`: for each access, whether nothing is asked of what it read.
pub(crate) fn registers(accesses: &[Access], nodes: &[Node], is_free: impl Fn(usize) -> bool) -> Vec<Register> {
    let mut registers = Vec::new();
    for atom in atoms(accesses) {
        let touching = || (0..).zip(accesses).filter(|(_, access)| access.mask & atom != 0);
        let mut numbers: BTreeMap<u64, u32> = BTreeMap::new();
        let mut register = Register::default();
        let mut content = |access: &Access| {
            let next = numbers.len() as u32;
            match access.unknown {
                true => ANYTHING,
                false => *numbers.entry(access.value & bytes_of(atom)).or_insert(next),
            }
        };
        for (index, write) in touching().filter(|(_, access)| access.writes) {
            let node = nodes[index];
            let content = content(write);
            let version = write.version;
            match register.writes.last_mut().filter(|last| last.node == node) {
                Some(last) => last.content = content,
                None => register.writes.push(Use { node, content, version }),
            }
        }
        let written: BTreeSet<u32> = register.writes.iter().map(|write| write.content).collect();
        let mut unwritten = BTreeSet::new();
        for (index, read) in touching().filter(|(_, access)| !access.writes) {
            let content = if is_free(index) { ANYTHING } else { content(read) };
            if content != ANYTHING && !written.contains(&content) && !written.contains(&ANYTHING) {
                unwritten.insert(content);
            }
            let (node, version) = (nodes[index], read.version);
            register.reads.push(Use { node, content, version });
        }
        // Nothing had been written when somebody still saw version 0.
        let mut reads = touching().filter(|(_, access)| !access.writes && !access.updates && !access.unknown);
        let saw_first = reads.find(|(_, read)| read.version == 0);
        match unwritten.len() {
            0 => {
                let read = saw_first.map(|(_, read)| read.value & bytes_of(atom));
                register.initial = read.and_then(|value| numbers.get(&value).copied());
            }
            1 => register.initial = unwritten.first().copied(),
            // Only one of them was there from the beginning; something that is not recorded wrote the others.
            _ => {
                for read in register.reads.iter_mut().filter(|r| unwritten.contains(&r.content)) {
                    read.content = ANYTHING;
                }
            }
        }
        // Memory is mostly zero until somebody writes it.
        register.likely = numbers.get(&0).copied();
        registers.push(register);
    }
    registers
}
