//! Reads a document in which any part may be missing.

use std::borrow::Cow;

use serde_json::Value;

/// No text of a document is longer on the page.
const LONGEST_TEXT: usize = 400;

static NOTHING: Value = Value::Null;

/// Fields by their path, with dots: `latency.scipp.rows`.
pub(super) trait Read {
    /// The field, or null.
    fn at(&self, path: &str) -> &Value;

    /// A finite number.
    fn num(&self, path: &str) -> Option<f64> {
        self.at(path).as_f64().filter(|number| number.is_finite())
    }

    /// A number that a logarithmic axis can bear.
    fn positive(&self, path: &str) -> Option<f64> {
        self.num(path).filter(|number| (1e-30..1e30).contains(number))
    }

    /// A number of things; more than a double can count exactly is no valid count.
    fn count(&self, path: &str) -> u64 {
        self.at(path).as_u64().unwrap_or(0).min(1 << 53)
    }

    /// A text that is not empty, shortened.
    fn text(&self, path: &str) -> Option<Cow<'_, str>> {
        self.at(path)
            .as_str()
            .filter(|text| !text.trim().is_empty())
            .map(|text| shortened(text, LONGEST_TEXT))
    }

    /// The elements of a list.
    fn items(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    /// Texts of a list.
    fn texts(&self, path: &str) -> Vec<Cow<'_, str>> {
        let texts = self.items(path).iter().filter_map(Value::as_str);
        texts.filter(|text| !text.trim().is_empty()).map(|text| shortened(text, LONGEST_TEXT)).collect()
    }

    /// The field is there and is not null.
    fn has(&self, path: &str) -> bool {
        !self.at(path).is_null()
    }

    /// A field `verdict`.
    fn verdict(&self) -> Option<Judged> {
        Judged::of(self.at("verdict"))
    }
}

impl Read for Value {
    fn at(&self, path: &str) -> &Value {
        let mut here = self;
        for name in path.split('.') {
            match here.get(name) {
                Some(field) => here = field,
                None => return &NOTHING,
            }
        }
        here
    }
}

/// Cut after so many characters, with a mark.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let rest = text[end..].chars().count();
            Cow::Owned(format!("{}… ({rest} more characters)", &text[..end]))
        }
    }
}

/// A verdict as a document gives it; a page may meet one that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Judged {
    /// As it should be.
    Pass,
    /// Not sure, or a word that this version does not know: never taken for passed.
    Unsure,
    /// Not as it should be.
    Fail,
}

impl Judged {
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "PASS" => Some(Self::Pass),
            "FAIL" => Some(Self::Fail),
            _ => Some(Self::Unsure),
        }
    }

    /// The word.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Unsure => "INCONCLUSIVE",
            Self::Fail => "FAIL",
        }
    }

    /// A symbol that does not depend on colour.
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Pass => "✓",
            Self::Unsure => "?",
            Self::Fail => "✕",
        }
    }

    /// Class of the style sheet.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Unsure => "unsure",
            Self::Fail => "fail",
        }
    }
}
