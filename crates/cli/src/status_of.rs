//! The exit status for an error of a library: 2 if the user can fix it on the command line, in the
//! environment or in the configuration; 1 if the error is the result of a check; else 4.

use bench::error::BenchError;
use bench::results::DocumentError;
use bench::thresholds::ThresholdsError;
use fleet::FleetError;
use namespaces::NamespacesError;
use node::NodeError;
use node::config::ConfigError;
use node::hosts::{HostsError as ClusterError, TrustError};
use node_client::ClientError;
use node_client::runtime_dir::RuntimeDirError;
use sockets_rules::statistics::StatisticsError;
use verify::cable::{CableError, PlanError};
use verify::capacity::CouldNotRun;
use verify::diag::HostsError;
use verify::report::ReportError;
use verify::writer::WriteError;

use crate::exit::{CANNOT, FAIL, USAGE};

/// The status for an error, by the most particular cause that is known here.
pub(crate) fn error(error: &anyhow::Error) -> u8 {
    match error {
        _ if error.chain().any(is_usage) => USAGE,
        _ if error.chain().any(is_found) => FAIL,
        _ => CANNOT,
    }
}

/// It ran, and found that data does not arrive as it was sent.
fn is_found(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        cause.downcast_ref::<BenchError>(),
        Some(BenchError::DataLost { .. } | BenchError::WrongData { .. } | BenchError::WrongDataThere { .. })
    )
}

fn is_usage(cause: &(dyn std::error::Error + 'static)) -> bool {
    let of_files = cause.is::<ConfigError>() || cause.is::<HostsError>();
    if of_files || cause.is::<DocumentError>() || cause.is::<ThresholdsError>() {
        return true;
    }
    if let Some(error) = cause.downcast_ref::<PlanError>() {
        return error.is_usage();
    }
    if let Some(error) = cause.downcast_ref::<CableError>() {
        return match error {
            CableError::Plan(error) => error.is_usage(),
            CableError::CouldNotRun(error) => of_could_not_run(error),
        };
    }
    if let Some(error) = cause.downcast_ref::<ClusterError>() {
        return matches!(
            error,
            ClusterError::NoDirectory
                | ClusterError::NoKeys { .. }
                | ClusterError::WhichNode { .. }
                | ClusterError::WhichHost
                | ClusterError::Trust(TrustError::Exists { .. })
        );
    }
    if let Some(error) = cause.downcast_ref::<NodeError>() {
        return of_node(error);
    }
    if let Some(error) = cause.downcast_ref::<FleetError>() {
        return error.is_usage();
    }
    if let Some(error) = cause.downcast_ref::<NamespacesError>() {
        return error.is_usage();
    }
    if let Some(error) = cause.downcast_ref::<CouldNotRun>() {
        return of_could_not_run(error);
    }
    if let Some(error) = cause.downcast_ref::<ReportError>() {
        return of_report(error);
    }
    if let Some(error) = cause.downcast_ref::<WriteError>() {
        return !matches!(error, WriteError::Unwritable { .. });
    }
    if let Some(StatisticsError::Foreign(_) | StatisticsError::Version(_)) = cause.downcast_ref() {
        return true;
    }
    if let Some(error) = cause.downcast_ref::<BenchError>() {
        return of_bench(error);
    }
    if let Some(error) = cause.downcast_ref::<tieline::Error>() {
        return of_api(error);
    }
    if let Some(error) = cause.downcast_ref::<ClientError>() {
        return of_client(error);
    }
    cause.downcast_ref::<RuntimeDirError>().is_some_and(of_dir)
}

fn of_report(error: &ReportError) -> bool {
    matches!(
        error,
        ReportError::Unreadable { .. }
            | ReportError::NoText { .. }
            | ReportError::TooLong { .. }
            | ReportError::NoJson { .. }
            | ReportError::WrongSchema { .. }
            | ReportError::NoSteps { .. }
    )
}

fn of_could_not_run(error: &CouldNotRun) -> bool {
    match error {
        CouldNotRun::Node(error) => of_node(error),
        CouldNotRun::Client(error) => of_client(error),
        CouldNotRun::Lacking(_) => false,
    }
}

fn of_node(error: &NodeError) -> bool {
    match error {
        NodeError::Config(_)
        | NodeError::CopyPlan(_)
        | NodeError::Rail { .. }
        | NodeError::NoId
        | NodeError::Ids { .. } => true,
        NodeError::RuntimeDir(error) => of_dir(error),
        NodeError::Client(error) => of_client(error),
        _ => false,
    }
}

fn of_bench(error: &BenchError) -> bool {
    match error {
        BenchError::Usage(_) | BenchError::UnknownId { .. } => true,
        BenchError::Api(error) => of_api(error),
        _ => false,
    }
}

fn of_api(error: &tieline::Error) -> bool {
    matches!(error, tieline::Error::Client(error) if of_client(error))
}

fn of_client(error: &ClientError) -> bool {
    match error {
        ClientError::SeveralNodes { .. } | ClientError::BadNode(_) => true,
        ClientError::RuntimeDir(error) => of_dir(error),
        _ => false,
    }
}

/// A name or a path that cannot be; what is merely not permitted, or missing, could not run.
fn of_dir(error: &RuntimeDirError) -> bool {
    matches!(
        error,
        RuntimeDirError::BadClusterName { .. }
            | RuntimeDirError::NotADirectory { .. }
            | RuntimeDirError::PathTooLong { .. }
    )
}

#[cfg(test)]
mod tests {
    use node_client::runtime_dir::ClusterName;

    use super::*;

    fn status(of: impl Into<anyhow::Error>) -> u8 {
        error(&of.into())
    }

    #[test]
    fn what_the_caller_can_mend_is_2_however_deep_it_lies() {
        let unreadable = || ConfigError::Unreadable {
            path: "/x".into(),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        };
        assert_eq!(status(unreadable()), USAGE);
        assert_eq!(status(NodeError::Config(unreadable())), USAGE);
        assert_eq!(status(anyhow::Error::from(NodeError::Config(unreadable())).context("up")), USAGE);
        let several = || ClientError::SeveralNodes { cluster: ClusterName::new("c").unwrap(), nodes: vec![] };
        assert_eq!(status(tieline::Error::Client(several())), USAGE);
        assert_eq!(status(BenchError::Api(tieline::Error::Client(several()))), USAGE);
        assert_eq!(status(NodeError::RuntimeDir(ClusterName::new("../x").unwrap_err())), USAGE);
    }

    #[test]
    fn data_that_did_not_arrive_is_a_check_that_failed() {
        let lost = || BenchError::DataLost { what: "dma", from: 4, to: 8, detail: String::new() };
        assert_eq!(status(lost()), FAIL);
        assert_eq!(status(anyhow::Error::from(lost()).context("bench")), FAIL);
        assert_eq!(status(BenchError::WrongDataThere { what: "dma" }), FAIL);
        assert_eq!(status(BenchError::NoAnswer { what: "dma", seconds: 1 }), CANNOT);
    }

    #[test]
    fn what_the_machine_refuses_is_4() {
        assert_eq!(status(BenchError::TooFewCpus { what: "scipp", allowed: vec![0] }), CANNOT);
        let errno = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(status(NodeError::Io { what: "write", path: "/x".into(), source: errno }), CANNOT);
        let gone = ClientError::NoManager { cluster: ClusterName::new("c").unwrap(), dir: "/x".into() };
        assert_eq!(status(tieline::Error::Client(gone)), CANNOT);
    }
}
