//! `tieline query`.

use std::fmt::Write;

use tieline::Node;

use super::node_options;
use crate::args::Common;
use crate::exit::{Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, output: Output) -> Outcome {
    let info = Node::attach_with(&node_options(common, "tieline-query"))?.info();
    let text = || {
        let mut text = format!(
            "Local node-id      : {}\nCluster            : {}\nHost               : {}\nNode manager       : tieline {}, pid {}\n",
            info.node, info.cluster, info.host, info.version, info.manager_pid
        );
        for adapter in &info.adapters {
            let _ = writeln!(text, "Local adapter no.  : {}", adapter.number);
            let _ = writeln!(text, "Adapter type       : {}", adapter.kind);
            let _ = writeln!(text, "Capabilities       : {}", adapter.capabilities.join(", "));
        }
        text
    };
    output.result(|| serde_json::to_value(&info), text)?;
    Ok(PASS)
}
