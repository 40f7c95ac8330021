//! The descriptor of a pollable interrupt: readable after a trigger, until the owner clears it.
//!
//! It is a datagram socket, and each ringer has one of its own to send to it; the node's manager makes them.
//! A socket takes with each call whether it may block. Whether an eventfd blocks is a flag of the open file,
//! which all its holders share: a hostile peer takes the flag away and fills the counter, and a trigger of
//! another program never returns. A pipe can be opened by each ringer anew, but a write holds its lock while
//! it copies from memory that may never come, and reader and ringers sleep. Ringers only send: none can
//! swallow what another one has rung, and what one does to its socket, it does to its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use foreign::{Closer, Inbox, Looked};
use node_client::InterruptSockets;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketType, send, sockopt};
use rustix::process::geteuid;

use crate::error::{Error, Result};

/// Rings that one clearing takes back. Of each ringer a handful fits into the queue; if there are more, the
/// descriptor stays readable until the next clearing.
const CLEARED_AT_ONCE: usize = 64;

fn system(what: &'static str) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::System { what, source: errno.into() }
}

/// What ringers hold: the sending socket.
#[derive(Debug)]
pub(super) struct LatchRinger(OwnedFd);

/// What the owner holds.
#[derive(Debug)]
pub(super) struct Latch {
    ringer: LatchRinger,
    listener: Inbox,
}

impl LatchRinger {
    /// Takes what the manager has made for this ringer.
    pub(super) fn new(fd: OwnedFd) -> Result<Self> {
        match (sockopt::socket_domain(&fd), sockopt::socket_type(&fd)) {
            // Nothing else: others may block although they are asked not to.
            (Ok(AddressFamily::UNIX), Ok(SocketType::DGRAM)) => Ok(Self(fd)),
            _ => Err(Error::Invalid("the descriptor of an interrupt is no datagram socket".into())),
        }
    }

    /// Makes the owner's descriptor readable. Never blocks.
    pub(super) fn ring(&self) -> Result<()> {
        match send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            // Full: it is readable already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            // The owner is gone, which the state page will say, or has shut its socket or connected it
            // elsewhere: as good as clearing it.
            Err(Errno::PIPE | Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN | Errno::PERM) => Ok(()),
            Err(errno) => Err(system("ringing the descriptor of an interrupt")(errno)),
        }
    }
}

impl Latch {
    /// Takes what the manager has made for the owner.
    pub(super) fn new(sockets: InterruptSockets) -> Self {
        // Ringers have nothing to send but rings; what else they send must not hold up the owner when it is
        // closed.
        let listener = Inbox::new(sockets.receiver, geteuid().as_raw(), &Closer::of_process());
        Self { ringer: LatchRinger(sockets.sender), listener }
    }

    /// For poll, select and epoll.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Makes one's own descriptor readable.
    pub(super) fn ring(&self) -> Result<()> {
        self.ringer.ring()
    }

    /// Clears the doorbell. Never blocks. Check for work afterwards: a ringer that found it full relies on
    /// that.
    pub(super) fn clear(&self) -> Result<()> {
        for _ in 0..CLEARED_AT_ONCE {
            match self.listener.look(&mut [0; 1]) {
                Ok(Looked::Datagram(..)) => {}
                // What is not taken leaves the descriptor readable: a ringer has sent more descriptors than
                // can be closed.
                Ok(Looked::Nothing | Looked::Later | Looked::Stuck) => break,
                Err(errno) => return Err(system("clearing the descriptor of an interrupt")(errno)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::net::{RecvFlags, SocketFlags, recv, socketpair};
    use shm::sync::{AtomicBool, Ordering};

    use super::*;

    fn is_readable(latch: &Latch) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(latch.descriptor(), PollFlags::IN)], Some(&now)) == Ok(1)
    }

    fn latch() -> Latch {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (receiver, sender) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap();
        sockopt::set_socket_send_buffer_size(&sender, 0).unwrap();
        Latch::new(InterruptSockets { receiver, sender })
    }

    /// What an importer may have: even the very same socket must not hold up the others.
    fn shared(latch: &Latch) -> LatchRinger {
        LatchRinger::new(latch.ringer.0.try_clone().unwrap()).unwrap()
    }

    #[test]
    fn it_is_readable_from_a_ring_until_it_is_cleared() {
        let latch = latch();
        let ringer = shared(&latch);
        for rings in [1, 2, 1000] {
            assert!(!is_readable(&latch));
            (0..rings).for_each(|_| ringer.ring().unwrap());
            assert!(is_readable(&latch));
            latch.clear().unwrap();
            latch.clear().unwrap();
        }
        latch.ring().unwrap();
        assert!(is_readable(&latch));
    }

    /// The fillers take the non-blocking flag away and fill the descriptor over and over, the owner empties
    /// it: whoever checks first and then writes sooner or later meets a full one, and would block.
    #[test]
    fn a_ring_never_blocks_whatever_others_do_to_the_descriptor() {
        let latch = latch();
        let (ringer, filler) = (shared(&latch), latch.ringer.0.try_clone().unwrap());
        let (done, going) = (AtomicBool::new(false), AtomicBool::new(true));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while going.load(Ordering::Relaxed) {
                    fcntl_setfl(&filler, OFlags::empty()).unwrap();
                    let _ = send(&filler, &[1], SendFlags::DONTWAIT);
                }
            });
            let rings = scope.spawn(|| {
                (0..50_000).for_each(|_| ringer.ring().unwrap());
                done.store(true, Ordering::Relaxed);
            });
            // Stays full at first, then is emptied now and then. Never waits for the ringer: it must end by
            // itself.
            for _ in 0..60_000 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let ended = done.load(Ordering::Relaxed);
            going.store(false, Ordering::Relaxed);
            // Lets a blocked ringer go, so that the test fails and does not hang.
            while !ended && !rings.is_finished() {
                latch.clear().unwrap();
            }
            assert!(ended, "a ring was blocked by a full descriptor");
            assert!(is_readable(&latch));
        });
    }

    #[test]
    fn a_clearing_ends_although_somebody_rings_without_end_and_nobody_can_swallow_a_ring() {
        let latch = latch();
        let ringer = shared(&latch);
        sockopt::set_socket_send_buffer_size(&ringer.0, 1 << 20).unwrap();
        (0..CLEARED_AT_ONCE + 5).for_each(|_| ringer.ring().unwrap());
        latch.clear().unwrap();
        assert!(is_readable(&latch), "what is left is left for the next time");
        let stolen = recv(&ringer.0, &mut [0; 1], RecvFlags::DONTWAIT);
        assert_eq!(stolen.map(|_| ()), Err(Errno::AGAIN));
        latch.clear().unwrap();
        assert!(!is_readable(&latch));
    }

    #[test]
    fn what_is_no_latch_is_refused_and_an_owner_that_is_gone_is_no_error() {
        let (stream, _other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        // Each holder can change whether an eventfd blocks.
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        for other in [stream, event] {
            let error = LatchRinger::new(other).unwrap_err();
            assert!(error.to_string().contains("no datagram socket"), "{error}");
        }
        let latch = latch();
        let ringer = shared(&latch);
        drop(latch);
        ringer.ring().unwrap();
    }
}
