//! What an ELF file tells the dynamic loader: who loads it, what it needs, where that is.
use object::Endianness;
use object::ReadCache;
use object::ReadRef;
use object::elf;
use object::elf::FileHeader64;
use object::read::elf::Dyn;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFile {
    pub interpreter: Option<PathBuf>,
    pub needed: Vec<String>,
    /// DT_RPATH and DT_RUNPATH, unexpanded.
    pub search_path: Vec<Vec<u8>>,
    /// Hexadecimal.
    pub build_id: Option<String>,
}

impl ElfFile {
    /// `None` for anything that is not a well-formed 64-bit ELF file.
    pub fn read(path: &Path) -> Option<ElfFile> {
        parse(&ReadCache::new(File::open(path).ok()?))
    }
}

fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<ElfFile> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut file = ElfFile::default();
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            file.interpreter = Some(PathBuf::from(OsStr::from_bytes(path)));
        }
        let Ok(Some(mut notes)) = segment.notes(endian, data) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                file.build_id = Some(hexadecimal(note.desc()));
            }
        }
    }
    let sections = header.sections(endian, data).ok()?;
    let Some((entries, strings)) = sections.dynamic(endian, data).ok()? else {
        return Some(file);
    };
    let strings = sections.strings(endian, data, strings).ok()?;
    for entry in entries {
        let text = || entry.string(endian, strings).ok();
        match entry.tag(endian) {
            elf::DT_NEEDED => file
                .needed
                .extend(text().map(|name| String::from_utf8_lossy(name).into_owned())),
            elf::DT_RPATH | elf::DT_RUNPATH => file.search_path.extend(text().map(<[u8]>::to_vec)),
            _ => {}
        }
    }
    Some(file)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_an_elf_file() {
        let file = ElfFile::read(Path::new("/proc/self/exe")).expect("an ELF file");
        let interpreter = file.interpreter.expect("a dynamic program");
        assert!(interpreter.to_string_lossy().contains("ld-linux"), "{interpreter:?}");
        assert!(file.needed.iter().any(|name| name == "libc.so.6"), "{:?}", file.needed);
        assert_eq!(ElfFile::read(Path::new("/dev/null")), None);
        assert_eq!(ElfFile::read(Path::new("/no such file")), None);
    }
}
