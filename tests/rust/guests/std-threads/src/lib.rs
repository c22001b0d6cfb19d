//! One test for each kind of synchronisation that `std` has. All pass; each prints something that depends on the order of
//! its threads, on time or on chance, so that a replay has something to get wrong.
#![cfg(test)]

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::Condvar;
use std::sync::LazyLock;
use std::sync::Mutex;
use std::sync::Once;
use std::sync::OnceLock;
use std::sync::RwLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Who came when.
#[derive(Default)]
struct Order(Mutex<Vec<usize>>);

impl Order {
    fn note(&self, who: usize) {
        self.0.lock().unwrap().push(who);
    }

    fn print(&self) {
        println!("{:?}", self.0.lock().unwrap());
    }
}

#[test]
fn spawn_and_join() {
    let order = Arc::new(Order::default());
    let threads: Vec<_> = (0..4)
        .map(|who| {
            let order = Arc::clone(&order);
            thread::Builder::new()
                .name(format!("worker {who}"))
                .spawn(move || {
                    for _ in 0..50 {
                        order.note(who);
                        thread::yield_now();
                    }
                    format!("{:?}", thread::current().id())
                })
                .unwrap()
        })
        .collect();
    let ids: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    order.print();
    println!("{ids:?}");
}

#[test]
fn scoped_threads() {
    let order = Order::default();
    let mut sums = [0usize; 3];
    thread::scope(|scope| {
        for (who, sum) in sums.iter_mut().enumerate() {
            let order = &order;
            scope.spawn(move || {
                for step in 0..100 {
                    *sum += step;
                    if step % 10 == 0 {
                        order.note(who);
                    }
                }
            });
        }
    });
    order.print();
    assert_eq!(sums, [4950; 3]);
}

#[test]
fn mutex_contended() {
    let counter = Mutex::new(0u64);
    let tries = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    match counter.try_lock() {
                        Ok(mut value) => *value += 1,
                        Err(_) => {
                            tries.fetch_add(1, Relaxed);
                            *counter.lock().unwrap() += 1;
                        }
                    }
                }
            });
        }
    });
    println!("{} waits", tries.load(Relaxed));
    assert_eq!(counter.into_inner().unwrap(), 2000);
}

#[test]
fn rwlock_readers_and_writers() {
    let value = RwLock::new(0u64);
    let seen = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let now = *value.read().unwrap();
                    if now % 7 == 0 {
                        seen.lock().unwrap().push(now);
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..100 {
                    *value.write().unwrap() += 1;
                }
            });
        }
    });
    println!("{:?}", seen.into_inner().unwrap());
    assert_eq!(value.into_inner().unwrap(), 200);
}

#[test]
fn condvar_with_and_without_timeout() {
    let queue = (Mutex::new(Vec::new()), Condvar::new());
    let mut order = Vec::new();
    thread::scope(|scope| {
        for who in 0..3 {
            let queue = &queue;
            scope.spawn(move || {
                for item in 0..20 {
                    queue.0.lock().unwrap().push((who, item));
                    queue.1.notify_one();
                }
            });
        }
        let mut timeouts = 0;
        while order.len() < 60 {
            let (mut items, waited) = queue.1.wait_timeout(queue.0.lock().unwrap(), Duration::from_micros(50)).unwrap();
            timeouts += usize::from(waited.timed_out());
            while items.is_empty() {
                let more = queue.1.wait_timeout(items, Duration::from_millis(5)).unwrap();
                items = more.0;
            }
            order.append(&mut items);
        }
        println!("{timeouts} time-outs");
    });
    println!("{order:?}");
}

static ONCE: Once = Once::new();
static FIRST: OnceLock<usize> = OnceLock::new();
static LAZY: LazyLock<String> = LazyLock::new(|| format!("made by {:?}", thread::current().name()));

#[test]
fn once_and_lazy() {
    let order = Order::default();
    thread::scope(|scope| {
        for who in 0..4 {
            let order = &order;
            thread::Builder::new()
                .name(format!("candidate {who}"))
                .spawn_scoped(scope, move || {
                    ONCE.call_once(|| order.note(who));
                    let first = *FIRST.get_or_init(|| who);
                    order.note(first);
                    assert!(LAZY.starts_with("made by"));
                })
                .unwrap();
        }
    });
    order.print();
    println!("{}", *LAZY);
}

#[test]
fn channels() {
    let (sender, receiver) = mpsc::channel();
    let (bounded, results) = mpsc::sync_channel(2);
    let workers: Vec<_> = (0..3)
        .map(|who| {
            let sender = sender.clone();
            thread::spawn(move || (0..40).for_each(|item| sender.send((who, item)).unwrap()))
        })
        .collect();
    drop(sender);
    let forwarder = thread::spawn(move || receiver.into_iter().for_each(|item| bounded.send(item).unwrap()));
    let items: Vec<_> = results.into_iter().collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    forwarder.join().unwrap();
    println!("{items:?}");
    assert_eq!(items.len(), 120);
}

#[test]
fn barrier_leaders() {
    let barrier = Barrier::new(4);
    let leaders = Order::default();
    thread::scope(|scope| {
        for who in 0..4 {
            let (barrier, leaders) = (&barrier, &leaders);
            scope.spawn(move || {
                for _ in 0..20 {
                    if barrier.wait().is_leader() {
                        leaders.note(who);
                    }
                }
            });
        }
    });
    leaders.print();
}

#[test]
fn park_and_unpark() {
    let turn = Arc::new(AtomicUsize::new(0));
    let order = Arc::new(Order::default());
    let parked = {
        let (turn, order) = (Arc::clone(&turn), Arc::clone(&order));
        thread::spawn(move || {
            for round in 1..=50 {
                let mut waits = 0;
                while turn.load(Acquire) < round {
                    thread::park_timeout(Duration::from_millis(20));
                    waits += 1;
                }
                order.note(waits);
            }
        })
    };
    for _ in 0..50 {
        turn.fetch_add(1, AcqRel);
        parked.thread().unpark();
    }
    parked.join().unwrap();
    order.print();
}

#[test]
fn atomics_hand_over() {
    let (data, flag) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut spins = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=100u64 {
                data.store(round * 3, Relaxed);
                flag.store(round, Release);
            }
        });
        while flag.load(Acquire) < 100 {
            spins += 1;
            std::hint::spin_loop();
        }
        assert_eq!(data.load(Relaxed), 300);
    });
    println!("{spins} spins");
}

thread_local! {
    static LOCAL: Noisy = Noisy(format!("{:?}", thread::current().id()));
}

struct Noisy(String);

impl Drop for Noisy {
    fn drop(&mut self) {
        println!("{} is gone", self.0);
    }
}

#[test]
fn thread_locals_are_dropped_in_order() {
    let threads: Vec<_> = (0..3).map(|_| thread::spawn(|| LOCAL.with(|local| println!("{}", local.0)))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn chance_time_and_the_machine() {
    let started = Instant::now();
    let map: HashMap<usize, usize> = (0..20).map(|key| (key, key * key)).collect();
    println!("{map:?}");
    println!("{:?} {:?}", thread::available_parallelism(), std::process::id());
    println!("{:?} {:?}", started.elapsed(), std::time::SystemTime::now());
    let address = Box::new(0u8);
    println!("{:p}", &*address);
}

unsafe extern "C" {
    safe fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, signal: i32) -> i32;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn write(file: i32, bytes: *const u8, count: usize) -> isize;
}

const SIGUSR1: i32 = 10;
static SIGNALLED: AtomicUsize = AtomicUsize::new(0);
static WAKER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(_: i32) {
    SIGNALLED.fetch_add(1, Relaxed);
    // SAFETY: the kernel reads one byte.
    unsafe { write(WAKER.load(Relaxed) as i32, b"x".as_ptr(), 1) };
}

/// A signal comes to a thread that is parked, as in servers that end on Ctrl-C: its handler wakes another thread, which wakes the parked one.
#[test]
fn signal_while_parked() {
    let (mut reader, writer) = UnixStream::pair().unwrap();
    WAKER.store(writer.as_raw_fd() as usize, Relaxed);
    // SAFETY: the handler does nothing that handlers may not do.
    unsafe { signal(SIGUSR1, on_signal) };
    let (parked, handle) = (thread::current(), pthread_self());
    let woken = Arc::new(AtomicUsize::new(0));
    let is_over = Arc::clone(&woken);
    let waker = thread::spawn(move || {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        is_over.store(1, Release);
        parked.unpark();
    });
    let sender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        // SAFETY: the thread waits until this one is over.
        unsafe { pthread_kill(handle, SIGUSR1) };
    });
    while woken.load(Acquire) == 0 {
        thread::park();
    }
    sender.join().unwrap();
    waker.join().unwrap();
    println!("{} signals", SIGNALLED.load(Relaxed));
}
