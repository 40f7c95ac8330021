//! The words of one line of a list of hosts.

use std::net::{IpAddr, SocketAddr};

use proto::ids::NodeId;

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Read that file here.
    Include(&'a str),
    /// This name stands for these hosts; it adds none.
    Group(&'a str, Vec<&'a str>),
    /// These are taken away, wherever they were added.
    Exclude(Vec<&'a str>),
    /// These are hosts, with what belongs to each.
    Hosts { part: &'a str, address: Option<String>, node: Option<NodeId> },
    /// A line as in `/etc/hosts`: the name of the host, if other hosts could mean it.
    Name(Option<&'a str>),
}

/// Takes a line apart that is neither empty nor a comment.
///
/// # Errors
/// What is wrong, with what to do.
pub(super) fn parse(text: &str) -> Result<Said<'_>, String> {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    if let Some(excluded) = text.strip_prefix('!') {
        return some(excluded, "!").map(Said::Exclude);
    }
    match (first, words.next()) {
        ("include", Some(file)) if !file.contains('=') => {
            return match words.next() {
                None => Ok(Said::Include(file)),
                Some(more) => Err(format!("`{more}` is not understood: `include` takes one file")),
            };
        }
        ("group", Some(_)) => return group(text),
        (address, Some(name)) if !name.contains('=') => {
            if let Ok(ip) = address.parse::<IpAddr>() {
                return Ok(Said::Name(Some(name).filter(|name| is_of_a_host(ip, name))));
            }
        }
        _ => {}
    }
    host(text)
}

fn some<'a>(list: &'a str, before: &str) -> Result<Vec<&'a str>, String> {
    let parts = crate::host_set::parts(list);
    if parts.is_empty() {
        Err(format!("no host follows `{before}`: name them, as in `{before} node[1-4]`"))
    } else {
        Ok(parts)
    }
}

fn group(text: &str) -> Result<Said<'_>, String> {
    let rest = text.trim_start().strip_prefix("group").unwrap_or_default();
    let Some((name, hosts)) = rest.split_once('=') else {
        return Err("a group needs hosts: write it as in `group rack1 = node[1-16]`".to_owned());
    };
    let name = name.trim();
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) {
        return Err(format!(
            "`{}` is no name for a group: use letters, digits, - and _",
            name.escape_debug()
        ));
    }
    Ok(Said::Group(name, some(hosts, "=")?))
}

/// `/etc/hosts` also names this machine itself, and groups of machines.
fn is_of_a_host(ip: IpAddr, name: &str) -> bool {
    let is_of_ipv6 = ["ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters"].contains(&name);
    !(ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || is_of_ipv6)
}

fn host(text: &str) -> Result<Said<'_>, String> {
    let mut words = text.split_whitespace();
    let part = words.next().unwrap_or_default();
    if part.contains('=') {
        return Err(format!("`{}` is no host: begin the line with what `ssh` takes", part.escape_debug()));
    }
    let (mut address, mut node) = (None, None);
    for word in words {
        match word.split_once('=') {
            Some((key @ "address", _)) if address.is_some() => return Err(twice(key)),
            Some((key @ "node", _)) if node.is_some() => return Err(twice(key)),
            Some(("address", given)) => {
                check_address(given).map_err(|why| format!("address={given}: {why}"))?;
                address = Some(given.into());
            }
            Some(("node", given)) => {
                node = Some(given.parse().map_err(|why| format!("node={given}: {why}"))?);
            }
            _ => {
                return Err(format!(
                    "`{}` is not understood: write address=IP or node=ID after the host, # before a comment, and \
                     each host on a line of its own",
                    word.escape_debug()
                ));
            }
        }
    }
    Ok(Said::Hosts { part, address, node })
}

fn twice(key: &str) -> String {
    format!("{key}= is given twice for this host: give it once")
}

/// An IP address with or without a port; the text says what is wrong.
fn check_address(text: &str) -> Result<(), String> {
    if text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0) {
        return Ok(());
    }
    let (ip, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && ip.parse::<IpAddr>().is_ok() {
        return Err(format!("port {port} is not possible: give a port from 1 to 65535"));
    }
    Err("it is no IP address: give one, with or without a port".to_owned())
}
