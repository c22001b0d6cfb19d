//! System calls of which other arguments than the number decide what they do and write.
use crate::calls::table::Row;
use crate::calls::table::Size;
use crate::calls::table::Size::Argument;
use crate::calls::table::Size::Behind;
use crate::calls::table::Size::Changed;
use crate::calls::table::Size::ChangedBehind;
use crate::calls::table::Size::Fixed;
use crate::calls::table::Size::Part;
use crate::calls::table::Size::Result;
use crate::calls::table::Size::Tail;
use crate::calls::table::Treatment;
use crate::calls::table::Written;
use crate::clones::Asked;
use crate::control;
use core::sync::atomic::Ordering::Relaxed;

const NUMBER: Size = Fixed(4);
const WORD: Size = Fixed(8);

/// A call that is logged and writes this.
macro_rules! logged {
    ($($argument:literal: $size:expr),*) => {
        Row {
            writes: const { &[$(Written { argument: $argument, size: $size }),*] },
            ..Row::of(Treatment::Logged)
        }
    };
}

/// A call of which nobody knows what it writes; so what has changed where this argument points to.
fn unknown() -> Row {
    Row {
        treatment: Treatment::Unknown,
        ..logged![2: Changed]
    }
}

pub fn mmap(arguments: &[usize; 6]) -> Row {
    // A mapped file is an input.
    match arguments[3] as i32 & libc::MAP_ANONYMOUS {
        0 => logged![],
        _ => Row::of(Treatment::Real),
    }
}

pub fn clone(arguments: &[usize; 6]) -> Row {
    made(Asked::of(libc::SYS_clone, arguments))
}

pub fn clone3(arguments: &[usize; 6]) -> Row {
    made(Asked::of(libc::SYS_clone3, arguments))
}

/// A process, or something that would go on in the middle of our code, on a stack without it: in its maker's memory, or on a stack of the program's.
fn made(asked: Option<Asked>) -> Row {
    Row::of(match asked {
        Some(asked) if asked.stack != 0 || !asked.is_process() => Treatment::Refused,
        Some(_) => Treatment::Fork,
        // The kernel says what is wrong with it.
        None => Treatment::Logged,
    })
}

pub fn fcntl(arguments: &[usize; 6]) -> Row {
    const F_GETOWN_EX: i32 = 16;
    const F_GETOWNER_UIDS: i32 = 17;
    const F_GET_RW_HINT: i32 = 1035;
    const F_GET_FILE_RW_HINT: i32 = 1037;
    match arguments[1] as i32 {
        libc::F_GETLK | libc::F_OFD_GETLK => logged![2: Fixed(32)],
        F_GETOWN_EX | F_GETOWNER_UIDS | F_GET_RW_HINT | F_GET_FILE_RW_HINT => logged![2: WORD],
        _ => logged![],
    }
}

/// Commands that carry no size, or a wrong one, first; the others say it themselves.
pub fn ioctl(arguments: &[usize; 6]) -> Row {
    const READ: u32 = 2;
    let command = arguments[1] as u32;
    let (direction, bytes, kind, index) = (
        command >> 30,
        command >> 16 & 0x3fff,
        command >> 8 & 0xff,
        command & 0xff,
    );
    match command {
        // Terminals: attributes in three sizes, sizes of windows, numbers.
        0x5401 | 0x5456 => logged![2: Fixed(36)],
        0x5405 => logged![2: Fixed(18)],
        0x5432 => logged![2: Fixed(16)],
        0x5413 => logged![2: WORD],
        0x540f | 0x5411 | 0x5415 | 0x5419 | 0x541b | 0x5424 | 0x5429 => logged![2: NUMBER],
        0x541e => logged![2: Fixed(72)],
        0x545d => logged![2: Fixed(80)],
        // FIOQSIZE.
        0x5460 => logged![2: WORD],
        0x5459 => logged![2: NUMBER],
        // TIOCLINUX: a code, and what is asked for behind it. Lines to modems.
        0x541c | 0x5458 | 0x545a => logged![2: Changed],
        // All others without a size set something.
        0x5402..=0x545f => logged![],
        // FIBMAP, FIGETBSZ.
        1 | 2 => logged![2: NUMBER],
        // FIOGETOWN, SIOCGPGRP, SIOCATMARK; then times.
        0x8903..=0x8905 => logged![2: NUMBER],
        0x8906 | 0x8907 => logged![2: Fixed(16)],
        // SIOCGIFCONF: as many interfaces as there is room for.
        0x8912 => logged![2: Part(0, 4), 2: Behind(8, 0, 1)],
        // SIOCGARP, SIOCGRARP.
        0x8954 | 0x8961 => logged![2: Fixed(68)],
        // SIOCETHTOOL, and what drivers have behind the same pointer.
        0x8946 | 0x8994 | 0x89f0..=0x89ff => logged![2: ChangedBehind(16)],
        // Bridges: a command and its arguments.
        0x8940 | 0x8941 => logged![2: ChangedBehind(8)],
        // Interfaces: a name and what is asked for; some have no argument.
        0x8910..=0x89ef => logged![2: Changed],
        // Wireless interfaces: the same, or a pointer to it.
        0x8b00..=0x8bff => logged![2: ChangedBehind(16), 2: Fixed(32)],
        // SG_IO: data, sense data, and the rest.
        0x2285 => logged![2: ChangedBehind(24), 2: ChangedBehind(40), 2: Fixed(88)],
        // FS_IOC_FIEMAP: as many extents as it says.
        0xc020_660b => logged![2: Tail(32, 20, 56)],
        // Tunnels: a whole interface, though they say a number, or nothing.
        _ if kind == b'T' as u32 && index >= 200 => logged![2: Changed],
        _ if direction & READ != 0 && bytes != 0 => logged![2: Size::Command],
        // Block devices.
        _ if kind == 0x12 => logged![2: Changed],
        // It says that it only reads, or has no arguments.
        _ if direction != 0 => logged![2: Changed],
        _ => unknown(),
    }
}

/// To its own memory, whose buffers are those of the other side.
pub fn process_vm_writev(arguments: &[usize; 6]) -> Row {
    let own = control::header().identity.pid.load(Relaxed) as usize;
    match arguments[0] == own {
        true => logged![3: Size::Buffers(4)],
        false => logged![],
    }
}

pub fn setsockopt(arguments: &[usize; 6]) -> Row {
    const ARP_REPLACE: usize = 96;
    const REPLACE: usize = 64;
    let level = arguments[1] as i32;
    match arguments[2] {
        // Tables of filters: the counters of those that were there.
        REPLACE if level == libc::SOL_IP || level == libc::SOL_IPV6 => logged![3: Behind(88, 84, 16)],
        ARP_REPLACE if level == libc::SOL_IP => logged![3: Behind(72, 68, 16)],
        _ => logged![],
    }
}

/// Names of threads and of memory, and what the processor may do, are set in replay, too; libc does some of it where nobody can tell how often.
pub fn prctl(arguments: &[usize; 6]) -> Row {
    const MAP_SIZE: usize = 15;
    const GET_AUXV: i32 = 0x4155_5856;
    match arguments[0] as i32 {
        libc::PR_SET_NAME | libc::PR_SET_VMA | libc::PR_SET_TSC | libc::PR_SET_THP_DISABLE => Row::of(Treatment::Real),
        libc::PR_GET_NAME => logged![1: Fixed(16)],
        libc::PR_GET_TID_ADDRESS => logged![1: WORD],
        libc::PR_GET_PDEATHSIG
        | libc::PR_GET_UNALIGN
        | libc::PR_GET_FPEMU
        | libc::PR_GET_FPEXC
        | libc::PR_GET_ENDIAN
        | libc::PR_GET_TSC
        | libc::PR_GET_CHILD_SUBREAPER => logged![1: NUMBER],
        libc::PR_SET_MM if arguments[1] == MAP_SIZE => logged![2: NUMBER],
        libc::PR_SCHED_CORE => logged![4: Changed],
        GET_AUXV => logged![1: Result(1, 2)],
        _ => logged![],
    }
}

pub fn shmctl(arguments: &[usize; 6]) -> Row {
    match arguments[1] as i32 & 0xff {
        libc::IPC_STAT | 13 | 15 => logged![2: Fixed(112)],
        3 => logged![2: Fixed(72)],
        14 => logged![2: Fixed(48)],
        _ => logged![],
    }
}

pub fn semctl(arguments: &[usize; 6]) -> Row {
    match arguments[2] as i32 & 0xff {
        libc::IPC_STAT | 18 | 20 => logged![3: Fixed(104)],
        3 | 19 => logged![3: Fixed(40)],
        libc::GETALL => logged![3: Size::Semaphores],
        _ => logged![],
    }
}

pub fn msgctl(arguments: &[usize; 6]) -> Row {
    match arguments[1] as i32 & 0xff {
        libc::IPC_STAT | 11 | 13 => logged![2: Fixed(120)],
        3 | 12 => logged![2: Fixed(32)],
        _ => logged![],
    }
}

pub fn ptrace(arguments: &[usize; 6]) -> Row {
    match arguments[0] {
        // Words of its memory.
        1..=3 => logged![3: WORD],
        // Registers, those of the floating-point unit.
        12 => logged![3: Fixed(216)],
        14 => logged![3: Fixed(512)],
        25 => logged![3: Fixed(16)],
        // Where its segments begin, if that is asked for.
        30 if matches!(arguments[3], 0x1003 | 0x1004) => logged![2: WORD],
        // What an event brought, a signal's information, a set of registers.
        0x4201 => logged![3: WORD],
        0x4202 => logged![3: Fixed(128)],
        0x4204 => logged![3: Behind(0, 8, 1), 3: Part(8, 8)],
        0x420a | 0x4211 => logged![3: Argument(2, 1)],
        0x420d..=0x420f => logged![3: Result(1, 2)],
        0x4209 | 0x420c => logged![3: Changed],
        _ => logged![],
    }
}

pub fn syslog(arguments: &[usize; 6]) -> Row {
    match arguments[0] {
        2..=4 => logged![1: Result(1, 2)],
        _ => logged![],
    }
}

pub fn capget(arguments: &[usize; 6]) -> Row {
    const VERSION_1: u32 = 0x1998_0330;
    let is_first = arguments[0] != 0 && {
        // SAFETY: the program gives it to the kernel as a pointer to a version and an id.
        unsafe { (arguments[0] as *const u32).read_unaligned() == VERSION_1 }
    };
    let row = match is_first {
        true => logged![0: NUMBER, 1: Fixed(12)],
        false => logged![0: NUMBER, 1: Fixed(24)],
    };
    Row {
        // The version that the kernel has.
        failing: const {
            &[(
                libc::EINVAL,
                &[Written {
                    argument: 0,
                    size: NUMBER,
                }],
            )]
        },
        ..row
    }
}

pub fn quotactl(arguments: &[usize; 6]) -> Row {
    // The descriptor's kind of this call has the command in its second argument, and what is written in its fourth, too.
    let command = match arguments[0] as u32 >> 8 {
        0 => arguments[1] as u32 >> 8,
        command => command,
    };
    match command {
        0x80_0004 => logged![3: NUMBER],
        0x80_0005 => logged![3: Fixed(24)],
        0x80_0007 | 0x80_0009 => logged![3: Fixed(72)],
        // Those of XFS.
        0x5800..=0x58ff => logged![3: Changed],
        _ => logged![],
    }
}

pub fn keyctl(arguments: &[usize; 6]) -> Row {
    match arguments[0] {
        // KEYCTL_DESCRIBE, READ, GET_SECURITY, DH_COMPUTE.
        6 | 11 | 17 | 23 => logged![2: Result(1, 3)],
        // KEYCTL_PKEY_QUERY, and what is done with such keys.
        24 => logged![4: Fixed(48)],
        25..=27 => logged![4: Changed],
        // KEYCTL_CAPABILITIES.
        31 => logged![1: Result(1, 2)],
        _ => logged![],
    }
}

/// What is written lies in the attributes, and behind the pointers that they have for each command.
pub fn bpf(arguments: &[usize; 6]) -> Row {
    match arguments[0] {
        // BPF_MAP_LOOKUP_ELEM, GET_NEXT_KEY, LOOKUP_AND_DELETE_ELEM.
        1 | 4 | 21 => logged![1: ChangedBehind(16)],
        // BPF_PROG_LOAD: what the verifier says, above all if it says no.
        5 => Row {
            failing: const {
                const SAID: &[Written] = &[Written {
                    argument: 1,
                    size: ChangedBehind(32),
                }];
                &[
                    (libc::EACCES, SAID),
                    (libc::EINVAL, SAID),
                    (libc::ENOSPC, SAID),
                    (libc::EPERM, SAID),
                ]
            },
            ..logged![1: ChangedBehind(32)]
        },
        // BPF_PROG_TEST_RUN.
        10 => logged![1: ChangedBehind(24), 1: Part(4, 12), 1: Part(32, 12)],
        // Ids.
        11 | 12 | 23 | 31 => logged![1: Part(4, 4)],
        // BPF_OBJ_GET_INFO_BY_FD.
        15 => logged![1: Behind(8, 4, 1), 1: Part(4, 4)],
        // BPF_PROG_QUERY.
        16 => logged![1: ChangedBehind(16), 1: Part(12, 4), 1: Part(24, 4)],
        // BPF_BTF_LOAD.
        18 => logged![1: ChangedBehind(8)],
        // BPF_TASK_FD_QUERY.
        20 => logged![1: ChangedBehind(16), 1: Part(12, 4), 1: Part(24, 24)],
        // Batches of elements.
        24 | 25 => logged![1: ChangedBehind(8), 1: ChangedBehind(16), 1: ChangedBehind(24), 1: Part(32, 4)],
        _ => logged![],
    }
}
