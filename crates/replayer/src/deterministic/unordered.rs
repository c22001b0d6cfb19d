//! Calls of a recorded run whose order a hybrid schedule does not keep, though threads may have met there.
use crate::call_names::call_name;
use crate::inputs::What;
use crate::inputs::load_inputs;
use crate::loaded::LoadedRun;
use run_model::Op;
use std::collections::BTreeSet;

/// Calls that may wait for other threads, or for the outside, and are not ordered, or not always.
const SELDOM_ORDERED: [i64; 27] = [
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_wait,
    libc::SYS_flock,
    libc::SYS_io_getevents,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_pause,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_recvmmsg,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_select,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
];

/// Their names, each once. As long as there is one thread, there is one order.
pub fn waits(loaded: &LoadedRun) -> Vec<String> {
    let threads = loaded.logs.threads.len() as u32;
    if threads < 2 {
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    for (thread, log) in (0..threads).zip(&loaded.logs.threads) {
        let returns = log.records.iter().filter(|record| record.op == Op::CallReturn);
        let ordered: BTreeSet<u64> = returns.map(|record| record.event).collect();
        for input in load_inputs(&loaded.run, thread).0 {
            if let What::Call(number) = input.what
                && SELDOM_ORDERED.contains(&i64::from(number))
                && !ordered.contains(&input.event)
            {
                names.insert(call_name(number));
            }
        }
    }
    names.into_iter().collect()
}
