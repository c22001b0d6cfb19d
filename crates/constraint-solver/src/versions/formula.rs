//! OREO's formula (§III-A of the dissertation) as SMT-LIB 2, for any solver of integer difference logic.
//!
//! Nothing here is used to solve. The formula leaves every cell to the solver, with all writes that a read may have seen.
//! Its size grows with the square of a cell's accesses and more.
use crate::epochs::Epochs;
use crate::extent::Extents;
use crate::problem::ANYTHING;
use crate::problem::Edge;
use crate::problem::Node;
use crate::problem::Register;
use crate::problem::Use;
use crate::versions::Cell;
use crate::versions::How;
use crate::versions::Translator;
use crate::versions::access::Access;
use crate::versions::access::accesses;
use crate::versions::access::are_of_one_part;
use crate::versions::cell;
use crate::versions::cell::Belief;
use crate::versions::cut;
use crate::versions::is_private;
use run_model::Logs;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;

/// Writes the formula. The integer `O_t_e` is the place of event e of thread t.
pub(crate) fn write(logs: &Logs, out: &mut dyn Write) -> io::Result<()> {
    let epochs = Epochs::new(logs);
    let mut extents = Extents::new(logs, &epochs);
    cut(logs, &epochs, &mut extents);
    let accesses = accesses(logs, &extents);
    let of_cells = accesses.chunk_by(are_of_one_part);
    let cells: Vec<Cell<'_>> = of_cells
        .filter(|accesses| !is_private(accesses))
        .map(|accesses| Cell {
            accesses,
            linkage: cell::link(accesses, Belief::Values),
            how: How::Search,
        })
        .collect();
    let translator = Translator::new(logs, &extents, &accesses);
    let synchronisation = translator.translate([].iter()).problem.edges;
    let problem = translator.translate(cells.iter()).problem;
    let names = Names(&translator.events);
    writeln!(
        out,
        "; Recorded by method {}: is there a legal schedule?",
        logs.method.name()
    )?;
    writeln!(out, "; O_t_e is the place of event e of thread t in it.")?;
    writeln!(out, "(set-logic QF_IDL)")?;
    for (thread, events) in translator.events.iter().enumerate() {
        for event in events {
            writeln!(out, "(declare-const O_{thread}_{event} Int)")?;
        }
    }
    writeln!(
        out,
        "; Phi_mo, memory order: the events of each thread, in program order."
    )?;
    for (thread, events) in translator.events.iter().enumerate() {
        for pair in events.windows(2) {
            writeln!(out, "(assert (< O_{thread}_{} O_{thread}_{}))", pair[0], pair[1])?;
        }
    }
    writeln!(
        out,
        "; Phi_so, synchronisation order: what locks, creations and ends of threads state."
    )?;
    for edge in &synchronisation {
        writeln!(out, "(assert {})", names.less(edge))?;
    }
    writeln!(
        out,
        "; Phi_wv, write versions: writes of a cell by one thread, and those that were counted under a lock."
    )?;
    for cell in &cells {
        write_versions(cell.accesses, out)?;
    }
    for edge in &problem.edges[synchronisation.len()..] {
        writeln!(out, "(assert {})", names.less(edge))?;
    }
    writeln!(
        out,
        "; Phi_rw, read-write: each read saw one of the writes with its value, and no other came between."
    )?;
    for (index, register) in problem.registers.iter().enumerate() {
        names.register(index, register, out)?;
    }
    writeln!(out, "(check-sat)")?;
    writeln!(out, "(get-model)")
}

fn write_versions(accesses: &[Access], out: &mut dyn Write) -> io::Result<()> {
    for own in accesses.chunk_by(|one, other| one.thread == other.thread) {
        let writes: Vec<&Access> = own.iter().filter(|access| access.writes).collect();
        for pair in writes.windows(2) {
            let (one, other) = (pair[0], pair[1]);
            // A thread that was late may have set versions back; its order is known all the same.
            if one.version < other.version && one.event < other.event {
                let thread = one.thread;
                writeln!(out, "(assert (< O_{thread}_{} O_{thread}_{}))", one.event, other.event)?;
            }
        }
    }
    Ok(())
}

struct Names<'a>(&'a [Vec<u64>]);

impl Names<'_> {
    fn of(&self, node: Node) -> String {
        let event = self.0[node.chain as usize][node.position as usize];
        format!("O_{}_{event}", node.chain)
    }

    fn less(&self, edge: &Edge) -> String {
        format!("(< {} {})", self.of(edge.before), self.of(edge.after))
    }

    fn before(&self, before: Node, after: Node) -> String {
        self.less(&Edge { before, after })
    }

    fn register(&self, index: usize, register: &Register, out: &mut dyn Write) -> io::Result<()> {
        let reads = || register.reads.iter().filter(|read| read.content != ANYTHING);
        let mut initials = BTreeSet::new();
        if register.initial.is_none() {
            initials.extend(reads().map(|read| read.content));
        }
        // What nobody knows is one thing.
        let listed: Vec<u32> = initials.iter().copied().collect();
        for content in &listed {
            writeln!(out, "(declare-const I_{index}_{content} Bool)")?;
        }
        for (place, one) in listed.iter().enumerate() {
            for other in &listed[place + 1..] {
                writeln!(out, "(assert (not (and I_{index}_{one} I_{index}_{other})))")?;
            }
        }
        for read in reads() {
            let is_candidate = |write: &&Use| {
                let matches = write.content == read.content || write.content == ANYTHING;
                matches && write.node != read.node
            };
            let mut candidates: Vec<&Use> = register.writes.iter().filter(is_candidate).collect();
            candidates.sort_by_key(|write| (write.version > read.version, read.version.abs_diff(write.version)));
            write!(out, "(assert (or")?;
            for seen in candidates {
                write!(out, " (and {}", self.before(seen.node, read.node))?;
                for other in register
                    .writes
                    .iter()
                    .filter(|w| w.node != seen.node && w.node != read.node)
                {
                    let before = self.before(other.node, seen.node);
                    write!(out, " (or {before} {})", self.before(read.node, other.node))?;
                }
                write!(out, ")")?;
            }
            if register.initial.is_none_or(|initial| initial == read.content) {
                write!(out, " (and true")?;
                if register.initial.is_none() {
                    write!(out, " I_{index}_{}", read.content)?;
                }
                for other in register.writes.iter().filter(|write| write.node != read.node) {
                    write!(out, " {}", self.before(read.node, other.node))?;
                }
                write!(out, ")")?;
            }
            writeln!(out, " false))")?;
        }
        Ok(())
    }
}
