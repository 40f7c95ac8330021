//! Parses sizes such as `64`, `4K`, `2KiB`, `1M`, and checks them against the supported range.

use std::fs;

use crate::error::{BenchError, Result};

/// Bytes of a size in text. K, M and G are powers of 1024, with or without `iB` or `B`.
pub fn parse(text: &str) -> Result<usize> {
    let wrong = || {
        BenchError::Usage(format!(
            "`{text}` is not a size: give bytes, or a number with K, M or G, such as 64 or 4K"
        ))
    };
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: usize = match trimmed[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: usize = digits.trim_end().parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Refuses what cannot be measured: no sizes, a size of 0, buffers (`copies` of the largest) beyond
/// the free memory.
pub fn check(what: &str, sizes_bytes: &[usize], copies: usize) -> Result<()> {
    check_against(what, sizes_bytes, copies, free_bytes())
}

fn check_against(what: &str, sizes_bytes: &[usize], copies: usize, free_bytes: Option<usize>) -> Result<()> {
    let Some(largest) = sizes_bytes.iter().copied().max() else {
        return Err(BenchError::Usage(format!("{what}: no sizes are given, so there is nothing to measure")));
    };
    if sizes_bytes.contains(&0) {
        return Err(BenchError::Usage(format!(
            "{what}: a block of 0 bytes has no bandwidth: give sizes from 1 byte"
        )));
    }
    let need = largest.saturating_mul(copies);
    match free_bytes {
        Some(free) if need > free => Err(BenchError::Usage(format!(
            "{what} {}: this needs {} of memory in all, and {} are free: give smaller sizes",
            shown(largest),
            shown(need),
            shown(free),
        ))),
        _ => Ok(()),
    }
}

/// An amount of memory with one digit behind the point, so that such amounts can be compared.
fn shown(bytes: usize) -> String {
    let (unit, name) = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1, "bytes"));
    let text = format!("{:.1}", bytes as f64 / unit as f64);
    format!("{} {name}", text.trim_end_matches(".0"))
}

/// Memory that can be had without swapping, less a tenth.
fn free_bytes() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024) / 10 * 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed() {
        for (text, want) in
            [("64", 64), ("64B", 64), (" 4k ", 4096), ("4KiB", 4096), ("1M", 1 << 20), ("2 MiB", 2 << 20)]
        {
            assert_eq!(parse(text).unwrap(), want, "{text}");
        }
        for text in ["", "K", "4x", "-1", "1.5K", "99999999999999999999", "18446744073709551615G"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("4K"), "{error}");
        }
    }

    #[test]
    fn refused() {
        let text = |sizes: &[usize]| check_against("dma", sizes, 4, Some(1 << 30)).unwrap_err().to_string();
        assert!(text(&[]).contains("nothing to measure"));
        assert!(text(&[64, 0]).contains("0 bytes"));
        let large = text(&[1 << 30]);
        assert_eq!(
            large,
            "dma 1 GiB: this needs 4 GiB of memory in all, and 1 GiB are free: give smaller sizes"
        );
        assert_eq!([shown(21_260_088_115), shown(1 << 20), shown(100)], ["19.8 GiB", "1 MiB", "100 bytes"]);
        assert!(check_against("dma", &[1 << 20], 4, Some(1 << 30)).is_ok());
        assert!(check("dma", &[64], 1).is_ok());
        assert!(check("dma", &[usize::MAX], 4).is_err());
    }
}
