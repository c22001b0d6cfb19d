//! The receiver goes home when it is told to stop; the sender has one more to send, and unwraps.
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

fn write_down(jobs: Receiver<u32>, stop: &AtomicBool) -> u32 {
    let mut sum = 0;
    while !stop.load(Ordering::SeqCst) {
        sum += jobs.recv_timeout(Duration::from_millis(20)).unwrap_or(0);
    }
    drop(jobs);
    sum
}

fn hand_in(jobs: &Sender<u32>) {
    jobs.send(1).unwrap();
    thread::sleep(Duration::from_millis(150));
    jobs.send(2).unwrap();
}

fn main() {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let told = Arc::clone(&stop);
    let writer = thread::spawn(move || write_down(receiver, &told));
    let clerk = thread::spawn(move || hand_in(&sender));
    thread::sleep(Duration::from_millis(60));
    stop.store(true, Ordering::SeqCst);
    clerk.join().unwrap();
    assert_eq!(writer.join().unwrap(), 3);
}
