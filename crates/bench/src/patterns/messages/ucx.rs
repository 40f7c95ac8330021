//! UCX's own benchmark, `ucx_perftest`, over shared memory.

use std::{process::Command, sync::Arc, time::Duration};

use super::Load;
use crate::{
    error::{BenchError, Result},
    patterns::programs::{Room, Running, find, free_port},
    progress::Waiter,
};

/// The program, and Debian's package of it.
const PROGRAM: (&str, &str) = ("ucx_perftest", "ucx-utils");
/// All of UCX's transports by shared memory, cross-memory attach among them: it chooses by size.
const TRANSPORTS: (&str, &str) = ("UCX_TLS", "sm,self");
const START: Duration = Duration::from_secs(20);
const READING: Duration = Duration::from_secs(40);
/// Messages that are not counted, as a part of those that are.
const WARM_UP_PART: u64 = 16;
/// Numbers of its last line.
const NUMBERS: usize = 8;

/// Starts a server and a client for each reading.
pub struct Ucx {
    cpus: [usize; 2],
    waiter: Arc<dyn Waiter>,
    room: Room,
}

impl Ucx {
    /// # Errors
    /// It is not installed.
    pub fn new(cpus: [usize; 2], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        find(PROGRAM)?;
        Ok(Self { cpus, waiter: Arc::clone(waiter), room: Room::new()? })
    }

    /// The command line of its client, at a port that is not known before.
    pub fn argv(load: Load) -> Vec<String> {
        std::iter::once(PROGRAM.0.to_owned()).chain(arguments(load, 0)).collect()
    }

    /// Its version, as its own program prints it; empty if that is not there.
    pub fn version() -> String {
        let said = Command::new("ucx_info").arg("-v").output().map(|output| output.stdout);
        let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
        let version = said.lines().find_map(|line| line.split("ersion ").nth(1));
        version.unwrap_or_default().trim().to_owned()
    }

    pub(super) fn reading(&self, load: Load) -> Result<f64> {
        let port = free_port()?;
        let program = find(PROGRAM)?;
        let command = |arguments: Vec<String>| {
            let mut command = Command::new(&program);
            command.args(arguments).env(TRANSPORTS.0, TRANSPORTS.1);
            command
        };
        let server = command(vec!["-p".to_owned(), port.to_string()]);
        let server = Running::start(server, "ucx-server", self.room.path(), self.cpus[0])?;
        server.wait_for(port, START, &self.waiter)?;
        let client = command(arguments(load, port));
        let client = Running::start(client, "ucx-client", self.room.path(), self.cpus[1])?;
        let said = client.finish(READING, &self.waiter)?;
        value(load, &said).ok_or_else(|| BenchError::OtherEnd {
            what: super::WHAT,
            reason: format!("{} printed no result: {said}", PROGRAM.0),
        })
    }
}

/// Of the client. `-f`: only the last line has numbers.
fn arguments(load: Load, port: u16) -> Vec<String> {
    let test = if matches!(load, Load::Echo { .. }) { "tag_lat" } else { "tag_bw" };
    let (count, size_bytes) = (load.count(), load.size_bytes());
    format!("127.0.0.1 -p {port} -t {test} -s {size_bytes} -n {count} -w {} -f", count / WARM_UP_PART)
        .split(' ')
        .map(ToOwned::to_owned)
        .collect()
}

/// Of the whole run: half a round trip in ns, messages in millions a second, or GB/s. Its times have three
/// digits only, so the number of messages a second is used instead.
fn value(load: Load, said: &str) -> Option<f64> {
    let line = said.lines().rev().find(|line| !line.trim().is_empty())?;
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let per_second = *numbers.get(NUMBERS - 1).filter(|_| numbers.len() == NUMBERS)?;
    let is_a_rate = per_second.is_finite() && per_second > 0.0;
    is_a_rate.then(|| match load {
        Load::Echo { .. } | Load::Pairs { .. } | Load::Allreduce { .. } => 1e9 / per_second,
        Load::Rate { .. } => per_second / 1e6,
        // Long messages are few a second: its own bandwidth has more digits, in MiB a second.
        Load::Stream { .. } => numbers[NUMBERS - 3] * f64::from(1 << 20) / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ucx_perftest 1.13.1.
    const ECHO: &str = "\
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                     1000000      0.164     0.165     0.165       46.15      46.15     6048437     6048437
";
    const LONG: &str = "                         300      1.313   275.284   275.284     3632.62    3632.62        3633        3633\n";

    #[test]
    fn its_last_line_is_read() {
        let echo = value(Load::Echo { size_bytes: 8 }, ECHO).unwrap();
        assert!((echo - 165.332).abs() < 1e-3, "{echo}");
        assert_eq!(value(Load::Rate { tags: 1 }, ECHO), Some(6.048437));
        let long = value(Load::Stream { size_bytes: 1 << 20, is_cold: false }, LONG).unwrap();
        assert!((long - 3.80908).abs() < 1e-5, "{long}");
        for nonsense in ["", "error: no transport", "1 2 3", "1 2 3 4 5 6 7 0"] {
            assert_eq!(value(Load::Rate { tags: 1 }, nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn its_command_line_says_what_is_measured() {
        let line = Ucx::argv(Load::Stream { size_bytes: 1 << 20, is_cold: false }).join(" ");
        assert_eq!(line, "ucx_perftest 127.0.0.1 -p 0 -t tag_bw -s 1048576 -n 512 -w 32 -f");
        let line = Ucx::argv(Load::Echo { size_bytes: 8 }).join(" ");
        assert_eq!(line, "ucx_perftest 127.0.0.1 -p 0 -t tag_lat -s 8 -n 100000 -w 6250 -f");
    }
}
