//! Installing what is missing: the compiler we build on, and what its tests use.
use crate::command::Failure;
use crate::command::Run;
use std::io;
use std::io::IsTerminal;
use std::process::Command;
use std::process::Stdio;

/// Debian packages, each with a command or library that shows it is there where there is no dpkg.
const PACKAGES: [(&str, &str); 10] = [
    ("clang-22", "clang-22"),
    ("llvm-22-dev", "llvm-config-22"),
    ("lld-22", "ld.lld-22"),
    ("libclang-rt-22-dev", ""),
    ("libomp-22-dev", ""),
    ("gdb", "gdb"),
    ("cmake", "cmake"),
    ("make", "make"),
    // Programs of another libc, which the suite records.
    ("musl-tools", "musl-gcc"),
    // The oracle of the solver's tests; nothing that is built for users needs it.
    ("libz3-dev", ""),
];

const BY_HAND: &str = "install these packages by hand (LLVM 22 is also at https://apt.llvm.org): ";

/// What `bench inputs` measures.
pub const MEASURED: [(&str, &str); 7] = [
    ("memcached", "memcached"),
    ("apache2-bin", "/usr/sbin/apache2"),
    ("apache2-utils", "ab"),
    ("strace", "strace"),
    ("redis-server", "redis-benchmark"),
    ("pigz", "pigz"),
    ("zstd", "zstd"),
];

/// What tests use and nothing else does: a browser, which looks at the page of a fleet's server.
pub const TESTED: [(&str, &str); 1] = [("chromium", "chromium")];

/// What `bench methods` compares with.
pub const COMPARED: [(&str, &str); 1] = [("z3", "z3")];

type Package = (&'static str, &'static str);

pub fn setup() -> Result<(), Failure> {
    install(&PACKAGES)
}

/// Installs those that are missing.
pub fn install(packages: &[Package]) -> Result<(), Failure> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    eprintln!("xtask: missing: {list}");
    if !can_run("apt-get", "--version") {
        return Err(Failure::new(format!("this system has no apt-get; {BY_HAND}{list}")));
    }
    let by_hand = |failure: Failure| Failure::new(format!("{failure}; {BY_HAND}{list}"));
    // Old lists of packages may still do, so a failure to refresh them is not the end.
    if let Err(failure) = apt_get()?.arg("update").run() {
        eprintln!("xtask: {failure}");
    }
    apt_get()?
        .args(["install", "-y", "--no-install-recommends"])
        .args(&missing)
        .run()
        .map_err(by_hand)?;
    match self::missing(packages) {
        still if still.is_empty() => Ok(()),
        still => Err(Failure::new(format!(
            "apt-get left these out; {BY_HAND}{}",
            still.join(" ")
        ))),
    }
}

fn missing(packages: &[Package]) -> Vec<&'static str> {
    let has_dpkg = can_run("dpkg-query", "--version");
    let is_there = |package: &str, command: &str| {
        if has_dpkg {
            is_installed(package)
        } else {
            command.is_empty() || can_run(command, "--version")
        }
    };
    packages
        .iter()
        .filter(|(package, command)| !is_there(package, command))
        .map(|(package, _)| *package)
        .collect()
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query")
        .args(["-W", "-f", "${Status}", package])
        .stderr(Stdio::null())
        .output();
    query.is_ok_and(|output| output.stdout.ends_with(b" installed"))
}

fn can_run(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `apt-get` as root, never asking a question; sudo may ask for a password only where there is somebody to answer.
fn apt_get() -> Result<Command, Failure> {
    let user = Command::new("id").arg("-u").output()?;
    let mut command = if user.stdout.trim_ascii() == b"0" {
        Command::new("env")
    } else {
        let mut sudo = Command::new("sudo");
        if !io::stdin().is_terminal() {
            sudo.arg("-n");
        }
        sudo.arg("env");
        sudo
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    Ok(command)
}
