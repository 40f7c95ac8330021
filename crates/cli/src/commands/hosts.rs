//! `tieline cluster`.

use std::io::Read;
use std::time::Duration;

use node::hosts::{
    JoinOptions, LeaveOptions, Token, address_warning, init, join, leave, renew, revoke, show, token,
};
use node_client::runtime_dir::{ClusterName, DEFAULT_CLUSTER};
use tieline::NodeId;

use super::{cluster_dir, usage};
use crate::args::{ClusterAction, Common, Init, Join, Leave, Renew};
use crate::environment;
use crate::exit::{Failure, Outcome, PASS};
use crate::output::Output;

const SCHEMA: &str = "tieline.cluster/1";
/// How long the other host may take to answer.
const LIMIT: Duration = Duration::from_secs(15);
/// More is no token.
const TOKEN_BYTES_MAX: u64 = 4096;

pub(super) fn run(common: &Common, action: &ClusterAction, output: Output) -> Outcome {
    match action {
        ClusterAction::Show => shown(common, output),
        ClusterAction::Init(arguments) => make(common, arguments, output),
        ClusterAction::Token { expires } => print_token(common, *expires, output),
        ClusterAction::Join(arguments) => let_in(common, arguments, output),
        ClusterAction::Renew(arguments) => renewed(common, arguments, output),
        ClusterAction::Leave(arguments) => gone(common, arguments, output),
        ClusterAction::Revoke { revoked } => taken_back(common, *revoked, output),
    }
}

fn cluster(common: &Common) -> Result<ClusterName, Failure> {
    let name = common.cluster.as_deref().unwrap_or(DEFAULT_CLUSTER);
    ClusterName::new(name).map_err(Failure::usage)
}

/// For commands that are proposed.
fn option_of(cluster: &ClusterName) -> String {
    if cluster.as_str() == DEFAULT_CLUSTER { String::new() } else { format!(" --cluster {cluster}") }
}

fn make(common: &Common, arguments: &Init, output: Output) -> Outcome {
    let node = match common.node {
        Some(node) => node,
        None => NodeId::nth(0)?,
    };
    let cluster = cluster(common)?;
    let made = init(cluster.as_str(), node, arguments.address)?;
    warn(address_warning(made.address), output);
    output.result(
        || {
            let (address, fingerprint) = (made.address.to_string(), made.fingerprint.to_string());
            Ok(serde_json::json!({ "schema": SCHEMA, "cluster": cluster.as_str(), "node": node, "address": address,
                                   "fingerprint": fingerprint, "directory": made.dir }))
        },
        || {
            format!(
                "cluster {cluster} is created, node {node} listens at {}; keys are in {}\n\
                 next: `tieline node start --node {node}`, then `tieline cluster token` for each other host\n",
                made.address,
                made.dir.display()
            )
        },
    )?;
    Ok(PASS)
}

fn shown(common: &Common, output: Output) -> Outcome {
    let cluster = cluster(common)?;
    let shown = show(cluster.as_str())?;
    let named = option_of(&cluster);
    output.result(
        || {
            let list = |nodes: &[(NodeId, std::net::SocketAddr)]| {
                let each = nodes.iter();
                let each = each
                    .map(|(node, address)| serde_json::json!({ "node": node, "address": address.to_string() }));
                each.collect::<Vec<_>>()
            };
            Ok(serde_json::json!({ "schema": SCHEMA, "cluster": cluster.as_str(), "directory": shown.dir,
                                   "is_authority": shown.is_authority, "nodes": list(&shown.nodes),
                                   "hosts": list(&shown.hosts) }))
        },
        || {
            if shown.nodes.is_empty() && !shown.is_authority {
                return format!(
                    "this host is in no cluster {cluster} of several hosts: there are no keys in {}\n\
                     next: `tieline cluster init --address IP{named}` makes one, `tieline cluster join HOST` joins one\n",
                    shown.dir.display()
                );
            }
            let mut text = format!("cluster {cluster}, keys in {}\n", shown.dir.display());
            for (node, address) in &shown.nodes {
                text += &format!("this host is node {node}, whose manager listens at {address}\n");
            }
            if shown.is_authority {
                text += "the cluster was made here: the authority's key is on this host\n";
            }
            let others = shown.hosts.iter().filter(|host| !shown.nodes.contains(host));
            others.for_each(|(node, address)| text += &format!("node {node} is at {address}\n"));
            text
        },
    )?;
    Ok(PASS)
}

/// An address that may be wrong is no error: something on the way may translate it.
fn warn(warning: Option<String>, output: Output) {
    if let Some(warning) = warning {
        output.note(&format!("warning: {warning}"));
    }
}

fn print_token(common: &Common, expires: Duration, output: Output) -> Outcome {
    let token = token(cluster(common)?.as_str(), common.node, expires)?.to_string();
    output.result(
        || Ok(serde_json::json!({ "schema": SCHEMA, "token": token, "expires_s": expires.as_secs() })),
        || format!("{token}\n"),
    )?;
    Ok(PASS)
}

fn let_in(common: &Common, arguments: &Join, output: Output) -> Outcome {
    let options = JoinOptions {
        host: arguments.host.clone(),
        token: token_of(arguments)?,
        node: common.node,
        address: arguments.address,
        limit: LIMIT,
    };
    let joined = join(options)?;
    warn(address_warning(joined.address), output);
    let node = joined.node;
    output.result(
        || {
            let address = joined.address.to_string();
            Ok(serde_json::json!({ "schema": SCHEMA, "cluster": joined.cluster, "node": node, "address": address,
                                   "directory": joined.dir }))
        },
        || {
            let named = if joined.cluster == DEFAULT_CLUSTER {
                String::new()
            } else {
                format!(" --cluster {}", joined.cluster)
            };
            format!(
                "this host is node {node} of cluster {}, and listens at {}; keys are in {}\n\
                 next: `tieline node start --node {node}{named}`\n",
                joined.cluster,
                joined.address,
                joined.dir.display()
            )
        },
    )?;
    Ok(PASS)
}

fn renewed(common: &Common, arguments: &Renew, output: Output) -> Outcome {
    let cluster = cluster(common)?;
    let renewed = renew(cluster.as_str(), common.node, arguments.host.as_deref(), LIMIT)?;
    let node = renewed.node;
    output.result(
        || {
            Ok(serde_json::json!({ "schema": SCHEMA, "cluster": cluster.as_str(), "node": node,
                                   "directory": renewed.dir }))
        },
        || {
            let named = option_of(&cluster);
            format!(
                "node {node} of cluster {cluster} has a new certificate, in {}\n\
                 next: `tieline node restart --node {node}{named}`: its manager takes the new one when it starts\n",
                renewed.dir.display()
            )
        },
    )?;
    Ok(PASS)
}

fn taken_back(common: &Common, node: NodeId, output: Output) -> Outcome {
    let dir = cluster_dir(common)?;
    let (cluster, named) = (dir.cluster(), option_of(dir.cluster()));
    let revoked = revoke(&dir, node)?;
    output.result(
        || {
            Ok(serde_json::json!({ "schema": SCHEMA, "cluster": cluster.as_str(), "node": node, "revoked": true,
                                   "already": revoked.already, "passed_on": revoked.is_passed_on,
                                   "directory": revoked.dir }))
        },
        || {
            let state = if revoked.already { "are revoked already" } else { "are revoked" };
            let next = if revoked.is_passed_on {
                "next: `tieline status` on the other hosts, which refuse the node now".to_owned()
            } else {
                format!("next: `tieline node start --node ID{named}` on this host: no node manager runs here, and the other hosts \
                         refuse the node only when one has told them")
            };
            format!("the certificates of node {node} of cluster {cluster} {state}; to let it join again: `tieline cluster token --node {node}{named}`\n{next}\n")
        },
    )?;
    Ok(PASS)
}

fn gone(common: &Common, arguments: &Leave, output: Output) -> Outcome {
    let dir = cluster_dir(common)?;
    let (cluster, named) = (dir.cluster(), option_of(dir.cluster()));
    let host = arguments.host.as_deref();
    if host.is_none() && !arguments.force {
        return Err(usage(
            "the authority's host is missing: give the host where `tieline cluster init` was run; if it cannot be reached, --force removes \
             the keys of this host only",
        ));
    }
    let node = leave(LeaveOptions { runtime: &dir, node: common.node, host, limit: LIMIT })?;
    let is_told = host.is_some();
    output.result(
        || {
            Ok(serde_json::json!({ "schema": SCHEMA, "cluster": cluster.as_str(), "node": node, "left": true,
                                   "authority_told": is_told }))
        },
        || {
            let next = if is_told {
                String::new()
            } else {
                format!("next: `tieline cluster revoke {node}{named}` on the authority's host, which does not know of it\n")
            };
            format!("node {node} has left cluster {cluster}: its keys are removed from this host\n{next}")
        },
    )?;
    Ok(PASS)
}

fn token_of(arguments: &Join) -> Result<Token, Failure> {
    let (source, text) = match arguments.token.as_deref() {
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().take(TOKEN_BYTES_MAX).read_to_end(&mut bytes)?;
            if bytes.trim_ascii().is_empty() {
                return Err(usage(
                    "standard input is empty: pipe the output of `tieline cluster token` into it",
                ));
            }
            ("standard input", String::from_utf8_lossy(&bytes).into_owned())
        }
        Some(text) => ("--token", text.to_owned()),
        None => {
            let text = environment::token()?.ok_or_else(|| {
                usage("no token is given: give --token - and the token on standard input, or set TIELINE_TOKEN (`tieline cluster token` prints one)")
            })?;
            ("TIELINE_TOKEN", text)
        }
    };
    // The text is not repeated: it may be a secret.
    let wrong = |_| {
        usage(format!("{source} holds no token: give the whole line that `tieline cluster token` printed"))
    };
    text.parse::<Token>().map_err(wrong)
}
