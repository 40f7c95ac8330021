//! OpenSM's forwarding tables of a graph, obtained through `ibsim`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use topology::routing::referee::{read_fdbs, read_guid2lid};

use super::live::Ibsim;
use super::*;

/// Returns the tables that an engine of OpenSM makes of a graph; `None` if it does not end within
/// `limit`.
pub(super) fn tables(
    graph: &Graph,
    engine: &str,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Tables>> {
    let failed = |text: String| BenchError::Fabric(text);
    let ibsim = Ibsim::start(graph)?;
    let first = graph.nodes_of(NodeKind::Host).find(|host| graph.cabled(*host).next().is_some());
    let first = first.ok_or_else(|| failed("no host has a cable".to_owned()))?;
    let mut child = Command::new("ibsim-run")
        .args(["opensm", "-o", "-R", engine, "-D", "0x43", "-f", "osm.log", "--dump_files_dir", "."])
        .current_dir(&ibsim.dir)
        .env("IBSIM_SOCKNAME", &ibsim.base)
        .env("SIM_HOST", graph.name(first))
        .env("OSM_CACHE_DIR", &ibsim.dir)
        .env("OSM_TMP_DIR", &ibsim.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("opensm cannot be started: {error}")))?;
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if begun.elapsed() < limit && !stop() => thread::sleep(Duration::from_millis(20)),
            ended => {
                drop(child.kill());
                drop(child.wait());
                ended.map_err(|error| failed(format!("opensm cannot be waited for: {error}")))?;
                return Ok(None);
            }
        }
    }
    let read = |name: &str| {
        fs::read_to_string(ibsim.dir.join(name)).map_err(|error| {
            failed(format!("OpenSM left no {name} ({error}): is it installed, in Debian the package opensm?"))
        })
    };
    let lids = read_guid2lid(&read("guid2lid")?).map_err(|error| failed(error.to_string()))?;
    let (tables, strangers) =
        read_fdbs(graph, &read("opensm.fdbs")?, &lids).map_err(|error| failed(error.to_string()))?;
    if strangers.is_empty() {
        Ok(Some(tables))
    } else {
        Err(failed("OpenSM dumped tables of strangers".to_owned()))
    }
}
