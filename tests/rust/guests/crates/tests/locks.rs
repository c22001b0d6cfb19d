//! parking_lot, dashmap, arc-swap: locks and lock-free cells of their own making.
use arc_swap::ArcSwap;
use dashmap::DashMap;
use parking_lot::Condvar;
use parking_lot::Mutex;
use parking_lot::RwLock;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn parking_lot_mutex_and_condvar() {
    let queue = (Mutex::new(Vec::new()), Condvar::new());
    let mut taken = Vec::new();
    thread::scope(|scope| {
        for who in 0..3 {
            let queue = &queue;
            scope.spawn(move || {
                for item in 0..50 {
                    queue.0.lock().push((who, item));
                    queue.1.notify_one();
                }
            });
        }
        while taken.len() < 150 {
            let mut items = queue.0.lock();
            while items.is_empty() {
                queue.1.wait_for(&mut items, Duration::from_millis(10));
            }
            taken.append(&mut items);
        }
    });
    println!("{taken:?}");
}

#[test]
fn parking_lot_rwlock_upgrades() {
    let value = RwLock::new(0u32);
    let upgrades = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for who in 0..3 {
            let (value, upgrades) = (&value, &upgrades);
            scope.spawn(move || {
                for _ in 0..60 {
                    let read = value.upgradable_read();
                    if *read % 3 == who {
                        let mut write = parking_lot::RwLockUpgradableReadGuard::upgrade(read);
                        *write += 1;
                        upgrades.lock().push(who);
                    } else {
                        drop(read);
                        *value.write() += 1;
                    }
                }
            });
        }
    });
    println!("{:?}", upgrades.into_inner());
    assert_eq!(*value.read(), 180);
}

#[test]
fn dashmap_entries() {
    let map: Arc<DashMap<u32, Vec<usize>>> = Arc::default();
    thread::scope(|scope| {
        for who in 0..4 {
            let map = &map;
            scope.spawn(move || {
                for key in 0..50 {
                    map.entry(key % 10).or_default().push(who);
                    if key % 7 == 0 {
                        map.remove(&(key % 5));
                    }
                }
            });
        }
    });
    let mut all: Vec<_> = map.iter().map(|entry| (*entry.key(), entry.value().clone())).collect();
    all.sort();
    println!("{all:?}");
}

#[test]
fn arc_swap_readers() {
    let config = ArcSwap::from_pointee(0usize);
    let seen = Mutex::new(Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| (1..=100).for_each(|version| config.store(Arc::new(version))));
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let now = **config.load();
                    let mut seen = seen.lock();
                    if seen.last() != Some(&now) {
                        seen.push(now);
                    }
                }
            });
        }
    });
    println!("{:?}", seen.into_inner());
}
