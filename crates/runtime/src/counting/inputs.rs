//! What comes in while a schedule is learned is written down, and compared where it is enforced: `runtime_abi::inputs_file`. What of a call that is,
//! is said in `calls/compared.rs`.
use crate::control;
use crate::counting::lists::Lists;
use crate::local::Local;
use crate::log;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::inputs_file::FILE_NAME;
use runtime_abi::inputs_file::InputEntry;
use runtime_abi::inputs_file::LEARNED_MAGIC;
use runtime_abi::inputs_file::LearnedHeader;
use runtime_abi::inputs_file::MAGIC;
use runtime_abi::inputs_file::VERSION;
use runtime_abi::memory_map;

const CHECKSUM_BYTES: u64 = 8;

pub static LEARNED_INPUTS: Lists<InputEntry> = Lists {
    region: &memory_map::LEARNED_INPUTS,
    name: FILE_NAME,
    magic: MAGIC,
    version: VERSION,
    bytes_behind: CHECKSUM_BYTES,
    entries: PhantomData,
};

fn learned_header(thread: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&LEARNED_MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&thread.to_le_bytes());
    bytes
}

impl Local {
    pub fn begin_learned(&self) {
        self.counting.inputs.set(LEARNED_INPUTS.of(self.index));
    }

    /// The next input of this thread that is compared, as it was when the schedule was learned.
    pub fn next_learned(&self) -> Option<&'static InputEntry> {
        self.counting.inputs.get().first()
    }

    /// It came as it was learned.
    pub fn pass_learned(&self, entry: &InputEntry) {
        self.counting
            .inputs
            .set(self.counting.inputs.get().get(1..).unwrap_or(&[]));
        let progress = &control::header().progress;
        // Relaxed: lone numbers, which the tool reads when the process has ended.
        progress.compared_calls.fetch_add(1, Relaxed);
        progress.compared_bytes.fetch_add(entry.bytes, Relaxed);
    }

    /// Writes down what has come in.
    pub fn learn(&self, entry: InputEntry) {
        let file = &self.counting.learned;
        let bytes = size_of::<InputEntry>();
        let place = match file.room(bytes, || learned_header(self.index)) {
            Ok(place) => place,
            // A schedule without all of its inputs would be used for others.
            Err((why, errno)) => return log::stop(why, errno),
        };
        // SAFETY: `room` gave so many bytes, which nobody else uses; entries and header are multiples of eight bytes, so the place is aligned.
        unsafe { place.cast::<InputEntry>().write(entry) };
        file.advance(bytes);
        let entries = (file.end() - size_of::<LearnedHeader>() as u64) / bytes as u64;
        file.publish(offset_of!(LearnedHeader, entries), entries);
    }
}
