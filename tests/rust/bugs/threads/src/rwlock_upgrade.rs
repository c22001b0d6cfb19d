//! A pool that opens one connection per host.
//!
//! `connection` looks under the read lock, lets it go, and inserts under the write lock. Two threads that miss the same
//! host open two connections, and the first one is thrown away with whatever its owner did to it. At fault is
//! `connection`: it has to look again under the write lock (`entry().or_insert_with`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::RwLock;

pub struct Connection {
    pub host: String,
}

#[derive(Default)]
pub struct Pool {
    connections: RwLock<HashMap<String, Arc<Connection>>>,
}

impl Pool {
    pub fn connection(&self, host: &str) -> Arc<Connection> {
        if let Some(connection) = self.connections.read().unwrap().get(host) {
            return Arc::clone(connection);
        }
        let connection = Arc::new(Connection { host: host.into() });
        self.connections
            .write()
            .unwrap()
            .insert(host.into(), Arc::clone(&connection));
        connection
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;
    use super::Pool;
    use starting_line::StartingLine;
    use std::sync::Arc;
    use std::thread;

    const HOSTS: usize = 6;

    #[test]
    fn rwlock_upgrade() {
        let pool = Pool::default();
        let hosts: Vec<String> = (0..HOSTS).map(|host| format!("host-{host}")).collect();
        let line = StartingLine::new(2);
        let connect = || {
            line.wait();
            hosts
                .iter()
                .map(|host| pool.connection(host))
                .collect::<Vec<Arc<Connection>>>()
        };
        let (ours, theirs) = thread::scope(|scope| {
            let ours = scope.spawn(connect);
            let theirs = scope.spawn(connect);
            (ours.join().unwrap(), theirs.join().unwrap())
        });
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!(Arc::ptr_eq(ours, theirs), "two connections to {}", ours.host);
        }
    }
}
