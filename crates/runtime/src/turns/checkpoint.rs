//! Copies of a process that stands at a place of the recorded order, from which a search goes on again and again.
//!
//! When as many inputs of the order have happened as the tool has asked for, the thread that has the turn forks. The child is the
//! *checkpoint*: it stays where it is, and waits on a socket for orders of the tool. For each it forks again, and that child is an
//! *attempt*: it takes the files that came with the order, creates the other threads anew, each where it waited, and goes on.
//!
//! - A fork copies one thread. The others wait for their turn, at one place of the runtime (`turn_scheduler::Turns::wait`). Before the fork, each
//!   of them writes down what a new thread needs to go on there (`Saved`): what its registers are, and what the kernel knows of it. All
//!   else is memory.
//! - Both children are the tool's, not of whoever forked them (`CLONE_PARENT`): the tool waits for them, and attempts die with it. A
//!   checkpoint ends when the tool's end of its socket is closed.
//! - The kernel has other names for the threads of an attempt. In the program's memory stay the old ones (`TurnState::name`), by which
//!   locks know their owners, and libc whom it sends a signal. A thread that is created later has one name only.
//! - What processes share must not be shared by attempts: control memory is copied before the fork, and each attempt has its own.
//!   A program that shares memory, that is hosted, or that has threads that we do not know, has no checkpoints.
use crate::control;
use crate::handlers;
use crate::hosting;
use crate::local::Local;
use crate::standstill;
use crate::sys;
use crate::turns;
use crate::turns::accesses;
use crate::turns::budget;
use crate::turns::order;
use crate::turns::turn_state;
use core::arch::asm;
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::CONTROL_ADDRESS;
use runtime_abi::CONTROL_BYTES;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::ROOT_CONTROL_ADDRESS;
use runtime_abi::THREADS_MAX;
use runtime_abi::ThreadSlot;
use runtime_abi::checkpoint::AT_ONCE_MAX;
use runtime_abi::checkpoint::FILE_NAME;
use runtime_abi::checkpoint::FILES_MAX;
use runtime_abi::checkpoint::FIRST_FD;
use runtime_abi::checkpoint::Hello;
use runtime_abi::checkpoint::MAGIC;
use runtime_abi::checkpoint::Order;
use runtime_abi::memory_map;
use runtime_abi::memory_map::CHECKPOINT_STACKS;
use runtime_abi::thread_state;
use turn_scheduler::State;

/// Where control memory is copied to: private memory, so that a fork has it as it was.
const SNAPSHOT: u64 = memory_map::SNAPSHOT.start;
const STACK_BYTES: usize = CHECKPOINT_STACKS.stride as usize;
const LONG_NS: u64 = 1_000_000_000;
const PR_GET_TID_ADDRESS: usize = 40;
const ARCH_SET_GS: usize = 0x1001;
const ARCH_GET_GS: usize = 0x1004;
/// Of a thread's signal stack: in use. The kernel says it, and does not want to be told.
const IN_USE: u64 = libc::SS_ONSTACK as u64;
const DISABLED: u64 = libc::SS_DISABLE as u64;

/// Where checkpoints are wanted, and the sockets for them; 0: nowhere.
static WANTED: [AtomicU64; AT_ONCE_MAX] = [const { AtomicU64::new(0) }; AT_ONCE_MAX];
static SOCKETS: [AtomicI32; AT_ONCE_MAX] = [const { AtomicI32::new(-1) }; AT_ONCE_MAX];
/// The least of them.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Bytes that the program has shown so far on standard output and error.
static SHOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Threads that have written down how they stand; whether one could not; and what they then wait on.
static SAVED_COUNT: AtomicU32 = AtomicU32::new(0);
static UNSAVED: AtomicU32 = AtomicU32::new(0);
static SAVES: AtomicU32 = AtomicU32::new(0);
/// Threads that stand again where they stood.
static RESTORED: AtomicU32 = AtomicU32::new(0);

/// What a new thread needs to go on in the place of one that waits. Relaxed everywhere: counts are passed with Release and Acquire.
#[repr(C)]
struct Saved {
    /// Where `hold` returns to, the stack pointer then, and the registers that a function preserves: rbx, rbp, r12 to r15; and
    /// the modes of the two floating-point units.
    registers: [AtomicU64; 9],
    /// The bases of the segments that threads have for themselves.
    thread_pointer: AtomicU64,
    gs: AtomicU64,
    /// Where the kernel writes when the thread ends, and its list of robust locks.
    tid_address: AtomicU64,
    robust: [AtomicU64; 2],
    /// The signals that it blocks, its stack for handlers, and its name.
    blocked: AtomicU64,
    signal_stack: [AtomicU64; 3],
    label: [AtomicU64; 2],
}

static SAVED: [Saved; THREADS_MAX] = [const {
    Saved {
        registers: [const { AtomicU64::new(0) }; 9],
        thread_pointer: AtomicU64::new(0),
        gs: AtomicU64::new(0),
        tid_address: AtomicU64::new(0),
        robust: [const { AtomicU64::new(0) }; 2],
        blocked: AtomicU64::new(0),
        signal_stack: [const { AtomicU64::new(0) }; 3],
        label: [const { AtomicU64::new(0) }; 2],
    }
}; THREADS_MAX];

/// The order has been mapped: are checkpoints wanted?
pub fn open() {
    forget();
    SHOWN.iter().for_each(|bytes| bytes.store(0, Relaxed));
    let mut buffer = [0; 4352];
    let path = control::path_in_run(FILE_NAME.as_bytes(), &mut buffer);
    let Ok(file) = sys::open(path, libc::O_RDONLY) else {
        return;
    };
    let mut bytes = [0; AT_ONCE_MAX * size_of::<u64>()];
    let got = sys::read(file, &mut bytes).max(0) as usize;
    sys::close(file);
    let (positions, _) = bytes[..got.min(bytes.len())].as_chunks();
    let has_stacks = sys::map_at(CHECKPOINT_STACKS.start, CHECKPOINT_STACKS.bytes as usize, -1, 0, true).is_ok();
    for (at, position) in positions.iter().enumerate().filter(|_| has_stacks) {
        want(at, u64::from_le_bytes(*position), FIRST_FD + at as i32);
    }
}

fn forget() {
    for (wanted, socket) in WANTED.iter().zip(&SOCKETS) {
        wanted.store(0, Relaxed);
        socket.store(-1, Relaxed);
    }
    NEXT.store(u64::MAX, Relaxed);
}

fn want(at: usize, position: u64, socket: i32) {
    WANTED[at].store(position, Relaxed);
    SOCKETS[at].store(socket, Relaxed);
    if position != 0 {
        NEXT.fetch_min(position, Relaxed);
    }
}

/// The program has shown so many bytes on standard output, 1, or error, 2.
pub fn note_shown(stream: i32, bytes: usize) {
    if let Some(shown) = SHOWN.get(stream as usize - 1) {
        shown.store(shown.load(Relaxed) + bytes as u64, Relaxed);
    }
}

/// Does the program want memory to be away, or empty, after a fork? A copy must not differ.
pub fn hides_from_copies(number: i64, arguments: &[usize; 6]) -> bool {
    let is_hiding = matches!(arguments[2] as i32, libc::MADV_DONTFORK | libc::MADV_WIPEONFORK);
    number == libc::SYS_madvise && is_hiding && NEXT.load(Relaxed) != u64::MAX
}

/// Another input of the order has happened, in the thread that calls.
#[inline]
pub fn look(me: u32) {
    if control::header().turns.order_reached.load(Relaxed) == NEXT.load(Relaxed) {
        elsewhere(me, make);
    }
}

/// The socket for a checkpoint here.
fn take_socket() -> i32 {
    let position = NEXT.swap(u64::MAX, Relaxed);
    let mut socket = -1;
    for (wanted, of) in WANTED.iter().zip(&SOCKETS) {
        match wanted.load(Relaxed) {
            0 => {}
            here if here == position => {
                wanted.store(0, Relaxed);
                socket = of.swap(-1, Relaxed);
            }
            later => drop(NEXT.fetch_min(later, Relaxed)),
        }
    }
    socket
}

/// Forks a checkpoint, if that can be. Returns in the process that goes on, and in every attempt.
extern "C" fn make(me: u32) {
    let mut socket = take_socket();
    // Without an answer on the socket, the tool knows that there is none.
    if !can_be_copied(me) {
        return sys::close(socket);
    }
    let was_deciding = turns::SCHEDULER.is_deciding();
    turns::SCHEDULER.set_deciding(true);
    let blocked = handlers::block_all();
    UNSAVED.store(0, Relaxed);
    save(me, blocked);
    SAVED_COUNT.store(0, Relaxed);
    let mut count = 0;
    for thread in others(me) {
        count += 1;
        turns::now().ask_to_save(thread);
    }
    wait_for(&SAVED_COUNT, count);
    if UNSAVED.load(Relaxed) == 0 && snapshot() {
        // SAFETY: a new process, with a copy of our memory and the stack that we stand on.
        let process = unsafe { sys::syscall(libc::SYS_clone, [libc::CLONE_PARENT as usize, 0, 0, 0, 0, 0]) };
        if process == 0 {
            serve(me, socket);
            socket = -1;
        }
    }
    sys::close(socket);
    // In an attempt nobody waits there.
    SAVES.fetch_add(1, Release);
    sys::futex_wake_all(&SAVES);
    turns::SCHEDULER.set_deciding(was_deciding);
    handlers::restore(blocked);
}

fn wait_for(count: &AtomicU32, enough: u32) {
    loop {
        let now = count.load(Acquire);
        if now >= enough {
            return;
        }
        sys::futex_wait(count, now, LONG_NS);
    }
}

/// Threads that wait for their turn.
fn others(me: u32) -> impl Iterator<Item = u32> {
    (0..turns::now().count()).filter(move |thread| *thread != me && turn_state(*thread).state() != State::Gone)
}

/// Threads whose accesses are counted since the middle of a block could not be told from others in a copy.
fn can_be_copied(me: u32) -> bool {
    let stands_badly = |thread: u32| turn_state(thread).state() == State::Held || turn_state(thread).spins();
    let is_creating = Local::current().is_none_or(|local| local.is_creating.get());
    // A hosted program's threads have more than is given to new ones here: GS, and where the kernel sends their calls.
    !hosting::is_on()
        && control::root().shared.processes.load(Relaxed) == 0
        && !turns::SCHEDULER.is_somebody_leaving()
        && !is_creating
        && !others(me).any(stands_badly)
        && are_all_threads_known(me)
        && shares_nothing()
}

/// Are the kernel's threads of this process ours, and those that have stopped for good?
fn are_all_threads_known(me: u32) -> bool {
    const NAME_AT: usize = 19;
    const LENGTH_AT: usize = 16;
    let Ok(folder) = sys::open(b"/proc/self/task\0", libc::O_RDONLY | libc::O_DIRECTORY) else {
        return false;
    };
    let is_known = |id: u32| {
        let is_it = |thread: u32| {
            let slot = control::slot(thread);
            let stays = turn_state(thread).state() != State::Gone || slot.state.load(Relaxed) == thread_state::STOPPED;
            stays && slot.os_thread.load(Relaxed) == id
        };
        // A main thread that has ended stays in the list. One that begins may not have said its name yet.
        id == sys::process_id() || id == sys::thread_id() || (0..turns::now().count()).any(is_it)
    };
    let mut buffer = [0u8; 2048];
    let (mut known, mut unknown) = (0, 0);
    loop {
        // SAFETY: the kernel writes at most as many bytes as there are.
        let got = unsafe {
            sys::syscall(
                libc::SYS_getdents64,
                [folder as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
            )
        };
        if got <= 0 {
            break;
        }
        let mut at = 0;
        while at + NAME_AT < got as usize {
            let length = usize::from(u16::from_le_bytes([buffer[at + LENGTH_AT], buffer[at + LENGTH_AT + 1]]));
            let digits = buffer[at + NAME_AT..at + length].iter().take_while(|byte| **byte != 0);
            if let Some(id) = number(digits) {
                if is_known(id) { known += 1 } else { unknown += 1 }
            }
            at += length.max(1);
        }
    }
    sys::close(folder);
    let begins = |thread: &u32| control::slot(*thread).os_thread.load(Relaxed) == 0;
    let beginning = others(me).filter(begins).count();
    known > 0 && unknown <= beginning
}

fn number<'a>(digits: impl Iterator<Item = &'a u8>) -> Option<u32> {
    let mut all = None;
    for digit in digits {
        let value = (*digit as char).to_digit(10)?;
        all = Some(all.unwrap_or(0u32).wrapping_mul(10).wrapping_add(value));
    }
    all
}

/// Is there no memory, but ours, that a copy of this process would write together with it?
fn shares_nothing() -> bool {
    let Ok(file) = sys::open(b"/proc/self/maps\0", libc::O_RDONLY) else {
        return false;
    };
    let mut buffer = [0; 1024];
    let mut line = MapsLine::default();
    let mut is_shared = false;
    loop {
        let got = sys::read(file, &mut buffer);
        if got <= 0 {
            break;
        }
        for byte in &buffer[..got as usize] {
            if *byte == b'\n' {
                is_shared |= line.is_shared();
                line = MapsLine::default();
            } else {
                line.push(*byte);
            }
        }
    }
    sys::close(file);
    !is_shared
}

/// Of a line of `/proc/self/maps`: where it begins, and what may be done there.
#[derive(Default)]
struct MapsLine {
    start: u64,
    at: usize,
    has_start: bool,
    rights_at: Option<usize>,
    rights: [u8; 4],
}

impl MapsLine {
    fn push(&mut self, byte: u8) {
        match (self.has_start, self.rights_at) {
            (false, _) if byte == b'-' => self.has_start = true,
            (false, _) => self.start = self.start << 4 | u64::from((byte as char).to_digit(16).unwrap_or(0)),
            (true, None) if byte == b' ' => self.rights_at = Some(self.at + 1),
            (true, Some(first)) if self.at - first < self.rights.len() => self.rights[self.at - first] = byte,
            _ => {}
        }
        self.at += 1;
    }

    fn is_shared(&self) -> bool {
        self.rights[1] == b'w' && self.rights[3] == b's' && !memory_map::RUNTIME.contains(self.start)
    }
}

/// Copies the control memory as it is now.
fn snapshot() -> bool {
    let bytes = control_bytes();
    if sys::map_at(SNAPSHOT, bytes, -1, 0, true).is_err() {
        return false;
    }
    // SAFETY: control memory, which nobody else changes while all others wait; and as much of our own.
    unsafe { core::ptr::copy_nonoverlapping(CONTROL_ADDRESS as *const u8, SNAPSHOT as *mut u8, bytes) };
    true
}

/// The header and the slots that are in use.
fn control_bytes() -> usize {
    HEADER_BYTES + turns::now().count() as usize * size_of::<ThreadSlot>()
}

/// The thread waits for its turn, and is asked to write down how it stands. Returns when that has been used, or in a new thread in
/// its place.
#[inline]
pub fn save_here(me: u32) {
    elsewhere(me, wait_to_go_on);
}

/// Calls `act` on a stack of ours. What is below the stack pointer remains as it was: labels of switch points are looked for among
/// what calls have left behind there (`labels.rs`), and are to be the same as without us.
#[inline]
fn elsewhere(me: u32, act: extern "C" fn(u32)) {
    // SAFETY: `open` mapped it, if anything is wanted; the stack is this thread's, and not in use.
    unsafe { hold(&SAVED[me as usize], stack_of(me) + STACK_BYTES as u64, act, me) };
}

fn stack_of(thread: u32) -> u64 {
    CHECKPOINT_STACKS.part(u64::from(thread))
}

/// Notes where and with what the caller goes on, and calls `act` on another stack. A new thread goes on at `__refrain_go_on`, as if
/// `act` had returned there.
///
/// # Safety
/// The stack is not in use.
#[unsafe(naked)]
unsafe extern "C" fn hold(saved: &Saved, stack: u64, act: extern "C" fn(u32), me: u32) {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, [rsp]",
        "mov [rdi], rax",
        "lea rax, [rsp + 8]",
        "mov [rdi + 8], rax",
        "mov [rdi + 16], rbx",
        "mov [rdi + 24], rbp",
        "mov [rdi + 32], r12",
        "mov [rdi + 40], r13",
        "mov [rdi + 48], r14",
        "mov [rdi + 56], r15",
        "stmxcsr [rdi + 64]",
        "fnstcw [rdi + 68]",
        "mov r12, rdi",
        "mov rsp, rsi",
        ".cfi_undefined rip",
        "mov edi, ecx",
        "call rdx",
        "mov rdi, r12",
        ".hidden __refrain_go_on",
        ".globl __refrain_go_on",
        "__refrain_go_on:",
        "ldmxcsr [rdi + 64]",
        "fldcw [rdi + 68]",
        "mov rbx, [rdi + 16]",
        "mov rbp, [rdi + 24]",
        "mov r12, [rdi + 32]",
        "mov r13, [rdi + 40]",
        "mov r14, [rdi + 48]",
        "mov r15, [rdi + 56]",
        "mov rsp, [rdi + 8]",
        "jmp [rdi]",
        ".cfi_endproc",
    )
}

const _: () = assert!(offset_of!(Saved, registers) == 0);

extern "C" fn wait_to_go_on(me: u32) {
    let saves = SAVES.load(Relaxed);
    let mut blocked = 0u64;
    // SAFETY: the kernel writes one word.
    unsafe { sys::syscall(libc::SYS_rt_sigprocmask, [0, 0, &raw mut blocked as usize, 8, 0, 0]) };
    save(me, blocked);
    SAVED_COUNT.fetch_add(1, Release);
    sys::futex_wake_all(&SAVED_COUNT);
    while SAVES.load(Acquire) == saves {
        sys::futex_wait(&SAVES, saves, LONG_NS);
    }
}

/// Writes down what the kernel knows of the calling thread.
fn save(me: u32, blocked: u64) {
    let saved = &SAVED[me as usize];
    let thread_pointer: u64;
    // SAFETY: the psABI has a thread's pointer to itself there.
    unsafe { asm!("mov {}, fs:[0]", out(reg) thread_pointer, options(nostack, readonly, preserves_flags)) };
    saved.thread_pointer.store(thread_pointer, Relaxed);
    saved.blocked.store(blocked, Relaxed);
    let at = |place: &AtomicU64| place.as_ptr() as usize;
    let [robust, robust_bytes] = saved.robust.each_ref().map(at);
    // SAFETY: the kernel writes into our words; the three of a signal stack are a `stack_t`, the two of a label sixteen bytes.
    let results = unsafe {
        [
            sys::syscall(libc::SYS_arch_prctl, [ARCH_GET_GS, at(&saved.gs), 0, 0, 0, 0]),
            sys::syscall(
                libc::SYS_prctl,
                [PR_GET_TID_ADDRESS, at(&saved.tid_address), 0, 0, 0, 0],
            ),
            sys::syscall(libc::SYS_get_robust_list, [0, robust, robust_bytes, 0, 0, 0]),
            sys::syscall(
                libc::SYS_sigaltstack,
                [0, saved.signal_stack.as_ptr() as usize, 0, 0, 0, 0],
            ),
            sys::syscall(
                libc::SYS_prctl,
                [libc::PR_GET_NAME as usize, saved.label.as_ptr() as usize, 0, 0, 0, 0],
            ),
        ]
    };
    if results.iter().any(|result| *result < 0) {
        UNSAVED.store(1, Relaxed);
    }
}

/// The checkpoint: does what the tool says. Returns in attempts.
fn serve(me: u32, socket: i32) {
    for file in SOCKETS.iter().map(|of| of.load(Relaxed)) {
        sys::close(file);
    }
    // Whoever reads the output waits until nobody has it any more. The numbers are not free for others.
    for stream in [1, 2] {
        if !sys::open(b"/dev/null\0", libc::O_WRONLY).is_ok_and(|file| sys::renumber(file, stream)) {
            end(125);
        }
    }
    let hello = Hello {
        magic: MAGIC,
        event: control_snapshot().turns.order_reached.load(Relaxed),
        shown: SHOWN.each_ref().map(|bytes| bytes.load(Relaxed)),
        process: sys::process_id(),
        reserved: 0,
    };
    send(socket, &hello);
    loop {
        let mut files = [-1; FILES_MAX];
        let Some(wish) = receive(socket, &mut files) else {
            end(0);
        };
        // SAFETY: a new process, with a copy of our memory and the stack that we stand on.
        let process = unsafe { sys::syscall(libc::SYS_clone, [libc::CLONE_PARENT as usize, 0, 0, 0, 0, 0]) };
        if process == 0 {
            sys::close(socket);
            return begin_attempt(me, wish, &files);
        }
        for file in files.into_iter().filter(|file| *file >= 0) {
            sys::close(file);
        }
        send(socket, &(process as i32));
    }
}

fn end(status: usize) -> ! {
    // SAFETY: ends the process.
    unsafe { sys::syscall(libc::SYS_exit_group, [status, 0, 0, 0, 0, 0]) };
    standstill::sleep_forever()
}

fn control_snapshot() -> &'static ControlHeader {
    // SAFETY: `snapshot` mapped it, for good, before this process was forked.
    unsafe { &*(SNAPSHOT as *const ControlHeader) }
}

fn send<T>(socket: i32, message: &T) {
    let arguments = [
        socket as usize,
        message as *const T as usize,
        size_of::<T>(),
        libc::MSG_NOSIGNAL as usize,
        0,
        0,
    ];
    // SAFETY: the kernel reads the message. If nobody wants it, the next order does not come.
    unsafe { sys::syscall(libc::SYS_sendto, arguments) };
}

/// The next order, and the files that come with it. Nothing: the tool is gone, or has no use for us.
fn receive(socket: i32, files: &mut [i32; FILES_MAX]) -> Option<&'static Order> {
    static mut ORDER: core::mem::MaybeUninit<Order> = core::mem::MaybeUninit::uninit();
    #[repr(C)]
    struct Passed {
        header: libc::cmsghdr,
        files: [i32; FILES_MAX],
    }
    // SAFETY: all-zero is a valid value of both.
    let (mut passed, mut message): (Passed, libc::msghdr) = unsafe { core::mem::zeroed() };
    let mut part = libc::iovec {
        iov_base: (&raw mut ORDER).cast(),
        iov_len: size_of::<Order>(),
    };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut passed).cast();
    message.msg_controllen = size_of::<Passed>();
    let got = loop {
        let arguments = [
            socket as usize,
            &raw mut message as usize,
            libc::MSG_CMSG_CLOEXEC as usize,
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes at most one order and one set of files.
        match unsafe { sys::syscall(libc::SYS_recvmsg, arguments) } {
            got if got == -libc::EINTR as isize => {}
            got => break got,
        }
    };
    if got != size_of::<Order>() as isize {
        return None;
    }
    if message.msg_controllen >= size_of::<libc::cmsghdr>() && passed.header.cmsg_type == libc::SCM_RIGHTS {
        let bytes = passed.header.cmsg_len - size_of::<libc::cmsghdr>();
        let count = (bytes / size_of::<i32>()).min(FILES_MAX);
        files[..count].copy_from_slice(&passed.files[..count]);
    }
    // SAFETY: the kernel has written all of it; there is one thread, and the next order comes when this one is done with.
    let order = unsafe { &*(&raw const ORDER).cast::<Order>() };
    (order.magic == MAGIC).then_some(order)
}

/// A copy of the checkpoint goes on as a process of its own. What cannot be done shows in that it never says to be there.
fn begin_attempt(me: u32, wish: &Order, files: &[i32; FILES_MAX]) {
    let [memory, output, errors, sockets @ ..] = *files;
    let tool = control_snapshot().identity.tool;
    // SAFETY: numbers only.
    let is_orphan = unsafe {
        sys::syscall(
            libc::SYS_prctl,
            [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0, 0],
        );
        sys::syscall(libc::SYS_getppid, [0; 6]) as u32 != tool
    };
    if is_orphan || !sys::renumber(output, 1) || !sys::renumber(errors, 2) || take_control(memory, wish).is_err() {
        end(125);
    }
    sys::close(memory);
    forget();
    for (at, (socket, position)) in sockets.into_iter().zip(wish.positions).enumerate() {
        if socket >= 0 {
            want(at, position, sys::duplicate(socket, FIRST_FD as usize));
            sys::close(socket);
        }
    }
    order::open_again();
    budget::begin();
    restore_kernel_state(me);
    RESTORED.store(0, Relaxed);
    let mut count = 0;
    for thread in others(me) {
        if !create(thread) {
            end(125);
        }
        count += 1;
    }
    wait_for(&RESTORED, count);
    // Release: the tool looks at it.
    control::header().progress.attached.store(1, Release);
    accesses::go_on(me);
}

/// Control memory of our own, as it was when the checkpoint was made.
fn take_control(memory: i32, wish: &Order) -> Result<(), i32> {
    // SAFETY: `snapshot` made it so long.
    let was = unsafe { core::slice::from_raw_parts(SNAPSHOT as *const u8, control_bytes_of_snapshot()) };
    let field = |offset: usize, bytes: &[u8]| sys::write_at(memory, [bytes, &[]], offset as u64);
    let directory = &wish.directory[..(wish.directory_bytes as usize).min(wish.directory.len())];
    // The settings before it are the tool's, and the same.
    let begin = offset_of!(ControlHeader, identity);
    field(begin, &was[begin..])?;
    field(offset_of!(ControlHeader, progress.attached), &0u32.to_le_bytes())?;
    field(offset_of!(ControlHeader, run_directory), directory)?;
    field(
        offset_of!(ControlHeader, identity.run_directory_bytes),
        &wish.directory_bytes.to_le_bytes(),
    )?;
    for counter in [
        offset_of!(ControlHeader, turns.points_written),
        offset_of!(ControlHeader, turns.accesses_written),
    ] {
        field(counter, &0u64.to_le_bytes())?;
    }
    sys::map_at(CONTROL_ADDRESS, CONTROL_BYTES, memory, 0, true)?;
    sys::map_at(ROOT_CONTROL_ADDRESS, CONTROL_BYTES, memory, 0, true)
}

fn control_bytes_of_snapshot() -> usize {
    let threads = (control_snapshot().progress.threads.load(Relaxed) as usize).min(THREADS_MAX);
    HEADER_BYTES + threads * size_of::<ThreadSlot>()
}

/// The arguments of a call of libc's with the names that the kernel has for threads: libc knows those of the process that was copied.
pub fn with_real_names(number: i64, arguments: &[usize; 6]) -> [usize; 6] {
    let mut real = *arguments;
    if number == libc::SYS_tgkill {
        let is_named = |thread: &u32| {
            turn_state(*thread).state() != State::Gone && turn_state(*thread).name() as usize == arguments[1]
        };
        if let Some(thread) = (0..turns::now().count()).find(is_named) {
            real[1] = control::slot(thread).os_thread.load(Relaxed) as usize;
        }
    }
    real
}

/// What the kernel has of the thread `me` and no fork copies, for the calling thread.
fn restore_kernel_state(me: u32) {
    let saved = &SAVED[me as usize];
    let [robust, robust_bytes] = saved.robust.each_ref().map(|word| word.load(Relaxed) as usize);
    let tid_address = saved.tid_address.load(Relaxed) as usize;
    // SAFETY: what the thread had told the kernel of its memory.
    unsafe {
        sys::syscall(libc::SYS_set_tid_address, [tid_address, 0, 0, 0, 0, 0]);
        if robust != 0 {
            sys::syscall(libc::SYS_set_robust_list, [robust, robust_bytes, 0, 0, 0, 0]);
        }
    }
    control::slot(me).os_thread.store(sys::thread_id(), Relaxed);
}

/// The thread is about to end. The kernel tells others of locks that it dies with, if they have the name that the kernel has for it.
pub fn rename_locks(me: u32) {
    const OFFSET_AT: u64 = 8;
    const PENDING_AT: u64 = 16;
    const OWNER: u32 = 0x3fff_ffff;
    /// As many as the kernel looks at.
    const LOCKS_MAX: u32 = 2048;
    let (name, real) = (turn_state(me).name(), control::slot(me).os_thread.load(Relaxed));
    let head = SAVED[me as usize].robust[0].load(Relaxed);
    if name == real || head == 0 {
        return;
    }
    // SAFETY: the list that the thread has told the kernel of, with words of its locks; the lowest bit of an entry is a mark.
    let word_at = |place: u64| unsafe { (place as *const u64).read_volatile() };
    let offset = word_at(head + OFFSET_AT);
    let rename = |entry: u64| {
        // SAFETY: an entry of the list that the thread has told the kernel of, and so the word of a lock, at the offset
        // that the list has for all.
        let lock = unsafe { AtomicU32::from_ptr((entry & !1).wrapping_add(offset) as *mut u32) };
        let now = lock.load(Relaxed);
        if now & OWNER == name {
            lock.store(now & !OWNER | real, Relaxed);
        }
    };
    let mut entry = word_at(head);
    for _ in 0..LOCKS_MAX {
        if entry & !1 == head {
            break;
        }
        rename(entry);
        entry = word_at(entry & !1);
    }
    let pending = word_at(head + PENDING_AT);
    if pending != 0 {
        rename(pending);
    }
}

/// A new thread in the place of `thread`, which waits.
fn create(thread: u32) -> bool {
    let saved = &SAVED[thread as usize];
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS;
    let stack = stack_of(thread) + STACK_BYTES as u64;
    // SAFETY: a thread that this process does not have was on this stack of ours, in `wait_to_go_on`, and needs nothing of it any more.
    unsafe { clone_to_go_on(flags as usize, stack, saved, thread) > 0 }
}

/// # Safety
/// `hold` wrote `saved`, in a thread that is not there, and nobody uses `stack`.
#[unsafe(naked)]
unsafe extern "C" fn clone_to_go_on(flags: usize, stack: u64, saved: &Saved, thread: u32) -> isize {
    naked_asm!(
        ".cfi_startproc",
        "push r12",
        "mov r12, rdx",
        "mov r9d, ecx",
        "mov r8, [rdx + {thread_pointer}]",
        "xor edx, edx",
        "xor r10d, r10d",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jne 2f",
        "mov edi, r9d",
        "call {stand_again}",
        "mov rdi, r12",
        "jmp __refrain_go_on",
        "2:",
        "pop r12",
        "ret",
        ".cfi_endproc",
        clone = const libc::SYS_clone,
        thread_pointer = const offset_of!(Saved, thread_pointer),
        stand_again = sym stand_again,
    )
}

/// The first that a new thread does: it becomes what the old one was. All signals are blocked.
extern "C" fn stand_again(me: u32) {
    restore_kernel_state(me);
    let saved = &SAVED[me as usize];
    let word = |word: &AtomicU64| word.load(Relaxed);
    let [start, flags, bytes] = saved.signal_stack.each_ref().map(word);
    let signal_stack = [start, flags & !IN_USE, bytes];
    let gs = word(&saved.gs);
    // SAFETY: what the kernel said of the old thread.
    unsafe {
        if flags & DISABLED == 0 {
            let stack = signal_stack.as_ptr() as usize;
            sys::syscall(libc::SYS_sigaltstack, [stack, 0, 0, 0, 0, 0]);
        }
        if gs != 0 {
            sys::syscall(libc::SYS_arch_prctl, [ARCH_SET_GS, gs as usize, 0, 0, 0, 0]);
        }
        let label = saved.label.as_ptr() as usize;
        sys::syscall(libc::SYS_prctl, [libc::PR_SET_NAME as usize, label, 0, 0, 0, 0]);
    }
    RESTORED.fetch_add(1, Release);
    sys::futex_wake_all(&RESTORED);
    handlers::restore(word(&saved.blocked));
}
