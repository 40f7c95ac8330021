//! The report on the plan of copies: which kernel copies which sizes, and what it gains over the C
//! library's `memcpy`.

use std::fmt::Write as _;

use serde::Serialize;
use shm::copy::{CLASSES, KernelId, Plan, Temperature, Timings, class_end_bytes};

use crate::layout::table::{Align, Table, size, three_digits};

/// Name of the JSON form.
pub const SCHEMA: &str = "tieline.tune/1";
/// Width of the longest bar of the plot, in characters.
const BAR: f64 = 40.0;

/// The report on a plan.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The machine of the plan: processor, microcode, caches, kernel.
    pub machine: String,
    /// The origin of the plan, in words.
    pub origin: String,
    /// The duration of the measurement, in milliseconds; `null` if nothing was measured now.
    pub took_ms: Option<f64>,
    /// The share of that time for which the measuring thread had a processor.
    pub own_share: Option<f64>,
    /// Whether the plan was written down for the node managers that start from now on; `null` if
    /// nothing was measured now.
    pub kept: Option<bool>,
    /// Ranges of sizes, ascending.
    pub ranges: Vec<Range>,
    /// The measured times, by size; empty if nothing was measured now.
    pub sizes: Vec<Size>,
}

/// A range of sizes with its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Its longest copy; `null`: it has no end.
    pub up_to_bytes: Option<u64>,
    /// The kernel that copies it.
    pub kernel: &'static str,
}

/// A size that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Size {
    /// The size of a copy.
    pub bytes: u64,
    /// The kernel that the plan has for it.
    pub kernel: &'static str,
    /// By temperature.
    pub copies: Vec<Copy>,
}

/// Copies of one size at one temperature.
#[derive(Debug, Clone, Serialize)]
pub struct Copy {
    /// `hot`, `cold destination`, `cold` or `read next`.
    pub temperature: &'static str,
    /// The time of the C library's `memcpy`.
    pub memcpy_ns: f64,
    /// The time of the plan's kernel.
    pub plan_ns: f64,
    /// The fastest kernel of all.
    pub best_kernel: &'static str,
    /// Its time.
    pub best_ns: f64,
}

impl Report {
    /// The report on a plan, with the measured times if it was measured now.
    pub fn new(machine: String, origin: String, plan: &Plan, timings: Option<&Timings>) -> Self {
        Self {
            machine,
            origin,
            took_ms: None,
            own_share: None,
            kept: None,
            ranges: ranges(plan),
            sizes: timings.map(|timings| sizes(plan, timings)).unwrap_or_default(),
        }
    }

    /// The text: the ranges, the times, a plot.
    pub fn render(&self) -> String {
        let mut text = format!("machine: {}\nplan: {}\n\n", self.machine, self.origin);
        let mut table = Table::new([("copies up to", Align::Right), ("kernel", Align::Left)]);
        table.row(["128 B".to_owned(), "inline moves".to_owned()]);
        for range in &self.ranges {
            table.row([
                range.up_to_bytes.map_or_else(|| "any size".to_owned(), size),
                range.kernel.to_owned(),
            ]);
        }
        text.push_str(&table.render());
        if !self.sizes.is_empty() {
            text.push_str(&self.times());
            text.push_str(&self.plot());
        }
        if let (Some(ms), Some(share)) = (self.took_ms, self.own_share) {
            let _ =
                writeln!(text, "\nmeasured in {ms:.0} ms, {:.0} % of that with a processor", share * 100.0);
        }
        text
    }

    fn times(&self) -> String {
        let mut columns = vec![("size".to_owned(), Align::Right), ("kernel".to_owned(), Align::Left)];
        for at in Temperature::ALL {
            columns.push((format!("{}, GB/s", at.name()), Align::Right));
            columns.push(("x memcpy".to_owned(), Align::Right));
        }
        let mut table = Table::new(columns.iter().map(|(name, align)| (name.as_str(), *align)));
        for one in &self.sizes {
            let mut cells = vec![size(one.bytes), one.kernel.to_owned()];
            for at in Temperature::ALL {
                match one.copies.iter().find(|copy| copy.temperature == at.name()) {
                    Some(copy) => {
                        cells.push(three_digits(one.bytes as f64 / copy.plan_ns));
                        cells.push(format!("{:.2}", copy.memcpy_ns / copy.plan_ns));
                    }
                    None => cells.extend(["-".to_owned(), "-".to_owned()]),
                }
            }
            table.row(cells);
        }
        format!("\n{}", table.render())
    }

    /// Speed of hot copies by size: a bar for the plan's kernel, `|` where the C library's `memcpy`
    /// ends.
    fn plot(&self) -> String {
        let hot: Vec<(u64, f64, f64)> = self
            .sizes
            .iter()
            .filter_map(|one| {
                let copy = one.copies.iter().find(|copy| copy.temperature == Temperature::Hot.name())?;
                Some((one.bytes, one.bytes as f64 / copy.plan_ns, one.bytes as f64 / copy.memcpy_ns))
            })
            .collect();
        let most = hot.iter().map(|(_, plan, memcpy)| plan.max(*memcpy)).fold(f64::MIN_POSITIVE, f64::max);
        let mut text = String::from("\nhot copies, GB/s: # the plan's kernel, | the C library's memcpy\n");
        for (bytes, plan, memcpy) in hot {
            let length = |rate: f64| (rate / most * BAR).round() as usize;
            let mut bar: Vec<char> = vec![' '; BAR as usize + 1];
            bar[..length(plan)].fill('#');
            bar[length(memcpy)] = '|';
            let bar: String = bar.into_iter().collect();
            let _ = writeln!(text, "{:>8}  {}  {}", size(bytes), bar, three_digits(plan));
        }
        text
    }
}

fn ranges(plan: &Plan) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (class, id) in plan.by_class().iter().enumerate() {
        let up_to_bytes = (class + 1 < CLASSES).then_some(class_end_bytes(class) as u64);
        match ranges.last_mut() {
            Some(last) if last.kernel == id.name() => last.up_to_bytes = up_to_bytes,
            _ => ranges.push(Range { up_to_bytes, kernel: id.name() }),
        }
    }
    ranges
}

/// Powers of two: with the sizes between them the table would be twice as long, without more
/// information.
fn sizes(plan: &Plan, timings: &Timings) -> Vec<Size> {
    let measured = |class: &usize| {
        class_end_bytes(*class).is_power_of_two()
            && timings.ns(*class, KernelId::Libc, Temperature::Hot).is_some()
    };
    (0..CLASSES)
        .filter(measured)
        .map(|class| {
            let kernel = plan.by_class()[class];
            let copy = |at: Temperature| {
                let (best, best_ns) = timings.best(class, at)?;
                Some(Copy {
                    temperature: at.name(),
                    memcpy_ns: timings.ns(class, KernelId::Libc, at)?,
                    plan_ns: timings.ns(class, kernel, at)?,
                    best_kernel: best.name(),
                    best_ns,
                })
            };
            Size {
                bytes: class_end_bytes(class) as u64,
                kernel: kernel.name(),
                copies: Temperature::ALL.into_iter().filter_map(copy).collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_one_kernel_are_one_range() {
        assert_eq!(ranges(&Plan::LIBC), [Range { up_to_bytes: None, kernel: "libc" }]);
        let mut of_classes = *Plan::LIBC.by_class();
        of_classes[..4].fill(KernelId::Libc);
        let text =
            Report::new("made up".into(), "a test's".into(), &Plan::of_classes(of_classes), None).render();
        assert!(text.contains("machine: made up\nplan: a test's\n"), "{text}");
        assert!(text.contains("any size  libc\n") && !text.contains("GB/s"), "{text}");
    }

    #[test]
    fn times_are_shown_beside_those_of_memcpy() {
        let mut timings = Timings::default();
        let class = shm::copy::class_of(4096);
        for at in Temperature::ALL {
            timings.set(class, KernelId::Libc, at, 0, 80.0);
        }
        timings.set(class, KernelId::Libc, Temperature::Hot, 1, 40.96);
        let mut report = Report::new(String::new(), String::new(), &Plan::LIBC, Some(&timings));
        (report.took_ms, report.own_share) = (Some(412.0), Some(0.5));
        let text = report.render();
        let has_row = |cells: &[&str]| {
            text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().starts_with(cells))
        };
        assert!(has_row(&["4", "KiB", "libc", "100", "1.00"]), "{text}");
        assert!(has_row(&["4", "KiB", &format!("{}|", "#".repeat(40)), "100"]), "{text}");
        assert!(text.contains("measured in 412 ms, 50 % of that with a processor"), "{text}");
        assert_eq!(serde_json::to_value(&report).unwrap()["sizes"][0]["copies"][0]["best_kernel"], "libc");
    }
}
