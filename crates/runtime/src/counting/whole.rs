//! What whole traces have besides: compiled code tells its way through its blocks, what it loads and what calls return
//! (`crates/instrumentor/pass/traced.h`), and answered system calls tell what they bring. Nothing of this is called unless it was asked for.
use crate::local::Local;
use crate::sites;
use core::ffi::c_long;
use run_model::Data;

impl Local {
    /// A system call is answered, and these are the bytes that it brings.
    pub fn tell_call<'a>(&self, number: c_long, result: isize, ranges: impl Iterator<Item = (u64, &'a [u8])>) {
        self.append_told(|encoder, out| encoder.call(number as u32, result as i64, out));
        for (start, bytes) in ranges {
            let mut address = start;
            for piece in bytes.chunks(Data::MAX) {
                self.append_told(|encoder, out| encoder.brought(address, &Data::new(piece), out));
                address += piece.len() as u64;
            }
        }
    }

    fn tell_value(&self, unit: u32, value: u32, bytes: &[u8]) {
        let mut offset = 0;
        for piece in bytes.chunks(Data::MAX) {
            self.append_told(|encoder, out| encoder.value(unit, value, offset, &Data::new(piece), out));
            offset += piece.len() as u32;
        }
    }
}

/// The number of a unit: that of the site that would be in the header of its site table.
fn unit_of(table: *const u8) -> u32 {
    sites::number(table as u64).0
}

/// The thread comes to a block.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_traced_block(table: *const u8, block: u32) {
    if let Some(local) = Local::current() {
        local.append_told(|encoder, out| encoder.block(unit_of(table), block, out));
    }
}

/// The thread is about to leave the function that it is in.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_traced_left() {
    if let Some(local) = Local::current() {
        local.append_told(|encoder, out| encoder.left(out));
    }
}

/// A value of at most eight bytes.
#[unsafe(no_mangle)]
pub extern "C" fn __refrain_traced_value(table: *const u8, value: u32, bytes: u32, word: u64) {
    if let Some(local) = Local::current() {
        let data = Data::of_word(word, bytes as usize);
        local.append_told(|encoder, out| encoder.value(unit_of(table), value, 0, &data, out));
    }
}

/// A longer one.
///
/// # Safety
/// `place` has `bytes` bytes that may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_traced_bytes(table: *const u8, value: u32, bytes: u32, place: *const u8) {
    if let Some(local) = Local::current() {
        // SAFETY: the caller promises it.
        let bytes = unsafe { core::slice::from_raw_parts(place, bytes as usize) };
        local.tell_value(unit_of(table), value, bytes);
    }
}
