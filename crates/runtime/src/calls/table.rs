//! What each system call does to the program: nothing here acts.
use crate::calls::rows;
use core::ffi::c_long;

/// How a call is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Done in recording and in replay.
    Real,
    /// Done in recording, left out in replay, where gates decide who goes on.
    Yield,
    /// Ends the process; in replay, when all threads are where they were.
    End,
    /// Makes a process of the run, perhaps: `processes.rs`.
    Fork,
    /// Becomes another program: `processes.rs`.
    Exec,
    /// Says what is to happen on a signal: `signals.rs`.
    SignalAction,
    /// Says where handlers run: `signals.rs`.
    SignalStack,
    /// Done in recording; in replay, the log answers.
    Logged,
    /// Logged, though we do not know what it writes.
    Unknown,
    /// Answered with ENOSYS: it would do things behind our back.
    Refused,
}

/// Memory that the kernel writes.
#[derive(Clone, Copy)]
pub struct Written {
    /// The argument that points to it.
    pub argument: u8,
    pub size: Size,
}

#[derive(Clone, Copy)]
pub enum Size {
    /// So many bytes.
    Fixed(u32),
    /// So many bytes, from an offset on.
    Part(u16, u16),
    /// As many elements of this size as the result says; another argument says for how many there is room.
    Result(u32, u8),
    /// As many bytes as the result says, behind so many that are always there.
    Headed(u32),
    /// As many elements of this size as another argument says.
    Argument(u8, u32),
    /// As another argument's pointee said before the call, and says after it; the smaller one.
    LengthAt(u8),
    /// Bits, as many as another argument says, in words.
    Bits(u8),
    /// As many bytes as the result says, into the buffers of an iovec; another argument has their number.
    Buffers(u8),
    /// As many bytes as the result says, into the buffers of a msghdr; and its name and control data.
    Message,
    /// As many messages as the result says.
    Messages,
    /// Of as many messages as the result says, how much of them was sent.
    Sent,
    /// As many bytes as the command of an ioctl says, which is its second argument.
    Command,
    /// So many bytes, and behind them as many elements of a size as the number at an offset says.
    Tail(u8, u8, u8),
    /// Not there, but behind the pointer at an offset: as many elements of a size as the number at another offset says.
    Behind(u8, u8, u8),
    /// The same, as many bytes as the result says, and not more than the number at another offset.
    ResultBehind(u8, u8),
    /// Nobody knows: what has changed, not far from there.
    Changed,
    /// The same behind the pointer at an offset.
    ChangedBehind(u8),
    /// A file's handle, which says itself how long it is.
    Handle,
    /// As many of the kernel's events as the result says, and what was read asynchronously.
    Completed,
    /// The values of all semaphores of a set, which is the first argument.
    Semaphores,
}

/// What is known about a call.
#[derive(Clone, Copy)]
pub struct Row {
    pub treatment: Treatment,
    /// What it writes if it succeeds.
    pub writes: &'static [Written],
    /// What it writes if it fails with one of these errors.
    pub failing: &'static [(i32, &'static [Written])],
    /// Says it instead, if other arguments matter.
    pub by: Option<fn(&[usize; 6]) -> Row>,
}

impl Row {
    pub const fn of(treatment: Treatment) -> Row {
        Row {
            treatment,
            writes: &[],
            failing: &[],
            by: None,
        }
    }

    /// What a call with this result has written.
    #[inline]
    pub fn written(&self, result: isize) -> &'static [Written] {
        if result >= 0 {
            return self.writes;
        }
        let failed = self.failing.iter().find(|(error, _)| result == -*error as isize);
        failed.map_or(&[], |(_, writes)| writes)
    }
}

/// By number: one look instead of several long comparisons.
static ROWS: [Row; rows::COUNT] = {
    let mut rows = [Row::of(Treatment::Logged); rows::COUNT];
    let mut number = 0;
    while number < rows.len() {
        rows[number] = look_up_const(number as c_long);
        number += 1;
    }
    rows
};

/// Of a call whose arguments do not matter. A number that is no call is answered by the kernel, and writes nothing.
pub const fn look_up_const(number: c_long) -> Row {
    match rows::listed(number as usize) {
        Some(row) => row,
        None => Row::of(Treatment::Logged),
    }
}

#[inline]
pub fn look_up(number: c_long, arguments: &[usize; 6]) -> Row {
    let row = ROWS.get(number as usize).copied();
    let row = row.unwrap_or(Row::of(Treatment::Logged));
    match row.by {
        None => row,
        Some(by) => by(arguments),
    }
}

/// The number by which a call is logged: numbers that are no calls have one in common, as logs have other uses for most of them.
#[inline]
pub fn logged_as(number: c_long) -> c_long {
    match (number as usize) < rows::COUNT {
        true => number,
        false => log_format::inputs::NO_CALL as c_long,
    }
}

/// May it wait for something from outside?
pub fn blocks(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_pause
            | libc::SYS_rt_sigsuspend
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_preadv
            | libc::SYS_preadv2
            | libc::SYS_recvmmsg
            | libc::SYS_sendmmsg
            | libc::SYS_splice
            | libc::SYS_msgrcv
            | libc::SYS_msgsnd
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_mq_timedreceive
            | libc::SYS_mq_timedsend
            | libc::SYS_io_getevents
            | libc::SYS_futex_waitv
            | libc::SYS_flock
            | libc::SYS_fsync
            | libc::SYS_fdatasync
    )
}

/// Is it logged?
pub fn is_logged(number: c_long, arguments: &[usize; 6]) -> bool {
    matches!(
        look_up(number, arguments).treatment,
        Treatment::Logged | Treatment::Unknown
    )
}

/// Does it write to the descriptor that is its first argument?
pub fn writes(number: c_long) -> bool {
    matches!(number, libc::SYS_write | libc::SYS_writev)
}

/// Does it do nothing but let time pass?
pub fn sleeps(number: c_long) -> bool {
    matches!(number, libc::SYS_nanosleep | libc::SYS_clock_nanosleep)
}

/// May it end a wait of another thread's, by what it does?
pub const fn acts_on_others(number: c_long) -> bool {
    log_format::inputs::acts(number as u32)
}

const _: () = {
    use log_format::inputs::acts;
    use log_format::inputs::waits;
    assert!(acts(libc::SYS_write as u32) && acts(libc::SYS_close as u32) && acts(libc::SYS_rt_tgsigqueueinfo as u32));
    assert!(acts(libc::SYS_splice as u32) && acts(libc::SYS_tgkill as u32) && acts(libc::SYS_close_range as u32));
    assert!(
        waits(libc::SYS_read as u32) && waits(libc::SYS_epoll_pwait2 as u32) && waits(libc::SYS_rt_sigtimedwait as u32)
    );
    assert!(waits(libc::SYS_accept4 as u32) && waits(libc::SYS_pselect6 as u32) && waits(libc::SYS_waitid as u32));
};

/// Does it send a signal?
pub fn sends_signal(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill | libc::SYS_rt_sigqueueinfo | libc::SYS_rt_tgsigqueueinfo
    )
}

/// Is it mostly not a call at all, but a look at a page of the kernel's, or at a counter of the processor's?
pub fn is_clock(number: c_long) -> bool {
    const COUNTER: c_long = log_format::inputs::COUNTER as c_long;
    matches!(
        number,
        COUNTER
            | libc::SYS_clock_gettime
            | libc::SYS_clock_getres
            | libc::SYS_gettimeofday
            | libc::SYS_time
            | libc::SYS_getcpu
    )
}

/// The argument with the bytes that go out, and the one with their number.
pub fn outgoing(number: c_long) -> Option<(usize, usize)> {
    match number {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_sendto => Some((1, 2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn every_number_of_the_kernels_list_has_a_row() {
        for (at, (number, name)) in rows::NAMES.iter().enumerate() {
            // The numbers in between are not used on x86-64.
            let expected = if at <= 336 { at } else { at - 337 + 424 };
            assert_eq!(*number, expected, "the row of {name}");
        }
        assert_eq!(rows::NAMES.last().map(|(number, _)| number + 1), Some(rows::COUNT));
    }

    #[test]
    fn rows_have_the_names_and_numbers_of_the_kernels_headers() {
        let header = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h");
        let Ok(header) = header.or_else(|_| std::fs::read_to_string("/usr/include/asm/unistd_64.h")) else {
            eprintln!("skipped: there are no headers of the kernel");
            return;
        };
        let mut compared = 0;
        for line in header.lines() {
            let Some((name, number)) = line.strip_prefix("#define __NR_").and_then(|line| line.split_once(' ')) else {
                continue;
            };
            let number: usize = number.trim().parse().unwrap();
            // A newer kernel may have more; what it writes is not known, and the number is in the log as it is.
            if number < rows::COUNT {
                assert!(rows::NAMES.contains(&(number, name)), "{number} is {name}");
                compared += 1;
            }
        }
        assert!(compared > 300, "{compared} calls in the header");
    }
}
