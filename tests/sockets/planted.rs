//! The build with mistakes in it makes them: a test that is to find them must have something to find.

use std::process::{Command, Stdio};

use tieline_tests::Watchdog;

use crate::built::{planted, program};

const PLANTS: [&str; 20] = [
    "wrong-errno",
    "lost-wakeup",
    "stale-after-dup2",
    "byte-doubled",
    "edge-lost",
    "short-read-full",
    "eof-eagain",
    "no-sigpipe",
    "no-eintr",
    "peek-consumes",
    "accept-no-cloexec",
    "dup-blocks",
    "hup-missing",
    "wrong-name",
    "rights-lost",
    "shutdown-ignored",
    "close-leaks",
    "no-timeout",
    "vector-halved",
    "stale-in-child",
];

fn said(plant: Option<&str>) -> String {
    let mut command = Command::new(program("mistakes", "mistakes.c", &[]));
    command.env("LD_PRELOAD", planted()).stdin(Stdio::null());
    if let Some(plant) = plant {
        command.env("TIELINE_SOCKETS_PLANT", plant);
    }
    let output = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), output.status)
}

#[test]
fn each_mistake_is_made_and_shows_where_it_was_planted() {
    let _watchdog = Watchdog::usual("planted mistakes");
    let right = said(None);
    assert!(right.contains("exit status: 0"), "{right}");
    assert_eq!(right, said(Some("no-such-plant")));
    for plant in PLANTS {
        let wrong = said(Some(plant));
        let differ: Vec<&str> =
            right.lines().zip(wrong.lines()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
        assert!(!differ.is_empty(), "{plant} changes nothing");
        let place = differ[0].split(':').next().unwrap();
        assert_eq!(place, plant, "{plant} shows first in another place: {differ:?}");
    }
}
