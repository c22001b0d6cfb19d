//! Results of instructions that ask the machine (`rdtsc`, `rdrand`, `cpuid` and their kin): inputs like those of system calls. Compiled code tells us
//! itself what they have yielded. In other code, at scope `inputs`, `rdtsc`, `rdtscp` and `cpuid` are replaced by jumps to trampolines, as `syscall`
//! instructions are (`patch.rs`).
//!
//! The counter is a clock like any other: it has no place in the order of threads, and where threads take turns, one that looks more often than it
//! did is told something in between.
use crate::calls;
use crate::inputs;
use crate::inputs::Range;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use crate::turns;
use core::arch::naked_asm;
use core::arch::x86_64::__cpuid_count;
use core::arch::x86_64::__rdtscp;
use core::arch::x86_64::_rdtsc;
use core::ffi::c_long;
use log_format::inputs::COUNTER;
use log_format::inputs::PROCESSOR;
use log_format::inputs::RANDOM;
use log_format::inputs::Short;
use runtime_abi::RANDOM_INSTRUCTION;

/// Stands for such an instruction in the inputs.
const INSTRUCTION: c_long = 0xfff1;

/// Called by compiled code with what an instruction has just yielded: it is recorded, or becomes what was recorded.
///
/// # Safety
/// `place` has so many bytes, which are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __refrain_instruction(place: *mut u8, bytes: u64) {
    let (is_random, bytes) = (bytes & RANDOM_INSTRUCTION != 0, bytes & !RANDOM_INSTRUCTION);
    let Some(local) = Local::current().filter(|local| !local.calls_pass.get() && calls::is_installed()) else {
        return;
    };
    let range = Range {
        address: 0,
        from: place as usize,
        bytes: bytes as usize,
    };
    if is_random {
        local.consider_input(c_long::from(RANDOM), &[0; 6], 0, &[range]);
    }
    match policy::inputs() {
        Inputs::Recorded => {
            local.log_call(INSTRUCTION, 0, 0, &[range]);
        }
        Inputs::Answered => {
            let call = local.next_call(INSTRUCTION);
            if let Some((_, recorded)) = call.ranges().next() {
                inputs::copy(recorded.as_ptr(), place, recorded.len().min(bytes as usize));
            }
        }
        Inputs::Live => {}
    }
    if !local.inside_event.get() {
        local.complete();
    }
}

/// rax, rbx, rcx and rdx of a thread that comes to such an instruction, and behind it.
#[repr(C)]
struct Registers {
    rax: u64,
    rbx: u64,
    rcx: u64,
    rdx: u64,
}

/// Like the instruction that it stands for: all registers are preserved but those that it changes, flags and vector registers, too.
macro_rules! enter {
    ($name:ident, $handler:ident) => {
        /// # Safety
        /// Called by trampolines only, as the instruction.
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset rbp, 0",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "pushfq",
                "cld",
                "and rsp, -16",
                "sub rsp, 336",
                "mov [rsp], rax",
                "mov [rsp + 8], rbx",
                "mov [rsp + 16], rcx",
                "mov [rsp + 24], rdx",
                "mov [rsp + 32], rsi",
                "mov [rsp + 40], rdi",
                "mov [rsp + 48], r8",
                "mov [rsp + 56], r9",
                "mov [rsp + 64], r10",
                "mov [rsp + 72], r11",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "movaps [rsp + 208], xmm8",
                "movaps [rsp + 224], xmm9",
                "movaps [rsp + 240], xmm10",
                "movaps [rsp + 256], xmm11",
                "movaps [rsp + 272], xmm12",
                "movaps [rsp + 288], xmm13",
                "movaps [rsp + 304], xmm14",
                "movaps [rsp + 320], xmm15",
                "mov rdi, rsp",
                "call {handler}",
                "mov rax, [rsp]",
                "mov rbx, [rsp + 8]",
                "mov rcx, [rsp + 16]",
                "mov rdx, [rsp + 24]",
                "mov rsi, [rsp + 32]",
                "mov rdi, [rsp + 40]",
                "mov r8, [rsp + 48]",
                "mov r9, [rsp + 56]",
                "mov r10, [rsp + 64]",
                "mov r11, [rsp + 72]",
                "movaps xmm0, [rsp + 80]",
                "movaps xmm1, [rsp + 96]",
                "movaps xmm2, [rsp + 112]",
                "movaps xmm3, [rsp + 128]",
                "movaps xmm4, [rsp + 144]",
                "movaps xmm5, [rsp + 160]",
                "movaps xmm6, [rsp + 176]",
                "movaps xmm7, [rsp + 192]",
                "movaps xmm8, [rsp + 208]",
                "movaps xmm9, [rsp + 224]",
                "movaps xmm10, [rsp + 240]",
                "movaps xmm11, [rsp + 256]",
                "movaps xmm12, [rsp + 272]",
                "movaps xmm13, [rsp + 288]",
                "movaps xmm14, [rsp + 304]",
                "movaps xmm15, [rsp + 320]",
                "lea rsp, [rbp - 8]",
                "popfq",
                "pop rbp",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                handler = sym $handler,
            )
        }
    };
}

enter!(enter_counter, on_counter);
enter!(enter_counter_of_processor, on_counter_of_processor);
enter!(enter_processor, on_processor);

/// Where a trampoline goes in the place of the instruction with these bytes.
pub fn enter_for(instruction: &[u8]) -> u64 {
    (match instruction {
        [0x0f, 0x31, ..] => enter_counter as *const (),
        [0x0f, 0x01, ..] => enter_counter_of_processor as *const (),
        _ => enter_processor as *const (),
    }) as u64
}

extern "C-unwind" fn on_counter(registers: &mut Registers) {
    // SAFETY: an instruction that reads a counter.
    let (counter, _) = look(|| (unsafe { _rdtsc() }, 0));
    registers.tell_counter(counter);
}

extern "C-unwind" fn on_counter_of_processor(registers: &mut Registers) {
    let (counter, processor) = look(|| {
        let mut processor = 0;
        // SAFETY: an instruction that reads a counter, and which the program has here, so the processor knows it.
        let counter = unsafe { __rdtscp(&mut processor) };
        (counter, processor)
    });
    registers.tell_counter(counter);
    registers.rcx = processor.into();
}

extern "C-unwind" fn on_processor(registers: &mut Registers) {
    let (leaf, part) = (registers.rax as u32, registers.rcx as u32);
    let real = || {
        let all = __cpuid_count(leaf, part);
        [all.eax, all.ebx, all.ecx, all.edx]
    };
    let answer = match observed() {
        None => real(),
        Some(local) => local.ask_processor(real),
    };
    [registers.rax, registers.rbx, registers.rcx, registers.rdx] = answer.map(u64::from);
}

impl Registers {
    fn tell_counter(&mut self, counter: u64) {
        (self.rax, self.rdx) = (counter & u64::from(u32::MAX), counter >> 32);
    }
}

/// The calling thread, if what it asks is the program's question.
fn observed() -> Option<&'static Local> {
    let is_observed = |local: &&Local| {
        !local.calls_pass.get() && !local.ends_unseen.get() && calls::is_installed() && !policy::is_free()
    };
    Local::current().filter(is_observed)
}

/// The time-stamp counter, and the number of the processor if it was asked for.
fn look(real: impl Fn() -> (u64, u32)) -> (u64, u32) {
    let Some(local) = observed() else { return real() };
    let answer = match policy::inputs() {
        Inputs::Live => real(),
        Inputs::Recorded => {
            let (counter, processor) = real();
            local.record_counter(counter, processor);
            (counter, processor)
        }
        Inputs::Answered => turns::quietly(|| local.answer_counter()),
    };
    // A program may look at it until a handler tells it to stop.
    local.after_call();
    answer
}

impl Local {
    fn record_counter(&self, counter: u64, processor: u32) {
        let later = counter.wrapping_sub(self.inputs.counter.replace(counter));
        let short = Short {
            event: self.event(),
            number: COUNTER,
            check: later as u32,
            result: processor.into(),
            time: 0,
            range: None,
        };
        // SAFETY: there is no range.
        if later > u64::from(u32::MAX) || !unsafe { self.inputs.writer.append_short(&short) } {
            let range = Range {
                address: 0,
                from: &raw const counter as usize,
                bytes: size_of::<u64>(),
            };
            self.log_call(COUNTER as c_long, processor as isize, 0, &[range]);
        }
        if !self.inside_event.get() {
            self.complete();
        }
    }

    fn answer_counter(&self) -> (u64, u32) {
        /// What it moves if it is looked at and the recording does not say what it showed.
        const STEP: u64 = 1_000;
        let has_it = || self.inputs.recorded.next_number() == Some(COUNTER);
        if turns::is_on() && !has_it() {
            // A handler may have run before it.
            self.at_safe_point();
            if !has_it() {
                let invented = self.inputs.counter.get() + STEP;
                self.inputs.counter.set(invented);
                return (invented, 0);
            }
        }
        let call = self.next_call(COUNTER as c_long);
        if !self.inside_event.get() {
            self.complete();
        }
        let counter = self.inputs.recorded.counter();
        self.inputs.counter.set(counter);
        (counter, call.entry.result as u32)
    }

    /// What the processor says about itself.
    fn ask_processor(&self, real: impl Fn() -> [u32; 4]) -> [u32; 4] {
        let mut answer = [0; 4];
        match policy::inputs() {
            Inputs::Live => return real(),
            Inputs::Recorded => {
                answer = real();
                let range = Range {
                    address: 0,
                    from: &raw const answer as usize,
                    bytes: size_of_val(&answer),
                };
                self.log_call(PROCESSOR as c_long, 0, 0, &[range]);
            }
            Inputs::Answered => {
                let call = turns::quietly(|| self.next_call(PROCESSOR as c_long));
                if let Some((_, recorded)) = call.ranges().next() {
                    let bytes = recorded.len().min(size_of_val(&answer));
                    inputs::copy(recorded.as_ptr(), (&raw mut answer).cast(), bytes);
                }
            }
        }
        if !self.inside_event.get() {
            self.complete();
        }
        answer
    }
}
