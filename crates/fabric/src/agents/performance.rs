//! The performance agent of a node.

use mad::Mad;
use mad::header::ClassPortInfo;
use mad::pm::{ALL_PORTS, PortCounters, PortCountersExtended, attribute, capability};
use mad::values::{Method, Status};
use topology::{Kind, PortIx};

use super::{Agents, Counters, asks_class_port_info};

/// Of `ClassPortInfo::capability_mask2`: the counters of 64 bits hold errors too.
const EXTENDED_ERRORS: u32 = 1 << 1;

impl Agents {
    /// Responds to a request of the performance class that came to `port`: the response is put into `mad`.
    pub(crate) fn perform(&mut self, port: PortIx, mad: &mut Mad) -> Status {
        let method = mad.header().method();
        if asks_class_port_info(mad) {
            let mut info = ClassPortInfo::default();
            info.set_base_version(1)
                .set_class_version(1)
                .set_capability_mask(
                    capability::ALL_PORT_SELECT | capability::EXTENDED_WIDTH | capability::XMIT_WAIT,
                )
                .set_capability_mask2(if self.extended_errors { EXTENDED_ERRORS } else { 0 })
                .set_response_time(18);
            *mad.data_mut() = info;
            return if method == Method::GET { Status::OK } else { Status::METHOD_NOT_SUPPORTED };
        }
        let wanted = mad.header().attribute();
        if wanted != attribute::PORT_COUNTERS && wanted != attribute::PORT_COUNTERS_EXTENDED {
            return Status::ATTRIBUTE_NOT_SUPPORTED;
        }
        let node = self.graph.owner(port);
        let switch = self.graph.kind(node) == Kind::Switch;
        let number = mad.data::<PortCounters>().port();
        let ports: Vec<PortIx> = match self.graph.port(node, number) {
            Some(one) if switch || one == port => vec![one],
            _ if number == ALL_PORTS => self.graph.ports(node).skip(usize::from(!switch)).collect(),
            _ => return Status::BAD_FIELD,
        };
        if method == Method::SET {
            self.store(&ports, wanted, mad);
        }
        let mut sum = Counters::default();
        ports.iter().for_each(|port| sum.add(&self.ports[port.index()].counters));
        if wanted == attribute::PORT_COUNTERS {
            sum.show(mad.data_mut());
        } else {
            sum.show_extended(mad.data_mut());
        }
        Status::OK
    }

    fn store(&mut self, ports: &[PortIx], wanted: u16, mad: &Mad) {
        for port in ports {
            let counters = &mut self.ports[port.index()].counters;
            if wanted == attribute::PORT_COUNTERS {
                let said: &PortCounters = mad.data();
                counters.store(said, u32::from(said.select()) | u32::from(said.select2()) << 16);
            } else {
                let said: &PortCountersExtended = mad.data();
                counters.store_extended(said, u64::from(said.select()) | u64::from(said.select2()) << 32);
            }
        }
    }
}
