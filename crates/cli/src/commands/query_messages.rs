//! `tieline query --messages`.

use std::fmt::Write;

use bench::error::BenchError;
use bench::layout::table::size;
use bench::patterns::messages::ways::{self, Ways};
use bench::progress::Progress;
use serde::Serialize;
use tieline::messages::{Bounds, EAGER_MAX_BYTES, FETCH, Fetch, RING_BYTES, Settings, set_variables};

use super::bench_result::Measuring;
use super::usage;
use crate::exit::{Outcome, PASS};
use crate::output::Output;

const ONE_PROCESSOR: &str =
    "this process may use one processor only: run it with two processors (taskset, cpuset)";

/// Settings of message queues, and what they mean here.
#[derive(Serialize)]
struct Messages {
    settings: Shown,
    /// Those of the libfabric provider.
    provider: Shown,
    /// The variables that are set and change the settings.
    environment: Vec<&'static str>,
    /// Up to this size an eager message is the fastest way here.
    eager_is_fastest_to_bytes: Option<usize>,
    /// The longest that was measured as eager: longer ones do not fit the ring.
    eager_longest_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Ways>,
    /// Why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// As programs have them that choose nothing.
#[derive(Serialize)]
struct Shown {
    eager_max_bytes: usize,
    /// Whether longer ones go so, too, where that is measured to cost less.
    measures_eager: bool,
    /// The longest that is tried so.
    eager_trial_max_bytes: usize,
    cut_bytes: usize,
    ring_bytes: usize,
    fetch: &'static str,
    unexpected_messages: usize,
    unexpected_bytes: usize,
    peer_unexpected_messages: usize,
    peer_unexpected_bytes: usize,
}

impl Shown {
    fn of(settings: &Settings) -> Self {
        let Settings { unexpected: all, unexpected_per_peer: of_peer, .. } = *settings;
        Self {
            eager_max_bytes: settings.eager_max_bytes,
            measures_eager: settings.measures_eager,
            eager_trial_max_bytes: settings.eager_trial_max_bytes.min(settings.rounded_ring_bytes() / 2),
            cut_bytes: settings.cut_bytes,
            ring_bytes: settings.rounded_ring_bytes(),
            fetch: settings.fetch.name(),
            unexpected_messages: all.messages,
            unexpected_bytes: all.bytes,
            peer_unexpected_messages: of_peer.messages,
            peer_unexpected_bytes: of_peer.bytes,
        }
    }
}

pub(super) fn run(output: Output) -> Outcome {
    let settings = Settings::from_environment().map_err(|error| usage(error.to_string()))?;
    let mut measuring = Measuring::begin(output)?;
    let measured = bench::cpus::pair(None, "query --messages")
        .and_then(|cpus| ways::measure(cpus, &settings, &mut measuring));
    let (measured, problem) = match measured {
        Ok(ways) => (Some(ways), None),
        Err(error @ BenchError::Stopped { .. }) => return Err(error.into()),
        Err(error) if measuring.stop() => return Err(error.into()),
        // The settings are still there to be shown.
        Err(BenchError::TooFewCpus { .. }) => (None, Some(ONE_PROCESSOR.to_owned())),
        Err(error) => (None, Some(error.to_string())),
    };
    let messages = Messages {
        settings: Shown::of(&settings),
        provider: Shown::of(&Settings::of_provider()),
        environment: set_variables(),
        eager_is_fastest_to_bytes: measured.as_ref().and_then(Ways::eager_is_fastest_to),
        eager_longest_bytes: measured.as_ref().and_then(Ways::eager_longest),
        measured,
        problem,
    };
    let text = || messages.to_text(&settings);
    output.form("tieline.query-messages/1", || serde_json::to_value(&messages), text)?;
    Ok(PASS)
}

impl Messages {
    fn to_text(&self, settings: &Settings) -> String {
        let shown = |bytes: usize| size(bytes as u64);
        let from = |variable: &str| if self.environment.contains(&variable) { " (environment)" } else { "" };
        let kept = |bounds: Bounds| format!("{} messages, {}", bounds.messages, shown(bounds.bytes));
        let ring_bytes = settings.rounded_ring_bytes();
        let mut text = format!(
            "Eager messages     : up to {}{}{}{}\nRing of each peer  : {}{}\nLonger messages    : {}{}\n\
             Kept unexpected    : at most {}; of one peer {}\n",
            shown(settings.eager_max_bytes),
            from(EAGER_MAX_BYTES),
            if settings.eager_max_bytes < ring_bytes / 2 { "" } else { ", but less than half of the ring" },
            if settings.measures_eager && settings.eager_max_bytes < ring_bytes / 2 {
                "; up to half of the ring where that is measured to cost less"
            } else {
                ""
            },
            shown(ring_bytes),
            from(RING_BYTES),
            match settings.fetch {
                Fetch::Measured => "the faster way, measured for each peer",
                Fetch::Read => "read out of the sender's memory",
                Fetch::InParts => "through the ring in parts",
            },
            from(FETCH),
            kept(settings.unexpected),
            kept(settings.unexpected_per_peer),
        );
        let Shown { eager_max_bytes, eager_trial_max_bytes, ring_bytes, .. } = self.provider;
        let [eager, tried, ring] = [eager_max_bytes, eager_trial_max_bytes, ring_bytes].map(shown);
        let _ = writeln!(
            text,
            "libfabric provider : eager up to {eager}, up to {tried} where that is measured to cost less; rings of {ring}"
        );
        if let Some(problem) = &self.problem {
            let _ = writeln!(text, "Not measured       : {problem}");
        }
        let Some(ways) = &self.measured else { return text };
        let allowed = if ways.is_read_allowed { "allowed" } else { "refused by the kernel" };
        let _ = writeln!(text, "Cross-memory attach: {allowed}");
        let _ = match self.eager_is_fastest_to_bytes {
            Some(bytes) if self.eager_longest_bytes == Some(bytes) => {
                writeln!(
                    text,
                    "Eager is fastest   : up to {}, the longest measured in this ring",
                    shown(bytes)
                )
            }
            Some(bytes) => writeln!(text, "Eager is fastest   : up to {}", shown(bytes)),
            None => writeln!(text, "Eager is fastest   : at no size from {}", shown(ways::SIZES_BYTES[0])),
        };
        let [near, far] = ways.cpus;
        let _ = writeln!(
            text,
            "\nhalf a round trip in us between processors {near} and {far}, each way forced; 'chosen': with the settings above\n{}",
            ways.to_text()
        );
        text
    }
}
