//! Where a case lives: a folder, ports, and the way in which its programs are run.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{
    case::Over,
    running::{self, Running, Said},
};

/// Longest that one program may take.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(90);
/// Longest until a server listens: some make a database first.
const START: Duration = Duration::from_secs(30);

/// How programs are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As they are.
    Plain,
    /// By `tieline run`, with the binary that stands here.
    Library(PathBuf),
    /// With the provider of libfabric in this folder. It counts messages, and says how many at its end.
    Provider(PathBuf),
}

impl Mode {
    /// Over what a case is tried, with the binary that stands here; the provider lies beside it.
    pub(crate) fn over(over: Over, tieline: &Path) -> Self {
        match over {
            Over::Sockets => Self::Library(tieline.to_owned()),
            Over::Provider => Self::Provider(tieline.parent().unwrap_or(Path::new("/")).to_owned()),
        }
    }
}

/// A folder of its own, which everybody may enter: some servers change to another user.
#[derive(Debug)]
pub(crate) struct Room {
    folder: TempDir,
    mode: Mode,
    user: Option<(u32, u32)>,
}

/// Set when each connection under the library is to go through memory.
static FORCES_RINGS: std::sync::OnceLock<()> = std::sync::OnceLock::new();

/// From now on each does.
pub(crate) fn force_rings() {
    FORCES_RINGS.get_or_init(|| ());
}

impl Room {
    pub(crate) fn new(mode: Mode) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("tieline-programs-")
            .tempdir()
            .context("a folder for the programs")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self { folder, mode, user: None })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether programs run over the provider of libfabric.
    pub(crate) fn is_over_provider(&self) -> bool {
        matches!(self.mode, Mode::Provider(_))
    }

    /// The path as text, for command lines and configuration files.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file of the room.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Makes a folder of the room that the user of its programs owns.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path)?;
        if let Some((uid, gid)) = self.user {
            std::os::unix::fs::chown(&path, Some(uid), Some(gid))?;
        }
        Ok(path)
    }

    /// From now on programs run as this user, if this program may change to it; some servers refuse to be
    /// root.
    pub(crate) fn as_user(&mut self, name: &str) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let line = users.lines().find(|line| line.split(':').next() == Some(name));
        let fields: Vec<&str> = line.with_context(|| format!("no user {name}"))?.split(':').collect();
        let [_, _, uid, gid, ..] = fields.as_slice() else { bail!("/etc/passwd: user {name}") };
        self.user = Some((uid.parse()?, gid.parse()?));
        Ok(())
    }

    /// A program with its arguments, in the mode of the room.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = match &self.mode {
            Mode::Plain => Command::new(program),
            Mode::Provider(folder) => {
                let mut command = Command::new(program);
                command.env("FI_PROVIDER_PATH", folder).env("TIELINE_FI_TRACE", "1");
                command
            }
            Mode::Library(tieline) => {
                let mut command = Command::new(tieline);
                command.args(["run", "--", program]);
                if FORCES_RINGS.get().is_some() {
                    command.env("TIELINE_SOCKETS_RINGS", "2");
                }
                command
            }
        };
        command.args(arguments).current_dir(self.folder.path());
        // The same wherever this is run: no language, no colours, no files of the user.
        command.env("LC_ALL", "C").env("TZ", "UTC").env("HOME", self.folder.path());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Starts a program that continues until it is dropped.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Result<Running> {
        self.start_with(program, arguments, &[])
    }

    pub(crate) fn start_with(
        &self,
        program: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Running> {
        let mut command = self.command(program, arguments);
        command.envs(variables.iter().copied());
        Running::start(command, program, self.folder.path())
    }

    /// Runs a program to its end, whatever that is.
    pub(crate) fn run_with(
        &self,
        program: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Said> {
        self.start_with(program, arguments, variables)?.finish(PROGRAM_TIMEOUT)
    }

    /// Runs a program that must end well: its standard output.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        self.run_with(program, arguments, &[])?.good()
    }

    /// Runs a program plain, to prepare something; it must end well.
    pub(crate) fn prepare(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("LC_ALL", "C")
            .env("HOME", self.folder.path());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        Running::start(command, program, self.folder.path())?.finish(PROGRAM_TIMEOUT)?.good()
    }

    /// A port of loopback that was free a moment ago.
    pub(crate) fn port(&self) -> Result<u16> {
        Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
    }

    /// Waits until somebody listens at a port.
    pub(crate) fn wait_for(&self, port: u16, server: &Running) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(reason) = server.ended()? {
                bail!("the server ended: {reason}");
            }
            running::check_interrupted()?;
            if start.elapsed() > START {
                bail!("nobody listens at port {port} after {} s: {}", START.as_secs(), server.complaint());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// In the mode of the library: is it in the process?
    pub(crate) fn must_be_in(&self, server: &Running) -> Result<()> {
        if self.mode == Mode::Plain {
            return Ok(());
        }
        let maps = fs::read_to_string(Path::new("/proc").join(server.id().to_string()).join("maps"))?;
        if !maps.contains("tieline") {
            bail!("the library is not in the process");
        }
        Ok(())
    }
}
