//! A busy machine on purpose.
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;

/// Keeps every core busy until it is dropped.
pub struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start() -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(2, |n| n.get());
        let threads = (0..cores)
            .map(|_| {
                let is_over = Arc::clone(&is_over);
                // Relaxed: the flag carries no data, and a late look only costs a moment of load.
                thread::spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                })
            })
            .collect();
        Load { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A busy loop does not panic.
            let _ = thread.join();
        }
    }
}
