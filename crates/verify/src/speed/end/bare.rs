//! What the provider itself does between the same two processes: bare loops of libfabric's calls.

use std::time::{Duration, Instant};

use bench::stats::median;
use fabric_sys::bare::{Bare, BareError};

use super::{BLOCK_BYTES, LEAST_ROWS, MOST_ROWS, ROW, ROWS_WITHIN};
use crate::speed::Baseline;
use crate::speed::puts::STREAMS;

/// A loop in which nothing happens for so long is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// Between two looks for the number of rows.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// The rows of a turn, as one word in the memory of the end that answers: unlike that of any other turn.
const fn word(turn: u64, rows: u64) -> u64 {
    turn << 8 | rows
}

/// Answers the first row of the other end, then as many as that announces in `announced`, and makes progress
/// for its writes after that.
pub(super) fn answer(mut bare: Bare, turn: u64, announced: impl Fn() -> u64) -> Option<Bare> {
    bare.answer(ROW as u64).ok()?;
    let began = Instant::now();
    let rows = loop {
        let found = announced();
        match found & 0xff {
            rows @ 1.. if found == word(turn, rows) => break rows,
            _ if began.elapsed() > GIVE_UP_AFTER => return None,
            _ => std::thread::sleep(LOOK_AGAIN),
        }
    };
    bare.answer(rows * ROW as u64).ok().map(|()| bare)
}

/// As the link was measured, with as many blocks; `announce` tells the other end how many rows there will be.
pub(super) fn measure(
    mut bare: Bare,
    turn: u64,
    blocks: u32,
    announce: impl Fn(u64) -> tieline::Result<()>,
) -> Option<(Bare, Baseline)> {
    let baseline = read(&mut bare, turn, blocks, announce).ok()?;
    Some((bare, baseline))
}

fn read(
    bare: &mut Bare,
    turn: u64,
    blocks: u32,
    announce: impl Fn(u64) -> tieline::Result<()>,
) -> Result<Baseline, BareError> {
    // As many as fit into the time, by what the first one takes.
    let first_ns = bare.echo(ROW as u64)? * (2 * ROW) as f64;
    let fit = ROWS_WITHIN.as_nanos() as f64 / first_ns.max(1.0);
    let rows = fit.clamp(LEAST_ROWS as f64, MOST_ROWS as f64) as u64;
    announce(word(turn, rows))?;
    let readings = (0..rows).map(|_| bare.echo(ROW as u64)).collect::<Result<Vec<_>, _>>()?;
    let stream = |_| Ok(BLOCK_BYTES as f64 / bare.stream(BLOCK_BYTES, u64::from(blocks))?.max(1e-9) * 1e9);
    let rates = (0..STREAMS).map(stream).collect::<Result<Vec<f64>, BareError>>()?;
    Ok(Baseline {
        half_rtt_ns: median(&readings).unwrap_or(f64::NAN),
        bandwidth_bytes_per_s: median(&rates).unwrap_or(f64::NAN),
    })
}
