//! Requests about objects: QPs, CQs, regions, address handles, groups.

use e810_cqp::Error;
use e810_cqp::op::{
    self, AddressHandle, AsyncEvent, CqAttributes, Extent, FlushStatus, GroupMember, McastGroup,
    ModifyQp, PageSize, Pages, RegisterMr, TagBase, Terminate,
};
use e810_hal::Iova;
use e810_hal::bus::CeqId;
use e810_types::{FlushCode, HwQpState};
use serde_json::Value;

use super::input::Input;
use crate::context::{mac, narrow};
use crate::report::number;

impl Input<'_> {
    pub(super) fn create_qp(&self) -> op::CreateQp {
        op::CreateQp {
            state: self.state(),
            virtual_queues: self.is("virtual_map"),
            ord_valid: self.is("ord_valid"),
            transport_valid: self.is("tcp_ctx_valid"),
            force_loopback: self.is("force_lpb"),
            cqs_valid: self.is("cq_num_valid"),
            mac_valid: self.is("mac_valid"),
            arp_valid: self.is("arp_cache_idx_valid"),
            ..op::CreateQp::new(
                self.as_("qp_id"),
                self.qp_type(),
                self.at("host_ctx_pa"),
                self.at("shadow_pa"),
            )
        }
    }

    pub(super) fn modify_qp(&self) -> ModifyQp {
        let terminate = (self.state() == HwQpState::Terminate).then(|| {
            let length = self.as_("termlen");
            match (self.is("dont_send_fin"), self.is("dont_send_term")) {
                (false, false) => Terminate::MessageAndFin { length },
                (true, false) => Terminate::Message { length },
                (false, true) => Terminate::Fin,
                (true, true) => Terminate::Nothing,
            }
        });
        ModifyQp {
            virtual_queues: self.is("virtual_map"),
            ord_valid: self.is("ord_valid"),
            transport_valid: self.is("tcp_ctx_valid"),
            cached_variables_valid: self.is("cached_var_valid"),
            force_loopback: self.is("force_lpb"),
            cqs_valid: self.is("cq_num_valid"),
            mac_valid: self.is("mac_valid"),
            arp_valid: self.is("arp_cache_idx_valid"),
            remove_hash_entry: self.is("remove_hash_idx"),
            reset_connection: self.is("reset_tcp_conn"),
            new_mss: self.is("mss_change").then(|| self.as_("new_mss")),
            terminate,
            ..ModifyQp::new(
                self.as_("qp_id"),
                self.qp_type(),
                self.at("host_ctx_pa"),
                self.at("shadow_pa"),
                self.state(),
            )
        }
    }

    pub(super) fn destroy_qp(&self) -> op::DestroyQp {
        op::DestroyQp {
            remove_hash_entry: self.is("remove_hash_idx"),
            ignore_bound_windows: self.is("ignore_mw_bound"),
            ..op::DestroyQp::new(
                self.as_("qp_id"),
                self.qp_type(),
                self.at("host_ctx_pa"),
                self.at("shadow_pa"),
            )
        }
    }

    pub(super) fn flush(&self) -> op::FlushWqes {
        let code = |major, minor| FlushStatus {
            major: self.as_(major),
            minor: FlushCode(self.as_(minor)),
        };
        op::FlushWqes {
            qp: self.as_("qp_id"),
            sq: self.is("sq"),
            rq: self.is("rq"),
            codes: self.is("userflushcode").then(|| {
                (
                    code("sq_major_code", "sq_minor_code"),
                    code("rq_major_code", "rq_minor_code"),
                )
            }),
            event: self.is("generate_ae").then(|| self.event()),
        }
    }

    pub(super) fn event(&self) -> AsyncEvent {
        AsyncEvent {
            code: self.as_("ae_code"),
            source: self.as_("ae_src"),
        }
    }

    pub(super) fn cq(&self) -> CqAttributes {
        CqAttributes {
            memory: self.memory("cq_pa"),
            ..CqAttributes::new(
                self.as_("cq_id"),
                self.as_("cq_size"),
                self.at("cq_pa"),
                self.at("shadow_pa"),
                self.ceq(),
            )
        }
    }

    /// The recorder's CCQ; its destroy repeats the creation's addresses, which
    /// the case does not list.
    pub(super) fn ccq(&self) -> CqAttributes {
        CqAttributes::new(
            0,
            self.as_("num_elem"),
            Iova(0x6_0000_0000),
            Iova(0x6_0001_0000),
            CeqId::new(0).unwrap(),
        )
    }

    /// LPBLSIZE codes; `first` names the field with the list's first index.
    fn pages(&self, first: &str) -> Pages {
        match self.get("chunk_size") {
            0 => Pages::Contiguous(self.at("reg_addr_pa")),
            1 => Pages::Level1(self.as_(first)),
            _ => Pages::Level2(self.as_(first)),
        }
    }

    // 0x20 (zero based) is not a right; VABASEDTO expresses it.
    fn access(&self) -> op::Access {
        op::Access::from_bits_truncate(self.get("access_rights") as u8)
    }

    pub(super) fn alloc_stag(&self) -> Result<op::AllocMrStag, Error> {
        Ok(op::AllocMrStag {
            page_size: PageSize::from_bytes(self.get("page_size"))?,
            pages: self.pages("first_pm_pbl_idx"),
            access: self.access(),
            remote_access: self.is("remote_access"),
            ..op::AllocMrStag::new(self.as_("stag_idx"), self.as_("pd_id"), self.extent())
        })
    }

    pub(super) fn register_mr(&self) -> Result<RegisterMr, Error> {
        Ok(RegisterMr {
            index: self.as_("stag_idx"),
            key: self.as_("stag_key"),
            pd: self.as_("pd_id"),
            address: self.get("va"),
            base: if self.is("addr_type") {
                TagBase::Va
            } else {
                TagBase::Zero
            },
            extent: self.extent(),
            page_size: PageSize::from_bytes(self.get("page_size"))?,
            pages: self.pages("first_pm_pbl_index"),
            access: self.access(),
            remote_atomics: false,
            hmc_function: None,
        })
    }

    pub(super) fn extent(&self) -> Extent {
        if self.is("all_memory") {
            Extent::AllMemory
        } else {
            Extent::Bytes(self.get("total_len"))
        }
    }

    pub(super) fn handle(&self) -> AddressHandle {
        AddressHandle {
            index: self.as_("ah_idx"),
            pd: self.as_("pd_idx"),
            source_mac: mac(&self.0["mac_addr"]),
            addresses: self.ips("src_ip_addr", "dest_ip_addr"),
            arp_index: self.as_("dst_arpindex"),
            hop_limit: self.as_("hop_ttl"),
            traffic_class: self.as_("tc_tos"),
            flow_label: self.as_("flow_label"),
            vlan: self.is("insert_vlan_tag").then(|| self.as_("vlan_tag")),
            loopback: self.is("do_lpbk"),
        }
    }

    pub(super) fn group(&self) -> McastGroup {
        McastGroup {
            group: self.as_("mg_id"),
            mac: mac(&self.0["dest_mac_addr"]),
            address: self.ip("dest_ip_addr"),
            vlan: self.is("vlan_valid").then(|| self.as_("vlan_id")),
            qs_handle: self.as_("qs_handle"),
            hmc_function: self.pf("hmc_fcn_id"),
            context: self.at("ctx_pa"),
        }
    }

    pub(super) fn members(&self) -> Vec<GroupMember> {
        let members = self.0["members"].as_array().unwrap();
        let member = |member: &Value| GroupMember {
            qp: narrow(number(member, "qp_id")),
            port: narrow(number(member, "dest_port")),
        };
        members.iter().map(member).collect()
    }
}
