//! What an agent takes for a job, and what a tool takes for an agent.

use serde_json::{Value, json};

use super::serve::{answers, first_unknown};
use super::team::{check_ready, show};
use super::*;
use crate::target::Target;

fn node(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

/// The last line of an agent of node 8 that gets this.
fn said_to(order: &str) -> Value {
    let target = Target { runtime_dir: Some("/nowhere".into()), cluster: None, nodes: vec![node(8)] };
    let lines = answers(&target, node(8), order.as_bytes());
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(first, json!({ "ready": { "schema": SCHEMA } }));
    lines.last().map(|line| serde_json::from_str(line).unwrap()).unwrap()
}

fn order(change: impl Fn(&mut Value)) -> Value {
    let target = Target { runtime_dir: None, cluster: None, nodes: vec![node(4), node(8)] };
    let job = ConntestJob::new(&Options::for_target(&target, Duration::from_secs(1)));
    let mut order =
        serde_json::to_value(Order { schema: SCHEMA.to_owned(), job: Job::Conntest(job) }).unwrap();
    change(&mut order);
    order
}

fn refused(order: &Value) -> String {
    let said = said_to(&format!("{order}\n"));
    said.pointer("/refused/why").and_then(Value::as_str).unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn an_agent_does_only_what_it_knows() {
    for (order, why) in [
        (
            order(|order| order["schema"] = json!("tieline-agent/2")),
            "it speaks tieline-agent/1 and the tool tieline-agent/2",
        ),
        (order(|order| order["schema"] = json!(1)), "names no schema"),
        (order(|order| order["job"] = json!({ "run": { "command": "true" } })), "unknown variant `run`"),
        (order(|order| order["job"]["conntest"]["save"] = json!("/tmp/x")), "unknown field `save`"),
        (order(|order| order["also"] = json!(1)), "unknown field `also`"),
        (json!(["tieline-agent/1"]), "names no schema"),
    ] {
        let said = refused(&order);
        assert!(said.contains(why), "{said}");
    }
    assert!(refused(&json!("x")).contains("names no schema"));
    assert!(said_to("what\n").pointer("/refused/why").unwrap().as_str().unwrap().contains("no JSON"));
    let long = "x".repeat(MOST_ORDER_BYTES + 40_000);
    assert!(said_to(&long).pointer("/refused/why").unwrap().as_str().unwrap().contains("more than"));
    // Without a job it says no more.
    assert_eq!(said_to(""), json!({ "ready": { "schema": SCHEMA } }));
}

#[test]
fn an_agent_checks_the_options_itself() {
    let job = |change: fn(&mut Value)| order(move |order| change(&mut order["job"]["conntest"]));
    for (order, why) in [
        (job(|job| job["nodes"] = json!([4])), "node 8 is not among the nodes"),
        (job(|job| job["nodes"] = json!([8, 4])), "ascending"),
        (job(|job| job["block_bytes"] = json!(1 << 30)), "--size"),
        (
            job(|job| {
                job["nodes"] = (1..=30).map(|nth| json!(4 * nth)).collect();
                job["block_bytes"] = json!(16 << 20);
            }),
            "take more than 512 MiB: choose shorter blocks",
        ),
        (job(|job| job["min_bytes"] = json!(0)), "--min-size"),
        (job(|job| job["duration_ms"] = json!(0)), "more than 0 seconds"),
        (job(|job| job["duration_ms"] = json!(u64::MAX)), "longer than"),
        (job(|job| job["meet_within_ms"] = json!(u64::MAX)), "longer than"),
        (job(|job| job["loops"] = json!(0)), "--loops 0: give at least 1"),
        (job(|job| job["throttle_bytes_per_s"] = json!(0)), "--throttle"),
    ] {
        let said = refused(&order);
        assert!(said.contains(why), "{said}");
    }
}

/// For each node an inbox is made: who invents nodes gets none.
#[test]
fn an_agent_makes_nothing_for_nodes_that_its_manager_does_not_know() {
    let known = [node(4), node(12)];
    assert_eq!(first_unknown(node(8), &[node(4), node(8), node(12)], &known), None);
    assert_eq!(first_unknown(node(8), &[node(8), node(16)], &known), Some(node(16)));
}

#[test]
fn a_node_that_cannot_be_attached_to_is_in_the_report() {
    let said = said_to(&format!("{}\n", order(|_| ())));
    assert_eq!(said["conntest"]["node"], 8);
    assert!(said["conntest"]["error"].as_str().unwrap().contains("/nowhere"), "{said}");
}

#[test]
fn an_agent_of_another_version_is_named_with_both_versions() {
    assert!(check_ready(br#"{"ready":{"schema":"tieline-agent/1","more":1}}"#).is_ok());
    let error = check_ready(br#"{"ready":{"schema":"tieline-agent/7"}}"#).unwrap_err();
    assert!(matches!(&error, AgentError::Schema { theirs } if theirs == "tieline-agent/7"));
    assert!(error.to_string().contains("its agent speaks tieline-agent/7 and this program tieline-agent/1"));
    for line in [&b"hello"[..], b"{}", b"{\"ready\":1}"] {
        assert!(matches!(check_ready(line), Err(AgentError::Malformed { .. })));
    }
}

#[test]
fn what_an_agent_says_is_shown_and_does_nothing_else() {
    let mut said = json!({ "a": ["\u{1b}[2J", { "b": "x".repeat(5000) }], "n": 1 });
    show(&mut said);
    assert_eq!(said["a"][0], "?[2J");
    assert_eq!(said["a"][1]["b"].as_str().unwrap().len(), 1000);
    assert_eq!(said["n"], 1);
}

#[test]
fn the_static_test_takes_no_other_options() {
    let diag = |job: Value| order(move |order| order["job"] = json!({ "diag": job.clone() }));
    let plain = json!({ "prod": true, "hosts": null, "clear": false });
    let said = said_to(&format!("{}\n", diag(plain.clone())));
    let found = &said["diag"]["node"]["findings"][0]["text"];
    assert!(found.as_str().unwrap().starts_with("node 8 cannot be tested"), "{said}");
    let mut more = plain;
    more["file"] = json!("/tmp/x");
    assert!(refused(&diag(more)).contains("unknown field `file`"));
}
