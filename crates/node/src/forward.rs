//! The process of a forward, as the manager that is a relay has it: it is started with a listening socket.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, bind, shutdown, socket_with, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::relay::WORD;

/// The program that a forward's process is, in the folder of the manager's own.
const PROGRAM: &str = "tieline-commands";
/// For so many seconds it goes on without a connection. A program may use a segment long after it has
/// connected, and the relay is told when it ends; a manager connects at once.
const IDLE_SECONDS_OF_PROGRAM: &str = "600";
const IDLE_SECONDS_OF_MANAGER: &str = "30";

/// A port of this host that nobody else may use as the port of an end point.
///
/// libfabric knows who connects by the address from which the connection comes and the port of its own end
/// point. What is forwarded comes from this host's address: a program of this host with that port, or another
/// node's forwarded end point, would be taken for it.
#[derive(Debug)]
pub(crate) struct Guard {
    at: SocketAddr,
    _socket: OwnedFd,
}

impl Guard {
    fn new(at: SocketAddr) -> std::io::Result<Self> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if bind(&socket, &at).is_err() {
            // What a forward's connections leave behind for a minute is nobody's end point. Nobody else may
            // share it with this.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &at)?;
            sockopt::set_socket_reuseaddr(&socket, false)?;
        }
        Ok(Self { at, _socket: socket })
    }
}

/// How many ports are tried before any free one is good enough.
const TRIED_PORTS: u32 = 32;

/// A port to listen at that the end point of no program is likely to have on its own host.
///
/// Such an end point could not be forwarded: its port would be taken here. Linux gives who asks for any port
/// one at an odd distance from the lowest (`inet_csk_find_open_port` in net/ipv4/inet_connection_sock.c), so
/// this takes an even one.
fn listen(at: IpAddr) -> std::io::Result<TcpListener> {
    let reserved = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    for _ in 0..TRIED_PORTS {
        let port = TcpListener::bind((at, 0))?.local_addr()?.port() ^ 1;
        if !is_in(&reserved, port)
            && let Ok(listener) = TcpListener::bind((at, port))
        {
            return Ok(listener);
        }
    }
    TcpListener::bind((at, 0))
}

/// Whether a port is in a list of ports and ranges, such as `8080,9148-9150`.
fn is_in(list: &str, port: u16) -> bool {
    let has = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = first.parse::<u16>().ok()?;
        Some((first..=last.parse().ok()?).contains(&port))
    };
    list.trim().split(',').any(|part| has(part).unwrap_or(false))
}

/// What is forwarded.
#[derive(Debug)]
pub(crate) struct Route {
    /// The address of this host at which it listens.
    pub(crate) listen: IpAddr,
    /// Who may connect.
    pub(crate) allowed: Vec<IpAddr>,
    /// The address of this host from which it connects.
    pub(crate) source: IpAddr,
    /// Where it leads.
    pub(crate) target: SocketAddr,
    /// That is the end point of a program.
    pub(crate) is_end_point: bool,
}

/// The end point of a program to which a forward leads.
#[derive(Debug)]
struct EndPoint {
    at: SocketAddr,
    /// Who may connect.
    allowed: Vec<IpAddr>,
    guard: Arc<Guard>,
}

impl EndPoint {
    /// Its port on this host is free, or belongs to others that no host takes for it: forwards to the same
    /// end point, and those for other hosts than this one's.
    fn new<'f>(route: &Route, others: impl Iterator<Item = &'f Self>) -> std::io::Result<Self> {
        let at = SocketAddr::new(route.listen, route.target.port());
        let mut shared = None;
        for other in others.filter(|other| other.guard.at == at) {
            if other.at != route.target && other.allowed.iter().any(|host| route.allowed.contains(host)) {
                return Err(std::io::ErrorKind::AddrInUse.into());
            }
            shared = Some(Arc::clone(&other.guard));
        }
        let guard = shared.map_or_else(|| Guard::new(at).map(Arc::new), Ok)?;
        Ok(Self { at: route.target, allowed: route.allowed.clone(), guard })
    }
}

/// One that runs here.
#[derive(Debug)]
pub(crate) struct LocalForward {
    child: Child,
    /// Readable when it has ended.
    pub(crate) pidfd: OwnedFd,
    end_point: Option<EndPoint>,
    /// The socket that it has, until it is to take no more connections.
    listener: Option<TcpListener>,
    /// It is told here that somebody is about to connect.
    told: OwnedFd,
}

impl LocalForward {
    /// Starts it: where it listens.
    pub(crate) fn start<'f>(
        route: &Route,
        others: impl Iterator<Item = &'f Self>,
    ) -> std::io::Result<(Self, SocketAddr)> {
        let others = others.filter_map(|other| other.end_point.as_ref());
        let end_point = route.is_end_point.then(|| EndPoint::new(route, others)).transpose()?;
        let listener = listen(route.listen)?;
        let at = listener.local_addr()?;
        let allowed: Vec<String> = route.allowed.iter().map(ToString::to_string).collect();
        let mut command = Command::new(std::env::current_exe()?.with_file_name(PROGRAM));
        command.arg(WORD).arg(std::process::id().to_string()).arg(route.source.to_string());
        command.arg(route.target.to_string()).arg(allowed.join(","));
        command.arg(if route.is_end_point { IDLE_SECONDS_OF_PROGRAM } else { IDLE_SECONDS_OF_MANAGER });
        command.env_clear().current_dir("/").process_group(0);
        let (tells, told) = std::io::pipe()?;
        fcntl_setfl(&told, OFlags::NONBLOCK)?;
        let told = OwnedFd::from(told);
        command.stdin(OwnedFd::from(listener.try_clone()?)).stdout(tells).stderr(Stdio::null());
        shm::process::pass_on_no_descriptor()?;
        let mut child = command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK) {
            Ok(pidfd) => {
                let listener = Some(listener);
                Ok((Self { child, pidfd, end_point, listener, told }, at))
            }
            Err(errno) => {
                // Its end could not be noticed.
                let _ = child.kill();
                let _ = child.wait();
                Err(errno.into())
            }
        }
    }

    /// Somebody is about to connect: it waits for that as long as when it was new.
    pub(crate) fn renew(&self) {
        // A full pipe says the same.
        let _ = rustix::io::write(&self.told, &[1]);
    }

    /// No more connections are made to it. Its process finds that out, and ends when those that it has have
    /// ended.
    pub(crate) fn drain(&mut self) {
        if let Some(listener) = self.listener.take() {
            // One that has ended needs none.
            let _ = shutdown(&listener, Shutdown::Both);
        }
    }

    pub(crate) fn kill(&mut self) {
        // One that has ended needs none.
        let _ = self.child.kill();
    }

    /// Whether it has ended; then its number is free.
    pub(crate) fn reap(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Kills it and waits for its end, which a process without a terminal and without files does not put off.
    pub(crate) fn end(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_an_end_point_is_nobody_elses_on_this_host() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        assert!(Guard::new(at).is_err());
        drop(taken);
        let guard = Guard::new(at).unwrap();
        assert!(TcpListener::bind(at).is_err());
        drop(guard);
        assert!(TcpListener::bind(at).is_ok());
    }

    #[test]
    fn end_points_with_one_port_are_forwarded_to_different_hosts() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let forwarded = |owner: u8, host: u8, others: &[&EndPoint]| {
            let listen = IpAddr::from([127, 0, 0, 1]);
            let target = SocketAddr::new(ip(owner), port);
            let route = Route { listen, allowed: vec![ip(host)], source: listen, target, is_end_point: true };
            EndPoint::new(&route, others.iter().copied())
        };
        let first = forwarded(1, 2, &[]).unwrap();
        assert!(forwarded(3, 2, &[]).is_err(), "a port that is in use");
        let again = forwarded(1, 2, &[&first]).unwrap();
        let back = forwarded(2, 1, &[&first, &again]).unwrap();
        let refused = forwarded(3, 2, &[&back, &first]).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse, "the host would take it for the first one");
        drop((first, again));
        assert!(TcpListener::bind(("127.0.0.1", port)).is_err());
        forwarded(3, 2, &[&back]).unwrap();
    }

    #[test]
    fn reserved_ports_are_known() {
        for (list, reserved) in
            [("", false), ("9149\n", true), ("1,9148-9150,7\n", true), ("1-9148,x,9150", false)]
        {
            assert_eq!(is_in(list, 9149), reserved, "{list}");
        }
    }

    #[test]
    fn a_forward_listens_at_no_port_that_a_program_is_given() {
        let given = |at: &TcpListener| at.local_addr().unwrap().port() % 2;
        let any = TcpListener::bind("127.0.0.1:0").unwrap();
        for _ in 0..8 {
            assert_ne!(given(&listen([127, 0, 0, 1].into()).unwrap()), given(&any));
        }
    }

    #[test]
    fn the_remains_of_forwarded_connections_keep_no_port() {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = "127.0.0.1".parse().unwrap();
        let (ended, from) = (crate::relay::connect_from(source, owner.local_addr().unwrap()), owner.accept());
        // Who ends first has them.
        drop(ended.unwrap());
        let (there, at) = from.unwrap();
        drop(there);
        let guard = Guard::new(at).unwrap();
        assert!(TcpListener::bind(at).is_err());
        drop(guard);
    }
}
