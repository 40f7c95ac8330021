//! Collects what the document contains about nodes and pairs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::read::{Judged, Read};

/// From which node to which.
pub(super) type Pair = (u64, u64);

/// What is known of one ordered pair.
#[derive(Debug, Clone, Default)]
pub(super) struct PairFacts {
    /// Half round trip, in ns, and by how much it exceeds the other pairs.
    pub latency_ns: Option<f64>,
    pub latency_ratio: Option<f64>,
    pub latency: Option<Judged>,
    /// Bytes a second, and by how much a block takes longer than with the other pairs.
    pub bandwidth: Option<f64>,
    pub block_ratio: Option<f64>,
    pub block: Option<Judged>,
    /// The same two, of a pair of nodes on two hosts.
    pub far_latency_ns: Option<f64>,
    pub far_bandwidth: Option<f64>,
    /// The same two of bare loops of libfabric's calls.
    pub provider_latency_ns: Option<f64>,
    pub provider_bandwidth: Option<f64>,
    /// What further passes read of the two quotients, where the first one suspected the pair.
    pub latency_again: Vec<f64>,
    pub block_again: Vec<f64>,
    /// Times that it stopped.
    pub stalls: u64,
    /// Bytes that were compared at the far end.
    pub bytes_checked: f64,
    /// What went wrong under load, or in the exchange: `3 puts lost`.
    pub wrong: Vec<String>,
    /// What is wrong with it, confirmed.
    pub problems: Vec<String>,
    /// Of the pair.
    pub verdict: Option<Judged>,
}

impl PairFacts {
    /// Whether anything contradicts it.
    pub(super) fn is_bad(&self) -> bool {
        self.verdict == Some(Judged::Fail) || !self.wrong.is_empty()
    }
}

/// All pairs.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub nodes: BTreeSet<u64>,
    pub pairs: BTreeMap<Pair, PairFacts>,
    /// The step of the clock, in ns; 0: not known.
    pub step_ns: f64,
}

impl Facts {
    pub(super) fn of(document: &Value) -> Self {
        let step_ns = super::environment::find(document).and_then(|env| env.positive("clock.step_ns"));
        let mut facts = Self { step_ns: step_ns.unwrap_or(0.0), ..Self::default() };
        let far = document.items("status.other_hosts");
        for node in document.items("status.nodes").iter().chain(far).chain(document.items("diag.nodes")) {
            facts.nodes.extend(node.at("node").as_u64());
        }
        facts.exchange(document);
        facts.load(document);
        facts.measured(document);
        facts.between_hosts(document);
        // Pairs of nodes that take part in nothing else are still pairs.
        let nodes: Vec<u64> = facts.pairs.keys().flat_map(|(from, to)| [*from, *to]).collect();
        facts.nodes.extend(nodes);
        facts
    }

    /// Pairs that nothing contradicts, and all.
    pub(super) fn clean(&self) -> (usize, usize) {
        (self.pairs.values().filter(|pair| !pair.is_bad()).count(), self.pairs.len())
    }

    fn pair(&mut self, pair: Pair) -> &mut PairFacts {
        self.pairs.entry(pair).or_default()
    }

    fn exchange(&mut self, document: &Value) {
        for entry in document.items("exchange.pairs") {
            let (Some(from), Some(to)) = (entry.at("from").as_u64(), entry.at("to").as_u64()) else {
                continue;
            };
            let pair = self.pair((from, to));
            pair.bytes_checked += entry.num("bytes").unwrap_or(0.0).max(0.0);
            if let Some(error) = entry.text("error") {
                pair.wrong.push(format!("exchange: {error}"));
            }
        }
    }

    fn load(&mut self, document: &Value) {
        // If the meeting was ended early, a missing node may have been about to respond.
        let waited = document.at("load.ended_while_meeting").as_bool() != Some(true);
        for instance in document.items("load.instances") {
            let Some(here) = instance.at("node").as_u64() else { continue };
            for peer in instance.items("peers") {
                let Some(there) = peer.at("node").as_u64() else { continue };
                // What an instance has checked, its peer has sent.
                let pair = self.pair((there, here));
                pair.bytes_checked += peer.num("ledger.bytes_checked").unwrap_or(0.0).max(0.0);
                pair.wrong.extend(wrong(peer, waited));
            }
        }
    }

    fn measured(&mut self, document: &Value) {
        for entry in document.items("pairs.pairs") {
            let ends: Vec<u64> = entry.items("pair").iter().filter_map(Value::as_u64).collect();
            let [from, to] = ends[..] else { continue };
            let pair = self.pair((from, to));
            pair.latency_ns = entry.positive("latency.p50_ns");
            pair.latency_ratio = entry.positive("latency.ratio");
            pair.latency = entry.at("latency").verdict();
            pair.bandwidth = entry.positive("bandwidth_bytes_per_s");
            pair.block_ratio = entry.positive("block.ratio");
            pair.block = entry.at("block").verdict();
            pair.latency_again = again(entry, "latency");
            pair.block_again = again(entry, "block");
            pair.stalls = entry.count("stalls");
            pair.problems = entry.texts("problems").into_iter().map(Into::into).collect();
            pair.verdict = entry.verdict();
        }
        for obstacle in document.items("pairs.obstacles") {
            let ends: Vec<u64> = obstacle.items("pair").iter().filter_map(Value::as_u64).collect();
            let [from, to] = ends[..] else { continue };
            let why = obstacle.text("why").map_or_else(|| "could not be measured".into(), Into::into);
            let pair = self.pair((from, to));
            pair.problems.push(why);
            pair.verdict = Some(Judged::Fail);
        }
    }
}

impl Facts {
    fn between_hosts(&mut self, document: &Value) {
        for entry in document.items("between_hosts.pairs") {
            let ends: Vec<u64> = entry.items("pair").iter().filter_map(Value::as_u64).collect();
            let [from, to] = ends[..] else { continue };
            let pair = self.pair((from, to));
            pair.far_latency_ns = entry.positive("reading.half_rtt_ns");
            pair.far_bandwidth = entry.positive("reading.bandwidth_bytes_per_s");
            pair.provider_latency_ns = entry.positive("reading.provider.half_rtt_ns");
            pair.provider_bandwidth = entry.positive("reading.provider.bandwidth_bytes_per_s");
        }
    }
}

/// Quotients that further passes have read.
fn again(pair: &Value, what: &str) -> Vec<f64> {
    let of_kind = pair.items("again").iter().filter(|again| again.at("what").as_str() == Some(what));
    of_kind.filter_map(|again| again.positive("ratio")).collect()
}

/// What an instance of the load test counted against a peer.
fn wrong(peer: &Value, waited: bool) -> Vec<String> {
    let mut wrong: Vec<String> = peer.text("error").map(Into::into).into_iter().collect();
    if waited && peer.at("found").as_bool() == Some(false) {
        wrong.push("not found".into());
    }
    for (field, what) in [
        ("lost", "puts lost"),
        ("corrupt", "blocks or words corrupt"),
        ("out_of_order", "blocks out of order"),
        ("failures", "failures"),
    ] {
        let number = peer.count(&format!("ledger.{field}"));
        if number > 0 {
            wrong.push(format!("{} {what}", super::number::count(number)));
        }
    }
    wrong
}
