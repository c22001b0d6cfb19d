//! Vectors and partial logs as bytes: what we write comes back, what others send is refused or is what we would write.
use partial_logs::AccessVector;
use partial_logs::BuildId;
use partial_logs::ElementId;
use partial_logs::Failure;
use partial_logs::Fault;
use partial_logs::InputsDigest;
use partial_logs::Outcome;
use partial_logs::PartialLog;
use partial_logs::Pattern;
use partial_logs::RecordedElement;
use partial_logs::ThreadName;
use partial_logs::codec;
use proptest::collection::btree_map;
use proptest::collection::vec;
use proptest::prelude::*;

fn vectors() -> impl Strategy<Value = AccessVector> {
    let thread = vec(0u32..3, 0..3).prop_map(ThreadName);
    vec((thread, prop_oneof![0u64..4, any::<u64>()]), 0..12).prop_map(AccessVector::of_turns)
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u8>().prop_map(Outcome::Exit),
        any::<u8>().prop_map(Outcome::Signal),
        Just(Outcome::TimedOut)
    ]
}

prop_compose! {
    fn logs()(
        build: [u8; 32],
        inputs: [u8; 32],
        share: u16,
        number: u16,
        outcome in outcomes(),
        failed: bool,
        frames in vec("[a-zä]{0,6}", 0..4),
        text in "\\PC{0,12}",
        vectors in btree_map(prop_oneof![0u32..5, any::<u32>()], vectors(), 0..5),
    ) -> PartialLog {
        let element = |(id, vector): (u32, AccessVector)| (ElementId(id), RecordedElement::new(vector, id % 2 == 0));
        PartialLog {
            build: BuildId(build),
            inputs: InputsDigest(inputs),
            pattern: Pattern { share, number },
            outcome,
            failure: failed.then_some(Failure { outcome, frames, text }),
            elements: vectors.into_iter().map(element).collect(),
        }
    }
}

proptest! {
    #[test]
    fn a_vector_comes_back(vector in vectors()) {
        prop_assert_eq!(AccessVector::decode(&vector.encode()), Ok(vector));
    }

    #[test]
    fn equal_bytes_are_equal_vectors(one in vectors(), other in vectors()) {
        prop_assert_eq!(one == other, one.encode() == other.encode());
        prop_assert_eq!(one == other, one.hash() == other.hash());
    }

    #[test]
    fn any_bytes_are_no_vector_or_its_only_bytes(bytes in vec(prop_oneof![0u8..4, any::<u8>()], 0..24)) {
        if let Ok(vector) = AccessVector::decode(&bytes) {
            prop_assert_eq!(vector.encode(), bytes);
            let turns = vector.turns().map(|(name, accesses)| (name.clone(), accesses));
            prop_assert_eq!(AccessVector::of_turns(turns), vector);
        }
    }

    #[test]
    fn a_log_comes_back(log in logs()) {
        prop_assert_eq!(PartialLog::decode(&log.encode()), Ok(log));
    }

    #[test]
    fn every_truncation_of_a_log_is_refused(log in logs()) {
        let bytes = log.encode();
        for length in 0..bytes.len() {
            let refused = PartialLog::decode(&bytes[..length]);
            prop_assert!(refused.is_err_and(|corrupt| corrupt.offset <= length), "{} bytes of {}", length, bytes.len());
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(PartialLog::decode(&longer).unwrap_err().fault, Fault::Trailing { bytes: 1 });
    }

    #[test]
    fn every_flipped_byte_of_a_log_is_refused_or_another_log(log in logs(), flip in 1u8..) {
        let bytes = log.encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            if let Ok(other) = PartialLog::decode(&changed) {
                prop_assert_ne!(&other, &log);
                prop_assert_eq!(other.encode(), changed);
            }
        }
    }
}

fn turns(turns: &[(&[u32], u64)]) -> AccessVector {
    AccessVector::of_turns(
        turns
            .iter()
            .map(|(steps, accesses)| (ThreadName(steps.to_vec()), *accesses)),
    )
}

fn check_vector(bytes: &[u8], offset: usize, fault: Fault) {
    let corrupt = AccessVector::decode(bytes).unwrap_err();
    assert_eq!((corrupt.offset, &corrupt.fault), (offset, &fault), "{corrupt}");
}

#[test]
fn a_vector_byte_by_byte() {
    let vector = turns(&[(&[], 1), (&[2, 0], 300), (&[], 2)]);
    // Two threads: the first, and the first child of its third child. Three turns.
    let bytes = [2, 0, 2, 2, 0, 3, 0, 1, 1, 0xac, 2, 0, 2];
    assert_eq!(vector.encode(), bytes);
    assert_eq!(AccessVector::decode(&bytes), Ok(vector));
    assert_eq!(AccessVector::default().encode(), [0, 0]);
}

#[test]
fn a_vector_that_is_not_canonical_is_refused() {
    check_vector(&[], 0, Fault::Cut);
    check_vector(&[1, 0, 1, 0, 0], 4, Fault::EmptyTurn);
    check_vector(&[1, 0, 2, 0, 1, 0, 1], 5, Fault::SameTurn);
    let (expected, found) = (0, 1);
    check_vector(&[2, 0, 1, 0, 2, 1, 1, 0, 1], 5, Fault::ThreadOrder { expected, found });
    check_vector(&[2, 0, 1, 0, 1, 0, 1], 7, Fault::UnusedThread { thread: 1 });
    check_vector(&[2, 1, 7, 1, 7, 1, 0, 1], 0, Fault::SameThread { first: 0, second: 1 });
    check_vector(&[1, 0, 1, 1, 1], 3, Fault::NoSuchThread { thread: 1, threads: 1 });
    check_vector(&[1, 0, 1, 0, 0x81, 0], 4, Fault::LongNumber);
    check_vector(&[0, 0, 0], 2, Fault::Trailing { bytes: 1 });
    check_vector(
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
        0,
        Fault::TooBig,
    );
    // More turns than there are bytes for: refused before there is room for them.
    check_vector(&[0, 0xff, 0xff, 0xff, 0xff, 0x0f], 1, Fault::Cut);
}

fn sample() -> PartialLog {
    let vector = turns(&[(&[0], 3), (&[1], 4)]);
    PartialLog {
        build: BuildId([1; 32]),
        inputs: InputsDigest([2; 32]),
        pattern: Pattern {
            share: 2_500,
            number: 7,
        },
        outcome: Outcome::Signal(6),
        failure: Some(Failure {
            outcome: Outcome::Signal(6),
            frames: vec!["abort".into(), "main".into()],
            text: "count == 0".into(),
        }),
        elements: [(ElementId(3), RecordedElement::new(vector, true))].into(),
    }
}

fn fault(log: &PartialLog) -> Fault {
    PartialLog::decode(&log.encode()).unwrap_err().fault
}

#[test]
fn what_is_beyond_the_limits_is_refused_and_clipped_it_is_taken() {
    let mut log = sample();
    log.failure.as_mut().unwrap().text = "ü".repeat(codec::TEXT_BYTES_MAX);
    assert!(matches!(fault(&log), Fault::TooMany { most: 4_096, .. }));
    log.failure = log.failure.map(Failure::clipped);
    assert!(PartialLog::decode(&log.encode()).is_ok());

    log.failure.as_mut().unwrap().frames = vec!["x".repeat(513)];
    assert!(matches!(
        fault(&log),
        Fault::TooMany {
            most: 512,
            found: 513,
            ..
        }
    ));
    log.failure.as_mut().unwrap().frames = vec!["x".into(); 65];
    assert!(matches!(
        fault(&log),
        Fault::TooMany {
            most: 64,
            found: 65,
            ..
        }
    ));
    log.failure = log.failure.map(Failure::clipped);
    assert!(PartialLog::decode(&log.encode()).is_ok());

    let recorded = RecordedElement::new(AccessVector::default(), false);
    log.elements = (0..65_537).map(|id| (ElementId(id), recorded.clone())).collect();
    assert!(matches!(
        fault(&log),
        Fault::TooMany {
            most: 65_536,
            found: 65_537,
            ..
        }
    ));
    log.elements.remove(&ElementId(9));
    assert_eq!(PartialLog::decode(&log.encode()), Ok(log));
}

#[test]
fn the_last_element_there_can_be_is_an_element() {
    let mut log = sample();
    let recorded = log.elements[&ElementId(3)].clone();
    log.elements = [(ElementId(u32::MAX), recorded)].into();
    assert_eq!(PartialLog::decode(&log.encode()), Ok(log));
}

#[test]
fn a_hash_of_another_vector_and_an_outcome_of_another_run_are_refused() {
    let mut log = sample();
    log.elements.get_mut(&ElementId(3)).unwrap().hash.0[31] ^= 1;
    assert_eq!(fault(&log), Fault::Hash);

    let mut log = sample();
    log.outcome = Outcome::Exit(1);
    assert_eq!(fault(&log), Fault::OtherOutcome);
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = sample().encode();
    bytes[8] = 2;
    let corrupt = PartialLog::decode(&bytes).unwrap_err();
    assert_eq!(
        corrupt.to_string(),
        "at byte 8: written by format v2; this build reads up to v1: a newer Refrain reads it"
    );
    assert_eq!(PartialLog::decode(b"refrain").unwrap_err().fault, Fault::Magic);
}
