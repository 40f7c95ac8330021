//! Whether a process has memory that this one has, by `/proc/PID/maps` (proc_pid_maps(5)). One that has
//! executed another program has it no more, although its number is the same.

use core::mem::MaybeUninit;

use libc::c_int;

use super::proc::{self, Text};
use crate::{raw, state};

/// Bytes that are read at once.
const ROOM: usize = 1024;
/// A line: `start-end access offset major:minor inode path`. What stands behind each number; all but the
/// inode's are hexadecimal.
const BEHIND: [u8; 7] = *b"-   :  ";
const START: usize = 0;
const END: usize = 1;
const MAJOR: usize = 4;
const MINOR: usize = 5;
const INODE: usize = 6;

/// Whether a process has the memory that `address` lies in here; nothing if that cannot be told.
pub(super) fn has(process: u32, address: usize) -> Option<bool> {
    if !state::may_ask() {
        return None;
    }
    let address = address as u64;
    let mut memory = None;
    each(Text::new().put(b"/proc/self/maps"), |line| {
        let is_it = line[START] <= address && address < line[END];
        if is_it {
            memory = Some([line[MAJOR], line[MINOR], line[INODE]]);
        }
        is_it
    })?;
    // Without an inode it is this process's alone.
    let memory = memory.filter(|memory| memory[2] != 0)?;
    let mut path = Text::new();
    path.put(b"/proc/").number(u64::from(process)).put(b"/maps");
    each(&path, |line| [line[MAJOR], line[MINOR], line[INODE]] == memory)
}

/// Shows the numbers of each line until `is_it` says that it is the one: whether one was. Nothing if the file
/// cannot be read or is empty, as that of a process whose first thread has ended is.
fn each(path: &Text, mut is_it: impl FnMut(&[u64; BEHIND.len()]) -> bool) -> Option<bool> {
    let fd = proc::open(path, libc::O_RDONLY)?;
    // Not set to zero: there is no `memset` in here.
    let mut room = MaybeUninit::<[u8; ROOM]>::uninit();
    let mut line = Line::default();
    let mut found = None;
    'all: loop {
        let into = room.as_mut_ptr().cast::<u8>();
        // SAFETY: this library's own descriptor, and room of the length that is said.
        let read = unsafe { raw::call(libc::SYS_read, [fd as usize, into as usize, ROOM, 0, 0, 0]) };
        let Some(read) = usize::try_from(read).ok().filter(|&read| read <= ROOM) else {
            found = None;
            break;
        };
        // SAFETY: so many bytes of it were written.
        let bytes = unsafe { core::slice::from_raw_parts(into, read) };
        if bytes.is_empty() {
            break;
        }
        for byte in bytes {
            if line.ends_with(*byte) {
                found = Some(is_it(&line.numbers));
                if found == Some(true) {
                    break 'all;
                }
                line = Line::default();
            }
        }
    }
    close(fd);
    found
}

fn close(fd: c_int) {
    // SAFETY: this library's own descriptor.
    unsafe { raw::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// A line, as far as it was read.
#[derive(Default)]
struct Line {
    numbers: [u64; BEHIND.len()],
    /// Which number is being read.
    at: usize,
}

impl Line {
    /// Takes the next byte: whether it is the end of the line.
    fn ends_with(&mut self, byte: u8) -> bool {
        if byte == b'\n' {
            return true;
        }
        if BEHIND.get(self.at) == Some(&byte) {
            self.at += 1;
        } else if let Some(number) = self.numbers.get_mut(self.at) {
            let (base, digit) = match byte {
                b'0'..=b'9' => (if self.at == INODE { 10 } else { 16 }, byte - b'0'),
                // Letters of the access stand where a number is read that nobody asks for.
                _ => (16, (byte | 32).wrapping_sub(b'a').wrapping_add(10)),
            };
            *number = number.wrapping_mul(base).wrapping_add(u64::from(digit));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> [u64; BEHIND.len()] {
        let mut line = Line::default();
        assert!(text.bytes().all(|byte| !line.ends_with(byte)) && line.ends_with(b'\n'));
        line.numbers
    }

    #[test]
    fn a_line_is_read() {
        let line =
            numbers("7f2c1a000000-7f2c1a0ff000 rw-s 00001000 00:01 40962                /memfd:x (deleted)");
        assert_eq!((line[START], line[END]), (0x7f2c_1a00_0000, 0x7f2c_1a0f_f000));
        assert_eq!((line[MAJOR], line[MINOR], line[INODE]), (0, 1, 40962));
        let line = numbers("ffffffffff600000-ffffffffff601000 --xp 00000000 fd:0a 0 ");
        assert_eq!((line[END], line[MAJOR], line[MINOR], line[INODE]), (0xffff_ffff_ff60_1000, 0xfd, 10, 0));
    }

    #[test]
    fn this_process_has_its_memory_and_private_memory_tells_nothing() {
        let own = std::process::id();
        let code = has as fn(u32, usize) -> Option<bool> as usize;
        assert_eq!(has(own, code), Some(true));
        let private = 0_u64;
        assert_eq!(has(own, (&raw const private) as usize), None);
        assert_eq!(has(own, 8), None);
    }
}
