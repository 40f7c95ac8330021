//! Puts of blocks into the other end's memory: one with its barrier, and streams of them.

use std::time::{Duration, Instant};

use bench::stats::median;
use tieline::RemoteSegment;

use super::{BLOCK_BYTES, PutReading};

/// Where the blocks lie in the memory of the other end.
pub(super) const BLOCK_AT: usize = 64;
/// A stream takes at least this long, or has this many blocks, or this many short ones.
const STREAM: Duration = Duration::from_millis(5);
const MOST_BLOCKS: u32 = 256;
const MOST_SHORT_BLOCKS: u32 = 4096;
pub(super) const STREAMS: usize = 3;
/// Single puts of a size: as many as fit into this time, but some.
const SINGLE: Duration = Duration::from_millis(20);
const MOST_SINGLE: usize = 200;
const LEAST_SINGLE: usize = 3;
/// All sizes of a turn together take about this long at most.
pub(super) const ALL_SIZES: Duration = Duration::from_secs(8);

/// Bytes that are not all the same.
pub(super) fn block(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7) as u8).collect()
}

/// Streams that grow until they take long enough; then a few of that length. With that: how many blocks they
/// had. `between` is called before each.
pub(super) fn bandwidth(
    memory: &RemoteSegment,
    block: &[u8],
    between: &dyn Fn() -> tieline::Result<()>,
) -> tieline::Result<(f64, u32)> {
    let stream = |blocks: u32| -> tieline::Result<Duration> {
        between()?;
        let began = Instant::now();
        for _ in 0..blocks {
            memory.put(BLOCK_AT, block)?;
        }
        memory.barrier()?;
        Ok(began.elapsed())
    };
    let most = if block.len() < BLOCK_BYTES { MOST_SHORT_BLOCKS } else { MOST_BLOCKS };
    let mut blocks = 2;
    while blocks < most && stream(blocks)? < STREAM {
        blocks *= 2;
    }
    let mut rates = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let took_s = stream(blocks)?.as_secs_f64().max(1e-9);
        rates.push(f64::from(blocks) * block.len() as f64 / took_s);
    }
    Ok((median(&rates).unwrap_or(f64::NAN), blocks))
}

/// Puts of these sizes, in their order, until there is no time for the next one, over a link that was seen to
/// carry `rate` bytes a second. `between` is called now and then.
pub(super) fn by_size(
    memory: &RemoteSegment,
    sizes_bytes: &[u64],
    mut rate: f64,
    between: &dyn Fn() -> tieline::Result<()>,
) -> tieline::Result<Vec<PutReading>> {
    let longest = sizes_bytes.iter().copied().max().unwrap_or_default();
    let bytes = block(usize::try_from(longest).unwrap_or(usize::MAX));
    let began = Instant::now();
    let mut all: Vec<PutReading> = Vec::with_capacity(sizes_bytes.len());
    for size_bytes in sizes_bytes.iter().copied() {
        let block = bytes.get(..size_bytes as usize).unwrap_or_default();
        let left = ALL_SIZES.saturating_sub(began.elapsed());
        if at_least(size_bytes, rate) > left {
            break;
        }
        let put_barrier_ns = single(memory, block, between)?;
        let (bandwidth_bytes_per_s, _) = bandwidth(memory, block, between)?;
        rate = rate.max(bandwidth_bytes_per_s);
        all.push(PutReading { size_bytes, put_barrier_ns, bandwidth_bytes_per_s });
    }
    Ok(all)
}

/// What a size takes at least, over a link that carries so much.
fn at_least(size_bytes: u64, rate: f64) -> Duration {
    let blocks = (LEAST_SINGLE + 2 * (STREAMS + 1)) as f64;
    let took_s = blocks * size_bytes as f64 / rate.max(1.0);
    Duration::try_from_secs_f64(took_s).unwrap_or(Duration::MAX)
}

/// One put with its barrier, in nanoseconds.
fn single(
    memory: &RemoteSegment,
    block: &[u8],
    between: &dyn Fn() -> tieline::Result<()>,
) -> tieline::Result<f64> {
    let (mut began, mut took_ns) = (None::<Instant>, Vec::with_capacity(MOST_SINGLE));
    while took_ns.len() < LEAST_SINGLE
        || took_ns.len() < MOST_SINGLE && began.is_none_or(|began| began.elapsed() < SINGLE)
    {
        if took_ns.len() < LEAST_SINGLE {
            between()?;
        }
        began.get_or_insert_with(Instant::now);
        let since = Instant::now();
        memory.put(BLOCK_AT, block)?;
        memory.barrier()?;
        took_ns.push(since.elapsed().as_nanos() as f64);
    }
    Ok(median(&took_ns).unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_size_takes_follows_from_the_rate_of_the_link() {
        assert_eq!(at_least(1_000_000, 1.1e9), Duration::from_millis(10));
        assert!(at_least(16 << 20, f64::NAN) > ALL_SIZES, "nothing is known of it");
    }
}
