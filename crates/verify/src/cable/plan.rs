//! Plans: which links there should be, and the rates that each must reach.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use proto::ids::AdapterNo;
use serde::{Deserialize, Serialize};
use tieline::NodeId;
use toml::Spanned;

use super::seen::LinkReport;

/// Version of the form of plan files.
const VERSION: u32 = 1;
/// Faster than any link will be; more is a mistake in the unit.
const MOST_MB_S: f64 = 1e9;
/// A second.
const LONGEST_RTT_NS: f64 = 1e9;

/// A plan cannot be used, or not be written.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error(
        "plan {path} cannot be read: {source}: name another, or make one with `tieline cable --generate`"
    )]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// It is not TOML, has an unknown key, a value of the wrong kind, or one that cannot be.
    #[error("{path}, line {line}: {message}: correct it (`tieline cable --generate` prints an example)")]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// It names nodes that are not known in the cluster.
    #[error(
        "{path}, line {line}: {} not in cluster `{cluster}`, which has nodes {}: start {} with `tieline node start`, name another \
         cluster with --cluster, or correct the plan",
        are(.unknown), list(.known), if .unknown.len() == 1 { "it" } else { "them" }
    )]
    NotInCluster {
        /// The plan's path.
        path: PathBuf,
        /// The line of the first of them, from 1.
        line: usize,
        /// The cluster.
        cluster: String,
        /// Those that it names, each with its line.
        unknown: Vec<(NodeId, usize)>,
        /// Those that there are.
        known: Vec<NodeId>,
    },
    /// There is a file already that is something else.
    #[error(
        "{path} exists and is not a plan ({why}), so it is not replaced, not even with --force: give another name, or remove it"
    )]
    NotAPlan {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it as a plan.
        why: String,
    },
    /// There is a file already.
    #[error("{path} exists and was not changed: replace it with --force, or give another name")]
    Exists {
        /// The path of the file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error(
        "plan {path} cannot be written: {source}; what was there before is unchanged: name another file with --save"
    )]
    Unwritable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

impl PlanError {
    /// The caller can correct it on the command line or in the file.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Unwritable { .. })
    }
}

/// Ids as people read them.
pub(super) fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Nodes that are somewhere; where there are several, each but the first with its line.
fn are(nodes: &[(NodeId, usize)]) -> String {
    let [(first, _), others @ ..] = nodes else { return String::new() };
    if others.is_empty() {
        return format!("node {first} is");
    }
    let others: String = others.iter().map(|(node, line)| format!(", {node} (line {line})")).collect();
    format!("nodes {first}{others} are")
}

/// What a link must reach, in both directions. `None`: no matter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Blocks must move at this rate at least, in 10⁶ bytes a second.
    pub min_bandwidth_mb_s: Option<f64>,
    /// Half a round trip of a small message may take so long, in nanoseconds.
    pub max_half_rtt_ns: Option<f64>,
    /// Blocks must move at this share of the speed at which this machine copies them without a link at that
    /// moment, in percent.
    pub min_copy_percent: Option<f64>,
}

impl Rates {
    /// Nothing is to be measured.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn or(self, other: Self) -> Self {
        Self {
            min_bandwidth_mb_s: self.min_bandwidth_mb_s.or(other.min_bandwidth_mb_s),
            max_half_rtt_ns: self.max_half_rtt_ns.or(other.max_half_rtt_ns),
            min_copy_percent: self.min_copy_percent.or(other.min_copy_percent),
        }
    }

    /// With their names, those that are given.
    fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        [
            ("min_bandwidth_mb_s", self.min_bandwidth_mb_s),
            ("max_half_rtt_ns", self.max_half_rtt_ns),
            ("min_copy_percent", self.min_copy_percent),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// A link that should be there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedLink {
    /// Its two nodes, ascending.
    pub ends: [NodeId; 2],
    /// The adapter that it is plugged into, at each end.
    pub adapters: [AdapterNo; 2],
    /// What it must reach.
    pub rates: Rates,
}

impl PlannedLink {
    /// A link between two nodes that are not the same, on their first adapters.
    pub fn between(a: NodeId, b: NodeId) -> Self {
        Self { ends: [a.min(b), a.max(b)], adapters: [AdapterNo(0); 2], rates: Rates::default() }
    }

    /// The adapter at one of its ends.
    pub fn adapter_at(&self, node: NodeId) -> Option<AdapterNo> {
        self.ends.iter().position(|end| *end == node).and_then(|at| self.adapters.get(at).copied())
    }
}

/// The links that there should be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The file it comes from; `None`: all nodes linked with all others.
    pub path: Option<PathBuf>,
    /// Nodes that have to answer, ascending.
    pub nodes: Vec<NodeId>,
    /// By their ends.
    pub links: Vec<PlannedLink>,
    /// On which line a node is named first.
    #[serde(skip)]
    lines: BTreeMap<NodeId, usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: Option<Spanned<u32>>,
    nodes: Option<Vec<Spanned<NodeId>>>,
    #[serde(default)]
    rates: RatesEntry,
    #[serde(default)]
    link: Vec<LinkEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesEntry {
    min_bandwidth_mb_s: Option<Spanned<f64>>,
    max_half_rtt_ns: Option<Spanned<f64>>,
    min_copy_percent: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    // A list, as a pair would take the first two of any number.
    ends: Spanned<Vec<NodeId>>,
    adapters: Option<[AdapterNo; 2]>,
    min_bandwidth_mb_s: Option<Spanned<f64>>,
    max_half_rtt_ns: Option<Spanned<f64>>,
    min_copy_percent: Option<Spanned<f64>>,
}

/// A text, for messages that name a line of it.
struct Source<'t> {
    path: &'t Path,
    text: &'t str,
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.get(..offset.min(self.text.len())).unwrap_or_default().matches('\n').count() + 1
    }

    fn wrong(&self, line: usize, message: impl Into<String>) -> PlanError {
        PlanError::Malformed { path: self.path.into(), line, message: message.into() }
    }

    fn rate(&self, key: &str, value: Option<Spanned<f64>>, most: f64) -> Result<Option<f64>, PlanError> {
        let Some(value) = value else { return Ok(None) };
        let (line, number) = (self.line(value.span().start), value.into_inner());
        if number.is_finite() && number > 0.0 && number <= most {
            return Ok(Some(number));
        }
        Err(self.wrong(line, format!("{key} = {number}: expected a number above 0 and at most {most}")))
    }

    fn rates(&self, entry: RatesEntry) -> Result<Rates, PlanError> {
        Ok(Rates {
            min_bandwidth_mb_s: self.rate("min_bandwidth_mb_s", entry.min_bandwidth_mb_s, MOST_MB_S)?,
            max_half_rtt_ns: self.rate("max_half_rtt_ns", entry.max_half_rtt_ns, LONGEST_RTT_NS)?,
            min_copy_percent: self.rate("min_copy_percent", entry.min_copy_percent, 100.0)?,
        })
    }
}

impl Plan {
    /// Every node linked with every other.
    pub fn full_mesh(nodes: &[NodeId]) -> Self {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let after = |at: usize| nodes.iter().skip(at + 1);
        let links = nodes
            .iter()
            .enumerate()
            .flat_map(|(at, a)| after(at).map(|b| PlannedLink::between(*a, *b)))
            .collect();
        Self { path: None, nodes, links, lines: BTreeMap::new() }
    }

    /// The present links as a plan; nodes are those of the links.
    pub(super) fn of_links<'l>(links: impl Iterator<Item = &'l LinkReport>) -> Self {
        let mut ends: BTreeMap<[NodeId; 2], PlannedLink> = BTreeMap::new();
        for link in links {
            let [a, b] = link.link;
            let planned = ends.entry(link.link).or_insert_with(|| PlannedLink::between(a, b));
            // This view is that of the end whose peer the other one is.
            if link.peer == b {
                planned.adapters[0] = link.adapter
            } else {
                planned.adapters[1] = link.adapter
            }
        }
        let mut nodes: Vec<NodeId> = ends.keys().flatten().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Self { path: None, nodes, links: ends.into_values().collect(), lines: BTreeMap::new() }
    }

    /// Reads a plan file.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let text = node::config::read_file(path)
            .map_err(|source| PlanError::Unreadable { path: path.into(), source })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, PlanError> {
        let source = Source { path, text };
        let document: Document = toml::from_str(text).map_err(|error| {
            source.wrong(source.line(error.span().map_or(0, |span| span.start)), error.message())
        })?;
        if let Some(version) = document.version.filter(|version| *version.get_ref() != VERSION) {
            let message = format!("version {}: this tieline reads version {VERSION}", version.get_ref());
            return Err(source.wrong(source.line(version.span().start), message));
        }
        let mut lines = BTreeMap::new();
        for entry in document.nodes.unwrap_or_default() {
            let (line, node) = (source.line(entry.span().start), entry.into_inner());
            if let Some(first) = lines.insert(node, line) {
                // Most likely another node was meant.
                return Err(source.wrong(line, format!("node {node} is on line {first} already")));
            }
        }
        let general = source.rates(document.rates)?;
        let mut links: Vec<(usize, PlannedLink)> = Vec::with_capacity(document.link.len());
        for entry in document.link {
            let (line, link) = planned(&source, entry, general)?;
            if let Some((first, _)) = links.iter().find(|(_, other)| other.ends == link.ends) {
                let [a, b] = link.ends;
                return Err(source.wrong(line, format!("link {a}-{b} is on line {first} already")));
            }
            for node in link.ends {
                lines.entry(node).or_insert(line);
            }
            links.push((line, link));
        }
        if lines.is_empty() {
            return Err(source.wrong(
                1,
                "it names no node: expected `nodes = [4, …]` or a `[[link]]` with `ends = [4, 8]`",
            ));
        }
        let mut links: Vec<PlannedLink> = links.into_iter().map(|(_, link)| link).collect();
        links.sort_by_key(|link| link.ends);
        Ok(Self { path: Some(path.into()), nodes: lines.keys().copied().collect(), links, lines })
    }

    /// An error if it names a node that is not among those that are known.
    pub fn check_known(&self, cluster: &str, known: &[NodeId]) -> Result<(), PlanError> {
        let line = |node| self.lines.get(node).copied().unwrap_or(1);
        let strangers = self.nodes.iter().filter(|node| !known.contains(node));
        let mut unknown: Vec<(NodeId, usize)> = strangers.map(|node| (*node, line(node))).collect();
        unknown.sort_by_key(|(node, line)| (*line, *node));
        let (Some(path), Some((_, line))) = (self.path.clone(), unknown.first().copied()) else {
            return Ok(());
        };
        Err(PlanError::NotInCluster { path, line, cluster: cluster.into(), unknown, known: known.to_vec() })
    }

    /// The planned link between two nodes.
    pub fn link(&self, a: NodeId, b: NodeId) -> Option<&PlannedLink> {
        let ends = [a.min(b), a.max(b)];
        self.links.iter().find(|link| link.ends == ends)
    }

    /// As a plan file, which can be read again.
    pub fn to_toml(&self, origin: &str) -> String {
        let mut text = format!(
            "# Cabling plan: {origin}.\n# Judged by: tieline cable --plan FILE\n\nversion = {VERSION}\n"
        );
        let _ = writeln!(text, "nodes = [{}]", list(&self.nodes));
        for link in &self.links {
            let [a, b] = link.ends;
            let _ = writeln!(text, "\n[[link]]\nends = [{a}, {b}]");
            if link.adapters != [AdapterNo(0); 2] {
                let [near, far] = link.adapters;
                let _ = writeln!(text, "adapters = [{near}, {far}]");
            }
            for (name, value) in link.rates.named() {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        text
    }
}

fn planned(source: &Source<'_>, entry: LinkEntry, general: Rates) -> Result<(usize, PlannedLink), PlanError> {
    let line = source.line(entry.ends.span().start);
    let [a, b] = entry.ends.get_ref().as_slice() else {
        let count = entry.ends.get_ref().len();
        return Err(source.wrong(line, format!("a link needs two ends, this one has {count}")));
    };
    let (a, b) = (*a, *b);
    if a == b {
        return Err(
            source.wrong(line, format!("a link from node {a} to itself: expected two different nodes"))
        );
    }
    let rates = source.rates(RatesEntry {
        min_bandwidth_mb_s: entry.min_bandwidth_mb_s,
        max_half_rtt_ns: entry.max_half_rtt_ns,
        min_copy_percent: entry.min_copy_percent,
    })?;
    let mut adapters = entry.adapters.unwrap_or([AdapterNo(0); 2]);
    if a > b {
        adapters.reverse();
    }
    Ok((line, PlannedLink { adapters, rates: rates.or(general), ..PlannedLink::between(a, b) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(Path::new("p.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_generated_is_read_again() {
        let mut mesh = Plan::full_mesh(&[id(12), id(4), id(8), id(16)]);
        assert_eq!(mesh.links.len(), 6);
        mesh.links[2].rates.min_copy_percent = Some(80.0);
        mesh.links[3].adapters = [AdapterNo(0), AdapterNo(1)];
        let again = parse(&mesh.to_toml("a test")).unwrap();
        assert_eq!((&again.nodes, &again.links), (&mesh.nodes, &mesh.links));
        let single = Plan::full_mesh(&[id(4)]);
        assert_eq!(parse(&single.to_toml("a test")).unwrap().nodes, [id(4)]);
    }

    #[test]
    fn a_hand_written_plan_takes_ends_in_any_order_and_rates_for_all() {
        let plan = parse(
            "[rates]\nmin_bandwidth_mb_s = 500\n[[link]]\nends = [8, 4]\nadapters = [1, 0]\n[[link]]\nends = [8, 12]\nmin_bandwidth_mb_s = 7.5\n",
        )
        .unwrap();
        let link = plan.link(id(4), id(8)).unwrap();
        assert_eq!(
            (link.adapter_at(id(4)), link.adapter_at(id(8))),
            (Some(AdapterNo(0)), Some(AdapterNo(1)))
        );
        assert_eq!(link.rates.min_bandwidth_mb_s, Some(500.0));
        assert_eq!(plan.link(id(12), id(8)).unwrap().rates.min_bandwidth_mb_s, Some(7.5));
        assert!(plan.link(id(4), id(12)).is_none());
    }

    #[test]
    fn errors_name_file_and_line_and_what_was_expected() {
        for (text, place, words) in [
            ("[[link]]\nends = [4]\n", "p.toml, line 2: ", "a link needs two ends, this one has 1"),
            ("[[link]]\nends = [4, 8, 12]\n", "p.toml, line 2: ", "this one has 3"),
            ("[[link]]\nends = [4, 6]\n", "p.toml, line 2: ", "6 is not a node ID"),
            ("\n[[link]]\nends = [4, 8]\nspeed = 3\n", "p.toml, line 4: ", "unknown field `speed`"),
            ("[[link]]\nends = [8, 8]\n", "p.toml, line 2: ", "node 8 to itself"),
            ("[[link]]\nends = [4, 8]\n[[link]]\nends = [8, 4]\n", "p.toml, line 4: ", "4-8 is on line 2"),
            ("[[link]]\nends = [4, 8]\nmin_copy_percent = 101\n", "p.toml, line 3: ", "at most 100"),
            ("[rates]\nmax_half_rtt_ns = -1\n", "p.toml, line 2: ", "above 0"),
            ("[rates]\nmax_half_rtt_ns = nan\n", "p.toml, line 2: ", "above 0"),
            ("[rates]\nmin_bandwidth_mb_s = \"2GB\"\n", "p.toml, line 2: ", "expected f64"),
            ("version = 2\n", "p.toml, line 1: ", "reads version 1"),
            ("links = []\n", "p.toml, line 1: ", "expected one of `version`, `nodes`, `rates`, `link`"),
            ("[[link]]\nadapters = [0, 0]\n", "p.toml, line 1: ", "missing field `ends`"),
            ("nodes = [4,\n", "p.toml, line ", ""),
            ("nodes = [4, 4, 8]\n", "p.toml, line 1: ", "node 4 is on line 1 already"),
            ("nodes = [\n4,\n8,\n4]\n", "p.toml, line 4: ", "node 4 is on line 2 already"),
            ("", "p.toml, line 1: ", "names no node"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(place) && error.contains(words), "{text:?}: {error}");
            assert!(error.contains("tieline cable --generate"), "{error}");
        }
    }

    #[test]
    fn nodes_that_nobody_knows_are_named_with_the_line_and_those_that_there_are() {
        let plan = parse("nodes = [4]\n[[link]]\nends = [4, 8]\n[[link]]\nends = [8, 40]\n").unwrap();
        plan.check_known("lab", &[id(4), id(8), id(40)]).unwrap();
        let error = plan.check_known("lab", &[id(4), id(8)]).unwrap_err().to_string();
        assert!(error.contains("p.toml, line 5: node 40 is not in cluster `lab`"), "{error}");
        assert!(error.contains("nodes 4, 8: start it with"), "{error}");
        let error = plan.check_known("lab", &[id(4)]).unwrap_err().to_string();
        assert!(
            error.contains("line 3: nodes 8, 40 (line 5) are not in cluster `lab`")
                && error.contains("start them with"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = Plan::load(Path::new("/nowhere/p.toml")).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("/nowhere/p.toml"), "{error}");
        let error = Plan::load(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
