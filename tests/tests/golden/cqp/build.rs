//! A case's request, by the name of its operation.

use e810_cqp::op::{self, Command, CqAttributes, QueueMemory, SdEntry, StagKind, UpdatePeSds, Wqe};
use e810_cqp::{Error, Opcode};

use super::input::Input;
use crate::context::narrow;
use crate::report::{Case, number};

/// The recorder's name of FLUSH_WQES that only generates an event.
const GEN_AE: &str = "GEN_AE";
/// The recorder's name of ALLOC_STAG for a window.
const ALLOC_WINDOW: &str = "ALLOC_STAG(MW)";

/// The opcode that the recorder calls `name`; it leaves out what comes after
/// `_TABLE` in the device's own.
fn opcode(name: &str) -> Opcode {
    match name {
        GEN_AE => Opcode::FlushWqes,
        ALLOC_WINDOW => Opcode::AllocStag,
        _ => {
            let is_it = |op: &&Opcode| {
                let rest = op.name().strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_TABLE"))
            };
            let found = Opcode::NAMED.iter().find(is_it);
            *found.unwrap_or_else(|| panic!("no opcode is called {name}"))
        }
    }
}

/// Whether this driver has a use for what the recorder calls `name`.
pub(super) fn is_sent(name: &str) -> bool {
    let other = [
        Opcode::ModifyAddrHandle,
        Opcode::ManagePushPages,
        Opcode::UpMap,
    ];
    name != GEN_AE && !other.contains(&opcode(name))
}

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

    /// A group's command and the context it points to.
    fn with_members(&self, command: &dyn Command) -> Built {
        Ok(Request {
            wqe: command.encode()?,
            beside: op::group_context(&self.members())?.to_vec(),
        })
    }

    pub(super) fn build(&self, case: &Case<'_>) -> Built {
        let name = case.name.as_str();
        let recorded = case["op"].as_str().unwrap();
        let plain = |command: &dyn Command| {
            Ok(Request {
                wqe: command.encode()?,
                beside: Vec::new(),
            })
        };
        match opcode(recorded) {
            Opcode::CreateQp => plain(&self.create_qp()),
            Opcode::ModifyQp => plain(&self.modify_qp()),
            Opcode::DestroyQp => plain(&self.destroy_qp()),
            Opcode::FlushWqes => plain(&self.flush()),
            Opcode::SuspendQp => plain(&op::SuspendQp {
                qp: self.as_("qp_id"),
            }),
            Opcode::ResumeQp => plain(&op::ResumeQp {
                qp: self.as_("qp_id"),
                qs_handle: self.as_("qs_handle"),
            }),
            Opcode::UploadContext => plain(&op::UploadContext {
                qp: self.as_("qp_id"),
                kind: self.qp_type(),
                buffer: self.at("buf_pa"),
                raw: self.is("raw_format"),
                freeze: self.is("freeze_qp"),
            }),
            Opcode::CreateCq if name == "ccq_create" => plain(&op::CreateCq {
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
            Opcode::CreateCq => plain(&op::CreateCq {
                cq: self.cq(),
                shadow_threshold: self.as_("shadow_read_threshold"),
                vsi: self.vsi("vsi_idx"),
                check_overflow: self.is("check_overflow"),
            }),
            Opcode::ModifyCq => plain(&op::ModifyCq {
                cq: self.cq(),
                shadow_threshold: self.as_("shadow_read_threshold"),
                vsi: self.vsi("vsi_idx"),
                check_overflow: self.is("check_overflow"),
                resize: self.is("cq_resize"),
            }),
            Opcode::DestroyCq if name == "ccq_destroy" => plain(&op::DestroyCq { cq: self.ccq() }),
            Opcode::DestroyCq => plain(&op::DestroyCq { cq: self.cq() }),
            Opcode::CreateCeq => plain(&op::CreateCeq {
                ceq: self.ceq(),
                entries: self.as_("elem_cnt"),
                memory: self.memory("ceqe_pa"),
                vsi: self.vsi("vsi_idx"),
                itr_no_expire: self.is("itr_no_expire"),
                processing_hint: None,
            }),
            Opcode::DestroyCeq => plain(&op::DestroyCeq {
                ceq: self.ceq(),
                entries: self.as_("elem_cnt"),
                memory: self.memory("ceqe_pa"),
                processing_hint: false,
            }),
            Opcode::CreateAeq => plain(&op::CreateAeq {
                entries: self.as_("elem_cnt"),
                memory: self.memory("aeq_elem_pa"),
            }),
            Opcode::DestroyAeq => plain(&op::DestroyAeq {
                entries: self.as_("elem_cnt"),
                memory: self.memory("aeq_elem_pa"),
            }),
            Opcode::AllocStag if recorded == ALLOC_WINDOW => plain(&op::AllocMwStag {
                index: self.as_("mw_stag_index"),
                pd: self.as_("pd_id"),
                type_1: self.is("mw_wide"),
                bind_ignores_key: self.is("mw1_bind_dont_vldt_key"),
            }),
            Opcode::AllocStag => plain(&self.alloc_stag()?),
            Opcode::RegMr => plain(&self.register_mr()?),
            Opcode::DeallocStag => plain(&op::DeallocStag {
                index: self.as_("stag_idx"),
                pd: self.as_("pd_id"),
                kind: if self.is("mr") {
                    StagKind::Region
                } else {
                    StagKind::Window
                },
            }),
            Opcode::CreateAddrHandle => plain(&op::CreateAh(self.handle())),
            Opcode::DestroyAddrHandle => plain(&op::DestroyAh(self.handle())),
            Opcode::CreateMcastGrp => self.with_members(&op::CreateMcast(self.group())),
            Opcode::ModifyMcastGrp => self.with_members(&op::ModifyMcast(self.group())),
            Opcode::DestroyMcastGrp => self.with_members(&op::DestroyMcast(self.group())),
            Opcode::ManageArp => plain(&self.arp()),
            Opcode::ManageApbvt => plain(&op::ManageApbvt {
                port: self.as_("port"),
                add: self.is("add"),
            }),
            Opcode::ManageQuadHash => plain(&self.quad_hash()),
            Opcode::AllocateLocMac => plain(&op::AllocateLocalMac),
            Opcode::ManageLocMac => plain(&self.local_mac()),
            Opcode::ManageStats => plain(&self.manage_stats()),
            Opcode::GatherStats => plain(&self.gather()),
            Opcode::WorkSchedNode => plain(&self.node()),
            Opcode::QueryRdmaFeatures => plain(&op::QueryFeatures {
                buffer: self.at("buf_pa"),
                bytes: self.as_("buf_len"),
            }),
            Opcode::QueryFpmVal => plain(&op::QueryFpm {
                function: self.pf("hmc_fn_id"),
                buffer: self.at("buf_pa"),
            }),
            Opcode::CommitFpmVal => plain(&op::CommitFpm {
                function: self.pf("hmc_fn_id"),
                buffer: self.at("buf_pa"),
            }),
            Opcode::ShmcPagesAllocated => plain(&op::ShmcPagesAllocated {
                function: self.pf("hmc_fn_id"),
            }),
            Opcode::UpdatePeSds => self.update_sds(),
            Opcode::ManageHmcPmFuncTable => plain(&op::ManageHmcPmFunction {
                vf: self.as_("vf_id"),
                free: self.is("free_fcn"),
            }),
            // No wildcard: an opcode that gets a format must get an arm here.
            Opcode::QueryStag | Opcode::RegSmr | Opcode::ManageVfPbleBp | Opcode::Nop => {
                panic!("{recorded}: its format is not in the sources, so this vector is one")
            }
            Opcode::ModifyAddrHandle | Opcode::ManagePushPages | Opcode::UpMap => {
                panic!("{recorded}: it is left out")
            }
            Opcode::Unknown(code) => panic!("{recorded}: {code:#x} is no opcode"),
        }
    }
}
