//! The page: its sections and their order.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::facts::Facts;
use super::read::{Judged, Read};
use super::{
    Detail, advice, baseline, cdf, curves, environment, jitter, matrix, nodes, steps, summary, suspects,
    troubles,
};

/// How it looks. The only text that is put in as it is.
const STYLE: &str = include_str!("style.css");

/// Whatever a document manages to say, a browser fetches and runs nothing for it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

/// The page of a document.
pub(super) fn page(document: &Value, detail: Detail) -> String {
    let facts = Facts::of(document);
    let suspects = suspects::all(document, &facts);
    let troubles = troubles::all(document);
    let advice = advice::all(document, &facts, &suspects, &troubles);
    let sections: Vec<Section> = [
        ("next", "What to do next", (!advice.is_empty()).then(|| summary::next(&advice))),
        ("wrong", "What is wrong", summary::wrong(&suspects, &troubles)),
        ("figures", "At a glance", summary::tiles(document, &facts)),
        ("pairs", "All pairs", matrix::section(document, &facts, detail)),
        ("steps", "What was tested", steps::section(document)),
        ("baseline", "Beside an earlier run", baseline::section(document, detail)),
        ("curves", "Speed by size, compared with the baseline", curves::section(document, detail)),
        ("distributions", "How often, how fast", cdf::section(document, detail)),
        ("jitter", "Jitter", jitter::section(document)),
        ("nodes", "Nodes", nodes::section(document)),
        ("environment", "Where it was measured", environment::section(document)),
    ]
    .into_iter()
    .filter_map(|(id, title, body)| Some(Section { id, title, body: body? }))
    .collect();
    let judged = document.verdict().unwrap_or(Judged::Unsure);
    let cluster = document.text("cluster").unwrap_or("unnamed".into());
    let title = document.text("title").filter(|title| !title.trim().is_empty());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (judged.word()) ": " @if let Some(title) = &title { (title) ", " } "cluster " (cluster) " – tieline verify" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#next" { "Skip to what to do next" }
                header {
                    p.product { "tieline " span { "verify" } }
                    @if let Some(title) = &title { h1 { (title) } p { "Cluster " (cluster) } } @else { h1 { "Cluster " (cluster) } }
                }
                main {
                    (summary::banner(document, &facts, &suspects, &troubles))
                    nav aria-label="Contents" { ul { @for section in &sections { li { a href={ "#" (section.id) } { (section.title) } } } } }
                    @for section in &sections {
                        section id=(section.id) aria-labelledby={ (section.id) "-h" } {
                            h2 id={ (section.id) "-h" } { (section.title) }
                            (section.body)
                        }
                    }
                }
                footer {
                    p { "Made by tieline from the document " code { "tieline.verify/1" } ". This page is one file: it loads nothing, runs nothing, and may be kept, mailed and printed." }
                    @if detail != Detail::Full { p { "Some tables were left out to keep it below one megabyte; they are in the document." } }
                }
            }
        }
    }
    .into_string()
}
