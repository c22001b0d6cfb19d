//! Full disks, caps, and bytes that are other ones than were written.
use super::ALONE;
use super::Chamber;
use super::FAMILY;
use super::checks;
use crate::command::Failure;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// Files that have checksums: with another byte in one of them, a run is refused, or what is wrong is not used.
const HAVE_CHECKSUMS: [&str; 6] = ["run.json", "start", "arguments", "environment", "stdout", "stderr"];
/// Prints more than any cap here allows.
const LOUD: &str = "i=0; while [ $i -lt 40 ]; do head -c 200000 /dev/zero; i=$((i+1)); done";
/// Starts more processes than there is room for.
const MANY: &str = "i=0; while [ $i -lt 30 ]; do /bin/true; i=$((i+1)); done";

pub struct Damages {
    archive: PathBuf,
    /// May file systems be mounted?
    mounts: bool,
}

impl Damages {
    pub fn prepare(chamber: &mut Chamber) -> Result<Damages, Failure> {
        chamber.record(FAMILY)?;
        chamber.expect(&["pack", "-o", "whole.refrain"], &[0])?;
        let archive = chamber.root.join("whole.refrain");
        fs::rename(chamber.work().join("whole.refrain"), &archive)?;
        checks::clean(chamber);
        let disk = SmallDisk::mount(&chamber.work().join("disk"), 256 << 10);
        Ok(Damages {
            archive,
            mounts: disk.is_ok(),
        })
    }

    pub fn do_one(&mut self, chamber: &mut Chamber) -> Result<String, Failure> {
        let done = match chamber.dice.below(if self.mounts { 5 } else { 4 }) {
            0 | 1 => self.damage_run(chamber)?,
            2 => self.damage_archive(chamber)?,
            3 => cap(chamber)?,
            _ => full_disk(chamber)?,
        };
        checks::nobody_left(chamber)?;
        checks::clean(chamber);
        Ok(done)
    }

    fn damage_run(&self, chamber: &mut Chamber) -> Result<String, Failure> {
        let script = *chamber.dice.one_of(&[FAMILY, ALONE]);
        chamber.put_run(script)?;
        let run = chamber.store().join("sh-0");
        let mut files = checks::files_below(&run)?;
        files.retain(|path| path.is_file());
        files.sort();
        let victim = chamber.dice.one_of(&files).clone();
        let how = damage(chamber, &victim)?;
        let name = victim.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let replays: &[i32] = match HAVE_CHECKSUMS.contains(&name.as_str()) {
            true => &[0, 3],
            false => &[0, 1, 3],
        };
        chamber.expect(&["ls"], &[0])?;
        chamber.expect(&["info", "sh-0"], &[0, 3])?;
        chamber.expect(&["replay", "--quiet", "--patience", "5", "sh-0"], replays)?;
        chamber.expect(&["dump", "sh-0"], &[0, 3])?;
        chamber.expect(&["pack", "sh-0", "-o", "damaged.refrain"], &[0, 3])?;
        checks::private(&chamber.store())?;
        chamber.expect(&["rm", "sh-0"], &[0])?;
        Ok(format!("{how} in a run"))
    }

    fn damage_archive(&self, chamber: &mut Chamber) -> Result<String, Failure> {
        let copy = chamber.work().join("copy.refrain");
        fs::copy(&self.archive, &copy)?;
        let how = damage(chamber, &copy)?;
        chamber.expect(&["info", "./copy.refrain"], &[0, 3])?;
        let ended = chamber.expect(&["unpack", "copy.refrain"], &[0, 3])?;
        checks::in_order(chamber)?;
        let is_empty = fs::read_dir(chamber.store())?.next().is_none();
        if ended.status == 3 && !is_empty {
            return Err(Failure::new("an archive that was refused has left something"));
        }
        Ok(format!("{how} in an archive"))
    }
}

/// Changes a bit, or cuts the file. Says which.
fn damage(chamber: &mut Chamber, path: &Path) -> Result<&'static str, Failure> {
    let mut bytes = fs::read(path)?;
    if bytes.is_empty() {
        return Ok("nothing");
    }
    let at = chamber.dice.below(bytes.len() as u64) as usize;
    let how = if chamber.dice.below(4) == 0 {
        bytes.truncate(at);
        "a cut"
    } else {
        bytes[at] ^= 1 << chamber.dice.below(8);
        "a flipped bit"
    };
    chamber
        .transcript
        .push(format!("# {how} at {at} in {}", path.display()));
    fs::write(path, bytes)?;
    Ok(how)
}

fn cap(chamber: &mut Chamber) -> Result<String, Failure> {
    let kilobytes = 1024 + chamber.dice.below(3072);
    let script = *chamber.dice.one_of(&[LOUD, MANY, FAMILY]);
    let size = format!("{kilobytes}K");
    chamber.expect(
        &[
            "record",
            "--scope",
            "inputs",
            "--max-size",
            &size,
            "--",
            "/bin/sh",
            "-c",
            script,
        ],
        &[0],
    )?;
    let bytes = checks::disk_bytes(&chamber.store().join("sh-0"))?;
    if bytes > kilobytes << 10 {
        return Err(Failure::new(format!(
            "--max-size {size}: the run has {bytes} bytes on the disk"
        )));
    }
    chamber.expect(&["replay", "--quiet", "sh-0"], &[0])?;
    Ok("a cap".to_owned())
}

/// A small file system that is unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Path, bytes: u64) -> Result<SmallDisk, Failure> {
        fs::create_dir_all(place)?;
        let options = format!("size={bytes},mode=700");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(place)
            .output()?
            .status;
        match status.success() {
            true => Ok(SmallDisk(place.to_owned())),
            false => Err(Failure::new("cannot mount a small file system")),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount succeeds even while files are open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn full_disk(chamber: &mut Chamber) -> Result<String, Failure> {
    let bytes = (16 + chamber.dice.below(1500)) << 10;
    let disk = SmallDisk::mount(&chamber.work().join("disk"), bytes)?;
    chamber.transcript.push(format!("# a disk of {bytes} bytes"));
    let script = *chamber.dice.one_of(&[LOUD, MANY, FAMILY]);
    // The program's status, or that it could not be begun.
    chamber.expect(
        &[
            "record", "--scope", "inputs", "-o", "disk/run", "--", "/bin/sh", "-c", script,
        ],
        &[0, 3, 125],
    )?;
    if disk.0.join("run").exists() {
        checks::private(&disk.0.join("run"))?;
        chamber.expect(&["info", "disk/run"], &[0, 3])?;
        chamber.expect(&["replay", "--quiet", "disk/run"], &[0, 3])?;
        chamber.expect(&["pack", "disk/run", "-o", "disk/archive"], &[0, 3])?;
        chamber.expect(&["rm", "./disk/run"], &[0])?;
    }
    let left: Vec<PathBuf> = checks::files_below(&disk.0)?;
    match left.iter().find(|path| !path.ends_with("archive")) {
        Some(path) => Err(Failure::new(format!("{} is left behind", path.display()))),
        None => Ok("a full disk".to_owned()),
    }
}
