//! `tieline fabric route`, `quality`, `check`, `drain`, `compare` and `diff`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::fabric::names;
use ::fabric::snapshot::Snapshot;
use ::fabric::what_if::{self, ENGINES, Judged, RouteOptions, WhatIfError, text};
use serde_json::json;
use topology::routing::vls::{Mapping, Service};
use topology::routing::{Engine as RoutingEngine, Lids, Tables, VlAssignment, referee};
use topology::{Graph, counted, verb};

use super::super::usage;
use super::shown::Shown;
use super::{dump, open, place_of, source};
use crate::args::fabric::{Check, Diff, Drain, Engine, Pair, Route, Source, Tabled};
use crate::exit::{FAIL, Failure, INCONCLUSIVE, Outcome, PASS};

/// Seed of random patterns: the same fabric is always measured the same.
const SEED: u64 = 1;
/// Changed entries that are listed.
const LISTED: usize = 10_000;
/// The longest dump that is read: tables of the largest fabrics are a third of that.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// Engines of others that there are none of here, and what comes nearest: without credit loops on any shape,
/// or by ranks.
const NEAREST: [(&str, RoutingEngine); 4] = [
    ("sssp", RoutingEngine::Layered),
    ("lash", RoutingEngine::Layered),
    ("nue", RoutingEngine::Layered),
    ("dnup", RoutingEngine::UpDown),
];

fn status(good: bool) -> u8 {
    if good { PASS } else { FAIL }
}

/// Names that lead nowhere and engines that refuse are the command line's fault. `place` is the fabric,
/// `engine` as it was typed.
fn refused(error: WhatIfError, place: &str, engine: &str) -> Failure {
    match &error {
        WhatIfError::Name(why) => usage(format!("{place}: {why}")),
        WhatIfError::Root(_) => usage(format!("{place}, {error}")),
        WhatIfError::Route(_) => match RoutingEngine::of_word(engine) {
            Some(known) if known.word() != engine => {
                usage(format!("--engine {engine}, which is `{}` here: {error}", known.word()))
            }
            _ => Failure::usage(error),
        },
        _ => Failure::usage(error),
    }
}

/// The engine of a word; `None` is the one that fits.
pub(super) fn engine(named: &str) -> Result<Option<RoutingEngine>, Failure> {
    let known = RoutingEngine::of_word(named);
    if known.is_none() && named != "auto" {
        let words = ENGINES.map(|one| one.word()).join(", ");
        let near = NEAREST.iter().find(|known| known.0.eq_ignore_ascii_case(named));
        return Err(usage(match near {
            Some((_, near)) => {
                format!("there is no engine `{named}`, the nearest is `{}`: give auto, {words}", near.word())
            }
            None => format!(
                "there is no engine `{named}`: give auto, {words}, or OpenSM's name of one (updn, ftree, dfsssp, dor, torus-2QoS)"
            ),
        }));
    }
    Ok(known)
}

fn options(options: &Engine) -> Result<RouteOptions, Failure> {
    let (known, vls) = (engine(&options.engine)?, options.vls.unwrap_or(0));
    Ok(RouteOptions { engine: known, roots: options.root.clone(), vls, operational: 0, lmc: options.lmc })
}

/// Completes options with the VLs that a fabric operates, and returns the warning, as a line, if they ask for
/// more.
fn on(mut options: RouteOptions, snapshot: &Snapshot) -> (RouteOptions, String) {
    options.operational = snapshot.operational_vls().unwrap_or(0);
    let warning = options.warning().map_or_else(String::new, |warning| format!("WARNING {warning}\n"));
    (options, warning)
}

pub(super) fn route(arguments: &Route, output: Shown) -> Outcome {
    let options = options(&arguments.engine)?;
    let folder = arguments.dump.as_deref().map(dump::prepare).transpose()?;
    let snapshot = source(&arguments.source, false, output)?;
    let (options, warning) = on(options, &snapshot);
    let whole = snapshot.graph;
    let place = place_of(arguments.source.file.as_deref(), &snapshot.source);
    let graph = what_if::without(&whole, &arguments.without)
        .map_err(|error| usage(format!("{place}, --without: {error}")))?;
    if arguments.dump.is_some() {
        told_apart(&graph)?;
    }
    output.progress("computing the forwarding tables (LFTs)");
    let lids = Arc::new(Lids::of_graph(&whole, options.lmc).map_err(Failure::usage)?);
    let refused = |error| refused(error, &place, &arguments.engine.engine);
    let routed = what_if::routed(&graph, &lids, &options).map_err(refused)?;
    output.progress("measuring the routes");
    let tables = &routed.routing.tables;
    let judged = Judged::of(&graph, &routed.checked);
    let quality = what_if::quality(&graph, tables, SEED);
    output.progress_done();
    if let Some(folder) = &folder {
        dump::write(&graph, tables, judged.vls, folder, output)?;
    }
    let identifiers = lids.iter().count();
    let json = || {
        Ok(json!({
            "engine": routed.engine.word(),
            "why": routed.why,
            "remarks": routed.routing.notes.iter().cloned().chain(options.warning()).collect::<Vec<_>>(),
            "without": arguments.without,
            "switches": tables.switches().len(),
            "identifiers": identifiers,
            "seconds": { "tables": routed.seconds[0], "check": routed.seconds[1] },
            "check": judged,
            "quality": quality,
        }))
    };
    let words = || {
        let mut words = text::routed(tables.switches().len(), identifiers, &routed);
        words.push_str(&warning);
        words.push_str(&text::judged(&judged));
        words.push_str(&text::quality(&quality));
        words
    };
    output.form("tieline.fabric.route/1", json, words)?;
    Ok(status(judged.good))
}

/// Tables in a dump are those of a GUID: two switches that have the same can't both have theirs.
fn told_apart(graph: &Graph) -> Result<(), Failure> {
    let Some((one, other)) = graph.switches_of_one_guid() else { return Ok(()) };
    Err(usage(format!(
        "--dump cannot write the tables: `{}` and `{}` are two switches of one GUID, {:#018x}, and a dump names switches by GUID: correct the GUID in the fabric's file, or route without --dump",
        graph.name(one),
        graph.name(other),
        graph.node_guid(one)
    )))
}

/// Tables that are there: in the file beside, or in the snapshot.
fn there(arguments: &Tabled, snapshot: &Snapshot) -> Result<Option<Tables>, Failure> {
    match &arguments.lfts {
        Some(path) => read_tables(&snapshot.graph, path).map(Some),
        None => Ok(snapshot.tables.clone()),
    }
}

/// A dump that OpenSM or its diagnostics have written. What in it is no text is for its reader to name.
fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = user_files::read(path, DUMP_BYTES_MAX).map_err(|error| {
        usage(format!("{} cannot be read: {error}: name a dump that OpenSM has written", path.display()))
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_tables(graph: &Graph, path: &Path) -> Result<Tables, Failure> {
    let text = read_text(path)?;
    let ports = graph.nodes().flat_map(|node| graph.ports(node));
    let of_file = ports.map(|port| (graph.port_guid(port), graph.lid(port))).filter(|one| one.1 != 0);
    // What the dump itself says of LIDs is of the same moment as its tables.
    let known: HashMap<u64, u16> = of_file.chain(referee::read_lids(&text)).collect();
    let (tables, strangers) = referee::read_fdbs(graph, &text, &known).map_err(|error| {
        usage(format!(
            "{}: {error}: give a dump of forwarding tables of OpenSM (opensm.fdbs or opensm-lfts.dump)",
            path.display()
        ))
    })?;
    if let Some(first) = strangers.first() {
        return Err(usage(format!(
            "{}: it has the tables of {} not in the fabric, the first {first:#018x}: give a dump of this fabric",
            path.display(),
            counted(strangers.len(), "switch")
        )));
    }
    if known.is_empty() {
        return Err(usage(format!(
            "{}: tables go by LIDs, and the fabric's file has none: give a file of the fabric that has them, such as the opensm-subnet.lst beside the tables",
            path.display()
        )));
    }
    Ok(tables)
}

pub(super) fn quality(arguments: &Tabled, output: Shown) -> Outcome {
    let snapshot = source(&arguments.source, true, output)?;
    let graph = &snapshot.graph;
    output.progress("measuring the routes");
    let (tables, of) = match there(arguments, &snapshot)? {
        Some(tables) => (tables, "the present forwarding tables (LFTs)".to_owned()),
        None => {
            let lids = Arc::new(Lids::of_graph(graph, 0).map_err(Failure::usage)?);
            let (options, _) = on(RouteOptions::default(), &snapshot);
            let refused =
                |error| refused(error, &place_of(arguments.source.file.as_deref(), &snapshot.source), "auto");
            let routed = what_if::routed(graph, &lids, &options).map_err(refused)?;
            let of = format!(
                "forwarding tables (LFTs) of the engine {}, as there are no others",
                routed.engine.word()
            );
            (routed.routing.tables, of)
        }
    };
    let quality = what_if::quality(graph, &tables, SEED);
    output.progress_done();
    output.form(
        "tieline.fabric.quality/1",
        || Ok(json!({ "of": of, "quality": quality })),
        || format!("{of}\n{}", text::quality(&quality)),
    )?;
    Ok(PASS)
}

/// Reads VLs from files. Returns whether there are none, and all traffic is assumed to be on one VL.
fn vls(arguments: &Check, graph: &Graph, tables: &mut Tables) -> Result<bool, Failure> {
    let service = match &arguments.sl {
        Some(path) => referee::read_levels(graph, tables, &read_text(path)?)
            .map_err(|error| usage(format!("{}: {error}: give SLs as in opensm.psl", path.display())))?,
        None => Service::One,
    };
    let mapping = match &arguments.sl2vl {
        Some(path) => referee::read_vls(graph, &read_text(path)?).map_err(|error| {
            usage(format!("{}: {error}: give SL-to-VL maps as in opensm.slvl", path.display()))
        })?,
        None => Mapping::Same,
    };
    if arguments.sl.is_some() || arguments.sl2vl.is_some() {
        tables.set_vls(VlAssignment::of(service, mapping));
    }
    Ok(*tables.vls() == VlAssignment::default())
}

pub(super) fn check(arguments: &Check, output: Shown) -> Outcome {
    let snapshot = source(&arguments.tabled.source, true, output)?;
    let Some(mut tables) = there(&arguments.tabled, &snapshot)? else {
        return Err(usage(format!(
            "{} holds no forwarding tables (LFTs): give a dump of them with --lfts, or a snapshot of `tieline fabric observe --save`",
            snapshot.source
        )));
    };
    let graph = &snapshot.graph;
    let assumed = vls(arguments, graph, &mut tables)? && arguments.sl.is_none();
    output.progress("checking the forwarding tables (LFTs)");
    let checked = topology::routing::check(graph, &tables);
    // If files give VLs, they are all; without, the snapshot may know more.
    let judged = if assumed { Judged::of_snapshot(&snapshot, &checked) } else { Judged::of(graph, &checked) };
    output.progress_done();
    // Tables that somebody else made are to be whole.
    let good = judged.good && judged.lost_switches == 0;
    let status = if judged.is_open() { INCONCLUSIVE } else { status(good) };
    let json = || {
        let mut value = serde_json::to_value(&judged)?;
        value["lanes_assumed"] = assumed.into();
        Ok(value)
    };
    output.form("tieline.fabric.check/1", json, || {
        let word = match status {
            PASS => "PASSED",
            INCONCLUSIVE => "INCONCLUSIVE",
            _ => "FAILED",
        };
        // Without a loop on one VL there is none on several.
        let vls = if assumed && !judged.credit_loop.is_empty() {
            "VLs: not known, assuming 1 VL: give --sl and --sl2vl, as VLs may break a credit loop\n"
        } else {
            ""
        };
        format!("{vls}{}RESULT: {word}\n", text::judged(&judged))
    })?;
    Ok(status)
}

pub(super) fn drain(arguments: &Drain, output: Shown) -> Outcome {
    let options = options(&arguments.engine)?;
    let mut parts = arguments.words.clone();
    let live = arguments.live.ibsim.is_some() || arguments.live.umad.is_some();
    let file: Option<PathBuf> = if live { None } else { Some(parts.remove(0).into()) };
    if parts.is_empty() {
        return Err(usage(
            "no part to be taken out is given: after the fabric's file give a switch, a CA, or the cable at NODE/PORT; for a live fabric, give --ibsim or --umad in place of the file",
        ));
    }
    let wanted = Source { file, live: arguments.live.clone() };
    let snapshot = source(&wanted, false, output)?;
    let (options, warning) = on(options, &snapshot);
    let place = place_of(wanted.file.as_deref(), &snapshot.source);
    let graph = snapshot.graph;
    output.progress("routing before and after");
    let refused = |error| refused(error, &place, &arguments.engine.engine);
    let (loss, _) = what_if::loss(&graph, &options, &parts, true).map_err(refused)?;
    output.progress_done();
    let good = loss.judged.good && loss.cut_off.is_empty();
    output.form(
        "tieline.fabric.drain/1",
        || serde_json::to_value(&loss),
        || format!("{warning}{}", text::loss(&loss)),
    )?;
    Ok(status(good))
}

pub(super) fn compare(arguments: &Pair, output: Shown) -> Outcome {
    let options = options(&arguments.engine)?;
    let mut sides = Vec::new();
    for path in [&arguments.a, &arguments.b] {
        let snapshot = open(path, output)?;
        let (options, warning) = on(options.clone(), &snapshot);
        if !warning.is_empty() {
            output.note(&format!("{}: {}", path.display(), warning.trim_end()));
        }
        let graph = snapshot.graph;
        output.progress(&format!("routing {}", path.display()));
        let lids = Arc::new(Lids::of_graph(&graph, options.lmc).map_err(Failure::usage)?);
        let place = path.display().to_string();
        let refused = |error| refused(error, &place, &arguments.engine.engine);
        let routed = what_if::routed(&graph, &lids, &options).map_err(refused)?;
        let quality = what_if::quality(&graph, &routed.routing.tables, SEED);
        sides.push((path.display().to_string(), routed.engine.word(), quality, routed.checked.is_good()));
    }
    output.progress_done();
    let [a, b] = sides.as_slice() else { return Ok(PASS) };
    let side = |side: &(String, &str, what_if::Quality, bool)| json!({ "file": side.0, "engine": side.1, "quality": side.2, "good": side.3 });
    output.form(
        "tieline.fabric.compare/1",
        || Ok(json!({ "a": side(a), "b": side(b) })),
        || {
            format!(
                "engines: {} and {}\n{}",
                a.1,
                b.1,
                text::beside([a.0.as_str(), b.0.as_str()], &a.2, &b.2)
            )
        },
    )?;
    Ok(status(a.3 && b.3))
}

pub(super) fn diff(arguments: &Diff, output: Shown) -> Outcome {
    let (graph, before, after, mut findings) = match &arguments.net {
        Some(net) => {
            let graph = open(net, output)?.graph;
            let (before, after) = (read_tables(&graph, &arguments.a)?, read_tables(&graph, &arguments.b)?);
            (graph, Some(before), Some(after), Vec::new())
        }
        None => {
            let (a, b) = (open(&arguments.a, output)?, open(&arguments.b, output)?);
            let findings = a.graph.differences(&b.graph, LISTED);
            let (before, after) = (a.tables_on(&b.graph), b.tables);
            (b.graph, before, after, findings)
        }
    };
    let mut entries = Vec::new();
    let mut count = 0_u64;
    let compared = before.is_some() && after.is_some();
    if let (Some(before), Some(after)) = (&before, &after) {
        for change in before.changes(after) {
            count += 1;
            if entries.len() < LISTED {
                let port = |port: u8| (port != topology::routing::NO_PATH).then_some(port);
                entries.push((
                    topology::printable(&names::label(&graph, change.switch)).into_owned(),
                    change.lid,
                    port(change.before),
                    port(change.after),
                ));
            }
        }
    }
    findings.truncate(LISTED);
    let json = || {
        let rows: Vec<_> = entries
            .iter()
            .map(|(switch, lid, before, after)| json!({ "switch": switch, "lid": lid, "before": before, "after": after }))
            .collect();
        Ok(json!({ "fabric": findings, "tables_compared": compared, "changed": count, "entries": rows }))
    };
    let words = || {
        let port = |port: &Option<u8>| port.map_or_else(|| "none".to_owned(), |port| port.to_string());
        let mut words: String = findings.iter().map(|line| format!("{line}\n")).collect();
        for (switch, lid, before, after) in entries.iter().take(100) {
            words.push_str(&format!("{switch} LID {lid}: port {} -> {}\n", port(before), port(after)));
        }
        let of_tables = if compared {
            format!("{} {}", counted(count, "LFT entry"), verb(count, "differs", "differ"))
        } else {
            "LFTs: n/a, not in both".to_owned()
        };
        let count = counted(findings.len(), "difference");
        words.push_str(&format!("{count} between the fabrics; {of_tables}\n"));
        words
    };
    output.form("tieline.fabric.diff/1", json, words)?;
    Ok(status(findings.is_empty() && count == 0))
}
