//! Workers that empty a shared channel and go home.
//!
//! `work` asks whether there is a job, and then takes one. Between the two, another worker may take the last job; the
//! sender stays alive for the next day, so `recv` waits for ever. At fault is `work`: it has to take the job and see
//! whether there was one (`try_recv`).

use crossbeam_channel::Receiver;

/// Does the jobs that are there, and returns their sum.
pub fn work(jobs: &Receiver<u32>) -> u32 {
    let mut sum = 0;
    while !jobs.is_empty() {
        sum += jobs.recv().expect("the sender stays alive");
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::work;
    use crossbeam_channel::unbounded;
    use starting_line::StartingLine;
    use std::thread;

    const DAYS: usize = 1;
    const JOBS: u32 = 20;

    /// Hangs when the bug shows.
    #[test]
    fn channel_asked_twice() {
        let (sender, jobs) = unbounded();
        let line = StartingLine::new(2);
        for _ in 0..DAYS {
            (0..JOBS).for_each(|job| sender.send(job).unwrap());
            let work = || {
                line.wait();
                work(&jobs)
            };
            let sums = thread::scope(|scope| {
                let workers = [scope.spawn(work), scope.spawn(work)];
                workers.map(|worker| worker.join().unwrap())
            });
            assert_eq!(sums.iter().sum::<u32>(), (0..JOBS).sum());
        }
    }
}
