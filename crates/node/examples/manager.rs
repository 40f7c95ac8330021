//! Node managers without the `tieline` binary: the library's functions, called with as little around them as
//! possible.
//!
//! `manager up 3`, `manager down`, `manager list`; `manager node run --id 4` is what `up` starts. The cluster
//! and its place come from TIELINE_CLUSTER and TIELINE_RUNTIME_DIR.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use node::cluster::{Launcher, UpOptions, down, list_nodes, node_ids, up};
use node::runtime_dir::ClusterDir;
use node::{Daemon, DaemonOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["node", "run", rest @ ..] => run(rest),
        ["up", count] => {
            let options = UpOptions {
                dir: ClusterDir::locate(None, None)?,
                nodes: node_ids(count.parse()?, None)?,
                launcher: Launcher::this_binary()?,
                config: None,
                limit: Duration::from_secs(30),
                keep_files: false,
                stop: || false,
            };
            let report = up(&options, &mut |_| {})?;
            println!(
                "{} started, {} ran already, {:?}",
                report.started.len(),
                report.already_running.len(),
                report.took
            );
            Ok(())
        }
        ["down"] => {
            let report = down(&ClusterDir::locate(None, None)?, None, Duration::from_secs(5), &mut |_| {})?;
            println!("{report:?}");
            Ok(())
        }
        ["list"] => {
            for entry in list_nodes(&ClusterDir::locate(None, None)?)? {
                println!("{entry:?}");
            }
            Ok(())
        }
        _ => Err("use: manager up COUNT | down | list | node run --id ID".into()),
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let value = |name: &str| {
        let at = arguments.iter().position(|word| *word == name)?;
        arguments.get(at + 1).copied()
    };
    let config = value("--config").map(PathBuf::from);
    let id = value("--id").map(str::parse).transpose()?;
    let dir = ClusterDir::locate(value("--runtime-dir").map(PathBuf::from).as_deref(), value("--cluster"))?;
    if arguments.contains(&"--background") {
        node::cluster::detach();
    }
    let (settings, node) = node::daemon::settings_for(config.as_deref(), id)?;
    Daemon::start(&DaemonOptions { dir, node, settings, signals: true })?.run()?;
    Ok(())
}
