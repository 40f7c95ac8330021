//! What the tests of this crate share: a place of their own on disk, managers on threads or in processes,
//! programs.
#![allow(dead_code, unreachable_pub, clippy::print_stdout)]

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use node::config::Settings;
use node::runtime_dir::{ClusterDir, ClusterName};
use node::{Daemon, DaemonOptions, StopHandle};
use node_client::seqpacket::{Seqpacket, Wanted};
use node_client::{AttachOptions, Client, ClientError, ClientEvent};
use proto::ids::{NodeId, SegmentId, SegmentKey};
use proto::wire::program::{Access, ToManager, ToProgram};
use proto::wire::{MAX_DATAGRAM_BYTES, decode, encode};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use shm::region::{Region, RegionOptions};

/// What ends a test that hangs; no test waits for it otherwise.
pub const WATCHDOG: Duration = Duration::from_secs(30);

pub fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

pub fn segment(id: u32) -> SegmentKey {
    SegmentKey::Segment(SegmentId(id))
}

/// Waits until something is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WATCHDOG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A runtime directory that goes when it is dropped.
pub struct Place {
    pub root: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("tl-{}-{number}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        set_mode(&root, 0o700);
        Self { root }
    }

    pub fn cluster(&self, name: &str) -> ClusterDir {
        ClusterDir::new(self.root.clone(), ClusterName::new(name).unwrap())
    }

    pub fn dir(&self) -> ClusterDir {
        self.cluster("t")
    }

    pub fn options(&self, id: u32) -> DaemonOptions {
        DaemonOptions { dir: self.dir(), node: node(id), settings: quick(), signals: false }
    }

    /// A manager on a thread of this process.
    pub fn start(&self, id: u32) -> Running {
        let daemon = Daemon::start(&self.options(id)).unwrap();
        let stop = daemon.stop_handle();
        Running { stop, thread: Some(std::thread::spawn(move || daemon.run().unwrap())) }
    }

    /// Managers with valid sessions.
    pub fn start_all(&self, ids: &[u32]) -> Vec<Running> {
        let running = ids.iter().map(|id| self.start(*id)).collect();
        self.await_sessions(ids);
        running
    }

    pub fn await_sessions(&self, ids: &[u32]) {
        for id in ids {
            let client = self.attach(*id);
            for other in ids {
                eventually("a valid session", || client.probe(node(*other)).unwrap());
            }
        }
    }

    pub fn attach_options(&self, id: u32) -> AttachOptions {
        AttachOptions {
            runtime_dir: Some(self.root.clone()),
            cluster: Some("t".into()),
            node: Some(node(id)),
            name: Some("test".into()),
        }
    }

    pub fn attach(&self, id: u32) -> Client {
        self.attach_with_events(id).0
    }

    pub fn attach_with_events(&self, id: u32) -> (Client, Receiver<ClientEvent>) {
        let (sender, receiver) = channel();
        let client = Client::attach(&self.attach_options(id), move |event| drop(sender.send(event))).unwrap();
        (client, receiver)
    }

    /// A manager in a process of its own: a test binary that contains [`child_role`], run again.
    pub fn start_process(&self, id: u32) -> ChildProcess {
        self.start_process_without(id, "")
    }

    /// One that does without what newer systems have, separated by commas; see [`foreign::ENV_WITHOUT`].
    pub fn start_process_without(&self, id: u32, without: &str) -> ChildProcess {
        let environment = [
            ("TL_ROOT", self.root.to_str().unwrap()),
            ("TL_ID", &id.to_string()),
            (foreign::ENV_WITHOUT, without),
        ];
        let child = ChildProcess::start("manager", &environment);
        eventually("the manager's socket", || {
            Seqpacket::connect(&self.dir().socket(node(id)).unwrap()).is_ok()
        });
        child
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Settings for tests. A machine so slow that it loses a session gets it back.
pub fn quick() -> Settings {
    Settings {
        heartbeat_interval: Duration::from_millis(200),
        heartbeat_limit: Duration::from_secs(3),
        resume_grace: Duration::from_millis(1500),
        ..Settings::default()
    }
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A manager on a thread; ends when it is dropped.
pub struct Running {
    pub stop: StopHandle,
    pub thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A process that is killed when it is dropped.
pub struct ChildProcess {
    pub child: Child,
}

impl ChildProcess {
    /// Runs this test binary again; its test `child_role` does what `role` says.
    pub fn start(role: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_role", "--nocapture", "--test-threads=1"]).env("TL_ROLE", role);
        command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null());
        Self { child: command.spawn().unwrap() }
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The roles that every test binary with children knows. Without a role it is a test that passes.
pub fn child_role(other: impl FnOnce(&str, &Place)) {
    let Ok(role) = std::env::var("TL_ROLE") else { return };
    // Its parent's place: not to be removed here.
    let place = std::mem::ManuallyDrop::new(Place { root: std::env::var("TL_ROOT").unwrap().into() });
    let id = || std::env::var("TL_ID").unwrap().parse().unwrap();
    match role.as_str() {
        "manager" => Daemon::start(&place.options(id())).unwrap().run().unwrap(),
        role => other(role, &place),
    }
}

/// Memory of one page, as programs make it.
pub fn memory() -> Region {
    Region::create(&RegionOptions::new("test", 4096)).unwrap()
}

/// A segment of one page, available.
pub fn offer(client: &Client, id: u32) -> Region {
    let region = memory();
    client.create_segment(segment(id), 4096, Access::default(), region.fd()).unwrap();
    client.set_available(segment(id), true, false).unwrap();
    region
}

/// The next event that is wanted; others are passed over.
pub fn await_event<T>(
    events: &Receiver<ClientEvent>,
    mut wanted: impl FnMut(&ClientEvent) -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        let left = WATCHDOG.saturating_sub(start.elapsed());
        let event = events.recv_timeout(left).expect("the event never came");
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

/// A program that speaks for itself, also wrongly.
pub struct Raw {
    pub socket: Seqpacket,
}

impl Raw {
    pub fn connect(place: &Place, id: u32) -> Self {
        Self { socket: Seqpacket::connect(&place.dir().socket(node(id)).unwrap()).unwrap() }
    }

    pub fn hello(place: &Place, id: u32) -> Self {
        let raw = Self::connect(place, id);
        let myself = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let hello = encode(&ToManager::Hello { name: "raw".into(), reattach: false }).unwrap();
        raw.socket.send_hello(&hello, &[myself.as_fd()]).unwrap();
        assert!(matches!(raw.receive(), Some(ToProgram::Welcome { .. })));
        raw
    }

    /// The next message; `None`: the manager closed the connection.
    pub fn receive(&self) -> Option<ToProgram> {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WATCHDOG, "the manager says nothing");
            match self.socket.receive(&mut buffer) {
                Ok(Some(datagram)) => return Some(decode(&buffer[..datagram.len]).unwrap()),
                Ok(None) => return None,
                Err(rustix::io::Errno::AGAIN) => {
                    self.socket.wait(Wanted::Read, Some(Duration::from_millis(100))).unwrap();
                }
                Err(rustix::io::Errno::CONNRESET) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A place that all users can reach, with this test's binary in it; `None` if the test is not for this user.
pub fn place_of_users() -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return None;
    }
    let place = Place::new();
    set_mode(&place.root, 0o711);
    std::fs::copy(std::env::current_exe().unwrap(), place.root.join("binary")).unwrap();
    set_mode(&place.root.join("binary"), 0o755);
    Some(place)
}

/// A command that plays a role as another user, from a place of [`place_of_users`].
pub fn as_user(place: &Place, uid: u32, gid: u32, role: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(place.root.join("binary"));
    command.args(["--exact", "child_role", "--nocapture", "--test-threads=1"]).env("TL_ROLE", role);
    command.env("TL_ROOT", &place.root).stdin(Stdio::null()).current_dir("/").uid(uid).gid(gid);
    command
}

/// Starts it, although another test may have forked while this one had its copy of the binary open to write.
pub fn spawn(command: &mut Command) -> Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done.unwrap(),
        }
    }
}

/// Plays a role to its end.
pub fn play(command: &mut Command) {
    let role = format!("{command:?}");
    let output = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).wait_with_output().unwrap();
    assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
}

pub fn is_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::ManagerGone { .. })
}
