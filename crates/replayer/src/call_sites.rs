//! Where the libc of a program enters the kernel, as the runtime wants to know it.
use object::Endianness;
use object::elf::FileHeader64;
use object::elf::PT_INTERP;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader;
use run_store::RunMeta;
use run_store::Text;
use runtime_abi::RUNTIME_LIBRARY;
use runtime_abi::call_sites::WINDOW_BYTES_MAX;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use syscall_sites::Sites;

/// The table for the control file, or the reason why there is none: inputs are then not recorded.
pub fn table_for(executable: &Path) -> Result<Vec<u8>, String> {
    let libc = libc_of(executable)?;
    let bytes = fs::read(&libc).map_err(|e| format!("cannot read {}: {e}", libc.display()))?;
    let sites = syscall_sites::find(&bytes).map_err(|e| format!("{}: {e}", libc.display()))?;
    Ok(encode(&sites))
}

/// Which of a program's files enter the kernel by themselves, apart from libc, whose calls are recorded, the dynamic loader,
/// which maps the same files again, and the runtime.
pub fn elsewhere(meta: &RunMeta) -> Vec<Text> {
    let is_known = |path: &Text| {
        let name = Path::new(path.as_os_str()).file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        name == RUNTIME_LIBRARY || name == "libc.so.6" || name.starts_with("ld-linux")
    };
    let files = std::iter::once(&meta.executable).chain(&meta.libraries);
    files
        .map(|file| &file.path)
        .filter(|path| !is_known(path))
        .filter(|path| fs::read(path.as_os_str()).is_ok_and(|bytes| syscall_sites::makes_calls(&bytes)))
        .cloned()
        .collect()
}

/// The libc beside the program's dynamic loader.
fn libc_of(executable: &Path) -> Result<PathBuf, String> {
    let shown = executable.display();
    let bytes = fs::read(executable).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let loader = interpreter(&bytes).ok_or_else(|| format!("{shown} names no dynamic loader"))?;
    let loader = fs::canonicalize(&loader).map_err(|e| format!("cannot find {}: {e}", loader.display()))?;
    let libc = loader.with_file_name("libc.so.6");
    match libc.is_file() {
        true => Ok(libc),
        false => Err(format!("there is no libc.so.6 beside {}", loader.display())),
    }
}

fn interpreter(elf: &[u8]) -> Option<PathBuf> {
    let header = FileHeader64::<Endianness>::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, elf).ok()?;
    let path = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP)?
        .data(endian, elf)
        .ok()?;
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}

/// A `runtime_abi::call_sites::Table` up to its last entry.
fn encode(sites: &Sites) -> Vec<u8> {
    let mut bytes = sites.build_id.to_vec();
    bytes.extend((sites.sites.len() as u32).to_le_bytes());
    for site in &sites.sites {
        bytes.extend(site.address.to_le_bytes());
        bytes.extend([site.bytes.len() as u8, site.syscall_at as u8, 0, 0]);
        let mut window = [0; WINDOW_BYTES_MAX];
        window[..site.bytes.len()].copy_from_slice(&site.bytes);
        bytes.extend(window);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime_abi::call_sites::Entry;
    use runtime_abi::call_sites::Table;
    use std::mem::offset_of;
    use syscall_sites::Site;

    #[test]
    fn the_table_has_the_layout_the_runtime_maps() {
        let sites = Sites {
            build_id: [7; 20],
            sites: vec![Site {
                address: 0x1234,
                bytes: vec![1, 2, 3, 4, 5, 6],
                syscall_at: 4,
            }],
            special: 0,
            no_room: vec![],
        };
        let bytes = encode(&sites);
        assert_eq!(bytes.len(), offset_of!(Table, entries) + size_of::<Entry>());
        assert_eq!(bytes[offset_of!(Table, count)], 1);
        let entry = &bytes[offset_of!(Table, entries)..];
        assert_eq!(entry[offset_of!(Entry, address)..][..2], [0x34, 0x12]);
        assert_eq!(entry[offset_of!(Entry, length)], 6);
        assert_eq!(entry[offset_of!(Entry, syscall_at)], 4);
        assert_eq!(entry[offset_of!(Entry, bytes)..][..6], [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn our_own_libc_is_found() {
        let me = std::env::current_exe().expect("a test has an executable");
        assert!(table_for(&me).expect("a table").len() > 300 * 32);
    }
}
