//! The contract between instrumented code, the runtime inside the guest, and the tools outside it.
//!
//! Everything here is `repr(C)`, a constant, or says how a setting is written; nothing acts. Where to start: [`ControlHeader`], [`settings`], [`memory_map`]. The instrumentor's C++ side repeats the offsets of
//! [`ThreadSlot`] that compiled programs use (`crates/instrumentor/pass/abi.h`); a unit test there keeps them equal.
//! Any change of layout or meaning raises [`ABI_VERSION`], which instrumented objects, runtime and tools compare.
//!
//! The *control file* is how they meet: `refrain` creates it in the run directory, fills in the [`ControlHeader`],
//! and passes it to the program as descriptor [`CONTROL_FD`]; the runtime maps it at [`CONTROL_ADDRESS`]. It is a
//! file, not anonymous memory, so that everything in it survives `kill -9`, and the tool can watch it live.
#![no_std]
#![forbid(unsafe_code)]

pub mod call_sites;
pub mod checkpoint;
pub mod compared;
pub mod counting;
pub mod disk;
pub mod fast_path;
pub mod inputs_file;
pub mod lists_file;
pub mod memory_map;
pub mod own_steps_file;
pub mod points_file;
pub mod policy;
pub mod relay;
pub mod schedule_file;
pub mod settings;
pub mod start_file;
pub mod trace_file;
pub mod turns_file;
pub mod vectors_file;

pub use settings::RunSettings;
pub use settings::SettingsSection;

use core::mem::offset_of;
use core::mem::size_of;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;

pub const ABI_VERSION: u32 = 21;

/// The descriptor on which a recorded or replayed program finds its control file. A fixed number, and no path in the
/// environment, because the environment sits above the stack: its size must be the same in every run.
pub const CONTROL_FD: i32 = 239;

/// Where it is instead if a process may not have so many descriptors: the last one that it may have. `most` is the hard limit of their number.
pub const fn control_descriptor(most: u64) -> i32 {
    if most > CONTROL_FD as u64 {
        CONTROL_FD
    } else {
        most.saturating_sub(1) as i32
    }
}

/// With a limit of the stack above this, the kernel may put libraries where we have no room for their shadows; with none, it does. A program that has more
/// is executed with this one, and gets its own back when it begins ([`Shared::stack_limit`]).
pub const STACK_LIMIT_MAX: u64 = 64 << 30;

/// `REFRAIN=239` in the environment says that the descriptor is ours.
pub const CONTROL_VARIABLE: &str = "REFRAIN";

/// In replay, the position of a program's descriptor says which process of the run it is. With this bit, the program was started in another
/// directory than its own, which is open as `DIRECTORY_FD`.
pub const FROM_ELSEWHERE: u64 = 1 << 32;
pub const DIRECTORY_FD: i32 = CONTROL_FD - 1;

/// "RFRNCTL\x01", little-endian.
pub const CONTROL_MAGIC: u64 = 0x014c_5443_4e52_4652;
/// Section of an instrumented object that holds its site table.
pub const SITE_SECTION: &str = "refrain_sites";
/// The section with the bitcode of what was built with `--det`, and its numbers.
pub const UNIT_SECTION: &str = "refrain_units";
/// The section with the words of functions that were built with `--coop` (`pass/parts.h`).
pub const PART_SECTION: &str = "refrain_parts";
/// Bits of such a word that stand for elements. With all bits set everything is observed.
pub const PART_BITS: u32 = 63;
/// A unit has the number that a site would have so many bytes behind the beginning of its site table.
pub const UNIT_NUMBER_OFFSET: u32 = 16;
/// In a record of the site table: what kind of site it is, and the shared program element that is accessed there.
pub const SITE_KIND_OFFSET: usize = 6;
pub const SITE_ELEMENT_OFFSET: usize = 16;
/// Of the flags of a module's site table: its plain accesses are not observed, whatever is asked for.
pub const SITE_TABLE_SYNC_ONLY: u32 = 1;
/// Its functions can count control transfers ([`counting`]).
pub const SITE_TABLE_COUNTED: u32 = 2;
/// Its functions have versions for partial recordings.
pub const SITE_TABLE_PARTS: u32 = 4;
/// Where in a site record its flags are.
pub const SITE_FLAGS_OFFSET: usize = SITE_ELEMENT_OFFSET + 4;
/// Of the flags: what is read there may be bytes that nobody has set.
pub const SITE_MAY_BE_UNDEFINED: u32 = 1;
pub const SITE_KIND_SYNC_CALL: u8 = 5;
pub const SITE_KIND_ALLOCATION: u8 = 7;

/// What a statement of inline assembly does to its place, as `__refrain_assembly` is told.
pub mod assembly {
    pub const READS: u32 = 0;
    pub const WRITES: u32 = 1;
    pub const BOTH: u32 = 2;
}

/// In the number of bytes that `__refrain_instruction` is told: they are random.
pub const RANDOM_INSTRUCTION: u64 = 1 << 32;

/// File name of the runtime that instrumented programs link to.
pub const RUNTIME_LIBRARY: &str = "librefrain_runtime.so";

pub use memory_map::CELL_XOR;
pub use memory_map::CHUNK_BYTES;
pub use memory_map::GHOST_XOR;
pub const CHUNK_SHADOW: u64 = memory_map::CHUNK_WORDS.start;
pub const CELL_BYTES: u64 = 8;
pub const ARENA: u64 = memory_map::ARENA.start;
pub const ARENA_BYTES: u64 = memory_map::ARENA.bytes;
pub const CONTROL_ADDRESS: u64 = memory_map::CONTROL.start;
/// Where every process of a run has the file of all control memory, or, when recording, the control file of the first process.
pub const ROOT_CONTROL_ADDRESS: u64 = memory_map::ROOT_CONTROL.start;

/// Threads over one run; thread indices are 16 bits wide in shadow words.
pub const THREADS_MAX: usize = 1 << 15;
pub const HEADER_BYTES: usize = 1 << 14;
/// In the directory of a recording's first process: the names of variables whose values no file may hold, each with a NUL behind it.
pub const REDACTED_FILE_NAME: &str = "redacted";
/// Its size, at most.
pub const REDACTED_BYTES_MAX: usize = 4096;
/// Where in the control file the table of call sites is, behind the last slot.
pub const CALL_SITES_OFFSET: usize = HEADER_BYTES + THREADS_MAX * size_of::<ThreadSlot>();
pub const CONTROL_BYTES: usize = CALL_SITES_OFFSET + size_of::<call_sites::Table>();
/// In replay, the control memory of all processes of a run is one file, that of each this far behind the one before.
pub const CONTROL_STRIDE: usize = CONTROL_BYTES.next_multiple_of(4096);
/// Processes of a run that are recorded, at most.
pub const PROCESSES_MAX: u32 = 4096;

/// How a process began; values of [`Identity::origin`].
pub mod origin {
    /// The tool started it.
    pub const FIRST: u32 = 0;
    /// Another process of the run forked; this is the child.
    pub const FORKED: u32 = 1;
    /// A program that was executed by, or on behalf of, another process of the run.
    pub const EXECUTED: u32 = 2;
}

/// Values of [`Progress::ended`] that are not one more than an exit status.
pub mod ended {
    pub const NOT_SAID: u32 = 0;
    /// It became another program, by `exec`.
    pub const REPLACED: u32 = 0x1_0000;
    /// Plus the fatal signal that one of its threads met.
    pub const BY_SIGNAL: u32 = 0x2_0000;
}

/// Descriptors a process may begin with that are known to be the recorded standard output or error.
pub const SHOWN_MAX: usize = 64;

/// Why recording stopped before the program did; values of [`Progress::truncated`].
pub mod truncated {
    pub const NO: u32 = 0;
    /// The file system refused more space; `truncated_errno` says how.
    pub const NO_SPACE: u32 = 1;
    /// `--max-size` was reached.
    pub const SIZE_LIMIT: u32 = 2;
    /// More than `THREADS_MAX` threads.
    pub const THREADS: u32 = 3;
    /// A log could not be created or mapped.
    pub const LOG_FILE: u32 = 4;
}

/// Values of [`DivergenceSection::kind`].
pub mod divergence {
    pub const NONE: u32 = 0;
    /// The program did another operation, or on another object, than the record at this event says.
    pub const OPERATION: u32 = 1;
    /// A gate waits for a point that cannot come: its thread ended, was stopped at the end of its log, or waits in a circle.
    pub const STUCK: u32 = 2;
    /// The thread ended, or the program exited, before all recorded events of a thread were done.
    pub const SHORT: u32 = 3;
    /// A value read differs from the recorded check.
    pub const VALUE: u32 = 4;
    /// A thread was created that the recording does not have.
    pub const THREAD: u32 = 5;
    /// The program made another system call, or at another event, than the recording has.
    pub const CALL: u32 = 6;
    /// The thread in which the recorded process ended goes on and on.
    pub const SURVIVED: u32 = 7;
    /// One thread at a time: none can go on, and the recording has more. Reported of the thread whose event is due.
    pub const DEADLOCK: u32 = 8;
    /// A deterministic run: an access that the schedule orders did not come before the thread's next event.
    pub const POINT: u32 = 9;
    /// A deterministic run: something else came in than when its schedule was learned.
    pub const INPUT: u32 = 10;
}

/// What is different about an input: [`DivergenceSection::other_thread`] of a divergence of the kind `INPUT`.
pub mod input_difference {
    pub const BYTES: u32 = 0;
    /// What the call returned.
    pub const RESULT: u32 = 1;
    /// Another call had come when it was learned; its number is in `other_count`.
    pub const CALL: u32 = 2;
    /// The thread had no more inputs.
    pub const MORE: u32 = 3;
}

/// What program and tool tell each other about one process of a run, by who writes it and what it is about.
#[repr(C)]
pub struct ControlHeader {
    pub magic: u64,
    pub abi_version: u32,
    pub reserved: u32,
    /// Written by the tool.
    pub settings: SettingsSection,
    pub identity: Identity,
    pub progress: Progress,
    pub divergence: DivergenceSection,
    pub turns: TurnsProgress,
    pub debugger: DebuggerSection,
    /// In the file of the first process only.
    pub shared: Shared,
    pub question: QuestionSection,
    /// Absolute path of the run directory, where logs are created (record) or the schedule is (replay).
    pub run_directory: [u8; RUN_DIRECTORY_BYTES_MAX],
}

/// Longest path of a run directory, with the NUL behind it.
pub const RUN_DIRECTORY_BYTES_MAX: usize = 4096;

/// Which process of which run it is. Written by the tool, or by the process that forks it.
#[repr(C)]
pub struct Identity {
    /// Length of `run_directory`.
    pub run_directory_bytes: u32,
    /// Replay: the process that watches. Those that only wait, wait for it.
    pub tool: u32,
    /// The recorded process's id: written when recording, read when replaying.
    pub pid: AtomicU32,
    /// The number of this process, and of the one that forked it.
    pub process: AtomicU32,
    pub parent: AtomicU32,
    /// One of `origin`.
    pub origin: AtomicU32,
    /// The threads there were when it began: those of its parent, if it was forked, of which it has only one.
    pub first_threads: AtomicU32,
    /// The thread it began with, and what that thread had completed before.
    pub main_thread: AtomicU32,
    pub main_count: AtomicU64,
    /// Of the first 64 descriptors it began with: 1, 2: is the recorded standard output, error.
    pub shown: [AtomicU8; SHOWN_MAX],
}

/// How far it has come, and what became of it. Written by the runtime.
#[repr(C)]
pub struct Progress {
    /// Set once the runtime has taken over; a program that never sets it was not instrumented.
    pub attached: AtomicU32,
    pub threads: AtomicU32,
    /// One of `truncated`, and an errno.
    pub truncated: AtomicU32,
    pub truncated_errno: AtomicU32,
    pub log_bytes: AtomicU64,
    /// Newest epoch (see `run_model::Kind::Share`).
    pub epoch: AtomicU64,
    /// Recording: bytes logged so far as going to standard output and to standard error. The last of them, which a thread
    /// was about to write when the process ended, may never have been written.
    pub shown_bytes: [AtomicU64; 2],
    /// 1: a process was started that is not recorded.
    pub forked: AtomicU32,
    /// 1: system calls are recorded, or answered.
    pub calls: AtomicU32,
    /// One more than the number of the first system call nobody here knows; 0: none.
    pub unknown_call: AtomicU32,
    /// Recording: one more than the number of the first system call that was refused; 0: none.
    pub refused_call: AtomicU32,
    /// Recording at scope `inputs`: 1: it has memory in common with processes that were forked.
    pub shares_memory: AtomicU32,
    /// How it ended, if it said so: one of `ended`, or one more than its exit status.
    pub ended: AtomicU32,
    /// Recording one thread at a time: how often others went on beside a thread that made no call.
    pub overruns: AtomicU32,
    pub reserved: u32,
    /// A deterministic run: calls, and bytes, that were compared with the learned ones.
    pub compared_calls: AtomicU64,
    pub compared_bytes: AtomicU64,
    /// The same, if that is asked for: how often a thread had to wait at a gate, and for how long, all threads together.
    pub waits: AtomicU64,
    pub waited_ns: AtomicU64,
}

/// Replay: the first divergence.
#[repr(C)]
pub struct DivergenceSection {
    /// One of `divergence`. Written last.
    pub kind: AtomicU32,
    pub thread: AtomicU32,
    pub event: AtomicU64,
    /// What the program did: `run_model::Kind` and `Op`.
    pub actual: AtomicU32,
    pub site: AtomicU32,
    pub object: AtomicU64,
    pub value: AtomicU64,
    /// Kind-specific: for STUCK the awaited thread and count, for VALUE the recorded value, for CALL the recorded number and event, for INPUT a value of `input_difference` and the learned result.
    pub other_thread: AtomicU32,
    pub reserved: u32,
    pub other_count: AtomicU64,
    /// For INPUT: the file that was read, or its path as the program gave it, with a NUL behind it; empty: not known.
    pub name: [AtomicU8; DIVERGENCE_NAME_BYTES],
}

/// Longer names are cut.
pub const DIVERGENCE_NAME_BYTES: usize = 512;

/// Replay of one thread at a time (`turns_file`): how far it has come.
#[repr(C)]
pub struct TurnsProgress {
    /// Events of the recorded order that have happened.
    pub order_reached: AtomicU64,
    /// Places at which another thread could have gone on instead.
    pub switch_points: AtomicU64,
    /// Edits that were asked for and could not be made where they were due.
    pub edits_missed: AtomicU64,
    /// Switch points that were written down.
    pub points_written: AtomicU64,
    /// Accesses that were written down.
    pub accesses_written: AtomicU64,
    /// How often a thread had to give way because it went on and on without a switch point.
    pub budgets_spent: AtomicU64,
}

/// Replay under a debugger; written by the tool.
#[repr(C)]
pub struct DebuggerSection {
    /// 1: a debugger watches, and has breakpoints on the functions that the runtime calls for it (`__refrain_at_end` …).
    pub debugged: u32,
    /// The thread that calls `__refrain_at_failure` before its event `failure_event`.
    pub failure_thread: u32,
    /// u64::MAX: there is none.
    pub failure_event: u64,
}

/// What all processes of a run share.
#[repr(C)]
pub struct Shared {
    /// How many processes there have been; in replay, how many were forked.
    pub processes: AtomicU32,
    /// How many programs were started by `posix_spawn` and its kin.
    pub spawned: AtomicU32,
    /// Device and inode of the recorded standard output and error.
    pub streams: [[AtomicU64; 2]; 2],
    /// How often processes have written to each of them, since there have been two.
    pub stream_turns: [AtomicU32; 2],
    /// Replay of processes that share memory: whose turn it is (`runtime/src/turns/process_order.rs`), and how many of its inputs have happened.
    pub process_order: AtomicU32,
    pub process_order_happened: AtomicU32,
    /// Recording, for standard output and error: what became of what was written there, a word of `output`.
    pub output: [AtomicU32; 2],
    /// The limit of the stack of a process that was executed with [`STACK_LIMIT_MAX`] instead.
    pub stack_limit: AtomicU64,
    /// Recording with `--max-size`: bytes on the disk that are used, or about to be (`disk::reserve`), and what a process takes before it logs anything.
    pub disk_bytes: AtomicU64,
    pub process_bytes: AtomicU64,
}

/// The tool passes on what the program prints, and says here what came of it.
pub mod output {
    /// An errno: what was written could not be passed on. Whoever tells the program takes it away.
    pub const ERRNO: u32 = 0xffff;
    /// Passing on may fail: whoever writes waits until it is done.
    pub const CHECKED: u32 = 1 << 16;
    /// Bytes have left the pipe, or are about to, and are not yet passed on.
    pub const BUSY: u32 = 1 << 17;
}

/// Recording: what a process asks the tool about an object it has loaded.
#[repr(C)]
pub struct QuestionSection {
    /// One of `question`.
    pub state: AtomicU32,
    /// Who asks: its number in the run, and its id.
    pub process: AtomicU32,
    pub pid: AtomicU32,
    /// 1: the object is a program that we host, so all its calls are wanted.
    pub is_of_guest: AtomicU32,
    /// Length of `path`.
    pub path_bytes: AtomicU32,
    pub reserved: u32,
    /// The object's path, as the process knows it.
    pub path: [AtomicU8; QUESTION_PATH_BYTES_MAX],
}

pub const QUESTION_PATH_BYTES_MAX: usize = 4096;

/// Values of [`QuestionSection::state`]. A question is where an object enters the kernel; the answer is one more object
/// in the table of the process that asks, or none.
pub mod question {
    /// Nobody answers: it is not recording, or it is over, or somebody has waited in vain.
    pub const CLOSED: u32 = 0;
    /// Whoever wants to ask takes it.
    pub const FREE: u32 = 1;
    pub const TAKEN: u32 = 2;
    pub const ASKED: u32 = 3;
    pub const ANSWERED: u32 = 4;
}

/// Values of [`ThreadSlot::state`].
pub mod thread_state {
    pub const UNUSED: u32 = 0;
    pub const RUNNING: u32 = 1;
    pub const EXITED: u32 = 2;
    /// Replay: stopped at the end of its recorded events.
    pub const STOPPED: u32 = 3;
    /// Replay: waits for `wait_thread` to reach `wait_count`.
    pub const WAITING: u32 = 4;
    /// Recording: inside a blocking call of libc's; will pass a full fence before it accesses anything.
    pub const BLOCKED: u32 = 5;
}

/// Value of [`ThreadSlot::signal`] that is no signal.
pub const ENDED_BY_EXIT: u32 = 256;

/// One thread's share of the control file. The first 48 bytes are touched by compiled code.
#[repr(C, align(128))]
pub struct ThreadSlot {
    /// Events completed.
    pub count: AtomicU64,
    /// The slow path must be taken before the event with this index (u64::MAX: never).
    pub gate: AtomicU64,
    /// Chunk word that says "this thread alone", with the thread's generation. 0 in replay, where untouched shadow
    /// reads as 0 and all is allowed.
    pub exclusive: AtomicU64,
    /// Chunk words 1..=seen are epochs whose chunks this thread may read.
    pub seen: AtomicU64,
    /// 1 between a check of chunk words and the last access that relies on it.
    pub window: AtomicU32,
    pub state: AtomicU32,
    /// Address of the site record of the last synchronisation call; 0 if unknown.
    pub site: AtomicU64,
    pub wait_thread: AtomicU32,
    pub os_thread: AtomicU32,
    pub wait_count: AtomicU64,
    /// Records written (record) or consumed (replay).
    pub records: AtomicU64,
    pub parent: AtomicU32,
    /// The signal that killed the process in this thread, or `ENDED_BY_EXIT` if the thread ended it so; 0: neither.
    /// In replay such a thread is not stopped at the end of its log, and no other may end the process.
    pub signal: AtomicU32,
    /// Recording: one more than the index of the first event whose record could not be written; 0: none.
    pub lost: AtomicU64,
    /// Replay: the count at which this thread is to wake threads that sleep until then; 0: none.
    pub wake_at: AtomicU64,
    /// Replay: changes when they are woken.
    pub wakeups: AtomicU32,
    /// Recording: how much this thread may spend on new generations. Given by those who take chunks from it.
    pub credit: AtomicU32,
    /// Replay, when STOPPED: what the thread was about to do, `run_model::Kind` and `Op`, and with which object.
    pub stopped_at: AtomicU32,
    pub reserved: u32,
    pub stopped_object: AtomicU64,
}

const _: () = assert!(size_of::<ThreadSlot>() == 128);
const _: () = assert!(size_of::<ControlHeader>() <= HEADER_BYTES);
const _: () = assert!(offset_of!(ThreadSlot, count) == 0);
const _: () = assert!(offset_of!(ThreadSlot, gate) == 8);
const _: () = assert!(offset_of!(ThreadSlot, exclusive) == 16);
const _: () = assert!(offset_of!(ThreadSlot, seen) == 24);
const _: () = assert!(offset_of!(ThreadSlot, window) == 32);
const _: () = assert!(offset_of!(ThreadSlot, site) == 40);
