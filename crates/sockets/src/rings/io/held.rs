//! Writes whose end the kernel holds back (`TCP_CORK`, `MSG_MORE`).

use libc::c_int;
use stream::write::Occasion;

use super::plain::{plain_once, used_plainly};
use crate::rings::conn::{Conn, Gone, Known, state};
use crate::rings::leave;
use crate::rings::native::Native;
use crate::sync::Ordering;

/// What is written from here on the kernel holds back in part: what is in the ring goes to it before.
pub(crate) fn is_held_back(conn: &Conn, fd: c_int) {
    if conn.is(state::READY) {
        leave::visit(conn, fd, Occasion::Finish);
    }
}

/// The kernel may hold back the end of what it was given: what is written next is to go there, too.
pub(super) fn notes(conn: &Conn) {
    if let Some((own, _)) = conn.headers() {
        own.writer.0.held.fetch_add(1, Ordering::SeqCst);
    }
}

/// A write of which the kernel is to hold back the end (`MSG_MORE`): what is in the ring goes to the kernel
/// before it.
#[cold]
pub(super) fn write(known: Known, fd: c_int, native: &mut Native<'_>) -> Result<isize, Gone> {
    loop {
        known.moving(|conn| is_held_back(conn, fd))?;
        // Before it, so that nobody opens the ring, and behind it, as another thread's write may have sent
        // what was held back before.
        notes(known.conn);
        // None: another thread has opened the ring again meanwhile.
        if let Some(result) = used_plainly(known, fd, || plain_once(known.conn, native))? {
            notes(known.conn);
            return Ok(result);
        }
    }
}
