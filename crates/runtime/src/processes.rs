//! The processes of a run. Each has a control file, logs and inputs of its own, in a directory of its own.
//!
//! A forked child goes on where its parent stood: its thread keeps its number, its count of events and its heap, and what
//! the shadow says of the parent's threads stays true, as these count as ended in the child. A program that is executed
//! starts from nothing; it finds the first process's control file as an open descriptor, the *door*.
//!
//! In replay a fork is a fork again, and the child follows its own schedule; programs that were executed are started by the
//! tool. Processes do not wait for each other, as what one has from another comes from the log, except to write to the
//! recorded standard output and error, where they take *turns*.
use crate::calls;
use crate::control;
use crate::control::Mode;
use crate::ending;
use crate::local::Local;
use crate::replay;
use crate::sites::Line;
use crate::sys;
use crate::turns;
use core::ffi::c_long;
use core::mem::offset_of;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;
use runtime_abi::CALL_SITES_OFFSET;
use runtime_abi::CONTROL_ADDRESS;
use runtime_abi::CONTROL_BYTES;
use runtime_abi::CONTROL_FD;
use runtime_abi::CONTROL_MAGIC;
use runtime_abi::CONTROL_STRIDE;
use runtime_abi::ControlHeader;
use runtime_abi::HEADER_BYTES;
use runtime_abi::PROCESSES_MAX;
use runtime_abi::ROOT_CONTROL_ADDRESS;
use runtime_abi::SHOWN_MAX;
use runtime_abi::ThreadSlot;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::OBJECTS_MAX;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::Table;
use runtime_abi::ended;
use runtime_abi::mode;
use runtime_abi::origin;
use runtime_abi::thread_state;

/// How often a process that waits for its turn to write looks, at the latest.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// Bytes mapped at `ROOT_CONTROL_ADDRESS`.
static ROOT_BYTES: AtomicU64 = AtomicU64::new(0);
/// This process has just been forked, and is recorded (or replayed) as one of the run's.
static IS_NEW_CHILD: AtomicBool = AtomicBool::new(false);
/// This process was forked, and its one thread has created no other: locks that others held will never be given back.
static IS_ALONE: AtomicBool = AtomicBool::new(false);

/// Must a lock of ours that is held be the remains of a thread that the fork left behind?
pub fn is_alone() -> bool {
    IS_ALONE.load(Relaxed)
}

/// There will be a second thread.
pub fn is_alone_no_more() {
    IS_ALONE.store(false, Relaxed);
}

/// Asked in the child, once: does it go on as a process of the run?
pub fn take_new_child() -> bool {
    IS_NEW_CHILD.swap(false, Relaxed)
}

/// Maps the control memory of this process, whose door is open. False: it is not to be observed.
pub fn join() -> bool {
    let bytes = sys::file_bytes(CONTROL_FD) as usize;
    let mapped = bytes >= CONTROL_BYTES && sys::map_at(ROOT_CONTROL_ADDRESS, bytes, CONTROL_FD, 0, false).is_ok();
    if !mapped {
        ending::die(b"cannot map the control file", 0);
    }
    ROOT_BYTES.store(bytes as u64, Relaxed);
    let root = control::root();
    if root.abi_version != runtime_abi::ABI_VERSION {
        ending::die(
            b"this runtime and this refrain are of different versions; rebuild the program",
            0,
        );
    }
    let is_recording = root.mode == mode::RECORD;
    // The tool says which process of a replay this is by the descriptor's position.
    let process = match is_recording {
        true => root.processes.fetch_add(1, Relaxed),
        false => sys::position(CONTROL_FD) as u32,
    };
    if is_recording && process > 0 {
        return create_executed(process);
    }
    let offset = process as u64 * CONTROL_STRIDE as u64;
    if let Err(errno) = sys::map_at(CONTROL_ADDRESS, CONTROL_BYTES, CONTROL_FD, offset, false) {
        ending::die(b"cannot map the control file", errno);
    }
    if is_recording {
        for (stream, place) in root.streams.iter().enumerate() {
            let [device, inode] = sys::file_identity(stream as i32 + 1);
            place[0].store(device, Relaxed);
            place[1].store(inode, Relaxed);
            root.shown[stream + 1].store(stream as u8 + 1, Relaxed);
        }
        root.first_threads.store(1, Relaxed);
    }
    true
}

/// Recording: a program that another process of the run has executed, or a shell in its name. There is one thread.
fn create_executed(process: u32) -> bool {
    let root = control::root();
    if root.follow == 0 || create(process, &[], ROOT_CONTROL_ADDRESS).is_err() {
        root.forked.store(1, Relaxed);
        return false;
    }
    let header = control::header();
    begin_header(header, process, origin::EXECUTED);
    header.first_threads.store(1, Relaxed);
    for descriptor in 0..SHOWN_MAX {
        let [device, inode] = sys::file_identity(descriptor as i32);
        let is_same = |stream: &&[_; 2]| {
            let [known_device, known_inode]: &[AtomicU64; 2] = stream;
            (known_device.load(Relaxed), known_inode.load(Relaxed)) == (device, inode) && inode != 0
        };
        let stream = root.streams.iter().position(|stream| is_same(&stream));
        header.shown[descriptor].store(stream.map_or(0, |stream| stream as u8 + 1), Relaxed);
    }
    describe_start();
    true
}

/// What a file of a new process begins with, apart from what it has of the first process's.
fn begin_header(header: &ControlHeader, process: u32, how: u32) {
    header.process.store(process, Relaxed);
    header.origin.store(how, Relaxed);
    header.pid.store(sys::process_id(), Relaxed);
    for zero in [
        &header.ended,
        &header.forked,
        &header.unknown_call,
        &header.truncated,
        &header.calls,
        &header.shares_memory,
    ] {
        zero.store(0, Relaxed);
    }
    header.log_bytes.store(0, Relaxed);
    header.epoch.store(0, Relaxed);
    header.shown_bytes.iter().for_each(|bytes| bytes.store(0, Relaxed));
}

/// Creates the directory and the control file of a process, with the first process's settings and `slots`, and makes it
/// this process's. The control memory at `like` has the objects whose calls are known.
fn create(process: u32, slots: &[ThreadSlot], like: u64) -> Result<(), i32> {
    if process >= PROCESSES_MAX {
        return Err(libc::EMFILE);
    }
    let mut directory = Line::default();
    directory.text(control::directory_of(control::root()));
    directory.text(b"/process-");
    directory.number(process as u64);
    let mut buffer = [0; 4352];
    let length = directory.bytes().len();
    buffer[..length].copy_from_slice(directory.bytes());
    sys::make_directory(&buffer[..=length])?;
    let path = control::path_in(directory.bytes(), b"control", &mut buffer);
    let file = sys::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
    let made = fill(file, directory.bytes(), slots, like);
    sys::close(file);
    made
}

fn fill(file: i32, directory: &[u8], slots: &[ThreadSlot], like: u64) -> Result<(), i32> {
    let bytes_of = |address: u64, bytes: usize| {
        // SAFETY: the first process's control memory, or this one's, which are mapped for good; atomics being written by
        // others at this time are looked at by nobody, or corrected below.
        unsafe { core::slice::from_raw_parts(address as *const u8, bytes) }
    };
    sys::set_length(file, CONTROL_BYTES as u64)?;
    // Room for a thousand threads, so that a full disk is an error here and not a signal later.
    sys::allocate(file, 0, HEADER_BYTES + 1024 * size_of::<ThreadSlot>())?;
    let slots = bytes_of(slots.as_ptr() as u64, size_of_val(slots));
    sys::write_at(file, [bytes_of(ROOT_CONTROL_ADDRESS, HEADER_BYTES), slots], 0)?;
    copy_call_sites(file, like + CALL_SITES_OFFSET as u64)?;
    let field = |offset: usize, bytes: &[u8]| sys::write_at(file, [bytes, &[]], offset as u64);
    field(offset_of!(ControlHeader, run_directory), directory)?;
    field(
        offset_of!(ControlHeader, run_directory_bytes),
        &(directory.len() as u32).to_le_bytes(),
    )?;
    field(offset_of!(ControlHeader, threads), &0u32.to_le_bytes())?;
    sys::map_at(CONTROL_ADDRESS, CONTROL_BYTES, file, 0, true)
}

/// Copies as much of the table of call sites at `from` as is used; it may be growing.
fn copy_call_sites(file: i32, from: u64) -> Result<(), i32> {
    // SAFETY: the table in control memory that is mapped.
    let table = unsafe { &*(from as *const Table) };
    // Acquire: what is counted is whole.
    let count = (table.count.load(Acquire) as usize).min(OBJECTS_MAX);
    let objects = &table.objects[..count];
    let entries = objects.last().map_or(0, |last| last.first + last.entries) as usize;
    let parts: [(usize, *const u8, usize); 3] = [
        (offset_of!(Table, count), (&raw const count).cast(), size_of::<u32>()),
        (
            offset_of!(Table, objects),
            objects.as_ptr().cast(),
            size_of_val(objects),
        ),
        (
            offset_of!(Table, entries),
            table.entries.as_ptr().cast(),
            entries.min(SITES_MAX) * size_of::<Entry>(),
        ),
    ];
    for (offset, start, length) in parts {
        // SAFETY: parts of the table, and a number, of which the lower half comes first.
        let bytes = unsafe { core::slice::from_raw_parts(start, length) };
        sys::write_at(file, [bytes, &[]], (CALL_SITES_OFFSET + offset) as u64)?;
    }
    Ok(())
}

/// Writes down how the program was started: the tool starts it the same way in replay.
fn describe_start() {
    let mut buffer = [0; 4352];
    let path = control::path_in_run(b"start", &mut buffer);
    let Ok(start) = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) else {
        return;
    };
    // SAFETY: the loader keeps the string for the life of the process.
    let called = unsafe {
        let name = libc::getauxval(libc::AT_EXECFN) as *const core::ffi::c_char;
        if name.is_null() {
            b""
        } else {
            core::ffi::CStr::from_ptr(name).to_bytes()
        }
    };
    sys::write_all(start, called);
    for link in [b"/proc/self/exe\0".as_slice(), b"/proc/self/cwd\0"] {
        sys::write_all(start, b"\0");
        let mut target = [0; 4096];
        sys::write_all(start, sys::read_link(link, &mut target));
    }
    sys::write_all(start, b"\0");
    sys::close(start);
    copy_to_run(b"/proc/self/cmdline\0", b"arguments");
    copy_to_run(b"/proc/self/environ\0", b"environment");
}

/// Copies a file into the directory of this process.
pub fn copy_to_run(from: &[u8], name: &[u8]) {
    let mut buffer = [0; 4352];
    let Ok(source) = sys::open(from, libc::O_RDONLY) else {
        return;
    };
    let path = control::path_in_run(name, &mut buffer);
    if let Ok(copy) = sys::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) {
        let mut block = [0u8; 4096];
        loop {
            match sys::read(source, &mut block) {
                bytes if bytes > 0 => sys::write_all(copy, &block[..bytes as usize]),
                _ => break,
            }
        }
        sys::close(copy);
    }
    sys::close(source);
}

/// Is this call a fork: a new process with memory of its own?
pub const fn is_fork(number: c_long, arguments: &[usize; 6]) -> bool {
    number == libc::SYS_fork || number == libc::SYS_clone && arguments[0] as i32 & libc::CLONE_VM == 0
}

impl Local {
    /// Recording: forks, and follows the child if that is wanted. Returns twice.
    #[inline(never)]
    pub fn record_fork(&mut self, number: c_long, real: impl FnOnce() -> isize) -> isize {
        let process = match control::root().follow {
            0 => 0,
            _ => {
                // Who is writing has no turn, as long as there is one process: it is to be done with that.
                let _streams = [1, 2].map(calls::write_alone);
                control::root().processes.fetch_add(1, Relaxed)
            }
        };
        if process != 0 {
            control::note_family();
        }
        // The parent goes on counting in the slot that the child begins with.
        // SAFETY: a slot is numbers only, and this one is written by this thread alone.
        let slot = unsafe { core::ptr::read(self.slot) };
        // The child may have done much before its parent comes back.
        let began = calls::now();
        let result = real();
        if result != 0 {
            let mut entry = self.input_entry(number, result, process);
            entry.time = began;
            self.log_entry(entry, &[]);
            self.complete();
            return result;
        }
        if process == 0 || self.go_on_as(process, slot).is_err() {
            control::detach();
            Local::uninstall();
        }
        0
    }

    /// The child: goes on in files of its own.
    fn go_on_as(&mut self, process: u32, before: ThreadSlot) -> Result<(), i32> {
        let parent = control::header();
        let threads = (parent.threads.load(Acquire) as usize).min(runtime_abi::THREADS_MAX);
        let (parent_number, epoch) = (parent.process.load(Relaxed), parent.epoch.load(Acquire));
        let mut objects = [0; 4352];
        control::path_in_run(b"objects", &mut objects);
        // SAFETY: the mapping has THREADS_MAX slots after its header.
        let slots = unsafe {
            core::slice::from_raw_parts((CONTROL_ADDRESS as usize + HEADER_BYTES) as *const ThreadSlot, threads)
        };
        create(process, slots, CONTROL_ADDRESS)?;
        calls::rights::forget_directory();
        let slot = self.slot;
        slot.count.store(before.count.into_inner(), Relaxed);
        slot.gate.store(before.gate.into_inner(), Relaxed);
        slot.exclusive.store(before.exclusive.into_inner(), Relaxed);
        slot.site.store(before.site.into_inner(), Relaxed);
        slot.credit.store(before.credit.into_inner(), Relaxed);
        slot.lost.store(before.lost.into_inner(), Relaxed);
        slot.state.store(thread_state::RUNNING, Relaxed);
        slot.window.store(0, Relaxed);
        slot.signal.store(0, Relaxed);
        let header = control::header();
        begin_header(header, process, origin::FORKED);
        control::note_family();
        header.parent.store(parent_number, Relaxed);
        header.epoch.store(epoch, Relaxed);
        header.threads.store(threads as u32, Relaxed);
        header.first_threads.store(threads as u32, Relaxed);
        header.main_thread.store(self.index, Relaxed);
        header.main_count.store(self.event(), Relaxed);
        header.calls.store(1, Relaxed);
        for index in (0..threads as u32).filter(|index| *index != self.index) {
            let slot = control::slot(index);
            if slot.state.load(Relaxed) != thread_state::UNUSED {
                slot.state.store(thread_state::EXITED, Relaxed);
            }
            slot.window.store(0, Relaxed);
            slot.records.store(0, Relaxed);
            slot.signal.store(0, Relaxed);
        }
        self.slot.records.store(0, Relaxed);
        self.slot.os_thread.store(sys::thread_id(), Relaxed);
        // All that was shared before is before whatever this process does.
        self.slot.seen.store(epoch, Relaxed);
        self.begin_files();
        self.log.create();
        copy_to_run(&objects, b"objects");
        sys::register_barrier();
        IS_NEW_CHILD.store(true, Relaxed);
        IS_ALONE.store(true, Relaxed);
        calls::nobody_writes();
        header.attached.store(1, Release);
        Ok(())
    }

    /// Replay: forks if the recorded process did, and the child was followed.
    pub fn replay_fork(&mut self, number: c_long, mut arguments: [usize; 6]) -> isize {
        let call = self.next_call(number);
        let (result, process) = (call.entry.result as isize, call.entry.check);
        if result <= 0 || !has_part(process) {
            self.complete();
            return result;
        }
        // No signal when it ends: the one that came is in the log.
        if number == libc::SYS_clone {
            arguments[0] &= !0xff;
        }
        let count = self.event();
        // The tool waits for as many.
        control::root().processes.fetch_add(1, Relaxed);
        calls::share_channels();
        // SAFETY: the program's own call, but for the signal.
        match unsafe { sys::syscall(number, arguments) } {
            0 => {
                self.replay_as(process, count);
                0
            }
            child if child > 0 => {
                self.complete();
                result
            }
            error => ending::die(b"cannot fork, as the recorded process did", -error as i32),
        }
    }

    fn replay_as(&mut self, process: u32, count: u64) {
        if !sys::duplicate_mapping(
            ROOT_CONTROL_ADDRESS + process as u64 * CONTROL_STRIDE as u64,
            CONTROL_ADDRESS,
            CONTROL_STRIDE,
        ) {
            ending::die(b"cannot map the control memory of a forked process", 0);
        }
        self.slot.count.store(count, Relaxed);
        replay::open_schedule();
        self.begin_files();
        IS_NEW_CHILD.store(true, Relaxed);
        self.install_again();
        turns::begin(self.index);
        turns::watch_time();
        control::header().attached.store(1, Release);
    }

    /// Recording: becomes another program, if that succeeds.
    pub fn record_exec(&mut self, number: c_long, real: impl FnOnce() -> isize) -> isize {
        self.log_call(number, 0, 0, &[]);
        let header = control::header();
        self.slot.signal.store(runtime_abi::ENDED_BY_EXIT, Relaxed);
        header.ended.store(ended::REPLACED, Release);
        let result = with_open_door(real);
        header.ended.store(ended::NOT_SAID, Relaxed);
        self.slot.signal.store(0, Relaxed);
        self.inputs.correct_last(self.input_entry(number, result, 0));
        self.complete();
        result
    }

    /// Replay: the recorded process became another program here, which the tool starts; or it could not.
    pub fn replay_exec(&mut self, number: c_long) -> isize {
        let call = self.next_call(number);
        if call.entry.result == 0 {
            ending::by_exec();
        }
        self.complete();
        call.entry.result as isize
    }
}

/// Replay: is there a part of the run for this process? One that could not be created has none.
fn has_part(process: u32) -> bool {
    let offset = process as u64 * CONTROL_STRIDE as u64;
    if process == 0 || offset + CONTROL_BYTES as u64 > ROOT_BYTES.load(Relaxed) {
        return false;
    }
    // SAFETY: inside what `join` mapped, for good; the tool filled the parts of the processes that there are.
    unsafe { (*((ROOT_CONTROL_ADDRESS + offset) as *const ControlHeader)).magic == CONTROL_MAGIC }
}

/// Does `action`, which starts another program, so that the program can join the run.
pub fn with_open_door<R>(action: impl FnOnce() -> R) -> R {
    let root = control::root();
    if root.follow == 0 || control::mode() != Mode::Record {
        return action();
    }
    let mut buffer = [0; 4352];
    let path = control::path_in(control::directory_of(root), b"control", &mut buffer);
    let is_open = sys::open(path, libc::O_RDWR).is_ok_and(|file| sys::renumber(file, CONTROL_FD));
    let result = action();
    if is_open {
        sys::close(CONTROL_FD);
    }
    result
}

/// A program was started by other means than `fork` and `exec`.
pub fn note_spawn() {
    control::root().spawned.fetch_add(1, Relaxed);
    if control::root().follow == 0 {
        control::root().forked.store(1, Relaxed);
    }
}

/// The entry of inputs that says when, among all processes, what comes next was written.
pub const TURN: c_long = 0xfff0;

/// While this exists, no other process writes to the same stream.
pub struct Turn {
    /// Nothing: the run directory is out of reach. Then turns are as they are taken, which is nearly as they are used.
    lock: Option<i32>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(lock) = self.lock {
            // Another thread may have forked meanwhile: the child has the descriptor, too, and closing ours would leave the lock to it.
            sys::unlock_file(lock);
            sys::close(lock);
        }
    }
}

/// Recording: the order in which processes write to a stream, 1 or 2, is that in which they have been here.
pub fn take_turn(local: &mut Local, stream: i32) -> Option<Turn> {
    let root = control::root();
    let turns = &root.turns[stream as usize - 1];
    if root.processes.load(Relaxed) < 2 {
        // The first process alone has written so far: that comes before all turns of others.
        turns.fetch_add(1, Relaxed);
        return None;
    }
    let mut buffer = [0; 4352];
    let path = control::path_in(
        control::directory_of(root),
        if stream == 1 { b"stdout" } else { b"stderr" },
        &mut buffer,
    );
    // A lock that goes away with its holder, however that ends.
    let lock = sys::open(path, libc::O_RDONLY).ok();
    if let Some(lock) = lock {
        local.blocking(|| sys::lock_file(lock));
    }
    let turn = turns.fetch_add(1, Relaxed);
    local.log_call(TURN, turn as isize, 0, &[]);
    Some(Turn { lock })
}

/// Replay: does `write` when it is its turn, or at once if there was no other process to take turns with.
pub fn in_turn(turn: Option<u32>, stream: i32, write: impl FnOnce()) {
    let turns = &control::root().turns[stream as usize - 1];
    // Nobody compares the output under a debugger, where a process may be stopped for as long as it takes.
    if let Some(turn) = turn.filter(|_| control::header().debugged == 0) {
        while turns.load(Acquire) != turn {
            if control::has_diverged() {
                replay::sleep_forever();
            }
            sys::shared_futex_wait(turns, turns.load(Acquire), LOOK_EVERY_NS);
        }
    }
    write();
    turns.fetch_add(1, Release);
    if control::root().processes.load(Relaxed) > 0 || turn.is_some() {
        sys::shared_futex_wake_all(turns);
    }
}

/// Tells the tool how the process is about to end.
pub fn note_exit_status(status: usize) {
    control::header().ended.store((status as u32 & 0xff) + 1, Release);
}

/// Calls of this process are recorded, or answered.
pub fn note_calls() {
    control::header().calls.store(calls::is_installed() as u32, Relaxed);
}
