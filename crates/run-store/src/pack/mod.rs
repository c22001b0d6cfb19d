//! A packed run: one file with a run directory and the files its program needs, to be replayed on another machine.
//!
//! NOTE [Packed runs]
//!
//! The file is an uncompressed tar archive, so that `tar tf` shows what is in it and any compressor can be put behind
//! it. Its members, in this order:
//!
//! ```text
//! refrain-pack     version of the format, length and hash of the manifest
//! manifest.json    [`Manifest`]: name, length, hash and mode of everything that follows
//! run/NAME         the files of the run directory
//! files/N          the executable and its libraries; where they came from is in the manifest
//! ```
//!
//! A reader trusts nothing. Member names are no paths that it follows: they are of the two forms above, and each
//! form has its place in the run directory. The hash in the first member covers the manifest, the manifest covers the
//! members, and every tar header and every byte of padding must be exactly what [`write`] would have put there. So an
//! archive has no byte that can change unnoticed, there is no second way to write the same archive, and whatever tar
//! has beside plain files (links, devices, extensions) is refused without being understood. The length of the whole file
//! follows from the manifest and is compared before anything is written.
//!
//! Logs and control files end in zeros that were allocated ahead; those are not stored (`Entry::stored`).
//!
//! An unpacked run is a run directory with `packed.json` (the manifest) and `packed-N` (the member `files/N`) in it.
pub(crate) mod framing;
mod manifest;
mod read;
pub(crate) mod tar;
mod unpack;
pub(crate) mod write;

pub use manifest::Alias;
pub use manifest::Entry;
pub use manifest::Manifest;
pub use manifest::Missing;
pub use manifest::PACK_VERSION;
pub use manifest::Role;
pub use read::Reader;
pub use unpack::Unpacked;
pub use unpack::read_manifest;
pub use unpack::unpack;
pub use write::Contents;
pub use write::FileToPack;
pub use write::pack;
