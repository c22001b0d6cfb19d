//! rayon and crossbeam: work stealing, channels, epochs.
use crossbeam::channel;
use crossbeam::deque::Injector;
use crossbeam::deque::Steal;
use crossbeam::deque::Worker;
use crossbeam::queue::SegQueue;
use rayon::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn rayon_sort_and_steal() {
    let mut state = 1u64;
    let mut numbers: Vec<u64> = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        })
        .collect();
    numbers.par_sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] <= pair[1]));
    let workers: Vec<usize> = (0..64).into_par_iter().map(|_| rayon::current_thread_index().unwrap_or(99)).collect();
    println!("{workers:?}");
    let (left, right) = rayon::join(|| numbers.par_iter().sum::<u64>(), || numbers.par_iter().max());
    println!("{left} {right:?}");
}

#[test]
fn rayon_pool_of_four() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let order = Mutex::new(Vec::new());
    pool.scope(|scope| {
        for task in 0..40 {
            let order = &order;
            scope.spawn(move |_| order.lock().unwrap().push((task, rayon::current_thread_index())));
        }
    });
    println!("{:?}", order.into_inner().unwrap());
}

#[test]
fn crossbeam_channels_and_select() {
    let (fast, from_fast) = channel::unbounded();
    let (slow, from_slow) = channel::bounded(1);
    let mut got = Vec::new();
    crossbeam::scope(|scope| {
        scope.spawn(move |_| (0..100).for_each(|item| fast.send(item).unwrap()));
        scope.spawn(move |_| (1000..1050).for_each(|item| slow.send(item).unwrap()));
        let (mut open_fast, mut open_slow) = (true, true);
        while open_fast || open_slow {
            channel::select! {
                recv(from_fast) -> item => match item { Ok(item) => got.push(item), Err(_) => { open_fast = false; } },
                recv(from_slow) -> item => match item { Ok(item) => got.push(item), Err(_) => { open_slow = false; } },
                default(Duration::from_millis(50)) => got.push(-1),
            }
        }
    })
    .unwrap();
    println!("{got:?}");
}

#[test]
fn crossbeam_deque_and_queue() {
    let injector = Injector::new();
    (0..200).for_each(|task| injector.push(task));
    let done = SegQueue::new();
    let left = AtomicUsize::new(200);
    crossbeam::scope(|scope| {
        for who in 0..3 {
            let (injector, done, left) = (&injector, &done, &left);
            scope.spawn(move |_| {
                let local = Worker::new_fifo();
                while left.load(Relaxed) > 0 {
                    let task = local.pop().or_else(|| match injector.steal_batch_and_pop(&local) {
                        Steal::Success(task) => Some(task),
                        _ => None,
                    });
                    if let Some(task) = task {
                        done.push((who, task));
                        left.fetch_sub(1, Relaxed);
                    }
                }
            });
        }
    })
    .unwrap();
    let order: Vec<(usize, i32)> = std::iter::from_fn(|| done.pop()).collect();
    println!("{order:?}");
    assert_eq!(order.len(), 200);
}
