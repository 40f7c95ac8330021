//! Options of `tieline link`.

use clap::{Args, Subcommand};
use proto::fault::MILLION;
use tieline::{LinkFaults, NodeId};

/// `link`.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkAction {
    /// List all links: state, node at the other end, injected faults
    #[command(
        after_help = "The columns `state changes` and `total time down` count from the start of the manager."
    )]
    List,
    /// Take a link down: connections over it fail; with `up --faults` stores through existing maps
    /// are discarded too
    #[command(after_help = "Examples:\n  tieline link down 4 8")]
    Down(Ends),
    /// Bring a link up, whichever end took it down
    #[command(after_help = "Examples:\n  tieline link up 4 8")]
    Up(Ends),
    /// Take a link down and up again, several times
    #[command(after_help = "Examples:\n  tieline link flap 4 8 --count 5 --down 100ms")]
    Flap(Flap),
    /// Swap the links to two nodes of this host: a program that connects to one reaches the other; a
    /// second swap restores them (needs `tieline up --faults`)
    #[command(after_help = "Examples:\n  tieline link swap 4 8")]
    Swap(Ends),
    /// Make a link within this host worse: slower, lossy, stalling (needs `tieline up --faults`)
    #[command(after_help = "Examples:\n  tieline link degrade 4 8 --loss 1%\n  \
                            tieline link degrade 4 8 --delay 2us --rate 500MB --one-way\n  \
                            tieline link degrade 4 8 --stall 5ms/1s")]
    Degrade(Degrade),
    /// Remove all faults of one link, or of all links
    #[command(after_help = "Examples:\n  tieline link clear\n  tieline link clear 4 8")]
    Clear(Clear),
}

/// The two ends of a link.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Ends {
    /// Node ID of one end, such as 4
    pub a: NodeId,
    /// Node ID of the other end, such as 8
    pub b: NodeId,
}

#[derive(Debug, Args)]
pub(crate) struct Flap {
    #[command(flatten)]
    pub ends: Ends,
    /// Number of times, 1 to 100000
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// Time down, each time, 1ns to 1000000s
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = duration_ns)]
    pub down: u64,
    /// Time up in between, 1ns to 1000000s
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = duration_ns)]
    pub up: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// Node ID of one end, such as 4; without ends: all links of the cluster
    #[arg(requires = "b")]
    pub a: Option<NodeId>,
    /// Node ID of the other end, such as 8
    pub b: Option<NodeId>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("fault").required(true).multiple(true)
    .args(["delay", "rate", "speed", "loss", "corrupt", "duplicate", "reorder", "stall"]))]
pub(crate) struct Degrade {
    #[command(flatten)]
    pub ends: Ends,
    /// Add this much to the time of each operation, 1ns to 1s, such as 500ns or 2us [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    pub delay: Option<u64>,
    /// Limit the bandwidth to this many bytes per second, whatever the link could do, such as 2GB or 500MB
    /// [default: unlimited]
    #[arg(long, value_name = "BYTES/S", value_parser = bytes)]
    pub rate: Option<u64>,
    /// Reduce the speed of each block to this share of what the link can do, 1% to 100%, such as 80%; --rate
    /// is a speed in itself [default: 100%]
    #[arg(long, value_name = "PERCENT", value_parser = whole_percent)]
    pub speed: Option<u32>,
    /// Lose this share of puts, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = ppm)]
    pub loss: Option<u32>,
    /// Invert one byte in this share of puts
    #[arg(long, value_name = "PERCENT", value_parser = ppm)]
    pub corrupt: Option<u32>,
    /// Deliver this share of puts once more, after the next one
    #[arg(long, value_name = "PERCENT", value_parser = ppm)]
    pub duplicate: Option<u32>,
    /// Deliver this share of puts after the next one
    #[arg(long, value_name = "PERCENT", value_parser = ppm)]
    pub reorder: Option<u32>,
    /// Stall for the first time of every period, at most half of it: 5ms/1s stalls 5 ms in each
    /// second
    #[arg(long, value_name = "TIME/TIME", value_parser = stall)]
    pub stall: Option<(u64, u64)>,
    /// Only in the direction from A to B
    #[arg(long)]
    pub one_way: bool,
}

impl Degrade {
    /// The requested faults.
    pub(crate) fn faults(&self) -> LinkFaults {
        let (stall_ns, stall_every_ns) = self.stall.unwrap_or_default();
        LinkFaults {
            delay_ns: self.delay.unwrap_or(0),
            rate_bytes_per_s: self.rate.unwrap_or(0),
            speed_percent: self.speed.unwrap_or(0),
            lose_ppm: self.loss.unwrap_or(0),
            corrupt_ppm: self.corrupt.unwrap_or(0),
            duplicate_ppm: self.duplicate.unwrap_or(0),
            reorder_ppm: self.reorder.unwrap_or(0),
            stall_ns,
            stall_every_ns,
        }
    }
}

/// Splits a number from its unit.
fn split(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit.trim()))
}

/// A time with its unit, in nanoseconds.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(format!("`{text}`: give a time with its unit: ns, us, ms or s")),
    };
    let ns = (number * factor).round();
    if (1.0..=1e15).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err(format!("`{text}`: give a time from 1ns to 1000000s"))
    }
}

/// A number of bytes, powers of ten.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text.strip_suffix("/s").unwrap_or(text))?;
    let factor = match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(format!("`{text}`: give a rate with its unit, such as 500MB or 2GB")),
    };
    let bytes = (number * factor).round();
    if (1.0..=1e18).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("`{text}`: give a rate of 1 B/s to 1000000000 GB/s"))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    if unit == "%" && number > 0.0 && number <= 100.0 {
        return Ok(number);
    }
    Err(format!("`{text}`: give a share in percent with its unit, such as 5%: more than 0 and at most 100%"))
}

fn whole_percent(text: &str) -> Result<u32, String> {
    let number = percent(text)?;
    if number < 1.0 { Err(format!("`{text}`: give at least 1 %")) } else { Ok(number.round() as u32) }
}

/// Percent, in parts of a million.
fn ppm(text: &str) -> Result<u32, String> {
    let ppm = (percent(text)? / 100.0 * f64::from(MILLION)).round() as u32;
    if ppm == 0 { Err(format!("`{text}`: give at least 0.0001 %")) } else { Ok(ppm) }
}

fn stall(text: &str) -> Result<(u64, u64), String> {
    let (length, period) =
        text.split_once('/').ok_or_else(|| format!("`{text}`: give two times, such as 5ms/1s"))?;
    Ok((duration_ns(length)?, duration_ns(period)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(duration_ns("1.5us"), Ok(1500));
        assert_eq!(duration_ns("2s"), Ok(2_000_000_000));
        assert_eq!(bytes("2GB/s"), Ok(2_000_000_000));
        assert_eq!(bytes("500B"), Ok(500));
        assert_eq!(ppm("1%"), Ok(10_000));
        assert_eq!(ppm("0.0001%"), Ok(1));
        assert_eq!(whole_percent("80%"), Ok(80));
        assert_eq!(stall("5ms/1s"), Ok((5_000_000, 1_000_000_000)));
    }

    #[test]
    fn what_is_no_time_rate_or_share_is_refused() {
        for wrong in ["5", "ms", "0ns", "-1ms", "1h", "1e99s"] {
            assert!(duration_ns(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0%", "101%", "x", "1ms", "1"] {
            assert!(ppm(wrong).is_err(), "{wrong}");
        }
        assert!(bytes("2GiB").is_err() && stall("5ms").is_err() && whole_percent("0.2%").is_err());
        assert_eq!(bytes("2").unwrap_err(), "`2`: give a rate with its unit, such as 500MB or 2GB");
    }
}
