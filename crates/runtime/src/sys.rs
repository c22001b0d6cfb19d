//! Raw system calls: no errno, no cancellation points, nothing of libc's.
use crate::line::Line;
use core::arch::asm;
use core::arch::naked_asm;
use core::sync::atomic::AtomicU32;
use thread_cells::HandlerWord;

/// Makes a system call; the result is the kernel's (negative: an errno).
///
/// # Safety
/// As the system call `number` demands of its arguments.
pub unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel clobbers rcx, r11 and rax only; the caller promises what the call demands of its arguments,
    // and so what it does to memory.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// The same for a call of the program's: its filters hold for it (`calls::filters`).
///
/// # Safety
/// As the system call `number` demands of its arguments.
pub unsafe fn programs_syscall(number: i64, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller promises what the system call `number` demands of its arguments.
    unsafe { enter_plain_call(number, &arguments) }
}

/// # Safety
/// As the system call demands of its arguments.
#[unsafe(naked)]
unsafe extern "C" fn enter_plain_call(number: i64, arguments: &[usize; 6]) -> isize {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        ".hidden __refrain_plain_call_begun",
        ".globl __refrain_plain_call_begun",
        "syscall",
        "__refrain_plain_call_begun:",
        "ret",
        ".cfi_endproc",
    )
}

/// The result of a call that was not made because a filter of the program's traps it. It is no errno, and no result of another call.
pub const TRAPPED: isize = -(1 << 40);

/// What `waiting_syscall` yields if the call was not made, or is to be made again: a signal's handler comes first. The kernel uses
/// this number inside for the same, and gives it to no program.
pub const PUT_OFF: isize = -512;

/// The same, for a call that may wait, and that `leave_call` can end. If `pending` is not 0 it is put off; between the look at that and
/// the instruction there is no gap, as a signal that comes there has the call left.
///
/// # Safety
/// As the system call `number` demands of its arguments.
pub unsafe fn waiting_syscall(number: i64, arguments: [usize; 6], pending: &HandlerWord) -> isize {
    // SAFETY: the caller promises what the system call `number` demands of its arguments.
    unsafe { enter_call(number, &arguments, pending) }
}

/// # Safety
/// As the system call demands of its arguments.
#[unsafe(naked)]
unsafe extern "C" fn enter_call(number: i64, arguments: &[usize; 6], pending: &HandlerWord) -> isize {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "mov r11, rsi",
        "cmp qword ptr [rdx], 0",
        "jne 2f",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        ".hidden __refrain_call_begun",
        ".globl __refrain_call_begun",
        "syscall",
        "__refrain_call_begun:",
        "ret",
        "2:",
        "mov rax, {put_off}",
        "ret",
        ".cfi_endproc",
        put_off = const PUT_OFF,
    )
}

/// In a signal handler: if the interrupted thread is about to make its `waiting_syscall`, or to make it once more (the
/// kernel has then put it back before the instruction), the call is left out and yields `result`.
pub fn leave_call(context: &mut libc::ucontext_t, result: isize) {
    unsafe extern "C" {
        static __refrain_call_begun: u8;
    }
    let registers = &mut context.uc_mcontext.gregs;
    let begun = &raw const __refrain_call_begun as usize;
    let before = enter_call as *const () as usize..begun;
    if before.contains(&(registers[libc::REG_RIP as usize] as usize)) {
        registers[libc::REG_RAX as usize] = result as i64;
        registers[libc::REG_RIP as usize] = begun as i64;
    }
}

pub const PROTECTION: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;

/// Maps `bytes` at `address`, replacing nothing; `file` < 0 means private, zero and not backed by swap until touched.
pub fn map_at(address: u64, bytes: usize, file: i32, offset: u64, replace: bool) -> Result<(), i32> {
    let placement = if replace {
        libc::MAP_FIXED
    } else {
        libc::MAP_FIXED_NOREPLACE
    };
    let sharing = if file >= 0 {
        libc::MAP_SHARED
    } else {
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE
    };
    // SAFETY: a fixed mapping inside a region that only this library uses (NOTE [Address space]).
    let got = unsafe {
        syscall(
            libc::SYS_mmap,
            [
                address as usize,
                bytes,
                PROTECTION,
                (placement | sharing) as usize,
                file as usize,
                offset as usize,
            ],
        )
    };
    if got == address as isize {
        Ok(())
    } else {
        Err(if got < 0 { -got as i32 } else { libc::EEXIST })
    }
}

/// Nothing is mapped there any more.
///
/// # Safety
/// Nobody uses it.
pub unsafe fn unmap(address: u64, bytes: usize) {
    // SAFETY: the caller promises that nobody uses it. It cannot fail for whole pages.
    unsafe { syscall(libc::SYS_munmap, [address as usize, bytes, 0, 0, 0, 0]) };
}

/// Can the program read these bytes? The kernel says so, page by page, and nothing is done.
pub fn is_readable(address: usize, bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let Some(last) = address.checked_add(bytes.saturating_sub(1)) else {
        return false;
    };
    // No way to change the mask: a set that can be read is refused as EINVAL, any other one as EFAULT. Null would be no set.
    const NO_WAY: usize = 99;
    const AT: usize = 8;
    let is_page_readable = |page: usize| {
        // SAFETY: the kernel reads eight bytes there, if it can, and writes nothing.
        let refused = unsafe { syscall(libc::SYS_rt_sigprocmask, [NO_WAY, page * PAGE + AT, 0, 8, 0, 0]) };
        refused != -libc::EFAULT as isize
    };
    (address / PAGE..=last / PAGE).all(is_page_readable)
}

/// Makes `[address, address + bytes)` inaccessible: a guard below a stack.
pub fn forbid(address: u64, bytes: usize) {
    // SAFETY: callers pass pages of the arena that nothing uses.
    unsafe {
        syscall(
            libc::SYS_mprotect,
            [address as usize, bytes, libc::PROT_NONE as usize, 0, 0, 0],
        )
    };
}

/// Maps memory wherever there is room; 0: there is none.
pub fn map_anywhere(bytes: usize) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory replaces nothing.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, PROTECTION, flags as usize, usize::MAX, 0]) };
    got.max(0) as u64
}

/// Gives pages the protection that the program wants for them.
pub fn protect(address: u64, bytes: usize, protection: usize) {
    // SAFETY: callers pass a mapping of the program's.
    unsafe { syscall(libc::SYS_mprotect, [address as usize, bytes, protection, 0, 0, 0]) };
}

/// The mode of files that the runtime creates: what is recorded is its owner's alone.
const FOR_THE_OWNER: usize = 0o600;
const DIRECTORY_FOR_THE_OWNER: usize = 0o700;

/// Opens the NUL-terminated `path`; returns the descriptor or the errno.
pub fn open(path: &[u8], flags: i32) -> Result<i32, i32> {
    open_at(libc::AT_FDCWD, path, flags)
}

/// The same, for a path that begins in an open directory.
pub fn open_at(directory: i32, path: &[u8], flags: i32) -> Result<i32, i32> {
    assert!(path.last() == Some(&0));
    // SAFETY: `path` ends with NUL, as just checked.
    let got = unsafe {
        syscall(
            libc::SYS_openat,
            [
                directory as usize,
                path.as_ptr() as usize,
                (flags | libc::O_CLOEXEC) as usize,
                FOR_THE_OWNER,
                0,
                0,
            ],
        )
    };
    if got >= 0 { Ok(got as i32) } else { Err(-got as i32) }
}

/// Gives back what the program's umask has taken away from the owner of a file that was just created.
pub fn make_private(file: i32) {
    // SAFETY: touches no memory. Who may not do this has the file as the umask left it.
    unsafe { syscall(libc::SYS_fchmod, [file as usize, FOR_THE_OWNER, 0, 0, 0, 0]) };
}

/// The same file at a further descriptor, `least` or above; or -1.
pub fn duplicate(file: i32, least: usize) -> i32 {
    let arguments = [file as usize, libc::F_DUPFD_CLOEXEC as usize, least, 0, 0, 0];
    // SAFETY: touches no memory.
    let got = unsafe { syscall(libc::SYS_fcntl, arguments) };
    if got >= 0 { got as i32 } else { -1 }
}

/// Copies memory of this process that may not be there. Returns how many bytes of it are, from its beginning.
pub fn copy_own(from: usize, to: usize, bytes: usize) -> usize {
    const PAGE_BYTES: usize = 4096;
    // Of a piece that is not there as a whole the kernel need not copy anything.
    let first = bytes.min(PAGE_BYTES - from % PAGE_BYTES);
    let piece = |base: usize, bytes: usize| libc::iovec {
        iov_base: base as *mut core::ffi::c_void,
        iov_len: bytes,
    };
    let own = [piece(to, bytes)];
    let pieces = [piece(from, first), piece(from.wrapping_add(first), bytes - first)];
    let arguments = [
        process_id() as usize,
        own.as_ptr() as usize,
        own.len(),
        pieces.as_ptr() as usize,
        pieces.len(),
        0,
    ];
    // SAFETY: callers give memory of theirs to be written; what is read is checked by the kernel.
    unsafe { syscall(libc::SYS_process_vm_readv, arguments) }.max(0) as usize
}

/// Makes `user` the owner of a file in an open directory, or of that itself if the name is empty; if we may.
pub fn give_to(directory: i32, name: &[u8], user: u32) {
    assert!(name.last() == Some(&0));
    let any_group = u32::MAX as usize;
    // SAFETY: `name` ends with NUL, as just checked.
    unsafe {
        syscall(
            libc::SYS_fchownat,
            [
                directory as usize,
                name.as_ptr() as usize,
                user as usize,
                any_group,
                (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) as usize,
                0,
            ],
        )
    };
}

/// Is the descriptor a terminal?
pub fn is_terminal(file: i32) -> bool {
    // As long as the kernel's termios, and longer.
    let mut settings = [0u64; 16];
    let arguments = [
        file as usize,
        libc::TCGETS as usize,
        settings.as_mut_ptr() as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes fewer bytes than there is room for.
    unsafe { syscall(libc::SYS_ioctl, arguments) == 0 }
}

pub fn close(file: i32) {
    // SAFETY: closing a descriptor touches no memory.
    unsafe { syscall(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]) };
}

/// Makes room for `[offset, offset + bytes)`, so that touching a mapping of it cannot fail.
pub fn allocate(file: i32, offset: u64, bytes: usize) -> Result<(), i32> {
    check_file_limit(offset + bytes as u64)?;
    // SAFETY: changes a file, not memory.
    let got = unsafe { syscall(libc::SYS_fallocate, [file as usize, 0, offset as usize, bytes, 0, 0]) };
    if got == 0 { Ok(()) } else { Err(-got as i32) }
}

/// The same for what is written to the file later: its length stays as it is.
pub fn allocate_ahead(file: i32, offset: u64, bytes: u64) -> Result<(), i32> {
    check_file_limit(offset + bytes)?;
    let arguments = [
        file as usize,
        libc::FALLOC_FL_KEEP_SIZE as usize,
        offset as usize,
        bytes as usize,
        0,
        0,
    ];
    // SAFETY: changes a file, not memory.
    let got = unsafe { syscall(libc::SYS_fallocate, arguments) };
    if got == 0 { Ok(()) } else { Err(-got as i32) }
}

pub fn write_all(file: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads `bytes`, which is valid memory.
        let got = unsafe {
            syscall(
                libc::SYS_write,
                [file as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
            )
        };
        match got {
            n if n > 0 => bytes = &bytes[n as usize..],
            n if n == -libc::EINTR as isize => {}
            _ => return,
        }
    }
}

/// Writes both parts, one behind the other, from `offset` on.
pub fn write_at(file: i32, parts: [&[u8]; 2], mut offset: u64) -> Result<(), i32> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    check_file_limit(offset + bytes as u64)?;
    let part = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut parts = parts.map(part);
    while parts.iter().any(|part| part.iov_len != 0) {
        // SAFETY: the kernel reads memory that the slices cover.
        let got = unsafe {
            syscall(
                libc::SYS_pwritev,
                [
                    file as usize,
                    parts.as_ptr() as usize,
                    parts.len(),
                    offset as usize,
                    0,
                    0,
                ],
            )
        };
        let mut written = match got {
            n if n > 0 => n as usize,
            n if n == -libc::EINTR as isize => 0,
            0 => return Err(libc::ENOSPC),
            n => return Err(-n as i32),
        };
        offset += written as u64;
        for part in &mut parts {
            let done = written.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(done);
            part.iov_len -= done;
            written -= done;
        }
    }
    Ok(())
}

pub fn read(file: i32, buffer: &mut [u8]) -> isize {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
    unsafe {
        syscall(
            libc::SYS_read,
            [file as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
        )
    }
}

/// Where the symbolic link `path` leads; empty if it is none.
pub fn read_link<'a>(path: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    assert!(path.last() == Some(&0));
    // SAFETY: `path` ends with NUL; the kernel writes at most `buffer.len()` bytes into `buffer`.
    let got = unsafe {
        syscall(
            libc::SYS_readlinkat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
            ],
        )
    };
    &buffer[..got.max(0) as usize]
}

/// Has the line of the cache that holds `address` fetched, so that it can be written or only read.
#[inline(always)]
pub fn prefetch(address: u64, to_write: bool) {
    // SAFETY: a hint, which touches nothing, whatever the address. Processors that do not know the first one ignore it.
    unsafe {
        if to_write {
            asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
        } else {
            asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }
}

/// The kernel's clock that only goes forwards, not the one that the program may be shown.
pub fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    let arguments = [libc::CLOCK_MONOTONIC as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes a timespec, which is two 64-bit numbers.
    unsafe { syscall(libc::SYS_clock_gettime, arguments) };
    time[0] * 1_000_000_000 + time[1]
}

pub fn yield_now() {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
}

/// Bytes that were written to a pipe, by one of its ends, and not yet read; 0 if it is none.
pub fn bytes_in_pipe(descriptor: i32) -> i32 {
    let mut bytes = 0i32;
    // SAFETY: the kernel writes one number.
    unsafe {
        syscall(
            libc::SYS_ioctl,
            [
                descriptor as usize,
                libc::FIONREAD as usize,
                &raw mut bytes as usize,
                0,
                0,
                0,
            ],
        )
    };
    bytes
}

/// Has somebody the other end of a pipe whose end for writing this is?
pub fn has_reader(descriptor: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: descriptor,
        events: 0,
        revents: 0,
    };
    // SAFETY: the kernel reads and writes one valid pollfd, and waits for nothing.
    unsafe { syscall(libc::SYS_poll, [&raw mut poll as usize, 1, 0, 0, 0, 0]) };
    poll.revents & (libc::POLLERR | libc::POLLNVAL) == 0
}

/// Sends a signal to a thread of this process.
pub fn signal_thread(id: u32, signal: i32) {
    let arguments = [process_id() as usize, id as usize, signal as usize, 0, 0, 0];
    // SAFETY: touches no memory.
    unsafe { syscall(libc::SYS_tgkill, arguments) };
}

/// A limit of the process's (`RLIMIT_…`): what holds, and how far the process may raise that.
pub fn limit(resource: u32) -> [u64; 2] {
    let mut limit = [u64::MAX; 2];
    let arguments = [0, resource as usize, 0, limit.as_mut_ptr() as usize, 0, 0];
    // SAFETY: the kernel writes two 64-bit numbers.
    unsafe { syscall(libc::SYS_prlimit64, arguments) };
    limit
}

pub fn set_limit(resource: u32, limit: [u64; 2]) {
    let arguments = [0, resource as usize, limit.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel reads two 64-bit numbers.
    unsafe { syscall(libc::SYS_prlimit64, arguments) };
}

/// A file that would be longer than the program's may be: the kernel refuses that with a signal, which the program is not to get.
fn check_file_limit(end: u64) -> Result<(), i32> {
    let [most, _] = limit(libc::RLIMIT_FSIZE);
    if end > most { Err(libc::EFBIG) } else { Ok(()) }
}

pub fn sleep_ns(nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: a timespec is two 64-bit numbers; the remainder is not wanted.
    unsafe { syscall(libc::SYS_nanosleep, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Sleeps while `word` is `value`, until somebody wakes it, or for so long.
pub fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let (place, timeout) = (word.as_ptr() as usize, time.as_ptr() as usize);
    // SAFETY: the kernel reads a valid word and a timespec, which is two 64-bit numbers. Private, though the
    // words are in a shared mapping: only threads of this process wait for them.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                place,
                (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
                value as usize,
                timeout,
                0,
                0,
            ],
        )
    };
}

pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the kernel only looks for who waits at the word's address; nothing is read or written.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize,
                i32::MAX as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// The same between processes that share the word's memory.
pub fn shared_futex_wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let (place, timeout) = (word.as_ptr() as usize, time.as_ptr() as usize);
    // SAFETY: the kernel reads a valid word and a timespec.
    unsafe {
        syscall(
            libc::SYS_futex,
            [place, libc::FUTEX_WAIT as usize, value as usize, timeout, 0, 0],
        )
    };
}

pub fn shared_futex_wake_all(word: &AtomicU32) {
    // SAFETY: the kernel only looks for who waits at the word's address; nothing is read or written.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                libc::FUTEX_WAKE as usize,
                i32::MAX as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// The result of a call that touches no memory but what the kernel only reads.
fn plain(result: isize) -> Result<isize, i32> {
    if result >= 0 { Ok(result) } else { Err(-result as i32) }
}

/// Creates the directory with the NUL-terminated `path`, for its owner alone.
pub fn make_directory(path: &[u8]) -> Result<(), i32> {
    assert!(path.last() == Some(&0));
    // SAFETY: `path` ends with NUL, as just checked.
    plain(unsafe {
        syscall(
            libc::SYS_mkdir,
            [path.as_ptr() as usize, DIRECTORY_FOR_THE_OWNER, 0, 0, 0, 0],
        )
    })?;
    // SAFETY: the same path. Whatever the program's umask takes away from its owner is given back.
    plain(unsafe {
        syscall(
            libc::SYS_chmod,
            [path.as_ptr() as usize, DIRECTORY_FOR_THE_OWNER, 0, 0, 0, 0],
        )
    })
    .map(drop)
}

pub fn set_length(file: i32, bytes: u64) -> Result<(), i32> {
    check_file_limit(bytes)?;
    // SAFETY: changes a file, not memory.
    plain(unsafe { syscall(libc::SYS_ftruncate, [file as usize, bytes as usize, 0, 0, 0, 0]) }).map(drop)
}

/// Makes `file` the descriptor `number`, which the next program will have, too. False: it is closed.
pub fn renumber(file: i32, number: i32) -> bool {
    // SAFETY: changes descriptors, not memory.
    let done = unsafe { syscall(libc::SYS_dup2, [file as usize, number as usize, 0, 0, 0, 0]) } >= 0;
    close(file);
    done
}

/// Waits until no other process has this file locked. The lock is given up when the descriptor is closed.
pub fn lock_file(file: i32) {
    // SAFETY: touches no memory.
    while unsafe { syscall(libc::SYS_flock, [file as usize, libc::LOCK_EX as usize, 0, 0, 0, 0]) }
        == -libc::EINTR as isize
    {}
}

/// For all descriptors of the same opening.
pub fn unlock_file(file: i32) {
    // SAFETY: touches no memory.
    unsafe { syscall(libc::SYS_flock, [file as usize, libc::LOCK_UN as usize, 0, 0, 0, 0]) };
}

/// Where in the file the descriptor stands.
pub fn position(file: i32) -> u64 {
    // SAFETY: touches no memory.
    let got = unsafe { syscall(libc::SYS_lseek, [file as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) };
    got.max(0) as u64
}

/// What the kernel says of the file at `path`, which ends with a zero.
pub fn status_of(path: &[u8]) -> Option<libc::stat> {
    // SAFETY: a stat of zeros is valid, and the kernel fills it; the path ends with a zero.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        let arguments = [path.as_ptr() as usize, &raw mut stat as usize, 0, 0, 0, 0];
        (syscall(libc::SYS_stat, arguments) == 0).then_some(stat)
    }
}

/// The signals that the thread has blocked: a bit for each, the first one's the lowest.
pub fn signal_mask() -> u64 {
    let mut mask = 0u64;
    let arguments = [
        libc::SIG_BLOCK as usize,
        0,
        &raw mut mask as usize,
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: the kernel writes the one word, and changes nothing.
    unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) };
    mask
}

/// Goes into a directory that is open.
pub fn change_directory(directory: i32) {
    // SAFETY: touches no memory.
    unsafe { syscall(libc::SYS_fchdir, [directory as usize, 0, 0, 0, 0, 0]) };
}

/// Maps what is mapped at `from`, shared, at `to` as well, in the place of whatever is there.
pub fn duplicate_mapping(from: u64, to: u64, bytes: usize) -> bool {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: a length of 0 leaves the old mapping as it is; both are in a region that only this library uses.
    let got = unsafe { syscall(libc::SYS_mremap, [from as usize, 0, bytes, flags, to as usize, 0]) };
    got == to as isize
}

pub fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as u32 }
}

/// What the kernel knows about an open file.
pub fn status(file: i32) -> Option<libc::stat> {
    // SAFETY: all-zero is a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes one stat.
    let got = unsafe { syscall(libc::SYS_fstat, [file as usize, &raw mut status as usize, 0, 0, 0, 0]) };
    (got == 0).then_some(status)
}

/// What tells a file from one that has its inode later, and what else is asked with it.
pub struct ExtendedStatus {
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    /// How many of them have a place on the disk, or in memory; the others are zeros.
    pub held_bytes: u64,
    pub mode: u32,
    /// When the file was made; 0 if the file system does not know.
    pub birth_ns: u64,
}

pub fn extended_status(file: i32) -> Option<ExtendedStatus> {
    // SAFETY: all-zero is a valid statx.
    let mut status: libc::statx = unsafe { core::mem::zeroed() };
    let arguments = [
        file as usize,
        c"".as_ptr() as usize,
        libc::AT_EMPTY_PATH as usize,
        (libc::STATX_BASIC_STATS | libc::STATX_BTIME) as usize,
        &raw mut status as usize,
        0,
    ];
    // SAFETY: the path ends with NUL, and the kernel writes one statx.
    let got = unsafe { syscall(libc::SYS_statx, arguments) };
    let has_birth = status.stx_mask & libc::STATX_BTIME != 0;
    let birth_ns = (status.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(status.stx_btime.tv_nsec);
    (got == 0).then_some(ExtendedStatus {
        device: u64::from(status.stx_dev_major) << 32 | u64::from(status.stx_dev_minor),
        inode: status.stx_ino,
        bytes: status.stx_size,
        held_bytes: status.stx_blocks.wrapping_mul(512),
        mode: u32::from(status.stx_mode),
        birth_ns: if has_birth { birth_ns } else { 0 },
    })
}

/// A new file in memory, at a descriptor `least` or above.
pub fn memory_file(least: usize) -> Result<i32, i32> {
    let name = b"refrain\0";
    // SAFETY: the name ends with NUL.
    let got = unsafe { syscall(libc::SYS_memfd_create, [name.as_ptr() as usize, 0, 0, 0, 0, 0]) };
    if got < 0 {
        return Err(-got as i32);
    }
    let file = duplicate(got as i32, least);
    close(got as i32);
    if file < 0 { Err(libc::EMFILE) } else { Ok(file) }
}

pub fn is_open_to_write(file: i32) -> bool {
    // SAFETY: touches no memory.
    let flags = unsafe { syscall(libc::SYS_fcntl, [file as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
}

/// Is it open to be written, and not to be read?
pub fn is_only_written(file: i32) -> bool {
    // SAFETY: touches no memory.
    let flags = unsafe { syscall(libc::SYS_fcntl, [file as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as i32 & libc::O_ACCMODE == libc::O_WRONLY
}

/// The same file, opened once more, to be read.
pub fn open_again(file: i32) -> Result<i32, i32> {
    let mut path = Line::default();
    path.text(b"/proc/self/fd/");
    path.number(file.max(0) as u64);
    path.text(b"\0");
    open(path.bytes(), libc::O_RDONLY)
}

/// Reads bytes of a file from an offset on, to `to`; how many there were.
pub fn read_at(file: i32, to: usize, bytes: usize, offset: u64) -> usize {
    // SAFETY: callers give memory of theirs to be written.
    unsafe { syscall(libc::SYS_pread64, [file as usize, to, bytes, offset as usize, 0, 0]) }.max(0) as usize
}

/// Where the next bytes of a file are that are not a hole, from an offset on, and where they end; of a file system that knows no holes, all. Moves the
/// descriptor's position.
pub fn next_data(file: i32, offset: u64) -> Option<[u64; 2]> {
    let seek = |offset: u64, whence: i32| {
        // SAFETY: touches no memory.
        unsafe {
            syscall(
                libc::SYS_lseek,
                [file as usize, offset as usize, whence as usize, 0, 0, 0],
            )
        }
    };
    let start = match seek(offset, libc::SEEK_DATA) {
        start if start >= 0 => start as u64,
        error if error == -libc::ENXIO as isize => return None,
        _ => offset,
    };
    match seek(start, libc::SEEK_HOLE) {
        end if end >= 0 => Some([start, end as u64]),
        _ => Some([start, u64::MAX]),
    }
}

/// Bytes of an open file; 0 if they cannot be told.
pub fn file_bytes(file: i32) -> u64 {
    status(file).map_or(0, |status| status.st_size as u64)
}

/// Device and inode of an open file; zeros if there is none.
pub fn file_identity(file: i32) -> [u64; 2] {
    status(file).map_or([0; 2], |status| [status.st_dev, status.st_ino])
}

/// Maps a part of a file at `address`, to be read only.
pub fn map_to_read(address: u64, bytes: usize, file: i32, offset: usize) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a fixed mapping inside a region that only this library uses (NOTE [Address space]).
    let got = unsafe {
        syscall(
            libc::SYS_mmap,
            [
                address as usize,
                bytes,
                libc::PROT_READ as usize,
                flags as usize,
                file as usize,
                offset,
            ],
        )
    };
    if got == address as isize {
        Ok(())
    } else {
        Err(-got as i32)
    }
}

/// Processors that we may use.
pub fn processors() -> u64 {
    let mut set = [0u64; 128];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe {
        syscall(
            libc::SYS_sched_getaffinity,
            [0, size_of_val(&set), set.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    if got <= 0 {
        return 1;
    }
    set.iter().map(|word| u64::from(word.count_ones())).sum()
}

pub fn thread_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Is there a process with this id, whoever's it is?
pub fn is_process(id: u32) -> bool {
    // SAFETY: signal 0 is none; no memory is touched.
    unsafe { syscall(libc::SYS_kill, [id as usize, 0, 0, 0, 0, 0]) != -libc::ESRCH as isize }
}

/// Is there a thread of ours with this id?
pub fn is_thread(id: u32) -> bool {
    // SAFETY: signal 0 is none; no memory is touched.
    unsafe {
        let process = syscall(libc::SYS_getpid, [0; 6]) as usize;
        syscall(libc::SYS_tgkill, [process, id as usize, 0, 0, 0, 0]) == 0
    }
}

const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

pub fn register_barrier() -> bool {
    // SAFETY: membarrier touches no memory of ours.
    unsafe {
        syscall(
            libc::SYS_membarrier,
            [MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0],
        ) == 0
    }
}

/// Every other thread of the process passes a full memory barrier before this returns.
pub fn barrier_everywhere() {
    // SAFETY: the call touches no memory.
    let got = unsafe { syscall(libc::SYS_membarrier, [MEMBARRIER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0]) };
    assert!(got == 0, "membarrier failed: {got}");
}

/// Waits a little longer each time it is asked: first spinning, then yielding, then sleeping.
#[derive(Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 512;
    const SLEEP_NS: u64 = 50_000;

    pub fn wait(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        rest(self.rounds);
    }
}

/// Somebody has looked `rounds` times in vain for what another thread is about to do.
pub fn rest(rounds: u32) {
    match rounds {
        0..=Backoff::SPINS => core::hint::spin_loop(),
        rounds if rounds <= Backoff::YIELDS => yield_now(),
        _ => sleep_ns(Backoff::SLEEP_NS),
    }
}

/// The kernel's idea of an action.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

/// A timer that sends `signal`, with `value`, to the calling thread; it is not set. `None`: there are too many.
pub fn create_timer(signal: i32, value: usize) -> Option<u32> {
    #[repr(C)]
    struct Event {
        value: usize,
        signal: i32,
        notify: i32,
        thread: u32,
        rest: [u32; 11],
    }
    let event = Event {
        value,
        signal,
        notify: libc::SIGEV_THREAD_ID,
        thread: thread_id(),
        rest: [0; 11],
    };
    let mut made = 0i32;
    let (event, made_at) = (&raw const event as usize, &raw mut made as usize);
    let arguments = [libc::CLOCK_MONOTONIC as usize, event, made_at, 0, 0, 0];
    // SAFETY: the kernel reads an event, and writes a number.
    let result = unsafe { syscall(libc::SYS_timer_create, arguments) };
    (result == 0).then_some(made as u32)
}

/// Sets a timer of ours: to come after so many nanoseconds, and then every so many, or once if that is 0.
pub fn set_timer(timer: u32, after_ns: u64, every_ns: u64) {
    let times = [0, every_ns, 0, after_ns];
    // SAFETY: the kernel reads two times.
    unsafe {
        syscall(
            libc::SYS_timer_settime,
            [timer as usize, 0, times.as_ptr() as usize, 0, 0, 0],
        )
    };
}
