//! The bandwidth of a well-known program between the two hosts: `iperf3`, if it is installed.

use std::{process::Stdio, thread, time::Duration};

use super::{ADDRESSES, Hosts};

/// Seconds of a run, and the longest until the server listens.
const SECONDS: &str = "1";
const TRIES: u32 = 50;

/// Bandwidths of one stream, in GB/s.
#[derive(Debug, Default)]
pub struct Iperf(Vec<f64>);

impl Iperf {
    /// Runs it once. Where it is not installed, or fails, there is no reading: it decides nothing.
    pub fn measure(&mut self, hosts: &Hosts, cpus: [usize; 2]) {
        let mut server = hosts.command(1, cpus[1], "timeout");
        server
            .args(["10", "iperf3", "-s", "-1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut server) = server.spawn() else { return };
        // It may not listen yet.
        for _ in 0..TRIES {
            if !matches!(server.try_wait(), Ok(None)) {
                break;
            }
            let mut client = hosts.command(0, cpus[0], "timeout");
            client.args(["5", "iperf3", "-c", ADDRESSES[1], "-t", SECONDS, "--json"]);
            let output = client.stdin(Stdio::null()).output();
            let gb_s =
                output.ok().filter(|output| output.status.success()).and_then(|output| gb_s(&output.stdout));
            if gb_s.is_some() {
                self.0.extend(gb_s);
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = server.kill();
        let _ = server.wait();
    }

    /// In words, for the notes of a figure.
    pub fn note(&self) -> String {
        if self.0.is_empty() {
            return "iperf3 beside it: not measured (package iperf3)".to_owned();
        }
        let shown: Vec<String> = self.0.iter().map(|gb_s| format!("{gb_s:.2}")).collect();
        format!("iperf3 beside it, one stream, before and after: {} GB/s", shown.join(" and "))
    }
}

/// What its receiver got.
fn gb_s(json: &[u8]) -> Option<f64> {
    let said: serde_json::Value = serde_json::from_slice(json).ok()?;
    said["end"]["sum_received"]["bits_per_second"].as_f64().map(|bits| bits / 8e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_receiver_got_counts() {
        let said =
            br#"{"end": {"sum_sent": {"bits_per_second": 9e9}, "sum_received": {"bits_per_second": 8e9}}}"#;
        assert_eq!(gb_s(said), Some(1.0));
        assert_eq!(gb_s(br#"{"error": "unable to connect"}"#), None);
        assert_eq!(gb_s(b""), None);
        assert_eq!(
            Iperf(vec![1.0, 2.5]).note(),
            "iperf3 beside it, one stream, before and after: 1.00 and 2.50 GB/s"
        );
        assert!(Iperf::default().note().contains("not measured"));
    }
}
