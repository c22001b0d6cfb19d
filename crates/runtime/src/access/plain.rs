//! Single accesses whose inlined check failed: each is exactly one event.
use crate::access::Reach;
use crate::access::seen::Moved;
use crate::access::seen::Seen;
use crate::control;
use crate::local::Local;
use crate::policy;
use crate::replay::PLAIN;
use crate::trace_file;
use crate::trace_file::Atomic;
use access_protocol::Values;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Access;
use run_model::Extent;
use run_model::Kind;
use runtime_abi::divergence;
use runtime_abi::schedule_file::GateEntry;

impl Local {
    /// Does `access` to `[address, address + bytes)` as one event. `seen` says which values it moved, given its result; or
    /// which it is going to write, without.
    #[inline(always)]
    pub fn perform<R, A: FnMut() -> R, S: FnOnce(Option<&R>) -> Seen>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        access: A,
        seen: S,
    ) -> R {
        if !policy::is_observed() {
            return self.perform_again(address, bytes, reach, Atomic::No, access, seen);
        }
        self.at_change_point();
        if control::follows_vectors() {
            return self.in_turn(|| self.access.perform(address, bytes, reach, access, seen));
        }
        self.access.perform(address, bytes, reach, access, seen)
    }

    /// Replay: the gate, then the access; its value is compared if the recording has a check for it.
    #[inline]
    pub fn perform_again<R>(
        &self,
        address: u64,
        bytes: u64,
        reach: Reach,
        atomic: Atomic,
        access: impl FnOnce() -> R,
        seen: impl FnOnce(Option<&R>) -> Seen,
    ) -> R {
        if policy::is_free() {
            return access();
        }
        if control::counts_for_points() {
            return match atomic {
                Atomic::No => self.perform_at_point(access),
                Atomic::Yes => self.perform_between_steps(access),
            };
        }
        if control::is_steered() && atomic == Atomic::No {
            return self.perform_steered(address, bytes, reach, access);
        }
        let gate = if self.event() >= self.slot.gate.load(Relaxed) {
            self.at_safe_point();
            self.pass_gate(PLAIN)
        } else {
            None
        };
        if control::counts_for_trace() {
            match atomic {
                Atomic::No => self.trace_place(address, bytes, reach),
                Atomic::Yes => self.trace_between_steps(address, bytes, reach, gate),
            }
        }
        let result = if trace_file::is_on() {
            self.traced(address, bytes, reach, atomic, access)
        } else {
            access()
        };
        // What is computed from live inputs is something else.
        if let Some(gate) = gate.filter(|_| policy::are_inputs_answered()) {
            self.compare_value(gate, address, seen(Some(&result)));
        }
        match atomic {
            Atomic::No => self.complete_plain(),
            Atomic::Yes => self.complete(),
        }
        result
    }

    /// Replay: does the access see what the recording says, if that says anything?
    fn compare_value(&self, gate: &GateEntry, address: u64, seen: Seen) {
        let found = if gate.kind == Kind::Run as u8 && Access(gate.access).reads() && gate.value != 0 {
            Some(seen.check()).filter(|found| *found != 0)
        } else if gate.kind == Kind::Read as u8 && !is_on_own_stack(address) {
            let extent = Extent::unpack(Access(gate.access), gate.object).filter(|extent| !extent.unknown);
            extent.and_then(|extent| {
                let value = seen
                    .read
                    .piece(gate.object.wrapping_sub(address), u64::from(extent.bytes));
                value.map(|value| extent.signed(value))
            })
        } else {
            None
        };
        if let Some(found) = found.filter(|found| *found != gate.value)
            && !crate::sites::may_be_undefined(self.slot.site.load(Relaxed))
        {
            self.diverge(divergence::VALUE, PLAIN, 0, gate.value as u64, found as u64);
        }
    }
}

/// Compiled code reads parts of its stack that nobody has written, and does nothing with them. What is there differs between
/// recording and replay: calls of ours were there before.
fn is_on_own_stack(address: u64) -> bool {
    const NEAR: u64 = 8 << 20;
    let here = 0u8;
    (&raw const here as u64).abs_diff(address) < NEAR
}

/// Remembers where in the source the thread is. Sites are compared by address, so this is all.
#[inline]
pub fn at_site(local: &Local, site: *const u8) {
    local.slot.site.store(site as u64, Relaxed);
}

/// The same, before an access to what the site says.
///
/// # Safety
/// `site` is a record of a site table.
#[inline]
pub unsafe fn at_access(local: &Local, site: *const u8) {
    at_site(local, site);
    // SAFETY: the caller promises that `site` is a record of a site table.
    unsafe { local.at_element(site) };
}

macro_rules! accesses {
    ($($load:ident $store:ident $type:ty;)*) => {$(
        /// # Safety
        /// `place` may be read, as the instrumented program would have.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $load(place: *const $type, site: *const u8) -> $type {
            // SAFETY: the program's own access, in the program's own place.
            let load = || unsafe { place.read_unaligned() };
            let Some(local) = Local::current() else { return load() };
            // SAFETY: compiled code passes a record of its site table.
            unsafe { at_access(local, site) };
            local.perform(place as u64, size_of::<$type>() as u64, Reach::Reads, load, Seen::loaded)
        }

        /// # Safety
        /// `place` may be written, as the instrumented program would have.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(place: *mut $type, value: $type, site: *const u8) {
            // SAFETY: the program's own access, in the program's own place.
            let store = || unsafe { place.write_unaligned(value) };
            let Some(local) = Local::current() else { return store() };
            // SAFETY: compiled code passes the record of its own site, which is in a site table.
            unsafe { at_access(local, site) };
            local.perform(place as u64, size_of::<$type>() as u64, Reach::Writes, store, |_| {
                Seen::written(Moved::Number(value as u64))
            })
        }
    )*};
}

accesses! {
    __refrain_load1 __refrain_store1 u8;
    __refrain_load2 __refrain_store2 u16;
    __refrain_load4 __refrain_store4 u32;
    __refrain_load8 __refrain_store8 u64;
}

/// Loads any number of bytes into a private buffer.
///
/// # Safety
/// `place` may be read and `out` written for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_load_n(place: *const u8, bytes: usize, out: *mut u8, site: *const u8) {
    // SAFETY: the program's own access; `out` is the caller's scratch memory.
    let load = || unsafe { core::ptr::copy_nonoverlapping(place, out, bytes) };
    let Some(local) = Local::current() else { return load() };
    // SAFETY: compiled code passes a record of its site table.
    unsafe { at_access(local, site) };
    local.perform(place as u64, bytes as u64, Reach::Reads, load, |_| {
        Seen::read(Moved::At(out))
    })
}

/// Stores any number of bytes from a private buffer.
///
/// # Safety
/// `place` may be written and `value` read for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_store_n(place: *mut u8, bytes: usize, value: *const u8, site: *const u8) {
    // SAFETY: the program's own access; `value` is the caller's scratch memory.
    let store = || unsafe { core::ptr::copy_nonoverlapping(value, place, bytes) };
    let Some(local) = Local::current() else { return store() };
    // SAFETY: compiled code passes a record of its site table.
    unsafe { at_access(local, site) };
    local.perform(place as u64, bytes as u64, Reach::Writes, store, |_| {
        Seen::written(Moved::At(value))
    })
}
