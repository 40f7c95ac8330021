//! `tieline fabric convert`, `draw` and `generate`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ::fabric::files::{Form, Shape, bare};
use ::fabric::snapshot::{self, Snapshot};
use anyhow::Context;
use topology::read::Format;
use topology::write::SlurmHosts;
use topology::{LinkSpec, NodeIx, Speed, counted, printable, verb};
use verify::writer::{self, Kind};

use super::super::usage;
use super::shown::Shown;
use super::{open, opened};
use crate::args::fabric::{Convert, Draw, Generate};
use crate::exit::{Failure, Outcome, PASS};

static WRITTEN: Kind = Kind {
    what: "fabric",
    option: "OUT",
    size_bytes: 0,
    mode: 0o666,
    may_replace: ::fabric::files::may_replace,
};

static DRAWN: Kind = Kind { what: "drawing", ..WRITTEN };

/// Shapes, and the sizes that each takes.
const SHAPES: [(&str, &str); 8] = [
    ("fattree", "RADIX LEVELS, as in fattree 36 2"),
    ("pgft", "CHILDREN PARENTS PARALLEL, a number per level in each, as in pgft 4,4 1,2 1,1"),
    ("dragonfly", "HOSTS per switch, as in dragonfly 4"),
    ("dragonfly+", "GROUPS LEAVES SPINES GLOBAL, as in dragonfly+ 5 4 4 4"),
    ("torus", "SIZES, as in torus 4x4x4"),
    ("mesh", "SIZES, as in mesh 4x4"),
    ("hyperx", "SIZES, as in hyperx 4x4"),
    ("hypercube", "DIMENSIONS, as in hypercube 5"),
];

/// Shapes whose sizes say how many hosts each switch has.
const WITHOUT_HOSTS: [(&str, &str); 2] = [
    ("dragonfly", "its size is the number of hosts per switch"),
    ("pgft", "the first number of CHILDREN is the number of hosts per leaf"),
];

pub(super) fn convert(arguments: &Convert, output: Shown) -> Outcome {
    let form = form(&arguments.output, arguments.to.as_deref())?;
    not_itself(&arguments.input, &arguments.output)?;
    let snapshot = match &arguments.as_form {
        None => open(&arguments.input, output)?,
        Some(word) => {
            let words = Format::ALL.map(Format::word).join(", ");
            let forced = Format::of_word(word)
                .ok_or_else(|| usage(format!("no format `{word}` is read: give one of {words}")))?;
            opened(snapshot::open(&arguments.input, Some(forced)))?
        }
    };
    write(snapshot, (form, &WRITTEN), &arguments.output, output)
}

pub(super) fn draw(arguments: &Draw, output: Shown) -> Outcome {
    only_svg(&arguments.output)?;
    not_itself(&arguments.input, &arguments.output)?;
    write(open(&arguments.input, output)?, (Form::Svg, &DRAWN), &arguments.output, output)
}

/// A picture in a file that is named as another kind of picture would be opened by nothing.
fn only_svg(output: &Path) -> Result<(), Failure> {
    let Some(extension) = output.extension().filter(|extension| !extension.eq_ignore_ascii_case("svg"))
    else {
        return Ok(());
    };
    Err(usage(format!(
        "OUT ends in .{}, but only SVG is drawn: name {}",
        extension.display(),
        output.with_extension("svg").display()
    )))
}

/// What is read is not replaced, whoever has written it.
fn not_itself(input: &Path, output: &Path) -> Result<(), Failure> {
    let file = |path: &Path| {
        let there = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        there.map(|there| (there.dev(), there.ino()))
    };
    match (file(input), file(output)) {
        (Some(one), Some(other)) if one == other => Err(usage(format!(
            "{} is the file that is read, so it is not replaced: give another OUT",
            output.display()
        ))),
        _ => Ok(()),
    }
}

pub(super) fn generate(arguments: &Generate, output: Shown) -> Outcome {
    let form = form(&arguments.output, arguments.to.as_deref())?;
    let rate = rate(&arguments.rate)?;
    let graph = shape(arguments)?.build(rate).map_err(Failure::usage)?;
    write(bare(graph, "generated"), (form, &WRITTEN), &arguments.output, output)
}

/// Width and speed, of which links are made.
fn rate(text: &str) -> Result<LinkSpec, Failure> {
    let rate = text.parse::<LinkSpec>().ok().filter(|rate| rate.is_made());
    rate.ok_or_else(|| {
        let speeds = Speed::ALL.map(Speed::word).join(", ");
        usage(format!(
            "--rate `{text}`: there is no such link: give width and speed, as in 4xHDR, of the widths 1x, 2x, 4x, 8x and 12x (Omni-Path, \
             with 12.5Gb and 25Gb: 1x to 4x) and the speeds {speeds}"
        ))
    })
}

fn shape(arguments: &Generate) -> Result<Shape, Failure> {
    let given = arguments.sizes.join(" ");
    let wrong = || {
        let kind = &arguments.kind;
        let Some((_, sizes)) = SHAPES.iter().find(|(known, _)| known == kind) else {
            let kinds = SHAPES.map(|(kind, _)| kind).join(", ");
            return usage(format!("there is no shape `{kind}`: give one of {kinds}"));
        };
        usage(format!("`{given}` is not the size of a {kind}: give {kind} {sizes}"))
    };
    let number = |word: &str| word.parse::<u32>().map_err(|_| wrong());
    let hosts = arguments.hosts.unwrap_or(1);
    if let Some((_, instead)) = WITHOUT_HOSTS.iter().find(|(kind, _)| *kind == arguments.kind)
        && arguments.hosts.is_some()
    {
        return Err(usage(format!("--hosts does not apply to {}: {instead}", arguments.kind)));
    }
    let words: Vec<&str> = arguments.sizes.iter().map(String::as_str).collect();
    let list = |word: &str| word.split(',').map(number).collect::<Result<Vec<u32>, _>>();
    let grid = |word: &str| word.split(['x', 'X']).map(number).collect::<Result<Vec<u32>, _>>();
    Ok(match (arguments.kind.as_str(), words.as_slice()) {
        ("fattree", [radix, levels]) => Shape::FatTree(number(radix)?, number(levels)?, arguments.hosts),
        ("pgft", [children, parents, parallel]) => {
            Shape::Pgft(list(children)?, list(parents)?, list(parallel)?)
        }
        ("dragonfly+", [groups, leaves, spines, global]) => {
            Shape::DragonflyPlus([number(groups)?, number(leaves)?, number(spines)?, number(global)?], hosts)
        }
        ("dragonfly", [hosts]) => Shape::Dragonfly(number(hosts)?),
        ("torus", [sizes]) => Shape::Torus(grid(sizes)?, hosts),
        ("mesh", [sizes]) => Shape::Mesh(grid(sizes)?, hosts),
        ("hyperx", [sizes]) => Shape::HyperX(grid(sizes)?, hosts),
        ("hypercube", [dimensions]) => Shape::Hypercube(number(dimensions)?, hosts),
        _ => return Err(wrong()),
    })
}

/// The form that is asked for, or that the name means.
fn form(path: &Path, word: Option<&str>) -> Result<Form, Failure> {
    let words = || Form::words().collect::<Vec<_>>().join(", ");
    match word {
        Some(word) => Form::of_word(word)
            .ok_or_else(|| usage(format!("no format `{word}` is written: give one of {}", words()))),
        None => Form::of_path(path).ok_or_else(|| {
            usage(format!(
                "{}: give --to with one of {}",
                if path == Path::new("-") {
                    "standard output has no extension that names a format".to_owned()
                } else {
                    format!("the extension of {} names no format", path.display())
                },
                words()
            ))
        }),
    }
}

/// What the form can't hold is said: nodes that it knows by their GUIDs get one, and nodes without a cable
/// have no place in some.
fn complete(mut snapshot: Snapshot, form: Form, output: Shown) -> Result<Snapshot, Failure> {
    if matches!(form, Form::SlurmConf | Form::SlurmYaml) {
        hosts(&snapshot, output)?;
    }
    let graph = &snapshot.graph;
    if matches!(form, Form::SubnetList | Form::IbNetDiscover) {
        let lacking = graph.without_guid();
        if let Some(first) = lacking.first() {
            output.note(&format!(
                "{} {} no GUID, which this format needs: GUIDs were made from the names, the first for `{}`",
                counted(lacking.len(), "node"),
                verb(lacking.len(), "has", "have"),
                printable(graph.name(*first))
            ));
        }
        snapshot.graph = graph.with_guids();
    }
    let graph = &snapshot.graph;
    let alone = |node: &NodeIx| !graph.is_dead(*node) && graph.cabled(*node).next().is_none();
    let mut alone = graph.nodes().filter(alone).peekable();
    if let (Form::SubnetList, Some(first)) = (form, alone.peek().copied()) {
        let count = alone.count();
        output.note(&format!(
            "{} without a cable {} left out, as this format cannot hold {}: the first is `{}`",
            counted(count, "node"),
            verb(count, "is", "are"),
            verb(count, "it", "them"),
            printable(graph.name(first))
        ));
    }
    Ok(snapshot)
}

/// What Slurm is not told: adapters without a host name, and all but the first switch of a host.
fn hosts(snapshot: &Snapshot, output: Shown) -> Result<(), Failure> {
    let (graph, hosts) = (&snapshot.graph, SlurmHosts::of(&snapshot.graph));
    let next = "set NodeDescriptions that begin with the host name (rdma-ndd), and dump the fabric again";
    let example = hosts.unnamed.first().map(|first| printable(graph.name(*first)));
    match example {
        None if hosts.is_empty() => {
            return Err(usage("the fabric has no CA, so Slurm has no node: name a file with hosts"));
        }
        Some(example) if hosts.is_empty() => {
            return Err(usage(format!(
                "no CA is described by the name of its host, the first as `{example}`: {next}"
            )));
        }
        Some(example) => output.note(&format!(
            "{} {} not described by a host name of {} own and left out, the first as `{example}`: {next}",
            counted(hosts.unnamed.len(), "CA"),
            verb(hosts.unnamed.len(), "is", "are"),
            verb(hosts.unnamed.len(), "its", "their")
        )),
        None => {}
    }
    if let Some(first) = hosts.at_several.first() {
        output.note(&format!(
            "{} {} CAs at several switches, of which Slurm takes one: each is written at the first; one is `{first}`",
            counted(hosts.at_several.len(), "host"),
            verb(hosts.at_several.len(), "has", "have")
        ));
    }
    Ok(())
}

fn write(snapshot: Snapshot, (form, kind): (Form, &'static Kind), path: &Path, output: Shown) -> Outcome {
    let mut bytes = Vec::new();
    form.write(&complete(snapshot, form, output)?, &mut bytes)?;
    if path == Path::new("-") {
        crate::output::print_bytes(&bytes).context("the result cannot be written to standard output")?;
    } else {
        writer::write_now(kind, path, &bytes)?;
    }
    Ok(PASS)
}
