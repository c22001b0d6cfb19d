//! Bytes, not words: what shares a granule with something else is neither a race with it nor hidden by it.
use crate::trace::check;

#[test]
fn halves_of_a_word_do_not_race() {
    check(
        "t0 L1 w 96 4
         t1 L2 w 100 4
         t0 L3 r 96 4
         t1 L4 r 100 4",
        "",
    );
}

/// The second write to the other half does not take the place of the first.
#[test]
fn halves_of_a_word_do_not_hide_each_other() {
    check(
        "t0 L1 w 96 4
         t1 L2 w 100 4
         t2 L3 r 96 8",
        "<L1, t0, 0, 0> -> <L3, t2, 0, 0>
         <L2, t1, 0, 0> -> <L3, t2, 0, 0>",
    );
}

#[test]
fn a_byte_of_a_word_is_enough() {
    check("t0 L1 w 96 8\nt1 L2 r 103 1", "<L1, t0, 0, 0> -> <L2, t1, 0, 0>");
    check("t0 L1 w 96 8\nt1 L2 r 104 1", "");
    check("t0 L1 w 103 1\nt1 L2 w 96 8", "<L1, t0, 0, 0> -> <L2, t1, 0, 0>");
}

#[test]
fn unaligned_accesses_cross_blocks_and_pages() {
    check(
        "t0 L1 w 4093 8
         t1 L2 r 4096 1
         t2 L3 r 4101 1
         t2 L4 r 4092 1",
        "<L1, t0, 0, 0> -> <L2, t1, 0, 0>",
    );
    check(
        "t0 L1 w 60 8\nt1 L2 r 67 2\nt2 L3 r 68 2",
        "<L1, t0, 0, 0> -> <L2, t1, 0, 0>",
    );
}

/// After refinement, both halves of a granule know who used it.
#[test]
fn ranges_are_accesses_to_each_of_their_bytes() {
    check(
        "t0 L1 w 1000 70000
         t1 L2 r 1000 1
         t2 L3 r 70999 1
         t3 L4 r 71000 1
         t3 L5 r 999 1",
        "<L1, t0, 0, 0> -> <L2, t1, 0, 0>
         <L1, t0, 0, 0> -> <L3, t2, 0, 0>",
    );
}

/// Many readers of a block, which a smaller access then splits.
#[test]
fn readers_are_kept_when_a_granule_is_split() {
    check(
        "t0 L1 r 64 64
         t1 L2 r 64 64
         t2 L3 r 64 64
         t3 L4 w 80 1
         t4 L5 w 100 2",
        "<L1, t0, 0, 0> -> <L4, t3, 0, 0>
         <L1, t0, 0, 0> -> <L5, t4, 0, 0>
         <L2, t1, 0, 0> -> <L4, t3, 0, 0>
         <L2, t1, 0, 0> -> <L5, t4, 0, 0>
         <L3, t2, 0, 0> -> <L4, t3, 0, 0>
         <L3, t2, 0, 0> -> <L5, t4, 0, 0>",
    );
}

#[test]
fn the_end_of_memory_is_no_end_of_us() {
    check(
        "t0 L1 w 18446744073709551608 64\nt1 L2 r 18446744073709551610 1",
        "<L1, t0, 0, 0> -> <L2, t1, 0, 0>",
    );
}

#[test]
fn no_bytes_are_no_conflict() {
    check("t0 L1 w 100 0\nt1 L2 w 100 8", "");
}

#[test]
fn neither_reading_nor_writing_is_no_conflict() {
    check(
        "t0 L1 w 100 8\nt1 L2 x 100 8\nt2 L3 r 100 8",
        "<L1, t0, 0, 0> -> <L3, t2, 0, 0>",
    );
}
