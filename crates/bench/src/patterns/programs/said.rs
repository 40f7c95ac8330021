//! Extracts one number from a program's output.

/// The time, one way, that half of sockperf's round trips did not exceed, in ns (`percentile
/// 50.000`, in µs).
pub(super) fn ping_pong_ns(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.split("percentile 50.000").nth(1))?;
    positive(line.trim_start().strip_prefix('=')?).map(|us| us * 1e3)
}

/// Messages of sockperf's throughput test, in millions a second.
pub(super) fn throughput_millions(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.split("Message Rate is").nth(1))?;
    positive(line).map(|rate| rate / 1e6)
}

/// The data rate of iperf3's stream at the receiver, in GB a second. The format is JSON (`-J`).
pub(super) fn stream_gb(said: &str) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_str(said).ok()?;
    let bits = report.pointer("/end/sum_received/bits_per_second")?.as_f64()?;
    is_a_rate(bits).then_some(bits / 8e9)
}

/// Requests of redis-benchmark's GET, in millions a second. The form is CSV.
pub(super) fn redis_millions(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("\"GET\""))?;
    positive(line.split(',').nth(1)?.trim_matches('"')).map(|rate| rate / 1e6)
}

/// Requests of wrk, in millions a second; nothing if any of them failed.
pub(super) fn wrk_millions(said: &str) -> Option<f64> {
    if said.contains("Socket errors") || said.contains("Non-2xx") {
        return None;
    }
    let line = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"))?;
    positive(line).map(|rate| rate / 1e6)
}

/// The first word as a number that can be a measurement.
fn positive(text: &str) -> Option<f64> {
    let number = text.split_whitespace().next()?.parse().ok()?;
    is_a_rate(number).then_some(number)
}

fn is_a_rate(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sockperf 3.7, with the colours that it prints also where there is no terminal.
    const PING_PONG: &str = "\
sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=738020; ReceivedMessages=738020
sockperf: \u{1b}[2;35m====> avg-latency=0.425 (std-dev=6.600)\u{1b}[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 0.425 usec
sockperf: \u{1b}[2;35mTotal 550430 observations\u{1b}[0m; each percentile contains 5504.30 observations
sockperf: ---> <MAX> observation = 2508.539
sockperf: ---> percentile 99.000 =    0.481
sockperf: ---> percentile 50.000 =    0.394
sockperf: ---> percentile 25.000 =    0.388
sockperf: ---> <MIN> observation =    0.308
";

    #[test]
    fn sockperf_ping_pong() {
        assert_eq!(ping_pong_ns(PING_PONG), Some(394.0));
        let broken = "sockperf: ERROR: _seqN > m_maxSequenceNo (errno=0 Success)\n";
        assert_eq!(ping_pong_ns(broken), None);
        assert_eq!(ping_pong_ns("sockperf: ---> percentile 50.000 =    0.000\n"), None);
        assert_eq!(ping_pong_ns("sockperf: ---> percentile 50.000 =\n"), None);
    }

    #[test]
    fn sockperf_throughput() {
        let said = "\
sockperf: Total of 4749175 messages sent in 1.000 sec

sockperf: \u{1b}[2;35mNOTE: test was performed, using msg-size=14. For getting maximum throughput consider using --msg-size=1472\u{1b}[0m
sockperf: Summary: Message Rate is 4746985 [msg/sec]
sockperf: Summary: BandWidth is 63.379 MBps (507.033 Mbps)
";
        assert_eq!(throughput_millions(said), Some(4.746_985));
        assert_eq!(throughput_millions(PING_PONG), None);
    }

    #[test]
    fn iperf3_json() {
        let said = r#"{"start": {"version": "iperf 3.12"}, "intervals": [],
            "end": {"streams": [], "sum_sent": {"bytes": 1073741824, "bits_per_second": 24093432158.0},
            "sum_received": {"start": 0, "end": 0.356574, "seconds": 0.356574, "bytes": 1073741824,
            "bits_per_second": 24090164217.2, "sender": true}}}"#;
        let rate = stream_gb(said).unwrap();
        assert!((rate - 3.011_270).abs() < 1e-5, "{rate}");
        assert_eq!(
            stream_gb(r#"{"error": "error - the server is busy running a test. try again later"}"#),
            None
        );
        assert_eq!(stream_gb(r#"{"end": {"sum_received": {"bits_per_second": 0}}}"#), None);
        assert_eq!(stream_gb("iperf3: error"), None);
    }

    #[test]
    fn redis_csv() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"GET\",\"121951.22\",\"0.221\",\"0.064\",\"0.215\",\"0.311\",\"0.367\",\"0.799\"\n";
        assert_eq!(redis_millions(said), Some(0.121_951_22));
        assert_eq!(redis_millions("\"test\",\"rps\"\n"), None);
        assert_eq!(redis_millions("\"GET\",\"inf\"\n"), None);
    }

    #[test]
    fn wrk_text() {
        let said = "Running 1s test @ http://127.0.0.1:41235/file\n  1 threads and 64 connections\n  \
                    Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.26ms    0.97ms  14.12ms   92.13%\n    \
                    Req/Sec    53.80k     4.65k   60.12k    80.00%\n  53716 requests in 1.01s, 64.40MB read\n\
                    Requests/sec:  53214.56\nTransfer/sec:     63.80MB\n";
        assert_eq!(wrk_millions(said), Some(0.053_214_56));
        let failed = format!("  Non-2xx or 3xx responses: 12\n{said}");
        assert_eq!(wrk_millions(&failed), None);
        let torn = format!("  Socket errors: connect 0, read 3, write 0, timeout 0\n{said}");
        assert_eq!(wrk_millions(&torn), None);
    }
}
