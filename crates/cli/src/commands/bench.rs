//! `tieline bench`.
use crate::args::{Bench, Common};
use crate::exit::Outcome;
use crate::output::Output;

pub(super) fn run(_common: &Common, _bench: &Bench, _output: Output) -> Outcome {
    Err(anyhow::anyhow!("being built").into())
}
