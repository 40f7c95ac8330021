//! All cases, in the order in which they run.

mod databases;
mod fabric;
mod files;
mod http;
mod measuring;
mod messages;
mod script;
mod shells;

use crate::case::Case;

/// Every program that is tried.
pub(crate) const ALL: &[Case] = &[
    databases::REDIS,
    databases::MEMCACHED,
    databases::POSTGRES,
    http::NGINX,
    http::NGINX_TLS,
    http::HAPROXY,
    http::CURL,
    measuring::IPERF3,
    measuring::SOCKPERF,
    files::SSH,
    files::RSYNC,
    script::PYTHON,
    script::NODE,
    script::JAVA,
    script::GO,
    messages::MPICH,
    messages::OPENMPI,
    messages::PVM,
    shells::STDIO,
    shells::INETD,
    shells::BASH,
    fabric::FABTESTS,
    fabric::OPENMPI,
    fabric::OPENMPI_RMA,
    fabric::NETPIPE,
    fabric::HPCC,
    fabric::IMB,
    fabric::SHMEM,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
