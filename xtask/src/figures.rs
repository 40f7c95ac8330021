//! Fills the figures of the documents from what `tieline bench acceptance --json` printed, so that no figure
//! is typed.
//!
//! The table has a column for each machine that was measured. A report replaces the column of its machine,
//! and leaves the others.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Blocks in documents are marked `<!-- NAME -->` … `<!-- /NAME -->`.
pub fn replace_block(document: &str, name: &str, content: &str) -> Result<String> {
    let (start, end) = place(document, name)?;
    Ok(format!("{}{content}{}", &document[..start], &document[end..]))
}

/// What stands in a block.
pub fn block<'a>(document: &'a str, name: &str) -> Result<&'a str> {
    let (start, end) = place(document, name)?;
    Ok(&document[start..end])
}

fn place(document: &str, name: &str) -> Result<(usize, usize)> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start =
        document.find(&open).with_context(|| format!("no `{}` in the document", open.trim()))? + open.len();
    let end =
        document[start..].find(&close).with_context(|| format!("no `{close}` in the document"))? + start;
    Ok((start, end))
}

/// What stands where nothing was measured.
const NOT_MEASURED: &str = "not measured";
/// Separates the machine in a column's head from the day and the build.
const THEN: &str = "; ";

/// The table of a document with the column of a report's machine replaced, or added. `build` is the commit
/// that was measured. Figures whose ids are not in `only` are left out, unless `only` is empty.
pub fn merged(block: &str, report: &Value, build: &str, only: &[&str]) -> Result<String> {
    let mut table = Table::parse(block)?;
    let figures = report["figures"].as_array().context("no `figures` in the report")?;
    if figures.is_empty() {
        bail!("the report has no figures");
    }
    let head = format!("{}{THEN}{}{THEN}{build}", machine(report)?, day(report)?);
    let column = table.begin(&head);
    for figure in figures {
        let id = figure["id"].as_str().context("a figure without an id")?;
        table.set(id, &goal(figure)?, column, cell(figure)?);
    }
    for gap in report["missing"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |name: &str| gap[name].as_str().unwrap_or_default().replace('|', "/");
        table.set(&text("id"), "", column, format!("{NOT_MEASURED}: {}", text("reason")));
    }
    Ok(table.render(only))
}

/// A table: figures by rows, machines by columns.
#[derive(Debug, Default, PartialEq)]
struct Table {
    machines: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug, PartialEq)]
struct Row {
    id: String,
    goal: String,
    /// By column.
    cells: BTreeMap<usize, String>,
}

impl Table {
    fn parse(block: &str) -> Result<Self> {
        let mut lines = block.lines().filter(|line| line.starts_with('|'));
        let Some(head) = lines.next() else { return Ok(Self::default()) };
        let head = words(head);
        if head.get(..2) != Some(&["figure".to_owned(), "goal".to_owned()][..]) {
            bail!("the table's first line is `{}`: it has no columns by machine", head.join(" | "));
        }
        let mut table = Self { machines: head[2..].to_vec(), rows: Vec::new() };
        for line in lines.skip(1) {
            let words = words(line);
            let [id, goal, cells @ ..] = words.as_slice() else { bail!("`{line}` is no row") };
            let cells = cells.iter().cloned().enumerate().filter(|(_, cell)| cell != NOT_MEASURED).collect();
            table.rows.push(Row { id: id.trim_matches('`').to_owned(), goal: goal.clone(), cells });
        }
        Ok(table)
    }

    /// An empty column under this head, in the place of an older one of the same machine.
    fn begin(&mut self, head: &str) -> usize {
        let name = |head: &str| head.split(THEN).next().unwrap_or_default().to_owned();
        let place = self.machines.iter().position(|known| name(known) == name(head));
        let column = place.unwrap_or(self.machines.len());
        if column == self.machines.len() {
            self.machines.push(String::new());
        }
        head.clone_into(&mut self.machines[column]);
        for row in &mut self.rows {
            row.cells.remove(&column);
        }
        column
    }

    fn set(&mut self, id: &str, goal: &str, column: usize, cell: String) {
        let row = match self.rows.iter_mut().find(|row| row.id == id) {
            Some(row) => row,
            None => {
                self.rows.push(Row { id: id.to_owned(), goal: String::new(), cells: BTreeMap::new() });
                // It was just pushed.
                let Some(row) = self.rows.last_mut() else { return };
                row
            }
        };
        if !goal.is_empty() {
            goal.clone_into(&mut row.goal);
        }
        row.cells.insert(column, cell);
    }

    fn render(&self, only: &[&str]) -> String {
        let mut text = format!("| figure | goal | {} |\n", self.machines.join(" | "));
        text += &format!("|---|---|{}\n", "---|".repeat(self.machines.len()));
        for row in self.rows.iter().filter(|row| only.is_empty() || only.contains(&row.id.as_str())) {
            let cell = |column| row.cells.get(&column).map_or(NOT_MEASURED, String::as_str);
            let cells: Vec<&str> = (0..self.machines.len()).map(cell).collect();
            // What no machine has any more is gone.
            if cells.iter().any(|cell| *cell != NOT_MEASURED) {
                text += &format!("| `{}` | {} | {} |\n", row.id, row.goal, cells.join(" | "));
            }
        }
        text
    }
}

/// The cells of a line.
fn words(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|word| word.trim().to_owned()).collect()
}

/// What a machine is called: its processor and the last cache, as virtual machines often say no more.
fn machine(report: &Value) -> Result<String> {
    let env = &report["env"];
    let cpu = env["cpu_model"].as_str().context("no processor in the report")?;
    let cache = env["caches"].as_array().and_then(|caches| caches.last()).and_then(Value::as_str);
    let name = cache.map_or_else(|| cpu.to_owned(), |cache| format!("{cpu}, {cache}"));
    Ok(name.replace(['|', ';'], "/"))
}

/// The day of a report, as 2026-11-26.
fn day(report: &Value) -> Result<String> {
    let seconds = report["env"]["started_unix_s"].as_i64().context("no time in the report")?;
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    Ok(format!("{year:04}-{month:02}-{day:02}"))
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
fn civil(mut days: i64) -> (i64, usize, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().context("a figure without a number")
}

/// The goal, and what the figure is compared with, where that is a number of the goal itself.
fn goal(figure: &Value) -> Result<String> {
    let op = figure["goal"]["op"].as_str().unwrap_or_default().replace("<=", "≤").replace(">=", "≥");
    let limit = up_to_three_decimals(number(&figure["goal"]["limit"])?);
    if figure["reference"]["kind"] == "fixed" {
        return Ok(figure["reference"]["name"].as_str().unwrap_or_default().to_owned());
    }
    Ok(format!("{op} {limit}"))
}

/// What was measured, the ratio with its interval, what it is compared with, and the verdict; a failure in
/// bold letters.
fn cell(figure: &Value) -> Result<String> {
    let (unit, ratio) = (figure["unit"].as_str().unwrap_or_default(), &figure["ratio"]);
    let verdict = figure["verdict"].as_str().unwrap_or_default();
    let verdict = if verdict == "PASS" { verdict.to_owned() } else { format!("**{verdict}**") };
    let value = format!("{} {unit}", three_digits(number(&figure["value"])?));
    if figure["reference"]["kind"] == "fixed" {
        return Ok(format!("{value}: {verdict}"));
    }
    let beside = figure["reference"]["name"].as_str().unwrap_or_default().replace('|', "/");
    Ok(format!(
        "{:.3} ({:.3} … {:.3}): {verdict}; {value}; reference {} {unit}: {beside}",
        number(&ratio["value"])?,
        number(&ratio["ci95"][0])?,
        number(&ratio["ci95"][1])?,
        three_digits(number(&figure["reference"]["value"])?),
    ))
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

    fn report(cpu: &str, ratio: f64) -> Value {
        json!({"env": {"cpu_model": cpu, "caches": ["L1 48K", "L3 32M"], "started_unix_s": 1_795_651_200_i64},
            "figures": [{
            "id": "a.b", "unit": "ns", "value": 61.96, "blocks": [[1, 2], [1, 2]], "disturbed_blocks": 1,
            "reference": {"name": "one line", "value": 60.07}, "ratio": {"value": ratio, "ci95": [1.02, 1.04]},
            "goal": {"op": "<=", "limit": 1.1}, "verdict": "PASS"}],
            "missing": [{"id": "c", "reason": "no cluster"}]})
    }

    #[test]
    fn each_machine_has_a_column_that_its_next_report_replaces() {
        let one = merged("", &report("one", 1.0314), "abc", &[]).unwrap();
        let cell = "1.031 (1.020 … 1.040): PASS; 62.0 ns; reference 60.1 ns: one line";
        assert_eq!(
            one,
            format!(
                "| figure | goal | one, L3 32M; 2026-11-26; abc |\n|---|---|---|\n| `a.b` | ≤ 1.1 | {cell} |\n\
                 | `c` |  | not measured: no cluster |\n"
            )
        );
        let both = merged(&one, &report("two", 0.5), "def", &[]).unwrap();
        assert!(both.contains("one, L3 32M; 2026-11-26; abc | two, L3 32M; 2026-11-26; def |"), "{both}");
        assert!(both.contains(&format!("| {cell} | 0.500 (")), "{both}");
        let mut later = report("one", 2.0);
        later["figures"][0]["id"] = json!("new");
        later["missing"] = json!([]);
        let again = merged(&both, &later, "ghi", &[]).unwrap();
        assert!(again.contains("| `a.b` | ≤ 1.1 | not measured | 0.500 ("), "{again}");
        assert!(
            again.contains("| `new` | ≤ 1.1 | 2.000 (") && again.contains("2026-11-26; ghi |"),
            "{again}"
        );
        assert!(!again.contains("abc"), "{again}");
        let short = merged(&both, &later, "ghi", &["new"]).unwrap();
        assert!(!short.contains("a.b") && short.contains("`new`"), "{short}");
    }

    #[test]
    fn a_failure_is_as_plain_as_a_pass_and_a_limit_of_its_own_unit_is_the_goal() {
        let mut failed = report("one", 1.2);
        failed["figures"][0]["verdict"] = json!("FAIL");
        failed["figures"][0]["reference"] = json!({"kind": "fixed", "name": "at most 5 s", "value": 5.0});
        let table = merged("", &failed, "abc", &[]).unwrap();
        assert!(table.contains("| `a.b` | at most 5 s | 62.0 ns: **FAIL** |"), "{table}");
        assert!(merged("", &json!({}), "abc", &[]).is_err());
        assert!(merged("| id | measured |\n", &failed, "abc", &[]).is_err());
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(
            [0, 59, 11_016, 20_783].map(civil),
            [(1970, 1, 1), (1970, 3, 1), (2000, 2, 29), (2026, 11, 26)]
        );
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
