//! The descriptor of a pollable interrupt: readable after a ring, until the owner clears it.
//!
//! It is a pair of datagram sockets, because a socket says with each call whether it may block. Whether an eventfd blocks
//! is a flag of the open file, which everybody who holds it shares: a hostile peer takes the flag away and fills the
//! counter, and a trigger of somebody else never returns (looking first only makes the moment short, in which it may do
//! so). Besides, ringers hold the sending end only: none can swallow what another one has rung.
//!
//! Measured on kernel 6.18: a ring and its clearing 570 ns, with an eventfd that is looked at before each step 520 ns.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use foreign::{Closer, Inbox, Looked};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};
use rustix::process::geteuid;

use crate::error::{Error, Result};

/// Rings that one clearing takes back. Fewer fit into the sockets, unless a hostile peer has enlarged them or rings
/// without end; then the descriptor stays readable, which is what it has rung for.
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
    /// Looks at what an owner has sent.
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
            // The owner is gone, which the state page will say, or somebody has shut the socket: as good as clearing it.
            Err(Errno::PIPE | Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN) => Ok(()),
            Err(errno) => Err(system("ringing the descriptor of an interrupt")(errno)),
        }
    }
}

impl Latch {
    pub(super) fn new() -> Result<Self> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let (listener, fd) = pair.map_err(system("making the sockets of an interrupt"))?;
        // The smallest there is: one ring says it all, and each that waits costs a system call to clear.
        sockopt::set_socket_send_buffer_size(&fd, 0).map_err(system("making the sockets of an interrupt"))?;
        // Ringers have nothing to send but rings; what else they send must not hold up the owner when it is closed.
        let listener = Inbox::new(listener, geteuid().as_raw(), &Closer::of_process());
        Ok(Self { ringer: LatchRinger(fd), listener })
    }

    /// What ringers are to be given.
    pub(super) fn for_ringers(&self) -> BorrowedFd<'_> {
        self.ringer.0.as_fd()
    }

    /// For poll, select and epoll.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Makes one's own descriptor readable.
    pub(super) fn ring(&self) -> Result<()> {
        self.ringer.ring()
    }

    /// Takes back what was rung. Never blocks. Look for work afterwards: who found it full counted on that.
    pub(super) fn clear(&self) -> Result<()> {
        for _ in 0..CLEARED_AT_ONCE {
            match self.listener.look(&mut [0; 1]) {
                Ok(Looked::Datagram(..)) => {}
                // What is not taken leaves the descriptor readable: somebody has rung who sends more than can be closed.
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
    use rustix::net::{RecvFlags, recv};
    use shm::sync::{AtomicBool, Ordering};

    use super::*;

    fn is_readable(latch: &Latch) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(latch.descriptor(), PollFlags::IN)], Some(&now)) == Ok(1)
    }

    fn shared(latch: &Latch) -> LatchRinger {
        LatchRinger::new(latch.ringer.0.try_clone().unwrap()).unwrap()
    }

    #[test]
    fn it_is_readable_from_a_ring_until_it_is_cleared() {
        let latch = Latch::new().unwrap();
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

    /// The fillers take the non-blocking flag away and fill the descriptor over and over, the owner empties it: whoever
    /// looks first and then writes sooner or later meets a full one, and would stay there.
    #[test]
    fn a_ring_never_blocks_whatever_others_do_to_the_descriptor() {
        let latch = Latch::new().unwrap();
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
            // Stays full at first, then is emptied now and then. Never waits for the ringer: it must end by itself.
            for _ in 0..60_000 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let ended = done.load(Ordering::Relaxed);
            going.store(false, Ordering::Relaxed);
            // Lets a blocked ringer go, so that the test fails and does not hang.
            while !rings.is_finished() {
                latch.clear().unwrap();
            }
            assert!(ended, "a ring was blocked by a full descriptor");
            assert!(is_readable(&latch));
        });
    }

    #[test]
    fn a_clearing_ends_although_somebody_rings_without_end_and_nobody_can_swallow_a_ring() {
        let latch = Latch::new().unwrap();
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
        // Whether an eventfd blocks is up to everybody who holds it.
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        for other in [stream, event] {
            let error = LatchRinger::new(other).unwrap_err();
            assert!(error.to_string().contains("no datagram socket"), "{error}");
        }
        let latch = Latch::new().unwrap();
        let ringer = shared(&latch);
        drop(latch);
        ringer.ring().unwrap();
    }
}
