//! Stock programs examine a fabric that `tieline fabric serve` serves. Where they are not installed that is
//! said.

use std::process::{Command, Stdio};

use tieline_tests::Watchdog;

use crate::harness::{Place, Served};

/// What a stock program prints; `None` if it is not installed.
fn stock(place: &Place, served: &Served, words: &[&str]) -> Option<String> {
    let output = Command::new("ibsim-run")
        .args(words)
        .current_dir(place.dir())
        .env("IBSIM_SOCKNAME", &served.name)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.code() != Some(127) => Some(String::from_utf8(output.stdout).unwrap()),
        _ => {
            println!("left out: `{}` needs the packages ibsim-utils and infiniband-diags", words.join(" "));
            None
        }
    }
}

#[test]
fn stock_programs_see_the_served_fabric() {
    let _watchdog = Watchdog::usual("stock programs");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "4", "2"]);
    let mut served = Served::start(&place, "net.toml", &[]);
    let Some(dump) = stock(&place, &served, &["ibnetdiscover"]) else { return };
    place.write("seen.topo", &dump);
    let (status, report) = place.json(&["observe", "--from", "seen.topo", "--plan", "net.toml"]);
    assert_eq!((status, report["findings"].as_array().unwrap().len()), (0, 0), "{report:#}");
    served.tell("unlink leaf000 3");
    let Some(links) = stock(&place, &served, &["iblinkinfo"]) else { return };
    assert!(links.contains("Down") || links.contains("Polling"), "{links}");
    let dump = stock(&place, &served, &["ibnetdiscover"]).unwrap();
    place.write("seen.topo", &dump);
    let (status, report) = place.json(&["observe", "--from", "seen.topo", "--plan", "net.toml"]);
    assert_eq!((status, report["findings"][0]["kind"].as_str()), (1, Some("missing")), "{report:#}");
}

#[test]
fn the_independent_checker_agrees_about_dumped_tables() {
    let _watchdog = Watchdog::usual("ibdmchk");
    let place = Place::new();
    place.done(&["generate", "net.toml", "torus", "4x4", "--hosts", "2"]);
    place.done(&["route", "net.toml", "--dump", "."]);
    let words = [
        "-s",
        "opensm-subnet.lst",
        "-f",
        "opensm.fdbs",
        "-m",
        "opensm.mcfdbs",
        "-c",
        "opensm.psl",
        "-d",
        "opensm.slvl",
    ];
    let Ok(output) = Command::new("ibdmchk").args(words).current_dir(place.dir()).output() else {
        println!("left out: ibdmchk is of the package ibutils");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("no credit loops found"), "{said}");
}
