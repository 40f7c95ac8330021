//! libfabric's own calls between the two processes of `latency` on two hosts, as a transport: messages of
//! 8 bytes, and writes.

use std::cell::RefCell;

use super::{LARGE_BYTES, LARGE_MESSAGES, READING_NS, Transport};
use crate::{
    error::{BenchError, Result},
    patterns::{provider::Provider, rendezvous::Client},
    pinned_pair::PinnedPair,
    stats::{Samples, order},
    timer::Timer,
};

/// Its name.
pub(super) const OWN_CALLS: &str = "libfabric's own calls";
/// Messages of the first reading, and of any.
const FIRST_ROUNDS: u64 = 20;
const ROUNDS: std::ops::RangeInclusive<f64> = 10.0..=10_000.0;

pub(super) struct OwnCalls<'c, 'd> {
    client: &'c RefCell<&'d mut Client>,
    provider: Provider,
    rounds_of_a_reading: Option<u64>,
    rounds: u64,
}

impl<'c, 'd> OwnCalls<'c, 'd> {
    /// Opens both ends; none where one of them cannot be opened.
    pub(super) fn new(client: &'c RefCell<&'d mut Client>) -> Result<Option<Self>> {
        let provider = Provider::meet(&mut client.borrow_mut())?;
        let can = provider.messages_name().is_some();
        Ok(can.then_some(Self { client, provider, rounds_of_a_reading: None, rounds: 0 }))
    }

    fn half_each_ns(&mut self, rounds: u64) -> Result<Vec<f64>> {
        let each_ns = self.provider.each_rtt_ns(&mut self.client.borrow_mut(), rounds)?;
        let each_ns = each_ns.ok_or_else(|| BenchError::OtherEnd {
            what: OWN_CALLS,
            reason: "a message of libfabric's own has failed: measure the link with `tieline bench hosts`"
                .to_owned(),
        })?;
        self.rounds += rounds;
        Ok(each_ns.into_iter().map(|ns| ns / 2.0).collect())
    }
}

impl<'env> Transport<'env> for OwnCalls<'_, '_> {
    fn name(&self) -> &'static str {
        OWN_CALLS
    }

    fn half_round_trip_ns(
        &mut self,
        _timer: &Timer,
        _pair: &mut PinnedPair<'env>,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let rounds = match self.rounds_of_a_reading {
            Some(rounds) => rounds,
            None => {
                let half_ns = order::median(&self.half_each_ns(FIRST_ROUNDS)?).unwrap_or(READING_NS);
                let fit = READING_NS / (2.0 * half_ns.max(1.0));
                *self.rounds_of_a_reading.insert(fit.clamp(*ROUNDS.start(), *ROUNDS.end()) as u64)
            }
        };
        let half_ns = self.half_each_ns(rounds)?;
        if let Some(all) = all {
            half_ns.iter().for_each(|ns| all.record_ns(*ns));
        }
        Ok(order::median(&half_ns).unwrap_or(f64::NAN))
    }

    fn bandwidth_gb_s(&mut self, _timer: &Timer, _pair: &mut PinnedPair<'env>) -> Result<Option<f64>> {
        let write_ns = self.provider.write_ns(OWN_CALLS, LARGE_BYTES, LARGE_MESSAGES)?;
        Ok(Some(LARGE_BYTES as f64 / write_ns))
    }

    fn rounds(&self) -> u64 {
        self.rounds
    }
}
