//! Tests that fail in every way a test can, among some that do not.
//!
//! ```
//! panic!("doctests are left alone");
//! ```
#![cfg(test)]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

#[test]
fn passes() {
    println!("nobody reads this");
}

#[test]
#[ignore = "takes for ever"]
fn ignored() {
    loop {
        thread::park();
    }
}

#[test]
#[should_panic(expected = "as planned")]
fn panics_as_planned() {
    panic!("as planned");
}

/// A read-modify-write in two steps.
#[test]
fn lost_update() {
    let counter = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let old = counter.load(SeqCst);
                    counter.store(old + 1, SeqCst);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 60, "updates were lost");
}

#[test]
fn panic_in_a_thread_poisons() {
    let shared = Arc::new(Mutex::new(0));
    let other = Arc::clone(&shared);
    let evil = thread::Builder::new().name("evil".to_owned());
    let evil = evil.spawn(move || {
        let _held = other.lock().unwrap();
        panic!("boom in {:?}", thread::current().id());
    });
    assert!(evil.unwrap().join().is_err());
    println!("going on");
    *shared.lock().unwrap() += 1;
}

#[test]
fn deadlock() {
    let (first, second) = (Mutex::new(0), Mutex::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let _held = second.lock().unwrap();
                thread::yield_now();
                let _wanted = first.lock().unwrap();
            }
        });
        loop {
            let _held = first.lock().unwrap();
            thread::yield_now();
            let _wanted = second.lock().unwrap();
        }
    });
}

#[test]
fn abort() {
    eprintln!("enough");
    std::process::abort();
}

#[test]
fn segfault() {
    let nowhere = std::hint::black_box(16 as *mut u32);
    // SAFETY: there is none; that is the point.
    unsafe { nowhere.write_volatile(1) };
}

#[test]
fn double_free() {
    let block = Box::into_raw(Box::new([1u8; 200]));
    // SAFETY: there is none for the second; that is the point.
    unsafe {
        drop(Box::from_raw(block));
        drop(Box::from_raw(block));
    }
}

#[test]
fn stack_overflow() {
    fn deeper(depth: u64) -> u64 {
        let room = std::hint::black_box([depth; 64]);
        if depth == u64::MAX { 0 } else { deeper(depth + 1) + room[(depth % 64) as usize] }
    }
    println!("{}", deeper(0));
}
