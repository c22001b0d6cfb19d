//! The file `own_steps`: the steps of a hybrid schedule that have no gate. It is written beside a `schedule`, and nobody reads it but the runtime, which maps
//! it. The layout is `runtime_abi::own_steps_file`.
use crate::points::put_head;
use run_model::OwnStep;
use runtime_abi::own_steps_file::DISTANCE_MAX;
use runtime_abi::own_steps_file::GAP_MAX;
use runtime_abi::own_steps_file::MAGIC;
use runtime_abi::own_steps_file::VERSION;
use runtime_abi::own_steps_file::gap;
use runtime_abi::own_steps_file::step;

/// The bytes of the file, from the steps of each thread in program order.
///
/// # Panics
/// If the events of a thread's steps do not grow.
pub fn encode(threads: &[Vec<OwnStep>]) -> Vec<u8> {
    let lists: Vec<Vec<u64>> = threads.iter().map(|steps| entries(steps)).collect();
    let mut file = Vec::new();
    put_head(&mut file, MAGIC, VERSION, &lists);
    file.reserve_exact(lists.iter().map(Vec::len).sum::<usize>() * 8);
    file.extend(lists.iter().flatten().flat_map(|entry| entry.to_le_bytes()));
    file
}

fn entries(steps: &[OwnStep]) -> Vec<u64> {
    let mut list = Vec::with_capacity(steps.len());
    // The event behind the step before.
    let mut next = 0;
    for own in steps {
        assert!(own.event >= next, "steps of a thread are in their order");
        let mut distance = own.event - next + 1;
        while distance > DISTANCE_MAX {
            let events = (distance - 1).min(GAP_MAX);
            list.push(gap(events));
            distance -= events;
        }
        list.push(step(own.op as u8, own.object, distance));
        next = own.event + 1;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::Op;
    use runtime_abi::own_steps_file::Entry;

    fn own(event: u64) -> OwnStep {
        OwnStep {
            event,
            op: Op::MutexLock,
            object: 0x40_1000,
        }
    }

    /// The events that a list speaks of, as the runtime counts them.
    fn events(list: &[u64]) -> Vec<u64> {
        let mut before = u64::MAX;
        let mut found = Vec::new();
        for entry in list {
            match Entry::of(*entry) {
                Entry::Gap { events } => before = before.wrapping_add(events),
                Entry::Step { op, object, distance } => {
                    assert_eq!((op, object), (Op::MutexLock as u8, 0x40_1000));
                    assert!((1..=DISTANCE_MAX).contains(&distance));
                    before = before.wrapping_add(distance);
                    found.push(before);
                }
            }
        }
        found
    }

    #[test]
    fn events_come_back() {
        let expected = [
            0,
            1,
            255,
            256,
            511,
            767,
            1 << 20,
            (1 << 20) + 1,
            1 << 57,
            (1 << 57) + 300,
        ];
        assert_eq!(events(&entries(&expected.map(own))), expected);
        assert_eq!(events(&entries(&[own(254), own(300)])), [254, 300]);
        assert_eq!(events(&entries(&[own(255)])), [255]);
    }

    #[test]
    fn lists_stand_thread_by_thread() {
        let file = encode(&[vec![], vec![own(0)], vec![own(3), own(4)]]);
        assert_eq!(&file[..8], b"RFRNOWN\x01");
        assert_eq!(file[8..24], [1, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(file.len(), 24 + 3 * 16 + 3 * 8);
        assert_eq!(
            file[24 + 2 * 16..][..16],
            [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
        );
    }
}
