//! From an archive to a run directory that is there in full or not at all.
//!
//! The files are written into a hidden directory beside the final one, which is renamed at the end: NOTE [Leftovers].
use super::manifest::Manifest;
use super::manifest::Role;
use super::read::Reader;
use crate::Error;
use crate::Result;
use crate::RunDirectory;
use crate::Store;
use crate::directory::PACKED;
use crate::leftovers;
use crate::leftovers::Unfinished;
use crate::private;
use crate::store::Renamed;
use crate::store::rename;
use std::fs;
use std::fs::File;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::path::absolute;

#[derive(Debug)]
pub struct Unpacked {
    pub run: RunDirectory,
    pub manifest: Manifest,
}

/// What an archive says is in it. Of the members, only their lengths are checked.
pub fn read_manifest(archive: &Path) -> Result<Manifest> {
    Ok(open(archive)?.manifest().clone())
}

fn open(archive: &Path) -> Result<Reader<BufReader<File>>> {
    let failed = |e| Error::io("read", archive, e);
    let file = File::open(archive).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::NotAPack {
            path: archive.to_owned(),
        });
    }
    Reader::open(BufReader::new(file), metadata.len(), archive)
}

/// Unpacks into the store, under the run's old name if that is free, or to `output`, which must not exist.
pub fn unpack(store: &Store, archive: &Path, output: Option<&Path>) -> Result<Unpacked> {
    let reader = open(archive)?;
    let output = output.map(|path| absolute(path).map_err(|e| Error::io("create", path, e)));
    let output = output.transpose()?;
    if let Some(path) = &output
        && fs::symlink_metadata(path).is_ok()
    {
        return Err(Error::Exists { path: path.clone() });
    }
    let folder = match &output {
        Some(path) => path.parent().unwrap_or(path),
        None => store.root(),
    };
    private::create_directories(folder).map_err(|e| Error::io("create", folder, e))?;
    leftovers::remove_abandoned(folder);
    let unfinished = Unfinished::create(folder, "unpack").map_err(|e| Error::io("create a directory in", folder, e))?;
    let manifest = fill(reader, &unfinished.path)?;
    check_belongs_together(&manifest, &unfinished.path, archive)?;
    let path = match output {
        Some(path) => match rename(&unfinished.path, &path)? {
            Renamed::Yes => {
                unfinished.finished();
                path
            }
            Renamed::NameTaken => return Err(Error::Exists { path }),
        },
        None => place_in_store(store, unfinished, &manifest.name)?,
    };
    Ok(Unpacked {
        run: RunDirectory::at(path),
        manifest,
    })
}

/// Writes every member into `folder`.
fn fill(mut reader: Reader<impl std::io::Read>, folder: &Path) -> Result<Manifest> {
    let manifest = reader.manifest().clone();
    let mut files = 0;
    for entry in &manifest.entries {
        // All forms of names were checked: a slash is found only behind the name of a process's part.
        let name = match entry.role {
            Role::Run => entry.path.trim_start_matches("run/").to_owned(),
            _ => {
                files += 1;
                format!("{PACKED}-{}", files - 1)
            }
        };
        let path = folder.join(&name);
        let failed = |e| Error::io("write", &path, e);
        if let Some((process, _)) = name.split_once('/') {
            make_part(&folder.join(process))?;
        }
        // Ours to read and write whatever the archive says, and nobody else's.
        let mode = entry.mode & private::PROGRAM_MODE | private::FILE_MODE;
        let mut file = create(&path, mode)?;
        reader.copy_next(|part| file.write_all(part).map_err(failed))?;
        file.set_len(entry.bytes).map_err(failed)?;
        file.sync_all().map_err(failed)?;
    }
    let path = folder.join(format!("{PACKED}.json"));
    let json = reader.manifest_json().to_owned();
    reader.finish()?;
    let failed = |e| Error::io("write", &path, e);
    let mut file = create(&path, private::FILE_MODE)?;
    file.write_all(&json).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(manifest)
}

/// The directory of a process's part. Nothing but us makes anything in the folder, so one that is there is ours.
fn make_part(path: &Path) -> Result<()> {
    match private::create_directory(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io("create", path, e)),
        _ => Ok(()),
    }
}

/// Never follows a link, never opens what is there already.
fn create(path: &Path, mode: u32) -> Result<File> {
    private::create_with_mode(path, mode).map_err(|e| Error::io("create", path, e))
}

/// The metadata can be read, and the packed executable is the one it speaks of.
fn check_belongs_together(manifest: &Manifest, folder: &Path, archive: &Path) -> Result<()> {
    let run = RunDirectory::at(folder.to_owned());
    // Nobody knows the directory yet, so what is wrong is said of the archive.
    let (meta, _) = run.load().map_err(|error| match error {
        Error::Corrupt {
            file,
            place,
            expected,
            found,
        } => {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            Error::corrupt(archive, format!("run/{name}: {place}"), expected, found)
        }
        Error::Newer { what, found, known, .. } => Error::Newer {
            file: archive.to_owned(),
            what,
            found,
            known,
        },
        other => other,
    })?;
    let executable = manifest.entries.iter().find(|entry| entry.role == Role::Executable);
    let fits = executable.is_some_and(|entry| {
        entry.hash == meta.executable.hash && entry.original.as_ref() == Some(&meta.executable.path)
    });
    if fits {
        return Ok(());
    }
    let expected = format!(
        "the executable {} with the hash {}",
        meta.executable.path, meta.executable.hash
    );
    Err(Error::corrupt(archive, "manifest.json", expected, "another"))
}

fn place_in_store(store: &Store, unfinished: Unfinished, name: &str) -> Result<PathBuf> {
    let mut candidate = store.tidy_name(name);
    loop {
        let path = store.root().join(&candidate);
        match rename(&unfinished.path, &path)? {
            Renamed::Yes => {
                unfinished.finished();
                return Ok(path);
            }
            Renamed::NameTaken => candidate = store.free_name(&candidate)?,
        }
    }
}
