//! The manager beside OpenSM in one fabric, of ibsim and of our own server: each as master and as standby.
//!
//! ibsim drops TrapRepress, and the library that OpenSM is preloaded with has no timeouts. So an OpenSM that
//! sent trap 144, as it does in standby, waits for the response forever at its next sweep (two OpenSMs in one
//! ibsim do so, too). There it is only followed until it begins to sweep.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fabric::server;
use mad::ibsim::IbsimTransport;
use mad::values::SmState;
use subnet::{Event, ManageError, Manager, Options};
use topology::build::{FatTree, fat_tree};

use super::{LIBRARY, Simulator, WATCHDOG, missing};

/// A fabric that is simulated, by ibsim or by our own server; it ends with the test.
pub(crate) enum Fabric {
    Ibsim(Simulator),
    Own { base: String, folder: PathBuf, stop: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl Fabric {
    pub(crate) fn new(name: &str, own: bool) -> Self {
        let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
        if !own {
            return Self::Ibsim(Simulator::new(name, &graph));
        }
        let base = format!("tl-subnet-own-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&base);
        std::fs::create_dir_all(&folder).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let options = server::Options { base: base.clone(), control: None, bring_up: false };
        let (ready, is_ready) = std::sync::mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut event = |event: server::Event| {
                if event == server::Event::Ready {
                    ready.send(()).unwrap();
                }
            };
            server::serve(graph, &options, &mut event, &|| flag.load(Ordering::Relaxed)).unwrap();
        });
        is_ready.recv_timeout(WATCHDOG).unwrap();
        Self::Own { base, folder, stop, thread: Some(thread) }
    }

    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Ibsim(simulator) => &simulator.base,
            Self::Own { base, .. } => base,
        }
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        match self {
            Self::Ibsim(simulator) => &simulator.folder,
            Self::Own { folder, .. } => folder,
        }
    }

    /// A stock program at a node.
    pub(crate) fn command(&self, node: &str, words: &[&str]) -> Command {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.folder()).env("PATH", path).stdin(Stdio::null());
        command.env("LD_PRELOAD", LIBRARY).env("IBSIM_SOCKNAME", self.base()).env("SIM_HOST", node);
        command.env("OSM_CACHE_DIR", self.folder()).env("OSM_TMP_DIR", self.folder());
        command
    }

    /// What `sminfo` says of the master.
    fn sminfo(&self) -> String {
        let output = self.command("host00002", &["sminfo"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn active_links(&self) -> usize {
        let output = self.command("host00002", &["iblinkinfo"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).matches("Active/  LinkUp").count()
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if let Self::Own { folder, stop, thread, .. } = self {
            stop.store(true, Ordering::Relaxed);
            thread.take().map(JoinHandle::join);
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// In which OpenSM hands over, if it goes on.
const OPENSM_WAITS: Duration = Duration::from_secs(8);

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < WATCHDOG, "{what} did not come");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// OpenSM, which ends with the test.
pub(crate) struct OpenSm {
    child: Child,
    log: PathBuf,
}

impl OpenSm {
    pub(crate) fn start(fabric: &Fabric, node: &str, priority: u8) -> Self {
        let folder = fabric.folder();
        let (config, log) = (folder.join("osm.conf"), folder.join(format!("osm-{node}-{priority}.log")));
        let text =
            "force_log_flush TRUE\nsweep_interval 1\nsminfo_polling_timeout 300\npolling_retry_number 3\n";
        std::fs::write(&config, text).unwrap();
        let priority = priority.to_string();
        let words = ["opensm", "-F", config.to_str().unwrap(), "-p", &priority, "-f", log.to_str().unwrap()];
        let mut command = fabric.command(node, &words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, log }
    }

    /// How often its log says that it came into a state.
    fn entered(&self, state: &str) -> usize {
        let mut text = String::new();
        let file = std::fs::File::open(&self.log);
        file.and_then(|mut file| file.read_to_string(&mut text)).unwrap_or(0);
        text.matches(&format!("Entering {state} state")).count()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("OpenSM's log:\n{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// Our manager in a thread.
pub(crate) struct Ours {
    stop: Arc<AtomicBool>,
    events: std::sync::mpsc::Receiver<Event>,
    seen: Vec<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Ours {
    pub(crate) fn start(fabric: &Fabric, node: &str, priority: u8) -> Self {
        let mut transport = IbsimTransport::connect(fabric.base(), node).unwrap();
        transport.set_is_sm(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, events) = std::sync::mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let options = Options { priority, poll: Duration::from_millis(200), ..Options::default() };
            let mut manager = Manager::new(options).unwrap();
            let mut event = |event| tell.send(event).unwrap();
            let stop = || flag.load(Ordering::Relaxed);
            match manager.attend(&mut transport, None, &mut event, &stop) {
                Ok(()) | Err(ManageError::Stopped) => {}
                Err(error) => panic!("{error}"),
            }
        });
        Self { stop, events, seen: Vec::new(), thread: Some(thread) }
    }

    /// Waits until it says something of which this is true; what came before is passed over.
    fn until(&mut self, what: &str, is_it: impl Fn(&Event) -> bool) {
        assert!(self.within(WATCHDOG, is_it), "{what} did not come: {:?}", self.seen);
    }

    /// The same, but no longer than that: whether it came.
    fn within(&mut self, limit: Duration, is_it: impl Fn(&Event) -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Ok(event) = self.events.recv_timeout(Duration::from_millis(100)) {
                self.seen.push(event.clone());
                if is_it(&event) {
                    return true;
                }
            }
        }
        false
    }

    fn until_state(&mut self, wanted: SmState) {
        self.until(&wanted.to_string(), is_in(wanted));
    }

    pub(crate) fn until_up(&mut self) {
        self.until("a bring-up", |event| {
            matches!(event, Event::BroughtUp(_, up) if up.failed_sets == 0 && up.active_links == up.links)
        });
    }

    /// It ends without a word to other managers.
    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_in(wanted: SmState) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Role { state, .. } if *state == wanted)
}

/// Ours first, then OpenSM of a lower priority: it stands by, and takes over when ours ends.
fn opensm_stands_by(own: bool) {
    let fabric = Fabric::new("osm-standby", own);
    let mut ours = Ours::start(&fabric, "host00000", 5);
    ours.until_up();
    let opensm = OpenSm::start(&fabric, "host00005", 1);
    until("OpenSM in standby", || opensm.entered("STANDBY") == 1);
    let said = fabric.sminfo();
    assert!(said.contains("priority 5 state 3 SMINFO_MASTER"), "{said}");
    assert_eq!(fabric.active_links(), 32);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((opensm.entered("MASTER"), opensm.entered("DISCOVERING")), (0, 1), "it takes ours for alive");
    ours.end();
    until("OpenSM's look round", || opensm.entered("DISCOVERING") == 2);
    if !own {
        return;
    }
    until("OpenSM as master", || opensm.entered("MASTER") == 1);
    until("OpenSM's LID at the ports", || fabric.sminfo().contains("priority 1 state 3 SMINFO_MASTER"));
}

/// OpenSM first, then ours of a lower priority: it stands by, and takes over when OpenSM is killed.
fn ours_stands_by(own: bool) {
    let fabric = Fabric::new("standby", own);
    let mut opensm = OpenSm::start(&fabric, "host00005", 5);
    until("OpenSM's fabric", || fabric.active_links() == 32);
    let mut ours = Ours::start(&fabric, "host00000", 1);
    ours.until_state(SmState::STANDBY);
    let said = fabric.sminfo();
    assert!(said.contains("priority 5 state 3 SMINFO_MASTER"), "{said}");
    opensm.kill();
    ours.until_state(SmState::MASTER);
    ours.until_up();
    until("our LID at the ports", || fabric.sminfo().contains("priority 1 state 3 SMINFO_MASTER"));
    assert_eq!(fabric.active_links(), 32);
}

/// OpenSM is master, and ours of a higher priority comes later: it is handed over to. Whether OpenSM went on
/// at all: in `ibsim` it now and then does not. A trap that comes between two of its sweeps is answered by a
/// TrapRepress, which counts there as a request that is still under way, and the next sweep waits for its
/// end.
fn opensm_hands_over(own: bool) -> bool {
    let fabric = Fabric::new("osm-yields", own);
    let opensm = OpenSm::start(&fabric, "host00005", 1);
    until("OpenSM's fabric", || fabric.active_links() == 32);
    let mut ours = Ours::start(&fabric, "host00000", 5);
    if own {
        ours.until_state(SmState::MASTER);
    } else if !ours.within(OPENSM_WAITS, is_in(SmState::MASTER)) && opensm.entered("STANDBY") == 0 {
        return false;
    }
    ours.until_up();
    until("OpenSM in standby", || opensm.entered("STANDBY") == 1);
    until("our LID at the ports", || fabric.sminfo().contains("priority 5 state 3 SMINFO_MASTER"));
    assert_eq!(fabric.active_links(), 32);
    true
}

/// Ours is master, and OpenSM of a higher priority comes later: it is handed over to, and ours takes over
/// when it is killed.
fn ours_hands_over(own: bool) {
    let fabric = Fabric::new("yields", own);
    let mut ours = Ours::start(&fabric, "host00000", 5);
    ours.until_up();
    let mut higher = OpenSm::start(&fabric, "host00007", 9);
    until("OpenSM as master", || higher.entered("MASTER") == 1);
    ours.until_state(SmState::STANDBY);
    if !own {
        return;
    }
    until("OpenSM's LID at the ports", || fabric.sminfo().contains("priority 9 state 3 SMINFO_MASTER"));
    assert_eq!(fabric.active_links(), 32);
    higher.kill();
    ours.until_up();
    until("our LID at the ports", || fabric.sminfo().contains("priority 5 state 3 SMINFO_MASTER"));
}

const NEEDED: [&str; 4] = ["ibsim", "opensm", "sminfo", "iblinkinfo"];

#[test]
fn opensm_stands_by_behind_ours_in_ibsim() {
    if !missing(&NEEDED) {
        opensm_stands_by(false);
    }
}

#[test]
fn opensm_stands_by_behind_ours_in_our_server() {
    if !missing(&NEEDED) {
        opensm_stands_by(true);
    }
}

#[test]
fn ours_stands_by_behind_opensm_in_ibsim() {
    if !missing(&NEEDED) {
        ours_stands_by(false);
    }
}

#[test]
fn ours_stands_by_behind_opensm_in_our_server() {
    if !missing(&NEEDED) {
        ours_stands_by(true);
    }
}

#[test]
fn opensm_hands_over_to_ours_in_ibsim() {
    if !missing(&NEEDED) {
        assert!((0..8).any(|_| opensm_hands_over(false)), "OpenSM has never handed over");
    }
}

#[test]
fn opensm_hands_over_to_ours_in_our_server() {
    if !missing(&NEEDED) {
        assert!(opensm_hands_over(true));
    }
}

#[test]
fn ours_hands_over_to_opensm_in_ibsim() {
    if !missing(&NEEDED) {
        ours_hands_over(false);
    }
}

#[test]
fn ours_hands_over_to_opensm_in_our_server() {
    if !missing(&NEEDED) {
        ours_hands_over(true);
    }
}
