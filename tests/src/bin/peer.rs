//! A program for tests to talk to and to kill: owns segments and interrupts, or is connected to those of
//! others.
//!
//! It says a line when it is ready, obeys lines on standard input, and ends when that closes.
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tieline::{GroupId, InterruptNo, InterruptOptions, Node, NodeId, RemoteEvent, SegmentId};

const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["compute"] => compute(),
        ["parent", rest @ ..] => return parent(rest),
        _ => {}
    }
    let node = Node::attach()?;
    match words.as_slice() {
        ["own", id, size] => own(&node, id.parse()?, size.parse()?),
        ["share", id, size] => share(&node, id.parse()?, size.parse()?),
        ["connect", peer, id] => connect(&node, peer, id.parse()?),
        ["stream", peer, id] => stream(&node, peer, id.parse()?),
        ["interrupt", number] => interrupt(&node, number.parse()?),
        ["data-interrupt", number] => data_interrupt(&node, number.parse()?),
        ["send", peer, number] => send(&node, peer, number.parse()?),
        ["copy-plan"] => {
            let plan = shm::copy::Plan::current();
            say(&plan.by_class().map(|kernel| format!("{kernel:?}")).join(" "))
        }
        ["member", group] => member(&node, group.parse()?),
        other => bail!("unknown role {other:?}"),
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

fn lines() -> impl Iterator<Item = String> {
    std::io::stdin().lock().lines().map_while(std::result::Result::ok)
}

/// Other work: computes until standard input ends.
fn compute() -> ! {
    std::thread::spawn(|| {
        lines().for_each(drop);
        std::process::exit(0);
    });
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// A test that hangs: starts children of its own, says `ready`, and waits for its watchdog. One child has a
/// child, and one has left the tree for a cluster's directory, as managers do that were started in the
/// background.
fn parent(words: &[&str]) -> Result<()> {
    let [directory] = words else { bail!("which directory?") };
    let start = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).env("TIELINE_RUNTIME_DIR", directory);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn()
    };
    tieline_tests::leftovers::own(std::path::Path::new(directory));
    let _watchdog = tieline_tests::Watchdog::new("a test of the watchdog", Duration::from_secs(1));
    let mut children = vec![start("sleep 1000 & wait")?];
    // Its shell ends, so its parent is no longer of this tree.
    children.push(start("setsid sleep 1000 & exit 0")?);
    say("ready")?;
    children.into_iter().try_for_each(|mut child| child.wait().map(drop))?;
    // The watchdog ends them first, and then this process.
    std::thread::sleep(Duration::from_secs(60));
    bail!("the children ended by themselves");
}

/// Owns an available segment; `read OFFSET LEN` prints bytes, `write OFFSET BYTE` sets one.
fn own(node: &Node, id: u32, size: usize) -> Result<()> {
    let segment = node.create_segment(SegmentId(id), size)?;
    segment.make_available()?;
    say("ready")?;
    for line in lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["read", offset, len] => {
                let mut bytes = vec![0; len.parse()?];
                segment.window().get(offset.parse()?, &mut bytes)?;
                say(&format!("{bytes:?}"))?;
            }
            ["write", offset, byte] => {
                segment.window().put(offset.parse()?, &[byte.parse()?])?;
                say("done")?;
            }
            ["withdraw"] => {
                segment.withdraw(true)?;
                say("done")?;
            }
            other => bail!("unknown order {other:?}"),
        }
    }
    Ok(())
}

/// Shares a segment with the programs of its node.
fn share(node: &Node, id: u32, size: usize) -> Result<()> {
    let segment = node.create_segment(SegmentId(id), size)?;
    segment.share()?;
    say("ready")?;
    lines().for_each(drop);
    Ok(())
}

/// Is connected to a segment, and says when it is lost.
fn connect(node: &Node, peer: &str, id: u32) -> Result<()> {
    let remote = node.connect_segment(parse(peer)?, SegmentId(id), TIMEOUT)?;
    say("ready")?;
    let event = remote.wait_event(TIMEOUT)?;
    let RemoteEvent::Lost(reason) = event else { bail!("{event:?} instead of a loss") };
    let error = remote.put(0, &[1]).err().context("a put to a lost segment succeeded")?;
    say(&format!("lost {reason:?}: {error}"))
}

/// Writes to a segment without end: to be killed, or to see the other end killed.
fn stream(node: &Node, peer: &str, id: u32) -> Result<()> {
    let remote = node.connect_segment(parse(peer)?, SegmentId(id), TIMEOUT)?;
    say("ready")?;
    let block = vec![7u8; remote.size_bytes()];
    // Bounded, like every load of a test.
    for _ in 0..50_000_000u64 {
        if let Err(error) = remote.put(0, &block).and_then(|()| remote.barrier()) {
            return say(&format!("lost: {error}"));
        }
    }
    bail!("nobody ended the stream")
}

/// Owns an interrupt; says how often it came.
fn interrupt(node: &Node, number: u32) -> Result<()> {
    let options = InterruptOptions { number: Some(InterruptNo(number)), ..InterruptOptions::default() };
    let interrupt = node.create_interrupt(&options)?;
    say("ready")?;
    for _ in lines() {
        say(&format!("came {}", interrupt.wait(Some(TIMEOUT))?))?;
    }
    Ok(())
}

/// Owns a data interrupt; each line on standard input takes one message.
fn data_interrupt(node: &Node, number: u32) -> Result<()> {
    let options = InterruptOptions { number: Some(InterruptNo(number)), ..InterruptOptions::default() };
    let interrupt = node.create_data_interrupt(&options, 64, 8)?;
    say("ready")?;
    let mut message = [0; 64];
    for _ in lines() {
        let len = interrupt.wait(&mut message, Some(TIMEOUT))?;
        say(&String::from_utf8_lossy(message.get(..len).unwrap_or_default()))?;
    }
    Ok(())
}

/// Sends each line of standard input to a data interrupt.
fn send(node: &Node, peer: &str, number: u32) -> Result<()> {
    let remote = node.connect_data_interrupt(parse(peer)?, InterruptNo(number), TIMEOUT)?;
    say("ready")?;
    for line in lines() {
        match remote.trigger(line.as_bytes()) {
            Ok(()) => say("sent")?,
            Err(error) => say(&format!("error: {error}"))?,
        }
    }
    Ok(())
}

/// Holds a copy of a group; `read OFFSET LEN` prints bytes of it.
fn member(node: &Node, group: u32) -> Result<()> {
    let member = node.join_group(GroupId(group), 4096)?;
    say("ready")?;
    for line in lines() {
        let ["read", offset, len] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            bail!("read OFFSET LEN")
        };
        let mut bytes = vec![0; len.parse()?];
        member.window().get(offset.parse()?, &mut bytes)?;
        say(&format!("{bytes:?}"))?;
    }
    Ok(())
}

fn parse(node: &str) -> Result<NodeId> {
    node.parse().map_err(anyhow::Error::msg)
}
