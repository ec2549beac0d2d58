//! A case's request, by the name of its operation.

use e810_cqp::Error;
use e810_cqp::op::{self, Command, CqAttributes, QueueMemory, SdEntry, StagKind, UpdatePeSds, Wqe};

use super::input::Input;
use crate::context::narrow;
use crate::report::{Case, number};

/// What one request gives: its WQE, and what stands beside it.
pub(super) struct Request {
    pub(super) wqe: Wqe,
    /// Words of the SD slot or of the group context.
    pub(super) beside: Vec<u64>,
}

pub(super) type Built = Result<Request, Error>;

impl Input<'_> {
    pub(super) fn update_sds(&self) -> Built {
        let entries: Vec<SdEntry> = self.0["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| SdEntry {
                command: narrow(number(entry, "cmd")),
                data: number(entry, "data"),
            })
            .collect();
        let update = UpdatePeSds {
            function: self.pf("hmc_fn_id"),
            entries: &entries,
            slot: self.at("sdbuf_pa"),
        };
        Ok(Request {
            wqe: update.encode()?,
            beside: update.slot_entries().flat_map(SdEntry::words).collect(),
        })
    }

    pub(super) fn build(&self, case: &Case<'_>) -> Built {
        let name = case.name.as_str();
        let plain = |command: &dyn Command| {
            Ok(Request {
                wqe: command.encode()?,
                beside: Vec::new(),
            })
        };
        match case["op"].as_str().unwrap() {
            "CREATE_QP" => plain(&self.create_qp()),
            "MODIFY_QP" => plain(&self.modify_qp()),
            "DESTROY_QP" => plain(&self.destroy_qp()),
            "FLUSH_WQES" => plain(&self.flush()),
            "GEN_AE" => plain(&op::GenerateAe {
                qp: self.as_("qp_id"),
                event: self.event(),
            }),
            "SUSPEND_QP" => plain(&op::SuspendQp {
                qp: self.as_("qp_id"),
            }),
            "RESUME_QP" => plain(&op::ResumeQp {
                qp: self.as_("qp_id"),
                qs_handle: self.as_("qs_handle"),
            }),
            "UPLOAD_CONTEXT" => plain(&op::UploadContext {
                qp: self.as_("qp_id"),
                kind: self.qp_type(),
                buffer: self.at("buf_pa"),
                raw: self.is("raw_format"),
                freeze: self.is("freeze_qp"),
            }),
            "CREATE_CQ" if name == "ccq_create" => plain(&op::CreateCq {
                cq: CqAttributes {
                    memory: QueueMemory::Contiguous(self.at("cq_pa")),
                    shadow: self.at("shadow_area_pa"),
                    mask_ceqe: self.is("ceqe_mask"),
                    ..self.ccq()
                },
                shadow_threshold: self.as_("shadow_read_threshold"),
                vsi: self.vsi("vsi_idx"),
                check_overflow: true,
            }),
            "CREATE_CQ" => plain(&op::CreateCq {
                cq: self.cq(),
                shadow_threshold: self.as_("shadow_read_threshold"),
                vsi: self.vsi("vsi_idx"),
                check_overflow: self.is("check_overflow"),
            }),
            "MODIFY_CQ" => plain(&op::ModifyCq {
                cq: self.cq(),
                shadow_threshold: self.as_("shadow_read_threshold"),
                vsi: self.vsi("vsi_idx"),
                check_overflow: self.is("check_overflow"),
                resize: self.is("cq_resize"),
            }),
            "DESTROY_CQ" if name == "ccq_destroy" => plain(&op::DestroyCq { cq: self.ccq() }),
            "DESTROY_CQ" => plain(&op::DestroyCq { cq: self.cq() }),
            "CREATE_CEQ" => plain(&op::CreateCeq {
                ceq: self.ceq(),
                entries: self.as_("elem_cnt"),
                memory: self.memory("ceqe_pa"),
                vsi: self.vsi("vsi_idx"),
                itr_no_expire: self.is("itr_no_expire"),
                processing_hint: None,
            }),
            "DESTROY_CEQ" => plain(&op::DestroyCeq {
                ceq: self.ceq(),
                entries: self.as_("elem_cnt"),
                memory: self.memory("ceqe_pa"),
                processing_hint: false,
            }),
            "DESTROY_AEQ" => plain(&op::DestroyAeq {
                entries: self.as_("elem_cnt"),
                memory: self.memory("aeq_elem_pa"),
            }),
            "ALLOC_STAG" => plain(&op::AllocMrStag::new(
                self.as_("stag_idx"),
                self.as_("pd_id"),
                self.extent(),
            )),
            "ALLOC_STAG(MW)" => plain(&op::AllocMwStag {
                index: self.as_("mw_stag_index"),
                pd: self.as_("pd_id"),
                type_1: self.is("mw_wide"),
                bind_ignores_key: self.is("mw1_bind_dont_vldt_key"),
            }),
            "REG_MR" => plain(&self.register_mr()?),
            "DEALLOC_STAG" => plain(&op::DeallocStag {
                index: self.as_("stag_idx"),
                pd: self.as_("pd_id"),
                kind: if self.is("mr") {
                    StagKind::Region
                } else {
                    StagKind::Window
                },
            }),
            "CREATE_ADDR_HANDLE" => plain(&op::CreateAh(self.handle())),
            "CREATE_MCAST_GRP" => Ok(Request {
                wqe: op::CreateMcast(self.group()).encode()?,
                beside: op::group_context(&self.members())?.to_vec(),
            }),
            "MANAGE_ARP" => plain(&self.arp()),
            "MANAGE_APBVT" => plain(&op::ManageApbvt {
                port: self.as_("port"),
                add: self.is("add"),
            }),
            "MANAGE_QUAD_HASH" => plain(&self.quad_hash()),
            "ALLOCATE_LOC_MAC" => plain(&op::AllocateLocalMac),
            "MANAGE_LOC_MAC" => plain(&self.local_mac()),
            "MANAGE_PUSH_PAGES" => plain(&op::ManagePushPages {
                qs_handle: self.as_("qs_handle"),
                page_type: self.as_("push_page_type"),
                free: self.is("free_page").then(|| self.as_("push_idx")),
            }),
            "GATHER_STATS" => plain(&self.gather()),
            "WORK_SCHED_NODE" => plain(&self.node()),
            "UP_MAP" => plain(&self.up_map()),
            "QUERY_RDMA_FEATURES" => plain(&op::QueryFeatures {
                buffer: self.at("buf_pa"),
                bytes: self.as_("buf_len"),
            }),
            "QUERY_FPM_VAL" => plain(&op::QueryFpm {
                function: self.pf("hmc_fn_id"),
                buffer: self.at("buf_pa"),
            }),
            "COMMIT_FPM_VAL" => plain(&op::CommitFpm {
                function: self.pf("hmc_fn_id"),
                buffer: self.at("buf_pa"),
            }),
            "UPDATE_PE_SDS" => self.update_sds(),
            "MANAGE_HMC_PM_FUNC_TABLE" => plain(&op::ManageHmcPmFunction {
                vf: self.as_("vf_id"),
                free: self.is("free_fcn"),
            }),
            other => panic!("no builder for {other}"),
        }
    }
}
