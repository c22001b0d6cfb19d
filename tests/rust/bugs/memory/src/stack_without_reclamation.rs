//! A lock-free stack (Treiber's) that frees a node as soon as it is popped.
//!
//! `pop` reads `next` of a node that another thread may just have popped and freed; and when the allocator hands the
//! same address out again, the comparison succeeds with a `next` of long ago (ABA). At fault is `pop`: nodes need hazard
//! pointers, epochs, or another way to know that nobody reads them. What shows is a job that came twice or never, a
//! segmentation fault, or an abort by the allocator.
//!
//! The `next` of a freed node is plain memory: a replay needs the scope `memory`.

use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;

pub struct Stack<T> {
    head: AtomicPtr<Node<T>>,
}

struct Node<T> {
    next: *mut Node<T>,
    item: T,
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Stack {
            head: AtomicPtr::default(),
        }
    }
}

impl<T> Stack<T> {
    pub fn push(&self, item: T) {
        let node = Box::into_raw(Box::new(Node {
            next: ptr::null_mut(),
            item,
        }));
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            // SAFETY: the node is ours until the exchange below succeeds.
            unsafe { (*node).next = head };
            match self
                .head
                .compare_exchange_weak(head, node, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub fn pop(&self) -> Option<T> {
        let mut head = self.head.load(Ordering::Acquire);
        while !head.is_null() {
            // SAFETY: wrong. Another thread may have popped and freed this node since we loaded `head`.
            let next = unsafe { (*head).next };
            match self
                .head
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: the exchange made the node ours (if it was that node, and not one at the same address).
                Ok(_) => return Some(unsafe { Box::from_raw(head) }.item),
                Err(now) => head = now,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Stack;
    use starting_line::StartingLine;
    use std::thread;

    const JOBS: u32 = 5;
    const MOVES: usize = 500;

    #[test]
    fn stack_without_reclamation() {
        let stack: Stack<Box<u32>> = Stack::default();
        (0..JOBS).for_each(|job| stack.push(Box::new(job)));
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    line.wait();
                    for round in 0..MOVES {
                        let jobs: Vec<Box<u32>> = (0..=round % 4).filter_map(|_| stack.pop()).collect();
                        for job in jobs {
                            // A job that is not done becomes a new one.
                            stack.push(Box::new(*job));
                        }
                    }
                });
            }
        });
        // One more than there should be, so that a stack in a ring does not hold us for ever.
        let mut jobs: Vec<u32> = (0..=JOBS).filter_map(|_| stack.pop()).map(|job| *job).collect();
        jobs.sort();
        assert_eq!(
            jobs,
            (0..JOBS).collect::<Vec<u32>>(),
            "the stack does not hold what was put in"
        );
    }
}
