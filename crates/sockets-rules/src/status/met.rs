//! Connections that have rings, and whose bytes all went through the kernel: which these are, and
//! the known reason.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::{Process, Tally};
use crate::layout::Reason;
use crate::statistics::{self, Moved};

/// In place of [`Reason::Memory`]: the two ends have met, and not a byte went past the kernel.
pub const MET: &str = "met, all bytes through the kernel";

/// Processors that a list may name; more is no list of a kernel.
const MOST_PROCESSORS: u32 = 1 << 16;

/// Is that so of an open connection? As far as it is known: the record may have counted ring bytes of an
/// earlier connection, and then the kernel's own count decides, which is none in another network.
pub(super) fn is_met(counted: &statistics::Connection, kernel: Option<Moved>) -> bool {
    counted.reason == Some(Reason::Memory) && (counted.rings_unused || kernel == Some(counted.moved))
}

/// Connections of a process by what they are on. Where the process moved nothing past the kernel none of its
/// connections did; else those are known that are open.
pub(super) fn tallies(reasons: &[(Reason, u64)], past_kernel: u64, open: u64) -> Vec<Tally> {
    let mut all = Vec::new();
    for &(reason, count) in reasons {
        let met = match reason {
            Reason::Memory if past_kernel == 0 => count,
            Reason::Memory => open.min(count),
            _ => 0,
        };
        all.push(Tally { what: reason.text(), count: count - met });
        if reason == Reason::Memory {
            all.push(Tally { what: MET, count: met });
        }
    }
    all
}

/// Says of those connections whose both ends are in these processes if they have one processor alone, so that
/// they never run at once.
pub(super) fn find_processors(processes: &mut [Process]) {
    if !processes.iter().flat_map(|it| &it.open).any(|it| it.reason == MET) {
        return;
    }
    let plain = |end: SocketAddr| (end.ip().to_canonical(), end.port());
    let mut whose = BTreeMap::new();
    for process in &*processes {
        let ends = process.open.iter().filter_map(|it| Some((plain(it.local?), plain(it.remote?))));
        whose.extend(ends.map(|ends| (ends, process.pid)));
    }
    let online = processors_of_file("/sys/devices/system/cpu/online");
    let mut known = BTreeMap::new();
    for process in processes {
        let pid = process.pid;
        for it in process.open.iter_mut().filter(|it| it.reason == MET) {
            let (Some(local), Some(remote)) = (it.local, it.remote) else { continue };
            let Some(other) = whose.get(&(plain(remote), plain(local))) else { continue };
            let both = [pid, *other].map(|pid| known.entry(pid).or_insert_with(|| allowed(pid)).clone());
            it.only_processor = only(both, online.as_ref());
        }
    }
}

/// The one processor that all of these and the machine have together.
fn only(ends: [Option<BTreeSet<u32>>; 2], online: Option<&BTreeSet<u32>>) -> Option<u32> {
    let [one, other] = ends;
    let mut all: BTreeSet<u32> = one?.union(&other?).copied().collect();
    all.retain(|it| online.is_none_or(|online| online.contains(it)));
    all.first().copied().filter(|_| all.len() == 1)
}

/// Processors that the process's threads may run on; none if the kernel does not tell.
fn allowed(pid: u32) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may have ended meanwhile.
        let Ok(status) = std::fs::read(task.ok()?.path().join("status")) else { continue };
        // The name of a thread may be of any bytes.
        let status = String::from_utf8_lossy(&status);
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        all.extend(processors(list.trim())?);
    }
    Some(all)
}

fn processors_of_file(path: &str) -> Option<BTreeSet<u32>> {
    processors(std::fs::read_to_string(path).ok()?.trim())
}

/// Numbers and ranges as the kernel prints them: `0-3,7`.
fn processors(list: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST_PROCESSORS {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Counted;
    use crate::status::{Connection, Report};
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_ring_that_carried_nothing_is_not_through_memory() {
        let moved = Moved { bytes_in: 5, bytes_out: 7 };
        let counted = |reason, rings_unused| statistics::Connection {
            cookie: 1,
            fd: 4,
            reason: Some(reason),
            moved,
            rings_unused,
        };
        assert!(is_met(&counted(Reason::Memory, true), None));
        assert!(is_met(&counted(Reason::Memory, false), Some(moved)));
        let less = Moved { bytes_in: 5, bytes_out: 6 };
        assert!(!is_met(&counted(Reason::Memory, false), Some(less)));
        assert!(!is_met(&counted(Reason::Memory, false), None));
        assert!(!is_met(&counted(Reason::Alone, true), Some(moved)));
    }

    #[test]
    fn each_connection_is_in_one_class() {
        let reasons = [(Reason::NotYet, 3), (Reason::Memory, 5), (Reason::Alone, 1)];
        let of = |past, open| tallies(&reasons, past, open).iter().map(|it| it.count).collect::<Vec<_>>();
        assert_eq!(of(0, 1), [3, 0, 5, 1]);
        assert_eq!(of(100, 2), [3, 3, 2, 1]);
        // More are open than were counted yet.
        assert_eq!(of(100, 9), [3, 0, 5, 1]);
        assert_eq!(tallies(&reasons, 0, 0)[2].what, MET);
    }

    /// A process that moved nothing past the kernel has nothing through memory, whether its ends met or not.
    #[test]
    fn what_met_and_carried_nothing_has_a_class_and_a_reason() {
        let reasons = Reason::ALL.map(|it| (it, u64::from(it == Reason::Memory))).to_vec();
        let moved = Moved { bytes_in: 9, bytes_out: 9 };
        let counted = |rings: Moved| Counted {
            // No process has such a number.
            pid: u32::MAX,
            connections: 1,
            kernel: vec![(Reason::Memory, moved)],
            reasons: reasons.clone(),
            rings,
            ..Counted::default()
        };
        let said = |rings: Moved| {
            let mut one = super::super::process(counted(rings), rings.bytes_out, 0, &BTreeMap::new());
            let line =
                |reason, only_processor| Connection { reason, only_processor, ..Connection::default() };
            one.open = vec![line(MET, Some(3)), line(Reason::Memory.text(), None)];
            let reasons = super::super::tally(one.reasons.clone().into_iter());
            let report = Report { processes: vec![one], reasons };
            (report.details(), report.summary())
        };
        let (details, summary) = said(Moved::default());
        assert!(summary.contains("  has rings, but all bytes went through the kernel (1)"), "{summary}");
        for words in [
            "  through memory: in 0, out 0 of these bytes\n",
            "  through the kernel, although the connection has a ring: in 9, out 9\n",
            "; has rings, but all bytes went through the kernel: both ends have processor 3 alone, and never run at once\n",
            "; through memory\n",
            "\n  has rings, but all bytes went through the kernel       1\n",
            "give each a processor of its own",
        ] {
            assert!(details.contains(words), "`{words}`: {details}");
        }
        assert!(!details.contains("\n  through memory        "), "{details}");
        let (details, summary) = said(Moved { bytes_in: 1, bytes_out: 0 });
        assert!(
            summary.contains("  through memory (1)") && !details.contains("give each"),
            "{summary}{details}"
        );
    }

    #[test]
    fn lists_of_processors() {
        let set = |numbers: &[u32]| Some(numbers.iter().copied().collect::<BTreeSet<_>>());
        assert_eq!(processors("0-3,7"), set(&[0, 1, 2, 3, 7]));
        assert_eq!(processors("5"), set(&[5]));
        for wrong in ["", "x", "1-", "0-4294967295", "1,,2"] {
            assert_eq!(processors(wrong), None, "{wrong}");
        }
        let online = set(&[0, 1]);
        assert_eq!(only([set(&[1]), set(&[1])], online.as_ref()), Some(1));
        // It may run on any of 64, of which the machine has two; or on one that is there.
        assert_eq!(only([set(&[1, 5]), set(&[1, 9])], online.as_ref()), Some(1));
        assert_eq!(only([set(&[1]), set(&[0])], online.as_ref()), None);
        assert_eq!(only([set(&[1]), None], None), None);
    }

    /// Ended with the test.
    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    fn sleeping_on(processors: &str) -> Ended {
        let mut command = Command::new("taskset");
        command.args(["-c", processors, "sleep", "600"]).stdin(Stdio::null());
        let child = Ended(command.spawn().unwrap());
        // It is another program once it is where it may run.
        while std::fs::read_to_string(format!("/proc/{}/comm", child.0.id())).unwrap().trim() != "sleep" {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child
    }

    /// What the kernel says of two processes that were bound to a processor.
    #[test]
    fn ends_that_share_their_only_processor_are_told_so() {
        let all: Vec<u32> = allowed(std::process::id()).unwrap().into_iter().collect();
        let here = all[0].to_string();
        let pids = [sleeping_on(&here), sleeping_on(&here)];
        let end = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let process = |pid, local, remote, reason| Process {
            pid,
            open: vec![Connection { local, remote, reason, ..Connection::default() }],
            ..Process::default()
        };
        let mut processes = [
            process(pids[0].0.id(), end(1), end(2), MET),
            process(pids[1].0.id(), end(2), end(1), MET),
            // Of this one the other end is not under the library.
            process(pids[1].0.id(), end(3), end(4), MET),
        ];
        find_processors(&mut processes);
        let said =
            |processes: &[Process]| processes.iter().map(|it| it.open[0].only_processor).collect::<Vec<_>>();
        assert_eq!(said(&processes), [Some(all[0]), Some(all[0]), None]);
        if let Some(other) = all.get(1) {
            let elsewhere = sleeping_on(&other.to_string());
            processes[1].pid = elsewhere.0.id();
            processes.iter_mut().for_each(|it| it.open[0].only_processor = None);
            find_processors(&mut processes);
            assert_eq!(said(&processes), [None, None, None]);
        }
    }
}
