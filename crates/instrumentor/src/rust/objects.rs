//! Where bitcode is: in an object file as such, in a section of one, in the members of an archive.
use object::Object;
use object::ObjectSection;
use object::read::archive::ArchiveFile;

/// LLVM bitcode, bare or behind the wrapper header of some systems.
fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(b"\xde\xc0\x17\x0b")
}

/// The bitcode of an object, if it has any.
pub fn bitcode(bytes: &[u8]) -> Option<&[u8]> {
    if is_bitcode(bytes) {
        return Some(bytes);
    }
    let file = object::File::parse(bytes).ok()?;
    let section = file.section_by_name(".llvmbc")?.data().ok()?;
    is_bitcode(section).then_some(section)
}

/// A member of an archive that a linker would look at.
pub struct Member<'data> {
    pub name: String,
    pub bytes: &'data [u8],
}

/// The members in their order, without those that only rustc reads. `None` if it is no archive.
pub fn members(bytes: &[u8]) -> Option<Vec<Member<'_>>> {
    let archive = ArchiveFile::parse(bytes).ok()?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.ok()?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        if name == "lib.rmeta" || name.ends_with(".rmeta") {
            continue;
        }
        members.push(Member {
            name,
            bytes: member.data(bytes).ok()?,
        });
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_has_no_bitcode() {
        assert!(bitcode(b"").is_none());
        assert!(bitcode(b"\x7fELF and then nothing").is_none());
        assert_eq!(bitcode(b"BC\xc0\xde rest"), Some(&b"BC\xc0\xde rest"[..]));
        assert!(members(b"not an archive").is_none());
        assert_eq!(members(b"!<arch>\n").unwrap().len(), 0);
    }
}
