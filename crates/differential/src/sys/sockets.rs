//! Calls on sockets: create, name, connect, close, options.

use super::address::{Address, LARGEST, filled};
use super::{Outcome, observed};

/// `socket`.
#[must_use]
pub fn socket(domain: i32, kind: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::socket(domain, kind, 0) })
}

/// `socketpair`.
#[must_use]
pub fn socketpair(domain: i32, kind: i32) -> (Outcome, [i32; 2]) {
    let mut both = [-1; 2];
    // SAFETY: two descriptors fit into the array.
    let outcome = observed(|| unsafe { libc::socketpair(domain, kind, 0, both.as_mut_ptr()) });
    (outcome, both)
}

/// `bind`.
#[must_use]
pub fn bind(fd: i32, address: &Address) -> Outcome {
    let bytes = &address.0;
    // SAFETY: pointer and length are of one live slice; the kernel reads it only.
    observed(|| unsafe { libc::bind(fd, bytes.as_ptr().cast(), bytes.len() as libc::socklen_t) })
}

/// `connect`.
#[must_use]
pub fn connect(fd: i32, address: &Address) -> Outcome {
    let bytes = &address.0;
    // SAFETY: as for `bind`.
    observed(|| unsafe { libc::connect(fd, bytes.as_ptr().cast(), bytes.len() as libc::socklen_t) })
}

/// `listen`.
#[must_use]
pub fn listen(fd: i32, backlog: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::listen(fd, backlog) })
}

/// `accept`, or `accept4` if there are flags.
#[must_use]
pub fn accept(fd: i32, flags: Option<i32>) -> (Outcome, Address) {
    let mut storage = [0_u8; LARGEST];
    let mut len = LARGEST as libc::socklen_t;
    let place = storage.as_mut_ptr().cast();
    let outcome = observed(|| match flags {
        // SAFETY: `len` says how large `storage` is; both live through the call.
        Some(flags) => unsafe { libc::accept4(fd, place, &mut len, flags) },
        // SAFETY: as above.
        None => unsafe { libc::accept(fd, place, &mut len) },
    });
    let address = if outcome.is_ok() { filled(&storage, len) } else { Address::default() };
    (outcome, address)
}

/// `accept` without asking who it is.
#[must_use]
pub fn accept_anonymous(fd: i32) -> Outcome {
    // SAFETY: null pointers are allowed: no address is wanted.
    observed(|| unsafe { libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut()) })
}

/// `getsockname`, or `getpeername`.
#[must_use]
pub fn name(fd: i32, of_peer: bool) -> (Outcome, Address) {
    let mut storage = [0_u8; LARGEST];
    let mut len = LARGEST as libc::socklen_t;
    let place = storage.as_mut_ptr().cast();
    // SAFETY: `len` says how large `storage` is; both live through the call.
    let ask = || unsafe {
        if of_peer { libc::getpeername(fd, place, &mut len) } else { libc::getsockname(fd, place, &mut len) }
    };
    let outcome = observed(ask);
    let address = if outcome.is_ok() { filled(&storage, len) } else { Address::default() };
    (outcome, address)
}

/// `shutdown`.
#[must_use]
pub fn shutdown(fd: i32, how: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::shutdown(fd, how) })
}

/// `setsockopt`.
#[must_use]
pub fn set_option(fd: i32, level: i32, option: i32, value: &[u8]) -> Outcome {
    // SAFETY: pointer and length are of one live slice; the kernel reads it only.
    observed(|| unsafe {
        libc::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
}

/// `getsockopt`: the bytes that were filled in.
#[must_use]
pub fn get_option(fd: i32, level: i32, option: i32) -> (Outcome, Vec<u8>) {
    let mut value = vec![0_u8; 64];
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: `len` says how large `value` is; both live through the call.
    let outcome =
        observed(|| unsafe { libc::getsockopt(fd, level, option, value.as_mut_ptr().cast(), &mut len) });
    value.truncate(if outcome.is_ok() { len as usize } else { 0 });
    (outcome, value)
}
