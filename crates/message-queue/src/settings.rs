//! What can be chosen about an end point.

use std::time::Duration;

use crate::error::Error;

/// How a receiver gets the bytes of a message that was offered to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// In the way that costs less of the two below: both are tried for each peer and size.
    #[default]
    Measured,
    /// Copied out of the sender's memory by the receiver, where the kernel allows that; else in parts.
    Read,
    /// Through the ring in parts: the sender copies them in while the receiver copies them out.
    InParts,
}

impl Fetch {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Read, Self::InParts];

    /// Its name, as in [`FETCH`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Read => "read",
            Self::InParts => "in-parts",
        }
    }
}

/// Choices of one end point. Both ends of a pair may choose differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory of a ring for one direction between two end points, from 4 KiB to 1 GiB: rounded up to a power
    /// of two.
    ///
    /// With the 32 KiB of the default, 1,000 end points that have 20 active peers each take less than 1 GiB
    /// in all.
    pub ring_bytes: usize,
    /// Longest message that goes through the ring in one record (*eager*); a longer one is offered to the
    /// receiver, which fetches it (*rendezvous*). At most what a record of the ring takes.
    pub eager_max_bytes: usize,
    /// Whether longer messages that a record of the ring takes go eager, too, where that is measured to cost
    /// less: of each peer and class of sizes both ways are tried, and tried again now and then. A send of
    /// such a message may end before its receiver makes progress, and may not.
    pub measures_eager: bool,
    /// Longest message that is tried so.
    pub eager_trial_max_bytes: usize,
    /// Longest part of an eager message in one record; a longer one has several, so that the receiver copies
    /// one while the sender writes the next.
    pub cut_bytes: usize,
    /// How offered messages come.
    pub fetch: Fetch,
    /// Parts that have not come for so long, and for as long as a copy of all would take, are not waited for:
    /// the receiver copies the message out of the sender's memory, where the kernel allows it.
    pub part_wait: Duration,
    /// Unexpected messages that are kept for all peers together: beyond, rings are read only as far as their
    /// next record is needed.
    pub unexpected: Bounds,
    /// Unexpected messages that are kept for one peer: beyond, its ring is read only as far as its next
    /// record is needed, so it has to wait, and nobody else has.
    ///
    /// While a receive waits that a later message of this peer could go to, or an operation with it is under
    /// way, its ring is read on: what is waited for may lie behind. As much is kept then as is left of the
    /// limit for all peers together, so one peer alone can have half of that and others still have theirs.
    /// Beyond, it is waited for until the program has received some of the messages before it; `stopped`
    /// names the peers.
    pub unexpected_per_peer: Bounds,
    /// Peers that may make themselves known.
    pub peers_max: u32,
}

/// A variable of the environment that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("variable {variable}: `{value}` is not {expected}: correct or unset it")]
pub struct BadVariable {
    /// Its name.
    pub variable: &'static str,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub expected: &'static str,
}

/// Longest eager message in bytes: the default of [`Settings::eager_max_bytes`].
pub const EAGER_MAX_BYTES: &str = "TIELINE_MQ_EAGER_MAX_BYTES";
/// The default of [`Settings::ring_bytes`].
pub const RING_BYTES: &str = "TIELINE_MQ_RING_BYTES";
/// The default of [`Settings::fetch`]: `measured`, `read` or `in-parts`.
pub const FETCH: &str = "TIELINE_MQ_FETCH";
/// The variables of [`Settings::from_environment`].
pub const VARIABLES: [&str; 3] = [EAGER_MAX_BYTES, RING_BYTES, FETCH];

/// Those of [`VARIABLES`] that are set.
#[must_use]
pub fn set_variables() -> Vec<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    VARIABLES.into_iter().filter(is_set).collect()
}

/// Least and most bytes of a ring.
const RING_LEAST_BYTES: usize = 4 << 10;
const RING_MOST_BYTES: usize = 1 << 30;

impl Settings {
    /// Those of the libfabric provider, whose programs choose nothing.
    ///
    /// A program of MPI may leave many long messages unexpected and ask for a later one, and would wait for
    /// ever once they fill what is kept. So messages that are tried as eager ones are at most twice as long
    /// as those that always are. Longer ones were measured not to gain: between Open MPI's ranks half a round
    /// trip took a tenth less up to 64 KiB, but a stream of 64 KiB messages a tenth more.
    #[must_use]
    pub fn of_provider() -> Self {
        Self {
            ring_bytes: 256 << 10,
            eager_max_bytes: 16 << 10,
            eager_trial_max_bytes: 32 << 10,
            ..Self::default()
        }
    }

    /// Whether an end point can be made with them.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(&self) -> Result<(), Error> {
        let (name, value) = ("ring_bytes", self.ring_bytes);
        if (RING_LEAST_BYTES..=RING_MOST_BYTES).contains(&value) {
            return Ok(());
        }
        Err(Error::Setting { name, value, least: RING_LEAST_BYTES, most: RING_MOST_BYTES })
    }

    /// The memory that a ring has, for it is rounded up.
    #[must_use]
    pub const fn rounded_ring_bytes(&self) -> usize {
        match self.ring_bytes.checked_next_power_of_two() {
            Some(bytes) => bytes,
            None => self.ring_bytes,
        }
    }

    /// The defaults, with what the environment says otherwise ([`VARIABLES`]; an empty variable counts as
    /// unset).
    ///
    /// # Errors
    /// A variable is not understood.
    pub fn from_environment() -> Result<Self, BadVariable> {
        Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from_variables(get: impl Fn(&'static str) -> Option<String>) -> Result<Self, BadVariable> {
        let get = |variable| get(variable).filter(|value| !value.is_empty());
        let bytes = |variable, default, least, most, expected| match get(variable) {
            None => Ok(default),
            Some(value) => match value.parse() {
                Ok(bytes) if (least..=most).contains(&bytes) => Ok(bytes),
                _ => Err(BadVariable { variable, value, expected }),
            },
        };
        let default = Self::default();
        let eager_max_bytes =
            bytes(EAGER_MAX_BYTES, default.eager_max_bytes, 0, usize::MAX, "a number of bytes")?;
        let measures_eager = default.measures_eager && get(EAGER_MAX_BYTES).is_none();
        let expected = "a number of bytes from 4096 to 1073741824";
        let ring_bytes = bytes(RING_BYTES, default.ring_bytes, RING_LEAST_BYTES, RING_MOST_BYTES, expected)?;
        let fetch = match get(FETCH) {
            None => default.fetch,
            Some(value) => match Fetch::ALL.into_iter().find(|fetch| fetch.name() == value) {
                Some(fetch) => fetch,
                None => {
                    return Err(BadVariable {
                        variable: FETCH,
                        value,
                        expected: "measured, read or in-parts",
                    });
                }
            },
        };
        Ok(Self { ring_bytes, eager_max_bytes, measures_eager, fetch, ..default })
    }
}

/// A limit of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ring_bytes: 32 << 10,
            eager_max_bytes: 8 << 10,
            measures_eager: true,
            eager_trial_max_bytes: usize::MAX,
            cut_bytes: 8 << 10,
            fetch: Fetch::Measured,
            part_wait: Duration::from_micros(10),
            unexpected: Bounds { messages: 1 << 16, bytes: 64 << 20 },
            unexpected_per_peer: Bounds { messages: 1 << 12, bytes: 4 << 20 },
            peers_max: 1 << 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&'static str, &str)]) -> Result<Settings, String> {
        let get = |name| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
        Settings::from_variables(get).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_changes_the_defaults_and_nothing_else() {
        let default = Settings::default();
        assert_eq!(of(&[]), Ok(default));
        assert_eq!(of(&[(EAGER_MAX_BYTES, ""), (FETCH, "")]), Ok(default));
        let changed = of(&[(EAGER_MAX_BYTES, "0"), (RING_BYTES, "65536"), (FETCH, "in-parts")]);
        let wanted = Settings {
            eager_max_bytes: 0,
            measures_eager: false,
            ring_bytes: 64 << 10,
            fetch: Fetch::InParts,
            ..default
        };
        assert_eq!(changed, Ok(wanted));
    }

    #[test]
    fn the_provider_tries_what_its_ring_takes() {
        let Settings { ring_bytes, eager_max_bytes, eager_trial_max_bytes, measures_eager, .. } =
            Settings::of_provider();
        assert!(measures_eager && eager_max_bytes < eager_trial_max_bytes);
        assert!(eager_trial_max_bytes < ring_bytes / 2);
        assert_eq!(Settings::of_provider().check(), Ok(()));
    }

    #[test]
    fn a_ring_has_a_length_that_can_be_used() {
        let of = |ring_bytes| Settings { ring_bytes, ..Settings::default() }.check();
        assert_eq!([of(4096), of(1 << 30)], [Ok(()), Ok(())]);
        for ring_bytes in [0, 1, 4095, (1 << 30) + 1, usize::MAX] {
            let text = of(ring_bytes).unwrap_err().to_string();
            let wanted =
                format!("ring_bytes {ring_bytes}: that is out of its range; give a number from 4096 to");
            assert!(text.starts_with(&wanted), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (variable, value, expected) in [
            (
                EAGER_MAX_BYTES,
                "8K",
                "variable TIELINE_MQ_EAGER_MAX_BYTES: `8K` is not a number of bytes: correct",
            ),
            (
                RING_BYTES,
                "100",
                "variable TIELINE_MQ_RING_BYTES: `100` is not a number of bytes from 4096 to",
            ),
            (
                FETCH,
                "dma",
                "variable TIELINE_MQ_FETCH: `dma` is not measured, read or in-parts: correct or unset it",
            ),
        ] {
            let error = of(&[(variable, value)]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
