//! A checked exchange between every ordered pair of nodes.
//!
//! For each pair (A, B) a program of B puts pseudo-random blocks of several sizes into a segment of A, in a
//! different place each, and raises an interrupt of A; the program of A then compares every byte, with the
//! rest of the segment, and the same blocks are read back through the link. A wrong byte names pair, size,
//! offset and both values.

use std::time::{Duration, Instant};

use bench::noise::others::{Load, Meter};
use serde::{Deserialize, Serialize};
use tieline::{InterruptOptions, Node, NodeId, Segment, SegmentOptions};

use crate::Target;
use crate::late::Trouble;
use crate::verdict::Verdict;

/// Sizes around the thresholds of all copy kernels.
const SIZES: [usize; 8] = [1, 8, 63, 64, 255, 4096, 65_536, 300_001];
/// What lies between two blocks and must stay as it was.
const GAP: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(10);

/// One ordered pair.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairReport {
    /// The writer.
    pub from: NodeId,
    /// Whose memory was written.
    pub to: NodeId,
    /// Bytes that were compared.
    pub bytes: u64,
    /// From connecting to the last comparison, in nanoseconds.
    pub duration_ns: u64,
    /// What was wrong, if anything.
    pub error: Option<String>,
    /// That was only that something came too late, while the machine was busy with other work: no link or
    /// node is blamed for it.
    #[serde(default)]
    pub in_doubt: bool,
}

/// All pairs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExchangeReport {
    /// By writer, then by owner.
    pub pairs: Vec<PairReport>,
    /// All pairs right; in doubt if something was only late while the machine was busy.
    pub verdict: Verdict,
    /// What other work took away meanwhile.
    #[serde(default)]
    pub load: Load,
}

impl ExchangeReport {
    /// Where nothing was exchanged.
    pub fn of_nothing() -> Self {
        Self { pairs: Vec::new(), verdict: Verdict::Inconclusive, load: Load::default() }
    }

    /// Pairs that failed.
    pub fn failures(&self) -> impl Iterator<Item = &PairReport> {
        self.pairs.iter().filter(|pair| pair.error.is_some() && !pair.in_doubt)
    }

    /// Pairs that were only late.
    pub fn late(&self) -> impl Iterator<Item = &PairReport> {
        self.pairs.iter().filter(|pair| pair.in_doubt)
    }

    /// In one line.
    pub fn summary(&self) -> String {
        let bytes: u64 = self.pairs.iter().map(|pair| pair.bytes).sum();
        let mut text = format!(
            "{} pairs, {:.1} MB compared, {} failed",
            self.pairs.len(),
            bytes as f64 / 1e6,
            self.failures().count()
        );
        if let Some(late) = self.late().next() {
            let error = late.error.as_deref().unwrap_or_default();
            let number = self.late().count();
            text.push_str(&format!(", {number} late (from node {} to node {}: {error})", late.from, late.to));
        }
        text
    }

    /// Judges what was seen beside so much other work.
    fn judge(&mut self, load: Load) {
        self.load = load;
        self.pairs.iter_mut().for_each(|pair| pair.in_doubt &= load.is_busy());
        self.verdict = match (self.pairs.is_empty(), self.failures().count(), self.late().count()) {
            // Of nothing nothing is known.
            (true, ..) | (false, 0, 1..) => Verdict::Inconclusive,
            (false, 0, 0) => Verdict::Pass,
            _ => Verdict::Fail,
        };
    }

    /// Links that failed, each with what was seen; without the pairs of which another test has said why.
    pub fn bad_links(&self, is_known: impl Fn(NodeId, NodeId) -> bool) -> Vec<([NodeId; 2], String)> {
        self.failures()
            .filter(|pair| !is_known(pair.from, pair.to))
            .map(|pair| {
                let error = pair.error.as_deref().unwrap_or_default();
                let ends = [pair.from.min(pair.to), pair.from.max(pair.to)];
                (ends, format!("from node {} to node {}, {error}", pair.from, pair.to))
            })
            .collect()
    }
}

/// Runs the exchange between all nodes of `target`; `progress` is told after each pair how many of
/// how many are done, and may ask for an early end.
///
/// `obstacle` returns what keeps an ordered pair (writer, owner) from being tested, if anything.
pub fn run(
    target: &Target,
    seed: u64,
    obstacle: impl Fn(NodeId, NodeId) -> Option<String>,
    mut progress: impl FnMut(usize, usize) -> bool,
) -> ExchangeReport {
    let attached: Vec<(NodeId, Result<Node, String>)> = target.on_each_node(|node| {
        (node, target.attach(node, "tieline-verify").map_err(|error| error.to_string()))
    });
    let meter = Meter::start();
    let total = attached.len() * attached.len().saturating_sub(1);
    let mut pairs = Vec::with_capacity(total);
    'all: for (to, owner) in &attached {
        for (from, writer) in attached.iter().filter(|(from, _)| from != to) {
            let start = Instant::now();
            let pair_seed = seed ^ (u64::from(from.get()) << 32 | u64::from(to.get()));
            let outcome = match (owner, writer) {
                (Ok(_), Ok(_)) if let Some(why) = obstacle(*from, *to) => Err(why.into()),
                (Ok(owner), Ok(writer)) => pair(owner, writer, *to, pair_seed),
                (Err(error), _) => Err(format!("node {to}: {error}").into()),
                (_, Err(error)) => Err(format!("node {from}: {error}").into()),
            };
            let bytes = *outcome.as_ref().unwrap_or(&0);
            // Whether the machine was busy is known when all is done.
            let (error, in_doubt) = outcome.err().map(|trouble| (trouble.text, trouble.late)).unzip();
            pairs.push(PairReport {
                from: *from,
                to: *to,
                bytes,
                duration_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
                error,
                in_doubt: in_doubt.unwrap_or(false),
            });
            if progress(pairs.len(), total) {
                break 'all;
            }
        }
    }
    let mut report = ExchangeReport { pairs, ..ExchangeReport::of_nothing() };
    report.judge(meter.read());
    report
}

/// Where each block goes: after a gap, one after the other.
fn plan() -> (Vec<(usize, usize)>, usize) {
    let mut blocks = Vec::with_capacity(SIZES.len());
    let mut at = GAP;
    for size in SIZES {
        blocks.push((at, size));
        at += size + GAP;
    }
    (blocks, at)
}

fn pair(owner: &Node, writer: &Node, to: NodeId, seed: u64) -> Result<u64, Trouble> {
    let (blocks, size) = plan();
    let segment = owner.create_segment_with(&SegmentOptions::new(size))?;
    segment.make_available()?;
    let interrupt = owner.create_interrupt(&InterruptOptions::default())?;
    let id = segment.id().ok_or("a plain segment without an id")?;
    let remote = writer.connect_segment(to, id, TIMEOUT)?;
    let bell = writer.connect_interrupt(to, interrupt.number(), TIMEOUT)?;

    let mut expected = vec![0; size];
    let mut random = Random(seed | 1);
    for (offset, len) in blocks.iter().copied() {
        let block = expected.get_mut(offset..offset + len).ok_or("plan out of range")?;
        random.fill(block);
        remote.put(offset, block)?;
    }
    remote.barrier()?;
    bell.trigger()?;
    let rung =
        interrupt.wait(Some(TIMEOUT)).map_err(|error| Trouble::of("the interrupt did not arrive", error));
    // What was changed or lost says more than a doorbell that may only be late.
    compare("in the owner's memory", &local(&segment)?, &expected)?;
    let mut back = vec![0; size];
    remote.get(0, &mut back)?;
    compare("read back through the link", &back, &expected)?;
    rung?;
    Ok(2 * size as u64)
}

fn local(segment: &Segment) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; segment.size_bytes()];
    segment.window().get(0, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn compare(place: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    // The usual case, many times faster than looking for the first difference.
    if found == expected {
        return Ok(());
    }
    let mut differing =
        found.iter().zip(expected).enumerate().filter(|(_, (found, expected))| found != expected);
    let Some((offset, (found, expected))) = differing.next() else { return Ok(()) };
    Err(format!(
        "wrong data {place}: byte {offset} is {found:#04x}, should be {expected:#04x}; {} bytes differ",
        differing.count() + 1
    ))
}

/// xorshift64 (Marsaglia, Journal of Statistical Software 8:14, 2003): repeatable filling, not chance.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.iter_mut().zip(self.0.to_le_bytes()).for_each(|(byte, random)| *byte = random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_touch_each_other_or_the_ends() {
        let (blocks, size) = plan();
        let mut end = 0;
        for (offset, len) in blocks {
            assert_eq!(offset, end + GAP);
            end = offset + len;
        }
        assert_eq!(size, end + GAP);
    }

    #[test]
    fn one_wrong_byte_is_found_and_named() {
        let mut found = vec![0u8; 1000];
        compare("here", &found, &vec![0; 1000]).unwrap();
        found[777] = 3;
        let error = compare("here", &found, &vec![0; 1000]).unwrap_err();
        assert!(error.contains("byte 777 is 0x03, should be 0x00; 1 bytes differ"), "{error}");
    }

    #[test]
    fn who_is_late_beside_other_work_is_in_doubt_and_wrong_data_never_is() {
        let [from, to] = [4, 8].map(|id| NodeId::new(id).unwrap());
        let pair = |error: Option<&str>, in_doubt| PairReport {
            from,
            to,
            bytes: 0,
            duration_ns: 0,
            error: error.map(str::to_owned),
            in_doubt,
        };
        let of = |pairs: &[PairReport], percent| {
            let mut report = ExchangeReport { pairs: pairs.to_vec(), ..ExchangeReport::of_nothing() };
            report.judge(Load { processors: 2, others_percent: Some(percent), waited_percent: None });
            (report.verdict, report.bad_links(|_, _| false).len(), report.summary())
        };
        let late = [pair(None, false), pair(Some("the interrupt did not arrive"), true)];
        let (verdict, blamed, said) = of(&late, 80.0);
        assert_eq!((verdict, blamed), (Verdict::Inconclusive, 0));
        assert!(said.contains("1 late (from node 4 to node 8: the interrupt"), "{said}");
        assert_eq!((of(&late, 1.0).0, of(&late, 1.0).1), (Verdict::Fail, 1));
        let wrong = [late[1].clone(), pair(Some("byte 7 is 0x00"), false)];
        assert_eq!((of(&wrong, 80.0).0, of(&wrong, 80.0).1), (Verdict::Fail, 1));
        assert_eq!((of(&late[..1], 80.0).0, of(&[], 1.0).0), (Verdict::Pass, Verdict::Inconclusive));
    }

    #[test]
    fn the_filling_is_repeatable_and_depends_on_the_seed() {
        let filled = |seed: u64| {
            let mut bytes = [0; 64];
            Random(seed | 1).fill(&mut bytes);
            bytes
        };
        assert_eq!(filled(4), filled(4));
        assert_ne!(filled(4), filled(8));
    }
}
