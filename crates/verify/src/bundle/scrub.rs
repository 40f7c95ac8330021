//! Removes secrets and private data from texts and documents. `docs/bundle.md` says in words what
//! that is; the two must agree.
//!
//! Rather too much than too little: what looks like a credential goes, even if a reader could have used it.

mod people;
mod rules;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

pub(super) use people::People;
use rules::Rules;

/// What is in the place of what was taken out.
pub(super) const REMOVED: &str = "[removed]";

/// How much was taken out or replaced, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Removed {
    /// Values of what is named like a credential, and words that have the form of a known kind of token.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) credentials: u64,
    /// Private keys.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) private_keys: u64,
    /// User and password in addresses.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) address_logins: u64,
    /// Paths of home directories.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) home_paths: u64,
    /// Names of users.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) user_names: u64,
}

/// Counts of 0 are left out. (The signature is that of the serializer.)
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Removed {
    /// All kinds together.
    #[cfg(test)]
    fn total(&self) -> u64 {
        self.credentials + self.private_keys + self.address_logins + self.home_paths + self.user_names
    }

    /// Counts those of another, too.
    pub(super) fn add(&mut self, other: &Self) {
        self.credentials += other.credentials;
        self.private_keys += other.private_keys;
        self.address_logins += other.address_logins;
        self.home_paths += other.home_paths;
        self.user_names += other.user_names;
    }
}

/// Knows what has to go.
#[derive(Debug)]
pub(super) struct Scrubber {
    rules: Rules,
    people: People,
}

impl Scrubber {
    /// Hides these people, besides secrets.
    pub(super) fn new(people: People) -> Self {
        Self { rules: Rules::new(), people }
    }

    /// A text without what has to go.
    pub(super) fn text(&self, text: &str, removed: &mut Removed) -> String {
        let text = self.rules.apply(text, removed);
        self.people.hide(text, removed)
    }

    /// The same for every text of a document. What its keys call a credential goes whole; the name of its
    /// form stays.
    pub(super) fn document(&self, value: &mut Value, removed: &mut Removed) {
        match value {
            Value::String(text) => *text = self.text(text, removed),
            Value::Array(items) => self.items(items, removed),
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut().filter(|(name, _)| *name != "schema") {
                    if self.rules.is_credential(name) {
                        blot_out(field, removed);
                    } else {
                        self.document(field, removed);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A list may be a command line, in which the value is behind its name.
    fn items(&self, items: &mut [Value], removed: &mut Removed) {
        let mut named = false;
        for item in items {
            let names_next = item.as_str().is_some_and(|text| {
                text.starts_with('-') && !text.contains('=') && self.rules.is_credential(text)
            });
            if named && !names_next {
                blot_out(item, removed);
            } else {
                self.document(item, removed);
            }
            named = names_next;
        }
    }
}

/// Leaves nothing of a value but its shape.
fn blot_out(value: &mut Value, removed: &mut Removed) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::String(text) if text.is_empty() || text == REMOVED => {}
        Value::String(_) | Value::Number(_) => {
            removed.credentials += 1;
            *value = REMOVED.into();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| blot_out(item, removed)),
        Value::Object(fields) => fields.values_mut().for_each(|field| blot_out(field, removed)),
    }
}
