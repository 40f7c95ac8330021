//! The tool's side: opens the ends, and lets two of them at a time take their turn.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bench::rng::Rng;
use node_client::runtime_dir::ClusterDir;
use tieline::NodeId;

use super::judge;
use super::puts::ALL_SIZES;
use super::{BLOCK_BYTES, EndSaid, PutReading, Reading, SpeedJob, SpeedPair, SpeedReport, Turn, serve};
use crate::agent::{AgentError, Elsewhere, Job, LOOK, Lines, MOST_ORDER_BYTES, Said, Started, start_all};
use crate::target::Target;
use crate::verdict::Verdict;

/// How long an end may take to open, or to take a turn: each of its steps ends by limits of its own before
/// that.
const TURN_WITHIN: Duration = Duration::from_secs(10).saturating_add(ALL_SIZES);
/// A pair that is slow is measured so often once more, and all of them together for so long.
const TURNS_AGAIN: usize = 3;
const LONGEST_AGAIN: Duration = Duration::from_secs(20);
/// So many turns of a node may fail: then it is left alone.
const GIVE_UP_AFTER: u32 = 3;

/// Which pairs, what of them, and for how long.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Ordered pairs that are measured at most. Of more a sample, in which each node is about equally often.
    pub most_pairs: usize,
    /// No turn begins later than this.
    pub longest: Duration,
    /// Which pairs, and their order.
    pub seed: u64,
    /// Only pairs in which this node measures and puts.
    pub from: Option<NodeId>,
    /// Only pairs in which this node answers and has the memory.
    pub to: Option<NodeId>,
    /// Puts of these sizes are measured, too, in bytes: 1 to [`MOST_BLOCK_BYTES`](super::MOST_BLOCK_BYTES),
    /// at most [`MOST_SIZES`](super::MOST_SIZES).
    pub sizes_bytes: Vec<u64>,
}

/// The end of a node, as the tool has it.
struct Open {
    started: Started,
    segment: u32,
    interrupt: u32,
    /// Provider and card of its bare loops.
    bare: Option<(String, String)>,
    failed: u32,
}

/// Measures pairs of nodes on two hosts: those of this host are the target's. `tell` gets the progress.
pub fn run(
    target: &Target,
    dir: &ClusterDir,
    elsewhere: Vec<Elsewhere>,
    plan: &Plan,
    tell: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) -> SpeedReport {
    let mut hosts: BTreeMap<NodeId, String> =
        target.nodes.iter().map(|node| (*node, String::new())).collect();
    hosts.extend(elsewhere.iter().map(|one| (one.node, one.host.clone())));
    let longest_block_bytes = plan.sizes_bytes.iter().copied().max().unwrap_or_default();
    let job = SpeedJob { nodes: hosts.keys().copied().collect(), longest_block_bytes };
    std::thread::scope(|scope| {
        let mut started: Vec<(NodeId, Result<Started, AgentError>)> = Vec::new();
        for node in target.nodes.iter().copied() {
            started.push((node, here(scope, target, node, &job)));
        }
        for (one, agent) in start_all(dir, elsewhere, "tieline-verify") {
            let ordered = agent.and_then(|mut agent| agent.order(Job::Speed(job.clone())).map(|()| agent));
            started.push((one.node, ordered));
        }
        let (mut ends, mut absent) = (BTreeMap::new(), Vec::new());
        for (node, agent) in started {
            match agent.and_then(open) {
                Ok(end) => drop(ends.insert(node, end)),
                Err(error) => absent.push((node, error.to_string())),
            }
        }
        let mut all: Vec<[NodeId; 2]> = pairs(&hosts);
        all.retain(|[from, to]| {
            plan.from.is_none_or(|node| node == *from) && plan.to.is_none_or(|node| node == *to)
        });
        let mut report = SpeedReport {
            pairs: Vec::new(),
            pairs_in_all: all.len(),
            left_out: 0,
            providers: providers(&ends),
            block_bytes: BLOCK_BYTES as u64,
            absent,
            partial: false,
            suspects: Vec::new(),
            unsure: 0,
            verdict: Verdict::Inconclusive,
        };
        let there: Vec<[NodeId; 2]> =
            all.into_iter().filter(|pair| pair.iter().all(|node| ends.contains_key(node))).collect();
        let chosen = sample(there, plan);
        let (until, count) = (Instant::now() + plan.longest, chosen.len());
        for (number, pair) in (1..).zip(chosen) {
            if stop() || Instant::now() > until {
                break;
            }
            tell(&format!("hosts: pair {number} of {count}"));
            report.pairs.push(turn(&mut ends, pair, number, &plan.sizes_bytes));
        }
        let sure = again(&mut ends, &mut report.pairs, count as u64, tell, stop);
        report.partial = stop();
        report.left_out = report.pairs_in_all - report.pairs.len();
        report.pairs.sort_by_key(|pair| pair.pair);
        report.judge(&sure);
        report
    })
}

/// Measures pairs again that are slow beside the others: of a pair the best figures count. Those that were
/// slow each time.
fn again(
    ends: &mut BTreeMap<NodeId, Open>,
    pairs: &mut [SpeedPair],
    turns: u64,
    tell: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) -> Vec<[NodeId; 2]> {
    let until = Instant::now() + LONGEST_AGAIN;
    let mut number = turns;
    let mut sure: Vec<[NodeId; 2]> = judge::slow(pairs).into_iter().map(|(pair, _)| pair).collect();
    for pass in 1..=TURNS_AGAIN {
        let count = sure.len();
        for (nth, pair) in (1..).zip(std::mem::take(&mut sure)) {
            // Not measured so often is not sure.
            if stop() || Instant::now() > until {
                return Vec::new();
            }
            tell(&format!("hosts: slow pair {nth} of {count} once more ({pass} of {TURNS_AGAIN})"));
            number += 1;
            let measured = turn(ends, pair, number, &[]).reading;
            let known = pairs.iter_mut().find(|known| known.pair == pair);
            if let Some((known, measured)) = known.and_then(|known| known.reading.as_mut()).zip(measured) {
                *known = judge::best(known, &measured);
                sure.push(pair);
            }
        }
        let slow = judge::slow(pairs);
        sure.retain(|pair| slow.iter().any(|(other, _)| other == pair));
    }
    sure
}

fn providers(ends: &BTreeMap<NodeId, Open>) -> Vec<String> {
    let mut all: Vec<String> =
        ends.values().filter_map(|end| end.bare.as_ref()).map(|(provider, _)| provider.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A thread of this program that takes part for a node of this host.
fn here<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    target: &Target,
    node: NodeId,
    job: &SpeedJob,
) -> Result<Started, AgentError> {
    let not_started = |error: std::io::Error| AgentError::Ended { how: error.to_string() };
    let (near, far) = UnixStream::pair().map_err(not_started)?;
    far.set_read_timeout(Some(LOOK)).map_err(not_started)?;
    let (target, job) = (target.clone(), job.clone());
    let out = Mutex::new(far.try_clone().map_err(not_started)?);
    let work = move || {
        let say = |said: EndSaid| {
            let Ok(mut line) = serde_json::to_vec(&Said::Speed(said)) else { return false };
            line.push(b'\n');
            out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line).is_ok()
        };
        serve(&target, node, &job, &mut Lines::new(far, MOST_ORDER_BYTES), &say);
    };
    std::thread::Builder::new().name(format!("end-{node}")).spawn_scoped(scope, work).map_err(not_started)?;
    Started::here(near)
}

fn open(mut started: Started) -> Result<Open, AgentError> {
    match said(&mut started)? {
        EndSaid::Open { segment, interrupt, bare } => {
            Ok(Open { started, segment, interrupt, bare, failed: 0 })
        }
        EndSaid::Failed { why } => Err(AgentError::Refused { why }),
        _ => Err(AgentError::Malformed { what: "its first word is none".into() }),
    }
}

fn said(started: &mut Started) -> Result<EndSaid, AgentError> {
    let since = Instant::now();
    while since.elapsed() < TURN_WITHIN {
        if let Some(Said::Speed(said)) = started.said()? {
            return Ok(said);
        }
    }
    Err(AgentError::Silent { limit_s: TURN_WITHIN.as_secs() })
}

/// All ordered pairs of nodes on two hosts.
fn pairs(hosts: &BTreeMap<NodeId, String>) -> Vec<[NodeId; 2]> {
    let from = hosts.iter();
    from.flat_map(|(a, near)| hosts.iter().filter(move |(_, far)| *far != near).map(|(b, _)| [*a, *b]))
        .collect()
}

/// At most so many, in an order by lot: taken round by round, so that each node is about equally often in
/// them.
fn sample(mut pairs: Vec<[NodeId; 2]>, plan: &Plan) -> Vec<[NodeId; 2]> {
    let mut rng = Rng::new(plan.seed);
    for last in (1..pairs.len()).rev() {
        pairs.swap(last, rng.below(last + 1));
    }
    let mut chosen: Vec<[NodeId; 2]> = Vec::new();
    while chosen.len() < plan.most_pairs && !pairs.is_empty() {
        let mut busy: Vec<NodeId> = Vec::new();
        // No node is twice in a round.
        let (round, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|pair| {
            let is_free = pair.iter().all(|node| !busy.contains(node));
            if is_free {
                busy.extend(pair);
            }
            is_free
        });
        chosen.extend(round);
        pairs = rest;
    }
    chosen.truncate(plan.most_pairs);
    chosen
}

/// One end answers, the other measures.
fn turn(ends: &mut BTreeMap<NodeId, Open>, pair: [NodeId; 2], number: u64, sizes_bytes: &[u64]) -> SpeedPair {
    let is_left_alone = |node: &&NodeId| ends.get(node).is_none_or(|end| end.failed >= GIVE_UP_AFTER);
    if let Some(node) = pair.iter().find(is_left_alone) {
        let why = format!("node {node} has failed {GIVE_UP_AFTER} times");
        return SpeedPair { pair, reading: None, puts: Vec::new(), error: Some(why) };
    }
    let is_bare = cards(ends, pair).is_some();
    let outcome = take_turn(ends, pair, number, sizes_bytes);
    let has_baseline = outcome.as_ref().is_ok_and(|(reading, _)| reading.provider.is_some());
    for node in pair {
        if let Some(end) = ends.get_mut(&node) {
            // Which of the two is to blame shows in other turns.
            end.failed += u32::from(outcome.is_err());
            // After a loop that failed the two have counted differently.
            end.bare = end.bare.take().filter(|_| has_baseline || !is_bare);
        }
    }
    match outcome {
        Ok((reading, puts)) => SpeedPair { pair, reading: Some(reading), puts, error: None },
        Err(error) => SpeedPair { pair, reading: None, puts: Vec::new(), error: Some(error) },
    }
}

/// The cards of two ends that understand each other: those of one provider.
fn cards(ends: &BTreeMap<NodeId, Open>, [from, to]: [NodeId; 2]) -> Option<[String; 2]> {
    let of = |node: NodeId| ends.get(&node)?.bare.as_ref();
    let (near, far) = of(from).zip(of(to)).filter(|(near, far)| near.0 == far.0)?;
    Some([near.1.clone(), far.1.clone()])
}

fn take_turn(
    ends: &mut BTreeMap<NodeId, Open>,
    [from, to]: [NodeId; 2],
    number: u64,
    sizes_bytes: &[u64],
) -> Result<(Reading, Vec<PutReading>), String> {
    let cards = cards(ends, [from, to]);
    let gone = || AgentError::Ended { how: "it is gone".into() };
    let mut ask = |node: NodeId, peer: NodeId, measures: bool| -> Result<EndSaid, AgentError> {
        let (segment, interrupt) =
            ends.get(&peer).map(|end| (end.segment, end.interrupt)).ok_or_else(gone)?;
        let card = cards.clone().map(|[near, far]| if peer == from { near } else { far });
        let sizes_bytes = if measures { sizes_bytes.to_vec() } else { Vec::new() };
        let turn = Turn { number, measures, peer, segment, interrupt, bare: card, sizes_bytes };
        let end = ends.get_mut(&node).ok_or_else(gone)?;
        end.started.send(&turn)?;
        said(&mut end.started)
    };
    let wrong = |node: NodeId, said: Result<EndSaid, AgentError>| match said {
        Ok(EndSaid::Failed { why }) => format!("node {node}: {why}"),
        Ok(_) => format!("node {node}: it sent an unexpected reply"),
        Err(error) => format!("node {node}: {error}"),
    };
    match ask(to, from, false) {
        Ok(EndSaid::Answers) => {}
        other => return Err(wrong(to, other)),
    }
    let mut measured = ask(from, to, true);
    let mut puts = Vec::new();
    if let Ok(EndSaid::Puts(by_size)) = measured {
        puts = by_size;
        measured = ends.get_mut(&from).map_or_else(|| Err(gone()), |end| said(&mut end.started));
    }
    // It ends by itself, at the latest when it hears nothing.
    let answered = ends.get_mut(&to).map(|end| said(&mut end.started));
    match (measured, answered) {
        (Ok(EndSaid::Measured(reading)), Some(Ok(EndSaid::Answered))) => Ok((reading, puts)),
        (Ok(EndSaid::Measured(_)), Some(other)) => Err(wrong(to, other)),
        (other, _) => Err(wrong(from, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn plan(most_pairs: usize) -> Plan {
        Plan { most_pairs, seed: 7, ..Plan::default() }
    }

    #[test]
    fn pairs_are_those_of_two_hosts_and_a_sample_has_all_nodes_about_equally_often() {
        let host = |number: u32| (id(number), if number < 12 { "alpha" } else { "beta" }.to_owned());
        let of_two = pairs(&[4, 8, 12].map(host).into());
        let all = [[4, 12], [8, 12], [12, 4], [12, 8]].map(|pair| pair.map(id));
        assert_eq!(of_two, all);
        let hosts: BTreeMap<NodeId, String> =
            (0..64).map(|at| (NodeId::nth(at).unwrap(), at.to_string())).collect();
        let all = pairs(&hosts);
        assert_eq!(all.len(), 64 * 63);
        assert_eq!(sample(all.clone(), &plan(usize::MAX)).len(), all.len());
        let some = sample(all, &plan(320));
        assert_eq!(some.len(), 320);
        for node in hosts.keys() {
            let count = some.iter().filter(|pair| pair.contains(node)).count();
            assert!((5..=15).contains(&count), "node {node} is in {count} of 320 pairs");
        }
    }

    /// An end that takes its turns at once, or is gone after its first word.
    fn pretended(node: NodeId, is_gone: bool) -> Open {
        let (near, far) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut out = far.try_clone().unwrap();
            let mut say = |said: EndSaid| {
                let line = serde_json::to_string(&Said::Speed(said)).unwrap() + "\n";
                drop(out.write_all(line.as_bytes()));
            };
            let bare = Some(("tcp".to_owned(), format!("card of {node}")));
            say(EndSaid::Open { segment: node.get(), interrupt: 1, bare });
            let mut lines = std::io::BufRead::lines(std::io::BufReader::new(far));
            while let Some(Ok(line)) = lines.next().filter(|_| !is_gone) {
                let turn: Turn = serde_json::from_str(&line).unwrap();
                assert_eq!(turn.segment, turn.peer.get(), "the segment of the other end");
                assert!(turn.bare.is_none_or(|card| card == format!("card of {}", turn.peer)));
                if turn.measures {
                    let (half_rtt_ns, least_half_rtt_ns) = (2.0, 1.0);
                    let (round_trips, bandwidth_bytes_per_s) = (3, 4.0);
                    say(EndSaid::Measured(Reading {
                        half_rtt_ns,
                        least_half_rtt_ns,
                        round_trips,
                        bandwidth_bytes_per_s,
                        provider: None,
                    }));
                } else {
                    say(EndSaid::Answers);
                    say(EndSaid::Answered);
                }
            }
        });
        open(Started::here(near).unwrap()).unwrap()
    }

    #[test]
    fn an_end_that_is_gone_is_named_and_the_others_go_on() {
        let end = |number: u32| (id(number), pretended(id(number), number == 12));
        let mut ends: BTreeMap<NodeId, Open> = [4, 8, 12].map(end).into();
        let mut measured = |a, b, number| turn(&mut ends, [id(a), id(b)], number, &[]);
        assert_eq!(measured(4, 8, 1).reading.unwrap().round_trips, 3);
        for (a, b) in [(4, 12), (12, 8), (8, 12)] {
            let pair = measured(a, b, 2);
            assert!(pair.reading.is_none() && pair.error.unwrap().starts_with("node 12: "));
        }
        let again = measured(12, 4, 3).error.unwrap();
        assert_eq!(again, "node 12 has failed 3 times");
        assert!(measured(8, 4, 4).reading.is_some());
    }
}
