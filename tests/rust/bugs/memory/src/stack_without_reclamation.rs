//! A lock-free stack (Treiber's) that frees a node as soon as it is popped.
//!
//! `pop` reads `next` of a node that another thread may just have popped and freed; and when the allocator hands the
//! same address out again, the comparison succeeds with a `next` of long ago (ABA). At fault is `pop`: nodes need hazard
//! pointers, epochs, or another way to know that nobody reads them. What shows is an item that came twice or never, a
//! segmentation fault, or an abort by the allocator.
//!
//! The `next` of a freed node is plain memory: a replay needs the scope `memory`.

use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub struct Stack {
    head: AtomicPtr<Node>,
}

struct Node {
    next: *mut Node,
    item: u32,
}

impl Stack {
    pub fn push(&self, item: u32) {
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

    pub fn pop(&self) -> Option<u32> {
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

    const ITEMS: u32 = 4;
    const MOVES: usize = 50;

    #[test]
    fn stack_without_reclamation() {
        let stack = Stack::default();
        (0..ITEMS).for_each(|item| stack.push(item));
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    line.wait();
                    for _ in 0..MOVES {
                        let (first, second) = (stack.pop(), stack.pop());
                        [first, second].into_iter().flatten().for_each(|item| stack.push(item));
                    }
                });
            }
        });
        // One more than there should be, so that a stack in a ring does not hold us for ever.
        let mut items: Vec<u32> = std::iter::from_fn(|| stack.pop()).take(ITEMS as usize + 1).collect();
        items.sort();
        assert_eq!(
            items,
            (0..ITEMS).collect::<Vec<u32>>(),
            "the stack does not hold what was put in"
        );
    }
}
