//! Receives datagrams from any sender, and discards descriptors that come with them.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrAny, recvfrom, recvmsg};

use crate::{Closer, Foreign, Load, MOST_IN_MESSAGE, refuse_descriptors};

/// A UNIX datagram socket at which descriptors are not wanted. The kernel keeps them out, or, before Linux
/// 6.16, they are taken in and closed by a [`Closer`], so that the receiver never waits for that.
#[derive(Debug)]
pub struct Inbox {
    socket: Foreign<OwnedFd>,
    closer: Closer,
    /// The kernel keeps descriptors out.
    kept_out: bool,
}

/// Whose what comes to such a socket counts as: the kernel's word on each sender is not asked for.
const NOBODY: u32 = u32::MAX;

/// What one look gave.
#[derive(Debug)]
pub enum Looked {
    /// A datagram, of so many bytes, from there.
    Datagram(usize, Option<SocketAddrAny>),
    /// There is none.
    Nothing,
    /// There may be some; none is taken while what came along with others is closed.
    Later,
    /// None can be taken any more: what came along with others can't be closed.
    Stuck,
}

impl Inbox {
    /// Makes one of a socket, which should have no name yet, of a process of user `own_uid`.
    #[must_use]
    pub fn new(socket: OwnedFd, own_uid: u32, closer: &Closer) -> Self {
        let kept_out = refuse_descriptors(&socket, true);
        Self { socket: Foreign::new(socket, own_uid, closer), closer: closer.clone(), kept_out }
    }

    /// Takes a datagram, if there is one. Never waits.
    ///
    /// # Errors
    /// What the system said.
    pub fn look(&self, buffer: &mut [u8]) -> Result<Looked, Errno> {
        if self.kept_out {
            return match recvfrom(&*self.socket, buffer, RecvFlags::DONTWAIT) {
                Ok((len, _, from)) => Ok(Looked::Datagram(len, from)),
                Err(Errno::AGAIN) => Ok(Looked::Nothing),
                Err(errno) => Err(errno),
            };
        }
        match self.closer.load_of(NOBODY) {
            Load::Light => self.take(buffer),
            Load::Heavy => Ok(Looked::Later),
            Load::Stuck => Ok(Looked::Stuck),
        }
    }

    fn take(&self, buffer: &mut [u8]) -> Result<Looked, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_IN_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let message = match recvmsg(&*self.socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Ok(message) => message,
            Err(Errno::AGAIN) => return Ok(Looked::Nothing),
            Err(errno) => return Err(errno),
        };
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = ancillary {
                // All senders to one socket stand in one line anyway.
                descriptors.for_each(|fd| self.closer.close(NOBODY, fd));
            }
        }
        Ok(Looked::Datagram(message.bytes, message.address))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::trial::{lingering, send_with};

    const OWN: u32 = 1000;

    fn inbox(kept_out: bool) -> (Inbox, OwnedFd, Closer) {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
        let closer = Closer::new(OWN);
        let mut inbox = Inbox::new(a, OWN, &closer);
        if !kept_out && inbox.kept_out {
            assert!(refuse_descriptors(&inbox.socket, false));
            inbox.kept_out = false;
        }
        (inbox, b, closer)
    }

    fn one(inbox: &Inbox) -> Looked {
        inbox.look(&mut [0; 8]).unwrap()
    }

    #[test]
    fn the_kernel_keeps_descriptors_out() {
        let (inbox, sender, _) = inbox(true);
        if !inbox.kept_out {
            return println!("skipped: this kernel has no SO_PASSRIGHTS (Linux 6.16)");
        }
        assert!(send_with(&sender, b"x", &[sender.as_fd()]).is_err());
        rustix::io::write(&sender, b"yes").unwrap();
        assert!(matches!(one(&inbox), Looked::Datagram(3, _)));
        assert!(matches!(one(&inbox), Looked::Nothing));
    }

    #[test]
    fn without_that_a_descriptor_that_cannot_be_closed_holds_nobody_up() {
        let (inbox, sender, closer) = inbox(false);
        let (fd, release) = lingering().unwrap();
        send_with(&sender, b"x", &[fd.as_fd()]).unwrap();
        drop(fd);
        rustix::io::write(&sender, b"yes").unwrap();
        assert!(matches!(one(&inbox), Looked::Datagram(1, _)));
        assert!(matches!(one(&inbox), Looked::Datagram(3, _)));
        // More of the kind, until it is enough.
        let null = std::fs::File::open("/dev/null").unwrap();
        let many = [null.as_fd(); MOST_IN_MESSAGE];
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(30), "never enough");
            let _ = send_with(&sender, b"x", &many);
            match one(&inbox) {
                Looked::Stuck => break,
                Looked::Later => std::thread::sleep(Duration::from_millis(5)),
                _ => {}
            }
        }
        drop(release);
        while !closer.is_done_with(NOBODY) {
            assert!(start.elapsed() < Duration::from_secs(60), "never closed");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(one(&inbox), Looked::Datagram(1, _)));
    }
}
