//! A report as one HTML page that needs no other file, no script and no network. Names of strangers are
//! escaped by `maud`.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use topology::counted;

use super::{Report, Verdict, Weight};
use crate::counting::Counters;

/// Findings and lines of a list that are shown.
const SHOWN: usize = 500;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2430}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}\
td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #d8dee6;vertical-align:top}\
.failed{color:#a40000}.open{color:#7a5600}.warning{color:#5a5a00}.verdict{font-weight:700}svg{max-width:100%;height:auto}\
@media (prefers-color-scheme:dark){body{background:#14181e;color:#e4e8ee}td,th{border-color:#38414d}.failed{color:#ff8a80}\
.open{color:#ffcc66}.warning{color:#e6e07a}svg{background:#fff}}@media print{body{margin:0}}";

/// The page. `drawing` is an SVG element that this program made.
#[must_use]
pub fn page(report: &Report, drawing: Option<&str>) -> String {
    let of = &report.summary;
    let (word, class) = match report.verdict {
        Verdict::Pass => ("PASSED", "passed"),
        Verdict::Fail => ("FAILED", "failed"),
        Verdict::Inconclusive => ("INCONCLUSIVE", "open"),
    };
    let rates: Vec<String> = of.rates.iter().map(|(rate, count)| format!("{count} {rate}")).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Fabric: " (word) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Fabric " span class={ "verdict " (class) } { (word) } }
                table {
                    tr { th { "source" } td { (of.source) } }
                    tr { th { "nodes" } td { (counted(of.hosts, "CA")) ", " (counted(of.switches, "switch")) ", " (counted(of.routers, "router")) } }
                    tr { th { "links" } td { (of.links) ": " (rates.join(", ")) } }
                    tr { th { "shape" } td { (of.shape) " (" (format!("{:.0}", of.shape_confidence * 100.0)) " % sure)" } }
                    @if !of.managers.is_empty() { tr { th { "subnet manager (SM)" } td { (of.managers.join(", ")) } } }
                    tr { th { "counters" } td { @match of.counted { Some(ports) => { "of " (counted(ports, "port")) } None => { "n/a" } } } }
                    tr { th { "forwarding tables (LFTs)" } td {
                        @match &report.routes {
                            Some(routes) => {
                                (routes.pairs - routes.lost - routes.cut) " of " (counted(routes.pairs, "pair")) " of a leaf switch and a destination LID routed; "
                                (routes.loop_text())
                            }
                            None => { "n/a" }
                        }
                    } }
                }
                (findings(report))
                (lists(report))
                @if let Some(drawing) = drawing {
                    h2 { "Drawing" }
                    (PreEscaped(drawing))
                }
            }
        }
    };
    mad::text::plain_lines(&page.into_string())
}

fn findings(report: &Report) -> Markup {
    html! {
        h2 { "Findings" }
        @if report.findings.is_empty() { p { "Nothing is wrong." } }
        @else {
            table {
                tr { th { "weight" } th { "kind" } th { "what" } }
                @for finding in report.findings.iter().take(SHOWN) {
                    @let (word, class) = match finding.weight {
                        Weight::Failed => ("failed", "failed"),
                        Weight::Open => ("open", "open"),
                        Weight::Warning => ("warning", "warning"),
                    };
                    tr { td class=(class) { (word) } td { (finding.word()) } td { (finding.text) } }
                }
            }
            @if report.findings.len() > SHOWN { p { "and " (report.findings.len() - SHOWN) " more" } }
        }
    }
}

fn lists(report: &Report) -> Markup {
    html! {
        @if let Some(route) = &report.route {
            h2 { "Route from " (route.from) " to " (route.to) }
            table { @for step in &route.steps { tr { td { (step.out) } td { (step.into) } td { (step.rate) } } } }
            @if let Some(why) = &route.broken { p class="failed" { (why) } }
        }
        @if let Some(worst) = &report.worst {
            h2 { "Ports with the highest counters, " (Counters::specified(worst.category)) }
            table { @for (place, value) in &worst.ports { tr { td { (place) } td { (value) } } } }
        }
        @if let Some(nodes) = &report.nodes {
            h2 { "Nodes" }
            table { @for node in nodes.iter().take(SHOWN) { tr { td { (node.kind) } td { (node.name) } td { (node.guid) } td { (node.cabled) " of " (node.ports) " ports" } } } }
        }
        @if let Some(links) = &report.links {
            h2 { "Links" }
            table { @for link in links.iter().take(SHOWN) { tr { td { (link.a) } td { (link.b) } td { (link.rate) } td { (link.state) } } } }
        }
    }
}
