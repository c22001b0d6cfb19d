//! The processes of a run. Each has a control file, logs and inputs of its own, in a directory of its own.
//!
//! A forked child goes on where its parent stood: its thread keeps its number, its count of events and its heap, and what
//! the shadow says of the parent's threads stays true, as these count as ended in the child. A program that is executed
//! starts from nothing; it finds the first process's control file as an open descriptor, the *door*.
//!
//! In replay a fork is a fork again, and the child follows its own schedule; programs that were executed are started by the
//! tool. Processes do not wait for each other, as what one has from another comes from the log, except to write to the
//! recorded standard output and error, where they take *turns*.
use crate::access;
use crate::brought_back;
use crate::calls;
use crate::clones;
use crate::clones::Asked;
use crate::clones::CHILD_SET_TID;
use crate::clones::PARENT_SET_TID;
use crate::clones::PIDFD;
use crate::clones::SET_TLS;
use crate::clones::VM;
use crate::control;
use crate::disk;
use crate::ending;
use crate::executed;
use crate::failure;
use crate::line::Line;
use crate::local::Local;
use crate::policy;
use crate::policy::Inputs;
use crate::relatives;
use crate::replay;
use crate::run_directory;
use crate::sys;
use crate::turns;
use crate::vectors;
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
use runtime_abi::CONTROL_STRIDE;
use runtime_abi::ControlHeader;
use runtime_abi::DIRECTORY_FD;
use runtime_abi::FROM_ELSEWHERE;
use runtime_abi::HEADER_BYTES;
use runtime_abi::PROCESSES_MAX;
use runtime_abi::ROOT_CONTROL_ADDRESS;
use runtime_abi::SHOWN_MAX;
use runtime_abi::STACK_LIMIT_MAX;
use runtime_abi::ThreadSlot;
use runtime_abi::call_sites::Entry;
use runtime_abi::call_sites::OBJECTS_MAX;
use runtime_abi::call_sites::SITES_MAX;
use runtime_abi::call_sites::Table;
use runtime_abi::ended;
use runtime_abi::origin;
use runtime_abi::thread_state;

/// This process has just been forked, and is recorded (or replayed) as one of the run's.
static IS_NEW_CHILD: AtomicBool = AtomicBool::new(false);
/// Arranges to be told when the process goes on as a forked child.
pub fn watch() {
    extern "C" fn in_child() {
        // A fork made by a program that is not observed (any more) is none of our business.
        if !policy::is_free() && !take_new_child() {
            policy::let_go();
            Local::uninstall();
        }
    }
    // SAFETY: the handler is a function that lives as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Asked in the child, once: does it go on as a process of the run?
fn take_new_child() -> bool {
    IS_NEW_CHILD.swap(false, Relaxed)
}

/// Maps the control memory of this process, whose door is open, and closes it, so that the program's descriptors are numbered as always. False: it is
/// not to be observed.
pub fn join() -> bool {
    let door = control::descriptor();
    let is_ours = map_control(door);
    sys::close(door);
    restore_stack_limit();
    is_ours
}

/// What was executed with another limit of its stack than its own gets that back.
fn restore_stack_limit() {
    let [now, most] = sys::limit(libc::RLIMIT_STACK);
    let own = control::root().shared.stack_limit.load(Relaxed).min(most);
    if now == STACK_LIMIT_MAX && own > now {
        sys::set_limit(libc::RLIMIT_STACK, [own, most]);
    }
}

fn map_control(door: i32) -> bool {
    let bytes = sys::file_bytes(door) as usize;
    if bytes < CONTROL_BYTES {
        failure::die(b"cannot map the control file", 0);
    }
    if let Err(errno) = sys::map_at(ROOT_CONTROL_ADDRESS, bytes, door, 0, false) {
        failure::die(b"cannot map the control file (see ulimit -v)", errno);
    }
    relatives::note_root(bytes as u64);
    let root = control::root();
    if root.abi_version != runtime_abi::ABI_VERSION {
        failure::die(
            b"this runtime and this refrain are of different versions; rebuild the program",
            0,
        );
    }
    let is_recording = policy::wanted(root).1.inputs() == Inputs::Recorded;
    // The tool says which process of a replay this is by the descriptor's position.
    let process = match is_recording {
        true => root.shared.processes.fetch_add(1, Relaxed),
        false => {
            let position = sys::position(door);
            if position & FROM_ELSEWHERE != 0 {
                sys::change_directory(DIRECTORY_FD);
                sys::close(DIRECTORY_FD);
            }
            position as u32
        }
    };
    if is_recording && process > 0 {
        return create_executed(process);
    }
    let offset = process as u64 * CONTROL_STRIDE as u64;
    if let Err(errno) = sys::map_at(CONTROL_ADDRESS, CONTROL_BYTES, door, offset, false) {
        failure::die(b"cannot map the control file (see ulimit -v)", errno);
    }
    if is_recording {
        for (stream, place) in root.shared.streams.iter().enumerate() {
            let [device, inode] = sys::file_identity(stream as i32 + 1);
            place[0].store(device, Relaxed);
            place[1].store(inode, Relaxed);
        }
        // On a terminal, all three are the same.
        note_shown(root, 3);
        root.identity.first_threads.store(1, Relaxed);
    }
    true
}

/// Recording: a program that another process of the run has executed, or a shell in its name. There is one thread.
fn create_executed(process: u32) -> bool {
    let root = control::root();
    if root.settings.follow.is(false) || create(process, &[], ROOT_CONTROL_ADDRESS).is_err() {
        root.progress.forked.store(1, Relaxed);
        return false;
    }
    let header = control::header();
    begin_header(header, process, origin::EXECUTED);
    header.identity.first_threads.store(1, Relaxed);
    note_shown(header, SHOWN_MAX);
    executed::describe();
    true
}

/// Which of the first descriptors of this process are the recorded standard output or error.
fn note_shown(header: &ControlHeader, descriptors: usize) {
    for descriptor in 0..descriptors {
        let [device, inode] = sys::file_identity(descriptor as i32);
        let is_same = |stream: &&[_; 2]| {
            let [known_device, known_inode]: &[AtomicU64; 2] = stream;
            (known_device.load(Relaxed), known_inode.load(Relaxed)) == (device, inode) && inode != 0
        };
        let stream = control::root()
            .shared
            .streams
            .iter()
            .position(|stream| is_same(&stream));
        header.identity.shown[descriptor].store(stream.map_or(0, |stream| stream as u8 + 1), Relaxed);
    }
}

/// What a file of a new process begins with, apart from what it has of the first process's.
fn begin_header(header: &ControlHeader, process: u32, how: u32) {
    header.identity.process.store(process, Relaxed);
    header.identity.origin.store(how, Relaxed);
    header.identity.pid.store(sys::process_id(), Relaxed);
    for zero in [
        &header.progress.ended,
        &header.progress.forked,
        &header.progress.unknown_call,
        &header.progress.truncated,
        &header.progress.calls,
        &header.progress.shares_memory,
    ] {
        zero.store(0, Relaxed);
    }
    header.progress.log_bytes.store(0, Relaxed);
    header.progress.epoch.store(0, Relaxed);
    header
        .progress
        .shown_bytes
        .iter()
        .for_each(|bytes| bytes.store(0, Relaxed));
}

/// Creates the directory and the control file of a process, with the first process's settings and `slots`, and makes it
/// this process's. The control memory at `like` has the objects whose calls are known.
fn create(process: u32, slots: &[ThreadSlot], like: u64) -> Result<(), i32> {
    if process >= PROCESSES_MAX {
        return Err(libc::EMFILE);
    }
    disk::reserve_process().map_err(|_| libc::ENOSPC)?;
    let mut directory = Line::default();
    directory.text(control::directory_of(control::root()));
    directory.text(b"/process-");
    directory.number(process as u64);
    let mut buffer = [0; 4352];
    let length = directory.bytes().len();
    buffer[..length].copy_from_slice(directory.bytes());
    // Another process may have made it, to write down what it changed in this one's memory.
    sys::make_directory(&buffer[..=length]).or_else(|errno| match errno {
        libc::EEXIST => Ok(()),
        errno => Err(errno),
    })?;
    let path = control::path_in(directory.bytes(), b"control", &mut buffer);
    let file = sys::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
    sys::make_private(file);
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
        offset_of!(ControlHeader, identity.run_directory_bytes),
        &(directory.len() as u32).to_le_bytes(),
    )?;
    field(offset_of!(ControlHeader, progress.threads), &0u32.to_le_bytes())?;
    // Not part of the run before all of it is said.
    field(offset_of!(ControlHeader, progress.attached), &0u32.to_le_bytes())?;
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

impl Local {
    /// Recording: forks, and follows the child if that is wanted. Returns twice.
    #[inline(never)]
    pub fn record_fork(
        &self,
        number: c_long,
        arguments: &[usize; 6],
        real: impl FnOnce(&[usize; 6]) -> isize,
    ) -> isize {
        let asked = Asked::of(number, arguments).unwrap_or_default();
        let process = match control::root().settings.follow.is(true) {
            false => 0,
            true => {
                // Who is writing has no turn, as long as there is one process: it is to be done with that.
                let _streams = [1, 2].map(calls::write_alone);
                control::root().shared.processes.fetch_add(1, Relaxed)
            }
        };
        if process != 0 {
            control::note_process_order();
        }
        // The parent goes on counting in the slot that the child begins with.
        // SAFETY: a slot is numbers only, and this one is written by this thread alone.
        let slot = unsafe { core::ptr::read(self.slot) };
        // Logged before it happens: the child may have done much before its parent comes back, or the parent be killed before.
        let began = calls::now();
        let entry = |result: isize| {
            let mut entry = self.input_entry(number, result, process);
            entry.time = began;
            entry
        };
        self.log_entry(entry(1), &[]);
        // Borrowed memory is for one child.
        let is_borrowed = asked.has(VM) && brought_back::prepare();
        let stack_from = self.inputs.call_stack.get() as usize;
        let result = match asked.flags & (VM | SET_TLS) {
            0 => real(arguments),
            // The child may not return from here in its parent's memory: it gets its own. Nor could it with another thread pointer.
            changed => asked.fork_without(changed),
        };
        if result != 0 {
            if result < 0 && process != 0 {
                // The number is free again, unless there are others after it.
                let processes = &control::root().shared.processes;
                _ = processes.compare_exchange(process + 1, process, Relaxed, Relaxed);
            }
            if result > 0 && process != 0 {
                relatives::note_child(result, process, self.index, self.event());
            }
            self.inputs.writer.correct_last(entry(result));
            self.complete();
            if result > 0 && asked.has(PIDFD) {
                self.record_call(libc::SYS_pidfd_open, &[result as usize, 0, 0, 0, 0, 0], |_| {
                    // SAFETY: the kernel has just written it.
                    unsafe { (asked.pidfd as *const i32).read_unaligned() as isize }
                });
            }
            if is_borrowed && result > 0 {
                self.bring_back();
            }
            return result;
        }
        self.leave_clone();
        if !is_borrowed {
            brought_back::forget();
        }
        brought_back::begin_child(is_borrowed, stack_from);
        // With a thread pointer of the program's we would not find ourselves.
        if process == 0 || asked.has(SET_TLS) || self.go_on_as(process, slot).is_err() {
            policy::let_go();
            Local::uninstall();
        }
        0
    }

    /// Live: the child is not observed. (Runs that followed theirs are refused by the tool.)
    pub fn pass_fork(&self, real: impl FnOnce() -> isize) -> isize {
        let result = real();
        if result == 0 {
            policy::let_go();
            Local::uninstall();
            return 0;
        }
        self.complete();
        result
    }

    /// The child: goes on in files of its own.
    fn go_on_as(&self, process: u32, before: ThreadSlot) -> Result<(), i32> {
        let parent = control::header();
        let threads = (parent.progress.threads.load(Acquire) as usize).min(runtime_abi::THREADS_MAX);
        let (parent_number, epoch) = (
            parent.identity.process.load(Relaxed),
            parent.progress.epoch.load(Acquire),
        );
        let mut objects = [0; 4352];
        control::path_in_run(b"objects", &mut objects);
        // SAFETY: the mapping has THREADS_MAX slots after its header.
        let slots = unsafe {
            core::slice::from_raw_parts((CONTROL_ADDRESS as usize + HEADER_BYTES) as *const ThreadSlot, threads)
        };
        create(process, slots, CONTROL_ADDRESS)?;
        run_directory::forget();
        vectors::forget();
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
        control::note_process_order();
        header.identity.parent.store(parent_number, Relaxed);
        header.progress.epoch.store(epoch, Relaxed);
        header.progress.threads.store(threads as u32, Relaxed);
        header.identity.first_threads.store(threads as u32, Relaxed);
        header.identity.main_thread.store(self.index, Relaxed);
        header.identity.main_count.store(self.event(), Relaxed);
        header.progress.calls.store(1, Relaxed);
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
        access::free_epochs();
        self.begin_files();
        self.access.log.create();
        run_directory::copy_in(&objects, b"objects");
        sys::register_barrier();
        IS_NEW_CHILD.store(true, Relaxed);
        control::set_alone(true);
        calls::begin_alone(self);
        calls::nobody_writes();
        header.progress.attached.store(1, Release);
        Ok(())
    }

    /// Replay: forks if the recorded process did, and the child was followed.
    pub fn answer_fork(&self, number: c_long, arguments: &[usize; 6]) -> isize {
        let asked = Asked::of(number, arguments).unwrap_or_default();
        let call = self.next_call(number);
        let (result, process) = (call.entry.result as isize, call.entry.check);
        if result <= 0 || !relatives::has_part(process) {
            self.complete();
            self.answer_names(&asked, result);
            return result;
        }
        let count = self.event();
        // The tool waits for as many.
        control::root().shared.processes.fetch_add(1, Relaxed);
        calls::share_channels();
        match asked.fork_again() {
            0 => {
                self.leave_clone();
                self.replay_as(process, count);
                if asked.has(CHILD_SET_TID) && !asked.is_of_libc() {
                    clones::put(asked.child_tid, result as u32);
                }
                0
            }
            child if child > 0 => {
                relatives::note_child(result, process, self.index, count);
                self.complete();
                self.answer_names(&asked, result);
                result
            }
            error => failure::die(b"cannot fork, as the recorded process did", -error as i32),
        }
    }

    /// Replay: writes what the kernel wrote about a child where the program wants it.
    fn answer_names(&self, asked: &Asked, child: isize) {
        if child <= 0 {
            return;
        }
        if asked.has(PIDFD) {
            let file = self.answer_call(libc::SYS_pidfd_open, &[child as usize, 0, 0, 0, 0, 0]);
            clones::put(asked.pidfd, file as u32);
        }
        if asked.has(PARENT_SET_TID) {
            clones::put(asked.parent_tid, child as u32);
        }
        if asked.has(VM) {
            self.bring_back_again();
        }
    }

    fn replay_as(&self, process: u32, count: u64) {
        if !sys::duplicate_mapping(
            ROOT_CONTROL_ADDRESS + process as u64 * CONTROL_STRIDE as u64,
            CONTROL_ADDRESS,
            CONTROL_STRIDE,
        ) {
            failure::die(b"cannot map the control memory of a forked process", 0);
        }
        self.slot.count.store(count, Relaxed);
        // Its threads may be one where its parent had several, which take turns.
        policy::choose(control::header());
        replay::open_schedule();
        calls::open_changes();
        self.begin_files();
        IS_NEW_CHILD.store(true, Relaxed);
        self.install_again();
        turns::begin(self.index);
        turns::watch_time();
        control::header().progress.attached.store(1, Release);
    }

    /// Recording: becomes another program, if that succeeds.
    pub fn record_exec(&self, number: c_long, real: impl FnOnce() -> isize) -> isize {
        self.log_call(number, 0, 0, &[]);
        if self.birth.is_process.get() {
            // Only the thread is gone if it succeeds.
            let result = with_open_door(real);
            self.inputs.writer.correct_last(self.input_entry(number, result, 0));
            self.complete();
            return result;
        }
        let header = control::header();
        self.slot.signal.store(runtime_abi::ENDED_BY_EXIT, Relaxed);
        header.progress.ended.store(ended::REPLACED, Release);
        brought_back::leave();
        let result = with_open_door(real);
        header.progress.ended.store(ended::NOT_SAID, Relaxed);
        self.slot.signal.store(0, Relaxed);
        self.inputs.writer.correct_last(self.input_entry(number, result, 0));
        self.complete();
        result
    }

    /// Live: becomes another program, if that succeeds. Nobody observes that one.
    pub fn pass_exec(&self, real: impl FnOnce() -> isize) -> isize {
        let header = control::header();
        header.progress.ended.store(ended::REPLACED, Release);
        let result = real();
        header.progress.ended.store(ended::NOT_SAID, Relaxed);
        self.complete();
        result
    }

    /// Replay: the recorded process became another program here, which the tool starts; or it could not.
    pub fn answer_exec(&self, number: c_long) -> isize {
        let call = self.next_call(number);
        if call.entry.result == 0 && self.birth.is_process.get() {
            self.vanish();
        }
        if call.entry.result == 0 {
            ending::by_exec();
        }
        self.complete();
        call.entry.result as isize
    }
}

/// Does `action`, which starts another program, so that the program can join the run.
pub fn with_open_door<R>(action: impl FnOnce() -> R) -> R {
    let root = control::root();
    if root.settings.follow.is(false) || !policy::are_inputs_recorded() {
        return action();
    }
    let mut buffer = [0; 4352];
    let path = control::path_in(control::directory_of(root), b"control", &mut buffer);
    let door = control::descriptor();
    let [descriptors, descriptors_most] = sys::limit(libc::RLIMIT_NOFILE);
    let is_beyond = door as u64 >= descriptors;
    // A descriptor stays open when the limit is lowered below it.
    if is_beyond {
        sys::set_limit(libc::RLIMIT_NOFILE, [door as u64 + 1, descriptors_most]);
    }
    let is_open = sys::open(path, libc::O_RDWR).is_ok_and(|file| sys::renumber(file, door));
    if is_beyond {
        sys::set_limit(libc::RLIMIT_NOFILE, [descriptors, descriptors_most]);
    }
    let [stack, stack_most] = sys::limit(libc::RLIMIT_STACK);
    let is_too_much = stack > STACK_LIMIT_MAX && !control::inputs_only();
    if is_too_much {
        root.shared.stack_limit.store(stack, Relaxed);
        sys::set_limit(libc::RLIMIT_STACK, [STACK_LIMIT_MAX, stack_most]);
    }
    let result = action();
    if is_too_much {
        sys::set_limit(libc::RLIMIT_STACK, [stack, stack_most]);
    }
    if is_open {
        sys::close(door);
    }
    result
}

/// A program was started by other means than `fork` and `exec`.
pub fn note_spawn() {
    control::root().shared.spawned.fetch_add(1, Relaxed);
    if control::root().settings.follow.is(false) {
        control::root().progress.forked.store(1, Relaxed);
    }
}
