//! One of the message queues that are measured (`tieline bench pt2pt`, `tieline bench acceptance --only mq`):
//! the end of `collectives::measured` in a process of its own.
//!
//! It prints the name of its end point; the first line of its input has the names of all, in rank order. Then
//! each line is an order, answered by one line. It ends with its input.
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};

use collectives::measured::{End, Fallible};
use message_queue::{MessageQueue, Name, Settings};

fn main() {
    let mut input = std::io::stdin().lock().lines().map_while(Result::ok);
    let mut end = match open(&mut input) {
        Ok(end) => end,
        Err(error) => return say(&format!("error {error}")),
    };
    say("ready");
    for line in input {
        let words: Vec<&str> = line.split_whitespace().collect();
        match end.obey(&words) {
            Ok(said) => say(&said),
            Err(error) => say(&format!("error {error}")),
        }
    }
}

fn open(input: &mut impl Iterator<Item = String>) -> Fallible<End> {
    let settings = Settings::from_environment()?;
    let queue = MessageQueue::new(settings)?;
    let name: String = queue.name().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    say(&name);
    let all = input.next().ok_or("the names of all are missing")?;
    let members: Vec<Name> = all.split_whitespace().map(name_of).collect::<Fallible<_>>()?;
    End::open(queue, &settings, &members)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        // The reader has ended: there is nothing to do for anyone.
        std::process::exit(1);
    }
}

/// A name as its end point has printed it.
fn name_of(text: &str) -> Fallible<Name> {
    let digits = text.as_bytes().chunks_exact(2);
    let bytes: Vec<u8> =
        digits.map(|two| Ok(u8::from_str_radix(std::str::from_utf8(two)?, 16)?)).collect::<Fallible<_>>()?;
    Ok(bytes.first_chunk().and_then(Name::of_bytes).ok_or("that is no name")?)
}
