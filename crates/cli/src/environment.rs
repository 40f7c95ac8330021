//! Environment variables, for what the command line does not set. An empty variable counts as unset. A
//! variable with an invalid value is wrong usage for every command, and the message names the variable.

use std::path::PathBuf;

use node_client::runtime_dir::{ClusterName, ENV_CLUSTER, ENV_NODE, ENV_RUNTIME_DIR};
use tieline::NodeId;
use tieline::messages::{BadVariable, Settings};
use tracing_subscriber::filter::LevelFilter;

use crate::args::Common;
use crate::exit::Failure;

/// How much a manager says.
const ENV_LOG: &str = "TIELINE_LOG";
/// Longest spin of a wait, in microseconds; read by every program that waits.
const ENV_SPIN_US: &str = "TIELINE_SPIN_US";
/// Lets this host join a cluster.
const ENV_TOKEN: &str = "TIELINE_TOKEN";
const LONGEST_SPIN_US: u64 = 1_000_000;

/// Fills in what the command line leaves open. `one_node`: the command acts on one node, which may be named
/// so.
pub(crate) fn fill(common: &mut Common, one_node: bool) -> Result<(), Failure> {
    let node = node()?;
    if one_node {
        common.node = common.node.or(node);
    }
    if common.runtime_dir.is_none() {
        common.runtime_dir = set(ENV_RUNTIME_DIR).map(PathBuf::from);
    }
    if common.cluster.is_none()
        && let Some(name) = text(ENV_CLUSTER)?
    {
        ClusterName::new(&name).map_err(|error| blame(ENV_CLUSTER, &error.to_string()))?;
        common.cluster = Some(name);
    }
    spin()?;
    messages()?;
    log_level().map(drop)
}

fn node() -> Result<Option<NodeId>, Failure> {
    text(ENV_NODE)?.map(|text| text.parse().map_err(|error: String| blame(ENV_NODE, &error))).transpose()
}

fn spin() -> Result<(), Failure> {
    let Some(text) = text(ENV_SPIN_US)? else { return Ok(()) };
    match text.trim().parse() {
        Ok(0..=LONGEST_SPIN_US) => Ok(()),
        _ => Err(blame(
            ENV_SPIN_US,
            &format!("`{text}` is not a spin time: give microseconds from 0 (never) to {LONGEST_SPIN_US}"),
        )),
    }
}

/// The settings of message queues.
fn messages() -> Result<(), Failure> {
    let wrong =
        |BadVariable { variable, value, expected }| blame(variable, &format!("`{value}` is not {expected}"));
    Settings::from_environment().map(drop).map_err(wrong)
}

/// The token for `tieline cluster join`.
pub(crate) fn token() -> Result<Option<String>, Failure> {
    text(ENV_TOKEN)
}

/// How much the manager says: `TIELINE_LOG`, or `info`.
pub(crate) fn log_level() -> Result<LevelFilter, Failure> {
    let Some(level) = text(ENV_LOG)? else { return Ok(LevelFilter::INFO) };
    let wrong =
        |_| blame(ENV_LOG, &format!("`{level}` is not a level: give off, error, warn, info, debug or trace"));
    level.parse().map_err(wrong)
}

fn set(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Result<Option<String>, Failure> {
    let unreadable =
        |value: std::ffi::OsString| blame(name, &format!("`{}` is not valid UTF-8", value.to_string_lossy()));
    set(name).map(|value| value.into_string().map_err(unreadable)).transpose()
}

fn blame(name: &str, why: &str) -> Failure {
    Failure::usage(anyhow::anyhow!("the environment variable {name}: {why}; correct or unset it"))
}
