//! Decides from a program's file whether the library can enter it.
//!
//! The dynamic linker enters it, so there must be one, of the same kind as the library's, that is not told to
//! mistrust the environment. A script is entered if its interpreter is.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, Stat, StatVfsMountFlags};

use crate::elf::Elf;
use crate::{Text, file_name, shown};

/// Interpreters of interpreters that the kernel follows.
const DEPTH: usize = 5;
/// Longest first line of a script that the kernel reads.
const LINE_BYTES: usize = 256;
/// The loader whose programs can be entered.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Why the library cannot enter a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Barred {
    /// It has no dynamic linker.
    Static,
    /// It runs as another user or group than its caller, so its loader heeds no environment.
    Privileged,
    /// It gets capabilities that its caller lacks, with the same effect.
    Capable,
    /// It calls the kernel itself.
    Go,
    /// It is of another class or for another processor.
    OtherMachine,
    /// Another C library's loader starts it.
    OtherLoader(Text),
    /// The library's path can't be said to the loader.
    NoPath(Text),
    /// A limit leaves no room for the library in its memory.
    LittleMemory,
    /// With the library's name the environment would be too long for the kernel.
    TooLong,
    /// A script, whose interpreter cannot be entered.
    Interpreter(Text, Box<Self>),
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("it is linked statically: no library can be loaded into it"),
            Self::Privileged => {
                f.write_str("it is set-user-ID or set-group-ID: the dynamic linker ignores LD_PRELOAD")
            }
            Self::Capable => f.write_str("its file has capabilities: the dynamic linker ignores LD_PRELOAD"),
            Self::Go => f.write_str("it is written in Go, which makes system calls without the C library"),
            Self::OtherMachine => f.write_str("it is not a 64-bit program for x86-64, as the library is"),
            Self::OtherLoader(loader) => {
                write!(f, "its loader is {}, the library's is {LOADER}", shown(loader))
            }
            Self::NoPath(path) => write!(
                f,
                "the library's path {} contains a space, a colon or a dollar sign, which the dynamic linker takes for \
                 something else, and there is no runtime directory for a link to it: move it",
                shown(path)
            ),
            Self::LittleMemory => f.write_str(
                "the limit of its memory (`ulimit -d`, `ulimit -v`) is too low for the library to fit in",
            ),
            Self::TooLong => f.write_str(
                "its arguments and its environment are so long that the library's name does not fit in",
            ),
            Self::Interpreter(path, why) => write!(f, "its interpreter is {}, and {why}", shown(path)),
        }
    }
}

/// What was found out about a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Why it cannot be entered, if it can't.
    pub barred: Option<Barred>,
    /// The runtime of an address sanitizer that it needs, which wants to be loaded before all else.
    pub sanitizer: Option<Text>,
    /// Neither a program nor a script with an interpreter: the kernel may know it nevertheless, or a shell
    /// runs it.
    pub unknown: bool,
}

impl Program {
    fn barred(why: Barred) -> Self {
        Self { barred: Some(why), ..Self::default() }
    }
}

/// Looks at a program's file. What cannot be read is taken for a program that can be entered: the loader
/// knows better. `words` are the program's arguments, with its name: if it is the dynamic linker they say
/// which program that starts.
#[must_use]
pub fn look_at(path: &[u8], words: &[Text]) -> Program {
    look(path, words, DEPTH, true)
}

/// The interpreter that a script or a program asks for.
#[must_use]
pub fn interpreter(path: &[u8]) -> Option<Text> {
    let (_, file) = open(path)?;
    let start = start(&file?);
    if start.starts_with(b"#!") { of_script(&start) } else { Elf::read(&open(path)?.1?)?.interpreter() }
}

/// A file to be examined, and what is known of it though it may not be read. Anything else (a pipe, a device)
/// is left alone: it might hold this up, or do something.
fn open(path: &[u8]) -> Option<(Stat, Option<OwnedFd>)> {
    let metadata = rustix::fs::stat(path).ok().filter(is_file)?;
    // In its place may be something else by now.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok();
    Some((metadata, file))
}

pub(crate) fn is_file(metadata: &Stat) -> bool {
    FileType::from_raw_mode(metadata.st_mode).is_file()
}

/// As much of it as the kernel reads to see what it is.
fn start(file: &OwnedFd) -> Text {
    let mut start = vec![0; LINE_BYTES];
    let length = rustix::io::pread(file, &mut start[..], 0).unwrap_or(0);
    start.truncate(length);
    start
}

/// `as_kernel`: it is the kernel that starts it, not a dynamic linker that was started by hand, which gives
/// no rights.
fn look(path: &[u8], words: &[Text], depth: usize, as_kernel: bool) -> Program {
    let Some((metadata, file)) = open(path) else { return Program::default() };
    let start = file.as_ref().map(start).unwrap_or_default();
    if start.starts_with(b"#!") {
        return script(&start, depth);
    }
    let unreadable = start.is_empty() && metadata.st_size > 0;
    if !start.starts_with(b"\x7fELF") && !unreadable {
        return Program { unknown: true, ..Program::default() };
    }
    if as_kernel && let Some(why) = privileged(path, &metadata) {
        return Program::barred(why);
    }
    let Some(file) = file.filter(|_| !unreadable) else { return Program::default() };
    Elf::read(&file).map_or_else(|| Program::barred(Barred::OtherMachine), |elf| judge(&elf, words))
}

/// A script is as its interpreter.
fn script(start: &[u8], depth: usize) -> Program {
    let Some(path) = of_script(start) else { return Program { unknown: true, ..Program::default() } };
    if depth == 0 {
        return Program::default();
    }
    let found = look(&path, &[], depth - 1, true);
    let barred = found.barred.map(|why| Barred::Interpreter(path, Box::new(why)));
    Program { barred, ..found }
}

/// The interpreter that is in a script's first line.
fn of_script(start: &[u8]) -> Option<Text> {
    let line = start.get(2..)?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    let word = word.split(|byte| *byte == 0).next().filter(|word| !word.is_empty())?;
    Some(word.into())
}

/// Whether the kernel would start it with other rights than its caller's.
fn privileged(path: &[u8], metadata: &Stat) -> Option<Barred> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if rustix::process::getuid() != user || rustix::process::getgid() != group {
        // Of such a caller every program is distrustful.
        return Some(Barred::Privileged);
    }
    let mode = metadata.st_mode;
    let changes = (mode & SET_USER != 0 && metadata.st_uid != user.as_raw())
        || (mode & SET_GROUP == SET_GROUP && metadata.st_gid != group.as_raw());
    let capable = || {
        let mut value = [0; 64];
        rustix::fs::getxattr(path, "security.capability", &mut value[..]).unwrap_or(0) > 0 && !user.is_root()
    };
    let why = if changes {
        Barred::Privileged
    } else if capable() {
        Barred::Capable
    } else {
        return None;
    };
    let ignored = rustix::thread::no_new_privs().unwrap_or(false)
        || rustix::fs::statvfs(path).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::NOSUID));
    (!ignored).then_some(why)
}

fn judge(elf: &Elf<'_>, words: &[Text]) -> Program {
    if !elf.is_x86_64() {
        return Program::barred(Barred::OtherMachine);
    }
    if elf.is_go() {
        return Program::barred(Barred::Go);
    }
    let names = elf.names().unwrap_or_default();
    match elf.interpreter() {
        Some(loader) if file_name(&loader) != LOADER.as_bytes() => {
            Program::barred(Barred::OtherLoader(loader))
        }
        // The loader itself, started by hand, heeds the environment too.
        None if names.own.as_deref() == Some(LOADER.as_bytes()) => by_hand(words),
        None => Program::barred(Barred::Static),
        Some(_) => {
            let sanitizer = names.needed.into_iter().find(|name| is_sanitizer(name));
            Program { sanitizer, ..Program::default() }
        }
    }
}

/// A program that the loader is told to start.
fn by_hand(words: &[Text]) -> Program {
    const WITH_VALUE: [&str; 7] = [
        "--library-path",
        "--inhibit-rpath",
        "--audit",
        "--preload",
        "--argv0",
        "--glibc-hwcaps-prepend",
        "--glibc-hwcaps-mask",
    ];
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if WITH_VALUE.iter().any(|option| word == option.as_bytes()) {
            words.next();
        } else if !word.starts_with(b"--") {
            // One without a slash is looked for among the libraries.
            let named = word.contains(&b'/');
            return if named { look(word, &[], 0, false) } else { Program::default() };
        }
    }
    Program::default()
}

/// Whether a file can be a library of the same kind as ours.
pub(crate) fn may_be_library(path: &[u8]) -> bool {
    let file = open(path).and_then(|(_, file)| file);
    file.is_some_and(|file| Elf::read(&file).is_some_and(|elf| elf.is_x86_64()))
}

/// Whether a library is the runtime of an address sanitizer, which ends the program unless it is loaded
/// first.
#[must_use]
pub fn is_sanitizer(library: &[u8]) -> bool {
    let name = file_name(library);
    name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::prelude::rust_2024::*;
    use std::{format, vec};

    fn look_at(path: &Path, words: &[Text]) -> Program {
        super::look_at(path.as_os_str().as_bytes(), words)
    }

    fn file(name: &str, bytes: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    /// A file with these segments, whose contents lie behind the headers.
    fn elf(class: u8, machine: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 * segments.len()];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = segments.len() as u8;
        for (at, (kind, contents)) in segments.iter().enumerate() {
            let (header, offset) = (64 + 56 * at, bytes.len() as u64);
            bytes[header..header + 4].copy_from_slice(&kind.to_le_bytes());
            bytes[header + 8..header + 16].copy_from_slice(&offset.to_le_bytes());
            bytes[header + 32..header + 40].copy_from_slice(&(contents.len() as u64).to_le_bytes());
            bytes.extend_from_slice(contents);
        }
        bytes
    }

    fn barred(bytes: &[u8]) -> Option<Barred> {
        let (_folder, path) = file("program", bytes, 0o755);
        look_at(&path, &[]).barred
    }

    #[test]
    fn programs_are_told_apart() {
        let loader: (u32, &[u8]) = (3, b"/lib64/ld-linux-x86-64.so.2\0");
        assert_eq!(barred(&elf(2, 62, &[loader])), None);
        assert_eq!(barred(&elf(2, 62, &[])), Some(Barred::Static));
        assert_eq!(barred(&elf(1, 3, &[loader])), Some(Barred::OtherMachine));
        assert_eq!(barred(&elf(2, 183, &[loader])), Some(Barred::OtherMachine));
        assert_eq!(barred(b"\x7fELF"), Some(Barred::OtherMachine));
        let musl = "/lib/ld-musl-x86_64.so.1";
        assert_eq!(
            barred(&elf(2, 62, &[(3, musl.as_bytes())])),
            Some(Barred::OtherLoader(musl.as_bytes().into()))
        );
        let go: (u32, &[u8]) = (4, b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd");
        assert_eq!(barred(&elf(2, 62, &[loader, go])), Some(Barred::Go));
    }

    #[test]
    fn a_header_that_lies_is_no_harm() {
        let mut far = elf(2, 62, &[(3, b"/x"), (2, b"y")]);
        far[32..40].fill(0xff);
        assert_eq!(barred(&far), Some(Barred::OtherMachine));
        let mut long = elf(2, 62, &[(3, b"/x")]);
        long[64 + 39] = 0xff;
        assert_eq!(barred(&long), Some(Barred::Static));
    }

    #[test]
    fn a_script_is_as_its_interpreter() {
        let (_folder, interpreter) = file("static", &elf(2, 62, &[]), 0o755);
        let line = format!("#! {} -x\nrest", interpreter.display());
        let want = Barred::Interpreter(interpreter.as_os_str().as_bytes().into(), Box::new(Barred::Static));
        assert_eq!(barred(line.as_bytes()), Some(want.clone()));
        assert!(want.to_string().contains("its interpreter is") && want.to_string().contains("statically"));
        assert_eq!(barred(b"#!/bin/sh\n"), None);
        // One that names itself ends as the kernel ends it.
        let (_folder, own) = file("loop", b"", 0o755);
        std::fs::write(&own, format!("#!{}", own.display())).unwrap();
        assert_eq!(look_at(&own, &[]), Program::default());
        let (_folder, text) = file("text", b"echo hello\n", 0o755);
        assert!(look_at(&text, &[]).unknown);
    }

    #[test]
    fn what_runs_as_somebody_else_is_barred() {
        let (_folder, path) = file("su", &elf(2, 62, &[(3, b"/lib64/ld-linux-x86-64.so.2\0")]), 0o6755);
        // Its owner runs the test, so nothing changes for that user.
        assert_eq!(look_at(&path, &[]).barred, None);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(look_at(&path, &[]).barred, Some(Barred::Privileged));
        }
    }

    #[test]
    fn this_test_itself_can_be_entered() {
        assert_eq!(look_at(&std::env::current_exe().unwrap(), &[]), Program::default());
        assert!(is_sanitizer(b"/x/libasan.so.8") && !is_sanitizer(b"libc.so.6"));
    }
}
