//! `tieline fabric serve`.

use std::io::Write;
use std::path::PathBuf;

use ::fabric::server::{Event, Options, serve};

use super::super::usage;
use super::open;
use super::shown::Shown;
use crate::args::fabric::Serve;
use crate::exit::{Outcome, PASS};
use crate::interrupt;
use topology::counted;

/// Longest name, in bytes: more than a socket's name takes with what the protocol appends.
const MOST_NAME: usize = 80;

pub(super) fn run(arguments: &Serve, output: Shown) -> Outcome {
    let name_bytes = arguments.name.len();
    if name_bytes == 0 {
        return Err(usage("--name is empty: give a socket name, as in --name lab"));
    }
    if name_bytes > MOST_NAME {
        return Err(usage(format!(
            "--name has {name_bytes} bytes: give a socket name of at most {MOST_NAME}"
        )));
    }
    let graph = open(&arguments.file, output)?.graph;
    let (nodes, links) = (graph.node_count(), graph.link_count());
    interrupt::end_with_what_there_is()?;
    // Commands from standard input go the same way as those of others.
    let own = std::env::temp_dir().join(format!("tieline-fabric-{}.sock", std::process::id()));
    let control: PathBuf = arguments.control.clone().unwrap_or(own);
    let options =
        Options { base: arguments.name.clone(), control: Some(control.clone()), bring_up: !arguments.bare };
    let mut event = |event: Event| {
        if event == Event::Ready {
            let (nodes, links) = (counted(nodes, "node"), counted(links, "link"));
            say(&format!("serving {nodes} and {links} as {}", arguments.name));
            let control = control.clone();
            // It ends with the process, or when there is nothing more to read.
            let lines = move || fabric::console::hand_on(std::io::stdin().lock(), &control);
            drop(std::thread::Builder::new().name("commands".into()).spawn(lines));
        } else if let Some(line) = told(&event).filter(|_| !output.is_quiet()) {
            say(&line);
        }
    };
    let served = serve(graph, &options, &mut event, &interrupt::has_arrived)?;
    say(&format!(
        "served {}: {} received, {} answered, {} forwarded, {} lost",
        counted(served.clients, "program"),
        counted(served.datagrams, "MAD"),
        served.answered,
        served.handed,
        served.lost
    ));
    Ok(PASS)
}

/// A reader that went away is no reason to stop serving.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Programs, commands and their answers are the words of others.
    drop(writeln!(out, "{}", mad::text::plain(line)).and_then(|()| out.flush()));
}

fn told(event: &Event) -> Option<String> {
    Some(match event {
        Event::Ready => return None,
        Event::Came { client, node } => format!("program {client} connected at {node}"),
        Event::Went { client, vanished: false } => format!("program {client} disconnected"),
        Event::Went { client, vanished: true } => format!("program {client} ended without disconnecting"),
        Event::Refused { why } => format!("a program was refused: {why}"),
        Event::Garbage { on, len } => {
            format!("a message of {} on {on} does not follow the protocol: ignored", counted(*len, "byte"))
        }
        Event::Command { line, answer } => format!("{line}: {answer}"),
    })
}
