//! `cargo xtask peers debian`: ordinary command lines, natively, recorded at scope inputs, and replayed.
//!
//! The list is `tests/debian/lines`. A line counts as recorded if it prints the same as natively, to the byte, and ends the same way; as replayed if
//! `refrain replay` finds nothing that differs, as often as asked.
use crate::command::Failure;
use crate::root;
use crate::target;
use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What a shell says of a program that is not installed.
const NOT_FOUND: i32 = 127;

struct Options {
    only: Option<String>,
    replays: String,
    refrain: PathBuf,
}

/// What a command line did.
struct Ended {
    /// `None`: it was not over in time.
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

enum Fate {
    /// It is not here, or does something else each time.
    NotTried(&'static str),
    Tried {
        /// Why it does not count as recorded.
        differs: Option<String>,
        /// Why it does not count as replayed.
        diverges: Option<String>,
    },
}

pub fn debian(words: &[&str]) -> Result<(), Failure> {
    let options = Options::read(words)?;
    let list = fs::read_to_string(root().join("tests/debian/lines"))?;
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut tried, mut recorded, mut replayed) = (0, 0, 0);
    for (number, line) in lines.enumerate() {
        if options.only.as_ref().is_some_and(|only| !line.contains(only.as_str())) {
            continue;
        }
        let fate = try_line(line, &options)?;
        if let Fate::Tried { differs, diverges } = &fate {
            tried += 1;
            recorded += u32::from(differs.is_none());
            replayed += u32::from(diverges.is_none());
        }
        println!("{:>3}  {}  {line}", number + 1, told(&fate));
    }
    println!("{tried} tried: {recorded} recorded as natively, {replayed} replayed");
    Ok(())
}

impl Options {
    fn read(words: &[&str]) -> Result<Options, Failure> {
        let mut options = Options {
            only: None,
            replays: "3".to_owned(),
            refrain: crate::refrain(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let missing = || Failure::new(format!("{word} needs a value"));
            let value = words.next().ok_or_else(missing)?;
            match *word {
                "--only" => options.only = Some((*value).to_owned()),
                "--replays" => options.replays = (*value).to_owned(),
                "--refrain" => options.refrain = PathBuf::from(value),
                _ => return Err(Failure::new(format!("peers debian does not know '{word}'"))),
            }
        }
        match options.refrain.exists() {
            true => Ok(options),
            false => Err(Failure::new("there is no refrain yet: cargo xtask build")),
        }
    }
}

fn told(fate: &Fate) -> String {
    match fate {
        Fate::NotTried(why) => format!("not tried ({why})"),
        Fate::Tried { differs, diverges } => {
            let part = |what: &str, why: &Option<String>| match why {
                None => what.to_owned(),
                Some(why) => format!("NOT {what} ({why})"),
            };
            format!("{}, {}", part("recorded", differs), part("replayed", diverges))
        }
    }
}

fn try_line(line: &str, options: &Options) -> Result<Fate, Failure> {
    let place = target().join("debian");
    let shell = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]);
        shell
    };
    let native = in_new_directory(&place, shell())?;
    let again = in_new_directory(&place, shell())?;
    match native.status.and_then(|status| status.code()) {
        Some(NOT_FOUND) => return Ok(Fate::NotTried("not installed")),
        None => return Ok(Fate::NotTried("not over in time")),
        Some(_) if difference(&native, &again).is_some() => return Ok(Fate::NotTried("not the same each time")),
        Some(_) => {}
    }
    let run = place.join("run");
    let _ = fs::remove_dir_all(&run);
    let mut record = Command::new(&options.refrain);
    record.args(["record", "--scope", "inputs", "-o"]).arg(&run);
    record.args(["--", "sh", "-c", line]);
    let mut recorded = in_new_directory(&place, record)?;
    // What the program printed, without what the recorder said.
    recorded.stderr = fs::read(run.join("stderr")).unwrap_or_default();
    let mut replay = Command::new(&options.refrain);
    replay.arg("replay").arg(&run).args(["--times", &options.replays]);
    let replayed = ended(&place, replay)?;
    let is_good = replayed.status.is_some_and(|status| status.success());
    Ok(Fate::Tried {
        differs: difference(&native, &recorded),
        diverges: (!is_good).then(|| why(&replayed)),
    })
}

/// Runs it in a directory that is the same every time, and has the same path.
fn in_new_directory(place: &Path, mut command: Command) -> Result<Ended, Failure> {
    let directory = place.join("work");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    let prepared = Command::new("sh")
        .arg(root().join("tests/debian/prepare.sh"))
        .current_dir(&directory)
        .status()?;
    if !prepared.success() {
        return Err(Failure::new(format!("tests/debian/prepare.sh ended with {prepared}")));
    }
    command.current_dir(&directory);
    Ok(ended(place, command)?)
}

fn ended(place: &Path, mut command: Command) -> io::Result<Ended> {
    let (stdout, stderr) = (place.join("stdout"), place.join("stderr"));
    let mut child = command
        .env_clear()
        .envs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
        ])
        .env("HOME", place.join("work"))
        .stdin(Stdio::null())
        .stdout(File::create(&stdout)?)
        .stderr(File::create(&stderr)?)
        .process_group(0)
        .spawn()?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > LIMIT {
            Command::new("kill")
                .args(["-9", "--", &format!("-{}", child.id())])
                .status()?;
            child.wait()?;
            break None;
        }
        thread::sleep(LOOK_AGAIN);
    };
    Ok(Ended {
        status,
        stdout: fs::read(&stdout)?,
        stderr: fs::read(&stderr)?,
    })
}

fn difference(native: &Ended, other: &Ended) -> Option<String> {
    if native.status != other.status {
        let said =
            |status: &Option<ExitStatus>| status.map_or("not over in time".to_owned(), |status| status.to_string());
        return Some(format!("{} instead of {}", said(&other.status), said(&native.status)));
    }
    for (name, native, other) in [
        ("stdout", &native.stdout, &other.stdout),
        ("stderr", &native.stderr, &other.stderr),
    ] {
        if native != other {
            let place = native.iter().zip(other).take_while(|(a, b)| a == b).count();
            return Some(format!("{name} differs from byte {place} on"));
        }
    }
    None
}

/// What a replay says about itself.
fn why(replayed: &Ended) -> String {
    let text = String::from_utf8_lossy(&replayed.stderr);
    let lines = || text.lines().map(str::trim);
    let said = lines()
        .find(|line| line.starts_with("refrain:"))
        .or_else(|| lines().next_back());
    let said = said.unwrap_or("says nothing").trim_start_matches("refrain: ");
    match replayed.status {
        Some(_) => said.to_owned(),
        None => format!("not over in time: {said}"),
    }
}
