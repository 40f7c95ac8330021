//! The socket on which commands are taken.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use foreign::{Closer, Foreign};
use mad::TransportError;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{Event, Server, Source, command, watch};

/// Longest command.
const MOST_BYTES: usize = 4096;
/// Commanders at once.
const MOST_LINES: usize = 64;

/// The socket, and who is connected to it.
#[derive(Debug)]
pub(super) struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
    lines: BTreeMap<u32, Line>,
    next: u32,
    closer: Closer,
}

/// A connection for commands, and the bytes of its next command.
type Line = (Foreign<Stream>, Vec<u8>);

/// A connection that can be given to a closer.
#[derive(Debug)]
struct Stream(UnixStream);

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> Self {
        stream.0.into()
    }
}

impl ControlSocket {
    pub(super) fn new(path: &Path, closer: &Closer) -> Result<Self, TransportError> {
        let failed = |cause| TransportError::Io {
            what: format!("create the control socket {}", path.display()),
            cause,
            next: "name a path that does not exist yet, in a directory that you may write to",
        };
        // Left behind by a server that was killed: no process listens.
        if is_deserted(path) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        // Only this user and root may send commands; anything that comes with them is ignored.
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        foreign::refuse_descriptors(&listener, true);
        let closer = closer.clone();
        Ok(Self { path: path.to_owned(), listener, lines: BTreeMap::new(), next: 0, closer })
    }

    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Whether there is a socket on which no process listens. Asked without waiting: a listener need not accept.
/// A file that is no socket refuses in the same way (connect(2)), and is somebody's.
fn is_deserted(path: &Path) -> bool {
    if !is_socket(path) {
        return false;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    SocketAddrUnix::new(path).is_ok_and(|address| connect(&socket, &address) == Err(Errno::CONNREFUSED))
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket())
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Another process may have replaced it by another file.
        if is_socket(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Server {
    pub(super) fn accept_line(&mut self) -> Result<(), TransportError> {
        let Some(commands) = self.commands.as_mut() else { return Ok(()) };
        let Ok((stream, _)) = commands.listener.accept() else { return Ok(()) };
        let uid = foreign::peer_uid(&stream);
        let stream = Foreign::new(Stream(stream), uid, &commands.closer);
        if commands.lines.len() >= MOST_LINES || stream.0.set_nonblocking(true).is_err() {
            return Ok(());
        }
        let number = commands.next;
        commands.next = commands.next.wrapping_add(1);
        let watched = watch(&self.epoll, &stream.0, Source::Line(number));
        commands.lines.insert(number, (stream, Vec::new()));
        watched
    }

    pub(super) fn read_line(&mut self, number: u32, event: &mut dyn FnMut(Event)) {
        let Some((stream, so_far)) =
            self.commands.as_mut().and_then(|commands| commands.lines.get_mut(&number))
        else {
            return;
        };
        let mut bytes = [0; 1024];
        let ended = match (&stream.0).read(&mut bytes) {
            Ok(0) => true,
            Ok(len) => {
                so_far.extend_from_slice(bytes.get(..len).unwrap_or_default());
                false
            }
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let mut lines = Vec::new();
        while let Some(end) = so_far.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = so_far.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
        let too_long = so_far.len() > MOST_BYTES;
        for line in lines {
            let answer = self.command(&line);
            event(Event::Command { line, answer: answer.clone() });
            self.say(number, &answer);
        }
        if too_long {
            self.say(number, "error: the line is too long: a command has at most 4096 bytes");
        }
        if (ended || too_long)
            && let Some(commands) = self.commands.as_mut()
            && let Some((stream, _)) = commands.lines.remove(&number)
        {
            // It is closed later, and nothing more of it is wanted.
            let _ = epoll::delete(&self.epoll, &stream.0);
            let _ = stream.0.shutdown(std::net::Shutdown::Both);
        }
    }

    /// One who does not read its responses loses them.
    fn say(&mut self, number: u32, answer: &str) {
        let lines = self.commands.as_mut().map(|commands| &mut commands.lines);
        if let Some((stream, _)) = lines.and_then(|lines| lines.get_mut(&number)) {
            // Names and commands are the words of others, and who asks may be a terminal.
            let _ = (&stream.0).write_all(format!("{}\n", mad::text::plain(answer)).as_bytes());
        }
    }

    fn command(&mut self, line: &str) -> String {
        match command::Command::parse(line) {
            Ok(None) => "ok".to_owned(),
            Ok(Some(command::Command::Quit)) => {
                self.quit = true;
                "ok".to_owned()
            }
            Ok(Some(command::Command::Clients)) => {
                let said = self.clients.by_number.iter().map(|(number, client)| {
                    let node = self.agents.graph().owner(client.port);
                    let sm = if client.is_sm { " sm" } else { "" };
                    format!("{number} at \"{}\"{sm}; ", self.agents.description(node))
                });
                format!("ok {}", said.collect::<String>())
            }
            Ok(Some(command)) => command.obey(&mut self.agents).unwrap_or_else(|why| format!("error: {why}")),
            Err(why) => format!("error: {why}"),
        }
    }
}
