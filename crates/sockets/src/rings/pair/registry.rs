//! The user's registry: a file in which the ends of connections find each other.
//!
//! It lies in a directory that only its user can enter, so nobody else reaches it, and the kernel checks that
//! with each call. It is opened for a moment and read and written by offset: no descriptor stays open, and a
//! file that somebody makes shorter ends no program, as a mapping of it would. The place of an entry follows
//! from the socket's cookie. Nothing is ever removed: cookies grow, and where there is no room the oldest is
//! replaced; who was replaced and still looks writes its entry again.

use libc::c_int;

use super::close;
use super::entry::{BYTES, Entry, WORDS};
use super::user;
use crate::raw;
use crate::rings::proc::Text;

/// Entries that share a place: a reader looks at all of them.
const WAYS: usize = 4;
/// Places of the file.
const PLACES_BITS: u32 = 11;
/// Bytes of the file, if all of it is written. It has holes until then.
pub(crate) const FILE_BYTES: usize = (WAYS * BYTES) << PLACES_BITS;

/// The open file.
pub(super) struct Registry(c_int);

/// Where the entries of a cookie are.
fn place(cookie: u64) -> usize {
    let place = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES_BITS);
    place as usize * WAYS * BYTES
}

impl Registry {
    /// That of this process's user, made if it is not there. None if there is no place for one that only this
    /// user can reach, or it cannot be opened now.
    pub(super) fn open() -> Option<Self> {
        let user = user::own()?;
        for path in &user::directories(user) {
            match Self::open_in(path, user) {
                Ok(found) => return Some(found),
                Err(Place::Unfit) => {}
                Err(Place::NotNow) => return None,
            }
        }
        None
    }

    /// In this directory, if it is the user's own and nobody else may write there.
    fn open_in(path: &Text, user: u32) -> Result<Self, Place> {
        let directory = match open_directory(path) {
            Err(Place::Unfit) => {
                // SAFETY: a path that ends with 0.
                unsafe { raw::call(libc::SYS_mkdir, [path.as_ptr() as usize, 0o700, 0, 0, 0, 0]) };
                open_directory(path)?
            }
            found => found?,
        };
        let file = if is_own(directory, user, libc::S_IFDIR, 0o022) {
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
            let arguments =
                [directory as usize, c"connections".as_ptr() as usize, flags as usize, 0o600, 0, 0];
            // SAFETY: a name that ends with 0; a new descriptor.
            descriptor(unsafe { raw::call(libc::SYS_openat, arguments) })
        } else {
            Err(Place::Unfit)
        };
        close(directory);
        let file = file?;
        if is_own(file, user, libc::S_IFREG, 0o077) {
            return Ok(Self(file));
        }
        close(file);
        Err(Place::Unfit)
    }

    pub(super) fn close(self) {
        close(self.0);
    }

    /// What end `cookie` says, if it says anything.
    pub(super) fn find(&self, cookie: u64) -> Option<Entry> {
        let mut ways = Ways::nothing();
        let whole = ways.read(self, cookie);
        ways.0.iter().take(whole).find(|entry| entry.is_whole() && entry.cookie() == cookie).copied()
    }

    /// Writes the entry, unless it is there. None if that cannot be done.
    pub(super) fn publish(&self, entry: &Entry) -> Option<()> {
        let mut ways = Ways::nothing();
        let whole = ways.read(self, entry.cookie());
        let age = |at: usize| match ways.0.get(at).filter(|there| at < whole && there.is_whole()) {
            // Its own before all others, then what is none, then the oldest.
            Some(there) if there.cookie() == entry.cookie() => 0,
            None => 1,
            Some(there) => there.cookie().saturating_add(2),
        };
        let way = (0..WAYS).min_by_key(|&way| age(way))?;
        if way < whole && ways.0.get(way).is_some_and(|there| there.is(entry)) {
            return Some(());
        }
        let at = place(entry.cookie()) + way * BYTES;
        let arguments = [self.0 as usize, entry.0.as_ptr() as usize, BYTES, at, 0, 0];
        // SAFETY: the entry's own bytes.
        let written = raw::within_limit(|| unsafe { raw::call(libc::SYS_pwrite64, arguments) });
        (written == BYTES as isize).then_some(())
    }
}

/// All entries of one place.
struct Ways([Entry; WAYS]);

impl Ways {
    const fn nothing() -> Self {
        Self([const { Entry([0; WORDS]) }; WAYS])
    }

    /// Reads those of this cookie's place; says how many are there: the file may end among them.
    fn read(&mut self, registry: &Registry, cookie: u64) -> usize {
        let room = size_of_val(&self.0);
        let arguments = [registry.0 as usize, self.0.as_mut_ptr() as usize, room, place(cookie), 0, 0];
        // SAFETY: room of the length that is said; entries are words, which may have any value.
        let read = unsafe { raw::call(libc::SYS_pread64, arguments) };
        usize::try_from(read).unwrap_or(0) / BYTES
    }
}

/// Why a place is not used.
enum Place {
    /// Nothing is there, or it is somebody else's: there may be another one.
    Unfit,
    /// There is no descriptor or memory for it now. Another place would be another one than the other end's.
    NotNow,
}

fn descriptor(result: isize) -> Result<c_int, Place> {
    const WANTING: [c_int; 3] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    match c_int::try_from(result) {
        Ok(fd) if fd >= 0 => Ok(fd),
        Ok(error) if WANTING.contains(&-error) => Err(Place::NotNow),
        _ => Err(Place::Unfit),
    }
}

/// Whether it is of this kind and of this user, and others may do none of this with it.
fn is_own(fd: c_int, user: u32, kind: libc::mode_t, others: libc::mode_t) -> bool {
    super::stat(fd).is_some_and(|stat| {
        stat.st_uid == user && stat.st_mode & libc::S_IFMT == kind && stat.st_mode & others == 0
    })
}

/// The directory itself, not what a link there names.
fn open_directory(path: &Text) -> Result<c_int, Place> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a path that ends with 0; a new descriptor.
    descriptor(unsafe { raw::call(libc::SYS_open, [path.as_ptr() as usize, flags as usize, 0, 0, 0, 0]) })
}
