//! A server in a process of its own, and a client that can also say what is wrong.
use serde_json::Value;
use std::fs;
use std::fs::Permissions;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

pub const ALL: &str = "everything-in-default";
pub const UPLOAD: &str = "uploads-in-default";
pub const OTHER: &str = "everything-in-other";

const TOKENS: &str = "\
everything-in-default
default uploads-in-default upload
other everything-in-other
";

/// Removed with everything in it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("refrain-fleet-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        let tokens = path.join("tokens");
        fs::write(&tokens, TOKENS).expect("a token file");
        fs::set_permissions(&tokens, Permissions::from_mode(0o600)).expect("for us alone");
        Scratch(path)
    }

    pub fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// The program of the server, with its arguments.
    pub fn command(&self, settings: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg(self.store()).arg(self.0.join("tokens")).args(settings);
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// `examples/serve.rs`, which cargo builds before it runs tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folder = test.parent().and_then(Path::parent).expect("a target folder");
    folder.join("examples/serve")
}

pub struct Server {
    process: Child,
    pub address: SocketAddr,
    journal: PathBuf,
}

pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }
}

impl Server {
    pub fn start(scratch: &Scratch, settings: &[&str]) -> Server {
        Server::start_command(scratch, scratch.command(settings))
    }

    pub fn start_command(scratch: &Scratch, mut command: Command) -> Server {
        let journal = scratch.0.join("journal");
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&journal).expect("a journal"))
            .spawn()
            .expect("a server");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("its address");
        let address = line.trim().parse();
        let address = address.unwrap_or_else(|_| panic!("no server: {}", fs::read_to_string(&journal).expect("said")));
        Server {
            process,
            address,
            journal,
        }
    }

    pub fn journal(&self) -> String {
        fs::read_to_string(&self.journal).expect("a journal")
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// As `kill -9`.
    pub fn kill(mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
    }

    /// As `kill`; the exit status.
    pub fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.process.wait().expect("ended").code()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("kill").success());
    }

    pub fn get(&self, token: &str, path: &str) -> Response {
        self.ask("GET", token, path, &[])
    }

    pub fn ask(&self, method: &str, token: &str, path: &str, body: &[u8]) -> Response {
        self.try_ask(method, token, path, body).expect("an answer")
    }

    /// Nothing if the server was gone before it had answered.
    pub fn try_ask(&self, method: &str, token: &str, path: &str, body: &[u8]) -> Option<Response> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let authorization = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: fleet\r\n{authorization}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        // A server that refuses what is too long does not read it.
        _ = stream.write_all(body);
        receive(&mut stream)
    }
}

/// Everything up to the end of the connection.
pub fn receive(stream: &mut impl Read) -> Option<Response> {
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length: ")?
            .parse::<usize>()
            .ok()
    });
    let body = bytes.split_off(end + 4);
    if length.is_some_and(|length| length != body.len()) {
        return None;
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Response { status, head, body })
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
