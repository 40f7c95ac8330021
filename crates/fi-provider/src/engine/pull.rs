//! Copies a message out of another process's memory in one step: `process_vm_readv`.

use libc::iovec;

use super::buffers::Buffers;

/// Why a message was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPulled {
    /// This process may not read that one's memory, or the kernel cannot: another way must be taken.
    Forbidden,
    /// The other process is gone, or said nonsense.
    Failed,
}

/// Reads `len` bytes at `address` of process `pid` into the beginning of `into`.
pub(crate) fn pull(pid: u32, address: u64, into: &Buffers, len: usize) -> Result<(), NotPulled> {
    let mut done = 0;
    while done < len {
        let mut local = into.list(done, len - done);
        local.truncate(libc::UIO_MAXIOV as usize);
        let wanted = local.iter().map(|piece| piece.iov_len).sum();
        let from = (address as usize).wrapping_add(done);
        let remote = iovec { iov_base: std::ptr::without_provenance_mut(from), iov_len: wanted };
        // SAFETY: the local pieces are memory that the program lent to be written to. The remote address is only used by the kernel,
        // which checks it in the other process.
        let got = unsafe {
            libc::process_vm_readv(
                pid.cast_signed(),
                local.as_ptr(),
                local.len() as libc::c_ulong,
                &raw const remote,
                1,
                0,
            )
        };
        match usize::try_from(got) {
            Ok(0) => return Err(NotPulled::Failed),
            Ok(got) => done += got,
            Err(_) => {
                let forbidden = [libc::EPERM, libc::ENOSYS, libc::EINVAL];
                let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                // Half of a message would be sent again from its beginning.
                let is_forbidden = forbidden.contains(&errno);
                return Err(if is_forbidden { NotPulled::Forbidden } else { NotPulled::Failed });
            }
        }
    }
    Ok(())
}

/// Whether messages may be copied so at all: `TIELINE_FI_PULL=0` says no, for tests of the other way.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("TIELINE_FI_PULL").is_none_or(|value| value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_over_and_what_is_not_there_is_an_error() {
        let source: Vec<u8> = (0..100_000u32).map(|i| (i * 7) as u8).collect();
        let mut target = vec![0; source.len()];
        // SAFETY: `target` outlives the value.
        let into = unsafe { Buffers::one(target.as_mut_ptr(), target.len()) };
        let pid = std::process::id();
        pull(pid, source.as_ptr() as u64, &into, source.len()).unwrap();
        assert!(source == target);
        assert_eq!(pull(pid, 1, &into, 8), Err(NotPulled::Failed));
        assert_eq!(pull(i32::MAX as u32, 1, &into, 8), Err(NotPulled::Failed));
    }
}
