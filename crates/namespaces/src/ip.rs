//! Makes and configures network interfaces with the program `ip` of iproute2, so that no netlink messages
//! have to be written here.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use crate::error::{NamespacesError, Result};
use crate::plan::Range;
use crate::rate::Rate;

/// What the program prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|source| not_run("ip", source))?;
    if !output.status.success() {
        return Err(refused("ip", &output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Carries out these lines, each an `ip` command without its first word, in this thread's network namespace.
fn batch(lines: &[String]) -> Result<()> {
    batch_of("ip", lines)
}

/// The same by `ip` or `tc`, which is of the same package.
fn batch_of(program: &'static str, lines: &[String]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let not_run = |source| not_run(program, source);
    let mut child = command.spawn().map_err(not_run)?;
    if let Some(mut input) = child.stdin.take() {
        // It ends at the first line that the kernel refuses, and says so.
        let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output().map_err(not_run)?;
    if output.status.success() { Ok(()) } else { Err(refused(program, &output.stderr)) }
}

fn not_run(program: &'static str, source: std::io::Error) -> NamespacesError {
    match source.kind() {
        ErrorKind::NotFound => NamespacesError::NoIp { program },
        _ => NamespacesError::Io { what: "run", path: program.into(), source },
    }
}

fn refused(program: &'static str, stderr: &[u8]) -> NamespacesError {
    let said = String::from_utf8_lossy(stderr);
    NamespacesError::Ip { program, said: said.lines().map(str::trim).collect::<Vec<_>>().join("; ") }
}

/// The hub's part of the network: a bridge for each rail, to which the hosts are connected.
pub(crate) fn bridges(rails: usize) -> Result<()> {
    let of_rail = |rail| {
        let bridge = on_rail("hub", rail);
        [format!("link add {bridge} type bridge"), format!("link set {bridge} up")]
    };
    let lines = ["link set lo up".to_owned()].into_iter().chain((0..rails).flat_map(of_rail));
    batch(&lines.collect::<Vec<_>>())
}

/// Connects hosts to the bridge of a rail: `eth0`, or `eth1` and so on, in the network of each process, and
/// an interface with the host's name here. Without a bridge a process forwards what they send
/// ([`crate::forwarder`]): nothing else may speak there.
pub(crate) fn connect(hosts: &[(String, u32)], rail: usize, has_bridge: bool) -> Result<()> {
    let bridge = on_rail("hub", rail);
    let lines = hosts.iter().enumerate().flat_map(|(index, (host, pid))| {
        let (name, there, hardware) = (on_rail(host, rail), interface(rail), hardware_address(index, rail));
        [
            format!("link add {name} type veth peer name {there} address {hardware} netns {pid}"),
            if has_bridge {
                format!("link set {name} master {bridge}")
            } else {
                format!("link set {name} addrgenmode none")
            },
            format!("link set {name} up"),
        ]
    });
    batch(&lines.collect::<Vec<_>>())
}

/// What the hub calls its end of a host's cable, or a bridge: the first rail has the plain name.
pub(crate) fn on_rail(name: &str, rail: usize) -> String {
    if rail == 0 { name.to_owned() } else { format!("{name}-{rail}") }
}

/// What a host calls its end.
pub(crate) fn interface(rail: usize) -> String {
    format!("eth{rail}")
}

/// Of an interface of the `index`-th host: one of those that nobody gives out.
fn hardware_address(index: usize, rail: usize) -> String {
    hardware_bytes(index, rail).map(|byte| format!("{byte:02x}")).join(":")
}

/// The same as it stands in a frame.
pub(crate) fn hardware_bytes(index: usize, rail: usize) -> [u8; 6] {
    let number = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    [2, 0, 0, 0, number(rail), number(index + 1)]
}

/// A host's part of the network. It knows the hardware addresses of all others from the start: the kernel has
/// one table for those that hosts ask each other for, of 1,024 entries for all namespaces together
/// (`net.ipv4.neigh.default.gc_thresh3`), which 33 hosts fill.
pub(crate) fn addresses(rails: &[Range], index: usize, count: usize) -> Result<()> {
    let mut lines = vec!["link set lo up".to_owned()];
    for (rail, range) in rails.iter().enumerate() {
        let interface = interface(rail);
        lines.push(format!("address add {}/24 dev {interface}", range.address(index)));
        lines.push(format!("link set {interface} up"));
        lines.extend((0..count).filter(|other| *other != index).map(|other| {
            let (address, hardware) = (range.address(other), hardware_address(other, rail));
            format!("neighbour add {address} lladdr {hardware} dev {interface} nud permanent")
        }));
    }
    batch(&lines)
}

/// Limits what leaves through these interfaces of this thread's network namespace.
pub(crate) fn limit(interfaces: impl IntoIterator<Item = String>, rate: Rate) -> Result<()> {
    let lines = interfaces.into_iter().map(|name| format!("qdisc add dev {name} {}", rate.bucket()));
    batch_of("tc", &lines.collect::<Vec<_>>())
}
