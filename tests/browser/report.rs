//! A real run's page, and one of a cluster in trouble.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tieline_tests::{Cluster, Watchdog};

use crate::browser::{Browser, Look, find};

const DESK: Look = Look { width: 1280, height: 2400, dark: false };
const NIGHT: Look = Look { dark: true, ..DESK };
const NARROW: Look = Look { width: 400, height: 2400, dark: false };

/// The page of a real run, and its document.
fn real_run(browser: &Browser) -> (PathBuf, Value) {
    let cluster = Cluster::empty().unwrap();
    let page = browser.file("report.html");
    let (status, out, err) =
        cluster.run(&["verify", "--nodes", "3", "--json", "--report", page.to_str().unwrap()]).unwrap();
    // A measurement on a machine that others use may be inconclusive or worse; a page there must be.
    assert!(matches!(status, 0 | 1 | 3), "{status}: {out}{err}");
    (page, serde_json::from_str(&out).unwrap())
}

/// What is measured in the page itself needs a script, which the page's own policy forbids.
fn with_script(browser: &Browser, page: &Path, script: &str) -> PathBuf {
    let html = std::fs::read_to_string(page).unwrap();
    let policy = html.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + html[policy..].find('>').unwrap() + 1;
    let html = format!("{}{}", &html[..policy], &html[end..]);
    browser.page("scripted.html", &html.replace("</body>", &format!("<script>{script}</script></body>")))
}

/// Width of the content and of the window.
fn widths(browser: &Browser, page: &Path, look: Look) -> (u32, u32) {
    let script = "document.documentElement.setAttribute('data-wide', document.documentElement.scrollWidth + ' ' + innerWidth)";
    let elements = browser.elements(&with_script(browser, page, script), look);
    let value = elements.split("data-wide=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let (content, window) = value.split_once(' ').unwrap();
    (content.parse().unwrap(), window.parse().unwrap())
}

/// All looks at a page.
fn look_at(browser: &Browser, page: &Path) {
    for look in [DESK, NIGHT, NARROW] {
        let (picture, visit) = browser.screenshot(page, look);
        assert_eq!((picture.width as u32, picture.height as u32), (look.width, look.height));
        picture.shows_much().unwrap_or_else(|why| panic!("{} wide, dark {}: {why}", look.width, look.dark));
        assert_eq!(picture.background() < 80, look.dark, "brightness {}", picture.background());
        assert_eq!(visit.console(), Vec::<String>::new());
        assert_eq!(visit.requests(), Vec::<String>::new());
    }
    for look in [DESK, NARROW] {
        let (content, window) = widths(browser, page, look);
        assert!(content <= window, "{content} wide in a window of {window}");
    }
    let paper = browser.print(page);
    assert!(paper.starts_with(b"%PDF-") && paper.len() > 20_000, "{} bytes", paper.len());
}

#[test]
fn a_real_run_is_a_page_on_every_screen_and_on_paper() {
    let _watchdog = Watchdog::new("report in a browser", std::time::Duration::from_secs(600));
    let Some(browser) = find("a_real_run_is_a_page_on_every_screen_and_on_paper") else { return };
    let (page, document) = real_run(&browser);
    let html = std::fs::read_to_string(&page).unwrap();
    let verdict = document["verdict"].as_str().unwrap();
    assert!(html.len() <= 1_000_000 && html.contains(&format!("<title>{verdict}: cluster ")));
    look_at(&browser, &page);
}

/// 64 nodes, a slow link and one that loses data.
fn in_trouble() -> Value {
    let ids: Vec<u64> = (1..=64).map(|node| node * 4).collect();
    let pairs =
        ids.iter().flat_map(|from| ids.iter().map(move |to| (*from, *to))).filter(|(from, to)| from != to);
    let pairs: Vec<Value> = pairs
        .map(|(from, to)| {
            let slow = [from, to] == [8, 40] || [from, to] == [40, 8];
            let verdict = if slow { "FAIL" } else { "PASS" };
            json!({ "pair": [from, to], "latency": { "p50_ns": 60 + (from + to) % 9, "ratio": 1.0, "verdict": "PASS" },
                "block": { "p50_ns": 9000, "ratio": if slow { 3.1 } else { 1.0 }, "verdict": verdict },
                "bandwidth_bytes_per_s": if slow { 4.6e9 } else { 14.2e9 }, "stalls": 0, "verdict": verdict,
                "problems": if slow { vec!["bandwidth: a block of 128 KiB takes 28000 ns"] } else { vec![] } })
        })
        .collect();
    json!({ "schema": "tieline.verify/1", "verdict": "FAIL", "cluster": "machine room 2", "duration_s": 48.0,
        "partial": "ended after the measurement of the pairs",
        "steps": [{ "name": "pairs", "verdict": "FAIL", "detail": "4032 pairs, 2 bad", "duration_s": 44.0 }],
        "pairs": { "verdict": "FAIL", "block_bytes": 131_072, "pairs": pairs, "culprits": [
            { "suspect": { "link": [8, 40] }, "evidence": ["from node 8 to node 40, bandwidth: a block of 128 KiB takes 28000 ns"] }] } })
}

#[test]
fn a_large_cluster_in_trouble_is_a_page_too() {
    let _watchdog = Watchdog::new("large report in a browser", std::time::Duration::from_secs(600));
    let Some(browser) = find("a_large_cluster_in_trouble_is_a_page_too") else { return };
    let document = browser.page("verify.json", &in_trouble().to_string());
    let page = browser.file("report.html");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster
        .run(&["verify", "--from", document.to_str().unwrap(), "--report", page.to_str().unwrap()])
        .unwrap();
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
    look_at(&browser, &page);
}
