//! Files of fabrics that lost lines, have them twice, or letters of them: what is read of them is part of
//! what was there.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use topology::build::{Dragonfly, FatTree, Torus, dragonfly, fat_tree, torus};
use topology::read::{Cause, Format, read};
use topology::{Graph, write};

type Writer = fn(&Graph, &mut dyn std::io::Write) -> std::io::Result<()>;
const ALL: [(Format, Writer); 4] = [
    (Format::IbNetDiscover, write::ibnetdiscover),
    (Format::IbSim, write::ibsim),
    (Format::SubnetList, write::subnet_list),
    (Format::Toml, write::toml),
];

/// Cables by the names of their ends.
fn cables(graph: &Graph) -> BTreeSet<[(String, u8); 2]> {
    let end = |port| (graph.name(graph.owner(port)).to_owned(), graph.number(port));
    let row = |(a, b)| if end(a) < end(b) { [end(a), end(b)] } else { [end(b), end(a)] };
    graph.links().map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_of_a_file_was_in_it(
        shape in 0..3_usize,
        which in 0..4_usize,
        damages in prop::collection::vec((any::<u16>(), 0..4_u8, any::<u8>()), 1..12),
    ) {
        let graph = match shape {
            0 => fat_tree(&FatTree::new(4, 2)),
            1 => torus(&Torus::new(&[3, 3], 1)),
            _ => dragonfly(&Dragonfly::balanced(1)),
        }.unwrap();
        let (format, writer) = ALL[which];
        let mut bytes = Vec::new();
        writer(&graph, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let joins = damages.iter().any(|one| one.1 == 0 || one.1 == 3);
        for (at, kind, more) in damages {
            let at = usize::from(at) % lines.len().max(1);
            if lines.is_empty() {
                break;
            }
            match kind {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                // A letter of a word is another.
                2 => {
                    let letters: Vec<(usize, char)> = lines[at].char_indices().filter(|one| one.1.is_ascii_uppercase()).collect();
                    if let Some((place, _)) = letters.get(usize::from(more) % letters.len().max(1)) {
                        lines[at].replace_range(*place..*place + 1, "?");
                    }
                }
                // Some lines in a row.
                _ => drop(lines.drain(at..(at + 1 + usize::from(more % 6)).min(lines.len()))),
            }
        }
        let Ok(reading) = read(lines.join("\n").as_bytes(), Some(format)) else { return Ok(()) };
        let (was, is) = (cables(&graph), cables(&reading.graph));
        let strange: Vec<_> = is.difference(&was).collect();
        // Where a header and all before it to the ports of another node are lost, the file has nothing that
        // distinguishes them: who hears of a cable from one end alone can only report an anomaly, and in a
        // net file not even that.
        let one_way = reading.anomalies.count(Cause::OneWay) as usize;
        let undetectable = format == Format::IbSim && joins;
        prop_assert!(strange.len() <= one_way || undetectable, "{:?}\n{}", strange, lines.join("\n"));
        for (_, writer) in ALL {
            let mut bytes = Vec::new();
            writer(&reading.graph, &mut bytes).unwrap();
            if reading.graph.link_count() > 0 {
                let again = read(&bytes, None).unwrap();
                prop_assert_eq!(cables(&again.graph), is.clone());
            }
        }
    }
}
