//! Whether verify's verdict can be trusted: no alarm on a healthy cluster, and planted faults found, with the
//! suspect named. Beside programs that compute, too: then a fault is found and rightly named, or nothing is
//! said for sure.
//!
//! A binary of its own, so that it runs while no other test does. The short form is one of each; `./run soak`
//! sets `TIELINE_JUDGEMENT_RUNS` for the long one: so many planted faults, and twice as many healthy runs;
//! `TIELINE_JUDGEMENT_HEALTHY`, if it is given, is the number of healthy runs instead;
//! `TIELINE_JUDGEMENT_BUSY`, if it is given: beside so many programs that compute.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod computing;

use std::sync::{Mutex, PoisonError};

use computing::Computing;
use serde_json::{Value, json};
use tieline_tests::{Cluster, Random, Watchdog};

const NODES: [u32; 4] = [4, 8, 12, 16];

/// A fault, and the node or link that is to be named for it.
struct Planted {
    words: Vec<String>,
    suspect: Value,
}

/// The kinds in turn, each between two nodes drawn by lot.
fn plant(number: usize, random: &mut Random) -> Planted {
    let first = random.below(4);
    let second = (first + 1 + random.below(3)) % 4;
    let pair = [NODES[first.min(second)], NODES[first.max(second)]];
    let [a, b] = pair.map(|node| node.to_string());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let degraded = |how: &[&str]| Planted {
        words: words(&[&["degrade", &a, &b], how].concat()),
        suspect: json!({ "link": pair }),
    };
    match number % 5 {
        0 => degraded(&["--delay", "2us"]),
        1 => degraded(&["--loss", "1%"]),
        2 => degraded(&["--speed", "80%"]),
        3 => degraded(&["--stall", "5ms/1s"]),
        _ => Planted { words: words(&["swap", &a, &b]), suspect: json!({ "swapped": pair }) },
    }
}

/// What verify says of a cluster.
struct Said {
    verdict: String,
    suspects: Vec<Value>,
    /// Why speed could not be judged, if so.
    busy: Option<String>,
    advice: String,
    why: String,
}

/// What verify says of a fresh cluster of four, with this fault if any.
fn verify(fault: Option<&Planted>) -> Said {
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["up", "--nodes", "4", "--faults"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    if let Some(fault) = fault {
        let words: Vec<&str> =
            std::iter::once("link").chain(fault.words.iter().map(String::as_str)).collect();
        let (status, out, err) = cluster.run(&words).unwrap();
        assert_eq!(status, 0, "{words:?}: {out}{err}");
    }
    // The plan of about 5 s: the curves of one pair, which are the rest of the usual one, judge no link.
    let (_, out, err) = cluster.run(&["verify", "--running", "--quick", "--json", "--quiet"]).unwrap();
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let suspects = report["culprits"].as_array().unwrap().clone();
    let details = report["steps"].as_array().unwrap().iter().filter(|step| step["verdict"] != "PASS");
    let details: Vec<String> = details.map(Value::to_string).collect();
    Said {
        verdict: report["verdict"].as_str().unwrap().to_owned(),
        suspects: suspects.iter().map(|suspected| suspected["suspect"].clone()).collect(),
        busy: report["busy"].as_str().map(ToOwned::to_owned),
        advice: report["advice"].to_string(),
        why: format!(
            "{} {} {}",
            details.join(" "),
            serde_json::to_string(&suspects).unwrap(),
            report["busy"]
        ),
    }
}

/// What came of many runs.
#[derive(Default)]
struct Tally {
    planted: usize,
    healthy: usize,
    /// Planted faults that were found and named.
    named: usize,
    /// Planted faults of which nothing was said for sure, and how many of those without other work as the
    /// reason.
    open: Vec<String>,
    open_when_quiet: usize,
    /// Planted faults that passed or were misnamed.
    wrong: Vec<String>,
    /// Healthy runs that failed, and that stayed open.
    alarms: Vec<String>,
    inconclusive: Vec<String>,
}

impl Tally {
    fn plant(&mut self, fault: &Planted) {
        let said = verify(Some(fault));
        self.planted += 1;
        let text = format!("{:?}: {}, named {:?}: {}", fault.words, said.verdict, said.suspects, said.why);
        if said.verdict == "FAIL" && said.suspects == [fault.suspect.clone()] {
            self.named += 1;
        } else if said.verdict == "INCONCLUSIVE" && said.suspects.is_empty() {
            println!("open: {text}");
            self.open_when_quiet += usize::from(said.busy.is_none());
            self.open.push(text);
        } else {
            println!("missed or misnamed: {text}");
            self.wrong.push(text);
        }
    }

    fn healthy(&mut self) {
        let said = verify(None);
        self.healthy += 1;
        match said.verdict.as_str() {
            "FAIL" => {
                println!("false alarm: {}", said.why);
                self.alarms.push(said.why);
            }
            "INCONCLUSIVE" => {
                // A run that others disturb is not advised to measure longer; it names what disturbed.
                if said.busy.is_some() {
                    assert!(said.advice.contains("the machine was busy"), "{}", said.advice);
                }
                println!("healthy, left open: {}", said.why);
                self.inconclusive.push(said.why);
            }
            _ => {}
        }
    }

    fn say(&self, beside: usize) {
        println!(
            "judgement, beside {beside} computing: {} of {} planted faults found and named, {} open, {} missed or misnamed; \
             {} false alarm(s) and {} inconclusive in {} healthy runs",
            self.named,
            self.planted,
            self.open.len(),
            self.wrong.len(),
            self.alarms.len(),
            self.inconclusive.len(),
            self.healthy
        );
    }

    /// So many of each, beside so many programs that compute.
    fn of(planted: usize, healthy: usize, beside: usize) -> Self {
        // The two tests would be each other's other work.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // A run takes seconds, beside many programs a minute: five minutes without a verdict are a hang.
        let watchdog = Watchdog::new("judgement", std::time::Duration::from_secs(300));
        let (mut random, mut tally, _computing) =
            (Random::new("judgement"), Self::default(), Computing::start(beside));
        // In a short sample chance chooses among the kinds.
        let first = if planted < 5 { random.below(5) } else { 0 };
        for number in 0..planted.max(healthy) {
            if number < planted {
                tally.plant(&plant(first + number, &mut random));
                watchdog.progress();
            }
            if number < healthy {
                tally.healthy();
                watchdog.progress();
            }
        }
        tally.say(beside);
        assert!(tally.alarms.is_empty(), "false alarms:\n{}", tally.alarms.join("\n"));
        tally
    }
}

/// Healthy runs that were asked for, or so many.
fn healthy_runs(usual: usize) -> usize {
    given("TIELINE_JUDGEMENT_HEALTHY").unwrap_or(usual)
}

fn given(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn quiet_clusters_raise_no_alarm_and_planted_faults_are_found_and_named() {
    let runs = given("TIELINE_JUDGEMENT_RUNS");
    if given("TIELINE_JUDGEMENT_BUSY").is_some() {
        println!("left out: TIELINE_JUDGEMENT_BUSY asks for runs beside other programs");
        return;
    }
    let (planted, healthy) = runs.map_or((5, 2), |planted| (planted, 2 * planted));
    let tally = Tally::of(planted, healthy_runs(healthy), 0);
    assert!(tally.wrong.is_empty(), "missed or misnamed:\n{}", tally.wrong.join("\n"));
    // In a short sample one of a machine that others use says nothing.
    assert!(tally.open_when_quiet <= 1 + planted / 100, "left open:\n{}", tally.open.join("\n"));
    if runs.is_some() {
        let (open, inconclusive) = (tally.open.len(), tally.inconclusive.len());
        let healthy = tally.healthy;
        assert!(open * 100 <= planted, "left open:\n{}", tally.open.join("\n"));
        assert!(
            inconclusive * 10 <= healthy,
            "{inconclusive} of {healthy} quiet runs were inconclusive:\n{}",
            tally.inconclusive.join("\n")
        );
    }
}

#[test]
fn beside_programs_that_compute_nothing_healthy_fails_and_nothing_planted_passes() {
    let (runs, beside) = (given("TIELINE_JUDGEMENT_RUNS"), given("TIELINE_JUDGEMENT_BUSY"));
    if runs.is_some() && beside.is_none() {
        println!("left out: TIELINE_JUDGEMENT_RUNS without TIELINE_JUDGEMENT_BUSY asks for quiet runs");
        return;
    }
    let (planted, healthy) = runs.map_or((1, 1), |planted| (planted, 3 * planted));
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let tally = Tally::of(planted, healthy_runs(healthy), beside.unwrap_or(processors));
    assert!(tally.wrong.is_empty(), "missed or misnamed:\n{}", tally.wrong.join("\n"));
}
