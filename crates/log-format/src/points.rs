//! The file `points`: which accesses are events where a hybrid schedule is enforced. It is written beside a `schedule`, and nobody
//! reads it but the runtime, which maps it. The layout is `runtime_abi::points_file`.
use run_model::EnforcedPoint;
use runtime_abi::lists_file::ListsHeader;
use runtime_abi::lists_file::ThreadList;
use runtime_abi::points_file::MAGIC;
use runtime_abi::points_file::PointEntry;
use runtime_abi::points_file::VERSION;
use std::mem::size_of;

/// The bytes of the file, from the points of each thread in program order.
pub fn encode(threads: &[Vec<EnforcedPoint>]) -> Vec<u8> {
    let points: usize = threads.iter().map(Vec::len).sum();
    let bytes = size_of::<ListsHeader>() + threads.len() * size_of::<ThreadList>() + points * size_of::<PointEntry>();
    let mut file = Vec::with_capacity(bytes);
    put_head(&mut file, MAGIC, VERSION, threads);
    for point in threads.iter().flatten() {
        for number in [point.segment, point.place.transfers, point.event] {
            file.extend(number.to_le_bytes());
        }
        file.extend(point.place.site.0.to_le_bytes());
        file.extend(point.place.ordinal.to_le_bytes());
    }
    assert_eq!(file.len(), bytes, "the tables have another size than their entries");
    file
}

/// What files begin with that have a list for each thread, one behind the other: the header, and where each list begins and how long it is.
pub(crate) fn put_head<T>(file: &mut Vec<u8>, magic: u64, version: u32, threads: &[Vec<T>]) {
    let all: usize = threads.iter().map(Vec::len).sum();
    file.extend(magic.to_le_bytes());
    file.extend(version.to_le_bytes());
    file.extend((threads.len() as u32).to_le_bytes());
    file.extend((all as u64).to_le_bytes());
    let mut first = 0;
    for thread in threads {
        let count = thread.len() as u64;
        file.extend(u64::to_le_bytes(first));
        file.extend(count.to_le_bytes());
        first += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use run_model::Place;
    use run_model::SiteId;

    #[test]
    fn points_stand_thread_by_thread() {
        let point = |segment, event| EnforcedPoint {
            segment,
            place: Place {
                site: SiteId(7),
                ordinal: 3,
                transfers: 5,
            },
            event,
        };
        let file = encode(&[vec![point(1, 2)], vec![], vec![point(4, 8), point(4, 9)]]);
        let words: Vec<u64> = file[16..]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let place = 7 | 3 << 32;
        assert_eq!(words[..7], [3, 0, 1, 1, 0, 1, 2]);
        assert_eq!(words[7..], [1, 5, 2, place, 4, 5, 8, place, 4, 5, 9, place]);
        assert_eq!(&file[..8], b"RFRNPTS\x01");
        assert_eq!(file[8..16], [1, 0, 0, 0, 3, 0, 0, 0]);
    }
}
