//! Node managers in processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use tieline::{Node, NodeId, NodeOptions};

/// A cluster in a private runtime directory. Taken down, and its directory removed, when dropped.
#[derive(Debug)]
pub struct Cluster {
    dir: tempfile::TempDir,
    name: String,
    nodes: Vec<NodeId>,
}

/// The program under test, beside which are the commands that it becomes: built by `./run test`, or by
/// `cargo build -p cli -p launcher`.
pub fn tieline_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TIELINE_BIN") {
        return Ok(path.into());
    }
    built("tieline")?.context(
        "the binary `tieline` is not built: run `cargo build -p cli -p launcher` (with --release for a release test)",
    )
}

/// A binary of this build.
fn built(name: &str) -> Result<Option<PathBuf>> {
    let own = std::env::current_exe()?;
    // A test lies in target/<profile>/deps, the binary one above; a helper program lies beside it.
    Ok(own.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|path| path.is_file()))
}

/// Has xtask below a target folder, where `./run` expects that cargo has built it.
///
/// # Errors
/// It is not built, or the folder cannot be written to.
pub fn put_xtask(target: &Path) -> Result<()> {
    let xtask = built("xtask")?.context("xtask is not built: run `cargo build -p xtask`")?;
    let folder = target.join("debug");
    std::fs::create_dir_all(&folder)?;
    Ok(std::os::unix::fs::symlink(xtask, folder.join("xtask"))?)
}

/// The program that has all commands, which [`tieline_binary`] becomes.
pub fn commands_binary() -> Result<PathBuf> {
    let path = tieline_binary()?.canonicalize()?.with_file_name("tieline-commands");
    if !path.is_file() {
        bail!(
            "{} is not built: run `cargo build -p cli` (with --release for a release test)",
            path.display()
        );
    }
    Ok(path)
}

impl Cluster {
    /// Starts `count` nodes and waits until every session is valid.
    pub fn up(count: usize) -> Result<Self> {
        Self::up_with(count, &[])
    }

    /// As [`Self::up`], with more options of `tieline up`.
    pub fn up_with(count: usize, options: &[&str]) -> Result<Self> {
        let mut cluster = Self::empty()?;
        let nodes = count.to_string();
        let output = cluster.tieline(&[&["up", "--nodes", &nodes], options].concat())?;
        if !output.status.success() {
            bail!(
                "up failed: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        cluster.nodes = (0..count).map(NodeId::nth).collect::<Result<_, _>>()?;
        Ok(cluster)
    }

    /// A runtime directory without nodes.
    pub fn empty() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("tieline-test-").tempdir()?;
        crate::leftovers::own(dir.path());
        crate::dispositions::pass_on_the_usual();
        Ok(Self { dir, name: "test".into(), nodes: Vec::new() })
    }

    /// Its runtime directory.
    pub fn runtime_dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the sockets of its nodes are.
    pub fn cluster_dir(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Attaches to its `index`-th node.
    pub fn attach(&self, index: usize) -> tieline::Result<Node> {
        Node::attach_with(&self.options(index))
    }

    /// How to attach to its `index`-th node.
    pub fn options(&self, index: usize) -> NodeOptions {
        NodeOptions {
            node: self.nodes.get(index).copied(),
            cluster: Some(self.name.clone()),
            runtime_dir: Some(self.dir.path().into()),
            name: Some(format!("test-{index}")),
        }
    }

    /// A command of the binary under test, in this cluster and nothing else of the environment of tieline.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(tieline_binary()?);
        command.args(arguments);
        self.set_environment(&mut command);
        Ok(command)
    }

    /// Points a program at this cluster.
    pub fn set_environment(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("TIELINE_") && name != "TIELINE_BIN") {
                command.env_remove(name);
            }
        }
        command
            .env("TIELINE_RUNTIME_DIR", self.dir.path())
            .env("TIELINE_CLUSTER", &self.name)
            .env("TIELINE_COPY_PLAN", "table")
            .env("NO_COLOR", "1");
    }

    /// Runs the binary under test in this cluster.
    pub fn tieline(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.command(arguments)?;
        command.stdin(std::process::Stdio::null());
        command.output().with_context(|| format!("running tieline {arguments:?}"))
    }

    /// Runs it, and gives status and standard output as text.
    pub fn run(&self, arguments: &[&str]) -> Result<(i32, String, String)> {
        let output = self.tieline(arguments)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr)))
    }

    /// Process id of a node's manager, as the manager itself says.
    pub fn manager_pid(&self, index: usize) -> Result<u32> {
        Ok(self.attach(index)?.info().manager_pid)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; `down` on nothing is no failure.
        drop(self.tieline(&["down"]));
    }
}
