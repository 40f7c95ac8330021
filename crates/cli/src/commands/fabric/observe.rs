//! `tieline fabric observe`.

use std::time::{Duration, Instant};

use ::fabric::counters;
use ::fabric::observe::{Observed, Options, observe};
use ::fabric::poll;
use ::fabric::report::watch::{Look, Watch};
use ::fabric::report::{self, Category, Report, ReportError, SCHEMA, Thresholds, Verdict, Wanted};
use ::fabric::snapshot::{self, Snapshot};
use mad::MadTransport;
use verify::writer::{Kind, Writer};

use super::super::usage;
use super::shown::Shown;
use super::{connect, limits, open, opened, place_of};
use crate::args::fabric::Observe;
use crate::exit::{FAIL, Failure, INCONCLUSIVE, Outcome, PASS};
use crate::interrupt;

/// Between two looks whether a signal has come.
const TICK: Duration = Duration::from_millis(50);

static SAVED: Kind = Kind {
    what: "snapshot",
    option: "--save",
    size_bytes: 0,
    mode: 0o666,
    may_replace: |beginning| beginning.starts_with(b"{\"schema\":\"tieline.fabric.snapshot"),
};

static PAGE: Kind = Kind {
    what: "page",
    option: "--html",
    size_bytes: 0,
    mode: 0o666,
    may_replace: |beginning| beginning.starts_with(b"<!DOCTYPE html>"),
};

pub(super) fn run(arguments: &Observe, output: Shown) -> Outcome {
    let thresholds = thresholds(&arguments.threshold)?;
    let worst = arguments.worst.as_deref().map(category).transpose()?;
    let plan = arguments.plan.as_deref().map(|path| open(path, output)).transpose()?;
    let since = arguments.since.as_deref().map(|path| open(path, output)).transpose()?;
    let save = arguments.save.as_deref().map(|path| Writer::prepare(&SAVED, path)).transpose()?;
    let html = arguments.html.as_deref().map(|path| Writer::prepare(&PAGE, path)).transpose()?;
    let mut live = None;
    let snapshot = match &arguments.from {
        Some(path) => opened(snapshot::open(path, None))?,
        None => {
            let (transport, seen) = look(arguments, output)?;
            let Observed { snapshot, plan, paths, .. } = seen;
            live = Some((transport, plan, paths));
            snapshot
        }
    };
    output.progress_done();
    let since_name = arguments.since.as_ref().map(|path| path.display().to_string());
    let wanted = Wanted {
        plan: plan.as_ref(),
        since: since.as_ref(),
        since_name: since_name.as_deref(),
        thresholds,
        route: arguments.route.as_deref().and_then(|words| match words {
            [from, to] => Some((from.clone(), to.clone())),
            _ => None,
        }),
        worst,
        nodes: arguments.nodes,
        links: arguments.links,
    };
    let report = Report::of(&snapshot, &wanted).map_err(|error| match error {
        ReportError::Name(error) => {
            usage(format!("{}, --route: {error}", place_of(arguments.from.as_deref(), &snapshot.source)))
        }
        error => Failure::usage(error),
    })?;
    if let Some(writer) = &save {
        let mut bytes = Vec::new();
        snapshot::write(&snapshot, &mut bytes)?;
        writer.write(&bytes)?;
    }
    if let Some(writer) = &html {
        let mut drawing = Vec::new();
        topology::draw::svg(&snapshot.graph, &mut drawing)?;
        let drawing = String::from_utf8_lossy(&drawing);
        // A page has no prologue of XML in its middle.
        let element = drawing.find("<svg").map(|begin| &drawing[begin..]);
        writer.write(report::page(&report, element).as_bytes())?;
    }
    output.form(SCHEMA, || serde_json::to_value(&report), || report::render(&report))?;
    if let (Some(seconds), Some((mut transport, plan, paths))) = (arguments.watch, live) {
        watch(arguments, (seconds, plan, &paths), &snapshot, &mut *transport, output)?;
    }
    Ok(match report.verdict {
        Verdict::Pass => PASS,
        Verdict::Fail => FAIL,
        Verdict::Inconclusive => INCONCLUSIVE,
    })
}

fn thresholds(words: &[String]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for word in words {
        let limit = word.split_once('=').and_then(|(name, limit)| Some((name, limit.parse().ok()?)));
        let (name, limit) = limit.ok_or_else(|| {
            usage(format!(
                "`{word}` is not a limit: give a counter and a number, as in SymbolErrorCounter=100"
            ))
        })?;
        if !thresholds.set(name, limit) {
            let names = counters::Counters::SPECIFIED.join(", ");
            return Err(usage(format!("there is no counter `{name}`: give one of {names}")));
        }
    }
    Ok(thresholds)
}

fn category(word: &str) -> Result<Category, Failure> {
    Category::of_word(word).ok_or_else(|| {
        let own = Category::WORDS.map(|word| word.0).join(", ");
        let names = counters::Counters::SPECIFIED.join(", ");
        usage(format!("there is no category `{word}`: give {own}, or a counter: {names}"))
    })
}

fn look(arguments: &Observe, output: Shown) -> Result<(Box<dyn MadTransport>, Observed), Failure> {
    interrupt::end_with_what_there_is()?;
    let (mut transport, source) = connect(&arguments.live)?;
    let options = Options {
        limits: limits(&arguments.live),
        counters: !arguments.no_counters,
        tables: !arguments.no_tables,
    };
    let mut tell = |text: &str| output.progress(text);
    let seen = observe(&mut *transport, &source, &options, &mut tell, &interrupt::has_arrived)?;
    Ok((transport, seen))
}

/// Reads the counters and the states of the cables again and again, until there were enough looks or a signal
/// comes.
fn watch(
    arguments: &Observe,
    (seconds, mut plan, paths): (u32, counters::Plan, &[mad::header::Path]),
    snapshot: &Snapshot,
    transport: &mut dyn MadTransport,
    output: Shown,
) -> Result<(), Failure> {
    let options = counters::Options { limits: limits(&arguments.live), extended: true };
    let mut watch = Watch::new(snapshot);
    let mut looks = 0;
    while arguments.times.is_none_or(|times| looks < times) && !interrupt::has_arrived() {
        let until = Instant::now() + Duration::from_secs(seconds.into());
        while Instant::now() < until && !interrupt::has_arrived() {
            std::thread::sleep(TICK.min(until.saturating_duration_since(Instant::now())));
        }
        if interrupt::has_arrived() {
            break;
        }
        let Some(look) = look_again(&mut watch, snapshot, &mut plan, paths, transport, &options)? else {
            break;
        };
        output.line(|| serde_json::to_value(&look), || look.render())?;
        looks += 1;
    }
    Ok(())
}

/// One further look. None: a signal came.
fn look_again(
    watch: &mut Watch,
    snapshot: &Snapshot,
    plan: &mut counters::Plan,
    paths: &[mad::header::Path],
    transport: &mut dyn MadTransport,
    options: &counters::Options,
) -> Result<Option<Look>, Failure> {
    let (graph, limits, stop) = (&snapshot.graph, options.limits, &interrupt::has_arrived);
    if let Some(place) = poll::without_link(transport, graph, paths, limits, stop)? {
        return Ok(Some(watch.without_link(&place)));
    }
    let collected = counters::collect(transport, plan, options, stop)?;
    let cables = poll::cables(transport, graph, paths, limits, stop)?;
    let Some(seen) = cables.filter(|_| !collected.stopped) else { return Ok(None) };
    // The cable may have been pulled meanwhile.
    if let Some(place) = poll::without_link(transport, graph, paths, limits, stop)? {
        return Ok(Some(watch.without_link(&place)));
    }
    let mut look = watch.look(snapshot, &collected);
    watch.cables(snapshot, &seen, &mut look);
    Ok(Some(look))
}
