//! How a server is to be run.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the store; made if it is not there.
    pub store: PathBuf,
    pub listen: SocketAddr,
    pub token_file: PathBuf,
    pub tls: Option<Tls>,
    /// An address that is not loopback, without TLS, is refused otherwise.
    pub allows_plain_remote: bool,
    pub limits: Limits,
}

/// PEM files.
#[derive(Clone, Debug)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What anybody may ask of the server. Quotas are each token's.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of a batch of logs.
    pub batch_bytes_max: usize,
    pub batch_logs_max: usize,
    /// Of batches that one token is sending at a time.
    pub token_in_flight_bytes_max: usize,
    pub log_bytes_max: usize,
    pub log_elements_max: usize,
    pub program_bytes_max: usize,
    pub inputs_bytes_max: usize,
    /// Requests of one token: so many at once, and so many a second after that.
    pub requests_burst: u32,
    pub requests_per_second: u32,
    /// What one token may ever have stored.
    pub token_logs_max: u64,
    pub token_bytes_max: u64,
    /// Logs of builds that nobody registered, of one token.
    pub token_unregistered_logs_max: u64,
    /// Bugs of one project: a client that makes up failures fills no page.
    pub project_bugs_max: u64,
    /// Of a request's head, of its whole body, and of what it is answered with.
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    pub connections_max: usize,
    /// Attempts of one merge, and for how long each may run.
    pub attempts_max: u32,
    pub attempt_timeout: Duration,
    /// At a time; nothing: as many as there are processors.
    pub attempts_at_a_time: Option<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            batch_bytes_max: 32 << 20,
            batch_logs_max: 1_000,
            token_in_flight_bytes_max: 64 << 20,
            log_bytes_max: 16 << 20,
            log_elements_max: 16_384,
            program_bytes_max: 1 << 30,
            inputs_bytes_max: 1 << 30,
            requests_burst: 200,
            requests_per_second: 50,
            token_logs_max: 1_000_000,
            token_bytes_max: 64 << 30,
            token_unregistered_logs_max: 1_000,
            project_bugs_max: 10_000,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(120),
            connections_max: 1_024,
            attempts_max: 500,
            attempt_timeout: Duration::from_secs(60),
            attempts_at_a_time: None,
        }
    }
}
