//! What a handler of a signal is told about the thread that it has interrupted, and what it changes there.
//!
//! A handler that runs in a call of the program's finds the registers at that call: behind the `syscall` instruction, with the result, or before it,
//! if the call is still to be made. That is where the kernel would have interrupted the thread had the signal come a moment later or earlier, so what
//! the handler changes can be obeyed, by the kernel itself: `rt_sigreturn` takes it all from the frame. Elsewhere (a clock that is read, a lock) it
//! finds the registers that the thread had when the signal came, and only what it changes of the mask counts.
//!
//! Vector and floating-point registers are kept on the stack, where the kernel puts them, and a handler begins with none of them set.
use crate::calls::entry;
use crate::calls::patch;
use crate::calls::signals::blocked_in;
use crate::calls::signals::set_in;
use crate::local::CallUnderWay;
use crate::local::Came;
use crate::local::Local;
use crate::local::Registers;
use core::arch::asm;
use core::arch::naked_asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The registers of a call under way.
fn registers_of(call: &CallUnderWay) -> &entry::Registers {
    // SAFETY: `entry` and `quick` have made it of a reference; it is known only while the call is under way, and `run_handler` takes it away from handlers,
    // which may leave the call.
    unsafe { &*(call.registers as *const entry::Registers) }
}

impl Local {
    /// The call under way has returned this.
    pub fn note_result(&self, result: isize) {
        let returned = |call: CallUnderWay| CallUnderWay {
            result: Some(result),
            ..call
        };
        self.inputs.call.set(self.inputs.call.get().map(returned));
    }

    /// What the handler of a signal finds in the registers. `interrupted`: the thread, if it is in a handler of ours.
    pub fn registers_told(&self, came: &Came, interrupted: Option<&libc::ucontext_t>) -> Registers {
        let mut told = came.registers;
        match (interrupted, self.inputs.call.get()) {
            (Some(context), _) => told = context.uc_mcontext.gregs,
            (None, Some(call)) => registers_of(&call).tell(call.result, &mut told),
            (None, None) => {}
        }
        told
    }
}

/// What a handler is told.
pub struct Told<'a> {
    pub registers: &'a Registers,
    pub blocked: u64,
    pub call: Option<CallUnderWay>,
}

pub const STACK_ALIGNMENT: usize = 64;

/// What the kernel puts on the stack for a handler.
#[repr(C, align(64))]
struct Frame {
    context: libc::ucontext_t,
    info: libc::siginfo_t,
}

/// A frame, and the vector registers above it.
pub struct Given {
    frame: *mut Frame,
    vectors: *mut u8,
}

/// As the kernel has them in frames: there are more than the first 512 bytes of vector registers; segments are saved, and put back.
const CONTEXT_FLAGS: u64 = 1 | 2 | 4;
/// Where in the area of the vector registers the kernel says how much there is of it, and what it says.
const SOFTWARE_AT: usize = 464;
const BEGIN_MAGIC: u32 = 0x4650_5853;
const END_MAGIC: u32 = 0x4650_5845;
const END_BYTES: usize = 4;
const XMM_AT: usize = 160;
const HEADER_AT: usize = 512;
/// Of the registers' sets: those of SSE.
const SSE: u64 = 2;

impl Given {
    /// Keeps the vector registers.
    ///
    /// # Safety
    /// There is room below `at`, a multiple of `STACK_ALIGNMENT`.
    pub unsafe fn below(at: usize, info: &libc::siginfo_t, told: &Told<'_>, stack: libc::stack_t) -> Given {
        let sets = Sets::of_this_machine();
        let vectors = (at - sets.bytes - END_BYTES) & !(STACK_ALIGNMENT - 1);
        let given = Given {
            frame: (vectors - size_of::<Frame>()) as *mut Frame,
            vectors: vectors as *mut u8,
        };
        // Not `memset`: libc's uses the registers that are about to be kept.
        // SAFETY: the caller promises that there is room; zeros are valid.
        let context = unsafe {
            asm!("rep stosb", inout("rcx") at - given.frame as usize => _, inout("rdi") given.frame => _, in("al") 0u8,
                 options(nostack, preserves_flags));
            sets.save(given.vectors);
            let software = given.vectors.add(SOFTWARE_AT);
            software
                .cast::<[u32; 2]>()
                .write([BEGIN_MAGIC, (sets.bytes + END_BYTES) as u32]);
            software.add(8).cast::<u64>().write(sets.mask);
            software.add(16).cast::<u32>().write(sets.bytes as u32);
            given.vectors.add(sets.bytes).cast::<u32>().write(END_MAGIC);
            if let Some(call) = &told.call {
                given
                    .vectors
                    .add(XMM_AT)
                    .cast::<[[u64; 2]; 16]>()
                    .write(registers_of(call).vectors.get());
                *given.vectors.add(HEADER_AT).cast::<u64>() |= SSE;
            }
            (*given.frame).info = *info;
            &mut (*given.frame).context
        };
        context.uc_flags = CONTEXT_FLAGS;
        context.uc_mcontext.gregs = *told.registers;
        context.uc_mcontext.fpregs = given.vectors.cast();
        context.uc_stack = stack;
        *set_in(context) = told.blocked;
        given
    }

    /// The vector registers are as they are when a handler begins. To be called last.
    #[inline(always)]
    pub fn clear_registers(&self) {
        Sets::of_this_machine().clear();
    }

    pub fn arguments(&mut self) -> (*mut libc::siginfo_t, *mut libc::ucontext_t) {
        // SAFETY: the frame that `below` made.
        unsafe { (&raw mut (*self.frame).info, &raw mut (*self.frame).context) }
    }

    fn context(&mut self) -> &mut libc::ucontext_t {
        // SAFETY: the frame that `below` made; the handler is over.
        unsafe { &mut (*self.frame).context }
    }

    pub fn blocked(&mut self) -> u64 {
        blocked_in(self.context())
    }

    /// The handler is over: the vector registers are what it has left for them, and the thread goes on where it says. If that is not where the thread
    /// is, this does not return.
    pub fn obey(&mut self, told: &Told<'_>, interrupted: Option<&mut libc::ucontext_t>) {
        let vectors = self.vectors;
        let context = self.context();
        let left = &mut context.uc_mcontext.gregs;
        left[libc::REG_RIP as usize] = match left[libc::REG_RIP as usize] {
            same if same == told.registers[libc::REG_RIP as usize] => same,
            other => patch::goes_on_at(other as u64) as i64,
        };
        let general = libc::REG_R8 as usize..libc::REG_EFL as usize + 1;
        let is_changed = left[general.clone()] != told.registers[general.clone()];
        match (interrupted, &told.call) {
            (Some(interrupted), _) => {
                for register in general.filter(|register| left[*register] != told.registers[*register]) {
                    interrupted.uc_mcontext.gregs[register] = left[register];
                }
            }
            (None, Some(_)) if is_changed => {
                if left[libc::REG_RIP as usize] == told.registers[libc::REG_RIP as usize] {
                    left[libc::REG_RIP as usize] = patch::goes_on_at(left[libc::REG_RIP as usize] as u64) as i64;
                }
                go_on(context)
            }
            // SAFETY: `below` has kept them there.
            (None, Some(call)) => unsafe {
                registers_of(call).vectors.set(*vectors.add(XMM_AT).cast());
            },
            (None, None) => {}
        }
        // SAFETY: `below` has kept them there, and the handler had them for its own.
        unsafe { Sets::of_this_machine().restore(vectors) };
    }
}

/// Returns from a handler: everything is what the context says.
fn go_on(context: &mut libc::ucontext_t) -> ! {
    #[unsafe(naked)]
    unsafe extern "C" fn return_from_handler(context: *mut libc::ucontext_t) -> ! {
        naked_asm!("mov rsp, rdi", "mov eax, {rt_sigreturn}", "syscall", "ud2", rt_sigreturn = const libc::SYS_rt_sigreturn)
    }
    // The kernel is told which stack it has for handlers, too: the one it has.
    // SAFETY: the kernel writes a stack_t.
    unsafe {
        let place = &raw mut context.uc_stack as usize;
        crate::sys::syscall(libc::SYS_sigaltstack, [0, place, 0, 0, 0, 0]);
    }
    // SAFETY: a context as the kernel makes them, changed by the program, which is to go on so.
    unsafe { return_from_handler(context) }
}

/// Which sets of vector and floating-point registers are kept, and how many bytes they take.
#[derive(Clone, Copy)]
struct Sets {
    /// 0: only those that every processor has.
    mask: u64,
    bytes: usize,
}

/// Floating point, SSE, AVX, and the three of AVX-512. Others (protection keys, tiles) are not changed by handlers that do not mean to.
const KEPT: u64 = 0b1110_0111;
const PLAIN_BYTES: usize = 512;
const HEADER_BYTES: usize = 64;

/// As when a program begins.
#[repr(C, align(64))]
struct Cleared([u32; (PLAIN_BYTES + HEADER_BYTES) / 4]);
const CONTROL: u32 = 0x37f;
const MXCSR: u32 = 0x1f80;
static CLEARED: Cleared = {
    let mut words = [0; (PLAIN_BYTES + HEADER_BYTES) / 4];
    words[0] = CONTROL;
    words[6] = MXCSR;
    Cleared(words)
};

impl Sets {
    fn of_this_machine() -> Sets {
        /// The mask, and the bytes in the upper half. 0: not asked yet.
        static KNOWN: AtomicU64 = AtomicU64::new(0);
        let known = match KNOWN.load(Relaxed) {
            0 => {
                let sets = Sets::ask();
                let known = sets.mask | (sets.bytes as u64) << 32;
                // Relaxed: whoever asks gets the same.
                KNOWN.store(known, Relaxed);
                known
            }
            known => known,
        };
        Sets {
            mask: known & u64::from(u32::MAX),
            bytes: (known >> 32) as usize,
        }
    }

    fn ask() -> Sets {
        const USED_BY_SYSTEM: u32 = 1 << 27;
        if __cpuid_count(1, 0).ecx & USED_BY_SYSTEM == 0 {
            return Sets {
                mask: 0,
                bytes: PLAIN_BYTES,
            };
        }
        let (low, high): (u32, u32);
        // SAFETY: the system uses it, so programs may read which sets there are.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
        };
        let mask = (u64::from(low) | u64::from(high) << 32) & KEPT;
        let end_of = |set: u32| {
            let place = __cpuid_count(0xd, set);
            (place.eax + place.ebx) as usize
        };
        let further = (2..u64::BITS).filter(|set| mask >> set & 1 != 0).map(end_of);
        Sets {
            mask,
            bytes: further.fold(PLAIN_BYTES + HEADER_BYTES, usize::max),
        }
    }

    /// # Safety
    /// `place` has as many bytes, of which those of the header are zeros.
    unsafe fn save(self, place: *mut u8) {
        // SAFETY: the caller promises that there is room.
        unsafe {
            match self.mask {
                0 => asm!("fxsave64 [{}]", in(reg) place, options(nostack, preserves_flags)),
                mask => {
                    asm!("xsave64 [{}]", in(reg) place, in("eax") mask as u32, in("edx") 0, options(nostack, preserves_flags))
                }
            }
        }
    }

    /// # Safety
    /// `place` has what `save` put there, or what the program made of it.
    unsafe fn restore(self, place: *const u8) {
        // SAFETY: the caller promises what is there. What a call does to these registers, functions expect of it.
        unsafe {
            match self.mask {
                0 => asm!("fxrstor64 [{}]", in(reg) place, clobber_abi("C"), options(nostack)),
                mask => {
                    asm!("xrstor64 [{}]", in(reg) place, in("eax") mask as u32, in("edx") 0, clobber_abi("C"), options(nostack))
                }
            }
        }
    }

    fn clear(self) {
        // SAFETY: an area without any registers in it, but for those of control.
        unsafe { self.restore((&raw const CLEARED).cast()) };
    }
}
