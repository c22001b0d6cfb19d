//! What is left to do when nothing else is: to say why, and to end.
use crate::line::Line;
use crate::sys;

/// We cannot go on: a sentence on standard error, and exit status 125.
pub fn die(what: &[u8], errno: i32) -> ! {
    die_of(what, b"", errno)
}

/// The same with a name behind it.
pub fn die_of(what: &[u8], name: &[u8], errno: i32) -> ! {
    let mut line = Line::default();
    line.text(b"refrain runtime: ");
    line.text(what);
    line.text(name);
    if errno != 0 {
        line.text(b" (errno ");
        line.number(errno as u64);
        line.text(b")");
    }
    line.text(b"\n");
    sys::write_all(2, line.bytes());
    // SAFETY: ends the process.
    unsafe { sys::syscall(libc::SYS_exit_group, [125, 0, 0, 0, 0, 0]) };
    unreachable!("the process has ended")
}
