//! Unmodified socket programs, plain and with the sockets library.
//!
//! The program is `examples/sockets/measure.c`, which `./run build` puts next to `tieline`. Two of
//! them run, one plain and one with the library, on one processor; each sleeps while the other is
//! measured.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use sockets_rules::{
    ENV_LIBRARY,
    launch::{self, Options},
    statistics,
};

use crate::{
    error::{BenchError, Result},
    patterns::child_driver::{self, ChildDriver},
    run::Sides,
};

/// Name of the program.
pub const PROGRAM: &str = "tieline-sockets-measure";
const WHAT: &str = "unmodified programs on sockets";
/// A program that does nothing.
const NOTHING: &str = "/bin/true";
/// After this number of blocks both programs are started again: the places of their memory shift
/// the ratio of equal programs by half a percent, for as long as they live.
const BLOCKS_OF_A_LIFE: usize = 5;
/// The number of starts for one reading, plain and with the library in turn.
const STARTS: u32 = 12;

fn absent(reason: impl std::fmt::Display) -> BenchError {
    BenchError::Absent { what: WHAT, reason: reason.to_string() }
}

fn own() -> Result<PathBuf> {
    std::env::current_exe().map_err(BenchError::io("the path of this program"))
}

/// The same program twice: ours with the library, the reference without.
#[derive(Debug)]
pub struct Twins {
    entered: ChildDriver,
    plain: ChildDriver,
    cpu: usize,
    program: PathBuf,
    options: Options,
    order: String,
    statistics: PathBuf,
    rounds: u32,
}

impl Twins {
    /// Starts both on this processor; `order` is sent to both, with the number of rounds.
    pub fn start(cpu: usize, order: &'static str, rounds: u32) -> Result<Self> {
        let program = child_driver::find(PROGRAM, WHAT)?;
        let library = launch::library(std::env::var_os(ENV_LIBRARY).as_deref(), &[own()?]).map_err(absent)?;
        // Counted, as under `tieline run`.
        let statistics = std::env::temp_dir().join(format!("tieline-bench-sockets-{}", std::process::id()));
        statistics::create(&statistics, true).map_err(absent)?;
        let options = launch::counted(&library, &statistics, false);
        let [entered, plain] = pair(&program, cpu, &options)?;
        let order = format!("{order} {rounds}");
        Ok(Self { entered, plain, cpu, program, options, order, statistics, rounds })
    }

    /// Round trips, connections or messages of one reading.
    pub fn rounds(&self) -> u64 {
        self.rounds.into()
    }
}

/// Both, ready, the library in the first and not in the second.
fn pair(program: &Path, cpu: usize, options: &Options) -> Result<[ChildDriver; 2]> {
    let start =
        |options: Option<&Options>| ChildDriver::start(command(program, cpu, options)?, PROGRAM, WHAT);
    let mut both = [start(Some(options))?, start(None)?];
    for (twin, inside) in both.iter_mut().zip([1.0, 0.0]) {
        twin.ready()?;
        // Neither the program's own name nor that of its statistics file is the library's.
        twin.say("inside libtieline")?;
        if (twin.number()? - inside).abs() > 0.5 {
            return Err(absent("the library is not where it should be, or where it should not"));
        }
    }
    Ok(both)
}

/// The program, with the library in it if there are options for it.
fn command(program: &Path, cpu: usize, options: Option<&Options>) -> Result<Command> {
    let mut command = Command::new(program);
    command.arg(cpu.to_string());
    if let Some(options) = options {
        let variables = launch::variables(program, [cpu.to_string().into()], options).map_err(absent)?;
        command.envs(variables);
    }
    Ok(command)
}

impl Drop for Twins {
    fn drop(&mut self) {
        // Both are ended by their own handles; the file has no other use.
        let _ = std::fs::remove_file(&self.statistics);
    }
}

impl Sides for Twins {
    fn next_block(&mut self, number: usize) -> Result<()> {
        if number > 0 && number.is_multiple_of(BLOCKS_OF_A_LIFE) {
            [self.entered, self.plain] = pair(&self.program, self.cpu, &self.options)?;
        }
        Ok(())
    }

    /// Millions a second.
    fn ours(&mut self) -> Result<f64> {
        self.entered.say(&self.order)?;
        self.entered.number().map(|ns| 1e3 / ns)
    }

    fn reference(&mut self) -> Result<f64> {
        self.plain.say(&self.order)?;
        self.plain.number().map(|ns| 1e3 / ns)
    }
}

/// Measures the time that a program that does nothing takes longer under `tieline run`, compared
/// with a limit.
#[derive(Debug)]
pub struct Starts {
    tieline: PathBuf,
    limit_ms: f64,
}

impl Starts {
    /// `limit_ms` is what may be added.
    pub fn new(limit_ms: f64) -> Result<Self> {
        let own = own()?;
        let folder = own.parent().unwrap_or(Path::new("."));
        // Beside the commands, or where an installation puts it; tests run from a folder below.
        let places = ["tieline", "../../bin/tieline", "../tieline"].map(|place| folder.join(place));
        let tieline = places.into_iter().find(|path| path.is_file());
        let tieline = tieline.ok_or_else(|| absent(format!("no `tieline` beside {}", own.display())))?;
        let starts = Self { tieline, limit_ms };
        // Run once before the measurement, so that an error is returned instead of being timed.
        starts.once(true)?;
        Ok(starts)
    }

    /// Starts of one reading, of each kind.
    pub const fn starts() -> u64 {
        STARTS as u64
    }

    /// Milliseconds from the start to the end.
    fn once(&self, entered: bool) -> Result<f64> {
        let mut command = if entered { Command::new(&self.tieline) } else { Command::new(NOTHING) };
        if entered {
            command.args(["run", "--strict", "--", NOTHING]);
        }
        let start = Instant::now();
        let status = command.stdin(Stdio::null()).status().map_err(BenchError::io("starting a program"))?;
        let taken = start.elapsed();
        if status.success() {
            Ok(taken.as_secs_f64() * 1e3)
        } else {
            Err(absent(format!("`tieline run -- {NOTHING}` ended with {status}")))
        }
    }
}

impl Sides for Starts {
    fn ours(&mut self) -> Result<f64> {
        let mut added = Vec::with_capacity(STARTS as usize);
        for _ in 0..STARTS {
            let plain = self.once(false)?;
            added.push(self.once(true)? - plain);
        }
        added.sort_by(f64::total_cmp);
        let median = added.get(added.len() / 2).copied().unwrap_or_default();
        // On a busy machine nothing may seem to be added; a reading is a positive number.
        Ok(median.max(0.001))
    }

    fn reference(&mut self) -> Result<f64> {
        Ok(self.limit_ms)
    }
}
