//! A cluster in eleven planted states, and all tools that judge it: none says that all is well where another
//! one says that it is not.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

/// Tools that judge, each also of one node where it can.
const TOOLS: [&[&str]; 12] = [
    &["status"],
    &["status", "--node", "4"],
    &["node", "status", "--node", "4"],
    &["cable"],
    &["cable", "--node", "4"],
    &["diag"],
    &["diag", "--node", "4"],
    &["diag", "--prod"],
    &["conntest", "--time", "0.2", "--wait", "1"],
    &[CONNTEST, "--time", "0.2", "--wait", "1"],
    &["verify", "--health"],
    &["verify", "--running", "--quick"],
];
/// The classic name of a tool, by which it is called where it is the first word.
const CONNTEST: &str = "sciconntest";

/// What all tools must say of a state.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Said {
    /// It is not well.
    Wrong,
    /// Nothing can be said against it; what could not be tested is open.
    WellOrOpen,
    /// Nothing can be said: the tool could not do its work.
    CouldNot,
}

impl Said {
    fn allows(self, status: i32) -> bool {
        match self {
            Self::Wrong => status == 1,
            Self::WellOrOpen => matches!(status, 0 | 3),
            Self::CouldNot => status == 4,
        }
    }
}

/// What is planted, until [`Planted::end`].
enum Planted {
    Words(Vec<String>),
    Signalled(Pid),
    Owned(PathBuf),
    Computing(Vec<Child>),
    Nothing,
}

struct State {
    name: &'static str,
    nodes: &'static str,
    said: Said,
    plant: fn(&Cluster, &Path) -> Planted,
    /// Instead of [`TOOLS`], with the name of a file in the place of `FILE`, and of a place on the full disk
    /// in that of `FULL`.
    tools: &'static [&'static [&'static str]],
    /// Words that some tool must say.
    words: &'static [&'static str],
    full: Full,
}

/// Where the output of the tools goes, and whether that is full.
#[derive(Clone, Copy, PartialEq)]
enum Full {
    /// To the test.
    No,
    /// To a device that takes nothing.
    Device,
    /// Into a file of a file system without a free byte.
    Disk,
}

/// A small file system without a free byte, in a mount namespace of its own, which goes with the process that
/// has it.
struct FullDisk {
    holder: Child,
    place: PathBuf,
}

impl FullDisk {
    /// `None`, with the reason printed, where this user may mount nothing.
    fn new(folder: &Path) -> Option<Self> {
        let script = "mount -t tmpfs -o size=64k none \"$1\" && echo mounted && cat >/dev/null";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]).arg(folder);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        // By this path its files are reached from outside.
        let place = PathBuf::from(format!("/proc/{}/root{}", holder.id(), folder.display()));
        let disk = Self { holder, place };
        if said != "mounted\n" {
            println!("left out: no file system can be mounted in a namespace of its own here");
            return None;
        }
        let mut filler = File::create(disk.place.join("filler")).unwrap();
        while filler.write_all(&[1; 512]).is_ok() {}
        Some(disk)
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

const USUAL: State = State {
    name: "",
    nodes: "3",
    said: Said::Wrong,
    plant: |_, _| Planted::Nothing,
    tools: &TOOLS,
    words: &[],
    full: Full::No,
};

/// On a disk that is really full, also those that write files of their own there.
const ON_A_FULL_DISK: [&[&str]; 9] = [
    &["status"],
    &["cable"],
    &["diag"],
    &["conntest", "--time", "0.2", "--wait", "1"],
    &["verify", "--health"],
    &["cable", "--save", "FULL/plan"],
    &["verify", "--running", "--quick", "--report", "FULL/page.html"],
    &["bench", "scipp", "--size", "4", "--json-file", "FULL/scipp.json"],
    &["up", "--nodes", "1", "--runtime-dir", "FULL/run"],
];

fn done(cluster: &Cluster, words: &[&str]) -> String {
    let (status, out, err) = cluster.run(words).unwrap();
    assert_eq!(status, 0, "{words:?}: {out}{err}");
    out
}

fn link(cluster: &Cluster, words: [&str; 4], back: [&str; 4]) -> Planted {
    done(cluster, &words);
    Planted::Words(back.map(str::to_owned).into())
}

fn signal(cluster: &Cluster, signal: Signal) -> Pid {
    let pid = Pid::from_raw(cluster.attach_to(8).info().manager_pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    pid
}

/// Attaching by number: these clusters are started by the command.
trait AttachTo {
    fn attach_to(&self, node: u32) -> tieline::Node;
}

impl AttachTo for Cluster {
    fn attach_to(&self, node: u32) -> tieline::Node {
        let node = Some(tieline::NodeId::new(node).unwrap());
        let runtime_dir = Some(self.runtime_dir().into());
        let options =
            tieline::NodeOptions { node, cluster: Some(self.name().into()), runtime_dir, name: None };
        tieline::Node::attach_with(&options).unwrap()
    }
}

/// A directory that is not this user's: root finds another owner, everybody else a door that is shut.
fn shut(cluster: &Cluster, _: &Path) -> Planted {
    let path = cluster.runtime_dir().to_owned();
    if rustix::process::getuid().is_root() {
        chown(&path, Some(65_534), None).unwrap();
        chown(cluster.cluster_dir(), Some(65_534), None).unwrap();
    } else {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    }
    Planted::Owned(path)
}

fn compute(_: &Cluster, _: &Path) -> Planted {
    let count = 3 * std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline-peer"));
    command.arg("compute").stdin(Stdio::piped()).stdout(Stdio::null());
    Planted::Computing((0..count).map(|_| command.spawn().unwrap()).collect())
}

impl Planted {
    fn end(self, cluster: &Cluster) {
        match self {
            Self::Words(words) => {
                done(cluster, &words.iter().map(String::as_str).collect::<Vec<_>>());
            }
            Self::Signalled(pid) => drop(kill_process(pid, Signal::CONT)),
            Self::Owned(path) => {
                if rustix::process::getuid().is_root() {
                    chown(&path, Some(0), None).unwrap();
                    chown(cluster.cluster_dir(), Some(0), None).unwrap();
                }
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
            }
            Self::Computing(programs) => {
                for mut program in programs {
                    program.kill().unwrap();
                    program.wait().unwrap();
                }
            }
            Self::Nothing => {}
        }
    }
}

const STATES: [State; 13] = [
    State {
        name: "a link is down",
        plant: |cluster, _| link(cluster, ["link", "down", "4", "8"], ["link", "up", "4", "8"]),
        words: &["`tieline link up 4 8`", "1 of 2 links up"],
        ..USUAL
    },
    State {
        name: "two nodes are swapped",
        plant: |cluster, _| link(cluster, ["link", "swap", "8", "12"], ["link", "swap", "8", "12"]),
        words: &["leads to node 12", "0 of 2 links up"],
        ..USUAL
    },
    State {
        name: "two nodes are swapped, and one of them is looked at",
        plant: |cluster, _| link(cluster, ["link", "swap", "4", "8"], ["link", "swap", "4", "8"]),
        words: &[
            "the link of node 12 to node 4 leads to node 8",
            "node 12: its link to node 4 leads to node 8",
            "1 of 2 links up",
        ],
        ..USUAL
    },
    State {
        name: "a node was stopped in an orderly way",
        said: Said::WellOrOpen,
        plant: |cluster, _| {
            done(cluster, &["node", "stop", "--node", "8"]);
            Planted::Words(["node", "start", "--node", "8"].map(str::to_owned).into())
        },
        ..USUAL
    },
    State {
        name: "a manager is stopped",
        plant: |cluster, _| Planted::Signalled(signal(cluster, Signal::STOP)),
        words: &["     8  not responding", "\"manager\": \"not-responding\""],
        ..USUAL
    },
    State {
        name: "a manager is killed",
        plant: |cluster, _| {
            signal(cluster, Signal::KILL);
            Planted::Nothing
        },
        words: &["     8  not running", "\"manager\": \"not-running\"", ": node 8: its manager has ended ("],
        ..USUAL
    },
    State {
        name: "one node",
        nodes: "1",
        said: Said::WellOrOpen,
        words: &[
            "TEST RESULT: *INCONCLUSIVE*",
            "CONNTEST RESULT: INCONCLUSIVE",
            "verify --health: INCONCLUSIVE: ",
            "1 node (4; those that run; no --plan), 0 pairs",
            "needs two nodes",
        ],
        ..USUAL
    },
    State {
        name: "a wrong plan",
        plant: |cluster, file| {
            std::fs::write(file, done(cluster, &["cable", "--generate", "--nodes", "2"])).unwrap();
            Planted::Nothing
        },
        tools: &[
            &["cable", "--plan", "FILE"],
            &["cable", "--node", "4", "--plan", "FILE"],
            &["verify", "--health", "--plan", "FILE"],
        ],
        words: &["node 12"],
        ..USUAL
    },
    State {
        name: "a stale host file",
        said: Said::WellOrOpen,
        plant: |_, file| {
            std::fs::write(file, "4 moved\n40 gone\n").unwrap();
            Planted::Nothing
        },
        // It may be of long ago, so nothing is wrong; that is said, with what to do, and all that know
        // nothing of it agree.
        tools: &[
            &["diag", "--hosts", "FILE"],
            &["diag", "--node", "4", "--hosts", "FILE"],
            &["diag", "--prod", "--hosts", "FILE"],
            &["status"],
            &["cable"],
            &["verify", "--health"],
        ],
        words: &[
            "[WARN] Node 40 not reachable",
            "start it, or take the line out",
            "[WARN] Node 4 is on host",
            "(line 1): correct it",
            "*PASSED*",
        ],
        ..USUAL
    },
    State {
        name: "a full device",
        said: Said::CouldNot,
        full: Full::Device,
        words: &["No space left"],
        ..USUAL
    },
    State {
        name: "a full disk",
        said: Said::CouldNot,
        full: Full::Disk,
        tools: &ON_A_FULL_DISK,
        words: &["No space left", "/plan cannot", "/page.html", "/scipp.json", "its log"],
        ..USUAL
    },
    State { name: "no permission", said: Said::CouldNot, plant: shut, words: &["tieline: "], ..USUAL },
    State { name: "a busy machine", said: Said::WellOrOpen, plant: compute, ..USUAL },
];

/// States that are tried at once: most of their time is waiting.
const LANES: usize = 3;

#[test]
fn no_tool_says_that_all_is_well_where_another_one_says_that_it_is_not() {
    let watchdog = Watchdog::usual("planted states");
    // What computes would be beside all others.
    let (busy, quiet) = STATES.split_last().unwrap();
    let (next, watchdog) = (AtomicUsize::new(0), &watchdog);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            // Relaxed: each number is taken once, and nothing else is published with it.
            scope.spawn(|| {
                while let Some(state) = quiet.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_tools(state, watchdog);
                }
            });
        }
    });
    try_tools(busy, watchdog);
}

fn try_tools(state: &State, watchdog: &Watchdog) {
    let (folder, mount) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = if state.full == Full::Disk { FullDisk::new(mount.path()) } else { None };
    if state.full == Full::Disk && disk.is_none() {
        return;
    }
    let cluster = Cluster::empty().unwrap();
    done(&cluster, &["up", "--nodes", state.nodes, "--faults"]);
    let file = folder.path().join("file");
    let planted = (state.plant)(&cluster, &file);
    let mut table = Vec::new();
    let mut all = String::new();
    let json: &[&str] = &["status", "--json"];
    for words in state.tools.iter().copied().chain([json]) {
        let full = disk.as_ref().map(|disk| disk.place.to_str().unwrap()).unwrap_or_default();
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("FILE", file.to_str().unwrap()).replace("FULL", full))
            .collect();
        let classic = words[0] == CONNTEST;
        let given: Vec<&str> = words.iter().skip(usize::from(classic)).map(String::as_str).collect();
        let mut command = cluster.command(&given).unwrap();
        if classic {
            command.arg0(CONNTEST);
        }
        match (state.full, &disk) {
            (Full::Device, _) => {
                command.stdout(File::create("/dev/full").unwrap());
            }
            // What is said of a file is heard; all others print into one.
            (Full::Disk, Some(disk)) if !words.iter().any(|word| word.contains(full)) => {
                command.stdout(File::create(disk.place.join("output")).unwrap());
            }
            _ => {}
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            all.push_str(&String::from_utf8_lossy(text));
        }
        table.push((words.join(" "), output.status.code().unwrap_or(-1)));
        watchdog.progress();
    }
    planted.end(&cluster);
    // A plan is known to those tools only that are given it.
    let judging = &table[..if state.name == "a wrong plan" { state.tools.len() } else { table.len() }];
    let wrong: Vec<_> = judging.iter().filter(|(_, status)| !state.said.allows(*status)).collect();
    assert!(wrong.is_empty(), "{}: {:?} expected, {wrong:?} of {table:?}\n{all}", state.name, state.said);
    for words in state.words {
        assert!(all.contains(words), "{}: no tool says `{words}`:\n{all}", state.name);
    }
}
