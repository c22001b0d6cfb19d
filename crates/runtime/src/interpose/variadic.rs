//! Variadic functions, which stable Rust cannot define: a few instructions turn their arguments into a `va_list` and go on in Rust.

/// Defines a variadic function that calls `target` with a `va_list` in place of its further arguments.
///
/// On entry the arguments are in registers and above the return address, as the psABI (§3.5.7) says. The registers are
/// saved in the order of a register save area at rsp + 32; the va_list is built at rsp. 216 bytes keep rsp 16-aligned.
macro_rules! variadic {
    ($($name:ident after $fixed:literal arguments, list in $register:literal, calls $target:path;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                concat!("mov dword ptr [rsp], 8 * ", $fixed),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {target}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    )*};
}

pub(crate) use variadic;

/// What a `va_list` points to (psABI, §3.5.7).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct List {
    /// Bytes of `saved` that are used up: of its general registers, and of all.
    general: u32,
    floating: u32,
    overflow: *mut u8,
    saved: *mut u8,
}

const GENERAL_END: u32 = 48;
pub const SAVED_BYTES: usize = 176;

impl List {
    /// The place of the next argument that is a number or an address.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn word(&mut self) -> *mut u64 {
        if self.general < GENERAL_END {
            self.general += 8;
            // SAFETY: within the saved registers.
            return unsafe { self.saved.add(self.general as usize - 8).cast() };
        }
        // SAFETY: the caller promises that there is one more argument.
        unsafe { self.overflowing(8) }
    }

    /// Passes an argument of type double.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn pass_double(&mut self) {
        if (self.floating as usize) < SAVED_BYTES {
            self.floating += 16;
        } else {
            // SAFETY: the caller promises that there is one more argument.
            unsafe { self.overflowing(8) };
        }
    }

    /// Passes an argument of type long double.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn pass_long_double(&mut self) {
        self.overflow = self.overflow.map_addr(|address| address.next_multiple_of(16));
        // SAFETY: the caller promises that there is one more argument.
        unsafe { self.overflowing(16) };
    }

    unsafe fn overflowing(&mut self, bytes: usize) -> *mut u64 {
        let place = self.overflow;
        // SAFETY: the caller promises that there is one more argument.
        self.overflow = unsafe { self.overflow.add(bytes) };
        place.cast()
    }

    /// How many bytes of room a copy of the arguments needs that `end` has passed, and this has not.
    pub fn copy_bytes(&self, end: &List) -> usize {
        SAVED_BYTES + 16 + (end.overflow as usize - self.overflow as usize)
    }

    /// The same arguments in memory of ours, where they can be changed.
    ///
    /// # Safety
    /// `room` has `copy_bytes` bytes.
    pub unsafe fn copied(&self, end: &List, room: *mut u8) -> List {
        let bytes = end.overflow as usize - self.overflow as usize;
        // Long doubles are aligned.
        let place = room.map_addr(|address| {
            address + SAVED_BYTES + (self.overflow as usize).wrapping_sub(address + SAVED_BYTES) % 16
        });
        // SAFETY: the registers were saved, and so many bytes of arguments are there; the caller promises the room.
        unsafe {
            core::ptr::copy_nonoverlapping(self.saved, room, SAVED_BYTES);
            core::ptr::copy_nonoverlapping(self.overflow, place, bytes);
        }
        List {
            overflow: place,
            saved: room,
            ..*self
        }
    }
}
