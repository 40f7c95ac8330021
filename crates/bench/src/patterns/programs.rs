//! Well-known socket programs, with rings and on the plain kernel in turn.
//!
//! Two servers run at once: one with the library and rings, as `tieline run --rings` starts it, one
//! plain. The clients of the two alternate; the other server sleeps while one is measured. [`load`]
//! has the programs and their arguments, [`said`] reads their output, [`running`] starts and ends
//! them, [`share`] computes the share of bytes that went through rings.

mod load;
mod room;
mod running;
mod said;
pub mod share;
pub mod twins;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use load::Line;
pub use load::Load;
pub(super) use room::{Room, free_port};
pub(super) use running::{Running, on_cpu};
use share::Share;
use sockets_rules::{
    ENV_LIBRARY,
    launch::{self, Options},
    statistics,
};

use crate::{
    error::{BenchError, Result},
    patterns::manager::cpu_time_ns,
    progress::Waiter,
    run::Sides,
};

const WHAT: &str = "a well-known program";
/// Longest until a server listens.
const START: Duration = Duration::from_secs(20);
/// Longest that a client may take.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(40);
/// How often a client is tried for one reading, and how many clients of a figure may have no
/// result: on a busy machine sockperf sometimes counts nothing as valid.
const TRIES: u32 = 3;
const REPEATED_MOST: u32 = 4;

fn absent(reason: impl std::fmt::Display) -> BenchError {
    BenchError::Absent { what: WHAT, reason: reason.to_string() }
}

/// A server, and the clients that connect to it one after another.
#[derive(Debug)]
struct Side {
    name: &'static str,
    server: Running,
    port: u16,
    /// The sockets library to preload; `None` on the plain side.
    library: Option<PathBuf>,
    amount: u64,
}

/// The same server twice: ours with rings, the reference plain.
pub struct Pair {
    ours: Side,
    reference: Option<Side>,
    load: Load,
    cpus: [usize; 2],
    waiter: Arc<dyn Waiter>,
    share: Share,
    /// The largest share of a processor that a server used while the other one was measured.
    idle: f64,
    /// Clients that had no result.
    repeated: u32,
    /// Last: the folder is removed after the processes that use it.
    room: Room,
}

impl Pair {
    /// Starts the servers on the first processor; clients run on the second. Without `plain` there
    /// is no reference, and the plain side cannot be measured.
    pub fn start(load: Load, cpus: [usize; 2], plain: bool, waiter: Arc<dyn Waiter>) -> Result<Self> {
        let own = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
        let library = launch::library(std::env::var_os(ENV_LIBRARY).as_deref(), &[own]).map_err(absent)?;
        // Both, before anything is started.
        load.needs().into_iter().try_for_each(|need| find(need).map(drop))?;
        let room = Room::new()?;
        let start = |name, library| Side::start(load, name, library, cpus[0], &room, &waiter);
        let ours = start("entered", Some(library))?;
        let reference = if plain { Some(start("plain", None)?) } else { None };
        Ok(Self {
            ours,
            reference,
            load,
            cpus,
            waiter,
            share: Share::default(),
            idle: 0.0,
            repeated: 0,
            room,
        })
    }

    /// The share of the clients' bytes that went through rings so far.
    pub const fn share(&self) -> Share {
        self.share
    }

    /// The notes: the processor time of the server that was not measured, and the number of
    /// repeated clients.
    pub fn notes(&self) -> Vec<String> {
        let idle = format!(
            "the server that was not measured used at most {:.1} % of a processor meanwhile",
            self.idle * 100.0
        );
        let repeated = format!("{} clients printed no result, and were repeated", self.repeated);
        self.reference
            .is_some()
            .then_some(idle)
            .into_iter()
            .chain((self.repeated > 0).then_some(repeated))
            .collect()
    }

    /// The command line of the reference's client, at a port that is not known before.
    pub fn argv(load: Load) -> Vec<String> {
        let line = load.client(0, load.amount(None, false));
        std::iter::once(line.program.0.to_owned()).chain(line.arguments).collect()
    }

    fn reading(&mut self, plain: bool) -> Result<f64> {
        let (side, other) = match (plain, &mut self.reference) {
            (false, other) => (&mut self.ours, other.as_ref()),
            (true, Some(side)) => (side, Some(&self.ours)),
            (true, None) => return Err(absent("there is no plain side")),
        };
        let idle = |since: Option<u64>| match (other, since) {
            (Some(other), Some(since)) => cpu_time_ns(other.server.id()).map(|now| now.saturating_sub(since)),
            _ => Ok(0),
        };
        let before = other.map(|other| cpu_time_ns(other.server.id())).transpose()?;
        let began = Instant::now();
        let value = side.reading(self.load, self.cpus[1], &self.room, &self.waiter, &mut self.repeated)?;
        let used = idle(before)? as f64 / began.elapsed().as_nanos().max(1) as f64;
        self.idle = self.idle.max(used);
        if side.library.is_some() {
            self.share.add(&statistics_path(&self.room, "client"))?;
        }
        Ok(value)
    }
}

impl Side {
    fn start(
        load: Load,
        name: &'static str,
        library: Option<PathBuf>,
        cpu: usize,
        room: &Room,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let port = free_port()?;
        let line = load.server(port, room)?;
        let command = command(&line, library.as_deref(), "server", room)?;
        let server = Running::start(tied(command), &format!("{}-{name}", line.program.0), room.path(), cpu)?;
        server.wait_for(port, START, waiter)?;
        let is_inside = is_inside(&server)?;
        if is_inside != library.is_some() {
            return Err(absent("the library is not where it should be, or where it should not"));
        }
        let amount = load.amount(None, library.is_some());
        Ok(Self { name, server, port, library, amount })
    }

    /// One client: what it measured. One that has no result is repeated, and counted.
    fn reading(
        &mut self,
        load: Load,
        cpu: usize,
        room: &Room,
        waiter: &Arc<dyn Waiter>,
        repeated: &mut u32,
    ) -> Result<f64> {
        for _ in 0..TRIES {
            // Some servers listen again after each client.
            self.server.wait_for(self.port, START, waiter)?;
            let line = load.client(self.port, self.amount);
            let command = command(&line, self.library.as_deref(), "client", room)?;
            let name = format!("{}-client-{}", line.program.0, self.name);
            let said = Running::start(command, &name, room.path(), cpu)?.finish(CLIENT_TIMEOUT, waiter)?;
            if let Some(value) = load.value(&said) {
                self.amount = load.amount(Some(value), self.library.is_some());
                return Ok(value);
            }
            *repeated += 1;
            if *repeated > REPEATED_MOST || load == Load::Http {
                return Err(BenchError::OtherEnd {
                    what: WHAT,
                    reason: format!("{name} printed no result: {}", running::tail(&said)),
                });
            }
        }
        Err(absent("a client gave no result several times, one after another"))
    }
}

fn statistics_path(room: &Room, whose: &str) -> PathBuf {
    room.path().join(format!("statistics-{whose}"))
}

/// The path of a program: by the caller's PATH, or in the folders for administrators.
pub(in crate::patterns) fn find((program, package): (&'static str, &'static str)) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(program)).filter(|path| path.is_file())).ok_or_else(|| {
        absent(format!("{program} is not installed: install it, in Debian the package {package}"))
    })
}

/// Starts a program, with the library and rings if `rings` is given. Its statistics start at zero.
fn command(line: &Line, library: Option<&Path>, whose: &str, room: &Room) -> Result<Command> {
    let path = find(line.program)?;
    let mut command = Command::new(&path);
    command.args(&line.arguments).env("LC_ALL", "C").env_remove("LD_PRELOAD");
    let Some(library) = library else { return Ok(command) };
    let counted = statistics_path(room, whose);
    statistics::create(&counted, true).map_err(absent)?;
    command.envs(entered(&path, &line.arguments, &launch::counted(library, &counted, true))?);
    Ok(command)
}

/// The variables by which the library enters a program.
fn entered(program: &Path, arguments: &[String], options: &Options) -> Result<Vec<(OsString, OsString)>> {
    let arguments = arguments.iter().map(OsString::from);
    launch::variables(program, arguments, options)
        .map_err(|why| absent(format!("{} cannot be entered: {why}", program.display())))
}

/// A server that ends with this process, however that ends: `setpriv` has the kernel see to it.
/// Without it a server outlives a process that is killed.
fn tied(command: Command) -> Command {
    let Ok(setpriv) = find(("setpriv", "util-linux")) else { return command };
    let mut tied = Command::new(setpriv);
    // The library enters the server, not the process that starts it.
    tied.args(["--pdeathsig", "KILL", "--", "env"]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => {
                let mut pair = name.to_owned();
                pair.push("=");
                pair.push(value);
                tied.arg(pair);
            }
            None => drop(tied.env_remove(name)),
        }
    }
    tied.arg(command.get_program()).args(command.get_args());
    tied
}

/// Whether the library is in a program.
fn is_inside(server: &Running) -> Result<bool> {
    let path = format!("/proc/{}/maps", server.id());
    let maps = std::fs::read(&path).map_err(BenchError::io(path))?;
    let name = b"libtieline";
    Ok(maps.windows(name.len()).any(|bytes| bytes == name))
}

impl Sides for Pair {
    fn ours(&mut self) -> Result<f64> {
        self.reading(false)
    }

    fn reference(&mut self) -> Result<f64> {
        self.reading(true)
    }
}

#[cfg(test)]
mod tests;
