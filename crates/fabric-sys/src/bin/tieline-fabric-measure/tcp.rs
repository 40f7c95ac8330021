//! The same echo over a TCP socket, by blocking calls: what the kernel alone takes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fabric_sys::bare::BareError;

const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Default)]
pub(crate) struct Tcp {
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
}

impl Tcp {
    /// Listens at an address; returns the port.
    pub(crate) fn listen(&mut self, address: &str) -> Result<String, BareError> {
        let listener = TcpListener::bind((address, 0))?;
        let port = listener.local_addr()?.to_string();
        self.listener = Some(listener);
        Ok(port)
    }

    pub(crate) fn connect(&mut self, address: &str) -> Result<String, BareError> {
        let stream = TcpStream::connect(address)?;
        self.stream = Some(prepared(stream)?);
        Ok("done".to_owned())
    }

    fn stream(&mut self) -> Result<&mut TcpStream, BareError> {
        if let Some(listener) = self.listener.take() {
            self.stream = Some(prepared(listener.accept()?.0)?);
        }
        self.stream.as_mut().ok_or_else(|| "there is no connection yet".into())
    }

    /// Half the time of a round trip, in ns.
    pub(crate) fn echo(&mut self, rounds: u64) -> Result<f64, BareError> {
        let (stream, mut bytes) = (self.stream()?, [0; 8]);
        let started = Instant::now();
        for _ in 0..rounds {
            stream.write_all(&bytes)?;
            stream.read_exact(&mut bytes)?;
        }
        Ok(started.elapsed().as_nanos() as f64 / (2 * rounds.max(1)) as f64)
    }

    pub(crate) fn answer(&mut self, rounds: u64) -> Result<(), BareError> {
        let (stream, mut bytes) = (self.stream()?, [0; 8]);
        for _ in 0..rounds {
            stream.read_exact(&mut bytes)?;
            stream.write_all(&bytes)?;
        }
        Ok(())
    }
}

fn prepared(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GIVE_UP_AFTER))?;
    Ok(stream)
}
