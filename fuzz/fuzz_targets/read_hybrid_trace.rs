//! Any bytes as the traces of a few threads: they end or are refused, what is read is written and read the same, and what is made of
//! them passes the judge.
#![no_main]

use hybrid_schedule::relax;
use libfuzzer_sys::fuzz_target;
use log_format::hybrid_trace::TraceReader;
use log_format::hybrid_trace::encode_trace;
use log_format::hybrid_trace::header;
use run_model::ThreadIndex;
use run_model::TraceEntry;
use schedule_checker::hybrid::HybridRejection;
use schedule_checker::hybrid::check_hybrid;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let threads = 1 + usize::from(first % 4);
    let mut traces: Vec<Vec<Result<TraceEntry, ()>>> = Vec::new();
    for (thread, stream) in rest.chunks(rest.len() / threads + 1).enumerate() {
        let thread = ThreadIndex(thread as u32);
        let file: Vec<u8> = header(thread).into_iter().chain(stream.iter().copied()).collect();
        let Ok(reader) = TraceReader::open(&file[..], thread) else { unreachable!("our own header") };
        let entries: Vec<TraceEntry> = reader.map_while(Result::ok).collect();
        let again = encode_trace(thread, &entries);
        let Ok(reader) = TraceReader::open(&again[..], thread) else { unreachable!("our own header") };
        assert_eq!(reader.map_while(Result::ok).collect::<Vec<_>>(), entries);
        // Gigabytes of memory are a matter of time only.
        let is_small = |entry: &TraceEntry| !matches!(entry, TraceEntry::Access { bytes, .. } if *bytes > 1 << 16);
        traces.push(entries.into_iter().filter(is_small).map(Ok).collect());
    }
    let entries = || traces.iter().map(|entries| entries.iter().cloned()).collect::<Vec<_>>();
    if let Ok(relaxed) = relax(entries()) {
        match check_hybrid(entries(), &relaxed.schedule) {
            Ok(_) => {}
            // An instruction of several accesses, half done when another thread came.
            Err(HybridRejection::Against { .. } | HybridRejection::Torn { .. })
                if traces.iter().any(|entries| entries.windows(2).any(is_one_instruction)) => {}
            Err(rejection) => panic!("{rejection:?}"),
        }
    }
});

fn is_one_instruction(pair: &[Result<TraceEntry, ()>]) -> bool {
    let place = |entry: &Result<TraceEntry, ()>| match entry {
        Ok(TraceEntry::Access { at, .. }) => Some(*at),
        _ => None,
    };
    place(&pair[0]).is_some() && place(&pair[0]) == place(&pair[1])
}
