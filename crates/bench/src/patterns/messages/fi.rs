//! libfabric by itself: a program of our own (`fi.c` beside this file) that sends and receives tagged
//! messages through the provider that it is told.

use std::{path::PathBuf, process::Command, sync::Arc, time::Duration};

use super::{Load, mpi};
use crate::{
    error::{BenchError, Result},
    patterns::programs::{Room, Running, find},
    progress::Waiter,
    run::Sides,
};

const SOURCE: &str = include_str!("fi.c");
const COMPILER: (&str, &str) = ("cc", "gcc");
/// A program that comes with libfabric, and Debian's package.
const INFO: (&str, &str) = ("fi_info", "libfabric-bin");
const READING: Duration = Duration::from_secs(60);

/// A provider of libfabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Tieline's.
    Tieline,
    /// Libfabric's own for processes of one machine.
    Shm,
}

impl Provider {
    const fn name(self) -> &'static str {
        match self {
            Self::Tieline => "tieline",
            Self::Shm => "shm",
        }
    }
}

/// Starts its two processes for each reading.
pub struct Fi {
    provider: Provider,
    program: PathBuf,
    /// The folder of tieline's provider, if it runs over that.
    providers: Option<PathBuf>,
    cpus: [usize; 2],
    waiter: Arc<dyn Waiter>,
    /// Last: the folder is removed after the processes that use it.
    room: Room,
}

impl Fi {
    /// Compiles the program.
    ///
    /// # Errors
    /// libfabric, its headers or a compiler are not installed.
    pub fn new(provider: Provider, cpus: [usize; 2], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let (compiler, _) = (find(COMPILER)?, find(INFO)?);
        let providers = match provider {
            Provider::Tieline => Some(mpi::providers()?),
            Provider::Shm => None,
        };
        let room = Room::new()?;
        let what = "libfabric (Debian: libfabric-dev)";
        let program = mpi::compile(&compiler, room.path(), ("fi", SOURCE), &["-lfabric"], what)?;
        Ok(Self { provider, program, providers, cpus, waiter: Arc::clone(waiter), room })
    }

    /// libfabric's version; empty if it is not there.
    pub fn version() -> String {
        let said = Command::new(INFO.0).arg("--version").output().map(|output| output.stdout);
        let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
        let version = said.lines().find_map(|line| line.strip_prefix("libfabric: "));
        version.unwrap_or_default().trim().to_owned()
    }

    /// Its command line.
    pub fn argv(provider: Provider, load: Load, cpus: [usize; 2]) -> Vec<String> {
        std::iter::once("fi".to_owned()).chain(arguments(provider, load, cpus)).collect()
    }

    fn reading(&self, load: Load) -> Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(arguments(self.provider, load, self.cpus));
        if let Some(folder) = &self.providers {
            command.env("FI_PROVIDER_PATH", folder);
        }
        let said =
            Running::start(command, "fi", self.room.path(), self.cpus[0])?.finish(READING, &self.waiter)?;
        let ns = said.trim().parse().ok().filter(|ns: &f64| *ns > 0.0);
        let name = self.provider.name();
        ns.map(|ns| load.of_ns(ns)).ok_or_else(|| BenchError::OtherEnd {
            what: super::WHAT,
            reason: format!("the program over {name} printed no time: {said}"),
        })
    }
}

fn arguments(provider: Provider, load: Load, cpus: [usize; 2]) -> Vec<String> {
    let own = format!("{} {} {} {}", provider.name(), cpus[0], cpus[1], mpi::order(load));
    own.split(' ').map(ToOwned::to_owned).collect()
}

/// Tieline's provider, compared with libfabric's own.
pub struct BesideShm {
    /// Tieline's.
    pub ours: Fi,
    /// Libfabric's.
    pub shm: Fi,
    /// What both carry out.
    pub load: Load,
}

impl Sides for BesideShm {
    fn ours(&mut self) -> Result<f64> {
        self.ours.reading(self.load)
    }

    fn reference(&mut self) -> Result<f64> {
        self.shm.reading(self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_command_line_says_what_is_measured() {
        let line = Fi::argv(Provider::Shm, Load::Echo { size_bytes: 8 }, [2, 5]).join(" ");
        assert_eq!(line, "fi shm 2 5 echo 8 100000");
        let load = Load::Stream { size_bytes: 1 << 20, is_cold: false };
        let line = Fi::argv(Provider::Tieline, load, [0, 1]).join(" ");
        assert_eq!(line, "fi tieline 0 1 stream 1048576 512 4 1 1");
    }
}
