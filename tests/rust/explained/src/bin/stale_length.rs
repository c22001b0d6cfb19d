//! The length is read before the list is cut, the element after it: index out of bounds.
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

struct Queue {
    jobs: Mutex<Vec<u32>>,
}

impl Queue {
    fn last(&self) -> u32 {
        let length = self.jobs.lock().unwrap().len();
        thread::sleep(Duration::from_millis(100));
        let jobs = self.jobs.lock().unwrap();
        jobs[length - 1]
    }

    fn forget(&self) {
        self.jobs.lock().unwrap().clear();
    }
}

fn main() {
    let queue = Arc::new(Queue { jobs: Mutex::new(vec![1, 2, 3]) });
    let others = Arc::clone(&queue);
    let cleaner = thread::spawn(move || {
        thread::sleep(Duration::from_millis(40));
        others.forget();
    });
    println!("{}", queue.last());
    cleaner.join().unwrap();
}
