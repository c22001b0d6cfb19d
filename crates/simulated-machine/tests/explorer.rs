//! The explorer itself: known answers of x86, and its reduction against simply trying all orders.
use machine::Machine;
use machine::Word;
use simulated_machine::Random;
use simulated_machine::explore::Case;
use simulated_machine::explore::Ending;
use simulated_machine::explore::Limits;
use simulated_machine::explore::Simulated;
use simulated_machine::explore::Stop;
use simulated_machine::explore::Word32;
use simulated_machine::explore::Word64;
use simulated_machine::explore::explore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone, Copy, Debug)]
enum Do {
    Load(usize),
    Store(usize, u64),
    /// As a locked instruction.
    Swap(usize, u64),
    Fence,
    Barrier,
}

use Do::Barrier;
use Do::Fence;
use Do::Load;
use Do::Store;
use Do::Swap;

type Outcomes = BTreeSet<Vec<u64>>;

/// Everything that the threads' loads can bring, with the memory at the end.
fn outcomes(threads: &[Vec<Do>], all_orders: bool) -> Outcomes {
    let found = Arc::new(Mutex::new(Outcomes::new()));
    let limits = Limits {
        all_orders,
        executions: 5_000_000,
        ..Limits::default()
    };
    let report = explore(&limits, || {
        let words: Arc<Vec<Word64>> = Arc::new((0..3).map(|_| Word64::new(0)).collect());
        let seen = Arc::new(Mutex::new(vec![Vec::new(); threads.len()]));
        let mut case = Case::new();
        for (number, body) in threads.iter().enumerate() {
            let (body, words, seen) = (body.clone(), words.clone(), seen.clone());
            case = case.thread(move || {
                for what in body {
                    let value = match what {
                        Load(word) => words[word].load(Relaxed),
                        Store(word, value) => {
                            words[word].store(value, Relaxed);
                            continue;
                        }
                        Swap(word, value) => words[word].swap(value, SeqCst),
                        Fence => {
                            Simulated.fence();
                            continue;
                        }
                        Barrier => {
                            Simulated.barrier_everywhere();
                            continue;
                        }
                    };
                    seen.lock().unwrap()[number].push(value);
                }
            });
        }
        let found = found.clone();
        case.check(move |ending| {
            assert_eq!(ending.stop, Stop::Done);
            let mut outcome: Vec<u64> = seen.lock().unwrap().iter().flatten().copied().collect();
            outcome.extend(words.iter().map(|word| word.load(Relaxed)));
            found.lock().unwrap().insert(outcome);
            Ok(())
        })
    });
    report.assert_clean();
    std::mem::take(&mut *found.lock().unwrap())
}

/// Only what the loads brought.
fn loads(threads: &[Vec<Do>]) -> Outcomes {
    let loads = threads
        .iter()
        .flatten()
        .filter(|what| matches!(what, Load(_) | Swap(..)));
    let count = loads.count();
    outcomes(threads, false)
        .into_iter()
        .map(|outcome| outcome[..count].to_vec())
        .collect()
}

fn expect(found: &Outcomes, all: &[&[u64]]) {
    assert_eq!(*found, all.iter().map(|outcome| outcome.to_vec()).collect::<Outcomes>());
}

#[test]
fn a_load_passes_an_earlier_store_of_its_thread() {
    let found = loads(&[vec![Store(0, 1), Load(1)], vec![Store(1, 1), Load(0)]]);
    expect(&found, &[&[0, 0], &[0, 1], &[1, 0], &[1, 1]]);
}

#[test]
fn not_past_a_fence_nor_a_locked_instruction() {
    let fenced = loads(&[vec![Store(0, 1), Fence, Load(1)], vec![Store(1, 1), Fence, Load(0)]]);
    expect(&fenced, &[&[0, 1], &[1, 0], &[1, 1]]);
    let locked = outcomes(&[vec![Swap(0, 1), Load(1)], vec![Swap(1, 1), Load(0)]], false);
    assert!(locked.iter().all(|outcome| outcome[..4] != [0, 0, 0, 0]));
}

/// What the access protocol rests on: one side pays nothing, the other a barrier in all threads.
#[test]
fn not_past_a_barrier_of_another_thread() {
    let found = loads(&[vec![Store(0, 1), Load(1)], vec![Store(1, 1), Barrier, Load(0)]]);
    expect(&found, &[&[0, 1], &[1, 0], &[1, 1]]);
}

#[test]
fn stores_stay_in_order_and_so_do_loads() {
    let found = loads(&[vec![Store(0, 1), Store(1, 1)], vec![Load(1), Load(0)]]);
    expect(&found, &[&[0, 0], &[0, 1], &[1, 1]]);
}

#[test]
fn a_thread_sees_its_own_stores_first() {
    let found = loads(&[vec![Store(0, 1), Load(0), Load(1)], vec![Store(1, 1), Load(1), Load(0)]]);
    assert!(found.contains(&vec![1, 0, 1, 0]));
    assert!(found.iter().all(|outcome| outcome[0] == 1 && outcome[2] == 1));
}

#[test]
fn all_threads_see_stores_in_one_order() {
    let found = loads(&[
        vec![Store(0, 1)],
        vec![Store(1, 1)],
        vec![Load(0), Load(1)],
        vec![Load(1), Load(0)],
    ]);
    assert!(!found.contains(&vec![1, 0, 1, 0]));
    assert_eq!(found.len(), 15);
}

/// Random little programs: the reduction loses nothing.
#[test]
fn reduction_finds_what_all_orders_find() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let threads: Vec<Vec<Do>> = (0..2 + random.below(2))
            .map(|_| {
                (0..1 + random.below(3))
                    .map(|_| {
                        let (word, value) = (random.below(2) as usize, 1 + random.below(3));
                        match random.below(10) {
                            0..=3 => Load(word),
                            4..=7 => Store(word, value),
                            8 => Swap(word, value),
                            _ if random.once_in(2) => Fence,
                            _ => Barrier,
                        }
                    })
                    .collect()
            })
            .collect();
        if threads.iter().map(Vec::len).sum::<usize>() + threads.len() > 7 {
            continue;
        }
        assert_eq!(
            outcomes(&threads, false),
            outcomes(&threads, true),
            "seed {seed}: {threads:?}"
        );
    }
}

/// A lock by spinning, one by a futex: both keep a counter whole, and nobody is left behind.
fn locked(with_futex: bool, is_wrong: bool) -> Result<usize, String> {
    let report = explore(&Limits::default(), || {
        let words = Arc::new((Word32::new(0), Word64::new(0)));
        let mut case = Case::new();
        for _ in 0..2 {
            let words = words.clone();
            case = case.thread(move || {
                let (lock, counter) = &*words;
                while lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
                    if with_futex {
                        Simulated.futex_wait(lock, 1, 1);
                    } else {
                        Simulated.spin();
                    }
                }
                counter.store(counter.load(Relaxed) + 1, Relaxed);
                lock.store(0, if is_wrong { Relaxed } else { SeqCst });
                if with_futex && !is_wrong {
                    Simulated.futex_wake_all(lock);
                }
            });
        }
        case.check(move |ending: &Ending| {
            if !ending.is_complete() || ending.idle > 0 {
                return Err(format!("{ending:?}"));
            }
            match words.1.load(Relaxed) {
                2 => Ok(()),
                other => Err(format!("counted {other}")),
            }
        })
    });
    assert!(report.complete || report.failure.is_some());
    report
        .failure
        .map_or(Ok(report.executions), |failure| Err(failure.message))
}

#[test]
fn locks_keep_others_out() {
    assert!(locked(false, false).is_ok());
    // x86 keeps stores in order: giving a lock back needs no locked instruction.
    assert!(locked(false, true).is_ok());
    assert!(locked(true, false).is_ok());
}

#[test]
fn a_missed_wake_up_is_found() {
    assert!(locked(true, true).is_err());
}

#[test]
fn a_deadlock_is_found() {
    let report = explore(&Limits::default(), || {
        let locks = Arc::new([Word32::new(0), Word32::new(0)]);
        let mut case = Case::new();
        for first in 0..2 {
            let locks = locks.clone();
            case = case.thread(move || {
                for lock in [&locks[first], &locks[1 - first]] {
                    while lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
                        Simulated.spin();
                    }
                }
            });
        }
        case.check(|ending| match &ending.stop {
            Stop::Stuck(_) => Err("stuck".to_owned()),
            _ => Ok(()),
        })
    });
    assert!(report.failure.is_some());
}
