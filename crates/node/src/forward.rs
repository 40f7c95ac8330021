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

/// One that runs here.
#[derive(Debug)]
pub(crate) struct LocalForward {
    child: Child,
    /// Readable when it has ended.
    pub(crate) pidfd: OwnedFd,
    target: SocketAddr,
    guard: Option<Arc<Guard>>,
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
        let guard = if route.is_end_point { Some(Self::guard(route, others)?) } else { None };
        let listener = TcpListener::bind((route.listen, 0))?;
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
                Ok((Self { child, pidfd, target: route.target, guard, listener, told }, at))
            }
            Err(errno) => {
                // Its end could not be noticed.
                let _ = child.kill();
                let _ = child.wait();
                Err(errno.into())
            }
        }
    }

    /// The port of the end point on this host, which one forward of that end point shares with another.
    fn guard<'f>(route: &Route, others: impl Iterator<Item = &'f Self>) -> std::io::Result<Arc<Guard>> {
        let at = SocketAddr::new(route.listen, route.target.port());
        let mut same = others.filter(|other| other.target == route.target);
        let shared = same.find_map(|other| other.guard.as_ref().filter(|guard| guard.at == at));
        match shared {
            Some(guard) => Ok(Arc::clone(guard)),
            None => Ok(Arc::new(Guard::new(at)?)),
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
