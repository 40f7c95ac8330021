//! Copies out of another process's memory in one step: `process_vm_readv`.

use super::PidFd;
use crate::lent::Piece;

/// Pieces that one system call takes.
const PIECES_AT_ONCE: usize = 16;

/// Why bytes were not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    /// The kernel does not allow it, or does not know how.
    #[error("this process may not read the other one's memory: send the bytes through shared memory")]
    Forbidden,
    /// The other process has ended.
    #[error("the process whose memory was to be read has ended: nothing more comes from it")]
    Ended,
    /// The process has no such memory.
    #[error("the other process has no memory at the address that it gave: close this connection")]
    NoSuchMemory,
}

/// The memory of a process, and the means to know that it is still that process's.
#[derive(Debug)]
pub struct ProcessMemory {
    process: PidFd,
    pid: i32,
}

impl ProcessMemory {
    /// Of this process.
    ///
    /// # Errors
    /// The descriptor, if the process has ended or has no number that can be seen from here.
    pub fn of(process: PidFd) -> Result<Self, PidFd> {
        match process.pid_of().and_then(|pid| i32::try_from(pid).ok()) {
            Some(pid) => Ok(Self { process, pid }),
            None => Err(process),
        }
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &PidFd {
        &self.process
    }

    /// Reads as many bytes from `address` on as the pieces take, `len` at most.
    ///
    /// The kernel knows the process by its number only, so it is looked before and after whether that is
    /// still the same process: the number cannot have been another one's in between.
    ///
    /// # Errors
    /// [`NotRead`]; then the pieces hold anything.
    pub fn read(&self, address: u64, pieces: &[Piece], len: usize) -> Result<(), NotRead> {
        self.check()?;
        let (mut address, mut left) = (address, len);
        for pieces in pieces.chunks(PIECES_AT_ONCE) {
            let mut list =
                [const { libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 } }; PIECES_AT_ONCE];
            let (mut count, mut wanted) = (0, 0);
            for piece in pieces {
                let part = piece.len().min(left - wanted);
                list[count] = libc::iovec { iov_base: piece.as_ptr().cast(), iov_len: part };
                count += 1;
                wanted += part;
            }
            self.read_all(address, &mut list[..count], wanted)?;
            (address, left) = (address.wrapping_add(wanted as u64), left - wanted);
        }
        self.check()
    }

    /// The same into memory of the caller.
    ///
    /// # Errors
    /// [`NotRead`]; then `bytes` hold anything.
    pub fn read_into(&self, address: u64, bytes: &mut [u8]) -> Result<(), NotRead> {
        self.check()?;
        let mut list = [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }];
        self.read_all(address, &mut list, bytes.len())?;
        self.check()
    }

    fn check(&self) -> Result<(), NotRead> {
        match self.process.has_exited() {
            Ok(false) => Ok(()),
            _ => Err(NotRead::Ended),
        }
    }

    /// Fills the whole list; the kernel may need several steps.
    fn read_all(&self, address: u64, list: &mut [libc::iovec], wanted: usize) -> Result<(), NotRead> {
        let (mut list, mut done) = (list, 0);
        while done < wanted {
            let from = (address as usize).wrapping_add(done);
            let remote =
                libc::iovec { iov_base: core::ptr::without_provenance_mut(from), iov_len: wanted - done };
            // SAFETY: each local piece is memory that may be written to, by the word of whoever lent it, or a
            // slice of the caller's. The remote address is only used by the kernel, which checks it in the
            // other process.
            let got = unsafe {
                libc::process_vm_readv(
                    self.pid,
                    list.as_ptr(),
                    list.len() as libc::c_ulong,
                    &raw const remote,
                    1,
                    0,
                )
            };
            let Ok(got) = usize::try_from(got) else { return Err(self.why()) };
            if got == 0 {
                return Err(NotRead::NoSuchMemory);
            }
            done += got;
            list = past(list, got);
        }
        Ok(())
    }

    fn why(&self) -> NotRead {
        // SAFETY: it is this thread's own error number, which the call has just set.
        match unsafe { *libc::__errno_location() } {
            libc::EPERM | libc::ENOSYS | libc::EINVAL | libc::EACCES => NotRead::Forbidden,
            libc::ESRCH => NotRead::Ended,
            // The memory of a process that is ending goes first.
            _ => self.check().err().unwrap_or(NotRead::NoSuchMemory),
        }
    }
}

/// What is left of a list after so many bytes.
fn past(mut list: &mut [libc::iovec], mut bytes: usize) -> &mut [libc::iovec] {
    while let Some(first) = list.first_mut() {
        if first.iov_len > bytes {
            first.iov_base = first.iov_base.wrapping_byte_add(bytes);
            first.iov_len -= bytes;
            break;
        }
        bytes -= first.iov_len;
        list = &mut list[1..];
    }
    list
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_over_into_any_pieces_and_what_is_not_there_is_an_error() {
        let source: Vec<u8> = (0..100_000_u32).map(|i| (i * 7) as u8).collect();
        let memory = ProcessMemory::of(PidFd::open_self().unwrap()).unwrap();
        let mut target = vec![0; source.len()];
        memory.read_into(source.as_ptr() as u64, &mut target).unwrap();
        assert!(source == target);

        let mut scattered = vec![0; source.len()];
        let (start, step) = (scattered.as_mut_ptr(), 2_777);
        let pieces: Vec<Piece> = (0..source.len())
            .step_by(step)
            // SAFETY: the pieces do not overlap and lie in a vector that is not used before they are dropped.
            .map(|at| unsafe { Piece::new(start.add(at), step.min(source.len() - at)) })
            .collect();
        assert!(pieces.len() > PIECES_AT_ONCE);
        memory.read(source.as_ptr() as u64, &pieces, source.len() - 1).unwrap();
        drop(pieces);
        assert!(source[..source.len() - 1] == scattered[..source.len() - 1]);
        assert_eq!(scattered.last(), Some(&0));

        assert_eq!(memory.read_into(1, &mut [0; 8]), Err(NotRead::NoSuchMemory));
    }

    #[test]
    fn the_memory_of_a_process_that_has_ended_is_not_read() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        let memory = ProcessMemory::of(PidFd::open(pid).unwrap()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let source = [1_u8; 8];
        assert_eq!(memory.read_into(source.as_ptr() as u64, &mut [0; 8]), Err(NotRead::Ended));
    }
}
