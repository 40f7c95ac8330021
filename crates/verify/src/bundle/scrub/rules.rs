//! The patterns of secrets.

use regex::{Captures, Regex};

use super::{REMOVED, Removed};

/// Parts of names that only a credential has, wherever in the name.
const PARTS: &str = "passw|passphrase|secret|token|credential|api_?-?key";
/// Words that a name consists of, or ends or begins with; shorter than that they are in innocent ones, too.
const WORDS: &str = "keys?|pwd|auth";
/// What a name is made of.
const NAME: &str = r"[A-Za-z0-9_.\-]";
/// What is between a name and its value; the quotes are those around the name, and there may be backslashes
/// before them.
const IS: &str = r#"\\*["']?[ \t]*(?:=>|:=|[=:])"#;
/// Values whose end shows: what has been removed before, three quotes, quotes with backslashes, quotes, a
/// list over several lines, a block of YAML.
const DELIMITED: &str = r#"\[removed\]|"""(?s:.*?)(?:"""|\z)|'''(?s:.*?)(?:'''|\z)|\\+"[^"\n]*"?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|\[(?:[^\]]*)\]?[^\n]*|[|>][+\-]?[ \t]*\n(?:[ \t]+[^\n]*\n?)+"#;
/// The rest of the line.
const REST: &str = r"[^\r\n]+";

/// Words that are secret by their form.
const FORMS: [&str; 7] = [
    r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]*",
    r"AKIA[0-9A-Z]{16}",
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_\-]{16,}",
    r"xox[abprs]-[A-Za-z0-9\-]{10,}",
    r"sk-[A-Za-z0-9_\-]{20,}",
];

/// Selects the counter of a rule.
type Counts = fn(&mut Removed) -> &mut u64;

/// A pattern, and what is counted where it is found.
#[derive(Debug)]
struct Rule {
    pattern: Regex,
    counts: Counts,
}

/// All of them, in the order in which they are applied.
#[derive(Debug)]
pub(super) struct Rules {
    /// `None`: one of the patterns is none, so nothing can be let through.
    rules: Option<Vec<Rule>>,
    name: Option<Regex>,
}

/// The name of a credential, whole.
fn credential() -> String {
    format!(
        "(?:(?i-u:{NAME}*(?:{PARTS}){NAME}*)|(?-u:\\b)(?i-u:(?:{NAME}*[_.\\-])?(?:{WORDS})(?:[_.\\-]{NAME}*)?)\
         |{NAME}*[a-z0-9](?-i:Key|Keys|Pwd|Auth)|(?i-u:[A-Za-z0-9]+[_.\\-]pass))"
    )
}

/// Each takes out what is in none of its groups: `a` and `b` go before it, `z` comes after it.
fn patterns() -> Vec<(String, Counts)> {
    let credential = credential();
    let credentials: Counts = |removed| &mut removed.credentials;
    let keys: Counts = |removed| &mut removed.private_keys;
    let logins: Counts = |removed| &mut removed.address_logins;
    let key_end = r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----";
    vec![
        // First, as it has several lines. One that is cut off at the end of the text goes as well.
        (
            format!(r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:{key_end}|\z)"),
            keys,
        ),
        // And one whose beginning is cut off.
        (format!(r"(?m)(?:^[A-Za-z0-9+/=]*\r?\n)*[^\n]*{key_end}"), keys),
        // A header, whose value has several words.
        (
            format!(
                r"(?P<a>(?-u:\b)(?i-u:(?:proxy-)?authori[sz]ation|(?:set-)?cookie){IS}[ \t]*)(?:{DELIMITED}|{REST})"
            ),
            credentials,
        ),
        // With blanks behind the sign the value may have some, too: then it is the rest of the line.
        (
            format!(
                r"(?P<a>{credential}{IS}[ \t]+)(?:{DELIMITED}|{REST})|(?P<b>{credential}{IS})(?:{DELIMITED}|[^ \t\r\n]+)"
            ),
            credentials,
        ),
        // An option and its value.
        (
            format!(r#"(?P<a>(?:^|[ \t\r\n"'`])--?{credential}[ \t]+)(?:{DELIMITED}|[^ \t\r\n\-][^ \t\r\n]*)"#),
            credentials,
        ),
        // A password may hold anything but blanks; what has only digits before the path is a port.
        (
            r#"(?P<a>[A-Za-z][A-Za-z0-9+.\-]*://)(?:[^/ \t\r\n@"'<>]*|[^/ \t\r\n:@"'<>]*:[0-9]*[^0-9/ \t\r\n@"'<>][^ \t\r\n@"'<>]*)(?P<z>@)"#.into(),
            logins,
        ),
        (r"(?P<a>(?-u:\b)(?i-u:bearer)[ \t]+)[A-Za-z0-9._~+/=\-]*[0-9][A-Za-z0-9._~+/=\-]*".into(), credentials),
        (format!(r"(?-u:\b)(?:{})", FORMS.join("|")), credentials),
    ]
}

impl Rules {
    pub(super) fn new() -> Self {
        // The patterns are constants, and that each of them is one is under test.
        let rules = patterns()
            .into_iter()
            .map(|(pattern, counts)| Some(Rule { pattern: Regex::new(&pattern).ok()?, counts }));
        Self { rules: rules.collect(), name: Regex::new(&format!("^-*{}$", name_alone())).ok() }
    }

    pub(super) fn is_credential(&self, name: &str) -> bool {
        // If it cannot be decided, it counts as one.
        self.name.as_ref().is_none_or(|pattern| pattern.is_match(name))
    }

    pub(super) fn apply(&self, text: &str, removed: &mut Removed) -> String {
        let mut text = text.to_owned();
        let Some(rules) = &self.rules else {
            removed.credentials += 1;
            return REMOVED.to_owned();
        };
        for rule in rules {
            let count = (rule.counts)(removed);
            let replaced = rule.pattern.replace_all(&text, |found: &Captures<'_>| {
                let kept =
                    ["a", "b"].iter().find_map(|name| found.name(name)).map_or("", |kept| kept.as_str());
                *count += 1;
                let after = found.name("z").map_or("", |kept| kept.as_str());
                format!("{kept}{REMOVED}{after}")
            });
            text = replaced.into_owned();
        }
        text
    }
}

/// Headers are credentials as names of fields, too.
fn name_alone() -> String {
    format!("(?:{}|(?i-u:(?:proxy-)?authori[sz]ation|(?:set-)?cookie))", credential())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        for (pattern, _) in patterns() {
            Regex::new(&pattern).unwrap();
        }
        let rules = Rules::new();
        assert!(rules.rules.is_some() && rules.name.is_some());
    }

    #[test]
    fn without_rules_nothing_is_let_through() {
        let (rules, mut removed) = (Rules { rules: None, name: None }, Removed::default());
        assert!(rules.is_credential("node") && rules.apply("node 4", &mut removed) == REMOVED);
    }

    #[test]
    fn names_of_credentials_are_told_from_others() {
        let rules = Rules::new();
        for name in [
            "token",
            "TIELINE_JOIN_TOKEN",
            "password",
            "db.passwd",
            "passphrase",
            "secret",
            "client_secret",
            "key",
            "KEY",
            "api-key",
            "apikey",
            "sshKey",
            "private_key",
            "Authorization",
            "auth",
            "X-Auth-Token",
            "set-cookie",
            "--password",
            "DB_PASS",
            "credentials",
        ] {
            assert!(rules.is_credential(name), "{name}");
        }
        for name in ["monkey", "keyboard", "pass", "PASS", "author", "node", "pin", "TIELINE_NODE", "turnkey"]
        {
            assert!(!rules.is_credential(name), "{name}");
        }
    }
}
