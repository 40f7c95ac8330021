//! Figures as a table for people.

use std::fmt::Write as _;

use super::table::{Align, Table, three_digits};
use crate::figure::Figures;

/// One line a figure, doubts and missing ones below, the verdict last.
pub fn render(all: &Figures) -> String {
    let mut table = Table::new([
        ("figure", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
        ("reference", Align::Right),
        ("ratio", Align::Right),
        ("95 % interval", Align::Left),
        ("goal", Align::Left),
        ("blocks", Align::Right),
        ("disturbed", Align::Right),
        ("verdict", Align::Left),
    ]);
    for f in &all.figures {
        table.row([
            f.id.clone(),
            three_digits(f.value),
            f.unit.clone(),
            three_digits(f.reference.value),
            format!("{:.3}", f.ratio.value),
            format!("{:.3} … {:.3}", f.ratio.ci95.low, f.ratio.ci95.high),
            f.judged
                .as_ref()
                .map_or_else(|| format!("{} {}", f.goal.op, f.goal.limit), |judged| judged.asked()),
            f.blocks.len().to_string(),
            f.disturbed_blocks.to_string(),
            f.verdict.to_string(),
        ]);
    }
    let mut text = if table.is_empty() { String::new() } else { table.render() };
    // Writing to a String cannot fail.
    for f in &all.figures {
        if let Some(doubt) = f.doubt() {
            let _ = writeln!(text, "{}: {doubt}", f.id);
        }
    }
    for missing in &all.missing {
        let _ = writeln!(text, "{}: not measured: {}", missing.id, missing.reason);
    }
    let _ = write!(text, "verdict: {}", all.verdict());
    if all.lacks_only_cpus() {
        let skipped = all.missing.len();
        let _ = write!(text, ": only one processor may be used, so that {skipped} figure(s) were SKIPPED");
    }
    text.push('\n');
    text
}

/// The same as CSV, one line a figure.
pub fn csv(all: &Figures) -> String {
    let rows: Vec<Vec<String>> = all
        .figures
        .iter()
        .map(|f| {
            let numbers = [
                f.value,
                f.ci95.low,
                f.ci95.high,
                f.reference.value,
                f.ratio.value,
                f.ratio.ci95.low,
                f.ratio.ci95.high,
            ];
            let mut row = vec![f.id.clone(), f.unit.clone()];
            row.extend(numbers.map(|n| n.to_string()));
            row.extend([f.goal.op.to_string(), f.goal.limit.to_string(), f.blocks.len().to_string()]);
            row.extend([f.disturbed_blocks.to_string(), f.verdict.to_string()]);
            row
        })
        .collect();
    let header = [
        "id",
        "unit",
        "value",
        "value_low",
        "value_high",
        "reference",
        "ratio",
        "ratio_low",
        "ratio_high",
        "op",
        "limit",
        "blocks",
        "disturbed_blocks",
        "verdict",
    ];
    super::csv::render(&header, rows.iter().map(|row| row.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        env::Env,
        figure::{
            Cause, Figure, Missing, SCHEMA, Stat,
            tests::{blocks, spec},
        },
        verdict::Goal,
    };

    fn two() -> Figures {
        let good =
            Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 9, blocks(30, 42.0, 40.0), vec![], 1).unwrap();
        let few =
            Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 9, blocks(5, 42.0, 40.0), vec![], 1).unwrap();
        let missing = vec![Missing { id: "up.64".into(), reason: "no cluster".into(), cause: Cause::Other }];
        Figures {
            schema: SCHEMA.to_owned(),
            env: Env::default(),
            figures: vec![good, few],
            missing,
            partial: false,
        }
    }

    #[test]
    fn text() {
        let text = render(&two());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("figure")
                && lines[1].contains("1.050 … 1.050")
                && lines[1].ends_with("PASS"),
            "{text}"
        );
        assert!(lines[3].contains("only 5 undisturbed"), "{text}");
        assert!(lines[4].contains("up.64: not measured: no cluster"), "{text}");
        assert_eq!(lines[5], "verdict: FAIL");
    }

    #[test]
    fn comma_separated() {
        let text = csv(&two());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert!(
            lines[1].starts_with("scipp.half_rtt.4B,ns,42,") && lines[1].ends_with(",<=,1.1,30,0,PASS"),
            "{text}"
        );
    }
}
