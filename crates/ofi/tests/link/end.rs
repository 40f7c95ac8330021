//! Two processes with an end point each, on loopback or in network namespaces of their own.
//!
//! Namespaces have no name: they and their interfaces vanish with their processes, which end with their
//! input, so with the test, however it ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ofi::EndpointCard;

/// Ends a test that hangs; no duration is asserted.
const WATCHDOG: Duration = Duration::from_secs(240);
const END: &str = env!("CARGO_BIN_EXE_ofi-peer");

/// Where the two ends are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Loopback,
    /// Joined by a veth pair.
    Namespaces,
}

/// A process that obeys.
pub(crate) struct End {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    pub(crate) card: String,
    pub(crate) provider: String,
}

impl Drop for End {
    fn drop(&mut self) {
        // It ends with its input, which has to be waited for, for provider `shm` gives its memory a name; but
        // not forever.
        drop(self.input.take());
        for _ in 0..500 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What a killed one has left.
        let own = format!("{}:", self.child.id());
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&own) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

impl End {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (answer_tx, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = answer_tx.send(line);
            }
        });
        Self { child, input, answers, card: String::new(), provider: String::new() }
    }

    /// On this machine as it is.
    pub(crate) fn here() -> Self {
        Self::start(&mut Command::new(END))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// The answer to the oldest line that was not answered.
    pub(crate) fn answer(&mut self) -> Result<String, String> {
        let line = self.answers.recv_timeout(WATCHDOG).expect("an end hangs or has died");
        match line.strip_prefix("ok") {
            Some(said) => Ok(said.trim().to_owned()),
            None => Err(line.trim_start_matches("error ").to_owned()),
        }
    }

    pub(crate) fn try_ask(&mut self, line: &str) -> Result<String, String> {
        self.send(line);
        self.answer()
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.try_ask(line).unwrap_or_else(|error| panic!("`{line}`: {error}"))
    }

    /// Opens an end point; the error is what the process says.
    fn open(&mut self, provider: &str, source: &str, limit_ms: u64) -> Result<(), String> {
        let said = self.try_ask(&format!("open {provider} {source} {limit_ms}"))?;
        let words: Vec<&str> = said.split(' ').collect();
        (self.card, self.provider) = (words[0].to_owned(), words[1].to_owned());
        Ok(())
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The port of a provider whose addresses are those of IPv4.
    pub(crate) fn port(&self) -> u16 {
        let digits = |at: usize| u8::from_str_radix(&self.card[2 * at..2 * at + 2], 16).unwrap();
        let card: Vec<u8> = (0..self.card.len() / 2).map(digits).collect();
        let address = EndpointCard::from_bytes(&card).unwrap().address;
        u16::from_be_bytes([address[2], address[3]])
    }
}

/// Two ends that know each other: `a` reaches memory of `b`.
pub(crate) struct Pair {
    pub(crate) a: End,
    pub(crate) b: End,
}

pub(crate) const MEMORY_BYTES: usize = 20 << 20;

impl Pair {
    /// `None` if this machine cannot: the reason is printed.
    pub(crate) fn open(provider: &str, place: Place, limit_ms: u64) -> Option<Self> {
        let mut pair = Self::apart(provider, place, limit_ms)?;
        let (card_a, card_b) = (pair.a.card.clone(), pair.b.card.clone());
        pair.a.ask(&format!("connect {card_b} 4711"));
        pair.b.ask(&format!("connect {card_a} 4711"));
        let memory = pair.b.ask(&format!("export {MEMORY_BYTES}"));
        pair.a.ask(&format!("memory {memory}"));
        Some(pair)
    }

    /// With open end points that do not know each other.
    pub(crate) fn apart(provider: &str, place: Place, limit_ms: u64) -> Option<Self> {
        let (mut pair, sources) = match place {
            Place::Loopback => (Self { a: End::here(), b: End::here() }, ["127.0.0.1"; 2]),
            Place::Namespaces => (in_namespaces()?, ["10.11.12.1", "10.11.12.2"]),
        };
        for (end, source) in [&mut pair.a, &mut pair.b].into_iter().zip(sources) {
            let source = if provider == "shm" { "-" } else { source };
            if let Err(error) = end.open(provider, source, limit_ms) {
                println!("skipped: {error}");
                return None;
            }
        }
        Some(pair)
    }
}

fn in_namespaces() -> Option<Pair> {
    if !Command::new("unshare").args(["--net", "true"]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: only root can make network namespaces");
        return None;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        println!("skipped: the program `ip` is not installed (package iproute2)");
        return None;
    }
    let start = || {
        let mut end = End::start(Command::new("unshare").args(["--net", END]));
        // It is in its namespace when it answers.
        let _ = end.try_ask("counters");
        end
    };
    let (a, b) = (start(), start());
    let (pid_a, pid_b) = (a.pid().to_string(), b.pid().to_string());
    run(&["ip", "link", "add", "va", "netns", &pid_a, "type", "veth", "peer", "name", "vb", "netns", &pid_b]);
    for (pid, name, address) in [(&pid_a, "va", "10.11.12.1/24"), (&pid_b, "vb", "10.11.12.2/24")] {
        let inside =
            |arguments: &[&str]| run(&[&["nsenter", "--net", "--target", pid, "ip"], arguments].concat());
        inside(&["address", "add", address, "dev", name]);
        inside(&["link", "set", name, "up"]);
        inside(&["link", "set", "lo", "up"]);
    }
    Some(Pair { a, b })
}

fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
