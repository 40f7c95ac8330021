//! The kernel's transports: TCP over loopback, UNIX stream sockets, pipes.

use std::{
    io::{PipeReader, PipeWriter, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
};

use super::{Link, Pair, SMALL_BYTES, carried};
use crate::{
    error::{BenchError, Result},
    poll::ANSWER_TIMEOUT,
};

/// A connected stream.
#[derive(Debug)]
pub struct Stream<S>(S);

/// A socket of which the kernel may count the bytes.
pub trait Counted {
    /// The bytes that it has carried so far, both directions; `None` if it does not report them.
    fn kernel_bytes(&self) -> Option<u64>;
}

impl Counted for TcpStream {
    fn kernel_bytes(&self) -> Option<u64> {
        carried::kernel_bytes(self)
    }
}

impl Counted for UnixStream {
    fn kernel_bytes(&self) -> Option<u64> {
        None
    }
}

impl<S: Counted + Send + Sync> Link for Stream<S>
where
    for<'a> &'a S: Read + Write,
{
    fn send(&self, number: u64) -> Result<()> {
        (&self.0).write_all(&small(number)).map_err(BenchError::io("writing to a socket"))
    }

    fn receive(&self, number: u64) -> Result<()> {
        let mut message = [0; SMALL_BYTES];
        (&self.0).read_exact(&mut message).map_err(BenchError::io("reading from a socket"))?;
        expect(message, number)
    }

    fn carries_blocks(&self) -> bool {
        true
    }

    fn send_block(&self, _number: u64, block: &[u8]) -> Result<()> {
        (&self.0).write_all(block).map_err(BenchError::io("writing to a socket"))
    }

    fn receive_block(&self, _number: u64, into: &mut [u8]) -> Result<()> {
        (&self.0).read_exact(into).map_err(BenchError::io("reading from a socket"))
    }

    fn kernel_bytes(&self) -> Option<u64> {
        self.0.kernel_bytes()
    }
}

fn small(number: u64) -> [u8; SMALL_BYTES] {
    (number as u32).to_le_bytes()
}

fn expect(message: [u8; SMALL_BYTES], number: u64) -> Result<()> {
    if message == small(number) {
        return Ok(());
    }
    Err(BenchError::OtherEnd {
        what: "a rival",
        reason: format!("message {} came instead of {}", u32::from_le_bytes(message), number as u32),
    })
}

/// Its name.
pub(super) const TCP: &str = "TCP, loopback";
/// Its name with the ends on two hosts.
pub(super) const TCP_BETWEEN_HOSTS: &str = "TCP, between hosts";
/// Its name.
pub(super) const UNIX: &str = "UNIX socket";

/// A connected TCP stream: small messages are sent at once, and a wait ends with an error if the
/// other end has given up.
pub(super) fn tcp_stream(stream: TcpStream) -> Result<Stream<TcpStream>> {
    let set = || {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))
    };
    set().map_err(BenchError::io("setting up TCP"))?;
    Ok(Stream(stream))
}

/// A connected UNIX stream, with the same timeout.
pub(super) fn unix_stream(stream: UnixStream) -> Result<Stream<UnixStream>> {
    let set = || {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))
    };
    set().map_err(BenchError::io("setting up a UNIX socket"))?;
    Ok(Stream(stream))
}

/// TCP over the loopback interface, small messages sent at once (TCP_NODELAY).
pub fn tcp() -> Result<Pair<Stream<TcpStream>>> {
    let connect = || -> std::io::Result<[TcpStream; 2]> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        Ok([near, far])
    };
    let [near, far] = connect().map_err(BenchError::io("connecting TCP over the loopback interface"))?;
    Ok(Pair::new(TCP, tcp_stream(near)?, tcp_stream(far)?))
}

/// A pair of UNIX stream sockets.
pub fn unix() -> Result<Pair<Stream<UnixStream>>> {
    let (near, far) = UnixStream::pair().map_err(BenchError::io("making a pair of UNIX sockets"))?;
    Ok(Pair::new(UNIX, unix_stream(near)?, unix_stream(far)?))
}

/// One end of two pipes.
#[derive(Debug)]
pub struct Pipes {
    input: PipeReader,
    output: PipeWriter,
}

impl Link for Pipes {
    fn send(&self, number: u64) -> Result<()> {
        (&self.output).write_all(&small(number)).map_err(BenchError::io("writing to a pipe"))
    }

    fn receive(&self, number: u64) -> Result<()> {
        let mut message = [0; SMALL_BYTES];
        (&self.input).read_exact(&mut message).map_err(BenchError::io("reading from a pipe"))?;
        expect(message, number)
    }

    fn carries_blocks(&self) -> bool {
        true
    }

    fn send_block(&self, _number: u64, block: &[u8]) -> Result<()> {
        (&self.output).write_all(block).map_err(BenchError::io("writing to a pipe"))
    }

    fn receive_block(&self, _number: u64, into: &mut [u8]) -> Result<()> {
        (&self.input).read_exact(into).map_err(BenchError::io("reading from a pipe"))
    }
}

/// A pipe each way.
pub fn pipe() -> Result<Pair<Pipes>> {
    let make = || std::io::pipe().map_err(BenchError::io("making a pipe"));
    let ((near_in, far_out), (far_in, near_out)) = (make()?, make()?);
    Ok(Pair::new(
        "pipe",
        Pipes { input: near_in, output: near_out },
        Pipes { input: far_in, output: far_out },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_out_of_turn_is_an_error() {
        expect(small(7), 7).unwrap();
        let error = expect(small(6), 7).unwrap_err().to_string();
        assert!(error.contains("6 came instead of 7"), "{error}");
    }
}
