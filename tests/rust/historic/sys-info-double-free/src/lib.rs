//! RUSTSEC-2020-0100: `disk_info` of sys-info before 0.8.0 frees a list twice when two threads call it.
//!
//! The C part of the library keeps the file systems it has seen in one list of the whole process, and every call frees
//! the list. Here two threads ask at the same time. What shows is an abort by the allocator, or a segmentation fault.
//!
//! The list is plain memory, and the code is C, built by the library's build script: a replay needs the scope `memory`,
//! and C that is instrumented too.

#[cfg(test)]
mod tests {
    use starting_line::StartingLine;
    use std::thread;
    use sys_info::disk_info;

    const ROUNDS: usize = 30;

    #[test]
    fn sys_info_double_free() {
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        line.wait();
                        // Whether there are disks to report is not the question here.
                        let _disks = disk_info();
                    }
                });
            }
        });
    }
}
