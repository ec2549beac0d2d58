//! Queue pairs, regions and windows, address handles, multicast groups.

use super::Run;
use crate::findings::kind;
use crate::pe::aeq::Aeq;
use crate::pe::cqp::tests::json::Value;
use crate::pe::cqp::tests::prepared::some_cq;
use crate::pe::host_context::Pieces;
use crate::pe::qp::{HOST_WORDS, Qp};
use crate::pe::ring::Memory;
use crate::pe::word::{bits, bits16, bits32};
use crate::wire::Addresses;

/// A completion context that no recorded context has.
const MARKER: u64 = 0x7777_0000_0000_0001;
const SEND_RING: u64 = 0x5_0000_0000;
const RECEIVE_RING: u64 = 0x5_0010_0000;
const EVENT_RING: u64 = 0x5_0020_0000;
/// Address at which `prepare` puts the shadow area of CQs.
const SHADOW: u64 = 0x2_0000_0000;
/// Index bits of an STag with the committed count: the other bits belong to the driver
/// (control-path 4.10).
const STAG_INDEX: u64 = 0x7_FFFF;

impl Run<'_> {
    fn pair(&mut self) -> Option<Box<Qp>> {
        let id = self.inputs.number("qp_id") as u32;
        self.device.qp(id, self.env).unwrap()
    }

    fn host_at(&self, at: u64) -> [u64; HOST_WORDS] {
        std::array::from_fn(|n| self.env.word(at + 8 * n as u64))
    }

    pub(super) fn before_pair(&mut self) {
        match self.c.opcode() {
            0x00 | 0x01 => {
                // The context is at the address in the inputs, not only at one where the device may
                // look.
                let at = self.inputs.number("host_ctx_pa");
                let mut host = self.host_at(at);
                host[21] = MARKER;
                self.env.set_words(at, &host);
            }
            0x13 => {
                let at = self.inputs.number("buf_pa");
                self.env.set_words(at, &[0; HOST_WORDS]);
            }
            0x22 => self.before_flush(),
            _ => {}
        }
        let there = self.pair().is_some();
        let expected = self.c.opcode() != 0x00;
        self.inputs.same("the QP was there", there, expected);
    }

    /// One request in each queue, a CQ for each, and an AEQ.
    fn before_flush(&mut self) {
        let host = self.pair().unwrap().host;
        for (ring, header, cq, memory) in [
            (
                host[1],
                1 << 63 | 3 << 32,
                bits32(host[17], 24, 0),
                SEND_RING,
            ),
            (host[2], 1 << 63, bits32(host[17], 56, 32), RECEIVE_RING),
        ] {
            self.env.map(ring, 4096);
            self.env.set_words(ring, &[0, 0, 0, header]);
            self.env.map(memory, 4096);
            self.env.set_words(memory, &[0; 8]);
            let own = crate::pe::cq::Cq {
                memory: Memory::Contiguous(memory),
                ..some_cq(SHADOW)
            };
            self.device.put_cq(cq, own, self.env).unwrap();
        }
        self.env.map(SHADOW, 64);
        self.env.map(EVENT_RING, 4096);
        self.env.set_words(EVENT_RING, &[0; 4]);
        self.device.aeq = Some(Aeq::new(Memory::Contiguous(EVENT_RING), 16));
    }

    pub(super) fn after_pair(&mut self) {
        let qp = self.pair();
        let inputs = &mut self.inputs;
        match (self.c.opcode(), qp) {
            (0x02, left) => {
                inputs.same("the QP is there", left.is_some(), false);
                inputs.unused(
                    "repeated from the creation, and iWARP's",
                    &[
                        "qp_type",
                        "virtual_map",
                        "host_ctx_pa",
                        "shadow_pa",
                        "remove_hash_idx",
                        "ignore_mw_bound",
                    ],
                );
            }
            (_, None) => panic!("there is no such QP"),
            (0x00 | 0x01, Some(qp)) => self.after_state(&qp),
            (0x13, Some(qp)) => {
                inputs.field("qp_type", qp.kind as u64);
                let at = inputs.number("buf_pa");
                inputs.unused(
                    "what they change is not in the sources",
                    &["raw_format", "freeze_qp"],
                );
                let uploaded = self.host_at(at);
                self.inputs.same("uploaded", uploaded, qp.host);
            }
            (op, Some(qp)) => {
                inputs.unused(
                    "the recorder's QP: not in this command",
                    &["qp_type", "virtual_map", "host_ctx_pa", "shadow_pa"],
                );
                match op {
                    0x29 => inputs.same("suspended", qp.suspended, true),
                    0x2a => {
                        inputs.same("suspended", qp.suspended, false);
                        inputs.field("qs_handle", qp.queue_set());
                    }
                    _ => self.after_flush(),
                }
            }
        }
    }

    /// CREATE_QP and MODIFY_QP.
    fn after_state(&mut self, qp: &Qp) {
        let inputs = &mut self.inputs;
        inputs.field("qp_type", qp.kind as u64);
        inputs.field("virtual_map", qp.mapped);
        inputs.field("shadow_pa", qp.shadow);
        inputs.field("next_iwarp_state", qp.state() as u64);
        inputs.same("host_ctx_pa", qp.completion_context(), MARKER);
        let pieces = Pieces::new(self.c.header());
        inputs.field("mac_valid", pieces.mac);
        inputs.field("cq_num_valid", pieces.cq_numbers);
        inputs.field("ord_valid", pieces.ord);
        inputs.field("tcp_ctx_valid", pieces.tcp);
        inputs.field("arp_cache_idx_valid", pieces.arp_index);
        inputs.unused(
            "iWARP's: how a connection is closed, and its segment size",
            &[
                "reset_tcp_conn",
                "remove_hash_idx",
                "termlen",
                "dont_send_fin",
                "dont_send_term",
                "mss_change",
                "new_mss",
            ],
        );
        inputs.unused(
            "what they change is not in the sources",
            &["cached_var_valid", "force_lpb"],
        );
    }

    fn after_flush(&mut self) {
        let (send, receive) = (self.inputs.is_set("sq"), self.inputs.is_set("rq"));
        let minor = match (send, receive) {
            (false, false) => 0,
            (false, true) => 2,
            (true, false) => 3,
            (true, true) => 4,
        };
        self.inputs
            .same("what was flushed", self.reply.minor, minor);
        let own = self.inputs.is_set("userflushcode");
        for (flushed, ring, major, minor) in [
            (send, SEND_RING, "sq_major_code", "sq_minor_code"),
            (receive, RECEIVE_RING, "rq_major_code", "rq_minor_code"),
        ] {
            let entry = self.env.word(ring + 24);
            self.inputs.same("a completion", entry != 0, flushed);
            if flushed && own {
                self.inputs.field(major, bits(entry, 31, 16));
                self.inputs.field(minor, bits(entry, 15, 0));
            }
            self.inputs
                .unused("of a queue that is not flushed", &[major, minor]);
        }
        // GEN_AE is FLUSH_WQES without a flush.
        let generates = self.inputs.is_set("generate_ae") || !self.inputs.has("sq");
        let event = self.env.word(EVENT_RING + 8);
        self.inputs.same("an event", event != 0, generates);
        if generates {
            self.inputs.field("ae_code", bits(event, 45, 34));
            self.inputs.field("ae_src", bits(event, 53, 50));
            self.inputs.field("qp_id", bits(event, 17, 0));
        }
    }

    fn stag(&mut self) -> Option<crate::pe::mr::Mr> {
        let key = if self.inputs.has("stag_idx") {
            "stag_idx"
        } else {
            "mw_stag_index"
        };
        let index = self.inputs.number(key) & STAG_INDEX;
        let found = self.device.mrs.get(index, &mut self.device.hmc, self.env);
        found.unwrap()
    }

    pub(super) fn before_object(&mut self) {
        let there = match self.c.opcode() {
            0x09 | 0x0a => self.stag().is_none(),
            0x0d => self.stag().is_some(),
            0x1d | 0x1e => {
                let index = self.inputs.number("ah_idx");
                let found = self.device.ahs.get(index, &mut self.device.hmc, self.env);
                found.unwrap().is_some()
            }
            0x26 | 0x27 => {
                // The members, at the address in the inputs.
                let at = self.inputs.number("ctx_pa");
                let members = self.inputs.value("members").list();
                let number = |member: &Value, key: &str| member[key].number().unwrap();
                for (n, member) in members.iter().enumerate() {
                    let word =
                        number(member, "qp_id") | 1 << 31 | number(member, "dest_port") << 32;
                    self.env.set_word(at + 8 * n as u64, word);
                }
                self.env.set_word(at + 8 * members.len() as u64, 0);
                true
            }
            _ => true,
        };
        self.inputs.same("as it was before", there, true);
    }

    pub(super) fn after_object(&mut self) {
        match self.c.opcode() {
            0x09 | 0x0a => self.after_stag(),
            0x0d => {
                let left = self.stag().is_some();
                self.inputs.same("the STag is there", left, false);
                let lint = self.found(kind::STAG_PD.name);
                self.inputs.same("another PD", lint, false);
                self.inputs
                    .unused("refused if it is not as allocated", &["mr", "pd_id"]);
            }
            0x1c | 0x1d => self.after_handle(),
            0x1e => {
                let index = self.inputs.number("ah_idx");
                let left = self.device.ahs.get(index, &mut self.device.hmc, self.env);
                self.inputs
                    .same("the AH is there", left.unwrap().is_some(), false);
                self.inputs.unused(
                    "repeated from the creation",
                    &[
                        "mac_addr",
                        "pd_idx",
                        "dst_arpindex",
                        "flow_label",
                        "vlan_tag",
                        "insert_vlan_tag",
                        "tc_tos",
                        "hop_ttl",
                        "ipv4_valid",
                        "do_lpbk",
                        "dest_ip_addr",
                        "src_ip_addr",
                    ],
                );
            }
            0x26 | 0x27 => self.after_group(),
            other => panic!("{other:#x}"),
        }
    }

    fn after_stag(&mut self) {
        let mr = self.stag().unwrap();
        let inputs = &mut self.inputs;
        inputs.field("pd_id", mr.pd);
        if inputs.has("mw_stag_index") {
            let window = mr.window.unwrap();
            inputs.field("mw_wide", window.type1);
            inputs.field("mw1_bind_dont_vldt_key", window.any_key);
            return inputs.same("bound", mr.valid, false);
        }
        let registered = self.c.opcode() == 0x0a;
        inputs.same("a window", mr.window, None);
        inputs.same("valid", mr.valid, registered);
        let page = inputs.number("page_size");
        inputs.same("page", mr.page_bytes(), page);
        inputs.field("chunk_size", mr.level);
        // 0x20 (zero based) is not a right: VABASEDTO says it.
        let rights = inputs.number("access_rights") & 0x1F;
        inputs.same("rights", u64::from(mr.rights), rights);
        let length = match inputs.is_set("all_memory") {
            true => 0,
            false => inputs.number("total_len"),
        };
        inputs.unused("not with all memory", &["total_len"]);
        inputs.same("length", mr.most, length);
        if !registered {
            inputs.field("first_pm_pbl_idx", mr.pages);
            return inputs.field("remote_access", mr.remote);
        }
        inputs.same("length", mr.len, length);
        inputs.same("remote rights", mr.remote, rights & 0xC != 0);
        inputs.field("stag_key", mr.key);
        inputs.field("addr_type", mr.va_based);
        let address = inputs.number("va");
        let start = if mr.va_based {
            address
        } else {
            address & (page - 1)
        };
        inputs.same("start", mr.start, start);
        inputs.unused(
            "one of them says where the pages are",
            &["reg_addr_pa", "first_pm_pbl_index"],
        );
        match mr.level {
            0 => inputs.field("reg_addr_pa", mr.pages),
            _ => inputs.field("first_pm_pbl_index", mr.pages),
        }
    }

    fn after_handle(&mut self) {
        let index = self.inputs.number("ah_idx");
        let found = self.device.ahs.get(index, &mut self.device.hmc, self.env);
        let (ah, inputs) = (found.unwrap().unwrap(), &mut self.inputs);
        let path = ah.path([0; 6], 0);
        inputs.field("pd_idx", ah.pd());
        inputs.field("dst_arpindex", ah.arp_index());
        let mac = inputs.mac("mac_addr");
        let got = path.src_mac.iter();
        let got = got.fold(0_u64, |mac, octet| mac << 8 | u64::from(*octet));
        inputs.same("MAC", got, mac);
        inputs.field("flow_label", path.flow_label);
        inputs.field("tc_tos", path.tos);
        inputs.field("hop_ttl", path.ttl);
        inputs.field("do_lpbk", bits(ah.flags, 62, 62));
        let tag = inputs.number("vlan_tag") as u16;
        let tagged = inputs.is_set("insert_vlan_tag");
        inputs.same("VLAN tag", path.vlan, tagged.then_some(tag));
        let v4 = inputs.is_set("ipv4_valid");
        let expected = (inputs.ip("src_ip_addr", v4), inputs.ip("dest_ip_addr", v4));
        let got = match path.ip {
            Addresses::V4 { src, dst } => (src.into(), dst.into()),
            Addresses::V6 { src, dst } => (src.into(), dst.into()),
        };
        inputs.same("addresses", got, expected);
    }

    fn after_group(&mut self) {
        let index = self.inputs.number("mg_id");
        let found = self
            .device
            .groups
            .get(index, &mut self.device.hmc, self.env);
        let (group, inputs) = (found.unwrap().unwrap(), &mut self.inputs);
        let members = inputs.value("members").list();
        let ids = members
            .iter()
            .map(|member| member["qp_id"].number().unwrap() as u32);
        inputs.same(
            "members",
            group.members().collect::<Vec<_>>(),
            ids.collect(),
        );
        let v4 = inputs.is_set("ipv4_valid");
        let address = inputs.ip("dest_ip_addr", v4);
        inputs.same("address", group.address(), address);
        let vlan = inputs.number("vlan_id") as u16;
        let tagged = inputs.is_set("vlan_valid");
        inputs.same("VLAN", group.vlan(), tagged.then_some(vlan));
        let mac = inputs.mac("dest_mac_addr");
        inputs.same("MAC", bits(group.words[0], 47, 0), mac);
        inputs.field("qs_handle", bits16(group.words[2], 9, 0));
    }
}
