//! A write that goes to the kernel by the program's own call, which may wait there, so it cannot
//! hold the writers' lock.
//!
//! It counts itself in [`Word::Plain`] and then looks whether the kernel still is the path. Who opens the
//! ring says so in [`Word::Opening`] and then looks at the count: one of the two sees the other, so the
//! kernel's count of what it was given stands still while the ring is opened.

use crate::{Shared, Word, given, path};

/// Writes to the kernel: `send` is the program's call. `None`: the path has changed, and nothing was sent;
/// begin the write again.
#[inline(always)]
pub fn write<S: Shared, R>(
    shared: &mut S,
    send: impl FnOnce(&mut S) -> Result<R, S::Stop>,
) -> Result<Option<R>, S::Stop> {
    if !begin(shared)? {
        return Ok(None);
    }
    let result = send(shared)?;
    end(shared)?;
    Ok(Some(result))
}

/// The begin of [`write()`]: whether the caller is to write to the kernel, and then to call [`end`].
#[inline(always)]
pub fn begin<S: Shared>(shared: &mut S) -> Result<bool, S::Stop> {
    shared.increase(Word::Plain)?;
    let is_kernels = shared.load(Word::Opening)? == 0 && path::is_kernels(shared.load(Word::Path)?);
    if is_kernels {
        given::take_back(shared)?;
    } else {
        end(shared)?;
    }
    Ok(is_kernels)
}

/// The end of a write that has [begun](begin).
#[inline(always)]
pub fn end<S: Shared>(shared: &mut S) -> Result<(), S::Stop> {
    shared.decrease(Word::Plain)
}
