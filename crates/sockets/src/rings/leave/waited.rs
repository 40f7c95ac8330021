//! Connections for which a thread waits in a call that does not check rings: all their bytes have to come
//! through the kernel.

use libc::c_int;
use sockets_rules::layout::Reason;
use stream::withdraw::Withdraw;
use stream::write::Occasion;
use stream::{Outcome, consent, path};

use super::{give_up, is_on_its_way_back, is_settled, settle_other_end, visit, withdraw};
use crate::rings::conn::{self, Conn, Known, state};
use crate::rings::epoll;
use crate::rings::header::{CAPACITY, Header};
use crate::rings::io::is_empty;
use crate::rings::run::IMPATIENT;
use crate::sync::Ordering;

/// It is waited for in a way that is not seen, so both ways go through the kernel from now on, but reads and
/// writes stay in the library. What does not get through soon gets through with later calls, or is found in
/// the ring: nobody is kept waiting for the other end.
pub(crate) fn waiting(conn: &Conn, fd: c_int) {
    if !conn.is(state::READY) {
        return give_up(conn);
    }
    let Some((own, peer)) = conn.headers() else { return };
    let is_kernels =
        |header: &Header| matches!(header.writer.0.path.load(Ordering::Acquire), path::TCP | path::SHUT);
    let is_new = own.reader.0.consent.load(Ordering::Relaxed) == consent::OPEN;
    // Others who have it may write to the ring again, and are to see what this one writes, and when it shuts
    // down.
    let is_alone = conn.standing.shared.load(Ordering::Relaxed) == 0;
    let was_sealed = conn.standing.sealed.swap(1, Ordering::Relaxed) != 0;
    if !is_alone && was_sealed && !is_new && is_kernels(own) && is_kernels(peer) {
        // It was done before, and has stayed so.
        return;
    }
    visit(conn, fd, Occasion::Finish);
    let is_finished = is_settled(conn) && !is_on_its_way_back(conn);
    let patience = if is_new { IMPATIENT } else { 0 };
    let outcome = withdraw(conn, fd, Withdraw::new(CAPACITY).seen(), patience);
    // A writer that is at work with an open ring may still put something there, and hand not all of it back
    // before it ends.
    let is_left = outcome == Some(Outcome::Withdrawn) && is_kernels(peer) && is_empty(own, peer);
    if is_left && is_finished && is_alone {
        conn.over(state::READY, Reason::Unseen);
    }
}

/// As [`waiting`], with what is in its ring already: nobody else may come to write that.
pub(crate) fn waited_for_elsewhere(known: Known, fd: c_int) {
    let _ = known.moving(|conn| {
        settle_other_end(conn);
        waiting(conn, fd);
    });
}

/// A connection that others have, too, stays in the epoll that the closed number is registered in: from here
/// on the kernel alone tells of it there.
pub(super) fn stays_registered(fd: c_int) {
    if !epoll::is_registered(fd) {
        return;
    }
    let Some(known) = conn::known(fd).filter(|known| known.conn.is(state::READY)) else { return };
    let is_last = known.conn.standing.shared.load(Ordering::Relaxed) == 0
        && known.conn.numbers.load(Ordering::Relaxed) == 1;
    if !is_last {
        waited_for_elsewhere(known, fd);
    }
}
