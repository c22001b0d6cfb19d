//! Writing an archive: everything is hashed for the manifest first, and again while it is copied.
use super::framing::Member;
use super::manifest::Alias;
use super::manifest::Entry;
use super::manifest::Manifest;
use super::manifest::Missing;
use super::manifest::PACK_VERSION;
use super::manifest::Role;
use super::manifest::ZEROS_MAX;
use super::read::RUN;
use super::tar;
use crate::Error;
use crate::Result;
use crate::RunDirectory;
use crate::Text;
use crate::directory::create_part;
use crate::leftovers;
use crate::private;
use rustix::fs::CWD;
use rustix::fs::RenameFlags;
use rustix::fs::renameat_with;
use std::fs;
use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

/// What goes into the archive beside the run itself. Exactly one file is the executable.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    pub files: Vec<FileToPack>,
    /// Other names of the files, by their index.
    pub aliases: Vec<(Text, usize)>,
    pub missing: Vec<Missing>,
}

#[derive(Clone, Debug)]
pub struct FileToPack {
    pub role: Role,
    /// Where it is now.
    pub source: PathBuf,
    /// Where it was when the run was recorded.
    pub original: Text,
    pub build_id: Option<String>,
    pub huge_aligned: Option<bool>,
}

/// Writes `output`, which must not exist, in full or not at all.
pub fn pack(run: &RunDirectory, contents: &Contents, output: &Path) -> Result<Manifest> {
    write_new(output, |out| write(run, contents, out, output))
}

/// Writes a file that must not exist: it has its name when it is whole, or never.
pub(crate) fn write_new<T>(output: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<T>) -> Result<T> {
    let taken = || Error::PackExists {
        path: output.to_owned(),
    };
    // Looked at before the work, and again by the renaming.
    if fs::symlink_metadata(output).is_ok() {
        return Err(taken());
    }
    let mut part = output.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    leftovers::note(&std::path::absolute(&part).unwrap_or_default());
    let failed = |e: io::Error| Error::io("write", output, e);
    let written = create_part(&part).map_err(failed).and_then(|file| {
        let mut out = BufWriter::new(file);
        let value = write(&mut out)?;
        out.flush().map_err(failed)?;
        match renameat_with(CWD, &part, CWD, output, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(value),
            Err(rustix::io::Errno::EXIST) => Err(taken()),
            // File systems that cannot promise it.
            Err(rustix::io::Errno::INVAL) => fs::rename(&part, output).map_err(failed).map(|()| value),
            Err(e) => Err(failed(e.into())),
        }
    });
    if written.is_err() {
        // Nothing to report if this fails as well: the first error is the one that matters.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Writes the archive to `out`; `output` is its name in messages.
pub fn write(run: &RunDirectory, contents: &Contents, out: &mut impl Write, output: &Path) -> Result<Manifest> {
    let mut sources = Vec::new();
    let mut entries = Vec::new();
    for name in run.member_names()? {
        let source = run.file(&name);
        entries.push(describe(&source, format!("run/{name}"), Role::Run)?);
        sources.push(source);
    }
    for (number, file) in contents.files.iter().enumerate() {
        let entry = describe(&file.source, format!("files/{number}"), file.role)?;
        entries.push(Entry {
            original: Some(file.original.clone()),
            build_id: file.build_id.clone(),
            huge_aligned: file.huge_aligned,
            ..entry
        });
        sources.push(file.source.clone());
    }
    let alias = |(path, file): &(Text, usize)| Alias {
        path: path.clone(),
        entry: format!("files/{file}"),
    };
    let manifest = Manifest {
        version: PACK_VERSION,
        refrain: env!("CARGO_PKG_VERSION").to_owned(),
        name: run.name(),
        entries,
        aliases: contents.aliases.iter().map(alias).collect(),
        missing: contents.missing.clone(),
    };
    if let Err([place, expected, found]) = manifest.check() {
        return Err(Error::corrupt(run.path(), place, expected, found));
    }
    let json = serde_json::to_vec_pretty(&manifest).expect("a manifest has only string keys");
    let failed = |e: io::Error| Error::io("write", output, e);
    RUN.begin(&json, out).map_err(failed)?;
    for (entry, source) in manifest.entries.iter().zip(&sources) {
        let member = Member {
            path: &entry.path,
            stored: entry.stored,
            mode: entry.mode,
            hash: &entry.hash,
        };
        copy(&member, open(source)?, source, out, output)?;
    }
    out.write_all(&[0; tar::END_BYTES as usize]).map_err(failed)?;
    Ok(manifest)
}

/// Writes a member of an archive from the file that it describes.
pub(crate) fn copy(member: &Member<'_>, file: File, source: &Path, out: &mut impl Write, output: &Path) -> Result<()> {
    let failed = |e: io::Error| Error::io("write", output, e);
    let header = tar::header(member.path, member.stored, member.mode);
    out.write_all(&header).map_err(failed)?;
    let mut file = file.take(member.stored);
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let part = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => &buffer[..bytes],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("read", source, e)),
        };
        hasher.update(part);
        out.write_all(part).map_err(failed)?;
    }
    if hasher.finalize().to_hex().as_str() != member.hash {
        return Err(Error::ChangedMeanwhile {
            path: source.to_owned(),
        });
    }
    out.write_all(&vec![0; tar::padding(member.stored)]).map_err(failed)
}

/// Length, hash and mode of a file. Zeros at its end are left out if it is the run's: those were allocated ahead.
fn describe(source: &Path, path: String, role: Role) -> Result<Entry> {
    let failed = |e| Error::io("read", source, e);
    let mut file = open(source)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & private::PROGRAM_MODE;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    // Zeros that were read and count only if something else follows.
    let mut zeros: u64 = 0;
    loop {
        let part = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => &buffer[..bytes],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(e)),
        };
        let used = match role {
            Role::Run => part.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1),
            _ => part.len(),
        };
        if used > 0 {
            io::copy(&mut io::repeat(0).take(zeros), &mut hasher).map_err(failed)?;
            hasher.update(&part[..used]);
            zeros = 0;
        }
        zeros += (part.len() - used) as u64;
    }
    if zeros > ZEROS_MAX {
        io::copy(&mut io::repeat(0).take(zeros), &mut hasher).map_err(failed)?;
        zeros = 0;
    }
    Ok(Entry {
        path,
        role,
        bytes: hasher.count() + zeros,
        stored: hasher.count(),
        hash: hasher.finalize().to_hex().to_string(),
        mode,
        original: None,
        build_id: None,
        huge_aligned: None,
    })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::io("read", path, e))
}
