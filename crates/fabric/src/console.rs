//! Reads commands for a served fabric from a stream of lines and sends them to its control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Hands on lines until the stream ends or the server is gone. Responses come as events of the server.
///
/// # Errors
/// The control socket can't be reached.
pub fn hand_on(lines: impl BufRead, control: &Path) -> std::io::Result<()> {
    let stream = UnixStream::connect(control)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    for line in lines.split(b'\n') {
        let line = line?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        stream.write_all(&line)?;
        stream.write_all(b"\n")?;
        // The response is waited for, so that many lines at once do not overrun the server.
        let mut answer = Vec::new();
        if answers.read_until(b'\n', &mut answer)? == 0 {
            return Ok(());
        }
    }
    Ok(())
}
