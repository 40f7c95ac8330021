//! A lexer for Rust, just good enough to tell code from comments and strings, and tests from the rest.
//!
//! The compiler's own parser would drop the comments, and those are what half of the rules are about.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Identifier or keyword.
    Word,
    /// One character of punctuation.
    Mark,
    /// String, character or number.
    Literal,
    /// Lifetime, with its tick.
    Lifetime,
    /// Comment of any form, with its slashes.
    Comment,
}

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'s> {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'s str,
    /// Line on which it starts, from 1.
    pub line: usize,
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Comment && self.kind != Kind::Literal && self.text == text
    }
}

/// Splits a source into tokens. Anything that is not Rust still yields tokens, in some way.
pub fn lex(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, kind) = next(rest, first);
        let (text, behind) = rest.split_at(length.clamp(first.len_utf8(), rest.len()));
        if let Some(kind) = kind {
            tokens.push(Token { kind, text, line });
        }
        line += text.matches('\n').count();
        rest = behind;
    }
    tokens
}

/// Length in bytes of the token at the start of `rest`, and what it is (`None`: white space).
fn next(rest: &str, first: char) -> (usize, Option<Kind>) {
    if first.is_whitespace() {
        return (first.len_utf8(), None);
    }
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Some(Kind::Comment));
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), Some(Kind::Comment));
    }
    if let Some(length) = string(rest) {
        return (length, Some(Kind::Literal));
    }
    if first == '\'' {
        return tick(rest);
    }
    if first == '_' || first.is_alphabetic() {
        // `r#type` is one word.
        let raw = if rest.starts_with("r#") { 2 } else { 0 };
        return (raw + word(&rest[raw..]), Some(Kind::Word));
    }
    if first.is_ascii_digit() {
        return (word(rest), Some(Kind::Literal));
    }
    (first.len_utf8(), Some(Kind::Mark))
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of a string literal of any form at the start of `rest`.
fn string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""]
        .into_iter()
        .find(|prefix| rest.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['"', '#'])))?;
    let body = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
        if !body[hashes..].starts_with('"') {
            return None;
        }
        let end = format!("\"{}", "#".repeat(hashes));
        let start = prefix.len() + hashes + 1;
        return Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()));
    }
    if !body.starts_with('"') {
        return None;
    }
    Some(prefix.len() + 1 + until_unescaped(&body[1..], b'"'))
}

/// Length up to and with the first `end` that no backslash precedes.
fn until_unescaped(rest: &str, end: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == end => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A tick starts a character or a lifetime: `'a'` or `'a`.
fn tick(rest: &str) -> (usize, Option<Kind>) {
    let mut chars = rest.chars().skip(1);
    let (second, third) = (chars.next(), chars.next());
    if second == Some('\\') || third == Some('\'') {
        return (1 + until_unescaped(&rest[1..], b'\''), Some(Kind::Literal));
    }
    (1 + word(&rest[1..]), Some(Kind::Lifetime))
}

/// The tokens without those of items that exist only in tests: `#[cfg(test)]`, `#[cfg(all(test, …))]`,
/// `#[test]`.
pub fn without_tests<'s>(tokens: &[Token<'s>]) -> Vec<Token<'s>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let Some(attribute) = Attribute::at(tokens, at) else {
            kept.push(tokens[at]);
            at += 1;
            continue;
        };
        if !attribute.only_in_tests(tokens) {
            kept.extend_from_slice(&tokens[at..attribute.end]);
            at = attribute.end;
        } else if attribute.inner {
            // `#![cfg(test)]`: everything that follows in this file.
            break;
        } else {
            at = item_end(tokens, attribute.end);
        }
    }
    kept
}

/// An attribute: its tokens are `start..end`, the brackets' contents `start + skip .. end - 1`.
struct Attribute {
    start: usize,
    end: usize,
    inner: bool,
}

impl Attribute {
    fn at(tokens: &[Token<'_>], start: usize) -> Option<Self> {
        let inner = tokens.get(start + 1).is_some_and(|token| token.is("!"));
        let bracket = start + 1 + usize::from(inner);
        if !tokens[start].is("#") || !tokens.get(bracket).is_some_and(|token| token.is("[")) {
            return None;
        }
        Some(Self { start, end: closing(tokens, bracket) + 1, inner })
    }

    fn only_in_tests(&self, tokens: &[Token<'_>]) -> bool {
        let contents = &tokens[self.start..self.end.min(tokens.len())];
        let words: Vec<&str> =
            contents.iter().filter(|token| token.kind == Kind::Word).map(|token| token.text).collect();
        match words.as_slice() {
            ["test"] | ["cfg", "test"] => true,
            // `any(test, …)` and `not(test)` hold outside tests as well.
            ["cfg", "all", inside @ ..] => inside.contains(&"test") && !inside.contains(&"not"),
            _ => false,
        }
    }
}

/// Index of the bracket that closes the one at `open`, or the last token.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if ["(", "[", "{"].iter().any(|mark| token.is(mark)) {
            depth += 1;
        } else if [")", "]", "}"].iter().any(|mark| token.is(mark)) {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len().saturating_sub(1)
}

/// Index behind the item that starts at `at`: its block, or its semicolon.
fn item_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut at = at;
    while at < tokens.len() {
        if tokens[at].is("(") || tokens[at].is("[") {
            at = closing(tokens, at);
        } else if tokens[at].is("{") {
            return closing(tokens, at) + 1;
        } else if tokens[at].is(";") {
            return at + 1;
        }
        at += 1;
    }
    at
}

/// All paths that the code names, with their lines: `a::b::c` as written, and what the braces of a `use`
/// stand for.
pub fn paths(tokens: &[Token<'_>]) -> Vec<(String, usize)> {
    let code: Vec<Token<'_>> = tokens.iter().copied().filter(|token| token.kind != Kind::Comment).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if code[at].kind == Kind::Word {
            at = path(&code, at, "", &mut found).max(at + 1);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path at `at` behind `prefix`; returns the index behind it.
fn path(code: &[Token<'_>], at: usize, prefix: &str, found: &mut Vec<(String, usize)>) -> usize {
    let mut at = at;
    let mut text = prefix.to_owned();
    let mut line = code.get(at).map_or(0, |token| token.line);
    while let Some(token) = code.get(at) {
        if token.kind == Kind::Word || token.is("*") {
            text.push_str(token.text);
            line = token.line;
            at += 1;
        } else if token.is("{") && text.ends_with("::") {
            let end = closing(code, at);
            at += 1;
            while at < end {
                at = if code[at].is(",") { at + 1 } else { path(code, at, &text, found).max(at + 1) };
            }
            return end + 1;
        }
        let separated =
            code.get(at).is_some_and(|a| a.is(":")) && code.get(at + 1).is_some_and(|b| b.is(":"));
        if !separated {
            break;
        }
        text.push_str("::");
        at += 2;
        if !code.get(at).is_some_and(|t| t.kind == Kind::Word || t.is("{") || t.is("*")) {
            break;
        }
    }
    if text != prefix {
        found.push((text, line));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        lex(source).into_iter().filter(|token| token.kind == Kind::Word).map(|token| token.text).collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        let source = r###"
            // unsafe one
            /* unsafe /* nested */ two */
            let a = "unsafe \" three"; let b = r#"unsafe " four"#; let c = b"unsafe"; let d = 'u'; let e = '\'';
            fn f<'unsafe_>(x: &'a str) { real }
        "###;
        assert_eq!(
            words(source),
            ["let", "a", "let", "b", "let", "c", "let", "d", "let", "e", "fn", "f", "x", "str", "real"]
        );
        assert_eq!(words("r#type br c\"x\" r"), ["r#type", "br", "r"]);
    }

    #[test]
    fn lines_are_counted_through_long_tokens() {
        let tokens = lex("a\n/* x\n y */ b \"one\ntwo\" c");
        let lines: Vec<(&str, usize)> =
            tokens.iter().filter(|t| t.kind == Kind::Word).map(|t| (t.text, t.line)).collect();
        assert_eq!(lines, [("a", 1), ("b", 3), ("c", 4)]);
    }

    #[test]
    fn unfinished_sources_end() {
        for source in ["\"abc", "/* abc", "r##\"abc\"#", "'", "'\\", "é'é", "b'", "#[", "#![cfg(test"] {
            let tokens = lex(source);
            let _ = (without_tests(&tokens), paths(&tokens));
        }
    }

    #[test]
    fn test_items_are_left_out_and_the_rest_is_kept() {
        let source = "
            fn a() {}
            #[cfg(test)] #[allow(x)] mod tests { fn b() { c } }
            #[cfg(all(test, loom))] mod l;
            #[cfg(any(test, loom))] fn d() {}
            #[cfg(not(test))] fn e() {}
            #[test] fn f(x: [u8; 3]) { g }
            fn h() {}
        ";
        let tokens = lex(source);
        let names: Vec<&str> = without_tests(&tokens)
            .iter()
            .filter(|token| token.kind == Kind::Word && token.text.len() == 1)
            .map(|token| token.text)
            .collect();
        assert_eq!(names, ["a", "d", "e", "h"]);
        assert!(without_tests(&lex("#![cfg(all(test, loom))] fn a() {}")).is_empty());
    }

    #[test]
    fn use_trees_are_spelled_out() {
        let tokens = lex(
            "use std::{fmt, sync::{Arc, atomic::{AtomicU32 as A, Ordering}}};\nlet x = core::sync::atomic::fence(y);",
        );
        let found = paths(&tokens);
        for expected in [
            ("std::fmt", 1),
            ("std::sync::Arc", 1),
            ("std::sync::atomic::AtomicU32", 1),
            ("std::sync::atomic::Ordering", 1),
            ("core::sync::atomic::fence", 2),
        ] {
            assert!(found.contains(&(expected.0.to_owned(), expected.1)), "{expected:?} is not in {found:?}");
        }
    }
}
