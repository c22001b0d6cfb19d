//! Threads that count words in sixteen hash maps of strings, each behind a lock of the standard library. Size: thousands of
//! words, shared by the threads.

use rust_bench::Arguments;
use rust_bench::Numbers;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::BuildHasherDefault;
use std::hash::DefaultHasher;
use std::sync::Mutex;
use std::thread;

const SHARDS: usize = 16;
const WORDS: u64 = 20_000;

#[derive(Default)]
struct Count {
    times: u64,
    letters: usize,
}

type Shard = Mutex<HashMap<String, Count>>;

fn main() {
    let arguments = Arguments::from_command_line(5_000);
    let words_each = 1000 * arguments.size / arguments.threads;
    let shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::default()).collect();
    thread::scope(|scope| {
        for thread in 0..arguments.threads {
            let shards = &shards;
            scope.spawn(move || {
                for number in Numbers::from_seed(thread as u64).take(words_each) {
                    count(shards, format!("word-{}", number % WORDS));
                }
            });
        }
    });
    let (mut checksum, mut total) = (0u64, 0);
    for shard in shards {
        for (word, count) in shard.into_inner().expect("nobody panics under a lock") {
            assert_eq!(
                count.letters as u64,
                word.len() as u64 * count.times,
                "the count of {word} is torn"
            );
            total += count.times;
            // The order of a hash map differs from run to run; a sum does not care.
            checksum = checksum.wrapping_add(word.bytes().map(u64::from).sum::<u64>() * count.times * count.times);
        }
    }
    assert_eq!(total, (words_each * arguments.threads) as u64, "words were lost");
    println!("{checksum:016x}");
}

fn count(shards: &[Shard], word: String) {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&word);
    let shard = &shards[hash as usize % SHARDS];
    let mut counts = shard.lock().expect("nobody panics under a lock");
    let letters = word.len();
    let count = counts.entry(word).or_default();
    count.times += 1;
    count.letters += letters;
}
