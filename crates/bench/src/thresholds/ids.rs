//! Every valid figure name and what it measures, to detect misspelt names.

use crate::{
    acceptance::catalogue::{self, Copies, Fabric, Kind, Messages, Ofi, Sisci, Sockets},
    layout::table::size as shown,
    patterns::{
        dma_bench, messages, ofi,
        programs::{Load, twins::Twin},
        pt2pt, scibench2, scipp, sizes, subnet,
    },
    quantity::Dimension,
};

/// Names that are in no catalogue.
const OTHERS: [(&str, Dimension); 25] = [
    ("intr.sleeping.half_rtt", Dimension::Time),
    ("jitter.rtt.p50", Dimension::Time),
    ("jitter.rtt.p99", Dimension::Time),
    ("jitter.rtt.p99.9", Dimension::Time),
    ("jitter.rtt.max", Dimension::Time),
    ("jitter.rtt.p50.put", Dimension::Time),
    ("jitter.rtt.p99.put", Dimension::Time),
    ("jitter.rtt.p99.9.put", Dimension::Time),
    ("jitter.rtt.max.put", Dimension::Time),
    ("latency.stores.half_rtt", Dimension::Time),
    ("latency.stores.bandwidth", Dimension::Bandwidth),
    ("latency.puts.half_rtt", Dimension::Time),
    ("latency.puts.bandwidth", Dimension::Bandwidth),
    ("latency.interrupt.half_rtt", Dimension::Time),
    ("limits.line.one_line", Dimension::Time),
    ("limits.line.two_lines", Dimension::Time),
    ("limits.wake", Dimension::Time),
    ("limits.copy.hot.64B", Dimension::Time),
    ("limits.copy.hot.8KiB", Dimension::Time),
    ("limits.copy.hot.1MiB", Dimension::Time),
    ("limits.copy.cold.1MiB", Dimension::Time),
    ("limits.copy.fresh.8KiB", Dimension::Time),
    ("pt2pt.barrier", Dimension::Time),
    ("pt2pt.fetch-add.8B", Dimension::Time),
    ("pt2pt.compare-swap.8B", Dimension::Time),
];

/// Beginnings and ends of names with a size between them.
const SIZED: [(&str, &str, Dimension); 21] = [
    ("scipp.half_rtt.", "", Dimension::Time),
    ("scipp.half_rtt.", ".own", Dimension::Time),
    ("scipp.half_rtt.", ".put", Dimension::Time),
    ("scibench2.", "", Dimension::Bandwidth),
    ("dma.", "", Dimension::Time),
    ("limits.copy.hot.", "", Dimension::Time),
    ("limits.copy.cold.", "", Dimension::Time),
    ("limits.copy.fresh.", "", Dimension::Time),
    ("pt2pt.latency.", "", Dimension::Time),
    ("pt2pt.bw.", "", Dimension::Time),
    ("pt2pt.bibw.", "", Dimension::Time),
    ("pt2pt.mr.", "", Dimension::Time),
    ("pt2pt.multi-lat.", "", Dimension::Time),
    ("pt2pt.broadcast.", "", Dimension::Time),
    ("pt2pt.allreduce.", "", Dimension::Time),
    ("pt2pt.allgather.", "", Dimension::Time),
    ("pt2pt.alltoall.", "", Dimension::Time),
    ("pt2pt.put.", "", Dimension::Time),
    ("pt2pt.get.", "", Dimension::Time),
    ("pt2pt.put-bw.", "", Dimension::Time),
    ("pt2pt.get-bw.", "", Dimension::Time),
];

/// The dimension of a well-known program's result, by its unit.
const fn of_load(load: Load) -> Dimension {
    match load {
        Load::PingPong => Dimension::Time,
        Load::Stream => Dimension::Bandwidth,
        Load::Throughput | Load::Redis { .. } | Load::Http => Dimension::Rate,
    }
}

const fn dimension(kind: &Kind) -> Dimension {
    match kind {
        Kind::Sockets(Sockets::Beside { load, .. } | Sockets::AboveBaseline { load, .. }) => of_load(*load),
        Kind::Sockets(Sockets::Twin(Twin::IdleTime { .. })) => Dimension::Processor,
        Kind::Sockets(Sockets::Twin(Twin::IdleMemory { .. })) => Dimension::Memory,
        Kind::Sockets(Sockets::Twin(
            Twin::OneCore { .. } | Twin::Oversubscribed { .. } | Twin::Request { .. } | Twin::Short { .. },
        )) => Dimension::Rate,
        Kind::Ring { .. }
        | Kind::Messages(Messages { load: messages::Load::Rate { .. }, .. })
        | Kind::Sockets(Sockets::Passthrough { .. })
        | Kind::Fabric(
            Fabric::Rate { .. } | Fabric::Quality { .. } | Fabric::Subnet { load: subnet::Load::Paths, .. },
        ) => Dimension::Rate,
        Kind::Fabric(Fabric::Memory { .. } | Fabric::Subnet { load: subnet::Load::Memory, .. }) => {
            Dimension::Memory
        }
        Kind::Put { .. }
        | Kind::Store { .. }
        | Kind::Load { .. }
        | Kind::Sisci(Sisci::Copy { .. })
        | Kind::Ofi(Ofi {
            load: ofi::Load::Stream { .. } | ofi::Load::TwoRails { .. } | ofi::Load::Cut,
            ..
        })
        | Kind::Messages(Messages { load: messages::Load::Stream { .. }, .. })
        | Kind::Copies(Copies::Worst { .. }) => Dimension::Bandwidth,
        Kind::IdleCpu { .. } => Dimension::Processor,
        Kind::IdlePss { .. } | Kind::UpPss { .. } => Dimension::Memory,
        Kind::Scipp { .. }
        | Kind::Memory(_)
        | Kind::Dma { .. }
        | Kind::Copies(Copies::TuneTime { .. } | Copies::TuneRepeat { .. })
        | Kind::Overhead { .. }
        | Kind::Spinning { .. }
        | Kind::Sleeping { .. }
        | Kind::Connect { .. }
        | Kind::Sisci(_)
        | Kind::Shadow { .. }
        | Kind::Fabric(_)
        | Kind::Messages(Messages {
            load:
                messages::Load::Echo { .. } | messages::Load::Pairs { .. } | messages::Load::Allreduce { .. },
            ..
        })
        | Kind::Ofi(Ofi { load: ofi::Load::Echo | ofi::Load::Put | ofi::Load::Urgent, .. })
        | Kind::Sockets(Sockets::Start { .. } | Sockets::Twin(Twin::Echo { .. } | Twin::EchoTail { .. }))
        | Kind::Fleet { .. }
        | Kind::Verify { .. }
        | Kind::Up { .. } => Dimension::Time,
    }
}

/// All names: those of the catalogue, and of the usual sizes of the tools.
pub fn known() -> Vec<(String, Dimension)> {
    let mut all: Vec<(String, Dimension)> =
        catalogue::ALL.iter().map(|entry| (entry.id.to_owned(), dimension(&entry.kind))).collect();
    all.extend(OTHERS.map(|(id, dimension)| (id.to_owned(), dimension)));
    let sized = |list: &[usize], sized: &[(&str, &str, Dimension)]| -> Vec<(String, Dimension)> {
        let name = |bytes: &usize| shown(*bytes as u64).replace(' ', "");
        let of = |bytes| {
            sized.iter().map(move |(begin, end, what)| (format!("{begin}{}{end}", name(bytes)), *what))
        };
        list.iter().flat_map(of).collect()
    };
    all.extend(sized(&scipp::Options::default().sizes_bytes, &SIZED[..3]));
    all.extend(sized(&scibench2::SIZES_BYTES, &SIZED[3..4]));
    all.extend(sized(&dma_bench::SIZES_BYTES, &SIZED[4..5]));
    all.extend(sized(&pt2pt::default_sizes(), &SIZED[8..]));
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.dedup();
    all
}

/// The names that a pattern matches. A pattern with a valid size that is not in the list is its own
/// only name.
pub fn meant(pattern: &str) -> Vec<(String, Dimension)> {
    let found: Vec<_> = known().into_iter().filter(|(id, _)| matches(pattern, id)).collect();
    if !found.is_empty() || pattern.contains('*') {
        return found;
    }
    let sized = SIZED.iter().find(|(begin, end, _)| {
        let size = pattern.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)).unwrap_or("");
        sizes::parse(size).is_ok_and(|bytes| shown(bytes as u64).replace(' ', "") == size)
    });
    sized.map(|(.., dimension)| (pattern.to_owned(), *dimension)).into_iter().collect()
}

/// Whether a pattern, in which `*` matches any text, matches a name.
pub fn matches(pattern: &str, id: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = id.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The known name that is most like a misspelt one, if any is.
pub fn like(wrong: &str) -> Option<String> {
    let distance = |id: &str| edits(wrong, id);
    let nearest = known().into_iter().map(|(id, _)| (distance(&id), id)).min()?;
    (nearest.0 <= 1 + wrong.len() / 4).then_some(nearest.1)
}

/// Letters to insert, remove or change to make one text the other.
pub fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, id, does) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b.c", true),
            ("a.*", "ab.c", false),
            ("*.pss", "up.64.pss", true),
            ("*", "x", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("ab*b", "ab", false),
        ] {
            assert_eq!(matches(pattern, id), does, "{pattern} {id}");
        }
    }

    #[test]
    fn known_and_meant() {
        let all = known();
        for id in [
            "scipp.half_rtt.16B",
            "scipp.half_rtt.4B.own",
            "dma.64B.cold",
            "dma.64MiB",
            "up.64.pss",
            "limits.wake",
        ] {
            assert!(all.iter().any(|(known, _)| known == id), "{id}");
        }
        assert!(all.windows(2).all(|pair| pair[0].0 != pair[1].0));
        assert_eq!(meant("scibench2.3KiB"), [("scibench2.3KiB".to_owned(), Dimension::Bandwidth)]);
        assert_eq!(meant("up.*").len(), 2);
        for wrong in ["scipp.half_rtt.4KB", "scipp.half_rtt.", "dma.", "dma.x*", "dma.1024B", "", "scip"] {
            assert!(meant(wrong).is_empty(), "{wrong}");
        }
        assert_eq!(like("scip.half_rtt.4B").as_deref(), Some("scipp.half_rtt.4B"));
        assert_eq!(like("something else entirely"), None);
    }
}
