//! `tieline clusters`.

use ::verify::clusters::{SCHEMA, collect};
use node_client::runtime_dir::{RuntimeRoot, runtime_root};
use serde_json::{Value, json};

use crate::args::Common;
use crate::exit::{Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, output: Output) -> Outcome {
    let root = runtime_root(common.runtime_dir.as_deref());
    let report = collect(&root)?;
    let hosts = namespaces::clusters(&root);
    output.form(
        SCHEMA,
        || {
            let mut value = serde_json::to_value(&report)?;
            let each =
                hosts.iter().map(|(cluster, runs)| json!({ "cluster": cluster.as_str(), "running": runs }));
            if let Value::Object(fields) = &mut value {
                fields.insert("hosts_in_namespaces".into(), each.collect());
            }
            Ok(value)
        },
        || {
            let each = hosts.iter().map(|(cluster, runs)| line(&root, cluster.as_str(), *runs));
            let each = each.collect::<String>();
            // Else it would say that there is no cluster.
            let has_others = !report.clusters.is_empty() || !report.shut.is_empty();
            if each.is_empty() || has_others { report.render() + &each } else { each }
        },
    )?;
    Ok(PASS)
}

fn line(root: &RuntimeRoot, cluster: &str, runs: bool) -> String {
    let place = format!("--cluster {cluster} --runtime-dir {}", root.path.display());
    if runs {
        format!("{cluster}: hosts in namespaces; its nodes: tieline on host1 {place} -- tieline status\n")
    } else {
        format!(
            "{cluster}: hosts in namespaces that have ended; remove what is left with: tieline down {place}\n"
        )
    }
}
