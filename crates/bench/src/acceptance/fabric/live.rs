//! Figures of live fabrics: through `ibsim`, and through the server of this program.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use fabric::counters::{self, Plan, collect};
use fabric::server::{self, Event, serve};
use fabric::sweep::{self, Found};
use mad::Address;
use mad::header::{Path as Route, Smp};
use mad::ibsim::IbsimTransport;
use mad::sm::attribute;
use mad::values::Method;
use mad::windowed::{Limits, Windowed};

use super::*;

/// The time in which a simulator must load a net.
const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// Questions of one reading of the rate.
const QUESTIONS: u64 = 200_000;

/// A simulator of others, and its directory; both go with it.
pub(super) struct Ibsim {
    process: Child,
    pub(super) dir: PathBuf,
    pub(super) base: String,
}

impl Ibsim {
    /// Starts it on a graph.
    pub(super) fn start(graph: &Graph) -> Result<Self> {
        static NEXT: shm::sync::AtomicUsize = shm::sync::AtomicUsize::new(0);
        // Relaxed: only the number matters.
        let number = NEXT.fetch_add(1, shm::sync::Ordering::Relaxed);
        let base = format!("tieline-bench-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(&base);
        let io = |what: &Path| {
            let what = what.display().to_string();
            move |source| BenchError::Io { what, source }
        };
        // A folder of this name that already exists is not used: it may belong to another process.
        drop(fs::remove_dir_all(&dir));
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(io(&dir))?;
        let mut net = Vec::new();
        topology::write::ibsim(graph, &mut net).map_err(io(&dir))?;
        fs::write(dir.join("net"), net).map_err(io(&dir))?;
        let started = Command::new("ibsim")
            .args(["-s", "-n", "-N", "20000", "-S", "3000", "-P", "200000", "-L", "49151", "net"])
            .current_dir(&dir)
            .env("IBSIM_SOCKNAME", &base)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(process) => {
                let ibsim = Self { process, dir, base };
                ibsim.connect()?;
                Ok(ibsim)
            }
            Err(error) => {
                drop(fs::remove_dir_all(&dir));
                Err(BenchError::Fabric(format!(
                    "ibsim cannot be started ({error}): install it, in Debian the package ibsim-utils"
                )))
            }
        }
    }

    /// Waits until it serves.
    pub(super) fn connect(&self) -> Result<IbsimTransport> {
        let begun = Instant::now();
        loop {
            match IbsimTransport::connect(&self.base, "") {
                Ok(transport) => return Ok(transport),
                Err(error) if begun.elapsed() > LOAD_LIMIT => return Err(failed(error)),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_dir_all(&self.dir));
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Fabric(error.to_string())
}

fn found(transport: &mut IbsimTransport, stop: &dyn Fn() -> bool) -> Result<Found> {
    sweep::sweep(transport, &sweep::Options::default(), &mut |_| (), stop).map_err(failed)
}

/// The time of stock discovery on the same simulator; `None` if it is not installed.
fn rival(ibsim: &Ibsim) -> Option<f64> {
    let begun = Instant::now();
    let status = Command::new("ibsim-run")
        .arg("ibnetdiscover")
        .current_dir(&ibsim.dir)
        .env("IBSIM_SOCKNAME", &ibsim.base)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success()).then(|| begun.elapsed().as_secs_f64())
}

pub(super) fn sweep(context: &Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let graph = tree(RADIX)?;
    let ibsim = Ibsim::start(&graph)?;
    let mut transport = ibsim.connect()?;
    let stop = || context.progress.stop();
    let blocks = seconds(context, LONG_READINGS, at_most, || {
        let found = found(&mut transport, &stop)?;
        if found.graph.link_count() != graph.link_count() || !found.anomalies.is_empty() {
            let (links, anomalies) = (found.graph.link_count(), found.anomalies.len());
            return Err(failed(format!(
                "{links} links of {} found, {anomalies} anomalies",
                graph.link_count()
            )));
        }
        Ok(found.took.as_secs_f64())
    })?;
    drop(transport);
    let rival = match rival(&ibsim) {
        Some(seconds) => format!("ibnetdiscover on the same simulator, once: {seconds:.2} s"),
        None => "ibnetdiscover is not there; known: 4.6 s".to_owned(),
    };
    of_seconds(context, entry, at_most, blocks, vec![rival])
}

pub(super) fn counters(context: &Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let graph = tree(RADIX)?;
    let base = format!("tieline-bench-own-{}", std::process::id());
    let options = server::Options { base: base.clone(), control: None, bring_up: true };
    let (done, ended) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let ready = ready;
            let mut event = |event: Event| {
                if event == Event::Ready {
                    let _ = ready.send(());
                }
            };
            let ended = Cell::new(Some(ended));
            let stop = move || {
                let Some(channel) = ended.take() else { return true };
                let over = channel.try_recv() != Err(mpsc::TryRecvError::Empty);
                ended.set(Some(channel));
                over
            };
            serve(graph, &options, &mut event, &stop).map(drop).map_err(failed)
        });
        let measured = match is_ready.recv_timeout(LOAD_LIMIT) {
            Ok(()) => counted(context, at_most, &base),
            Err(error) => Err(failed(format!("the server did not begin: {error}"))),
        };
        drop(done);
        match server.join() {
            Ok(served) => served.and(measured),
            Err(_) => Err(failed("the server's thread panicked")),
        }
    })
    .and_then(|(blocks, ports)| {
        let notes = vec![
            format!("counters of {ports} known ports in 32 and 64 bits, without a new sweep"),
            "through this program's own server, which shares the processors, as no subnet manager gives LIDs on ibsim here"
                .to_owned(),
            "known: ibqueryerrors 5.7 s on ibsim; not run here".to_owned(),
        ];
        of_seconds(context, entry, at_most, blocks, notes)
    })
}

fn counted(context: &Context<'_>, at_most: f64, base: &str) -> Result<(Vec<Block>, usize)> {
    let mut transport = IbsimTransport::connect(base, "").map_err(failed)?;
    let stop = || context.progress.stop();
    let found = found(&mut transport, &stop)?;
    let mut plan = Plan::new(&found.graph);
    let options = counters::Options::default();
    let blocks = seconds(context, LONG_READINGS, at_most, || {
        let collected = collect(&mut transport, &mut plan, &options, &stop).map_err(failed)?;
        if collected.stopped || !collected.missing.is_empty() {
            return Err(failed(format!("{} ports were not counted", collected.missing.len())));
        }
        Ok(collected.took.as_secs_f64())
    })?;
    Ok((blocks, plan.ports()))
}

pub(super) fn rate(context: &Context<'_>, entry: &Entry, at_least: f64) -> Result<Figure> {
    let graph = fat_tree(&FatTree::new(8, 2)).map_err(failed)?;
    let ibsim = Ibsim::start(&graph)?;
    let mut transport = ibsim.connect()?;
    let mut slowest = f64::INFINITY;
    for _ in 0..LONG_READINGS {
        slowest = slowest.min(questions(&mut transport)?);
    }
    let note =
        format!("{QUESTIONS} requests for NodeInfo to the node itself; the slowest of {LONG_READINGS}");
    let spec = Spec {
        path: "fabric".to_owned(),
        goal: Goal::at_least(1.0),
        kind: ReferenceKind::Fixed,
        reference: format!("at least {at_least} M/s"),
        ..spec(entry, "M/s", Stat::Max, at_least, note)
    };
    figure(spec, vec![Block { ours: slowest / 1e6, reference: at_least }], context.options.seed)
}

/// Responses a second.
fn questions(transport: &mut IbsimTransport) -> Result<f64> {
    let mut client: Windowed<()> = Windowed::new(Limits::default());
    let (mut asked, mut answered, mut done) = (0, 0_u64, Vec::new());
    let begun = Instant::now();
    while answered < QUESTIONS {
        while asked < QUESTIONS && client.open() < 128 {
            let mad = Smp::directed(Method::GET, attribute::NODE_INFO, 0, &Route::LOCAL);
            client.ask(Address::DIRECTED, mad, ());
            asked += 1;
        }
        client.drive(transport, Duration::from_millis(100), &mut done).map_err(failed)?;
        if let Some(bad) = done.iter().find(|one| one.outcome.answer().is_none()) {
            return Err(failed(format!("a request got no response: {:?}", bad.outcome)));
        }
        answered += done.drain(..).count() as u64;
    }
    Ok(answered as f64 / begun.elapsed().as_secs_f64())
}
