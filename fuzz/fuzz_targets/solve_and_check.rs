//! Any bytes as the streams of a few logs: the solver gives an answer and no panic, and the checker agrees with it.
//!
//! The first bytes say how many threads there are, how they were recorded and how far each came; the rest is cut into streams, each of which
//! gets a header and a fitting hash, so that the fuzzer need not find one.
#![no_main]

use constraint_solver::Hints;
use constraint_solver::solve;
use libfuzzer_sys::fuzz_target;
use log_format::RollingHash;
use log_format::TAIL_OFFSET;
use log_format::Tail;
use log_format::decode_prefix;
use log_format::header;
use run_model::Logs;
use run_model::Method;
use run_model::ThreadIndex;
use run_model::ThreadLog;

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let threads = 1 + usize::from(first % 4);
    if rest.len() < threads {
        return;
    }
    let (counts, streams) = rest.split_at(threads);
    let mut logs = Logs { method: Method::ALL[usize::from(first / 4) % Method::ALL.len()], ..Logs::default() };
    for (thread, stream) in streams.chunks(streams.len() / threads + 1).enumerate() {
        let thread_index = ThreadIndex(thread as u32);
        let mut hash = RollingHash::new();
        hash.update(stream);
        let mut file = header(thread_index).to_vec();
        let tail = Tail::new(stream.len() as u64, hash).pack();
        file[TAIL_OFFSET..TAIL_OFFSET + 8].copy_from_slice(&tail.to_le_bytes());
        file.extend_from_slice(stream);
        let prefix = decode_prefix(&file, thread_index);
        let events = u64::from(counts[thread] & 0x7f);
        logs.threads.push(ThreadLog { records: prefix.log.records, events, torn: counts[thread] & 0x80 != 0, inputs: Vec::new() });
    }
    for hints in [Hints::Use, Hints::Ignore] {
        if let Ok(solution) = solve(&logs, hints) {
            match schedule_checker::check(&logs, &solution.schedule) {
                Ok(_) => {}
                // Values that cannot be, by versions that cannot be: the solver puts such reads somewhere.
                Err(schedule_checker::Rejection::Value { .. }) => {}
                Err(rejection) => panic!("{hints:?}: {rejection}"),
            }
        }
    }
});
