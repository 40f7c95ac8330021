//! Fills the figures of the documents from what `tieline bench acceptance --json` printed, so that no figure is typed.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Blocks in documents are marked `<!-- NAME -->` … `<!-- /NAME -->`.
pub fn replace_block(document: &str, name: &str, content: &str) -> Result<String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start =
        document.find(&open).with_context(|| format!("no `{}` in the document", open.trim()))? + open.len();
    let end =
        document[start..].find(&close).with_context(|| format!("no `{close}` in the document"))? + start;
    Ok(format!("{}{content}{}", &document[..start], &document[end..]))
}

/// The table of all figures. Those whose ids are not in `only` are left out, unless `only` is empty.
pub fn table(report: &Value, only: &[&str]) -> Result<String> {
    let figures = report["figures"].as_array().context("no `figures` in the report")?;
    if figures.is_empty() {
        bail!("the report has no figures");
    }
    let mut text = String::from(
        "| id | measured | compared with | ratio (95 % interval) | goal | blocks (disturbed) | verdict |\n|---|---|---|---|---|---|---|\n",
    );
    for figure in figures {
        let id = figure["id"].as_str().context("a figure without an id")?;
        if !only.is_empty() && !only.contains(&id) {
            continue;
        }
        let unit = figure["unit"].as_str().unwrap_or_default();
        let number = |value: &Value| value.as_f64().context("a figure without a number");
        let reference = &figure["reference"];
        let ratio = &figure["ratio"];
        text += &format!(
            "| `{id}` | {} {unit} | {} {unit}: {} | {:.3} ({:.3} … {:.3}) | {} {} | {} ({}) | {} |\n",
            three_digits(number(&figure["value"])?),
            three_digits(number(&reference["value"])?),
            reference["name"].as_str().unwrap_or_default(),
            number(&ratio["value"])?,
            number(&ratio["ci95"][0])?,
            number(&ratio["ci95"][1])?,
            figure["goal"]["op"].as_str().unwrap_or_default().replace("<=", "≤").replace(">=", "≥"),
            up_to_three_decimals(number(&figure["goal"]["limit"])?),
            figure["blocks"].as_array().map_or(0, Vec::len),
            figure["disturbed_blocks"],
            figure["verdict"].as_str().unwrap_or_default(),
        );
    }
    let missing = report["missing"].as_array().map(Vec::as_slice).unwrap_or_default();
    for gap in missing.iter().filter(|_| only.is_empty()) {
        let text_of = |name: &str| gap[name].as_str().unwrap_or_default().to_owned();
        text += &format!("| `{}` | not measured: {} | | | | | FAIL |\n", text_of("id"), text_of("reason"));
    }
    Ok(text)
}

/// A limit such as 1 / 0.97 has no end; one that was written as 1.1 stays as it is.
fn up_to_three_decimals(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn three_digits(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({"figures": [{
            "id": "a.b", "unit": "ns", "value": 61.96, "blocks": [[1, 2], [1, 2]], "disturbed_blocks": 1,
            "reference": {"name": "one line", "value": 60.07}, "ratio": {"value": 1.0314, "ci95": [1.02, 1.04]},
            "goal": {"op": "<=", "limit": 1.1}, "verdict": "PASS"}],
            "missing": [{"id": "c", "reason": "no cluster"}]})
    }

    #[test]
    fn a_figure_becomes_a_row_and_a_gap_a_failure() {
        let table = table(&report(), &[]).unwrap();
        assert!(
            table.contains(
                "| `a.b` | 62.0 ns | 60.1 ns: one line | 1.031 (1.020 … 1.040) | ≤ 1.1 | 2 (1) | PASS |"
            ),
            "{table}"
        );
        assert!(table.contains("| `c` | not measured: no cluster |"), "{table}");
        assert!(super::table(&json!({}), &[]).is_err());
    }

    #[test]
    fn a_limit_has_at_most_three_decimals() {
        let limits = [1.0 / 0.97, 1.1, 0.97, 1.0, 4.5, 0.0].map(up_to_three_decimals);
        assert_eq!(limits, ["1.031", "1.1", "0.97", "1", "4.5", "0"]);
    }

    #[test]
    fn only_the_block_is_replaced_and_a_missing_one_is_named() {
        let before = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n";
        assert_eq!(replace_block(before, "x", "new\n").unwrap(), "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n");
        assert!(replace_block(before, "y", "").unwrap_err().to_string().contains("<!-- y -->"));
    }
}
