use serde_json::json;

use super::*;

const SECRET: &str = "hunter2x9";
/// No message of ours advises these options.
const DASHES: &str = "--";

fn scrub(text: &str) -> (String, Removed) {
    let mut removed = Removed::default();
    let mut people = People::default();
    people.add_name(Some("alice".into()));
    let text = Scrubber::new(people).text(text, &mut removed);
    (text, removed)
}

#[track_caller]
fn goes(text: &str) {
    let planted = text.replace('§', SECRET).replace('¬', DASHES);
    let (out, removed) = scrub(&planted);
    assert!(!out.contains("hunter") && !out.contains("2x9"), "{planted:?} became {out:?}");
    assert!(out.contains(REMOVED) && removed.total() > 0, "{planted:?} became {out:?}");
}

#[test]
fn credentials_go_however_they_are_written() {
    for text in [
        "token=§",
        "token = \"§\"",
        "password: §",
        "PASSWORD=§ node=4",
        "a: b, token=§",
        "error: secret: §",
        "db.password = 'x y §'",
        "{\"password\":\"§\",\"node\":4}",
        "{\"api_key\" : \"a \\\" §\"}",
        "log: {\\\"token\\\":\\\"§\\\"}",
        "Authorization: Bearer §",
        "authorization=Bearer §",
        "Cookie: a=1; session=§",
        "passphrase: correct horse §",
        "token: Some(\"a §\")",
        "¬token §",
        "tieline node run ¬password=§ ¬id 4",
        "run ¬join-token '§ §'",
        "sshKey=§",
        "key = §",
        "auth=§",
        "tokens = [\"a\", \"§\"]",
        "tokens = [\n  \"a\",\n  \"§\",\n]",
        "secret = \"\"\"a\n§\nb\"\"\"",
        "secret = '''a\n§'''",
        "password: |\n  §\n  §\nnode: 4",
        "X-Auth-Token: §",
        "secret => §",
        "http://h/?token=§&x=1",
        "bearer §",
        "passwd := §",
    ] {
        goes(text);
    }
    for form in [
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "glpat-0123456789abcdefghij",
        "xoxb-0123456789-abc",
        "sk-0123456789abcdefghijk",
    ] {
        let (out, removed) = scrub(&format!("said {form} to node 4"));
        assert_eq!((out.as_str(), removed.credentials), ("said [removed] to node 4", 1));
    }
}

#[test]
fn what_stands_beside_a_credential_stays_where_its_end_shows() {
    assert_eq!(scrub("a=1 token=x9 b=2").0, "a=1 token=[removed] b=2");
    assert_eq!(scrub("{\"token\":\"x9\",\"node\":4}").0, "{\"token\":[removed],\"node\":4}");
    assert_eq!(scrub("token = \"x9\"\nid = 4\n").0, "token = [removed]\nid = 4\n");
    assert_eq!(scrub("password: a b\nid: 4\n").0, "password: [removed]\nid: 4\n");
}

#[test]
fn private_keys_go_whole_or_cut_off() {
    let body = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\nhunter2x9hunter2x9==\n";
    for text in [
        format!("before\n-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\nafter"),
        format!("before\n-----BEGIN OPENSSH PRIVATE KEY-----\n{body}"),
        format!("{body}-----END PRIVATE KEY-----\nafter"),
        format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{body}-----END PGP PRIVATE KEY BLOCK-----"),
        format!("x \"-----BEGIN EC PRIVATE KEY-----\\n{}\" after", body.replace('\n', "\\n")),
    ] {
        let (out, removed) = scrub(&text);
        assert!(!out.contains("hunter") && !out.contains("MIIE"), "{out}");
        assert_eq!(removed.private_keys, 1, "{out}");
        assert_eq!(out.contains("after"), text.contains("\nafter"), "{out}");
    }
    let public = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    assert_eq!(scrub(public).0, public);
}

#[test]
fn logins_in_addresses_go_and_the_address_stays() {
    for (text, out) in [
        ("postgres://bob:hunter2@db:5432/x", "postgres://[removed]@db:5432/x"),
        ("see https://hunter2@host/a.", "see https://[removed]@host/a."),
        ("https://u:p/w:hunter2@host", "https://[removed]@host"),
        ("\"http://u:p%40@h/\"", "\"http://[removed]@h/\""),
    ] {
        let (got, removed) = scrub(text);
        assert_eq!((got.as_str(), removed.address_logins), (out, 1));
    }
    for innocent in ["https://host:80/a@b", "mail a@b.c", "http://host/x", "ssh user@host"] {
        assert_eq!(scrub(innocent).0, innocent);
    }
}

#[test]
fn innocent_text_survives() {
    let innocent = "\
2026-01-02T03:04:05Z INFO node 4: session with node 8 is valid (generation 3)
tieline verify --health: PASS: 3 nodes, 6 pairs
VERDICT: PASS
monkey = 3, keyboard: us, turnkey=1
passed: 12, author: nobody, bypass=on
[manager]
heartbeat_interval_ms = 1000 # at least 10
error: cannot open /run/tieline/default/node-4.sock: permission denied
basic configuration, bearer certificates, a digest
a=b; c: \"d e\", {\"node\": 4, \"verdict\": \"PASS\"}
scipp  4 B  112.3 ns  x1.02 [1.00, 1.04]
";
    let (out, removed) = scrub(innocent);
    assert_eq!((out.as_str(), removed), (innocent, Removed::default()));
}

#[test]
fn documents_stay_documents() {
    let [token, password] = ["token", "password="].map(|name| format!("{DASHES}{name}"));
    let mut document = json!({
        "schema": "alice.verify/1", "node": 4, "password": "hunter2", "pin": 3,
        "nested": [{"api_key": 12345, "secret": null, "token": ""}, "said token=hunter2 and more", "alice"],
        "credentials": {"name": "hunter2", "list": ["hunter2", true]},
        "argv": ["tieline", token, "hunter2", "-n", "4", password.clone() + "hunter2"],
        "pem": "-----BEGIN PRIVATE KEY-----\nhunter2",
    });
    let mut removed = Removed::default();
    let mut people = People::default();
    people.add_name(Some("alice".into()));
    Scrubber::new(people).document(&mut document, &mut removed);
    let out = document.to_string();
    assert!(!out.contains("hunter") && !out.contains("12345"), "{out}");
    assert_eq!(document["schema"], "alice.verify/1");
    assert_eq!(document["nested"][2], "user");
    assert_eq!(document["argv"], json!(["tieline", token, REMOVED, "-n", "4", password + REMOVED]));
    assert_eq!((removed.credentials, removed.private_keys, removed.user_names), (7, 1, 1));
    // Nothing is left to be done.
    let mut again = Removed::default();
    Scrubber::new(People::default()).document(&mut document, &mut again);
    assert_eq!((document.to_string(), again.private_keys), (out, 0));
}

#[test]
fn a_long_text_takes_no_long_time() {
    // Patterns without memory: each letter is examined a bounded number of times, whatever the text.
    for piece in ["token", "a-b_c.", "-----BEGIN ", "\"\\", "http://a:"] {
        let text = piece.repeat(20_000);
        assert!(scrub(&text).0.len() <= text.len() + REMOVED.len() * 20_000);
    }
}
