//! Atomic operations where nothing else is observed, in every order of the steps of small programs, with mistakes that are planted:
//! cells that are shared among their readers, and the quick way. And random programs.
mod small;

use constraint_solver::Hints;
use constraint_solver::solve;
use proptest::prelude::*;
use run_model::Kind;
use run_model::Method;
use schedule_checker::check;
use simulated_machine::Fault;
use simulated_machine::Instruction;
use simulated_machine::Mistake;
use simulated_machine::Program;
use simulated_machine::Replay;
use simulated_machine::Shape;
use simulated_machine::Tuning;
use simulated_machine::generate;
use simulated_machine::record;
use small::Small;
use small::is_found;
use small::limits;
use small::small;

const A: u64 = 0x6000_0000_0fc0;
const B: u64 = A + 64;

const SHARES: Tuning = Tuning {
    atomics_alone: true,
    passes_before_share: 1,
    ..Tuning::PLAIN
};

fn load(address: u64) -> Instruction {
    Instruction::AtomicLoad { address }
}

fn store(address: u64) -> Instruction {
    Instruction::AtomicStore { address }
}

fn add(address: u64) -> Instruction {
    Instruction::AtomicAdd { address }
}

/// Two threads have read the cell; the first, who shares it now, reads it again, and the second writes it.
fn write_what_is_read() -> Small<'static> {
    small(
        &[&[store(B), store(A), load(A), load(A), load(A)], &[load(A), store(A)]],
        &[0, 0, 1, 0],
        Method::Light,
        SHARES,
    )
}

/// The same before it is shared.
fn write_what_is_being_shared() -> Small<'static> {
    Small {
        first: &[0, 0, 1],
        ..write_what_is_read()
    }
}

#[test]
fn a_writer_takes_a_cell_from_its_readers() {
    write_what_is_read().is_clean("shared cell", Some(3));
}

/// Who has read a cell before it was shared is not asked: the chain of runs says that they came before.
#[test]
fn readers_before_it_was_shared_come_first() {
    readers_in_a_chain().is_clean("chain", Some(2));
}

/// The first thread's second read is followed by the second's and the third's, which shares the cell; then the second writes it.
fn readers_in_a_chain() -> Small<'static> {
    small(
        &[&[load(B), load(A)], &[store(A), load(B), add(A)], &[load(A)]],
        &[1, 0],
        Method::Light,
        SHARES,
    )
}

/// Each writes what both read, and reads what the other writes: one of them sees the other's.
#[test]
fn what_one_stores_another_loads() {
    let small = small(
        &[
            &[load(A), load(B), store(A), load(B)],
            &[load(A), load(B), store(B), load(A)],
        ],
        &[0, 0, 1, 1],
        Method::Light,
        SHARES,
    );
    small.is_clean("two cells", Some(2));
}

/// What is read together takes no records: neither the first read of two, nor any after it.
#[test]
fn reads_of_a_shared_cell_leave_no_record() {
    let small = small(
        &[
            &[load(A), load(A), load(A), load(A)],
            &[load(A), load(A), load(A), load(A)],
        ],
        &[0, 1],
        Method::Light,
        SHARES,
    );
    let (report, known) = small.recordings(None, &limits(Some(2)));
    report.assert_clean();
    for (files, ..) in known {
        let runs = files.iter().enumerate().map(|(thread, file)| {
            let records = log_format::decode_prefix(file, run_model::ThreadIndex(thread as u32))
                .log
                .records;
            records.iter().filter(|record| record.kind == Kind::Run).count()
        });
        assert_eq!(runs.sum::<usize>(), 0);
    }
}

/// What the quick way leaves out would have left no trace in the log.
#[test]
fn atomics_are_recorded_the_same_the_quick_way() {
    let recordings = |quick_atomics| {
        let tuning = Tuning {
            quick_atomics,
            ..SHARES
        };
        let threads: [&[Instruction]; 2] = [
            &[add(A), load(A), store(A), load(A), load(A)],
            &[load(A), add(A), load(A)],
        ];
        let (report, known) = small(&threads, &[], Method::Light, tuning).recordings(None, &limits(Some(2)));
        report.assert_clean();
        known
    };
    let known = recordings(true);
    assert!(known.len() > 1, "the threads' order makes no difference");
    assert!(known == recordings(false), "the logs differ");
}

#[test]
fn a_window_that_is_closed_early_is_found() {
    is_found("window", &write_what_is_read(), Mistake::WindowClosedEarly, Some(3));
}

#[test]
fn a_missing_barrier_is_found() {
    is_found("barrier", &write_what_is_read(), Mistake::NoBarrier, Some(3));
}

#[test]
fn a_word_before_its_record_is_found() {
    is_found(
        "record",
        &write_what_is_being_shared(),
        Mistake::WordBeforeRecord,
        Some(2),
    );
}

#[test]
fn a_chain_that_goes_on_is_found() {
    is_found("chain", &readers_in_a_chain(), Mistake::ChainGoesOn, Some(2));
}

/// All that a random program does to memory is atomic.
fn of_atomics(seed: u64, shape: Shape) -> Program {
    let mut program = generate(seed, shape);
    for instruction in program.threads.iter_mut().flatten() {
        *instruction = match *instruction {
            Instruction::Load { address, .. } => load(address / 8 * 8),
            // Else hardly any cell would be read by several.
            Instruction::Store { address, .. } if !(address / 8).is_multiple_of(2) => load(address / 8 * 8),
            Instruction::Store { address, .. } => store(address / 8 * 8),
            other => other,
        };
    }
    program
}

proptest! {
    #[test]
    fn random_programs_of_atomics_come_back(seed: u64, shape in prop::sample::select(&[Shape::SMALL, Shape::MEDIUM, Shape::HOT][..]), passes in 1u32..4) {
        let program = of_atomics(seed, shape);
        let tuning = Tuning { passes_before_share: passes, quick_atomics: seed.is_multiple_of(2), ..SHARES };
        let recording = record(&program, seed, Method::Light, tuning, Fault::None);
        let logs = recording.logs();
        for hints in [Hints::Use, Hints::Ignore] {
            let schedule = solve(&logs, hints).unwrap().schedule;
            check(&logs, &schedule).unwrap();
            for number in 0..6 {
                let deviation = Replay::new(&program, &recording, &schedule).run(seed.wrapping_add(number));
                prop_assert_eq!(deviation, Ok(()));
            }
        }
    }
}
