//! The processes and addresses that statistics belong to, as the kernel knows them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::layout::Reason;
use crate::statistics::{self, Counted, Moved, Result};
use crate::{kernel, layout};

mod met;

pub use met::MET;

/// What is known of all processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// One a process.
    pub processes: Vec<Process>,
    /// Connections on TCP, by reason, of all processes.
    pub reasons: Vec<Tally>,
}

/// A number of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The event that is counted.
    pub what: &'static str,
    /// The number of them.
    pub count: u64,
}

/// Bytes that went through the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Through {
    /// The reason.
    pub what: &'static str,
    /// The bytes.
    #[serde(flatten)]
    pub moved: Moved,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// What its program is called; empty if it has ended.
    pub name: String,
    /// Whether it runs and still has these statistics.
    pub running: bool,
    /// Connections that it has used, the closed ones too.
    pub connections: u64,
    /// Those of them that are only counted together.
    pub unrecorded: u64,
    /// What its calls have moved on all of them.
    pub moved: Moved,
    /// Of those bytes, how many the kernel never carried: what was taken from rings, and what was put there
    /// and not handed back.
    pub through_memory: Moved,
    /// Both ways together.
    pub bytes_past_kernel: u64,
    /// The others, by the reason why.
    pub through_kernel: Vec<Through>,
    /// Why connections were on TCP.
    pub reasons: Vec<Tally>,
    /// What it did that matters to a faster way.
    pub notes: Vec<Tally>,
    /// Connections that are open.
    pub open: Vec<Connection>,
}

/// A connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connection {
    /// Its descriptor.
    pub fd: u32,
    /// Its socket's cookie, the same in all processes.
    pub cookie: u64,
    /// This end, if the kernel tells.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: Option<SocketAddr>,
    /// Why it is on TCP; [`MET`] if it has rings and no byte went through them.
    pub reason: &'static str,
    /// Of such a connection: the processor that both ends have to share, as they may run on no other; none if
    /// there are more, or it is not known.
    pub only_processor: Option<u32>,
    /// What the process's calls have moved on it.
    pub moved: Moved,
    /// What the kernel has carried of it, in its whole life, for all holders; none if it does not tell.
    pub kernel: Option<Moved>,
}

/// Reads a file, and asks the kernel about those who wrote it. With `ended`, also those who are no more.
pub fn report(path: &Path, ended: bool) -> Result<Report> {
    let inode = std::fs::metadata(path).map(|metadata| metadata.ino()).unwrap_or(0);
    let counted = statistics::read(path)?;
    // Without them there are the ends that the kernel's tables name, and no bytes of what is open.
    let connections = kernel::connections().unwrap_or_default();
    let connections = connections.into_iter().map(|it| (it.cookie, it)).collect();
    let kept = kept_in_rings(&counted);
    let mut processes: Vec<Process> = counted
        .into_iter()
        .zip(kept)
        .map(|(it, kept)| process(it, kept, inode, &connections))
        .filter(|it| ended || it.running)
        .collect();
    met::find_processors(&mut processes);
    let reasons = tally(processes.iter().flat_map(|process| process.reasons.clone()));
    Ok(Report { processes, reasons })
}

fn tally(all: impl Iterator<Item = Tally>) -> Vec<Tally> {
    let mut sums: Vec<Tally> = Vec::new();
    for one in all {
        match sums.iter_mut().find(|sum| sum.what == one.what) {
            Some(sum) => sum.count = sum.count.saturating_add(one.count),
            None => sums.push(one),
        }
    }
    sums
}

/// Of what each process has put into rings, how much was not handed back. Another holder of a connection may
/// have done that: then it is taken from what the process had that has most left, so that the sum is right.
fn kept_in_rings(counted: &[Counted]) -> Vec<u64> {
    let mut kept: Vec<u64> =
        counted.iter().map(|it| it.rings.bytes_out.saturating_sub(it.returned)).collect();
    let for_others = counted.iter().map(|it| it.returned.saturating_sub(it.rings.bytes_out));
    let mut owed = for_others.fold(0, u64::saturating_add);
    while owed > 0 {
        let Some(most) = kept.iter_mut().max().filter(|most| **most > 0) else { break };
        let part = owed.min(*most);
        *most -= part;
        owed -= part;
    }
    kept
}

/// What went through the kernel for this reason; beside a ring some of it did because its reader slept.
fn through(reason: Reason, moved: Moved, asleep: u64) -> Vec<Through> {
    let asleep = if reason == Reason::Memory { asleep.min(moved.bytes_out) } else { 0 };
    let others = Moved { bytes_out: moved.bytes_out - asleep, ..moved };
    let slept = Moved { bytes_in: 0, bytes_out: asleep };
    vec![Through { what: reason.of_bytes(), moved: others }, Through { what: READER_SLEPT, moved: slept }]
}

/// In place of a reason: bytes that were written beside a ring, because their reader slept.
pub const READER_SLEPT: &str = "its reader slept";
/// In place of a reason: bytes that were put into a ring and given to the kernel then.
pub const HANDED_BACK: &str = "handed back";

fn process(
    counted: Counted,
    kept: u64,
    inode: u64,
    connections: &BTreeMap<u64, kernel::Connection>,
) -> Process {
    let running = is_running(counted.pid, inode);
    let open: Vec<Connection> = if running {
        // Only of processes in another network these are asked for.
        let sockets = OnceCell::new();
        let sockets = || sockets.get_or_init(|| sockets_of(counted.pid)).as_slice();
        counted
            .open
            .iter()
            // What the program before had open may be closed now.
            .filter(|it| !counted.left || connections.contains_key(&it.cookie))
            .map(|it| connection(counted.pid, *it, connections.get(&it.cookie), sockets))
            .collect()
    } else {
        Vec::new()
    };
    let bytes_past_kernel = counted.rings.bytes_in.saturating_add(kept);
    let met = open.iter().filter(|it| it.reason == MET).count() as u64;
    let handed_back = Moved { bytes_in: 0, bytes_out: counted.rings.bytes_out - kept };
    let by_reason = counted.kernel.iter().flat_map(|&(it, moved)| through(it, moved, counted.asleep));
    let handed_back = Through { what: HANDED_BACK, moved: handed_back };
    Process {
        pid: counted.pid,
        name: if running { name(counted.pid) } else { String::new() },
        running,
        connections: counted.connections,
        unrecorded: counted.unrecorded,
        moved: counted.kernel.iter().fold(counted.rings, |sum, (_, moved)| sum.and(*moved)),
        through_memory: Moved { bytes_in: counted.rings.bytes_in, bytes_out: kept },
        bytes_past_kernel,
        through_kernel: by_reason.chain([handed_back]).filter(|it| it.moved != Moved::default()).collect(),
        reasons: met::tallies(&counted.reasons, bytes_past_kernel, met),
        notes: counted
            .notes
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(it, count)| Tally { what: it.text(), count: *count })
            .collect(),
        open,
    }
}

/// Whether a process of this number runs and has the file mapped. The number alone may be another process's
/// by now. A process whose memory may not be looked at is believed, and so is each one where the kernel shows
/// no memory at all.
fn is_running(pid: u32, inode: u64) -> bool {
    match std::fs::read(format!("/proc/{pid}/maps")) {
        // Names in it may be of any bytes.
        Ok(maps) => maps.split(|byte| *byte == b'\n').any(|line| inode_of(line) == Some(inode)),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && !Path::new("/proc/self/maps").exists() =>
        {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let asked = pid.map(rustix::process::test_kill_process);
            matches!(asked, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
        }
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// The inode in a line of a process's table of mappings.
fn inode_of(line: &[u8]) -> Option<u64> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    std::str::from_utf8(words.nth(4)?).ok()?.parse().ok()
}

fn name(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn connection<'a>(
    pid: u32,
    counted: statistics::Connection,
    known: Option<&kernel::Connection>,
    sockets: impl Fn() -> &'a [Socket],
) -> Connection {
    let ends = known.map(|it| (it.local, it.remote)).or_else(|| {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{}", counted.fd)).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        sockets().iter().find(|socket| socket.inode == inode).map(|it| (it.local, it.remote))
    });
    let kernel = known.and_then(|it| it.bytes).map(|(bytes_in, bytes_out)| Moved { bytes_in, bytes_out });
    let reason = counted.reason.map_or("unknown", |reason| reason.text());
    Connection {
        fd: counted.fd,
        cookie: counted.cookie,
        local: ends.map(|(local, _)| local),
        remote: ends.map(|(_, remote)| remote),
        reason: if met::is_met(&counted, kernel) { MET } else { reason },
        only_processor: None,
        moved: counted.moved,
        kernel,
    }
}

/// A line of the kernel's table of connections.
#[derive(Debug, PartialEq)]
struct Socket {
    inode: u64,
    local: SocketAddr,
    remote: SocketAddr,
}

/// The connections of the process's network.
fn sockets_of(pid: u32) -> Vec<Socket> {
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")));
    tables
        .into_iter()
        .flatten()
        .flat_map(|table| table.lines().filter_map(socket).collect::<Vec<_>>())
        .collect()
}

fn socket(line: &str) -> Option<Socket> {
    let mut cells = line.split_whitespace().skip(1);
    let (local, remote) = (address(cells.next()?)?, address(cells.next()?)?);
    Some(Socket { inode: cells.nth(6)?.parse().ok()?, local, remote })
}

/// An address as the kernel prints it: words of 32 bits as they lie in memory, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for at in (0..ip.len()).step_by(8) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(&*bytes) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&*bytes).ok()?)),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

impl Report {
    /// Of one process alone.
    #[must_use]
    pub fn of(mut self, pid: u32) -> Self {
        self.processes.retain(|process| process.pid == pid);
        self.reasons = tally(self.processes.iter().flat_map(|process| process.reasons.clone()));
        self
    }

    /// One line a process.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.processes.is_empty() {
            return "no process that was started by `tieline run` uses a connection now\n".to_owned();
        }
        let mut text = format!(
            "{:>8}  {:<16} {:>6} {:>6} {:>14} {:>14}  connections\n",
            "process", "name", "open", "used", "bytes in", "bytes out"
        );
        for process in &self.processes {
            let because: Vec<String> = process
                .reasons
                .iter()
                .filter(|it| it.count > 0)
                .map(|it| format!("{} ({})", plain(it.what), it.count))
                .collect();
            let _ = writeln!(
                text,
                "{:>8}  {:<16} {:>6} {:>6} {:>14} {:>14}  {}",
                process.pid,
                if process.running { &process.name } else { "(ended)" },
                process.open.len(),
                process.connections,
                process.moved.bytes_in,
                process.moved.bytes_out,
                because.join(", ")
            );
        }
        if self.processes.len() >= layout::SLOTS {
            let _ = writeln!(text, "there is room for {} processes: others are not counted", layout::SLOTS);
        }
        text
    }

    /// Each process with its connections, and the reasons of all.
    #[must_use]
    pub fn details(&self) -> String {
        let mut text = String::new();
        for process in &self.processes {
            process.write(&mut text);
        }
        if self.processes.is_empty() {
            text.push_str(
                "no running process started by `tieline run` has used a connection; for ended processes: `tieline run --stats FILE`, \
                 then `tieline sockets stat --from FILE`\n",
            );
        }
        if self.reasons.iter().any(|it| it.count > 0) {
            text.push_str("connections by path, and why they are on TCP\n");
        }
        let rows = || self.reasons.iter().filter(|it| it.count > 0).map(|it| (plain(it.what), it.count));
        let width = rows().map(|(words, _)| words.len()).max().unwrap_or(0).max(33);
        for (words, count) in rows() {
            let _ = writeln!(text, "  {words:<width$} {count:>7}");
        }
        if self.reasons.iter().any(|it| it.count > 0 && it.what == MET) {
            text.push_str(
                "  (bytes go through memory while both ends run at once: give each a processor of its own)\n",
            );
        }
        text
    }
}

/// A reason in words for people. JSON keeps its own words, which scripts compare.
fn plain(what: &'static str) -> &'static str {
    const WORDS: [(&str, &str); 8] = [
        (Reason::NotYet.text(), "used fewer than 1,000 times"),
        (Reason::Alone.text(), "peer not found yet"),
        (Reason::NoOtherEnd.text(), "peer was not found"),
        (Reason::Unseen.text(), "used by calls or options that --rings does not support"),
        (
            Reason::Confined.text(),
            "program cannot use rings (seccomp filter, io_uring, memory shared with a process)",
        ),
        (Reason::OneProcessor.text(), "both ends may use only one and the same processor"),
        (Reason::Memory.of_bytes(), "although the connection has a ring"),
        (MET, "has rings, but all bytes went through the kernel"),
    ];
    WORDS.iter().find(|(short, _)| *short == what).map_or(what, |(_, words)| words)
}

/// Have the ends of a connection of this class met?
fn has_rings(what: &str) -> bool {
    what == MET || what == Reason::Memory.text()
}

impl Process {
    fn write(&self, text: &mut String) {
        let name = if self.running { &self.name } else { "(ended)" };
        let Moved { bytes_in, bytes_out } = self.moved;
        let _ = writeln!(text, "process {} {name}", self.pid);
        let _ = writeln!(
            text,
            "  {} connections used; in: {bytes_in} bytes; out: {bytes_out} bytes",
            self.connections
        );
        // Also of connections with rings that carried nothing: that is what the user wants to know.
        if self.bytes_past_kernel > 0 || self.reasons.iter().any(|it| it.count > 0 && has_rings(it.what)) {
            let Moved { bytes_in, bytes_out } = self.through_memory;
            let _ = writeln!(text, "  through memory: in {bytes_in}, out {bytes_out} of these bytes");
            for it in &self.through_kernel {
                let Moved { bytes_in, bytes_out } = it.moved;
                let _ = writeln!(
                    text,
                    "  through the kernel, {}: in {bytes_in}, out {bytes_out}",
                    plain(it.what)
                );
            }
        }
        for it in &self.open {
            let end = |end: Option<SocketAddr>| end.map_or("?".to_owned(), |end| end.to_string());
            let shared = it.only_processor.map_or_else(String::new, |processor| {
                format!(": both ends have processor {processor} alone, and never run at once")
            });
            let _ = writeln!(
                text,
                "  descriptor {}: {} - {}, in {}, out {} bytes; {}{}{shared}",
                it.fd,
                end(it.local),
                end(it.remote),
                it.moved.bytes_in,
                it.moved.bytes_out,
                if has_rings(it.reason) { "" } else { "on TCP: " },
                plain(it.reason)
            );
        }
        if self.unrecorded > 0 {
            let _ = writeln!(text, "  {} connections were counted together", self.unrecorded);
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {}: {}", note.what, note.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_prints_them() {
        assert_eq!(address("0100007F:1F90"), Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(address("00000000000000000000000001000000:0016"), Some("[::1]:22".parse().unwrap()));
        for wrong in ["", ":", "0100007F", "01:1", "zz00007F:1", "0100007F:zz"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
        let line = "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 12345 1 0 100";
        assert_eq!(socket(line).unwrap().inode, 12345);
    }

    #[test]
    fn a_mapping_with_any_name_is_found() {
        let line = b"7f00-7f01 rw-s 00000000 fd:00 4711                     /tmp/\xff\xfe a b (deleted)";
        assert_eq!(inode_of(line), Some(4711));
        assert_eq!((inode_of(b""), inode_of(b"1 2 3 4 x"), inode_of(b"1 2 3")), (None, None, None));
    }

    #[test]
    fn what_is_empty_says_so() {
        let none = Report::default();
        assert!(none.summary().contains("no process") && none.details().contains("no running process"));
    }

    /// If a process hands bytes back, the processes that put bytes into rings have as many less, and none has
    /// less than zero.
    #[test]
    fn what_another_holder_hands_back_is_taken_from_who_has_most() {
        let put = |bytes_out, returned| Counted {
            rings: Moved { bytes_in: 0, bytes_out },
            returned,
            ..Counted::default()
        };
        for (all, wanted) in [
            (&[][..], &[][..]),
            (&[put(100, 30)], &[70]),
            (&[put(100, 0), put(0, 30)], &[70, 0]),
            (&[put(10, 20), put(30, 0), put(50, 5)], &[0, 30, 35]),
            (&[put(10, 80), put(30, 0), put(50, 5)], &[0, 5, 0]),
            (&[put(0, u64::MAX), put(0, u64::MAX), put(7, 0)], &[0, 0, 0]),
        ] {
            assert_eq!(kept_in_rings(all), wanted);
        }
    }

    #[test]
    fn sums_are_by_name() {
        let one = |what, count| Tally { what, count };
        let sums = tally([one("a", 1), one("b", u64::MAX), one("a", 2), one("b", 5)].into_iter());
        assert_eq!(sums, [one("a", 3), one("b", u64::MAX)]);
    }
}
