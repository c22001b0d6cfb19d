//! Streams, and output to descriptors: the order of operations on each is recorded, so that bytes come back in the same
//! order, and go to the threads they went to.
//!
//! `printf` and its kin are variadic: `variadic.rs`.
use crate::calls;
use crate::control;
use crate::ghost::observed;
use crate::interpose::Holding;
use crate::interpose::acquire;
use crate::interpose::in_order;
use crate::interpose::release;
use crate::interpose::variadic::variadic;
use crate::local::Local;
use crate::real;
use crate::sys;
use crate::turns;
use core::ffi::c_char;
use core::ffi::c_int;
use core::ffi::c_long;
use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use libc::FILE;
use run_model::Op;
use runtime_abi::turns_file::what;

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
}

fn object_of_stream(stream: *mut FILE) -> u64 {
    // SAFETY: the program's stream; a stream without a descriptor has -1.
    let file = unsafe { libc::fileno(stream) };
    if file >= 0 {
        calls::object_of_descriptor(file)
    } else {
        stream as u64
    }
}

/// Does `action`, which writes to `stream` or reads from it, in the recorded order of such actions.
fn on_stream<R>(stream: *mut FILE, action: impl FnOnce() -> R) -> R {
    // As long as there is one thread there is one order. Its first spawn is an event, so a replay agrees.
    let Some(local) = observed().filter(|_| control::header().progress.threads.load(Relaxed) > 1) else {
        return on_stream_in_order(stream, action);
    };
    let object = object_of_stream(stream);
    let action = |local: &Local| local.with_stream(object, action);
    local.exclusively_after(Op::Output, object, action, || Stream::lock(stream))
}

impl Local {
    /// Does what uses the stream or descriptor that `object` stands for: calls on state of the process's own are then ordered by it, too (`calls/ordered.rs`).
    fn with_stream<R>(&self, object: u64, action: impl FnOnce() -> R) -> R {
        let outside = self.inputs.stream_object.replace(object);
        let result = action();
        self.inputs.stream_object.set(outside);
        result
    }
}

/// Scope `inputs`. The stream has a lock.
fn on_stream_in_order<R>(stream: *mut FILE, action: impl FnOnce() -> R) -> R {
    if in_order::placed().is_none() {
        turns::at_switch_point_of(stream as u64, what::ACQUIRE, 0);
        return in_order::release(Op::StreamUnlock, stream as u64, 0, action);
    }
    let lock = || {
        // SAFETY: the program's stream.
        unsafe { real::flockfile(stream) };
        0
    };
    in_order::acquire(Op::StreamLock, stream as u64, 0, lock, lock);
    let result = turns::quietly(action);
    // SAFETY: locked above.
    in_order::release(Op::StreamUnlock, stream as u64, 0, || unsafe {
        real::funlockfile(stream)
    });
    result
}

/// A stream, locked: before the object that stands for it, because the program may hold this lock already.
struct Stream(*mut FILE);

impl Stream {
    fn lock(stream: *mut FILE) -> Stream {
        // SAFETY: the program's stream.
        unsafe { real::flockfile(stream) };
        Stream(stream)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: locked by `lock`.
        unsafe { real::funlockfile(self.0) };
    }
}

/// Does `action`, which writes these buffers, or copies of them, to the descriptor.
fn on_descriptor<R>(file: c_int, buffers: &[libc::iovec], action: impl FnOnce(&[libc::iovec]) -> R) -> R {
    let Some(local) = observed() else {
        return action(buffers);
    };
    // What the kernel reads is a read.
    let gathered = control::observes_memory().then(|| local.gather_buffers(buffers, |_| false));
    let gathered = gathered.flatten();
    let buffers = gathered.as_ref().map_or(buffers, |gathered| gathered.buffers());
    let object = calls::object_of_descriptor(file);
    local.exclusively(Op::Output, object, |local: &Local| {
        local.with_stream(object, || action(buffers))
    })
}

/// libc tests for cancellation inside these calls, where we cannot have it.
fn test_cancel_around<R>(action: impl FnOnce() -> R) -> R {
    let test = || {
        if let Some(local) = observed() {
            local.test_cancel();
        }
    };
    test();
    let result = action();
    test();
    result
}

/// Declares functions that use a stream.
macro_rules! stream_functions {
    ($($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)? = $stream:expr;)*) => {$(
        /// # Safety
        /// As for libc's function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the program's own call; libc's streams exist as long as the process.
            unsafe { on_stream($stream, || real::$name($($argument),*)) }
        }
    )*};
}

stream_functions! {
    fputs(text: *const c_char, stream: *mut FILE) -> c_int = stream;
    fputc(byte: c_int, stream: *mut FILE) -> c_int = stream;
    putc(byte: c_int, stream: *mut FILE) -> c_int = stream;
    putchar(byte: c_int) -> c_int = stdout;
    puts(text: *const c_char) -> c_int = stdout;
    perror(text: *const c_char) = stderr;
    fwrite(place: *const c_void, bytes: usize, count: usize, stream: *mut FILE) -> usize = stream;
    fgets(text: *mut c_char, room: c_int, stream: *mut FILE) -> *mut c_char = stream;
    fgetc(stream: *mut FILE) -> c_int = stream;
    getc(stream: *mut FILE) -> c_int = stream;
    getchar() -> c_int = stdin;
    ungetc(byte: c_int, stream: *mut FILE) -> c_int = stream;
    fread(place: *mut c_void, bytes: usize, count: usize, stream: *mut FILE) -> usize = stream;
    getline(line: *mut *mut c_char, room: *mut usize, stream: *mut FILE) -> isize = stream;
    getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: *mut FILE) -> isize = stream;
    __getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: *mut FILE) -> isize = stream;
    fseek(stream: *mut FILE, offset: c_long, from: c_int) -> c_int = stream;
    ftell(stream: *mut FILE) -> c_long = stream;
    rewind(stream: *mut FILE) = stream;
    vfscanf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int = stream;
    __isoc99_vfscanf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int = stream;
    vfprintf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int = stream;
    __vfprintf_chk(stream: *mut FILE, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int = stream;
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fflush(stream: *mut FILE) -> c_int {
    // SAFETY: the program's own call. Flushing all streams is not an action on one of them.
    unsafe {
        if stream.is_null() {
            real::fflush(stream)
        } else {
            on_stream(stream, || real::fflush(stream))
        }
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vprintf(format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { vfprintf(stdout, format, arguments) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vscanf(format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { vfscanf(stdin, format, arguments) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __isoc99_vscanf(format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { __isoc99_vfscanf(stdin, format, arguments) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vprintf_chk(flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe { __vfprintf_chk(stdout, flag, format, arguments) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(file: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    on_descriptor(file, &[], |_| unsafe { real::vdprintf(file, format, arguments) })
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(file: c_int, bytes: *const c_void, count: usize) -> isize {
    // SAFETY: the program's own call, with its arguments or a copy of its bytes.
    let real = |bytes: *const c_void| unsafe { real::write(file, bytes, count) };
    if !control::observes_sync() {
        return real(bytes);
    }
    let buffers = [libc::iovec {
        iov_base: bytes.cast_mut(),
        iov_len: count,
    }];
    if calls::orders_calls() {
        return test_cancel_around(|| real(bytes));
    }
    test_cancel_around(|| on_descriptor(file, &buffers, |buffers| real(buffers[0].iov_base)))
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the program's own call: `parts` can be read where it is looked at.
    unsafe {
        if !control::observes_sync() {
            return real::writev(file, parts, count);
        }
        if calls::orders_calls() {
            return test_cancel_around(|| real::writev(file, parts, count));
        }
        let list_bytes = count.max(0) as usize * size_of::<libc::iovec>();
        if count <= 0 || !sys::is_readable(parts as usize, list_bytes) {
            // The kernel refuses it, or there is nothing to write.
            return test_cancel_around(|| on_descriptor(file, &[], |_| real::writev(file, parts, count)));
        }
        let buffers = core::slice::from_raw_parts(parts, count as usize);
        test_cancel_around(|| on_descriptor(file, buffers, |buffers| real::writev(file, buffers.as_ptr(), count)))
    }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn flockfile(stream: *mut FILE) {
    let lock = || {
        // SAFETY: the program's own call.
        unsafe { real::flockfile(stream) };
        0
    };
    acquire(Op::StreamLock, object_of_stream(stream), Holding::Shared, lock, lock);
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn funlockfile(stream: *mut FILE) {
    // SAFETY: the program's own call.
    unsafe { release(Op::StreamUnlock, object_of_stream(stream), || real::funlockfile(stream)) }
}

/// # Safety
/// As for libc's function of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftrylockfile(stream: *mut FILE) -> c_int {
    // SAFETY: the program's own call; in replay, one that succeeded may wait a moment.
    unsafe {
        acquire(
            Op::StreamLock,
            object_of_stream(stream),
            Holding::Shared,
            || {
                if real::ftrylockfile(stream) == 0 {
                    0
                } else {
                    libc::EBUSY
                }
            },
            || {
                real::flockfile(stream);
                0
            },
        )
    }
}

variadic! {
    printf after 1 arguments, list in "rsi", calls vprintf;
    fprintf after 2 arguments, list in "rdx", calls vfprintf;
    dprintf after 2 arguments, list in "rdx", calls vdprintf;
    __printf_chk after 2 arguments, list in "rdx", calls __vprintf_chk;
    __fprintf_chk after 3 arguments, list in "rcx", calls __vfprintf_chk;
    scanf after 1 arguments, list in "rsi", calls vscanf;
    fscanf after 2 arguments, list in "rdx", calls vfscanf;
    __isoc99_scanf after 1 arguments, list in "rsi", calls __isoc99_vscanf;
    __isoc99_fscanf after 2 arguments, list in "rdx", calls __isoc99_vfscanf;
}
