//! Whether all dependencies may be used under the licences that `deny.toml` allows.
//!
//! `cargo deny` does this and more; this much needs nothing installed and no network, so it can run in every
//! test.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A dependency that may not be used, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// Name and version.
    pub package: String,
    /// Why, and what to do.
    pub why: String,
}

/// The licences that a `deny.toml` allows.
pub fn allowed(deny: &str) -> Result<BTreeSet<String>> {
    let table: toml::Table = toml::from_str(deny).context("deny.toml is not TOML")?;
    let list =
        table.get("licenses").and_then(|licences| licences.get("allow")).and_then(|list| list.as_array());
    let list = list.context("deny.toml has no list `allow` under `[licenses]`")?;
    Ok(list.iter().filter_map(|name| name.as_str()).map(str::to_owned).collect())
}

/// Checks the output of `cargo metadata`; returns how many packages of others there are, and those refused.
pub fn check(metadata: &str, allowed: &BTreeSet<String>) -> Result<(usize, Vec<Refused>)> {
    let metadata: Value =
        serde_json::from_str(metadata).context("the output of cargo metadata is not JSON")?;
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("cargo metadata names no packages")?;
    let mut count = 0;
    let mut refused = Vec::new();
    // Packages without a source are this workspace's own.
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        count += 1;
        let text = |key: &str| package[key].as_str().unwrap_or("");
        let why = match text("license") {
            "" => {
                Some("it names no licence: read its licence file, and replace it if there is none".to_owned())
            }
            licence => match satisfied(licence, allowed) {
                Ok(true) => None,
                Ok(false) => Some(format!("`{licence}` is not allowed by deny.toml: use another package")),
                Err(error) => Some(format!("`{licence}`: {error}")),
            },
        };
        if let Some(why) = why {
            refused.push(Refused { package: format!("{} {}", text("name"), text("version")), why });
        }
    }
    Ok((count, refused))
}

/// Evaluates a licence expression (SPDX 2.3, annex D): `WITH` binds closest, then `AND`, then `OR`.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> Result<bool> {
    // Old manifests write a slash for OR.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = any_of(&words, &mut at, allowed)?;
    if at != words.len() {
        bail!("not a licence expression from `{}` on", words[at]);
    }
    Ok(value)
}

fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Result<bool> {
    let mut value = all_of(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= all_of(words, at, allowed)?;
    }
    Ok(value)
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Result<bool> {
    let mut value = one(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at, allowed)?;
    }
    Ok(value)
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Result<bool> {
    let Some(word) = words.get(*at) else { bail!("a licence is missing at its end") };
    *at += 1;
    match *word {
        "(" => {
            let value = any_of(words, at, allowed)?;
            if words.get(*at) != Some(&")") {
                bail!("a bracket is not closed");
            }
            *at += 1;
            Ok(value)
        }
        ")" | "AND" | "OR" | "WITH" => bail!("a licence is missing before `{word}`"),
        name if words.get(*at) == Some(&"WITH") => {
            let Some(exception) = words.get(*at + 1) else { bail!("an exception is missing behind WITH") };
            *at += 2;
            Ok(allowed.contains(&format!("{name} WITH {exception}")))
        }
        name => Ok(allowed.contains(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> BTreeSet<String> {
        allowed("[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Apache-2.0 WITH LLVM-exception\"]").unwrap()
    }

    #[test]
    fn expressions_are_evaluated() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "MIT AND Apache-2.0",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND GPL-2.0 OR MIT",
        ] {
            assert!(satisfied(good, &list()).unwrap(), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "MIT WITH Other", "(MIT OR GPL-3.0) AND MPL-2.0", "mit"] {
            assert!(!satisfied(bad, &list()).unwrap(), "{bad}");
        }
        for nonsense in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "AND", "MIT WITH", ")"] {
            assert!(satisfied(nonsense, &list()).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn packages_of_others_are_checked_and_our_own_are_not() {
        let metadata = r#"{"packages": [
            {"name": "ours", "version": "1", "source": null, "license": "Secret"},
            {"name": "good", "version": "2", "source": "x", "license": "MIT"},
            {"name": "bad", "version": "3", "source": "x", "license": "GPL-3.0"},
            {"name": "mute", "version": "4", "source": "x", "license": null}]}"#;
        let (count, refused) = check(metadata, &list()).unwrap();
        let names: Vec<&str> = refused.iter().map(|refused| refused.package.as_str()).collect();
        assert_eq!((count, names.as_slice()), (3, ["bad 3", "mute 4"].as_slice()));
    }

    #[test]
    fn a_file_without_a_list_is_refused() {
        assert!(allowed("").is_err() && allowed("[licenses]\nallow = 1").is_err() && allowed("=").is_err());
        assert!(check("{}", &list()).is_err());
    }
}
