//! A routing table that readers load without a lock and writers replace as a whole.
//!
//! `add` loads the table, copies it, adds a route and stores the copy. A route that another thread stores in the
//! meantime is gone. At fault is `add`: it has to use `rcu`, or writers need a lock.

use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Routes {
    table: ArcSwap<BTreeMap<u32, String>>,
}

impl Routes {
    pub fn add(&self, port: u32, service: &str) {
        let mut table = BTreeMap::clone(&self.table.load());
        table.insert(port, service.into());
        self.table.store(Arc::new(table));
    }

    pub fn service(&self, port: u32) -> Option<String> {
        self.table.load().get(&port).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::Routes;
    use starting_line::StartingLine;
    use std::thread;

    const ROUTES_EACH: u32 = 2;

    #[test]
    fn arc_swap_lost_update() {
        let routes = Routes::default();
        let line = StartingLine::new(2);
        thread::scope(|scope| {
            for first in [0, ROUTES_EACH] {
                let (routes, line) = (&routes, &line);
                scope.spawn(move || {
                    line.wait();
                    for port in first..first + ROUTES_EACH {
                        routes.add(port, "echo");
                    }
                });
            }
        });
        for port in 0..2 * ROUTES_EACH {
            assert!(routes.service(port).is_some(), "the route of port {port} is gone");
        }
    }
}
