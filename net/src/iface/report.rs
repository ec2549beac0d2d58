//! Reports of multicast groups.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Interface;
use crate::group::Report;
use crate::mac::{link_local, multicast_mac};
use crate::neighbour::Places;
use crate::time::Ns;
use crate::wire::igmp::{self, Record};
use crate::wire::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, IGMP, Ipv4, Writer, mld};

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// The next report that is due.
    pub(super) fn report_frame(&mut self, now: Ns, out: &mut [u8]) -> Option<usize> {
        while let Some(report) = self.groups.due(now, &mut self.random) {
            if let Some(length) = self.report(report, out) {
                return Some(length);
            }
        }
        None
    }

    fn report(&self, report: Report, out: &mut [u8]) -> Option<usize> {
        match report {
            Report::All { is_ipv4: true } => {
                let groups = self.groups.reported(true);
                let groups = groups.filter_map(|ip| match ip {
                    IpAddr::V4(v4) => Some((Record::IsExclude, v4)),
                    IpAddr::V6(_) => None,
                });
                let count = groups.clone().count();
                let mut writer = self.igmp(out, igmp::REPORTS, igmp::report_length(count))?;
                igmp::build_report(&mut writer, groups);
                writer.finish()
            }
            Report::All { is_ipv4: false } => {
                let groups = self.groups.reported(false);
                let groups = groups.filter_map(|ip| match ip {
                    IpAddr::V6(v6) => Some((Record::IsExclude, v6)),
                    IpAddr::V4(_) => None,
                });
                let count = groups.clone().count();
                let mut writer = self.mld(out, mld::REPORTS)?;
                mld::build_report(&mut writer, self.mld_source(), count, groups);
                writer.finish()
            }
            Report::One {
                ip: IpAddr::V4(group),
                record,
                older: None,
            } => {
                let mut writer = self.igmp(out, igmp::REPORTS, igmp::report_length(1))?;
                igmp::build_report(&mut writer, core::iter::once((record, group)));
                writer.finish()
            }
            Report::One {
                ip: IpAddr::V6(group),
                record,
                older: None,
            } => {
                let mut writer = self.mld(out, mld::REPORTS)?;
                let records = core::iter::once((record, group));
                mld::build_report(&mut writer, self.mld_source(), 1, records);
                writer.finish()
            }
            Report::One {
                ip: IpAddr::V4(group),
                record,
                older: Some(version),
            } => {
                let is_leave = record == Record::ToInclude;
                let to = if is_leave { igmp::ALL_ROUTERS } else { group };
                let mut writer = self.igmp(out, to, 8)?;
                // Version 1 leaves without a word (RFC 1112 appendix I).
                if is_leave && version == 1 {
                    return None;
                }
                igmp::build_old(&mut writer, version, is_leave, group);
                writer.finish()
            }
            Report::One {
                ip: IpAddr::V6(group),
                record,
                older: Some(_),
            } => {
                let is_leave = record == Record::ToInclude;
                let to = if is_leave { mld::ALL_ROUTERS } else { group };
                let mut writer = self.mld(out, to)?;
                mld::build_old(&mut writer, self.mld_source(), is_leave, group);
                writer.finish()
            }
        }
    }

    /// Begins a packet of IGMP with so many bytes (RFC 3376 4: TTL 1, router alert).
    fn igmp<'o>(&self, out: &'o mut [u8], to: Ipv4Addr, length: usize) -> Option<Writer<'o>> {
        let mut writer = self.start(out, multicast_mac(to.into())?, ETHERTYPE_IPV4);
        let source = match self.source(to.into(), to.into()) {
            Some(IpAddr::V4(source)) => source,
            // RFC 3376 4.2.13.
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let header = Ipv4 {
            source,
            destination: to,
            protocol: IGMP,
            ttl: 1,
            router_alert: true,
        };
        header.build(&mut writer, length);
        Some(writer)
    }

    fn mld<'o>(&self, out: &'o mut [u8], to: Ipv6Addr) -> Option<Writer<'o>> {
        Some(self.start(out, multicast_mac(to.into())?, ETHERTYPE_IPV6))
    }

    /// The link-local address, or none while it is tentative (RFC 3590 4).
    fn mld_source(&self) -> Ipv6Addr {
        let own = link_local(self.config.mac);
        match self.addresses.owns(own.into()) {
            true => own,
            false => Ipv6Addr::UNSPECIFIED,
        }
    }
}
