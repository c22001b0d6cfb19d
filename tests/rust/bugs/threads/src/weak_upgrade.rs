//! Sessions that close when their last user leaves; the registry only has a `Weak` to each.
//!
//! `leave` takes a `strong_count` of one as proof that nobody else has the session. But the registry may upgrade its
//! `Weak` after the count was read, and the newcomer works on a closed session. At fault is `leave`: the count of an
//! `Arc` is old the moment it is read; `Arc::into_inner` or a `Drop` of the session decides this safely.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub struct Session {
    is_closed: AtomicBool,
}

impl Session {
    pub fn ask(&self, question: &str) -> usize {
        assert!(
            !self.is_closed.load(Ordering::SeqCst),
            "asked a closed session: {question}"
        );
        question.len()
    }
}

#[derive(Default)]
pub struct Registry {
    session: Mutex<Weak<Session>>,
}

impl Registry {
    pub fn join(&self) -> Arc<Session> {
        let mut registered = self.session.lock().unwrap();
        registered.upgrade().unwrap_or_else(|| {
            let session = Arc::new(Session::default());
            *registered = Arc::downgrade(&session);
            session
        })
    }
}

pub fn leave(session: Arc<Session>) {
    if Arc::strong_count(&session) == 1 {
        session.is_closed.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;
    use super::leave;
    use starting_line::StartingLine;
    use std::thread;

    const VISITS: usize = 20;

    #[test]
    fn weak_upgrade() {
        let registry = Registry::default();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    line.wait();
                    for _ in 0..VISITS {
                        let session = registry.join();
                        assert_eq!(session.ask("still there?"), 12);
                        leave(session);
                    }
                });
            }
        });
    }
}
