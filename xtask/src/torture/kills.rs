//! Commands that are killed.
use super::ALONE;
use super::Chamber;
use super::FAMILY;
use super::checks;
use crate::command::Failure;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// A command, and whether it wants a run to be there.
const COMMANDS: [(&str, &[&str]); 15] = [
    (
        "record",
        &["record", "--scope", "inputs", "--", "/bin/sh", "-c", FAMILY],
    ),
    (
        "record -o",
        &["record", "--scope", "inputs", "-o", "run", "--", "/bin/sh", "-c", ALONE],
    ),
    (
        "record --until-failure",
        &[
            "record",
            "--scope",
            "inputs",
            "--until-failure=3",
            "--",
            "/bin/sh",
            "-c",
            "exit 0",
        ],
    ),
    ("replay", &["replay"]),
    ("replay --times", &["replay", "--times", "3"]),
    (
        "replay --gdb",
        &["replay", "--gdb", "--", "--batch", "-nh", "-ex", "run"],
    ),
    ("explain", &["explain"]),
    ("solve --again", &["solve", "--again"]),
    ("pack", &["pack", "-o", "again.refrain"]),
    ("unpack", &["unpack", "ready.refrain"]),
    ("unpack -o", &["unpack", "ready.refrain", "-o", "unpacked"]),
    ("rm", &["rm", "sh-0"]),
    ("rm --all", &["rm", "--all"]),
    ("ls", &["ls"]),
    ("info", &["info"]),
];

pub struct Victims {
    /// A packed run, where trials do not get at it.
    archive: PathBuf,
    /// How long each command takes, as far as that is known.
    took: BTreeMap<&'static str, Duration>,
}

impl Victims {
    pub fn prepare(chamber: &mut Chamber) -> Result<Victims, Failure> {
        chamber.record(FAMILY)?;
        chamber.expect(&["pack", "-o", "ready.refrain"], &[0])?;
        let archive = chamber.root.join("ready.refrain");
        fs::rename(chamber.work().join("ready.refrain"), &archive)?;
        checks::clean(chamber);
        Ok(Victims {
            archive,
            took: BTreeMap::new(),
        })
    }

    pub fn kill_one(&mut self, chamber: &mut Chamber) -> Result<String, Failure> {
        fs::copy(&self.archive, chamber.work().join("ready.refrain"))?;
        let script = *chamber.dice.one_of(&[FAMILY, ALONE]);
        chamber.put_run(script)?;
        let (name, words) = *chamber.dice.one_of(&COMMANDS);
        let usual = self.took.get(name).copied().unwrap_or(Duration::from_millis(200));
        let delay = usual.mul_f64(chamber.dice.below(1200) as f64 / 1000.0);
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let mut child = chamber.spawn(&words)?;
        let started = Instant::now();
        // What it prints fits into a pipe.
        let mut has_ended = false;
        while !has_ended && started.elapsed() < delay {
            has_ended = child.try_wait()?.is_some();
            thread::sleep((delay - started.elapsed().min(delay)).min(Duration::from_millis(1)));
        }
        if has_ended {
            self.took.insert(name, (usual + started.elapsed()) / 2);
        } else {
            self.took.insert(name, usual.max(started.elapsed().mul_f64(1.05)));
        }
        child.kill()?;
        child.wait()?;
        drop(child);
        chamber.transcript.push(format!("killed after {:?}", started.elapsed()));
        checks::in_order(chamber)?;
        for outside in ["run", "unpacked"] {
            self.look_at_outside(chamber, outside)?;
        }
        checks::remove_all(chamber)?;
        checks::clean(chamber);
        Ok(format!("{name}, {}", if has_ended { "to its end" } else { "killed" }))
    }

    /// A run elsewhere than in the store is there in order, or not at all.
    fn look_at_outside(&self, chamber: &mut Chamber, name: &str) -> Result<(), Failure> {
        let path = chamber.work().join(name);
        if !path.exists() {
            return Ok(());
        }
        checks::private(&path)?;
        let name = format!("./{name}");
        chamber.expect(&["info", &name], &[0, 3])?;
        chamber.expect(&["replay", "--quiet", &name], &[0, 3])?;
        chamber.expect(&["rm", &name], &[0])?;
        if path.exists() {
            return Err(Failure::new(format!("{} is still there", path.display())));
        }
        Ok(())
    }
}
