//! `tieline bench acceptance`.
use crate::args::{Acceptance, Common};
use crate::exit::Outcome;
use crate::output::Output;

pub(super) fn run(_common: &Common, _arguments: &Acceptance, _output: Output) -> Outcome {
    Err(anyhow::anyhow!("being built").into())
}
