//! Which pairs of nodes on two hosts are slow beside the others.
//!
//! Links between the hosts of a cluster should be alike. What a pair is compared with is the middle of the
//! faster half of the pairs. What is beyond the limits is measured again when all have had their turn. What a
//! pair has shown at best counts, through the link or by libfabric alone: what has disturbed one turn shows
//! nothing. The limits are far away from what is usual, because other work on the other hosts is not known,
//! and wider where the pairs scatter.

use bench::stats::median;
use tieline::NodeId;

use super::{Baseline, Reading, SpeedPair};
use crate::suspect::{self, Suspected};

/// A block may take so many times as long as in the faster half of the pairs: a link that runs at a tenth of
/// its speed takes ten times as long.
const MOST_OF_BLOCK: f64 = 4.0;
/// The same of the fastest half round trips.
const MOST_OF_HALF_RTT: f64 = 6.0;
/// Where pairs scatter more, they may lie so many standard deviations away.
const SCATTERS: f64 = 5.0;
/// From the typical distance to the standard deviation, where deviations are normal.
const NORMAL: f64 = 1.4826;
/// Fewer have no typical one: those of three hosts.
const LEAST_PAIRS: usize = 6;

/// A figure, the greater the worse.
type Figure = fn(&Reading) -> f64;

fn block_time(reading: &Reading) -> f64 {
    let alone = reading.provider.map_or(0.0, |alone| alone.bandwidth_bytes_per_s);
    1.0 / reading.bandwidth_bytes_per_s.max(alone)
}

fn half_rtt(reading: &Reading) -> f64 {
    let alone = reading.provider.map_or(f64::INFINITY, |alone| alone.half_rtt_ns);
    reading.least_half_rtt_ns.min(alone)
}

/// What a figure is in the faster half of the pairs, and may be at most.
fn limit(pairs: &[SpeedPair], figure: Figure, ratio: f64) -> Option<(f64, f64)> {
    let all: Vec<f64> = pairs.iter().filter_map(|pair| Some(figure(pair.reading.as_ref()?))).collect();
    let all: Vec<f64> = all.into_iter().filter(|time| time.is_finite() && *time > 0.0).collect();
    if all.len() < LEAST_PAIRS {
        return None;
    }
    // Of three hosts one slow host is in four of six pairs: the middle of all would be one of these.
    let mut faster = all;
    faster.sort_unstable_by(f64::total_cmp);
    faster.truncate(faster.len() / 2);
    let typical = median(&faster)?;
    let distances: Vec<f64> = faster.iter().map(|time| (1.0 - time / typical).abs()).collect();
    let scatter = median(&distances).unwrap_or_default() * NORMAL;
    Some((typical, typical * ratio.max(1.0 + SCATTERS * scatter)))
}

/// Whether there are enough to compare them.
pub(super) fn is_possible(pairs: &[SpeedPair]) -> bool {
    pairs.iter().filter(|pair| pair.reading.is_some()).count() >= LEAST_PAIRS
}

/// The slow ones, and what shows it.
pub(super) fn slow(pairs: &[SpeedPair]) -> Vec<([NodeId; 2], String)> {
    let block = limit(pairs, block_time, MOST_OF_BLOCK);
    let latency = limit(pairs, half_rtt, MOST_OF_HALF_RTT);
    let of = |pair: &SpeedPair| {
        let reading = pair.reading.as_ref()?;
        let beyond = |limit: Option<(f64, f64)>, time: f64| {
            limit.filter(|(_, most)| time.is_nan() || time > *most).map(|(typical, _)| typical)
        };
        let mut said = Vec::new();
        if let Some(typical) = beyond(block, block_time(reading)) {
            let [own, typical] = [block_time(reading), typical].map(|time| 1e-6 / time);
            said.push(format!("{own:.0} MB/s, where the faster half of the pairs has {typical:.0}"));
        }
        if let Some(typical) = beyond(latency, half_rtt(reading)) {
            let [own, typical] = [half_rtt(reading), typical].map(|ns| ns / 1e3);
            said.push(format!(
                "{own:.1} µs half round trip at best, where the faster half of the pairs has {typical:.1}"
            ));
        }
        let [from, to] = pair.pair;
        (!said.is_empty()).then(|| (pair.pair, format!("from node {from} to node {to} {}", said.join(", "))))
    };
    pairs.iter().filter_map(of).collect()
}

/// Of two turns of a pair, the best of each figure.
pub(super) fn best(one: &Reading, other: &Reading) -> Reading {
    Reading {
        half_rtt_ns: one.half_rtt_ns.min(other.half_rtt_ns),
        least_half_rtt_ns: one.least_half_rtt_ns.min(other.least_half_rtt_ns),
        round_trips: one.round_trips + other.round_trips,
        bandwidth_bytes_per_s: one.bandwidth_bytes_per_s.max(other.bandwidth_bytes_per_s),
        provider: match (one.provider, other.provider) {
            (Some(one), Some(other)) => Some(Baseline {
                half_rtt_ns: one.half_rtt_ns.min(other.half_rtt_ns),
                bandwidth_bytes_per_s: one.bandwidth_bytes_per_s.max(other.bandwidth_bytes_per_s),
            }),
            (one, other) => one.or(other),
        },
    }
}

/// The nodes or links behind them.
pub(super) fn suspects(nodes: &[NodeId], slow: &[([NodeId; 2], String)]) -> Vec<Suspected> {
    let of_link = |([from, to], said): &([NodeId; 2], String)| ([*from.min(to), *from.max(to)], said.clone());
    suspect::name(nodes, &slow.iter().map(of_link).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspect::Suspect;

    fn id(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    /// Of four hosts, by half round trip in µs and MB/s.
    fn pairs(of: impl Fn(u32, u32) -> (f64, f64)) -> Vec<SpeedPair> {
        let ids = [4, 8, 12, 16];
        let all = ids.iter().flat_map(|from| ids.iter().map(move |to| (*from, *to)));
        let pair = |(from, to)| {
            let (half_us, mb_s) = of(from, to);
            let reading = Reading {
                half_rtt_ns: half_us * 1.2e3,
                least_half_rtt_ns: half_us * 1e3,
                round_trips: 20,
                bandwidth_bytes_per_s: mb_s * 1e6,
                provider: None,
            };
            SpeedPair { pair: [id(from), id(to)], reading: Some(reading), puts: Vec::new(), error: None }
        };
        all.filter(|(from, to)| from != to).map(pair).collect()
    }

    /// As different as processes on one machine are.
    fn uneven(from: u32, to: u32) -> (f64, f64) {
        let step = f64::from((from * 3 + to) % 7);
        (20.0 + 2.0 * step, 1000.0 - 50.0 * step)
    }

    #[test]
    fn pairs_that_are_alike_are_not_slow() {
        assert!(is_possible(&pairs(uneven)));
        assert_eq!(slow(&pairs(uneven)), []);
        // Three times as slow is not yet a fault.
        assert_eq!(
            slow(&pairs(|from, to| if (from, to) == (4, 8) { (75.0, 300.0) } else { uneven(from, to) })),
            []
        );
    }

    #[test]
    fn one_slow_link_is_named_and_one_slow_host_too() {
        let of_link = pairs(|from, to| if (from, to) == (4, 8) { (21.0, 110.0) } else { uneven(from, to) });
        let found = slow(&of_link);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].1.starts_with("from node 4 to node 8 110 MB/s, where the faster half of the pairs has "),
            "{found:?}"
        );
        let nodes = [4, 8, 12, 16].map(id);
        assert_eq!(suspects(&nodes, &found)[0].suspect, Suspect::Link([id(4), id(8)]));
        let of_host =
            pairs(|from, to| if from == 16 || to == 16 { (300.0, 900.0) } else { uneven(from, to) });
        let found = slow(&of_host);
        assert!(found.len() == 6 && found[0].1.contains("300.0 µs half round trip at best"), "{found:?}");
        assert_eq!(suspects(&nodes, &found)[0].suspect, Suspect::Node(id(16)));
    }

    #[test]
    fn two_hosts_are_not_compared_and_the_best_of_several_turns_counts() {
        let two: Vec<_> = pairs(|from, _| (f64::from(from * from), 10.0)).into_iter().take(2).collect();
        assert!(!is_possible(&two) && slow(&two).is_empty());
        let all = pairs(|from, to| if from < 8 { (500.0, 900.0) } else { uneven(from, to) });
        let (bad, good) = (all[0].reading.unwrap(), all[4].reading.unwrap());
        let best = best(&bad, &good);
        assert_eq!(best.least_half_rtt_ns, good.least_half_rtt_ns);
        assert_eq!(best.bandwidth_bytes_per_s, bad.bandwidth_bytes_per_s.max(good.bandwidth_bytes_per_s));
        assert_eq!(best.round_trips, 40);
    }
}
