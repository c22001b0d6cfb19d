//! What a server tells clients of a program whose logs it has: a real one, asked by real clients.
use crate::bench::limited;
use crate::command::Failure;
use crate::refrain;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// As many logs of each element as a server wants before it says anything.
const LOGS: usize = 20;
const STARTS_WITHIN: Duration = Duration::from_secs(20);
const UPLOAD_LIMIT: Duration = Duration::from_secs(60);
const TOKEN: &str = "a-token-for-this-measurement-alone";

/// A server of its own, with a store and a token in `folder`.
pub struct Server {
    child: Child,
    address: SocketAddr,
    token_file: PathBuf,
}

impl Server {
    pub fn start(folder: &Path) -> Result<Server, Failure> {
        let token_file = folder.join("token");
        fs::write(&token_file, format!("{TOKEN}\n"))?;
        fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600))?;
        // Free now, and nobody else looks for one at this moment.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new(refrain());
        command.args(["fleet", "serve", "--store"]).arg(folder.join("server"));
        command.args(["--listen", &address.to_string(), "--token-file"]);
        command.arg(&token_file).stdout(Stdio::null());
        // What it says of requests; and of what keeps it from starting.
        let journal = folder.join("server.log");
        command.stderr(fs::File::create(&journal)?);
        let server = Server {
            child: command.spawn()?,
            address,
            token_file,
        };
        let started = Instant::now();
        while !server.is_healthy() {
            if started.elapsed() > STARTS_WITHIN {
                let why = fs::read_to_string(&journal)?;
                return Err(Failure::new(format!("the server of a fleet does not start: {why}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn is_healthy(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        ask().is_ok_and(|answer| answer.contains(" 200 "))
    }

    /// Runs whose logs have all elements are recorded and sent. Afterwards the runs directory `store` has what the server says of this program.
    pub fn advise(&self, store: &Path, mut record: impl FnMut() -> Result<PathBuf, Failure>) -> Result<(), Failure> {
        for _ in 0..LOGS {
            let run = record()?;
            let mut command = Command::new(refrain());
            command.env("REFRAIN_DIR", store).args(["fleet", "upload"]).arg(run);
            command.args(["--to", &format!("http://{}", self.address), "--token-file"]);
            command.arg(&self.token_file);
            let ended = limited::run(command, UPLOAD_LIMIT)?;
            if ended.status != Some(0) {
                return Err(Failure::new(format!("a log was not taken: {}", ended.reason())));
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing of it is needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
