//! Management keys (M_Keys): who may read and set what (InfiniBand Architecture Specification, volume 1,
//! 14.2.4).

use std::time::Duration;

use mad::Mad;
use mad::sm::PortInfo;
use mad::values::Method;
use topology::PortIx;

use super::Agents;

impl Agents {
    /// Does the agent behind a port act on a request? If it does not, it counts that, and notifies the subnet
    /// manager; and the time of the lease begins.
    pub(super) fn admits(&mut self, port: PortIx, mad: &Mad) -> bool {
        let end = self.end_port(port);
        let info = &mut self.ports[end.index()].info;
        let is_open = info.key_protection() < 2 && mad.header().method() != Method::SET;
        if has_key(info, mad) {
            self.violated.remove(&end);
            return true;
        }
        if is_open {
            return true;
        }
        info.set_management_key_violations(info.management_key_violations().saturating_add(1));
        self.violated.entry(end).or_insert(self.clock);
        self.trap_management_key(end, mad);
        false
    }

    /// What of a port's PortInfo the sender of a request may see: not the key, if it is protected and not
    /// the sender's.
    pub(super) fn shown(&self, end: PortIx, mut info: PortInfo, request: &Mad) -> PortInfo {
        let own = &self.ports[self.end_port(end).index()].info;
        if own.key_protection() > 0 && !has_key(own, request) {
            info.set_management_key(0);
        }
        info
    }

    /// So late it is now. Leases that have run out end the protection: everybody may read the key.
    pub(super) fn pass_time(&mut self, now: Duration) {
        self.clock = self.clock.max(now);
        let ports = &mut self.ports;
        self.violated.retain(|port, since| {
            let info = &mut ports[port.index()].info;
            let lease = Duration::from_secs(info.key_lease().into());
            let is_over = !lease.is_zero() && now.saturating_sub(*since) >= lease;
            if is_over {
                info.set_key_protection(0);
            }
            !is_over && !lease.is_zero()
        });
    }
}

fn has_key(info: &PortInfo, request: &Mad) -> bool {
    let key = info.management_key();
    key == 0 || key == request.smp().header().management_key()
}
