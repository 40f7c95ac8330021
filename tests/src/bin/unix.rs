//! UNIX sockets, for tests: `listen NAME` says `ready` and listens until its input ends, `connect NAME` says
//! whether somebody does. A name is a path, or one of the abstract names after `@`.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [order, name] = arguments.as_slice() else { bail!("`listen NAME` or `connect NAME`") };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    match order.as_str() {
        "listen" => {
            let _listener = UnixListener::bind_addr(&address)?;
            say("ready")?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
            Ok(())
        }
        "connect" => match UnixStream::connect_addr(&address) {
            Ok(_) => say("connected"),
            Err(error) => say(&format!("error: {error}")),
        },
        _ => bail!("`listen NAME` or `connect NAME`"),
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
