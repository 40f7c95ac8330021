//! Reads the parts of an ELF file that decide whether a program can be entered. The file may
//! contain anything: what is not understood counts as absent.

use alloc::vec;
use alloc::vec::Vec;

use rustix::fd::OwnedFd;

use crate::Text;

/// Program headers that are examined, at most.
const HEADERS: u16 = 512;
/// Longest name of a library that is read.
const NAME_BYTES: usize = 128;

/// Kinds of segments.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const NOTE: u32 = 4;

/// What is needed of a file's headers.
pub(crate) struct Elf<'a> {
    file: &'a OwnedFd,
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

/// The names in a file: its own, and those of the libraries that it needs.
#[derive(Default)]
pub(crate) struct Names {
    /// What it is called as a library.
    pub own: Option<Text>,
    /// Libraries that it needs.
    pub needed: Vec<Text>,
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes
        .get(at..at + length)
        .map_or(0, |bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Fills the room from this place of a file; `None` if there is not as much.
fn fill(file: &OwnedFd, room: &mut [u8], offset: u64) -> Option<()> {
    (rustix::io::pread(file, &mut *room, offset) == Ok(room.len())).then_some(())
}

impl<'a> Elf<'a> {
    /// Reads the headers of a 64-bit file, lowest byte first; `None` if it is no such file.
    pub(crate) fn read(file: &'a OwnedFd) -> Option<Self> {
        let mut head = [0; 64];
        fill(file, &mut head, 0)?;
        if head[4] != 2 || head[5] != 1 {
            return None;
        }
        let (table, size) = (number(&head, 32, 8), number(&head, 54, 2) as usize);
        let count = (number(&head, 56, 2) as u16).min(HEADERS);
        let mut headers = vec![0; usize::from(count) * size];
        fill(file, &mut headers, table)?;
        let segments = headers.chunks_exact(size.max(1)).map(|header| Segment {
            kind: number(header, 0, 4) as u32,
            offset: number(header, 8, 8),
            address: number(header, 16, 8),
            length: number(header, 32, 8),
        });
        let segments = segments.collect();
        Some(Self { file, machine: number(&head, 18, 2) as u16, segments })
    }

    /// Whether it is for the library's processor.
    pub(crate) fn is_x86_64(&self) -> bool {
        const X86_64: u16 = 62;
        self.machine == X86_64
    }

    /// The dynamic linker that it asks for.
    pub(crate) fn interpreter(&self) -> Option<Text> {
        let contents = self.contents(INTERPRETER, 4096)?;
        contents.split(|byte| *byte == 0).next().map(Text::from)
    }

    /// The contents of the first segment of a kind.
    fn contents(&self, kind: u32, at_most: u64) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|segment| segment.kind == kind)?;
        self.bytes(segment.offset, segment.length.min(at_most))
    }

    fn bytes(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        fill(self.file, &mut bytes, offset)?;
        Some(bytes)
    }

    /// Go's linker leaves a note with its name.
    pub(crate) fn is_go(&self) -> bool {
        let notes = self.segments.iter().filter(|segment| segment.kind == NOTE);
        notes.filter_map(|note| self.bytes(note.offset, note.length.min(4096))).any(|note| {
            number(&note, 0, 4) == 4 && number(&note, 8, 4) == 4 && note.get(12..16) == Some(b"Go\0\0")
        })
    }

    /// The names in its dynamic segment.
    pub(crate) fn names(&self) -> Option<Names> {
        const NEEDED: u64 = 1;
        const STRINGS: u64 = 5;
        const OWN: u64 = 14;
        let dynamic = self.contents(DYNAMIC, 64 << 10)?;
        let entries: Vec<(u64, u64)> =
            dynamic.chunks_exact(16).map(|entry| (number(entry, 0, 8), number(entry, 8, 8))).collect();
        let strings = self.offset_of(entries.iter().find(|(tag, _)| *tag == STRINGS)?.1)?;
        let all = |wanted: u64| {
            let entries = entries.iter().filter(move |(tag, _)| *tag == wanted);
            entries.filter_map(|(_, at)| self.name_at(strings.checked_add(*at)?))
        };
        Some(Names { own: all(OWN).next(), needed: all(NEEDED).collect() })
    }

    fn name_at(&self, offset: u64) -> Option<Text> {
        let mut name = vec![0; NAME_BYTES];
        let length = rustix::io::pread(self.file, &mut name[..], offset).ok()?;
        name.truncate(length);
        name.split(|byte| *byte == 0).next().map(Text::from)
    }

    /// Where in the file an address lies.
    fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            segment.kind == LOAD && address >= segment.address && address - segment.address < segment.length
        };
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }
}
