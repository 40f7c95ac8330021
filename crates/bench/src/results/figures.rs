//! Reads documents of the form `tieline.figures/1`.

use super::{Beside, Document, Item};
use crate::{
    figure::{Figure, Figures, ReferenceKind},
    verdict::Op,
};

pub(super) fn document(name: &str, figures: Figures) -> Document {
    let mut placements: Vec<String> =
        figures.figures.iter().map(|figure| format!("{} over {}", cpus(&figure.cpus), figure.path)).collect();
    placements.sort();
    placements.dedup();
    Document {
        name: name.to_owned(),
        schema: figures.schema,
        env: figures.env,
        setting: vec![("placement", placements.join("; "))],
        items: figures.figures.into_iter().map(item).collect(),
        missing: figures.missing,
        partial: figures.partial,
    }
}

fn cpus(cpus: &[usize]) -> String {
    match cpus {
        [] => "not pinned".to_owned(),
        cpus => format!("processors {cpus:?}"),
    }
}

fn item(figure: Figure) -> Item {
    let beside = (figure.reference.kind != ReferenceKind::Fixed).then_some(Beside {
        name: figure.reference.name,
        value: figure.reference.value,
        ratio: figure.ratio.value,
        ratio_ci95: Some(figure.ratio.ci95),
    });
    Item {
        id: figure.id,
        unit: figure.unit,
        small_is_good: figure.goal.op == Op::AtMost,
        stat: figure.stat,
        value: figure.value,
        ci95: Some(figure.ci95),
        beside,
        blocks: figure.blocks,
        disturbed: figure.disturbed_blocks as usize,
        verdict: Some(figure.verdict),
    }
}
