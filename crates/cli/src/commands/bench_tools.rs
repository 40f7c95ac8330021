//! `tieline bench scibench2|dma|intr|jitter|latency|pt2pt`.

use bench::patterns::attach::Where;
use bench::patterns::rendezvous::ServeOptions;
use bench::patterns::{dma_bench, intr_bench, jitter, pt2pt, scibench2};
use bench::progress::Progress;
use bench::rivals::placement::Placement;
use bench::rivals::{apart, summary};
use bench::thresholds::Thresholds;

use super::bench::{CLIENT_TIMEOUT, argv, own_place, place, this_end, waiting};
use super::bench_far::{self, Far};
use super::bench_result::{Measuring, Rest, read_thresholds};
use super::usage;
use crate::args::Common;
use crate::args::bench_tools::{Dma, Ends, Intr, Jitter, Latency, Layout, Pt2pt, Scibench2};
use crate::exit::{Failure, Outcome, PASS};
use crate::output::{Output, may_write};
use ::verify::far_end::Benchmark;
use ::verify::own::Removal;
use tieline::NodeId;

/// The role of this process.
enum Role {
    Server(ServeOptions),
    Client(Where),
    /// Both; what was started for it is taken down with the second.
    Both(Where, Option<Removal>),
    /// The client; the server is an agent on another host.
    Far(Far),
}

/// One end alone has to know the other.
pub(super) const NO_OTHER_END: &str =
    "--rn is missing: give the node ID of the other end (`tieline status` lists the nodes)";

fn role(common: &Common, ends: &Ends, benchmark: Benchmark, output: Output) -> Result<Role, Failure> {
    let cpu = near_cpu(ends, "a server")?;
    may_write(ends.json_file.as_deref())?;
    match (ends.server, ends.client, ends.rn) {
        (true, _, None) | (_, true, None) => Err(usage(NO_OTHER_END)),
        (true, _, Some(client)) => {
            let place = this_end(common, client)?;
            waiting(client, output);
            Ok(Role::Server(ServeOptions {
                place,
                client,
                cpu,
                wait: CLIENT_TIMEOUT,
                most_bytes: usize::MAX,
            }))
        }
        (_, true, Some(server)) => Ok(Role::Client(this_end(common, server)?)),
        (_, _, rn) => {
            if let Some(far) = bench_far::far_end(common, rn, benchmark)? {
                return Ok(Role::Far(far));
            }
            let (place, removal) = place(common, rn, output)?;
            Ok(Role::Both(place, removal))
        }
    }
}

type Measure<O, T> = fn(&O, &mut dyn Progress) -> bench::error::Result<T>;

/// What a benchmark does in each role.
struct Tool<O, T> {
    serve: fn(&ServeOptions) -> bench::error::Result<()>,
    client: Measure<O, T>,
    run: Measure<O, T>,
}

impl<O, T> Tool<O, T> {
    /// Does what the role is. A server has no report.
    fn play(
        &self,
        role: Role,
        options: impl Fn(Where) -> O,
        measuring: &mut Measuring,
    ) -> Result<Option<(T, Option<Removal>)>, Failure> {
        Ok(Some(match role {
            Role::Server(options) => {
                (self.serve)(&options)?;
                return Ok(None);
            }
            Role::Client(place) => ((self.client)(&options(place), measuring.begun()?)?, None),
            Role::Both(place, removal) => ((self.run)(&options(place), measuring.begun()?)?, removal),
            Role::Far(mut far) => {
                let place = far.place.clone();
                (far.result((self.client)(&options(place), measuring.begun()?))?, None)
            }
        }))
    }
}

/// What is to be done with a report.
fn rest<'a>(ends: &'a Ends, partial: bool, thresholds: Option<&'a Thresholds>) -> Rest<'a> {
    Rest { partial, thresholds, file: ends.json_file.as_deref() }
}

pub(super) fn placement(cpus: Option<[usize; 2]>, same_core: bool) -> Placement {
    if same_core { Placement::SameCore } else { cpus.map_or(Placement::TwoCores, Placement::Given) }
}

/// The processor of a tool whose far end does nothing; one that cannot be used is wrong, whichever end it is
/// for.
fn near_cpu(ends: &Ends, what: &'static str) -> Result<Option<usize>, Failure> {
    if ends.cpus.is_none() && !ends.same_core {
        return Ok(None);
    }
    let [near, _] = placement(ends.cpus, ends.same_core).resolve(what)?;
    Ok(Some(near))
}

pub(super) fn scibench2(common: &Common, arguments: &Scibench2, output: Output) -> Outcome {
    let cpu = near_cpu(&arguments.ends, "scibench2")?;
    let options = |place| scibench2::Options {
        place,
        cpu,
        sizes_bytes: if arguments.sizes.is_empty() {
            scibench2::SIZES_BYTES.to_vec()
        } else {
            arguments.sizes.clone()
        },
        way: arguments.way.map(Into::into),
        blocks: arguments.blocks as usize,
        load: arguments.ends.load,
        argv: argv(),
        ..scibench2::Options::default()
    };
    let thresholds = read_thresholds(arguments.ends.thresholds.as_deref(), "scibench2", "scibench2.")?;
    if !arguments.ends.server {
        options(Where::default()).check()?;
    }
    let role = role(common, &arguments.ends, Benchmark::Scibench2, output)?;
    let mut measuring = Measuring::of(output);
    let tool = Tool { serve: scibench2::serve, client: scibench2::client, run: scibench2::run };
    let Some((report, _removal)) = tool.play(role, options, &mut measuring)? else { return Ok(PASS) };
    let text = || if arguments.classic { report.to_classic() } else { report.to_text() };
    measuring.conclude(&report, text, rest(&arguments.ends, report.partial, thresholds.as_ref()))
}

pub(super) fn dma(common: &Common, arguments: &Dma, output: Output) -> Outcome {
    let cpu = near_cpu(&arguments.ends, "dma")?;
    let options = |place| dma_bench::Options {
        place,
        cpu,
        sizes_bytes: if arguments.sizes.is_empty() {
            dma_bench::SIZES_BYTES.to_vec()
        } else {
            arguments.sizes.clone()
        },
        blocks: arguments.blocks as usize,
        load: arguments.ends.load,
        argv: argv(),
        ..dma_bench::Options::default()
    };
    let thresholds = read_thresholds(arguments.ends.thresholds.as_deref(), "dma", "dma.")?;
    if !arguments.ends.server {
        options(Where::default()).check()?;
    }
    let role = role(common, &arguments.ends, Benchmark::Dma, output)?;
    let mut measuring = Measuring::of(output);
    let tool = Tool { serve: dma_bench::serve, client: dma_bench::client, run: dma_bench::run };
    let Some((report, _removal)) = tool.play(role, options, &mut measuring)? else { return Ok(PASS) };
    let text = || if arguments.classic { report.to_classic() } else { report.to_text() };
    measuring.conclude(&report, text, rest(&arguments.ends, report.partial, thresholds.as_ref()))
}

pub(super) fn intr(common: &Common, arguments: &Intr, output: Output) -> Outcome {
    let options = |place| intr_bench::Options {
        place,
        placement: placement(arguments.ends.cpus, arguments.ends.same_core),
        readings: arguments.readings,
        load: arguments.ends.load,
        argv: argv(),
    };
    let thresholds = read_thresholds(arguments.ends.thresholds.as_deref(), "intr", "intr.")?;
    if !arguments.ends.server {
        options(Where::default()).check()?;
    }
    let role = role(common, &arguments.ends, Benchmark::Intr, output)?;
    let mut measuring = Measuring::of(output);
    let tool = Tool { serve: intr_bench::serve, client: intr_bench::client, run: intr_bench::run };
    let Some((report, _removal)) = tool.play(role, options, &mut measuring)? else { return Ok(PASS) };
    let mode = arguments.waiting.into();
    let text = || if arguments.classic { report.to_classic(mode) } else { report.to_text() };
    measuring.conclude(&report, text, rest(&arguments.ends, report.partial, thresholds.as_ref()))
}

pub(super) fn jitter(common: &Common, arguments: &Jitter, output: Output) -> Outcome {
    let options = |place| jitter::Options {
        place,
        placement: placement(arguments.ends.cpus, arguments.ends.same_core),
        seconds: arguments.seconds,
        idle_seconds: arguments.idle_seconds,
        memory_bytes: arguments.memory,
        load: arguments.ends.load,
        argv: argv(),
        ..jitter::Options::default()
    };
    let thresholds = read_thresholds(arguments.ends.thresholds.as_deref(), "jitter", "jitter.")?;
    if !arguments.ends.server {
        options(Where::default()).check()?;
    }
    let role = role(common, &arguments.ends, Benchmark::Jitter, output)?;
    let mut measuring = Measuring::of(output);
    let tool = Tool { serve: jitter::serve, client: jitter::client, run: jitter::run };
    let Some((report, _removal)) = tool.play(role, options, &mut measuring)? else { return Ok(PASS) };
    measuring.conclude(
        &report,
        || report.to_text(),
        rest(&arguments.ends, report.partial, thresholds.as_ref()),
    )
}

pub(super) fn latency(common: &Common, arguments: &Latency, output: Output) -> Outcome {
    let options = |place| summary::Options {
        place,
        placement: placement(arguments.ends.cpus, arguments.ends.same_core),
        load: arguments.ends.load,
        rounds: arguments.rounds as usize,
        by_size: arguments.classic,
        argv: argv(),
        ..summary::Options::default()
    };
    let thresholds = read_thresholds(arguments.ends.thresholds.as_deref(), "latency", "latency.")?;
    if !arguments.ends.server {
        options(Where::default()).check()?;
    }
    let role = role(common, &arguments.ends, Benchmark::Latency, output)?;
    let mut measuring = Measuring::of(output);
    let tool = Tool { serve: apart::serve, client: apart::client, run: summary::run };
    let Some((report, _removal)) = tool.play(role, options, &mut measuring)? else { return Ok(PASS) };
    let text = || if arguments.classic { report.to_classic() } else { report.to_text() };
    measuring.conclude(&report, text, rest(&arguments.ends, report.partial, thresholds.as_ref()))
}

pub(super) fn pt2pt(common: &Common, arguments: &Pt2pt, output: Output) -> Outcome {
    use pt2pt::Test;
    let or = |given: &[Test], default: &[Test]| if given.is_empty() { default } else { given }.to_vec();
    let options = |place| pt2pt::Options {
        tests: or(&arguments.tests, &[Test::Latency, Test::Bw, Test::Bibw]),
        sizes_bytes: if arguments.sizes.is_empty() {
            pt2pt::default_sizes()
        } else {
            arguments.sizes.clone()
        },
        place,
        pairs: arguments.pairs,
        members: arguments.members,
        window: arguments.window,
        iterations: arguments.iterations.map(|count| count as usize),
        cpus: arguments.cpus,
        argv: argv(),
    };
    let thresholds = read_thresholds(arguments.thresholds.as_deref(), "pt2pt", "pt2pt.")?;
    if !arguments.server {
        options(None).check()?;
    }
    may_write(arguments.json_file.as_deref())?;
    let mut measuring = Measuring::of(output);
    let (report, _removal) = match arguments.rn {
        None => {
            let needs_nodes = options(None).tests.iter().any(|test| test.is_of_memory());
            let own = needs_nodes.then(|| own_place(common, output)).transpose()?;
            let (place, removal) = own.unzip();
            (pt2pt::run(&options(place), measuring.begun()?)?, removal)
        }
        Some(rn) => {
            let role = pt2pt_between_hosts(common, arguments, rn, output)?;
            let options = |place| options(Some(place));
            let tool = Tool { serve: pt2pt::serve, client: pt2pt::client, run: pt2pt::client };
            let Some(played) = tool.play(role, options, &mut measuring)? else { return Ok(PASS) };
            played
        }
    };
    let text = || match arguments.layout {
        Layout::Table => report.to_text(),
        Layout::Osu => report.to_osu(),
    };
    let rest = Rest {
        partial: report.partial,
        thresholds: thresholds.as_ref(),
        file: arguments.json_file.as_deref(),
    };
    measuring.conclude(&report, text, rest)
}

fn pt2pt_between_hosts(
    common: &Common,
    arguments: &Pt2pt,
    rn: NodeId,
    output: Output,
) -> Result<Role, Failure> {
    let ends = Ends {
        server: arguments.server,
        client: arguments.client,
        rn: Some(rn),
        cpus: arguments.cpus,
        same_core: false,
        load: 0,
        json_file: None,
        thresholds: None,
    };
    let role = role(common, &ends, Benchmark::Pt2pt, output)?;
    if matches!(role, Role::Both(..)) {
        return Err(usage(format!(
            "node {rn} is on this host, and --rn names a node of another one: leave --rn out to measure within this host"
        )));
    }
    Ok(role)
}
