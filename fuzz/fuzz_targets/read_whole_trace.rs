//! Any bytes as a whole trace: it ends or is refused, and what is read is written and read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use log_format::hybrid_trace::whole::WholeReader;
use log_format::hybrid_trace::whole::encode_whole;
use log_format::hybrid_trace::whole::header;
use run_model::ThreadIndex;
use run_model::WholeEntry;

const ME: ThreadIndex = ThreadIndex(0);

fn read(file: &[u8]) -> Vec<WholeEntry> {
    let Ok(reader) = WholeReader::open(file, ME) else { unreachable!("our own header") };
    reader.map_while(Result::ok).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = WholeReader::open(bytes, ME).map(Iterator::count);
    let file: Vec<u8> = header(ME).into_iter().chain(bytes.iter().copied()).collect();
    let entries = read(&file);
    assert_eq!(read(&encode_whole(ME, &entries)), entries);
});
