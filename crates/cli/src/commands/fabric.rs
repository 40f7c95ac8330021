//! `tieline fabric`.

mod dump;
mod files;
mod manage;
mod observe;
mod serve;
mod shown;
mod what_if;

use std::path::Path;
use std::time::Duration;

use ::fabric::snapshot::{self, Snapshot};
use mad::MadTransport;
use mad::ibsim::IbsimTransport;
use mad::umad::UmadTransport;
use mad::windowed::Limits;
use topology::counted;

use super::usage;
use crate::args::fabric::{Fabric, FabricAction, Live, Source};
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;
use shown::Shown;

pub(super) fn run(arguments: &Fabric, output: Output) -> Outcome {
    act(arguments, Shown(output)).map_err(shown::failure)
}

fn act(arguments: &Fabric, output: Shown) -> Outcome {
    match &arguments.action {
        None => observe::run(&arguments.observe, output),
        Some(FabricAction::Observe(arguments)) => observe::run(arguments, output),
        Some(FabricAction::Serve(arguments)) => serve::run(arguments, output),
        Some(FabricAction::Manage(arguments)) => manage::run(arguments, output),
        Some(FabricAction::Route(arguments)) => what_if::route(arguments, output),
        Some(FabricAction::Quality(arguments)) => what_if::quality(arguments, output),
        Some(FabricAction::Check(arguments)) => what_if::check(arguments, output),
        Some(FabricAction::Drain(arguments)) => what_if::drain(arguments, output),
        Some(FabricAction::Compare(arguments)) => what_if::compare(arguments, output),
        Some(FabricAction::Diff(arguments)) => what_if::diff(arguments, output),
        Some(FabricAction::Convert(arguments)) => files::convert(arguments, output),
        Some(FabricAction::Draw(arguments)) => files::draw(arguments, output),
        Some(FabricAction::Generate(arguments)) => files::generate(arguments, output),
    }
}

/// A fabric from a file. A file that holds no fabric, or cannot be read, is a usage error: another one has to
/// be named.
fn open(path: &Path, output: Shown) -> Result<Snapshot, Failure> {
    let snapshot = opened(snapshot::open(path, None))?;
    let anomalies = snapshot.concerns.len() as u64 + snapshot.more_concerns;
    if let Some(first) = snapshot.concerns.first().filter(|_| snapshot.taken == 0) {
        output.note(&format!(
            "{}: {}, the first: {}",
            path.display(),
            counted(anomalies, "anomaly"),
            first.text
        ));
    }
    Ok(snapshot)
}

fn opened(result: Result<Snapshot, snapshot::OpenError>) -> Result<Snapshot, Failure> {
    result.map_err(Failure::usage)
}

fn limits(live: &Live) -> Limits {
    Limits { timeout: Duration::from_millis(live.timeout), retries: live.retries, ..Limits::default() }
}

/// What a live fabric is asked through, and what that is called.
fn connect(live: &Live) -> Result<(Box<dyn MadTransport>, String), Failure> {
    if let Some(name) = &live.ibsim {
        let transport = IbsimTransport::connect(name, live.at.as_deref().unwrap_or(""))?;
        let source = format!("live, simulator {name}, from {}", transport.node());
        return Ok((Box::new(transport), source));
    }
    let number = live.umad.unwrap_or(0);
    Ok((Box::new(UmadTransport::open(number)?), format!("live, /dev/infiniband/umad{number}")))
}

/// How errors name a fabric: by the path as it was typed, or the live one by what is known of it.
fn place_of(file: Option<&Path>, source: &str) -> String {
    file.map_or_else(|| source.to_owned(), |file| file.display().to_string())
}

/// A file's fabric, or the live one without its counters.
fn source(source: &Source, tables: bool, output: Shown) -> Result<Snapshot, Failure> {
    if let Some(path) = &source.file {
        return open(path, output);
    }
    if source.live.ibsim.is_none() && source.live.umad.is_none() {
        return Err(usage(
            "no fabric is given: name a topology file, or a live fabric with --ibsim NAME or --umad NUMBER",
        ));
    }
    interrupt::end_with_what_there_is()?;
    let (mut transport, name) = connect(&source.live)?;
    let options = ::fabric::observe::Options { limits: limits(&source.live), counters: false, tables };
    let mut tell = |text: &str| output.progress(text);
    let seen =
        ::fabric::observe::observe(&mut *transport, &name, &options, &mut tell, &interrupt::has_arrived)?;
    output.progress_done();
    for concern in seen.snapshot.concerns.iter().take(5) {
        output.note(&concern.text);
    }
    Ok(seen.snapshot)
}
