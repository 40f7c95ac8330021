//! TCP between the two hosts of `latency`, by the addresses of their first rails.
//!
//! The server listens for one client, at a port that the kernel chooses; a number that only the client is
//! told proves that the one that connects is it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use tieline::Node;

use super::kernel::{self, Stream};
use crate::{
    error::{BenchError, Result},
    patterns::rendezvous::Mailbox,
};

/// How long the client tries to connect: a firewall may say nothing.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long one that has connected may take to say the number.
const NUMBER_LIMIT: Duration = Duration::from_secs(1);

/// The server's listener, and the number.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    number: u64,
}

impl Listening {
    /// Listens, and leaves the client the address and the number. None without an address of the internet.
    pub(super) fn new(node: &Node, mailbox: Mailbox<'_>) -> Result<Option<Self>> {
        let Some(rail) = node.info().rails.first().copied() else { return Ok(None) };
        let listen = || -> std::io::Result<(TcpListener, SocketAddr)> {
            let listener = TcpListener::bind((rail, 0))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(BenchError::io("listening for the client"))?;
        let number =
            ofi::random_u64().map_err(|error| BenchError::Usage(format!("a random number: {error}")))?;
        mailbox.leave(&format!("{address} {number:x}"))?;
        Ok(Some(Self { listener, number }))
    }

    /// The stream of the client; none of a stranger.
    pub(super) fn is_client(&self, stream: TcpStream) -> std::io::Result<Option<TcpStream>> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(NUMBER_LIMIT))?;
        let mut number = [0; 8];
        let said = (&stream).read_exact(&mut number);
        Ok((said.is_ok() && u64::from_le_bytes(number) == self.number).then_some(stream))
    }
}

/// Connects to what the server has left; else why not, in words.
pub(super) fn connect(left: &str) -> std::result::Result<Stream<TcpStream>, String> {
    let (address, number) = left.split_once(' ').ok_or("the server named no address")?;
    let address: SocketAddr = address.parse().map_err(|_| "the server named no address")?;
    let number = u64::from_str_radix(number, 16).map_err(|_| "the server named no number")?;
    let connect = || -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        (&stream).write_all(&number.to_le_bytes())?;
        Ok(stream)
    };
    let stream = connect().map_err(|error| format!("{address} cannot be connected to: {error}"))?;
    kernel::tcp_stream(stream).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_leaves_is_checked() {
        for left in ["", "10.0.0.1:80", "nowhere 7", "127.0.0.1:80 x"] {
            assert!(connect(left).unwrap_err().contains("the server named no"), "{left}");
        }
    }

    #[test]
    fn a_port_that_cannot_be_reached_is_named() {
        let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let why = connect(&format!("{address} 7")).unwrap_err();
        assert!(why.starts_with(&format!("{address} cannot be connected to: ")), "{why}");
    }

    #[test]
    fn only_who_knows_the_number_is_the_client() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let listening = Listening { listener, number: 0xabc };
        let accepted = |said: &str| {
            let stream = connect(&format!("{address} {said}")).unwrap();
            let (accepted, _) = listening.listener.accept().unwrap();
            let is_client = listening.is_client(accepted).unwrap().is_some();
            drop(stream);
            is_client
        };
        assert!(accepted("abc") && !accepted("abd"));
        let silent = TcpStream::connect(address).unwrap();
        let (accepted, _) = listening.listener.accept().unwrap();
        drop(silent);
        assert!(listening.is_client(accepted).unwrap().is_none());
    }
}
