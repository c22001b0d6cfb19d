//! The access protocol itself, every order of its steps: small programs whose recordings are solved, checked and replayed in
//! every way that the schedule allows. And mistakes that are planted in it, each of which is found.
mod small;

use run_model::Method;
use simulated_machine::Instruction;
use simulated_machine::Mistake;
use simulated_machine::Tuning;
use small::Small;
use small::is_found;
use small::limits;
use small::small;

/// Cells of the first chunk, and of the one behind it.
const A: u64 = 0x6000_0000_0fc0;
const A2: u64 = A + 8;
const B: u64 = A + 64;

fn load(address: u64) -> Instruction {
    Instruction::Load { address, bytes: 8 }
}

fn store(address: u64) -> Instruction {
    Instruction::Store { address, bytes: 8 }
}

fn lock(mutex: u64) -> Instruction {
    Instruction::Lock { mutex }
}

fn unlock(mutex: u64) -> Instruction {
    Instruction::Unlock { mutex }
}

fn atomic_add(address: u64) -> Instruction {
    Instruction::AtomicAdd { address }
}

const SPLITS: Tuning = Tuning {
    moves_before_split: 0,
    ..Tuning::PLAIN
};
const MERGES: Tuning = Tuning {
    moves_before_split: 0,
    uses_before_merge: 1,
    ..Tuning::PLAIN
};
const GENERATIONS: Tuning = Tuning {
    generations: true,
    ..Tuning::PLAIN
};

const MIGRATES: Tuning = Tuning {
    migrations: 2,
    ..Tuning::PLAIN
};
/// Whoever takes a chunk looks for a fence point, and if there is none it has a barrier.
const FENCE_POINTS: Tuning = Tuning {
    looks: 1,
    ..Tuning::PLAIN
};

/// The first thread owns the chunk and goes on using it.
fn take() -> Small<'static> {
    small(
        &[&[store(A), store(A), load(A)], &[store(A)]],
        &[0],
        Method::Light,
        Tuning::PLAIN,
    )
}

/// The first thread takes what the second has, who may want it back at once.
fn take_back() -> Small<'static> {
    small(
        &[&[store(A)], &[store(A), store(A), load(A)]],
        &[1],
        Method::Light,
        Tuning::PLAIN,
    )
}

/// The second thread may see what the first is about to do.
fn share() -> Small<'static> {
    small(&[&[store(A), store(A)], &[load(A)]], &[0], Method::Light, Tuning::PLAIN)
}

/// What the first thread gave back with its lock, the second takes without a barrier.
fn generation() -> Small<'static> {
    small(
        &[&[lock(0), store(A), store(A), unlock(0)], &[load(A)]],
        &[0, 0],
        Method::Light,
        GENERATIONS,
    )
}

/// While the second thread takes what the first has, that gives its lock back, and goes on with the neighbour in a new generation.
fn generation_of_a_neighbour() -> Small<'static> {
    let tuning = Tuning {
        takes_along: true,
        ..GENERATIONS
    };
    small(
        &[&[lock(0), store(A), store(B), unlock(0), store(B)], &[load(A), load(B)]],
        &[0, 0, 0],
        Method::Light,
        tuning,
    )
}

/// The first thread passes a fence point where it gives the lock back.
fn share_at_a_fence_point() -> Small<'static> {
    small(
        &[&[lock(0), store(A), unlock(0), store(A)], &[load(A)]],
        &[0, 0],
        Method::Light,
        FENCE_POINTS,
    )
}

/// Each thread wants what the other has, and rests meanwhile.
fn take_from_a_resting_thread() -> Small<'static> {
    small(
        &[&[store(A), store(B), store(A)], &[store(B), load(A)]],
        &[0, 1],
        Method::Light,
        FENCE_POINTS,
    )
}

/// The first thread is about to see the epoch in which the second shared the chunk, who takes it back.
fn take_from_a_new_reader() -> Small<'static> {
    small(
        &[&[store(A), load(A)], &[load(A2), load(A), store(A)]],
        &[0, 1, 1],
        Method::Light,
        FENCE_POINTS,
    )
}

#[test]
fn a_writer_takes_from_a_writer() {
    take().is_clean("take", Some(2));
    let once = small(
        &[&[store(A), store(A)], &[store(A)]],
        &[0],
        Method::Light,
        Tuning::PLAIN,
    );
    once.is_clean("take, once", None);
}

#[test]
fn a_reader_shares_what_a_writer_has() {
    share().is_clean("share", None);
}

#[test]
fn a_writer_takes_from_readers() {
    let small = small(
        &[&[store(A), load(A)], &[load(A2), load(A), store(A)]],
        &[0, 1, 1],
        Method::Light,
        Tuning::PLAIN,
    );
    small.is_clean("take from readers", Some(1));
}

/// It was written while shared: whoever reads it next takes it, and the one after that.
#[test]
fn a_reader_takes_a_migratory_chunk() {
    let small = small(
        &[
            &[store(A), load(A), store(A)],
            &[load(A2), load(A), store(A), load(A), store(A)],
        ],
        &[0, 1, 1, 1],
        Method::Light,
        MIGRATES,
    );
    small.is_clean("migratory", Some(2));
}

#[test]
fn two_writers_of_two_chunks() {
    let small = small(
        &[&[store(A), load(B)], &[store(B), load(A)]],
        &[],
        Method::Light,
        Tuning::PLAIN,
    );
    small.is_clean("two chunks", Some(1));
}

/// What the quick way leaves out would have left no trace in the log.
#[test]
fn locks_are_recorded_the_same_the_quick_way() {
    for mutex in [0, 1] {
        let recordings = |quick_locks| {
            let first = [lock(mutex), store(A), unlock(mutex), lock(mutex), unlock(mutex)];
            let second = [lock(mutex), load(A), unlock(mutex)];
            let tuning = Tuning {
                quick_locks,
                ..Tuning::PLAIN
            };
            let small = small(&[&first, &second], &[], Method::Light, tuning);
            let (report, known) = small.recordings(None, &limits(Some(2)));
            report.assert_clean();
            known
        };
        let known = recordings(true);
        assert!(known.len() > 1, "the threads' order makes no difference");
        assert!(known == recordings(false), "the logs differ");
    }
}

#[test]
fn a_generation_ends() {
    generation().is_clean("generation", None);
}

#[test]
fn a_generation_ends_while_somebody_waits() {
    generation_of_a_neighbour().is_clean("neighbour", Some(2));
}

#[test]
fn a_chunk_is_split() {
    let small = small(
        &[&[store(A), store(A)], &[store(A), load(A2)]],
        &[0],
        Method::Light,
        SPLITS,
    );
    small.is_clean("split", None);
}

#[test]
fn a_split_chunk_is_made_whole() {
    let small = small(
        &[&[store(A), store(A)], &[store(A), store(A2), store(A)]],
        &[0, 1],
        Method::Light,
        MERGES,
    );
    small.is_clean("merge", Some(1));
}

#[test]
fn atomics_split_for_good() {
    let small = small(
        &[&[store(A), store(A)], &[atomic_add(A)]],
        &[0],
        Method::Light,
        Tuning::PLAIN,
    );
    small.is_clean("atomics", None);
}

#[test]
fn a_blocked_owner_needs_no_barrier() {
    let small = small(
        &[&[store(A), lock(0), store(A)], &[lock(0), store(A), unlock(0)]],
        &[0, 1],
        Method::Light,
        Tuning::PLAIN,
    );
    small.is_clean("blocked owner", Some(2));
}

#[test]
fn elements_of_leap() {
    let small = small(
        &[&[store(A), load(A2)], &[store(A), store(A2)]],
        &[],
        Method::Leap,
        Tuning::PLAIN,
    );
    small.is_clean("leap", Some(2));
}

#[test]
fn versions_of_stride() {
    let small = small(
        &[&[store(A), load(A2)], &[store(A2), load(A)]],
        &[],
        Method::Stride,
        Tuning::PLAIN,
    );
    small.is_clean("stride", None);
}

#[test]
fn versions_of_oreo() {
    let small = small(
        &[&[store(A), load(A2)], &[store(A2), load(A)]],
        &[],
        Method::Oreo,
        Tuning::PLAIN,
    );
    small.is_clean("oreo", None);
}

#[test]
fn writes_of_oreo_share_versions() {
    let small = small(
        &[&[store(A), load(A)], &[store(A), load(A)]],
        &[],
        Method::Oreo,
        Tuning::PLAIN,
    );
    small.is_clean("oreo, one cell", None);
}

#[test]
fn a_window_that_is_closed_early_is_found() {
    is_found("window", &share(), Mistake::WindowClosedEarly, None);
}

#[test]
fn a_missing_barrier_is_found() {
    is_found("barrier", &share(), Mistake::NoBarrier, None);
}

#[test]
fn a_word_before_its_record_is_found() {
    is_found("record", &take_back(), Mistake::WordBeforeRecord, Some(2));
}

#[test]
fn a_wrong_generation_end_is_found() {
    is_found("generation", &generation(), Mistake::WrongGenerationEnd, None);
}

#[test]
fn a_wrong_end_of_a_neighbour_is_found() {
    is_found(
        "neighbour",
        &generation_of_a_neighbour(),
        Mistake::WrongEndOfNeighbour,
        Some(2),
    );
}

#[test]
fn a_fence_point_comes_after_the_mark() {
    share_at_a_fence_point().is_clean("fence point", Some(3));
    let before = small(
        &[&[lock(0), store(A), store(A), unlock(0)], &[load(A)]],
        &[0, 0],
        Method::Light,
        FENCE_POINTS,
    );
    before.is_clean("fence point, before", None);
}

#[test]
fn a_resting_thread_is_taken_from() {
    take_from_a_resting_thread().is_clean("rest", Some(2));
}

#[test]
fn a_writer_takes_from_a_reader_at_its_fence_point() {
    take_from_a_new_reader().is_clean("new reader", Some(2));
}

#[test]
fn a_fence_point_before_the_mark_is_found() {
    is_found(
        "early",
        &share_at_a_fence_point(),
        Mistake::FencePointBeforeMark,
        Some(2),
    );
}

#[test]
fn a_fence_point_without_a_fence_is_found() {
    is_found(
        "plain",
        &share_at_a_fence_point(),
        Mistake::FencePointWithoutFence,
        Some(3),
    );
}

#[test]
fn a_fence_point_behind_its_fence_is_found() {
    is_found(
        "behind",
        &share_at_a_fence_point(),
        Mistake::FencePointBehindFence,
        Some(3),
    );
}

#[test]
fn a_rest_that_ends_without_a_fence_is_found() {
    is_found(
        "rest",
        &take_from_a_resting_thread(),
        Mistake::RestWithoutFence,
        Some(2),
    );
}

#[test]
fn an_epoch_seen_without_a_fence_is_found() {
    is_found("seen", &take_from_a_new_reader(), Mistake::SeenWithoutFence, Some(2));
}

/// With fence points there are still barriers, and they are missed.
#[test]
fn a_missing_barrier_behind_fence_points_is_found() {
    is_found("no fence point", &share_at_a_fence_point(), Mistake::NoBarrier, Some(2));
}
