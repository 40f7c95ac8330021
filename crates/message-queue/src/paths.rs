//! Which way long messages of a peer come fastest: copied out of its memory by this process, or through the
//! ring in parts, which the peer writes while this process reads.
//!
//! Which of the two it is depends on the processors, on what the kernel takes for each page, on the size, and
//! on whether the peer has time to write. So both are tried, what they cost is kept for each class of sizes,
//! and the one that costs less is taken; the other is tried again now and then, because all of that changes.

/// Classes of sizes: up to 16 KiB, up to 32 KiB, … above 4 MiB.
const CLASSES: usize = 10;
/// `log2` of the longest message of the first class, and 1.
const FIRST_CLASS: u32 = 14;
/// Times that each way is tried before the faster one is preferred. Of the first time pages and caches are
/// cold.
const TRIALS: u32 = 3;
/// The slower way is tried again with so many messages in a row: a sender that had nothing to do may be
/// asleep when the first is asked for …
const AGAIN: u32 = 8;
/// … of so many …
const AGAIN_EVERY: u32 = 64 * AGAIN;
/// … or of so many, if it is slower by this factor.
const SELDOM_EVERY: u32 = 1024 * AGAIN;
const MUCH_SLOWER: u64 = 3;
/// Where to know the cost costs something, one message of so many tells it.
const SAMPLE_EVERY: u32 = 32;
/// A mean below this counts as this where it bounds a sample: else one of 0 would stay.
const LEAST_MEAN: u64 = 16;
/// A time counts as at most so many times the mean: an interruption says nothing of the way.
const OUTLIER: u64 = 4;

/// How the bytes of a message come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Copied out of the sender's memory.
    Read,
    /// Through the ring.
    Ring,
}

impl Path {
    const fn other(self) -> Self {
        match self {
            Self::Read => Self::Ring,
            Self::Ring => Self::Read,
        }
    }
}

/// What one way has cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Ticks for each KiB, times 16: a moving mean.
    mean: u64,
    times: u32,
}

impl Cost {
    fn note(&mut self, ticks: u64, len: usize) {
        let sample = ticks.saturating_mul(16 << 10) / (len as u64).max(1);
        self.mean = match self.times {
            // What came first is forgotten.
            0 | 1 => sample,
            _ => {
                let most = self.mean.max(LEAST_MEAN).saturating_mul(OUTLIER);
                (self.mean / 4 * 3).saturating_add(self.mean % 4 * 3 / 4).saturating_add(sample.min(most) / 4)
            }
        };
        self.times = self.times.saturating_add(1);
    }
}

/// Of the messages of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    read: Cost,
    ring: Cost,
    messages: u32,
}

/// Of one peer.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    classes: [Class; CLASSES],
}

fn class_of(len: usize) -> usize {
    // The length less 1, so that a power of two is the longest of its class.
    let log2 = (len.max(2) - 1).ilog2();
    (log2.saturating_sub(FIRST_CLASS - 1) as usize).min(CLASSES - 1)
}

impl Paths {
    /// The way that the next message of this length is to come.
    pub(crate) fn choose(&mut self, len: usize) -> Path {
        let Class { read, ring, messages } = &mut self.classes[class_of(len)];
        *messages = messages.wrapping_add(1);
        if ring.times < TRIALS && ring.times <= read.times {
            return Path::Ring;
        }
        if read.times < TRIALS {
            return Path::Read;
        }
        let (better, costs) = if read.mean <= ring.mean {
            (Path::Read, [read.mean, ring.mean])
        } else {
            (Path::Ring, [ring.mean, read.mean])
        };
        let every = if costs[1] / MUCH_SLOWER > costs[0] { SELDOM_EVERY } else { AGAIN_EVERY };
        if *messages % every < AGAIN { better.other() } else { better }
    }

    /// Whether it is to be found out what the next message of this length costs on this way: of most it need
    /// not be known.
    pub(crate) fn wants_sample(&self, len: usize, path: Path) -> bool {
        let Class { read, ring, messages } = &self.classes[class_of(len)];
        let times = if path == Path::Read { read.times } else { ring.times };
        times < TRIALS || messages % AGAIN_EVERY < AGAIN || messages.is_multiple_of(SAMPLE_EVERY)
    }

    /// A message has come on this way, and took so many ticks.
    pub(crate) fn note(&mut self, path: Path, len: usize, ticks: u64) {
        let class = &mut self.classes[class_of(len)];
        match path {
            Path::Read => class.read.note(ticks, len),
            Path::Ring => class.ring.note(ticks, len),
        }
    }

    /// So many bytes have come through the ring in so many ticks, the last of a message of this length.
    pub(crate) fn note_bytes(&mut self, len: usize, bytes: usize, ticks: u64) {
        self.classes[class_of(len)].ring.note(ticks, bytes);
    }

    /// About how many ticks it takes to copy so many bytes out of the peer's memory, if that is known.
    pub(crate) fn ticks_to_read(&self, len: usize) -> Option<u64> {
        let Cost { mean, times } = self.classes[class_of(len)].read;
        (times > 0).then(|| mean.saturating_mul(len as u64) / (16 << 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each way was taken of `count` messages, if a KiB costs so much: `[read, ring]`.
    fn taken(paths: &mut Paths, len: usize, count: usize, read: u64, ring: u64) -> [usize; 2] {
        let mut taken = [0; 2];
        for _ in 0..count {
            let path = paths.choose(len);
            let cost = if path == Path::Read { read } else { ring };
            taken[usize::from(path == Path::Ring)] += 1;
            paths.note(path, len, cost * len as u64 / 1024);
        }
        taken
    }

    #[test]
    fn the_cost_is_asked_for_at_first_and_then_of_few() {
        let (mut paths, len) = (Paths::default(), 12 << 10);
        let mut asked = 0;
        for _ in 0..400 {
            let path = paths.choose(len);
            if paths.wants_sample(len, path) {
                asked += 1;
                paths.note(path, len, if path == Path::Ring { 100 } else { 900 });
            }
        }
        assert!((6..40).contains(&asked), "{asked}");
    }

    #[test]
    fn the_way_that_costs_less_is_taken_and_the_other_tried_now_and_then() {
        let mut paths = Paths::default();
        let [read, ring] = taken(&mut paths, 1 << 20, 1000, 100, 150);
        assert!(read > 950 && (10..50).contains(&ring), "{read} {ring}");
        assert_eq!(paths.ticks_to_read(1 << 20), Some(100 << 10));
        // Another size has costs of its own.
        let [read, ring] = taken(&mut paths, 16 << 10, 1000, 150, 100);
        assert!(ring > 950 && read >= 10, "{read} {ring}");
        assert_eq!(paths.ticks_to_read(64 << 20), None);
    }

    #[test]
    fn what_changes_is_noticed() {
        let mut paths = Paths::default();
        taken(&mut paths, 1 << 16, 1000, 100, 150);
        let [read, ring] = taken(&mut paths, 1 << 16, 2000, 300, 150);
        assert!(ring > 1800, "{read} {ring}");
        // Much slower: it is hardly tried any more.
        let [_, ring] = taken(&mut paths, 1 << 16, 10_000, 10, 1500);
        assert!(ring < 60, "{ring}");
    }

    #[test]
    fn the_other_way_is_tried_with_several_messages_in_a_row() {
        let mut paths = Paths::default();
        taken(&mut paths, 1 << 16, 100, 100, 150);
        let ways: Vec<_> = (0..AGAIN_EVERY)
            .map(|_| {
                let path = paths.choose(1 << 16);
                paths.note(path, 1 << 16, if path == Path::Read { 6400 } else { 9600 });
                path
            })
            .collect();
        let runs: Vec<_> = ways.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
        assert!(matches!(runs[..], [(Path::Read, _), (Path::Ring, 8), (Path::Read, _)]), "{runs:?}");
    }

    #[test]
    fn one_interruption_changes_nothing() {
        let mut paths = Paths::default();
        taken(&mut paths, 1 << 16, 100, 100, 500);
        paths.note(Path::Read, 1 << 16, 1 << 40);
        let [read, ring] = taken(&mut paths, 1 << 16, 100, 100, 500);
        assert!(read > 90 && ring < 5, "{read} {ring}");
    }

    #[test]
    fn a_mean_of_nothing_does_not_stay() {
        let mut paths = Paths::default();
        taken(&mut paths, 1 << 16, 20, 0, 1000);
        let [read, ring] = taken(&mut paths, 1 << 16, 1000, 2000, 1000);
        assert!(ring > 900, "{read} {ring}");
        paths.note(Path::Read, 1, u64::MAX);
        paths.note(Path::Read, 1, u64::MAX);
        paths.note(Path::Read, 1, u64::MAX);
    }

    #[test]
    fn every_length_has_a_class() {
        let classes = [0, 1, 8 << 10, 16 << 10, (16 << 10) + 1, 32 << 10, 4 << 20, (4 << 20) + 1, usize::MAX];
        assert_eq!(classes.map(class_of), [0, 0, 0, 0, 1, 1, 8, 9, 9]);
    }
}
