//! Requests about the engine's tables: hash, ARP, MAC addresses, scheduler, statistics.

use e810_cqp::op::{self, QuadEndpoint, WorkSchedNode};

use serde_json::Value;

use super::input::Input;
use crate::context::mac;

impl Input<'_> {
    pub(super) fn quad_hash(&self) -> op::ManageQuadHash {
        op::ManageQuadHash {
            change: match self.get("manage") {
                0 => op::HashChange::Delete,
                1 => op::HashChange::Add,
                _ => op::HashChange::Modify,
            },
            entry: match self.get("entry_type") {
                1 => op::HashEntry::TcpEstablished,
                2 => op::HashEntry::TcpSyn,
                3 => op::HashEntry::UdpUnicast,
                4 => op::HashEntry::UdpMulticast,
                5 => op::HashEntry::RoceMulticast,
                6 => op::HashEntry::RoceV2,
                other => panic!("entry type {other}"),
            },
            mac: mac(&self.0["mac_addr"]),
            vlan: self.is("vlan_valid").then(|| self.as_("vlan_id")),
            qp: self.as_("qp_num"),
            qs_handle: self.as_("qs_handle"),
            endpoint: QuadEndpoint {
                addresses: self.ips("src_ip", "dest_ip"),
                local_port: self.as_("dest_port"),
                remote_port: self.as_("src_port"),
            },
        }
    }

    pub(super) fn arp(&self) -> op::ManageArp {
        op::ManageArp {
            index: self.as_("arp_index"),
            change: match &self.0["mac_addr"] {
                Value::Null => op::ArpChange::Delete,
                address => op::ArpChange::Add {
                    mac: mac(address),
                    permanent: self.is("permanent"),
                    reach_max: self.as_("reach_max"),
                },
            },
        }
    }

    pub(super) fn local_mac(&self) -> op::ManageLocalMac {
        op::ManageLocalMac {
            index: self.as_("entry_idx"),
            change: match &self.0["mac_addr"] {
                Value::Null => op::LocalMacChange::Delete {
                    ignore_references: self.is("ignore_ref_count"),
                },
                address => op::LocalMacChange::Add(mac(address)),
            },
        }
    }

    pub(super) fn node(&self) -> WorkSchedNode {
        WorkSchedNode {
            node: self.as_("id"),
            parent: self.as_("parent_id"),
            vsi: self.vsi("vsi"),
            leaf: self.is("type_leaf"),
            enable: self.is("enable"),
            priority: match self.get("prio_type") {
                1 => op::PriorityType::WeightedRoundRobin,
                2 => op::PriorityType::Strict,
                _ => op::PriorityType::WeightedStrict,
            },
            traffic_class: self.as_("tc"),
            weight: self.as_("weight"),
            change: match self.get("node_op") {
                0 => op::NodeChange::Add,
                1 => op::NodeChange::Modify,
                _ => op::NodeChange::Delete,
            },
        }
    }

    pub(super) fn manage_stats(&self) -> op::ManageStats {
        let hmc_function = self.is("use_hmc_fcn_index").then(|| self.pf("hmc_fn_id"));
        if self.is("alloc") {
            op::ManageStats::Allocate { hmc_function }
        } else {
            op::ManageStats::Free {
                instance: self.as_("stats_idx"),
                hmc_function,
            }
        }
    }

    pub(super) fn gather(&self) -> op::GatherStats {
        op::GatherStats {
            buffer: self.at("pa"),
            hmc_function: self.as_("hmc_fcn_index"),
            use_hmc_function: self.is("use_hmc_fcn_index"),
            instance: self.as_("stats_inst_index"),
            use_instance: self.is("use_stats_inst"),
        }
    }
}
