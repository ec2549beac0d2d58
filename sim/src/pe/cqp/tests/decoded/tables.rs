//! Address tables, scheduler, statistics, features and the rest.

use super::Run;
use crate::pe::fpm::Kind;
use crate::pe::stats::Statistics;
use crate::pe::word::{bit, bits};

/// Offsets in the gather buffer.
const BINDS: u64 = 288;
const INVALIDATES: u64 = 296;

impl Run<'_> {
    fn port_bit(&mut self) -> (u64, u64) {
        let port = self.inputs.number("port");
        let mut word = [0];
        let (hmc, env) = (&mut self.device.hmc, &mut *self.env);
        hmc.read((Kind::Apbvt, 0), port / 64 * 8, &mut word, env)
            .unwrap();
        (word[0], port % 64)
    }

    fn instance(&mut self, key: &str) -> u8 {
        self.inputs.number(key) as u8
    }

    pub(super) fn before_table(&mut self) {
        match self.c.opcode() {
            0x0f if !self.inputs.has("mac_addr") => {
                let index = self.inputs.number("arp_index") as u16;
                let there = self.device.arp(index, self.env).unwrap().is_some();
                self.inputs.same("the entry was there", there, true);
            }
            0x11 if self.inputs.is_set("free_page") => {
                let page = self.inputs.number("push_idx") as u16;
                let there = self.device.tables.push_pages.contains_key(&page);
                self.inputs.same("the page was there", there, true);
            }
            0x12 => {
                let at = self.inputs.number("buf_pa");
                self.env.set_words(at, &[0; 4]);
            }
            0x23 => {
                // The other value.
                let add = self.inputs.is_set("add");
                let (_, n) = self.port_bit();
                let port = self.inputs.number("port");
                let word = if add { 0 } else { 1 << n };
                let (hmc, env) = (&mut self.device.hmc, &mut *self.env);
                hmc.write((Kind::Apbvt, 0), port / 64 * 8, &[word], env)
                    .unwrap();
            }
            0x2d => {
                let index = self.instance("stats_idx");
                let there = self.device.tables.statistics_instances.contains(&index);
                self.inputs.same("the instance was there", there, true);
            }
            0x2e => {
                let index = self.instance("stats_inst_index");
                self.device.statistics.bind();
                let mut own = Statistics::default();
                own.invalidate();
                self.device.instances.insert(index, own);
            }
            _ => {}
        }
    }

    pub(super) fn after_table(&mut self) {
        match self.c.opcode() {
            0x0e => {
                let index = self.instance("entry_idx");
                let mac = self.inputs.has("mac_addr");
                let mac = mac.then(|| Some(self.inputs.mac("mac_addr")));
                let got = self.device.tables.local_macs.get(&index).copied();
                self.inputs.same("MAC", got, mac);
                self.inputs
                    .unused("the model counts no uses", &["ignore_ref_count"]);
            }
            0x0f => self.after_arp(),
            0x11 => self.after_push_page(),
            0x12 => {
                // The first word names type 0 and the number of entries.
                let at = self.inputs.number("buf_pa");
                let count = bits(self.env.word(at), 47, 32);
                self.inputs.same("features", count > 0, true);
                let fits = 8 * count <= self.inputs.number("buf_len");
                self.inputs.same("the reply fits", fits, true);
            }
            0x14 => {
                let index = self.reply.value as u8;
                let taken = self.device.tables.local_macs.contains_key(&index);
                self.inputs.same("an entry was taken", taken, true);
            }
            0x15 => {
                let vf = self.inputs.number("vf_id") as u16;
                let there = self.device.tables.pm_functions.contains_key(&vf);
                let freed = self.inputs.is_set("free_fcn");
                self.inputs.same("the function is there", there, !freed);
            }
            0x23 => {
                let (word, n) = self.port_bit();
                self.inputs.field("add", bit(word, n as u32));
            }
            0x25 => self.after_quad_hash(),
            0x2c => self.after_node(),
            0x2d => {
                let index = self.instance("stats_idx");
                let there = self.device.tables.statistics_instances.contains(&index);
                self.inputs.same("the instance is there", there, false);
                self.inputs.field("alloc", 0_u64);
                self.inputs.unused(
                    "refused if it is another function's",
                    &["use_hmc_fcn_index"],
                );
            }
            0x2e => {
                let (at, own) = (
                    self.inputs.number("pa"),
                    self.inputs.is_set("use_stats_inst"),
                );
                let counted = |offset| self.env.word(at + offset) != 0;
                let got = (counted(BINDS), counted(INVALIDATES));
                self.inputs.same("counters", got, (!own, own));
                self.inputs.unused(
                    "refused if it is another function's; the reply's size is fixed",
                    &["use_hmc_fcn_index", "size", "stats_inst_index"],
                );
            }
            0x2f => {
                let [map, target] = self.device.tables.up_map;
                let inputs = &mut self.inputs;
                let expected = inputs.value("map").list().iter();
                let expected = expected.map(|up| up.number().unwrap() as u8);
                let expected: Vec<u8> = expected.collect();
                inputs.same("map", map.to_le_bytes().to_vec(), expected);
                inputs.field("cnp_up_override", bits(target, 37, 32));
                inputs.unused(
                    "the model keeps the map and does nothing by it",
                    &["use_vlan", "use_cnp_up_override"],
                );
            }
            other => panic!("{other:#x} is compared with nothing"),
        }
    }

    fn after_arp(&mut self) {
        let index = self.inputs.number("arp_index") as u16;
        let entry = self.device.arp(index, self.env).unwrap();
        let inputs = &mut self.inputs;
        inputs.same("added", entry.is_some(), inputs.has("mac_addr"));
        if let Some(entry) = entry {
            let mac = inputs.mac("mac_addr");
            inputs.same("MAC", entry.mac, mac);
            inputs.field("permanent", entry.permanent);
            inputs.field("reach_max", entry.reach_max);
        }
        inputs.unused(
            "of the ring that the case is about",
            &["cqp_sq_size", "completed"],
        );
    }

    fn after_push_page(&mut self) {
        let pages = &self.device.tables.push_pages;
        let inputs = &mut self.inputs;
        if inputs.is_set("free_page") {
            let page = inputs.number("push_idx") as u16;
            inputs.same("the page is there", pages.contains_key(&page), false);
            inputs.unused("known from the allocation", &["qs_handle"]);
        } else {
            let queue_set = pages.get(&(self.reply.value as u16)).copied();
            inputs.field("qs_handle", queue_set.unwrap());
            inputs.unused("chosen by the device", &["push_idx"]);
        }
        inputs.unused("its values are not in the sources", &["push_page_type"]);
    }

    fn after_quad_hash(&mut self) {
        let inputs = &mut self.inputs;
        let entry = self.device.tables.quad_hash.iter().next();
        let deleted = inputs.number("manage") == 0;
        inputs.same("the entry is there", entry.is_none(), deleted);
        inputs.unused("a name of software", &["user_pri"]);
        inputs.unused(
            "the model looks nothing up here: it sends to the QP",
            &["qs_handle"],
        );
        let Some((key, qp)) = entry else {
            return inputs.unused(
                "the entry that was deleted was found by all of them",
                &[
                    "entry_type",
                    "vlan_valid",
                    "ipv4_valid",
                    "mac_addr",
                    "vlan_id",
                    "qp_num",
                    "dest_ip",
                    "src_ip",
                    "dest_port",
                    "src_port",
                ],
            );
        };
        inputs.field("qp_num", *qp);
        let mac = inputs.mac("mac_addr");
        inputs.same("MAC", key[0], mac);
        inputs.field("dest_port", bits(key[1], 15, 0));
        inputs.field("entry_type", bits(key[2], 44, 42));
        inputs.field("vlan_valid", bits(key[2], 59, 59));
        inputs.field("ipv4_valid", bits(key[2], 60, 60));
        if inputs.is_set("vlan_valid") {
            inputs.field("vlan_id", bits(key[2], 11, 0));
        }
        let v4 = inputs.is_set("ipv4_valid");
        let address = |high: u64, low: u64| match v4 {
            true => std::net::Ipv4Addr::from(low as u32).into(),
            false => std::net::Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
        };
        let local: std::net::IpAddr = inputs.ip("dest_ip", v4);
        inputs.same("local address", address(key[6], key[5]), local);
        // Only an established connection names the other end.
        let remote: std::net::IpAddr = inputs.ip("src_ip", v4);
        if inputs.number("entry_type") == 1 {
            inputs.field("src_port", bits(key[1], 31, 16));
            inputs.same("remote address", address(key[4], key[3]), remote);
        }
        inputs.unused(
            "not of a port that listens, or of no VLAN",
            &["src_port", "vlan_id"],
        );
    }

    fn after_node(&mut self) {
        let id = self.inputs.number("id") as u16;
        let node = self.device.tables.nodes.get(&id).copied();
        let inputs = &mut self.inputs;
        let operation = inputs.number("node_op");
        inputs.same("the node is there", node.is_none(), operation == 2);
        let Some(node) = node else {
            return inputs.unused(
                "of a node that goes",
                &[
                    "vsi",
                    "parent_id",
                    "type_leaf",
                    "enable",
                    "prio_type",
                    "tc",
                    "weight",
                ],
            );
        };
        inputs.field("vsi", node.vsi);
        inputs.field("type_leaf", node.queue_set.is_some());
        inputs.field("enable", node.enabled);
        inputs.field("prio_type", node.priority);
        inputs.field("tc", node.class);
        inputs.field("weight", node.weight);
        // The recorder uses one 16-bit id, which its software cuts to 14 bits. A modified node
        // stays where it is.
        let parent = inputs.number("parent_id") & 0x3FFF;
        if operation == 0 {
            inputs.same("parent", u64::from(node.parent), parent);
        }
    }
}
