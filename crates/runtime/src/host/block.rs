//! What we keep for each thread of a guest where its GS register points to; and its memory: our stacks for it.
use crate::host::entry::Frame;
use crate::sys;
use core::arch::asm;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::THREADS_MAX;
use runtime_abi::memory_map::HOSTED_THREADS;

/// The memory of a thread: a page that is a guard, our stack, another guard, the stack of our signal handlers, the block.
const AREA_BYTES: u64 = HOSTED_THREADS.stride;
const GUARD_BYTES: u64 = 4096;
const STACK: u64 = GUARD_BYTES;
const STACK_BYTES: u64 = 0x4_0000;
const SIGNAL_STACK: u64 = STACK + STACK_BYTES + GUARD_BYTES;
const SIGNAL_STACK_BYTES: u64 = 0x2_0000;
const BLOCK: u64 = AREA_BYTES - 4096;
const _: () = assert!(SIGNAL_STACK + SIGNAL_STACK_BYTES <= BLOCK);
const _: () = assert!(size_of::<Block>() <= 4096);

/// Who has an area: nobody yet, somebody, or, when it is about to end, the kernel's name of the thread, which must be gone.
static OWNERS: [AtomicU32; THREADS_MAX] = [const { AtomicU32::new(NOBODY) }; THREADS_MAX];
const NOBODY: u32 = 0;
const SOMEBODY: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub struct Stack {
    pub start: u64,
    pub bytes: u64,
}

/// A handler of the guest's that runs: below it, on our stack, is what it interrupted.
pub struct Upcall {
    pub previous: *const Upcall,
    /// Where calls began on our stack before it.
    pub host_stack: u64,
    /// What it interrupted.
    pub frame: *mut Frame,
    /// The stack that it is on, if that is one of its own.
    pub own_stack: Option<Stack>,
}

/// The first fields are used by `entry.rs`.
#[repr(C, align(64))]
pub struct Block {
    /// What FS is in our code.
    pub host_fs: u64,
    /// Where our code begins when the guest calls the kernel.
    pub host_stack: u64,
    /// The kernel looks at it at every call: 1 if those that it meets are to be sent to us.
    pub selector: u8,
    /// A signal has interrupted the guest's code, and not ours.
    pub in_guest: u8,
    /// Where the function is that began the thread.
    pub start_stack: u64,
    /// While the thread is on its way to, or from, `locked::enter`.
    pub kept_rcx: u64,
    pub kept_rsp: u64,
    pub kept_rip: u64,
    /// How often it has been there since its last call.
    pub locked: u32,
    /// It is creating a thread while it holds a lock that nobody knows of.
    pub holds_lock: bool,
    /// How much it has read (`processors.rs`).
    pub processors_read: usize,
    /// The call under way.
    pub frame: *mut Frame,
    pub upcall: *const Upcall,
    /// The stack that the guest wants handlers to run on.
    pub asked_stack: Option<Stack>,
    /// Which of the areas it has.
    area: u32,
    /// What the guest thinks is the thread's id.
    pub tid: u32,
    /// Where a zero is to be written when the thread is gone; 0: nowhere.
    pub clear_tid: u64,
    /// Of a thread that begins: what it begins with, and how far it and its creator have come (`threads.rs`).
    pub first: Frame,
    pub flags: usize,
    pub tid_places: [usize; 2],
    pub told_tid: AtomicU32,
    pub may_go: AtomicU32,
}

impl Block {
    /// With memory of its own.
    pub fn create() -> Option<&'static mut Block> {
        let area = (0..THREADS_MAX).find(|area| take(&OWNERS[*area]))?;
        let start = HOSTED_THREADS.part(area as u64);
        // What a thread before had there is gone.
        sys::map_at(start, AREA_BYTES as usize, -1, 0, true).ok()?;
        for guard in [0, STACK + STACK_BYTES] {
            sys::forbid(start + guard, GUARD_BYTES as usize);
        }
        let place = (start + BLOCK) as *mut Block;
        // SAFETY: freshly mapped, aligned, and known to nobody else yet; all zeros is a valid block.
        let block = unsafe { &mut *place };
        block.asked_stack = None;
        block.area = area as u32;
        Some(block)
    }

    fn start(&self) -> u64 {
        HOSTED_THREADS.part(u64::from(self.area))
    }

    pub fn stack(&self) -> Stack {
        Stack {
            start: self.start() + STACK,
            bytes: STACK_BYTES,
        }
    }

    pub fn signal_stack(&self) -> Stack {
        Stack {
            start: self.start() + SIGNAL_STACK,
            bytes: SIGNAL_STACK_BYTES,
        }
    }

    /// The calling thread's, once it has one.
    pub fn current() -> &'static mut Block {
        let block: *mut Block;
        // SAFETY: reads a register. `install` has made it point to this thread's block; no two references are used at once.
        unsafe {
            asm!("rdgsbase {}", out(reg) block, options(nomem, nostack, preserves_flags));
            &mut *block
        }
    }

    pub fn is_current(&self) -> bool {
        let block: *const Block;
        // SAFETY: reads a register.
        unsafe { asm!("rdgsbase {}", out(reg) block, options(nomem, nostack, preserves_flags)) };
        core::ptr::eq(block, self)
    }

    /// Makes it the calling thread's.
    pub fn install(&mut self) {
        let host_fs: u64;
        // SAFETY: sets a register that nobody else uses in this process, and reads one.
        unsafe {
            asm!("wrgsbase {}", in(reg) self as *mut Block, options(nostack, preserves_flags));
            asm!("rdfsbase {}", out(reg) host_fs, options(nomem, nostack, preserves_flags));
        }
        self.host_fs = host_fs;
    }

    /// The calling thread is about to end: its memory may be used again when it is gone.
    pub fn give_back(&mut self) {
        OWNERS[self.area as usize].store(sys::thread_id(), Release);
    }

    /// The thread was never made.
    pub fn forget(&mut self) {
        OWNERS[self.area as usize].store(NOBODY, Release);
    }
}

fn take(owner: &AtomicU32) -> bool {
    let now = owner.load(Acquire);
    let is_free = now == NOBODY || now != SOMEBODY && !sys::is_thread(now);
    is_free && owner.compare_exchange(now, SOMEBODY, AcqRel, Relaxed).is_ok()
}
