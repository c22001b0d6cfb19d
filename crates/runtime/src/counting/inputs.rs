//! What comes in while a schedule is learned is written down, and compared where it is enforced: `runtime_abi::inputs_file`. What of a call that is,
//! is said in `calls/compared.rs`.
use crate::control;
use crate::failure;
use crate::local::Local;
use crate::log;
use crate::sys;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::inputs_file::FILE_NAME;
use runtime_abi::inputs_file::InputEntry;
use runtime_abi::inputs_file::InputsHeader;
use runtime_abi::inputs_file::LEARNED_MAGIC;
use runtime_abi::inputs_file::LearnedHeader;
use runtime_abi::inputs_file::MAGIC;
use runtime_abi::inputs_file::ThreadInputs;
use runtime_abi::inputs_file::VERSION;
use runtime_abi::memory_map;

const INPUTS: u64 = memory_map::LEARNED_INPUTS.start;
const CHECKSUM_BYTES: u64 = 8;

/// Maps the learned inputs. The tool has written and verified them; here only sizes are checked again.
pub fn open() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(FILE_NAME.as_bytes(), &mut buffer);
    let file = match sys::open(path, libc::O_RDWR) {
        Ok(file) => file,
        Err(errno) => failure::die(b"cannot open the learned inputs of this schedule", errno),
    };
    let bytes = sys::file_bytes(file);
    if !memory_map::LEARNED_INPUTS.has_room_for(bytes)
        || bytes < size_of::<InputsHeader>() as u64
        || sys::map_at(INPUTS, bytes as usize, file, 0, true).is_err()
    {
        failure::die(b"cannot map the learned inputs of this schedule", 0);
    }
    sys::close(file);
    let header = header();
    let expected = header
        .entries
        .checked_mul(size_of::<InputEntry>() as u64)
        .and_then(|entries| entries.checked_add(u64::from(header.threads) * size_of::<ThreadInputs>() as u64))
        .and_then(|tables| tables.checked_add(size_of::<InputsHeader>() as u64 + CHECKSUM_BYTES));
    if header.magic != MAGIC || header.version != VERSION || expected != Some(bytes) {
        failure::die(b"the learned inputs of this schedule are damaged", 0);
    }
}

fn header() -> &'static InputsHeader {
    // SAFETY: `open` mapped at least a header here, for good.
    unsafe { &*(INPUTS as *const InputsHeader) }
}

fn threads() -> &'static [ThreadInputs] {
    let at = INPUTS as usize + size_of::<InputsHeader>();
    // SAFETY: `open` found the file to be exactly as long as its header says.
    unsafe { core::slice::from_raw_parts(at as *const ThreadInputs, header().threads as usize) }
}

fn entries() -> &'static [InputEntry] {
    let at = threads().as_ptr_range().end;
    // SAFETY: `open` found the file to be exactly as long as its header says; the entries follow the threads.
    unsafe { core::slice::from_raw_parts(at.cast(), header().entries as usize) }
}

fn learned_header(thread: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&LEARNED_MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&thread.to_le_bytes());
    bytes
}

impl Local {
    pub fn begin_learned(&self) {
        let part = threads().get(self.index as usize);
        let part = part.and_then(|part| {
            let first = usize::try_from(part.first).ok()?;
            entries().get(first..first.checked_add(usize::try_from(part.count).ok()?)?)
        });
        self.counting.inputs.set(part.unwrap_or(&[]));
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
