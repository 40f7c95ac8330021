//! A server in a thread, and stock programs that examine what it serves.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fabric::server::{Event, Options, ServeError, Served, serve};
use fabric::sweep::{self, Found};
use mad::ibsim::IbsimTransport;
use topology::build::{FatTree, fat_tree};
use topology::{Graph, Kind, PortIx};

/// The library that stock programs are preloaded with.
pub(crate) const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";
/// Ends what hangs.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

/// Is it all there? Otherwise says what the test lacks.
pub(crate) fn missing(programs: &[&str]) -> bool {
    let found = |program: &&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .chain(["/usr/sbin".into()])
            .any(|folder: PathBuf| folder.join(program).exists())
    };
    let lacking: Vec<&str> = programs.iter().copied().filter(|program| !found(program)).collect();
    if !Path::new(LIBRARY).exists() {
        println!("skipped: {LIBRARY} is not installed (package ibsim-utils)");
        return true;
    }
    if !lacking.is_empty() {
        println!("skipped: not installed: {}", lacking.join(", "));
    }
    !lacking.is_empty()
}

/// A folder of the test's own, which goes when it ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tieline-fabric-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server in a thread of the test.
pub(crate) struct Serving {
    pub(crate) base: String,
    pub(crate) folder: Folder,
    pub(crate) stop: Sender<()>,
    pub(crate) events: Receiver<Event>,
    pub(crate) thread: Option<JoinHandle<Result<Served, ServeError>>>,
}

impl Serving {
    pub(crate) fn new(name: &str, graph: Graph, bring_up: bool) -> Self {
        let base = format!("tl-{name}-{}", std::process::id());
        let folder = Folder::new(name);
        let options = Options { base: base.clone(), control: Some(folder.0.join("control")), bring_up };
        let (stop, stopped) = channel();
        let (tell, events) = channel();
        let thread = std::thread::spawn(move || {
            let stop = || !matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
            serve(graph, &options, &mut |event| drop(tell.send(event)), &stop)
        });
        assert_eq!(events.recv_timeout(WATCHDOG).unwrap(), Event::Ready);
        Self { base, folder, stop, events, thread: Some(thread) }
    }

    pub(crate) fn command(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.folder.0.join("control")).unwrap();
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    /// A stock program at a node, in a folder where it may write.
    pub(crate) fn program(&self, node: &str, words: &[&str]) -> Command {
        stock(&self.base, &self.folder.0, node, words)
    }

    pub(crate) fn run(&self, node: &str, words: &[&str]) -> String {
        let output = self.program(node, words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    pub(crate) fn sweep(&self, node: &str) -> Found {
        let mut transport = IbsimTransport::connect(&self.base, node).unwrap();
        sweep::sweep(&mut transport, &sweep::Options::default(), &mut |_| (), &|| false).unwrap()
    }

    pub(crate) fn end(mut self) -> Served {
        self.stop.send(()).unwrap();
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

pub(crate) fn stock(base: &str, folder: &Path, node: &str, words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    command.arg("60").args(words).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    command.env("LD_PRELOAD", LIBRARY).env("IBSIM_SOCKNAME", base).env("SIM_HOST", node);
    command.env("OSM_CACHE_DIR", folder).env("OSM_TMP_DIR", folder);
    command
}

pub(crate) fn tree() -> Graph {
    fat_tree(&FatTree::new(4, 3)).unwrap()
}

pub(crate) type End = (u64, u8);

/// Links by GUIDs and port numbers, from both ends.
pub(crate) fn links(graph: &Graph) -> BTreeSet<(End, End)> {
    let end = |port: PortIx| (graph.node_guid(graph.owner(port)), graph.number(port));
    graph.links().flat_map(|(a, b)| [(end(a), end(b)), (end(b), end(a))]).collect()
}

/// The links of an `ibnetdiscover` listing, from both ends.
pub(crate) fn listed(text: &str) -> BTreeSet<(End, End)> {
    let mut links = BTreeSet::new();
    let mut node = 0;
    let guid = |quoted: &str| u64::from_str_radix(&quoted[2..], 16).unwrap();
    for line in text.lines() {
        let quoted: Vec<&str> = line.split('"').collect();
        if line.starts_with("Switch") || line.starts_with("Ca") {
            node = guid(quoted[1]);
        } else if line.starts_with('[') {
            let number = |text: &str| text[1..text.find(']').unwrap()].parse().unwrap();
            links.insert(((node, number(line)), (guid(quoted[1]), number(quoted[2]))));
        }
    }
    links
}

/// A graph as ibsim reads it.
pub(crate) fn net(graph: &Graph) -> String {
    let mut text = String::new();
    for node in graph.nodes() {
        let word = if graph.kind(node) == Kind::Switch { "Switch" } else { "Hca" };
        text += &format!("{word} {} \"{}\"\n", graph.port_count(node), graph.name(node));
        for (port, peer) in graph.cabled(node) {
            text += &format!(
                "[{}] \"{}\"[{}]\n",
                graph.number(port),
                graph.name(graph.owner(peer)),
                graph.number(peer)
            );
        }
        text += "\n";
    }
    text
}

pub(crate) fn names(graph: &Graph) -> BTreeSet<((String, u8), (String, u8))> {
    let end = |port: PortIx| (graph.name(graph.owner(port)).to_owned(), graph.number(port));
    graph.links().flat_map(|(a, b)| [(end(a), end(b)), (end(b), end(a))]).collect()
}

/// Ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < WATCHDOG, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `Name:....value` of the diagnostics' listings.
pub(crate) fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_start_matches('.').to_owned())).collect()
}
