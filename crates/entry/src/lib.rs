//! Starts programs with the sockets library.
//!
//! What it is for: [`words`] understands the usual command line of `tieline run`, [`program`] says whether
//! the library can enter a program, [`launch`] how it is started, [`environment`] with what environment,
//! [`layout`] how statistics lie in their file, and [`counting`] where that is.
//!
//! What it must never do: need the language's library or that of C, whose start costs more than all that the
//! launcher does; run anything; print. So texts and paths are bytes, as the kernel has them.
//!
//! Where to start reading: [`launch`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod counting;
mod elf;
pub mod environment;
pub mod launch;
pub mod layout;
pub mod program;
mod search;
pub mod words;

use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Name of the library's file.
pub const LIBRARY: &str = "libtieline-sockets.so";
/// Names the library's file, instead of the one beside the program or in the installation.
pub const ENV_LIBRARY: &str = "TIELINE_SOCKETS_LIBRARY";
/// Names the statistics file, for the library.
pub const ENV_STATISTICS: &str = "TIELINE_SOCKETS_STATISTICS";
/// `1`: connections inside this machine may go through rings.
pub const ENV_RINGS: &str = "TIELINE_SOCKETS_RINGS";
/// Its value that has each connection go through a ring as soon as both ends exist: for tests.
pub const RINGS_FORCED: &str = "2";
/// `0`: the library takes itself out of the environment, so that it enters no child.
pub const ENV_CHILDREN: &str = "TIELINE_SOCKETS_CHILDREN";

/// A path, an argument or a variable: any bytes but 0.
pub type Text = Vec<u8>;

/// For a human reader.
fn shown(text: &[u8]) -> Cow<'_, str> {
    alloc::string::String::from_utf8_lossy(text)
}

/// What is behind the last slash.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The folder of a file.
fn parent(path: &[u8]) -> Option<&[u8]> {
    path.get(..path.iter().rposition(|byte| *byte == b'/')?)
}

/// A file in a folder.
fn join(folder: &[u8], file: &str) -> Text {
    let slash: &[u8] = if folder.is_empty() || folder.ends_with(b"/") { b"" } else { b"/" };
    [folder, slash, file.as_bytes()].concat()
}
