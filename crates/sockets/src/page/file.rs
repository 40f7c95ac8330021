//! The statistics file: opened, checked and mapped by the constructor, with one slot per
//! process.

use libc::{c_char, c_long};
use sockets_rules::layout;

use crate::sync::{AtomicU64, Ordering};
use crate::{raw, state};

/// The statistics file, while it is mapped. Has no destructor, as nothing here has.
pub(super) struct File(usize);

impl File {
    /// Opens and checks it. Somebody may have put anything there, and after a change of the root or the user
    /// it is not ours.
    pub(super) fn open(path: *const c_char) -> Option<Self> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: a path that ends with 0.
        let fd = unsafe {
            raw::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path as usize, flags as usize, 0, 0, 0])
        };
        let file = Self(usize::try_from(fd).ok()?);
        if file.is_ours() && file.cannot_run_full() {
            Some(file)
        } else {
            file.close();
            None
        }
    }

    fn call(&self, number: c_long, [b, c, d]: [usize; 3]) -> isize {
        // SAFETY: calls on the library's own descriptor, whose pointers, if any, are to room of the size that
        // the kernel writes.
        unsafe { raw::call(number, [self.0, b, c, d, 0, 0]) }
    }

    pub(super) fn close(&self) {
        self.call(libc::SYS_close, [0; 3]);
    }

    fn is_ours(&self) -> bool {
        let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
        if self.call(libc::SYS_fstat, [stat.as_mut_ptr() as usize, 0, 0]) != 0 {
            return false;
        }
        // SAFETY: the kernel has filled it in.
        let stat = unsafe { stat.assume_init_ref() };
        // SAFETY: takes nothing, changes nothing.
        let user = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) };
        stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && stat.st_mode & 0o022 == 0
            && stat.st_uid as isize == user
            && stat.st_size as usize == layout::FILE_BYTES
            // All of it is there already: a store to a page that the file system has no room for would end
            // the program.
            && stat.st_blocks as usize * 512 >= layout::FILE_BYTES
    }

    /// Only file systems on which room that was reserved is there when it is written: elsewhere a store could
    /// end the program.
    fn cannot_run_full(&self) -> bool {
        let mut stat = core::mem::MaybeUninit::<libc::statfs>::uninit();
        if self.call(libc::SYS_fstatfs, [stat.as_mut_ptr() as usize, 0, 0]) != 0 {
            return false;
        }
        // SAFETY: the kernel has filled it in.
        let kind = unsafe { stat.assume_init_ref() }.f_type;
        const XFS: c_long = 0x5846_5342;
        [libc::TMPFS_MAGIC, libc::EXT4_SUPER_MAGIC, libc::OVERLAYFS_SUPER_MAGIC, XFS].contains(&kind)
    }

    pub(super) fn map(&self) -> Option<*mut AtomicU64> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let shared = libc::MAP_SHARED as usize;
        // SAFETY: a new mapping, wherever the kernel likes.
        let mapped =
            unsafe { raw::call(libc::SYS_mmap, [0, layout::FILE_BYTES, protection, shared, self.0, 0]) };
        (mapped > 0).then_some(mapped as *mut AtomicU64)
    }
}

/// Writes this process's number to the place of a slot: its own from before it executed something, a free
/// one, or a dead one's.
pub(super) fn claim(words: &[AtomicU64]) -> Option<usize> {
    let own = u64::from(state::owner());
    if words.first()?.load(Ordering::Relaxed) != layout::MAGIC {
        return None;
    }
    let owners = words.get(layout::OWNERS..layout::OWNERS + layout::SLOTS)?;
    if let Some(mine) = owners.iter().position(|owner| owner.load(Ordering::Relaxed) == own) {
        return Some(mine);
    }
    let take = |owner: &AtomicU64, from| {
        owner.compare_exchange(from, own, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    owners.iter().position(|owner| take(owner, 0)).or_else(|| {
        owners.iter().position(|owner| {
            let other = owner.load(Ordering::Relaxed);
            // SAFETY: signal 0 only asks whether there is such a process.
            let asked = unsafe { raw::call(libc::SYS_kill, [other as usize, 0, 0, 0, 0, 0]) };
            asked == -(libc::ESRCH as isize) && take(owner, other)
        })
    })
}
