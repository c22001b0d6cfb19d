//! RUSTSEC-2021-0093: crossbeam-deque before 0.7.4 and 0.8.1 hands a task out twice and forgets another.
//!
//! A thief that steals a batch loads the buffer once. The owner may meanwhile pop tasks from its end, move to a smaller
//! buffer, and push new tasks, at the same places of the new buffer; the thief goes on in the old one and takes what the
//! owner has popped already. Here the owner fills its deque until it grows, then pops and pushes while one thief steals
//! one batch.

#[cfg(test)]
mod tests {
    use crossbeam_deque::Stealer;
    use crossbeam_deque::Worker;
    use starting_line::StartingLine;
    use std::iter;
    use std::thread;

    const ROUNDS: usize = 20;
    /// One more than the smallest buffer holds.
    const TASKS: usize = 64 + 1;
    /// Enough to be left with less than a quarter of the larger buffer.
    const REPLACED: usize = 45;

    #[test]
    fn crossbeam_deque_double_pop() {
        for round in 0..ROUNDS {
            let owner = Worker::new_lifo();
            (0..TASKS).for_each(|task| owner.push(task));
            let stealer = owner.stealer();
            let line = StartingLine::new(2);
            let (stolen, mut taken) = thread::scope(|scope| {
                let thief = scope.spawn(|| {
                    line.wait();
                    steal(&stealer)
                });
                line.wait();
                let mut popped: Vec<usize> = Vec::with_capacity(2 * TASKS);
                popped.extend(iter::from_fn(|| owner.pop()).take(REPLACED));
                (0..REPLACED).for_each(|task| owner.push(TASKS + task));
                (thief.join().unwrap(), popped)
            });
            taken.extend(iter::from_fn(|| owner.pop()));
            taken.extend(stolen);
            taken.sort();
            let all: Vec<usize> = (0..TASKS + REPLACED).collect();
            assert_eq!(taken, all, "not every task was handed out once in round {round}");
        }
    }

    /// One batch, if there is one.
    fn steal(stealer: &Stealer<usize>) -> Vec<usize> {
        let mine = Worker::new_fifo();
        let first = stealer.steal_batch_and_pop(&mine).success();
        first.into_iter().chain(iter::from_fn(|| mine.pop())).collect()
    }
}
