//! `tieline cluster`.

use std::time::Duration;

use clap::{Args, Subcommand};
use node::hosts::{Address, check_host};
use tieline::NodeId;

/// `cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterAction {
    /// Create a cluster over several hosts: its authority, and the certificate of this host's node
    #[command(after_help = "Examples:\n  tieline cluster init --address 10.0.0.1\n  \
                            tieline cluster init --cluster lab --node 16 --address 10.0.0.1:7500\n\n\
                            Keys are in $XDG_CONFIG_HOME/tieline/hosts/CLUSTER, which only this user can read. The next steps are printed.")]
    Init(Init),
    /// Show what this host has of the cluster: its node, whether the authority is here, the known hosts
    #[command(after_help = "Examples:\n  tieline cluster show\n  tieline cluster show --cluster lab --json")]
    Show,
    /// Print a token that lets one other host join, once
    #[command(after_help = "Examples:\n  tieline cluster token\n  \
                            tieline cluster token --expires 600s --node 12   # for node 12, even if it has a certificate already\n  \
                            tieline cluster token | ssh b tieline cluster join 10.0.0.1 --token -")]
    Token {
        /// How long the token is valid, 1s to 1000000s; also in minutes (30m) or hours (2h)
        #[arg(long, default_value = "1h", value_name = "TIME", value_parser = life)]
        expires: Duration,
    },
    /// Let a node of this host join a cluster, with a token from the host where `tieline cluster
    /// init` ran
    #[command(
        after_help = "Examples:\n  tieline cluster join 10.0.0.1 --token -       # reads the token from standard input\n  \
                            TIELINE_TOKEN=tl1-... tieline cluster join head --node 12\n\n\
                            The node manager of the first host must run. A token on the command line can be seen by all users of this host."
    )]
    Join(Join),
    /// Renew the certificate of a node of this host; a certificate is valid for a year
    #[command(
        after_help = "Examples:\n  tieline cluster renew 10.0.0.1             # the host where `tieline cluster init` ran; its node manager must run\n  \
                            tieline cluster renew --node 4             # on that host itself\n\n\
                            The node proves who it is by the certificate that it has. If that has expired, join again with a token for this node."
    )]
    Renew(Renew),
    /// Revoke the certificates of a node: every host of the cluster refuses it from then on
    #[command(
        after_help = "Examples:\n  tieline cluster revoke 8                  # on the host where `tieline cluster init` ran\n  \
                            tieline cluster token --node 8            # lets the node join again, with a new certificate\n\n\
                            Sessions with the node end at once, and so do connections of its programs. A node manager of this host must run to \
                            tell the other hosts. Tokens that were made for the node are not valid any more."
    )]
    Revoke {
        /// The node
        #[arg(value_name = "NODE")]
        revoked: NodeId,
    },
    /// Let a node of this host leave the cluster: the authority revokes its certificates, and its keys are
    /// removed here
    #[command(after_help = "Examples:\n  tieline node stop --node 8; tieline cluster leave 10.0.0.1\n  \
                            tieline cluster leave --force --node 8     # the authority's host cannot be reached\n\n\
                            10.0.0.1 is the host where `tieline cluster init` ran; its node manager must run. That host itself cannot leave.")]
    Leave(Leave),
}

/// `cluster leave`.
#[derive(Debug, Args)]
pub(crate) struct Leave {
    /// The host where `tieline cluster init` ran [default port: 7411]
    #[arg(value_name = "HOST[:PORT]", value_parser = host)]
    pub host: Option<String>,
    /// Only remove the keys of this host; the node has to be revoked on the authority's host then
    #[arg(long, conflicts_with = "host")]
    pub force: bool,
}

/// `cluster init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Address of this host's node manager, as other hosts reach it [default port: 7411]
    #[arg(long, value_name = "IP[:PORT]")]
    pub address: Address,
}

/// `cluster join`.
#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The host where `tieline cluster init` ran [default port: 7411]
    #[arg(value_name = "HOST[:PORT]", value_parser = host)]
    pub host: String,
    /// The token that `tieline cluster token` printed; `-` reads it from standard input [env:
    /// TIELINE_TOKEN]
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub token: Option<String>,
    /// Address of this host's node manager [default: the address from which HOST is reached, and
    /// port 7411]
    #[arg(long, value_name = "IP[:PORT]")]
    pub address: Option<Address>,
}

/// `cluster renew`.
#[derive(Debug, Args)]
pub(crate) struct Renew {
    /// The host where `tieline cluster init` ran [default: this one; default port: 7411]
    #[arg(value_name = "HOST[:PORT]", value_parser = host)]
    pub host: Option<String>,
}

fn host(text: &str) -> Result<String, String> {
    check_host(text).map(|()| text.to_owned())
}

/// Lives of a token, in seconds.
const LIFE_S: std::ops::RangeInclusive<u64> = 1..=1_000_000;

pub(super) fn life(text: &str) -> Result<Duration, String> {
    let of = |unit: char, seconds: u64| {
        let number = text.strip_suffix(unit)?.parse::<u64>().ok()?;
        number.checked_mul(seconds).map(Duration::from_secs)
    };
    let life = match of('h', 3600).or_else(|| of('m', 60)) {
        Some(life) => life,
        None => Duration::from_nanos(super::link::duration_ns(text).map_err(|_| wrong_life(text))?),
    };
    if LIFE_S.contains(&life.as_secs()) { Ok(life) } else { Err(wrong_life(text)) }
}

fn wrong_life(text: &str) -> String {
    format!("`{text}`: give a time from 1s to 1000000s, such as 600s, 30m or 2h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_for_seconds_minutes_or_hours() {
        for (text, seconds) in
            [("1s", 1), ("600s", 600), ("30m", 1800), ("1h", 3600), ("1000000s", 1_000_000)]
        {
            assert_eq!(life(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["0s", "1ms", "1000001s", "300h", "h", "1d", "-1h", "1"] {
            let said = life(wrong).unwrap_err();
            assert!(said.contains("give a time from 1s to 1000000s"), "{wrong}: {said}");
        }
    }
}
