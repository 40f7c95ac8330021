//! The process that forwards TCP connections for a manager that is a relay: from one node's host to one
//! address.
//!
//! It has the listening socket as its standard input, as its standard output a pipe in which its manager says
//! that somebody is about to connect, and no other descriptor of the manager. Per connection there are two
//! threads with a buffer each: a reader that is slow stops who writes to it, and nothing else. It ends with
//! its manager, and when it has had no connection for a while. Its manager, which has the socket too, shuts
//! it down when there is nothing to connect to any more: then it ends with its connections.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use shm::sync::{AtomicU64, Ordering};

/// The word by which a manager starts this program as a relay's process.
pub(crate) const WORD: &str = "relay";
/// Connections at a time; one more is closed at once.
const MOST_CONNECTIONS: usize = 64;
/// Bytes that wait for each direction of a connection, beside what the kernel keeps.
const BUFFER_BYTES: usize = 128 * 1024;
/// How long the first byte of a connection is waited for: who connects has something to send at once.
const FIRST_BYTE_WAIT: Duration = Duration::from_secs(10);
/// Connecting, and what was sent and is not acknowledged.
const CONNECT_MS: u32 = 10_000;
const UNACKNOWLEDGED_MS: u32 = 60_000;
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const DRAIN_LOOK: Duration = Duration::from_millis(100);

/// What it was started with.
struct Forwarding {
    /// The address of this host from which it connects.
    source: IpAddr,
    target: SocketAddr,
    /// Who may connect.
    allowed: Vec<IpAddr>,
    /// How long it goes on without a connection.
    idle: Duration,
    /// How often bytes have come.
    read: AtomicU64,
}

/// Whether these are the words by which a manager starts a relay's process; then it has run, and this is its
/// exit status.
pub fn is_relay(words: &[OsString]) -> Option<u8> {
    if words.get(1)? != WORD {
        return None;
    }
    let words: Vec<&str> = words.get(2..)?.iter().filter_map(|word| word.to_str()).collect();
    let [parent, source, target, allowed, idle] = words.as_slice() else { return None };
    let parent: i32 = parent.parse().ok()?;
    let forwarding = Forwarding {
        source: source.parse().ok()?,
        target: target.parse().ok()?,
        allowed: allowed.split(',').map(|address| address.parse().ok()).collect::<Option<_>>()?,
        idle: Duration::from_secs(idle.parse().ok()?),
        read: AtomicU64::new(0),
    };
    // It ends with its manager, and must not begin after that.
    let is_tied = set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
        && getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent);
    let given = || -> std::io::Result<(TcpListener, File)> {
        let listener = std::io::stdin().as_fd().try_clone_to_owned()?;
        Ok((listener.into(), std::io::stdout().as_fd().try_clone_to_owned()?.into()))
    };
    let served = is_tied && given().and_then(|(listener, told)| serve(&listener, &told, forwarding)).is_ok();
    Some(u8::from(!served))
}

fn serve(listener: &TcpListener, told: &File, forwarding: Forwarding) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    fcntl_setfl(told, fcntl_getfl(told)? | OFlags::NONBLOCK)?;
    // Each connection holds the forwarding once more.
    let forwarding = Arc::new(forwarding);
    let open = || Arc::strong_count(&forwarding) - 1;
    let mut used_at = Instant::now();
    loop {
        let _ =
            poll(&mut [PollFd::new(listener, PollFlags::IN), PollFd::new(told, PollFlags::IN)], Some(&LOOK));
        if open() > 0 || is_told(told) {
            used_at = Instant::now();
        }
        let (from, address) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => match error.kind() {
                // It was shut down.
                ErrorKind::InvalidInput => {
                    drain(&forwarding);
                    return Ok(());
                }
                // Not while somebody connects.
                ErrorKind::WouldBlock if used_at.elapsed() >= forwarding.idle => return Ok(()),
                ErrorKind::WouldBlock => continue,
                // There is no descriptor for one that waits, until another one ends.
                _ => {
                    std::thread::sleep(DRAIN_LOOK);
                    continue;
                }
            },
        };
        let is_allowed = forwarding.allowed.contains(&address.ip().to_canonical());
        if !is_allowed || open() >= MOST_CONNECTIONS {
            continue;
        }
        // It may have ended before the next look.
        used_at = Instant::now();
        let forwarding = Arc::clone(&forwarding);
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        // Without a thread the connection ends.
        let _ = thread.spawn(move || forward(from, &forwarding));
    }
}

/// Whether the manager has said that somebody is about to connect.
fn is_told(mut told: &File) -> bool {
    told.read(&mut [0; 64]).is_ok_and(|read| read > 0)
}

/// The socket was shut down: until all connections have ended, or what is left of them was of no use for
/// long.
fn drain(forwarding: &Arc<Forwarding>) {
    let mut read = forwarding.read.load(Ordering::Relaxed);
    let mut ends_at = Instant::now() + Duration::from_millis(UNACKNOWLEDGED_MS.into());
    while Arc::strong_count(forwarding) > 1 && Instant::now() < ends_at {
        std::thread::sleep(DRAIN_LOOK);
        let now = forwarding.read.load(Ordering::Relaxed);
        if now != read {
            read = now;
            ends_at = Instant::now() + Duration::from_millis(UNACKNOWLEDGED_MS.into());
        }
    }
}

/// One connection, until both directions have ended, or one has failed.
fn forward(from: TcpStream, forwarding: &Forwarding) -> std::io::Result<()> {
    from.set_nonblocking(false)?;
    from.set_read_timeout(Some(FIRST_BYTE_WAIT))?;
    if from.peek(&mut [0])? == 0 {
        return Ok(());
    }
    from.set_read_timeout(None)?;
    let to = connect_from(forwarding.source, forwarding.target)?;
    for socket in [&from, &to] {
        socket.set_nodelay(true)?;
        sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED_MS)?;
        // A host that dies in silence leaves no connection behind.
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(30))?;
        sockopt::set_tcp_keepintvl(socket, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(socket, 3)?;
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        let back = thread.spawn_scoped(scope, || copy(&to, &from, &forwarding.read));
        if back.is_ok() {
            copy(&from, &to, &forwarding.read);
        }
    });
    Ok(())
}

pub(crate) fn connect_from(source: IpAddr, target: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_tcp_user_timeout(&fd, CONNECT_MS)?;
    // The other end knows this connection by that address.
    bind(&fd, &SocketAddr::new(source, 0))?;
    // The port that it has got is free for the manager's guards of end points, then and when the connection
    // has ended.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    connect(&fd, &target)?;
    Ok(fd.into())
}

/// In one direction, until its end, which is passed on.
fn copy(mut from: &TcpStream, mut to: &TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; BUFFER_BYTES];
    let is_whole = loop {
        match from.read(&mut buffer) {
            Ok(0) => break true,
            Ok(read) if to.write_all(buffer.get(..read).unwrap_or_default()).is_ok() => {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break false,
        }
    };
    if is_whole {
        let _ = to.shutdown(Shutdown::Write);
    } else {
        // What is lost in one direction ends both.
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(target: SocketAddr, allowed: &[&str], source: IpAddr) -> Forwarding {
        let allowed = allowed.iter().map(|address| address.parse().unwrap()).collect();
        Forwarding { source, target, allowed, idle: Duration::from_secs(60), read: AtomicU64::new(0) }
    }

    fn told() -> (File, std::io::PipeWriter) {
        let (told, tells) = std::io::pipe().unwrap();
        (std::os::fd::OwnedFd::from(told).into(), tells)
    }

    /// Both ends of a connection by way of it, on which a byte was sent.
    fn connected(at: SocketAddr, owner: &TcpListener) -> (TcpStream, TcpStream) {
        let mut user = TcpStream::connect(at).unwrap();
        user.write_all(&[1]).unwrap();
        let mut there = owner.accept().unwrap().0;
        there.read_exact(&mut [0]).unwrap();
        (user, there)
    }

    #[test]
    fn a_manager_that_tells_of_a_connection_is_heard_once() {
        let (told, mut tells) = told();
        fcntl_setfl(&told, OFlags::NONBLOCK).unwrap();
        assert!(!is_told(&told));
        tells.write_all(&[1, 1]).unwrap();
        assert!(is_told(&told));
        assert!(!is_told(&told));
        drop(tells);
        assert!(!is_told(&told));
    }

    #[test]
    fn a_forward_that_is_over_ends_with_its_connections_and_takes_no_others() {
        for is_used in [false, true] {
            let owner = TcpListener::bind("127.0.0.1:0").unwrap();
            let relay = TcpListener::bind("127.0.0.1:0").unwrap();
            let (at, of_manager) = (relay.local_addr().unwrap(), relay.try_clone().unwrap());
            let local = "127.0.0.1".parse().unwrap();
            let forwarding = to(owner.local_addr().unwrap(), &["127.0.0.1"], local);
            let (told, _tells) = told();
            let serving = std::thread::spawn(move || serve(&relay, &told, forwarding));
            let ends = is_used.then(|| connected(at, &owner));
            rustix::net::shutdown(&of_manager, rustix::net::Shutdown::Both).unwrap();
            assert!(TcpStream::connect(at).is_err());
            if let Some((mut user, mut there)) = ends {
                // Who has written it has gone before it is read.
                there.write_all(&[7; 200_000]).unwrap();
                drop(there);
                assert!(!serving.is_finished());
                let mut came = Vec::new();
                user.read_to_end(&mut came).unwrap();
                assert!(came == [7; 200_000]);
            }
            let waits_since = Instant::now();
            serving.join().unwrap().unwrap();
            assert!(waits_since.elapsed() < Duration::from_secs(10));
        }
    }

    #[test]
    fn bytes_and_ends_are_passed_on_in_both_directions() {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = "127.0.0.3".parse().unwrap();
        let forwarding = to(owner.local_addr().unwrap(), &[], source);
        let mut user = TcpStream::connect(relay.local_addr().unwrap()).unwrap();
        user.write_all(&[1]).unwrap();
        let accepted = relay.accept().unwrap().0;
        let relaying = std::thread::spawn(move || forward(accepted, &forwarding));
        let (mut there, from) = owner.accept().unwrap();
        there.read_exact(&mut [0]).unwrap();
        assert_eq!(from.ip(), source);
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let sent = bytes.clone();
        let sending = std::thread::spawn(move || {
            user.write_all(&sent).unwrap();
            user.shutdown(Shutdown::Write).unwrap();
            let mut back = Vec::new();
            user.read_to_end(&mut back).unwrap();
            back
        });
        let mut came = Vec::new();
        there.read_to_end(&mut came).unwrap();
        assert!(came == bytes);
        there.write_all(&came[..1_000_001]).unwrap();
        drop(there);
        assert!(sending.join().unwrap() == bytes[..1_000_001]);
        relaying.join().unwrap().unwrap();
    }

    #[test]
    fn a_forward_that_is_used_again_and_again_goes_on() {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = relay.local_addr().unwrap();
        let mut forwarding = to(owner.local_addr().unwrap(), &["127.0.0.1"], "127.0.0.1".parse().unwrap());
        forwarding.idle = Duration::from_secs(4);
        let (told, _tells) = told();
        let serving = std::thread::spawn(move || serve(&relay, &told, forwarding));
        // None is open when it looks whether it is used.
        for _ in 0..20 {
            let (mut user, there) = connected(at, &owner);
            drop(there);
            assert_eq!(user.read(&mut [0; 8]).unwrap(), 0);
            drop(user);
            std::thread::sleep(Duration::from_millis(250));
        }
        assert!(!serving.is_finished());
        serving.join().unwrap().unwrap();
    }

    #[test]
    fn who_is_not_meant_gets_nothing_from_a_relay() {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = relay.local_addr().unwrap();
        let forwarding = to(owner.local_addr().unwrap(), &["127.0.0.2"], "127.0.0.1".parse().unwrap());
        // It goes on until the process ends.
        let (told, tells) = told();
        std::thread::spawn(move || serve(&relay, &told, forwarding));
        let mut stranger = TcpStream::connect(at).unwrap();
        assert_eq!(stranger.read(&mut [0; 8]).unwrap_or_default(), 0);
        let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&fd, &"127.0.0.2:0".parse::<SocketAddr>().unwrap()).unwrap();
        connect(&fd, &at).unwrap();
        let mut meant = TcpStream::from(fd);
        meant.write_all(b"hello").unwrap();
        // The first one that comes is not the stranger's.
        let mut there = owner.accept().unwrap().0;
        let mut read = [0; 5];
        there.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"hello");
        owner.set_nonblocking(true).unwrap();
        assert!(owner.accept().is_err());
        drop(tells);
    }

    #[test]
    fn other_words_are_no_relay() {
        let words = |words: &[&str]| is_relay(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(words(&["tieline", "status"]), None);
        assert_eq!(words(&["tieline", "relay"]), None);
        assert_eq!(words(&["tieline", "relay", "1", "x", "10.0.0.1:1", "10.0.0.2", "30"]), None);
        // Of another parent.
        assert_eq!(words(&["tieline", "relay", "0", "10.0.0.3", "10.0.0.1:1", "10.0.0.2", "30"]), Some(1));
    }
}
