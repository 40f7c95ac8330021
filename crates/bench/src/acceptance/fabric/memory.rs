//! Memory that a fabric with its tables uses, measured in a process that does nothing else.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use super::*;
use crate::patterns::subnet::high_water;

/// The pause between two checks of a process.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest time that the process may take.
const LIMIT: Duration = Duration::from_secs(180);

pub(super) fn measure(
    context: &Context<'_>,
    entry: &Entry,
    radix: u32,
    layered: bool,
    at_most: f64,
) -> Result<Figure> {
    let graph = tree(radix)?;
    let path = std::env::temp_dir().join(format!("tieline-bench-{}-{radix}.net", std::process::id()));
    let io = |source| BenchError::Io { what: path.display().to_string(), source };
    let mut bytes = Vec::new();
    topology::write::ibsim(&graph, &mut bytes).map_err(io)?;
    // An existing file or link of this name is not written to: it may belong to another process.
    drop(fs::remove_file(&path));
    let mut made = fs::File::options().write(true).create_new(true).open(&path).map_err(io)?;
    made.write_all(&bytes).map_err(io)?;
    let engine = if layered { Engine::Layered } else { Engine::FatTree };
    let peak = peak(context, &path, engine.word());
    drop(fs::remove_file(&path));
    let note = "the largest resident size of `tieline fabric route` of the fabric in a net file: reading, tables, check, quality";
    let spec = Spec { path: "fabric".to_owned(), ..spec(entry, "MB", Stat::Max, at_most, note.to_owned()) };
    figure(spec, vec![Block { ours: peak? / 1e6, reference: at_most }], context.options.seed)
}

/// The peak memory of an engine in bytes.
fn peak(context: &Context<'_>, path: &std::path::Path, engine: &str) -> Result<f64> {
    let exe = std::env::current_exe()
        .map_err(|source| BenchError::Io { what: "own program".to_owned(), source })?;
    let mut child = Command::new(exe)
        .args(["fabric", "route", "--quiet", "--engine", engine])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| BenchError::Io { what: "tieline fabric route".to_owned(), source })?;
    let status = format!("/proc/{}/status", child.id());
    let begun = Instant::now();
    let mut peak = 0.0_f64;
    let ended = loop {
        peak = fs::read_to_string(&status).ok().and_then(|text| high_water(&text)).unwrap_or(0.0).max(peak);
        match child.try_wait() {
            Ok(Some(ended)) => break ended,
            Ok(None) if begun.elapsed() < LIMIT && !context.progress.stop() => thread::sleep(PAUSE),
            _ => {
                drop(child.kill());
                drop(child.wait());
                return Err(BenchError::Fabric("`tieline fabric route` did not end in time".to_owned()));
            }
        }
    };
    if ended.success() && peak > 0.0 {
        Ok(peak)
    } else {
        Err(BenchError::Fabric(format!("`tieline fabric route` ended with {ended}")))
    }
}
