//! One end of bare loops of libfabric's calls: the reference of the figures of link `ofi`
//! (`tieline bench acceptance --only ofi`).
//!
//! `tieline-fabric-measure PROVIDER ADDRESS BYTES` opens an end point at this address with BYTES of memory
//! that the peer may write, and prints its card. The first line of its input is the card of the peer; then
//! each line is an order, answered by one line. It ends with its input. The orders: see [`obey`].
//!
//! The loops are [`fabric_sys::bare`], which shares no code with crate `ofi`.
#![allow(clippy::print_stdout)]

mod tcp;

use std::io::{BufRead, Write};
use std::time::Duration;

use fabric_sys::bare::{Bare, BareError};
use tcp::Tcp;

type Answer = Result<String, BareError>;

/// Nothing takes this long: the peer is gone.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Of the memory. Measurements run between hosts of their own.
const KEY: u64 = 77;

struct Loops {
    bare: Bare,
    tcp: Tcp,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut input = std::io::stdin().lock().lines().map_while(Result::ok);
    let mut ready = || -> Result<Loops, BareError> {
        let [provider, address, bytes] = words.as_slice() else {
            return Err("usage: tieline-fabric-measure PROVIDER ADDRESS BYTES".into());
        };
        let mut bare = Bare::open(provider, Some(address), bytes.parse()?, KEY, GIVE_UP_AFTER)?;
        say(&bare.card()?);
        bare.meet(&input.next().ok_or("the peer's card is missing")?)?;
        Ok(Loops { bare, tcp: Tcp::default() })
    };
    let mut loops = match ready() {
        Ok(loops) => loops,
        Err(error) => return say(&format!("error {error}")),
    };
    say("ready");
    for line in input {
        let words: Vec<&str> = line.split_whitespace().collect();
        match obey(&mut loops, &words) {
            Ok(said) => say(&said),
            Err(error) => say(&format!("error {error}")),
        }
    }
}

/// The orders. Times are in nanoseconds.
///
/// - `version`: of libfabric
/// - `echo N`, while the peer does `answer N`: N messages of 8 bytes and their answers; half the time of one
///   of them
/// - `put BYTES N`: N writes one after the other, each of which is there when the next begins; the time of
///   one
/// - `stream BYTES N`: N writes, several at a time; the time of one
/// - `stream-copied BYTES N`: the same, of blocks that are copied first
/// - `fill BYTES SEED`: what the next writes write
/// - `check BYTES SEED`: whether the peer has written that
/// - `tcp-listen`, then `tcp-connect ADDRESS:PORT` at the peer, `tcp-echo N` and `tcp-answer N`: the same
///   echo over a TCP socket
fn obey(loops: &mut Loops, words: &[&str]) -> Answer {
    let number =
        |nth: usize| -> Result<u64, BareError> { Ok(words.get(nth).ok_or("a number is missing")?.parse()?) };
    let ns = |time: f64| Ok(format!("{time:.1}"));
    match words.first().copied().unwrap_or("") {
        "version" => Ok(fabric_sys::Library::load()?.version()),
        "echo" => ns(loops.bare.echo(number(1)?)?),
        "answer" => loops.bare.answer(number(1)?).map(|()| "done".to_owned()),
        "put" => ns(loops.bare.put(number(1)? as usize, number(2)?)?),
        "stream" => ns(loops.bare.stream(number(1)? as usize, number(2)?)?),
        "stream-copied" => ns(loops.bare.stream_copied(number(1)? as usize, number(2)?)?),
        "fill" => loops.bare.fill(number(1)? as usize, number(2)?).map(|()| "done".to_owned()),
        "check" => loops.bare.check(number(1)? as usize, number(2)?).map(|()| "same".to_owned()),
        "tcp-listen" => loops.tcp.listen(words.get(1).ok_or("an address is missing")?),
        "tcp-connect" => loops.tcp.connect(words.get(1).ok_or("an address is missing")?),
        "tcp-echo" => ns(loops.tcp.echo(number(1)?)?),
        "tcp-answer" => loops.tcp.answer(number(1)?).map(|()| "done".to_owned()),
        other => Err(format!("`{other}` is no order").into()),
    }
}

fn say(line: &str) {
    println!("{line}");
    // Whoever reads it has ended: there is nothing to do for anyone.
    let _ = std::io::stdout().flush();
}
