//! OpenSM on the same served fabric.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use topology::Graph;

use super::{Lab, Process, failed, uplink};
use crate::{
    error::{BenchError, Result},
    patterns::programs::find,
    progress::Waiter,
};

/// Between two looks into its log.
const PAUSE: Duration = Duration::from_millis(5);

/// OpenSM, which ends with its handle.
pub struct OpenSm {
    /// Ends before the fabric.
    process: Process,
    lab: Lab,
    log: PathBuf,
    begun: Instant,
}

impl OpenSm {
    /// Starts it on a fabric of `tieline fabric serve`, with the engine `ftree`.
    pub fn start(program: &std::path::Path, graph: &Graph, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        find(("opensm", "opensm"))?;
        let run = find(("ibsim-run", "ibsim-utils"))?;
        let lab = Lab::start(program, graph, waiter)?;
        let folder = lab.room.path().to_owned();
        let (config, log) = (folder.join("osm.conf"), folder.join("osm.log"));
        // Else its log is minutes behind.
        let text = "force_log_flush TRUE\nsweep_interval 10\n";
        fs::write(&config, text).map_err(BenchError::io(config.display().to_string()))?;
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(run);
        command.args(["opensm", "-R", "ftree", "-F"]).arg(&config).arg("-f").arg(&log);
        command.env("PATH", path).env("IBSIM_SOCKNAME", &lab.base).env("SIM_HOST", lab.host(0));
        command.env("OSM_CACHE_DIR", &folder).env("OSM_TMP_DIR", &folder);
        let begun = Instant::now();
        let process = Process::start(command, "opensm", &lab.room)?;
        Ok(Self { lab, process, log, begun })
    }

    /// How often its log says that the subnet is up.
    fn ups(&self) -> usize {
        fs::read_to_string(&self.log).map_or(0, |text| text.matches("SUBNET UP").count())
    }

    /// Seconds since `begun` until it says so more than `before` times; `None`: not in time.
    fn until_up(&self, before: usize, begun: Instant, at_most: Duration) -> Result<Option<f64>> {
        while begun.elapsed() < at_most {
            if self.lab.waiter.stop() {
                return Err(BenchError::Stopped { what: super::WHAT });
            }
            if self.ups() > before {
                return Ok(Some(begun.elapsed().as_secs_f64()));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// Seconds from its start until the subnet is up; `None`: not in time.
    pub fn bring_up(&self, at_most: Duration) -> Result<Option<f64>> {
        self.until_up(0, self.begun, at_most)
    }

    /// Seconds from the loss of the cable that [`super::one_link`] pulls until the subnet is up again;
    /// `None`: not in time.
    pub fn one_link(&mut self, at_most: Duration) -> Result<Option<f64>> {
        let graph = &self.lab.graph;
        let dead = uplink(graph).ok_or_else(|| failed("the fabric has no cable between switches"))?;
        let command = format!("unlink {} {}", graph.name(graph.owner(dead)), graph.number(dead));
        self.after(&command, at_most)
    }

    /// The same for all cables of the switch of [`super::switch`].
    pub fn switch(&mut self, at_most: Duration) -> Result<Option<f64>> {
        let graph = &self.lab.graph;
        let spine =
            super::loads::spine(graph).ok_or_else(|| failed("the fabric has no switch without hosts"))?;
        self.after(&format!("down {}", graph.name(spine)), at_most)
    }

    fn after(&mut self, command: &str, at_most: Duration) -> Result<Option<f64>> {
        let (before, begun) = (self.ups(), Instant::now());
        self.lab.tell(command)?;
        self.until_up(before, begun, at_most)
    }

    /// Its largest resident size so far, in bytes: of the program behind `ibsim-run`.
    pub fn peak(&self) -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.child.id())).ok()?;
        // `ibsim-run` replaces itself by the program, or waits for it.
        text.lines().any(|line| line == "Name:\topensm").then(|| super::high_water(&text)).flatten()
    }
}
