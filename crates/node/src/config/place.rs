//! The line and key of a mistake in a configuration file, for messages.

use std::path::Path;

use super::ConfigError;

/// The parser's error, with the line and the key.
pub(super) fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or_default();
    let start = span.start.min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    ConfigError::Malformed {
        path: path.into(),
        line,
        key: key_at(text, line),
        message: plainly(error.message(), text.get(span).unwrap_or_default()),
    }
}

/// The parser's words without the language's types. `value` is what stands in the file.
fn plainly(message: &str, value: &str) -> String {
    if message == "invalid IP address syntax" {
        let value = value.trim_matches(['"', '\'']);
        let is_value = !value.is_empty() && !value.contains(['\n', '[', ',']);
        let value = if is_value { format!("`{value}`") } else { "one of the values".to_owned() };
        return format!("{value} is not an IP address");
    }
    let is_type = message.strip_prefix("invalid type: ");
    let both = is_type.or_else(|| message.strip_prefix("invalid value: "));
    let Some((found, expected)) = both.and_then(|both| both.rsplit_once(", expected ")) else {
        return message.to_owned();
    };
    let found = match found.split_once(' ') {
        None if found == "sequence" => "a list",
        None if found == "map" => "a section",
        Some(("string" | "integer" | "boolean", value)) => value.trim_matches('`'),
        _ => found.trim_start_matches("floating point ").trim_matches('`'),
    };
    let is_number = expected.strip_prefix('u').is_some_and(|bits| bits.parse::<u32>().is_ok());
    match expected {
        _ if is_number && is_type.is_some() => format!("{found} is not a whole number"),
        "u32" => format!("{found} is not possible: give a number from 0 to {}", u32::MAX),
        _ if is_number => format!("{found} is not possible: give a number of at least 0"),
        "a boolean" => format!("{found} is neither true nor false"),
        "a string" => format!("{found} is not a text in quotes"),
        "a sequence" => format!("{found} is not a list in brackets"),
        _ if expected.starts_with("struct ") => format!("{found} is not a section"),
        _ => message.to_owned(),
    }
}

/// The line on which a key (with its section) is given a value.
pub(super) fn line_of(text: &str, wanted: &str) -> Option<usize> {
    let mut section = String::new();
    for (line, number) in text.lines().zip(1..) {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = format!("{}.", name.trim());
        } else if let Some((key, _)) = line.split_once('=')
            && format!("{section}{}", key.trim()) == wanted
        {
            return Some(number);
        }
    }
    None
}

/// The key of a line, with the section that it is in.
fn key_at(text: &str, line: usize) -> Option<String> {
    let lines: Vec<_> = text.lines().take(line).collect();
    let (key, _) = lines.last()?.split_once('=')?;
    let section = lines.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    let section = section.map(|name| format!("{}.", name.trim())).unwrap_or_default();
    Some(format!("{section}{}", key.trim()))
}
