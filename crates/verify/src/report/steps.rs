//! The steps of the run: each result and duration.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::Value;

use super::number;
use super::read::{Judged, Read};

/// What a step is called on the page.
pub(super) fn title(name: &str) -> Cow<'static, str> {
    let known = match name {
        "up" => "Start the cluster",
        "status" => "Managers and sessions",
        "cable" => "Cables against the plan",
        "diag" => "Static test of every node",
        "exchange" => "Checked data between every pair",
        "load" | "conntest" => "All to all under load",
        "pairs" => "Every pair beside the others",
        "hosts" => "Speed of links between hosts",
        "scipp" | "latency" => "Half round trip compared with the baseline",
        "scibench2" => "Streaming stores",
        "dma" => "DMA vectors",
        "intr" => "Interrupts",
        "jitter" => "Jitter",
        "names" => "Names of the nodes",
        "curves" => "Curves of one pair",
        "closing" => "Final check of managers and links",
        "thresholds" => "Figures against limits from a file",
        "limits" => "What the machine allows",
        "baseline" => "Comparison with an earlier run",
        other => return Cow::Owned(other.to_owned()),
    };
    Cow::Borrowed(known)
}

/// A verdict as a word in colour, with a symbol.
pub(super) fn badge(judged: Judged) -> Markup {
    html! { span.badge.(judged.class()) { span aria-hidden="true" { (judged.symbol()) } (judged.word()) } }
}

/// The table of steps.
pub(super) fn section(document: &Value) -> Option<Markup> {
    let steps = document.items("steps");
    if steps.is_empty() {
        return None;
    }
    let duration = |step: &Value| step.num("duration_s").filter(|s| *s >= 0.0);
    let longest = steps.iter().filter_map(duration).fold(0.0, f64::max);
    Some(html! {
        p.lead { "In this order. A step that was planned and did not run is a failure, never a silent pass." }
        table.steps {
            thead { tr { th scope="col" { "Step" } th scope="col" { "Outcome" } th scope="col" { "What came of it" } th.right scope="col" { "Took" } } }
            tbody {
                @for step in steps.iter().take(100) {
                    @let name = step.text("name").unwrap_or_default();
                    tr {
                        th scope="row" { (title(&name)) @if title(&name) != name { " " code { (name) } } }
                        td.outcome { (badge(step.verdict().unwrap_or(Judged::Unsure))) }
                        td.detail { (step.text("detail").unwrap_or_default()) }
                        td.took {
                            @if let Some(s) = duration(step) {
                                (number::time(s * 1e9, 0.0))
                                @if longest > 0.0 {
                                    // A bar shows where the time went.
                                    span.bar aria-hidden="true" { span style={ "width:" (format!("{:.1}", s / longest * 100.0)) "%" } {} }
                                }
                            } @else { "–" }
                        }
                    }
                }
            }
        }
    })
}
