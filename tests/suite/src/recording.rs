//! Recording and replaying in one call each, with the checks every test wants.
use crate::Checked;
use crate::command::Ended;
use crate::failed;
use crate::require;
use crate::sandbox::Sandbox;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// A recorded run.
pub struct Recorded {
    pub directory: PathBuf,
    /// How `refrain record` ended.
    pub ended: Ended,
}

/// Records once more than `extra` says, into a directory of its own.
pub fn record(sandbox: &Sandbox, name: &str, extra: &[&str], program: &Path, limit: Duration) -> Checked<Recorded> {
    let directory = sandbox.work().join(name);
    let line = sandbox
        .refrain(["record"])
        .args(extra)
        .arg("-o")
        .arg(&directory)
        .arg("--")
        .arg(program)
        .within(limit);
    let ended = sandbox.run(&line)?;
    Ok(Recorded { directory, ended })
}

/// Metadata as a version wrote it that had no checksums, so that it may be changed.
pub fn without_checksum(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("  \"checksum\""));
    let text: Vec<String> = lines
        .map(|line| line.replace("  \"version\": 2,", "  \"version\": 1,"))
        .collect();
    text.join("\n")
}

/// The field of this name that is nearest to the top of a JSON value.
pub fn field_in<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields
        .get(name)
        .or_else(|| fields.values().find_map(|field| field_in(field, name)))
}

/// Guests mark the lines that their children print: no replay has them.
fn without_children(output: &[u8]) -> Vec<u8> {
    let lines = output.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"child: "))
        .flatten()
        .copied()
        .collect()
}

impl Recorded {
    /// What the program printed, as the run directory keeps it.
    pub fn kept(&self, stream: &str) -> Checked<Vec<u8>> {
        let path = self.directory.join(stream);
        match fs::read(&path) {
            Ok(bytes) => Ok(bytes),
            Err(error) => failed(self.ended.told(&format!("cannot read {}: {error}", path.display()))),
        }
    }

    /// `info --json` of the run.
    pub fn info(&self, sandbox: &Sandbox) -> Checked<Value> {
        let line = sandbox.refrain(["info", "--json"]).arg(&self.directory);
        let ended = sandbox.run(&line)?.expect_status(0)?;
        serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))
    }

    /// Output has passed through `record`: the same bytes that were kept.
    pub fn check_passed_through(&self) -> Checked {
        let kept = self.kept("stdout")?;
        require(self.ended.stdout == kept, || {
            self.ended
                .told("stdout of the recording is not what the run directory keeps")
        })
    }

    /// Replays `times` times: every verification of the tool must pass, and the output must be the recorded bytes, which
    /// is compared here as well, so that a tool that verifies nothing does not pass.
    pub fn check_replay(&self, sandbox: &Sandbox, times: u32, jitter: u64, limit: Duration) -> Checked {
        let line = sandbox
            .refrain(["replay", "--times", &times.to_string(), "--jitter", &jitter.to_string()])
            .arg(&self.directory)
            .within(limit);
        let ended = sandbox.run(&line)?.expect_status(0)?;
        require(ended.stdout == without_children(&self.kept("stdout")?), || {
            ended.told("replay printed something else on stdout")
        })?;
        let (stderr, wanted) = (&ended.stderr, self.kept("stderr")?);
        let is_there = wanted.is_empty() || stderr.windows(wanted.len()).any(|window| window == wanted);
        require(is_there, || {
            ended.told("the recorded stderr is missing from that of the replay")
        })?;
        let tally = format!("replayed {times} of {times} identically");
        require(times == 1 || ended.stderr_text().contains(&tally), || {
            ended.told(&format!("expected \"{tally}\""))
        })
    }
}
