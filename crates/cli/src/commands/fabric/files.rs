//! `tieline fabric convert`, `draw` and `generate`.

use std::path::Path;

use ::fabric::files::{Form, Shape, bare};
use ::fabric::snapshot::{self, Snapshot};
use anyhow::Context;
use topology::read::Format;
use topology::{LinkSpec, NodeIx, printable};
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

pub(super) fn convert(arguments: &Convert, output: Shown) -> Outcome {
    let form = form(&arguments.output, arguments.to.as_deref())?;
    let snapshot = match &arguments.as_form {
        None => open(&arguments.input, output)?,
        Some(word) => {
            let words = Format::ALL.map(Format::word).join(", ");
            let forced = Format::of_word(word)
                .ok_or_else(|| usage(format!("nothing is read as `{word}`; forms are {words}")))?;
            opened(snapshot::open(&arguments.input, Some(forced)))?
        }
    };
    write(snapshot, form, &arguments.output, output)
}

pub(super) fn draw(arguments: &Draw, output: Shown) -> Outcome {
    write(open(&arguments.input, output)?, Form::Svg, &arguments.output, output)
}

pub(super) fn generate(arguments: &Generate, output: Shown) -> Outcome {
    let form = form(&arguments.output, arguments.to.as_deref())?;
    let rate: LinkSpec = arguments
        .rate
        .parse()
        .map_err(|()| usage(format!("`{}` is no rate: give lanes and speed, as in 4xHDR", arguments.rate)))?;
    let graph = shape(arguments)?.build(rate).map_err(Failure::usage)?;
    write(bare(graph, "generated"), form, &arguments.output, output)
}

fn shape(arguments: &Generate) -> Result<Shape, Failure> {
    let wrong = || {
        usage(format!(
            "`{} {}` is no shape: fattree RADIX LEVELS; pgft CHILDREN PARENTS PARALLEL (each a list as 4,4); dragonfly HOSTS; dragonfly+ GROUPS LEAVES SPINES GLOBAL; torus, mesh or hyperx 4x4x4; hypercube DIMENSIONS",
            arguments.kind,
            arguments.sizes.join(" ")
        ))
    };
    let number = |word: &str| word.parse::<u32>().map_err(|_| wrong());
    let hosts = arguments.hosts.unwrap_or(1);
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
            .ok_or_else(|| usage(format!("nothing is written as `{word}`; forms are {}", words()))),
        None => Form::of_path(path).ok_or_else(|| {
            usage(format!(
                "the name {} does not say in which form to write: give --to one of {}",
                path.display(),
                words()
            ))
        }),
    }
}

/// What the form can't hold is said: nodes that it knows by their GUIDs get one, and nodes without a cable have no place in some.
fn complete(mut snapshot: Snapshot, form: Form, output: Shown) -> Snapshot {
    let graph = &snapshot.graph;
    if matches!(form, Form::SubnetList | Form::IbNetDiscover) {
        let lacking = graph.without_guid();
        if let Some(first) = lacking.first() {
            output.note(&format!(
                "{} nodes have no GUID of their own, which this form needs: made up from their names, the first `{}`",
                lacking.len(),
                printable(graph.name(*first))
            ));
        }
        snapshot.graph = graph.with_guids();
    }
    let graph = &snapshot.graph;
    let alone = |node: &NodeIx| !graph.is_dead(*node) && graph.cabled(*node).next().is_none();
    let mut alone = graph.nodes().filter(alone).peekable();
    if let (Form::SubnetList, Some(first)) = (form, alone.peek().copied()) {
        output.note(&format!(
            "{} nodes without a cable have no place in this form and are left out, the first `{}`",
            alone.count(),
            printable(graph.name(first))
        ));
    }
    snapshot
}

fn write(snapshot: Snapshot, form: Form, path: &Path, output: Shown) -> Outcome {
    let mut bytes = Vec::new();
    form.write(&complete(snapshot, form, output), &mut bytes)?;
    if path == Path::new("-") {
        crate::output::print_bytes(&bytes).context("the result cannot be written to standard output")?;
    } else {
        writer::write_now(&WRITTEN, path, &bytes)?;
    }
    Ok(PASS)
}
