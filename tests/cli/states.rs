//! A cluster in ten planted states, and all tools that judge it: none says that all is well where another one says that it is not.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

/// Tools that judge, each also of one node where it can.
const TOOLS: [&[&str]; 10] = [
    &["status"],
    &["status", "--node", "4"],
    &["node", "status", "--node", "4"],
    &["cable"],
    &["cable", "--node", "4"],
    &["diag"],
    &["diag", "--node", "4"],
    &["diag", "--prod"],
    &["conntest", "--time", "0.2", "--wait", "1"],
    &["verify", "--health"],
];

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
    Owned(std::path::PathBuf),
    Computing(Vec<Child>),
    Nothing,
}

struct State {
    name: &'static str,
    nodes: &'static str,
    said: Said,
    plant: fn(&Cluster, &Path) -> Planted,
    /// Instead of [`TOOLS`], with the name of a file in the place of `FILE`.
    tools: &'static [&'static [&'static str]],
    /// Words that some tool must say.
    words: &'static [&'static str],
    full: bool,
}

const USUAL: State = State {
    name: "",
    nodes: "3",
    said: Said::Wrong,
    plant: |_, _| Planted::Nothing,
    tools: &TOOLS,
    words: &[],
    full: false,
};

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

const STATES: [State; 10] = [
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
        words: &[
            "     8  not running",
            "\"manager\": \"not-running\"",
            ": node 8: its manager does not answer",
        ],
        ..USUAL
    },
    State {
        name: "one node",
        nodes: "1",
        said: Said::WellOrOpen,
        words: &[
            "TEST RESULT: *INCONCLUSIVE*",
            "CONNTEST RESULT: INCONCLUSIVE",
            "health: INCONCLUSIVE: ",
            "1 node, 0 pairs",
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
        tools: &[&["diag", "--hosts", "FILE"], &["diag", "--node", "4", "--hosts", "FILE"], &["status"]],
        words: &["[WARN] Node 40 not reachable", "[WARN] Node 4 is on host"],
        ..USUAL
    },
    State { name: "a full disk", said: Said::CouldNot, full: true, words: &["No space left"], ..USUAL },
    State { name: "no permission", said: Said::CouldNot, plant: shut, words: &["tieline: "], ..USUAL },
    State { name: "a busy machine", said: Said::WellOrOpen, plant: compute, ..USUAL },
];

#[test]
fn no_tool_says_that_all_is_well_where_another_one_says_that_it_is_not() {
    let watchdog = Watchdog::usual("ten planted states");
    for state in &STATES {
        let cluster = Cluster::empty().unwrap();
        done(&cluster, &["up", "--nodes", state.nodes, "--faults"]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let planted = (state.plant)(&cluster, &file);
        let mut table = Vec::new();
        let mut all = String::new();
        let json: &[&str] = &["status", "--json"];
        for words in state.tools.iter().copied().chain([json]) {
            let words = words.iter().map(|word| if *word == "FILE" { file.to_str().unwrap() } else { word });
            let words: Vec<&str> = words.collect();
            let mut command = cluster.command(&words).unwrap();
            if state.full {
                command.stdout(std::fs::File::create("/dev/full").unwrap());
            }
            let output = command.stdin(Stdio::null()).output().unwrap();
            for text in [&output.stdout, &output.stderr] {
                all.push_str(&String::from_utf8_lossy(text));
            }
            table.push((words.join(" "), output.status.code().unwrap_or(-1)));
            watchdog.progress();
        }
        planted.end(&cluster);
        // A plan and a host file are known to those tools only that are given them.
        let judging = if state.tools.len() == TOOLS.len() { &table[..] } else { &table[..2] };
        let wrong: Vec<_> = judging.iter().filter(|(_, status)| !state.said.allows(*status)).collect();
        assert!(wrong.is_empty(), "{}: {:?} expected, {wrong:?} of {table:?}\n{all}", state.name, state.said);
        for words in state.words {
            assert!(all.contains(words), "{}: no tool says `{words}`:\n{all}", state.name);
        }
    }
}
