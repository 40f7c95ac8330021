//! An MPI that is installed: a program of our own (`mpi.c` beside this file), compiled with its compiler.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use super::Load;
use crate::{
    error::{BenchError, Result},
    patterns::{
        programs::{Room, Running, find},
        pt2pt::Access,
    },
    progress::Waiter,
};

const SOURCE: &str = include_str!("mpi.c");
/// Tieline's provider of libfabric, which loads files whose names end so.
const PROVIDER: &str = "libtieline-fi.so";
const READING: Duration = Duration::from_secs(60);

/// Which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// Open MPI, with the transport that it chooses.
    OpenMpi,
    /// Open MPI over tieline's provider of libfabric.
    OpenMpiOverTieline,
    /// MPICH.
    Mpich,
}

impl Implementation {
    /// Its compiler and its launcher, each with Debian's package.
    const fn programs(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::OpenMpi | Self::OpenMpiOverTieline => {
                [("mpicc.openmpi", "libopenmpi-dev"), ("mpirun.openmpi", "openmpi-bin")]
            }
            Self::Mpich => [("mpicc.mpich", "libmpich-dev"), ("mpirun.mpich", "mpich")],
        }
    }

    /// Options of the launcher, but for the number of ranks, which choose their processors themselves.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["-oversubscribe", "-bind-to", "none", "-np"],
            // Without another way: it fails if it does not find the provider.
            Self::OpenMpiOverTieline => &[
                "-oversubscribe",
                "-bind-to",
                "none",
                "-mca",
                "pml",
                "cm",
                "-mca",
                "mtl",
                "ofi",
                "-mca",
                "mtl_ofi_provider_include",
                "tieline",
                "-np",
            ],
            Self::Mpich => &["-bind-to", "none", "-np"],
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::OpenMpiOverTieline => "Open MPI over tieline",
            Self::Mpich => "MPICH",
        }
    }

    /// Its version, as its launcher prints it; empty if that is not there.
    pub fn version(self) -> String {
        let launcher = self.programs()[1].0;
        let said = Command::new(launcher).arg("--version").output().map(|output| output.stdout);
        let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
        let is_version =
            |word: &&str| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.');
        said.split_whitespace().find(is_version).unwrap_or_default().to_owned()
    }

    /// Its command line.
    pub fn argv(self, load: Load, cpus: [usize; 2]) -> Vec<String> {
        let launcher = self.programs()[1].0.to_owned();
        std::iter::once(launcher).chain(self.arguments("mpi", load, cpus)).collect()
    }

    fn arguments(self, program: &str, load: Load, cpus: [usize; 2]) -> Vec<String> {
        self.arguments_of(program, load.processes(), &order(load), cpus)
    }

    /// The command line with which memory is accessed so often.
    pub fn access_argv(self, access: Access, cpus: [usize; 2]) -> Vec<String> {
        let launcher = self.programs()[1].0.to_owned();
        let arguments = self.arguments_of("mpi", 2, &access.order(), cpus);
        std::iter::once(launcher).chain(arguments).collect()
    }

    fn arguments_of(self, program: &str, processes: u64, order: &str, cpus: [usize; 2]) -> Vec<String> {
        let own = format!("{processes} {program} {} {} {order}", cpus[0], cpus[1]);
        let options = self.options().iter().map(|option| (*option).to_owned());
        options.chain(own.split(' ').map(ToOwned::to_owned)).collect()
    }
}

/// What the program is told to do.
pub(super) fn order(load: Load) -> String {
    let shape = format!("{} {}", load.size_bytes(), load.count());
    match load {
        Load::Echo { .. } | Load::Pairs { .. } => format!("echo {shape}"),
        Load::Allreduce { .. } => format!("allreduce {shape}"),
        Load::Rate { .. } | Load::Stream { .. } => {
            format!("stream {shape} {} {} {}", load.window(), load.tags(), load.buffers())
        }
    }
}

/// Starts its ranks for each reading.
pub struct Mpi {
    implementation: Implementation,
    launcher: PathBuf,
    program: PathBuf,
    /// The folder of tieline's provider, if it runs over that.
    providers: Option<PathBuf>,
    cpus: [usize; 2],
    waiter: Arc<dyn Waiter>,
    /// Last: the folder is removed after the processes that use it.
    room: Room,
}

impl Mpi {
    /// Compiles the program.
    ///
    /// # Errors
    /// It is not installed, or its compiler fails.
    pub fn new(implementation: Implementation, cpus: [usize; 2], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let [compiler, launcher] = implementation.programs();
        let (compiler, launcher) = (find(compiler)?, find(launcher)?);
        let providers = match implementation {
            Implementation::OpenMpiOverTieline => Some(providers()?),
            _ => None,
        };
        let room = Room::new()?;
        let program = compile(&compiler, room.path(), ("mpi", SOURCE), &[], "this MPI")?;
        Ok(Self { implementation, launcher, program, providers, cpus, waiter: Arc::clone(waiter), room })
    }

    pub(super) fn reading(&self, load: Load) -> Result<f64> {
        self.ns(load.processes(), &order(load)).map(|ns| load.of_ns(ns))
    }

    /// The time of an access to memory of the other rank, in ns.
    ///
    /// # Errors
    /// A rank fails, or takes too long.
    pub fn access_ns(&self, access: Access) -> Result<f64> {
        self.ns(2, &access.order())
    }

    /// What rank 0 prints.
    fn ns(&self, processes: u64, order: &str) -> Result<f64> {
        let mut command = Command::new(&self.launcher);
        let program = self.program.display().to_string();
        command.args(self.implementation.arguments_of(&program, processes, order, self.cpus));
        // Root is refused else.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        if let Some(folder) = &self.providers {
            command.env("FI_PROVIDER_PATH", folder);
        }
        let name = self.implementation.name();
        let said =
            Running::start(command, "mpi", self.room.path(), self.cpus[0])?.finish(READING, &self.waiter)?;
        let ns = said.lines().rev().find_map(|line| line.trim().parse().ok()).filter(|ns: &f64| *ns > 0.0);
        let nothing =
            || BenchError::OtherEnd { what: super::WHAT, reason: format!("{name} printed no time: {said}") };
        ns.ok_or_else(nothing)
    }
}

/// The folder of the provider: beside this program, or in the same installation.
pub(super) fn providers() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let mut places = vec![folder.to_owned()];
    places.extend(["../lib64/libfabric", "../../lib64/libfabric"].map(|below| folder.join(below)));
    let has_it = |folder: &PathBuf| folder.join(PROVIDER).is_file();
    let reason = || {
        let places: Vec<_> = places.iter().map(|folder| folder.display().to_string()).collect();
        format!("{PROVIDER} is in none of {}: build or install tieline again", places.join(", "))
    };
    places
        .iter()
        .find(|folder| has_it(folder))
        .cloned()
        .ok_or_else(|| BenchError::Absent { what: super::WHAT, reason: reason() })
}

/// Compiles a program of ours; `what` has to be installed for that.
pub(super) fn compile(
    compiler: &Path,
    room: &Path,
    (name, text): (&str, &str),
    libraries: &[&str],
    what: &str,
) -> Result<PathBuf> {
    let (source, program) = (room.join(name).with_extension("c"), room.join(name));
    std::fs::write(&source, text).map_err(BenchError::io(source.display().to_string()))?;
    let output = Command::new(compiler)
        .args(["-O2", "-o"])
        .args([&program, &source])
        .args(libraries)
        .output()
        .map_err(BenchError::io(compiler.display().to_string()))?;
    if output.status.success() {
        return Ok(program);
    }
    let reason = format!(
        "{} does not compile {name}.c: {}: install the packages of {what} again",
        compiler.display(),
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no reason given")
    );
    Err(BenchError::Absent { what: super::WHAT, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_command_line_says_what_is_measured() {
        let line = Implementation::OpenMpi.argv(Load::Echo { size_bytes: 8 }, [2, 5]).join(" ");
        assert_eq!(line, "mpirun.openmpi -oversubscribe -bind-to none -np 2 mpi 2 5 echo 8 100000");
        let line = Implementation::OpenMpiOverTieline.argv(Load::Echo { size_bytes: 8 }, [2, 5]).join(" ");
        assert!(line.contains("-mca mtl_ofi_provider_include tieline -np 2 mpi 2 5 echo 8 100000"), "{line}");
        let line =
            Implementation::Mpich.argv(Load::Stream { size_bytes: 1 << 20, is_cold: true }, [0, 1]).join(" ");
        assert_eq!(line, "mpirun.mpich -bind-to none -np 2 mpi 0 1 stream 1048576 512 4 1 256");
        let line = Implementation::Mpich.argv(Load::Allreduce { members: 8 }, [0, 1]).join(" ");
        assert_eq!(line, "mpirun.mpich -bind-to none -np 8 mpi 0 1 allreduce 8 1000");
        let get = Access { is_put: false, size_bytes: 8 };
        let line = Implementation::Mpich.access_argv(get, [0, 1]).join(" ");
        assert_eq!(line, "mpirun.mpich -bind-to none -np 2 mpi 0 1 get 8 200000");
    }
}
