//! Starts hosts, and waits until all are connected.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use node::cluster::list_nodes;
use node::runtime_dir::{prepare, remove_if_empty, remove_stale};
use node_client::runtime_dir::ClusterDir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use shm::process::{Namespaces, unshare};

use crate::delay::Delay;
use crate::error::{NamespacesError, Result};
use crate::loss::Loss;
use crate::plan::{self, Range};
use crate::rate::Rate;
use crate::state::{self, Host};
use crate::words::Said;
use crate::{HUB, hub, line, mounts};

/// Between two looks at whether the caller wants no more.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long what was started may take to end, when it is undone, before it is killed.
const UNDO_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// As much of the log is shown.
const TAIL_BYTES: u64 = 2048;

/// What is to be started.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// The directory of the cluster on this machine.
    pub dir: ClusterDir,
    /// How many hosts.
    pub count: usize,
    /// How many networks they share, each with an interface and an address of every host.
    pub rails: usize,
    /// How fast each host may send and receive on a rail, if there is a limit.
    pub rate: Option<Rate>,
    /// How long each frame is on its way, in each direction, if not as short as the kernel makes it.
    pub delay: Option<Delay>,
    /// How many frames do not arrive, in each direction, if not none.
    pub loss: Option<Loss>,
    /// Whether programs inject the faults that `tieline link` asks for, no matter what the configuration
    /// contains.
    pub faults: bool,
    /// The configuration of all managers, if not the usual one.
    pub config: Option<PathBuf>,
    /// How long until all have to be connected.
    pub limit: Duration,
    /// Called now and then; once it returns true, all that was begun is undone, and that is the error.
    pub stop: fn() -> bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many hosts run.
    Started(usize),
    /// So many are connected with all others.
    Ready(usize),
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct UpReport {
    /// The hosts, in their order.
    pub hosts: Vec<Host>,
    /// Until all sessions were valid.
    pub took: Duration,
}

/// Hosts that were started: they end when this is dropped, and with this process, until they are kept.
#[derive(Debug)]
pub struct Lease {
    hub: Option<Hub>,
    dir: ClusterDir,
}

impl Lease {
    /// The hosts stay when this process ends.
    ///
    /// # Errors
    /// The process that holds them is gone, and they with it.
    pub fn keep(mut self) -> Result<()> {
        self.hub.take().map_or(Ok(()), Hub::keep)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(mut hub) = self.hub.take() {
            hub.undo();
            clean(&self.dir);
        }
    }
}

/// Starts the hosts. If it fails, or this process ends before that, what it has started ends too, and nothing
/// is left.
///
/// # Errors
/// This process may not, something that is needed is missing, the name is in use, or the hosts do not connect
/// in time.
pub fn up(options: &UpOptions, progress: &mut dyn FnMut(Progress)) -> Result<(UpReport, Lease)> {
    let began = Instant::now();
    plan::nodes(options.count)?;
    root_only("hosts in namespaces")?;
    let config = options.config.as_deref().map(visible).transpose()?;
    let rails = Range::free(options.rails)?;
    let dir = &options.dir;
    // A mistake in it is reported once, here, and not by every manager.
    let settings = node::config::load(options.config.as_deref()).map_err(node::NodeError::from)?;
    prepare(dir, &settings.sharing())?;
    let report = begin(
        options,
        hub::Arguments {
            dir: dir.clone(),
            count: options.count,
            rails,
            rate: options.rate,
            delay: options.delay,
            loss: options.loss,
            faults: options.faults,
            config,
        },
        progress,
    );
    if report.is_err() {
        clean(dir);
    }
    let (hosts, hub) = report?;
    Ok((UpReport { hosts, took: began.elapsed() }, Lease { hub: Some(hub), dir: dir.clone() }))
}

/// Only root may do that.
pub(crate) fn root_only(what: &'static str) -> Result<()> {
    let uid = geteuid();
    if uid.is_root() { Ok(()) } else { Err(NamespacesError::NotRoot { what, uid: uid.as_raw() }) }
}

/// The path of a file as it is found from any directory of a host.
fn visible(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(NamespacesError::io("look at", path))?;
    match mounts::hides(&path) {
        Some(place) => Err(NamespacesError::Hidden { path, place }),
        None => Ok(path),
    }
}

/// Removes what is left of hosts that do not live.
fn clean(dir: &ClusterDir) {
    if !state::are_up(dir) {
        state::remove(dir);
    }
    remove_if_empty(dir);
}

fn begin(
    options: &UpOptions,
    arguments: hub::Arguments,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Host>, Hub)> {
    let dir = &options.dir;
    let cluster = || dir.cluster().clone();
    remove_stale(dir)?;
    if !list_nodes(dir)?.is_empty() {
        return Err(NamespacesError::HasNodes { cluster: cluster() });
    }
    if let Some(hub) = state::hub(dir) {
        return Err(NamespacesError::InUse { cluster: cluster(), pid: hub.pid });
    }
    // Once, for all managers: each would do it for itself.
    node::copy_plan::at_start(dir.root())?;
    let path = state::log_path(dir);
    let mut log = OpenOptions::new();
    let log = log.write(true).create(true).truncate(true).mode(0o600).open(&path);
    let log = log.map_err(NamespacesError::io("open the log", path))?;
    let mut hub = Hub::start(&arguments, log)?;
    match hub.follow(options, progress).and_then(|()| state::read(dir)) {
        Ok(lab) => Ok((lab.map(|lab| lab.host).unwrap_or_default(), hub)),
        Err(error) => {
            hub.undo();
            Err(error)
        }
    }
}

/// The process that holds the hosts, just started.
#[derive(Debug)]
struct Hub {
    child: Child,
    said: ChildStdout,
}

impl Hub {
    fn start(arguments: &hub::Arguments, log: File) -> Result<Self> {
        let program = std::env::current_exe().map_err(NamespacesError::io("read", "/proc/self/exe"))?;
        let mut command = Command::new(&program);
        command.args(arguments.words([HUB.into()])).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // A thread that has put its children elsewhere can start no threads any more: so it is none of this
        // process's others.
        let start = || {
            unshare(Namespaces::ProcessesOfChildren)
                .map_err(|source| NamespacesError::Namespace { what: "a namespace of processes", source })?;
            command.spawn().map_err(NamespacesError::io("run", &program))
        };
        let mut child = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("hub".into()).spawn_scoped(scope, start);
            let thread = thread.map_err(NamespacesError::io("start", "a thread"))?;
            thread.join().unwrap_or_else(|_| Err(NamespacesError::Said("the hub was not started".into())))
        })?;
        let Some(said) = child.stdout.take() else {
            return Err(NamespacesError::Said("the hub has no pipe".into()));
        };
        Ok(Self { child, said })
    }

    /// Until all is well.
    fn follow(&mut self, options: &UpOptions, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let until = Instant::now() + options.limit;
        loop {
            if (options.stop)() {
                return Err(NamespacesError::Stopped);
            }
            if Instant::now() >= until {
                return Err(NamespacesError::NotReady { seconds: options.limit.as_secs() });
            }
            let mut fds = [PollFd::new(&self.said, PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&LOOK)), Ok(1)) {
                continue;
            }
            match line::next(&self.said).map(|line| line.parse::<Said>()) {
                Some(Ok(Said::Started(count))) => progress(Progress::Started(count)),
                Some(Ok(Said::Ready(count))) => progress(Progress::Ready(count)),
                Some(Ok(Said::Done)) => return Ok(()),
                Some(Ok(Said::Failed(text)) | Err(text)) => return Err(NamespacesError::Said(text)),
                Some(Ok(other)) => return Err(NamespacesError::Said(format!("the hub says `{other}`"))),
                None => return Err(self.ended(options)),
            }
        }
    }

    fn ended(&mut self, options: &UpOptions) -> NamespacesError {
        let status = self.child.wait().map(|status| status.to_string());
        let log = tail(&state::log_path(&options.dir)).unwrap_or_default();
        let log = if log.is_empty() { "(nothing)".to_owned() } else { log };
        NamespacesError::HubEnded { status: status.unwrap_or_else(|error| error.to_string()), log }
    }

    /// They stay when this process ends.
    fn keep(mut self) -> Result<()> {
        let mut lease = self.child.stdin.take();
        let kept = lease.as_mut().map_or(Ok(()), |lease| writeln!(lease, "{}", hub::KEEP));
        kept.map_err(NamespacesError::io("write to", "the process that holds the hosts"))
    }

    /// All that was started ends.
    fn undo(&mut self) {
        drop(self.child.stdin.take());
        let until = Instant::now() + UNDO_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}
