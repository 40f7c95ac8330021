//! Whether the library can enter a program: what its file says, before it is started.
//!
//! The dynamic linker enters it, so there must be one, of the same kind as the library's, that is not told to mistrust the
//! environment. A script is entered if its interpreter is.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Interpreters of interpreters that the kernel follows.
const DEPTH: usize = 5;
/// Longest first line of a script that the kernel reads.
const LINE_BYTES: usize = 256;
/// The loader whose programs can be entered.
const LOADER: &str = "ld-linux-x86-64.so.2";
/// Program headers that are looked at, at most.
const HEADERS: u16 = 512;

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
    OtherLoader(PathBuf),
    /// A script, whose interpreter cannot be entered.
    Interpreter(PathBuf, Box<Self>),
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("it is linked statically: no library can be loaded into it"),
            Self::Privileged => {
                f.write_str("it runs as another user or group: its loader ignores what is to be loaded")
            }
            Self::Capable => {
                f.write_str("its file gives it capabilities: its loader ignores what is to be loaded")
            }
            Self::Go => f.write_str("it is written in Go: it calls the kernel past every library"),
            Self::OtherMachine => f.write_str("it is not a 64-bit program for x86-64, as the library is"),
            Self::OtherLoader(loader) => {
                write!(f, "its loader is {}, the library's is {LOADER}", loader.display())
            }
            Self::Interpreter(path, why) => write!(f, "its interpreter is {}, and {why}", path.display()),
        }
    }
}

/// What was found out about a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Why it cannot be entered, if it can't.
    pub barred: Option<Barred>,
    /// The runtime of an address sanitizer that it needs, which wants to be loaded before all else.
    pub sanitizer: Option<OsString>,
    /// Neither a program nor a script with an interpreter: a shell runs it.
    pub for_shell: bool,
}

impl Program {
    fn barred(why: Barred) -> Self {
        Self { barred: Some(why), ..Self::default() }
    }
}

/// Looks at a program's file. What cannot be read is taken for a program that can be entered: the loader knows better.
#[must_use]
pub fn look_at(path: &Path) -> Program {
    look(path, DEPTH)
}

fn look(path: &Path, depth: usize) -> Program {
    let Ok(file) = File::open(path) else { return Program::default() };
    let mut start = [0; LINE_BYTES];
    let length = (&file).take(LINE_BYTES as u64).read(&mut start).unwrap_or(0);
    let start = start.get(..length).unwrap_or_default();
    if start.starts_with(b"#!") {
        return script(start, depth);
    }
    if !start.starts_with(b"\x7fELF") {
        return Program { for_shell: true, ..Program::default() };
    }
    if let Some(why) = privileged(path, &file) {
        return Program::barred(why);
    }
    Elf::read(&file).map_or_else(|| Program::barred(Barred::OtherMachine), |elf| elf.judge(path))
}

/// A script is as its interpreter.
fn script(start: &[u8], depth: usize) -> Program {
    let line = start.get(2..).unwrap_or_default().split(|byte| *byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty());
    let Some(word) = word.filter(|_| depth > 0) else { return Program::default() };
    let path = Path::new(OsStr::from_bytes(word));
    let found = look(path, depth - 1);
    let barred = found.barred.map(|why| Barred::Interpreter(path.to_owned(), Box::new(why)));
    Program { barred, ..found }
}

/// Whether the kernel would start it with other rights than its caller's.
fn privileged(path: &Path, file: &File) -> Option<Barred> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let metadata = file.metadata().ok()?;
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let mode = metadata.mode();
    if (mode & SET_USER != 0 && metadata.uid() != user)
        || (mode & SET_GROUP == SET_GROUP && metadata.gid() != group)
    {
        return Some(Barred::Privileged);
    }
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(path, "security.capability", &mut value[..]).unwrap_or(0);
    (length > 0 && user != 0).then_some(Barred::Capable)
}

/// What is needed of an ELF file's headers.
struct Elf<'a> {
    file: &'a File,
    machine: u16,
    segments: Vec<Segment>,
}

/// A program header.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes
        .get(at..at + length)
        .map_or(0, |bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

impl<'a> Elf<'a> {
    /// Reads the headers of a 64-bit file, lowest byte first; `None` if it is no such file.
    fn read(file: &'a File) -> Option<Self> {
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0).ok()?;
        if head[4] != 2 || head[5] != 1 {
            return None;
        }
        let (table, size) = (number(&head, 32, 8), number(&head, 54, 2));
        let count = (number(&head, 56, 2) as u16).min(HEADERS);
        let mut segments = Vec::with_capacity(count.into());
        for at in 0..u64::from(count) {
            let mut header = [0; 56];
            file.read_exact_at(&mut header, table.checked_add(at * size)?).ok()?;
            segments.push(Segment {
                kind: number(&header, 0, 4) as u32,
                offset: number(&header, 8, 8),
                address: number(&header, 16, 8),
                length: number(&header, 32, 8),
            });
        }
        Some(Self { file, machine: number(&head, 18, 2) as u16, segments })
    }

    fn judge(&self, path: &Path) -> Program {
        const X86_64: u16 = 62;
        const INTERPRETER: u32 = 3;
        if self.machine != X86_64 {
            return Program::barred(Barred::OtherMachine);
        }
        if self.is_go() {
            return Program::barred(Barred::Go);
        }
        let Some(interpreter) = self.contents(INTERPRETER, 4096) else {
            // The loader, started by hand with a program as its argument, heeds the environment too.
            let is_loader = path.file_name().is_some_and(|name| name == LOADER);
            return if is_loader { Program::default() } else { Program::barred(Barred::Static) };
        };
        let text = interpreter.split(|byte| *byte == 0).next().unwrap_or_default();
        let loader = Path::new(OsStr::from_bytes(text));
        if loader.file_name() != Some(OsStr::new(LOADER)) {
            return Program::barred(Barred::OtherLoader(loader.to_owned()));
        }
        Program { sanitizer: self.sanitizer(), ..Program::default() }
    }

    /// The contents of the first segment of a kind.
    fn contents(&self, kind: u32, at_most: u64) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|segment| segment.kind == kind)?;
        self.bytes(segment.offset, segment.length.min(at_most))
    }

    fn bytes(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// Go's linker leaves a note with its name.
    fn is_go(&self) -> bool {
        const NOTE: u32 = 4;
        let notes = self.segments.iter().filter(|segment| segment.kind == NOTE);
        notes.filter_map(|note| self.bytes(note.offset, note.length.min(4096))).any(|note| {
            number(&note, 0, 4) == 4 && number(&note, 8, 4) == 4 && note.get(12..16) == Some(b"Go\0\0")
        })
    }

    /// The address sanitizer's runtime, if the program needs it.
    fn sanitizer(&self) -> Option<OsString> {
        const DYNAMIC: u32 = 2;
        const NEEDED: u64 = 1;
        const STRINGS: u64 = 5;
        let dynamic = self.contents(DYNAMIC, 64 << 10)?;
        let entries: Vec<(u64, u64)> =
            dynamic.chunks_exact(16).map(|entry| (number(entry, 0, 8), number(entry, 8, 8))).collect();
        let strings = self.offset_of(entries.iter().find(|(tag, _)| *tag == STRINGS)?.1)?;
        let mut names = entries.iter().filter(|(tag, _)| *tag == NEEDED).filter_map(|(_, at)| {
            let mut name = vec![0; 128];
            let length = self.file.read_at(&mut name, strings.checked_add(*at)?).ok()?;
            name.truncate(length);
            name.split(|byte| *byte == 0).next().map(|name| OsString::from_vec(name.to_vec()))
        });
        names.find(|name| is_sanitizer(name))
    }

    /// Where in the file an address lies.
    fn offset_of(&self, address: u64) -> Option<u64> {
        const LOAD: u32 = 1;
        let holds = |segment: &&Segment| {
            segment.kind == LOAD && address >= segment.address && address - segment.address < segment.length
        };
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }
}

/// Whether a library is the runtime of an address sanitizer, which ends the program unless it is loaded first.
#[must_use]
pub fn is_sanitizer(library: &OsStr) -> bool {
    let name = Path::new(library).file_name().unwrap_or(library).as_bytes();
    name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
        look_at(&path).barred
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
        assert_eq!(barred(&elf(2, 62, &[(3, musl.as_bytes())])), Some(Barred::OtherLoader(musl.into())));
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
        let want = Barred::Interpreter(interpreter, Box::new(Barred::Static));
        assert_eq!(barred(line.as_bytes()), Some(want.clone()));
        assert!(want.to_string().contains("its interpreter is") && want.to_string().contains("statically"));
        assert_eq!(barred(b"#!/bin/sh\n"), None);
        // One that names itself ends as the kernel ends it.
        let (_folder, own) = file("loop", b"", 0o755);
        std::fs::write(&own, format!("#!{}", own.display())).unwrap();
        assert_eq!(look_at(&own), Program::default());
        let (_folder, text) = file("text", b"echo hello\n", 0o755);
        assert!(look_at(&text).for_shell);
    }

    #[test]
    fn what_runs_as_somebody_else_is_barred() {
        let (_folder, path) = file("su", &elf(2, 62, &[(3, b"/lib64/ld-linux-x86-64.so.2\0")]), 0o6755);
        // Its owner is the one who runs the test: nothing changes for him.
        assert_eq!(look_at(&path).barred, None);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(look_at(&path).barred, Some(Barred::Privileged));
        }
    }

    #[test]
    fn this_test_itself_can_be_entered() {
        assert_eq!(look_at(&std::env::current_exe().unwrap()), Program::default());
        assert!(is_sanitizer(OsStr::new("/x/libasan.so.8")) && !is_sanitizer(OsStr::new("libc.so.6")));
    }
}
