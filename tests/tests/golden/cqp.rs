//! Golden vectors of the control QP: its requests, its bring-up, the CCQ.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicU64;

use e810_cqp::Error;
use e810_cqp::ccq::CompletionRing;
use e810_cqp::host_context::{HmcProfile, HostContext, Protocol, clear_registers, write_address};
use e810_cqp::op::{
    self, AddressHandle, AsyncEvent, Command, CqAttributes, Extent, FlushCode, GroupMember, IpPair,
    McastGroup, ModifyQp, PageSize, Pages, QpState, QpType, QuadEndpoint, QueueMemory, RegisterMr,
    SdEntry, StagKind, TagBase, Terminate, UpdatePeSds, WorkSchedNode, Wqe,
};
use e810_cqp::qpc::cqp_size_code;
use e810_cqp::ring::{SendRing, publish, ring_doorbell};
use e810_hal::bus::{CeqId, PfId, VsiId};
use e810_hal::regs::{PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CCQPSTATUS, PFPE_CQPDB, PFPE_CQPTAIL};
use e810_hal::{Barrier, Bus, Cell, Iova, Off};
use serde_json::Value;

use crate::context::{flag, mac, narrow, numbers, or_zero, v6};
use crate::hex;
use crate::report::{self, Case, Outcome, Rule, number};

/// VSI of the CQs of the recorder, where a case does not give it.
const VSI: u64 = 21;

/// What one request gives: its WQE, and what stands beside it.
struct Request {
    wqe: Wqe,
    /// Words of the SD slot or of the group context.
    beside: Vec<u64>,
}

type Built = Result<Request, Error>;

/// Builds a case's request from its `in` object.
struct Input<'a>(&'a Value);

impl Input<'_> {
    fn get(&self, key: &str) -> u64 {
        or_zero(self.0, key)
    }

    fn is(&self, key: &str) -> bool {
        flag(self.0, key)
    }

    fn as_<T: TryFrom<u64>>(&self, key: &str) -> T {
        narrow(self.get(key))
    }

    fn at(&self, key: &str) -> Iova {
        Iova(self.get(key))
    }

    fn pf(&self, key: &str) -> PfId {
        PfId::new(self.as_(key)).unwrap()
    }

    fn vsi(&self, key: &str) -> VsiId {
        let vsi = self.0[key].as_u64().unwrap_or(VSI);
        VsiId::new(narrow(vsi)).unwrap()
    }

    fn ceq(&self) -> CeqId {
        CeqId::new(self.as_("ceq_id")).unwrap()
    }

    fn qp_type(&self) -> QpType {
        match self.get("qp_type") {
            1 => QpType::Iwarp,
            2 => QpType::Uda,
            3 => QpType::RoceRc,
            4 => QpType::RoceUd,
            other => panic!("QP type {other}"),
        }
    }

    fn state(&self) -> QpState {
        QpState::from_code(self.as_("next_iwarp_state")).unwrap()
    }

    /// The queue's memory; existing drivers give either an address or a list.
    fn memory(&self, address: &str) -> QueueMemory {
        if self.is("virtual_map") {
            QueueMemory::Pbles(self.as_("first_pm_pbl_idx"))
        } else {
            QueueMemory::Contiguous(self.at(address))
        }
    }

    /// IPv4 addresses in requests are the first of the four numbers.
    fn ip(&self, key: &str) -> IpAddr {
        let parts = numbers(&self.0[key]);
        if self.is("ipv4_valid") {
            IpAddr::V4(Ipv4Addr::from(parts[0]))
        } else {
            IpAddr::V6(v6(parts))
        }
    }

    fn ips(&self, source: &str, destination: &str) -> IpPair {
        match (self.ip(source), self.ip(destination)) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => IpPair::V4 {
                source,
                destination,
            },
            (IpAddr::V6(source), IpAddr::V6(destination)) => IpPair::V6 {
                source,
                destination,
            },
            _ => unreachable!("one flag gives both families"),
        }
    }

    fn create_qp(&self) -> op::CreateQp {
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

    fn modify_qp(&self) -> ModifyQp {
        let terminate = (self.state() == QpState::Terminate).then(|| {
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

    fn destroy_qp(&self) -> op::DestroyQp {
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

    fn flush(&self) -> op::FlushWqes {
        let code = |major, minor| FlushCode {
            major: self.as_(major),
            minor: self.as_(minor),
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

    fn event(&self) -> AsyncEvent {
        AsyncEvent {
            code: self.as_("ae_code"),
            source: self.as_("ae_src"),
        }
    }

    fn cq(&self) -> CqAttributes {
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
    fn ccq(&self) -> CqAttributes {
        CqAttributes::new(
            0,
            self.as_("num_elem"),
            Iova(0x6_0000_0000),
            Iova(0x6_0001_0000),
            CeqId::new(0).unwrap(),
        )
    }

    fn register_mr(&self) -> Result<RegisterMr, Error> {
        let first = self.as_("first_pm_pbl_index");
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
            pages: match self.get("chunk_size") {
                0 => Pages::Contiguous(self.at("reg_addr_pa")),
                1 => Pages::Level1(first),
                _ => Pages::Level2(first),
            },
            // 0x20 (zero based) is not a right; VABASEDTO expresses it.
            access: op::Access::from_bits_truncate(self.get("access_rights") as u8),
            remote_atomics: false,
            hmc_function: None,
        })
    }

    fn extent(&self) -> Extent {
        if self.is("all_memory") {
            Extent::AllMemory
        } else {
            Extent::Bytes(self.get("total_len"))
        }
    }

    fn handle(&self) -> AddressHandle {
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

    fn group(&self) -> McastGroup {
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

    fn members(&self) -> Vec<GroupMember> {
        let members = self.0["members"].as_array().unwrap();
        let member = |member: &Value| GroupMember {
            qp: narrow(number(member, "qp_id")),
            port: narrow(number(member, "dest_port")),
        };
        members.iter().map(member).collect()
    }

    fn quad_hash(&self) -> op::ManageQuadHash {
        op::ManageQuadHash {
            change: match self.get("manage") {
                0 => op::HashChange::Delete,
                1 => op::HashChange::Add,
                _ => op::HashChange::Modify,
            },
            entry: match self.get("entry_type") {
                1 => op::HashEntry::TcpEstablished,
                2 => op::HashEntry::TcpSyn,
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

    fn arp(&self) -> op::ManageArp {
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

    fn local_mac(&self) -> op::ManageLocalMac {
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

    fn node(&self) -> WorkSchedNode {
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

    fn gather(&self) -> op::GatherStats {
        op::GatherStats {
            buffer: self.at("pa"),
            hmc_function: self.as_("hmc_fcn_index"),
            use_hmc_function: self.is("use_hmc_fcn_index"),
            instance: self.as_("stats_inst_index"),
            use_instance: self.is("use_stats_inst"),
        }
    }

    fn up_map(&self) -> op::UpMap {
        let map = self.0["map"].as_array().unwrap();
        let map: Vec<u8> = map.iter().map(|up| narrow(up.as_u64().unwrap())).collect();
        op::UpMap {
            map: map.try_into().unwrap(),
            hmc_function: self.pf("hmc_fcn_idx"),
            use_vlan: self.is("use_vlan"),
            cnp_override: self
                .is("use_cnp_up_override")
                .then(|| self.as_("cnp_up_override")),
        }
    }

    fn update_sds(&self) -> Built {
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

    fn build(&self, case: &Case<'_>) -> Built {
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

/// Registers written, in order; barriers do nothing here.
#[derive(Default)]
struct Machine(RefCell<Vec<(Off, u32)>>);

impl Barrier for Machine {}

impl Bus for Machine {
    fn read32(&self, off: Off) -> u32 {
        panic!("{off} was read")
    }
    fn write32(&self, off: Off, value: u32) {
        self.0.borrow_mut().push((off, value));
    }
}

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// How many requests came before a case's own, from its name, and the ring it
/// is about. `wrap4_*` complete each request, `full4_*` none.
fn history(case: &Case<'_>) -> (u64, bool) {
    let input = &case["in"];
    match input["cqp_sq_size"].as_u64() {
        Some(_) => (
            number(input, "arp_index"),
            input["completed"].as_u64() != Some(0),
        ),
        None => (or_zero(case, "wqe_index"), true),
    }
}

fn request(case: &Case<'_>) -> Outcome {
    let input = &case["in"];
    let refused = case["ret"].as_i64() != Some(0);
    let mut ring = SendRing::new(narrow(input["cqp_sq_size"].as_u64().unwrap_or(64))).unwrap();
    let (before, completed) = history(case);
    for _ in 0..before {
        let claim = ring.claim();
        if completed {
            claim.unwrap();
            ring.retire().unwrap();
        }
    }
    let posted = Input(input)
        .build(case)
        .and_then(|request| Ok((request, ring.claim()?)));
    let (request, entry) = match (posted, refused) {
        (Err(_), true) => return Outcome::Passed,
        (Ok(_), true) => return Outcome::Failed("accepted, the recorder refused it".to_owned()),
        // The root of the scheduler tree: 65535 is cut to 14 bits there.
        (Err(Error::OutOfRange { .. }), false) if input["parent_id"].as_u64() == Some(65535) => {
            return Outcome::Deviates(
                Rule::RefusesBadInput,
                "a node id of more than 14 bits is refused, not cut",
            );
        }
        (Err(error), false) => return Outcome::Failed(format!("refused: {error}")),
        (Ok(posted), false) => posted,
    };
    let machine = Machine::default();
    let words = memory(ring.entries() as usize * 8);
    publish(&words[..], &machine, entry, &request.wqe).unwrap();
    ring_doorbell(&machine, &machine, ring.head());

    let base = entry.index as usize * 8;
    let got: Vec<u64> = words[base..base + 8].iter().map(Cell::get).collect();
    // The CCQ's own requests were recorded without their doorbell; destroying
    // the AEQ also writes an interrupt register, which is the event queues'.
    let doorbell = case["doorbells"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|write| write["db"] == "PFPE_CQPDB+0")
        .map_or_else(|| ring.head(), |write| narrow(number(write, "val")));
    let beside = ["sdbuf_hex", "mg_ctx_hex"]
        .iter()
        .find_map(|key| case[*key].as_str())
        .map_or_else(Vec::new, hex::words);
    Outcome::all([
        Outcome::same("wqe_index", u64::from(entry.index), case.u64("wqe_index")),
        Outcome::same("polarity", u64::from(entry.polarity), case.u64("polarity")),
        Outcome::same("wqe", got, hex::words(case["wqe_hex"].as_str().unwrap())),
        Outcome::same("beside", request.beside, beside),
        Outcome::same(
            "doorbell",
            machine.0.into_inner(),
            vec![(PFPE_CQPDB.off(), doorbell)],
        ),
    ])
}

#[test]
fn wqes() {
    report::file("cqp_wqes.json", |file| {
        file.each("cases", |case| Some(request(case)));
    });
}

/// Register writes of the creation, in order.
fn create_registers(case: &Case<'_>) -> Outcome {
    let machine = Machine::default();
    clear_registers(&machine);
    write_address(&machine, Iova(number(&case["in"], "host_ctx_pa")));
    let off = |name: &str| match name {
        "PFPE_CQPTAIL+0" => PFPE_CQPTAIL.off(),
        "PFPE_CQPDB+0" => PFPE_CQPDB.off(),
        "PFPE_CCQPSTATUS+0" => PFPE_CCQPSTATUS.off(),
        "PFPE_CCQPHIGH+0" => PFPE_CCQPHIGH.off(),
        "PFPE_CCQPLOW+0" => PFPE_CCQPLOW.off(),
        other => panic!("register {other}"),
    };
    let expected: Vec<(Off, u32)> = case["registers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|write| {
            (
                off(write["db"].as_str().unwrap()),
                narrow(number(write, "val")),
            )
        })
        .collect();
    Outcome::same("registers", machine.0.into_inner(), expected)
}

/// The host context; its pointer, qword 3, is zeroed in the vectors.
fn host_context(case: &Case<'_>) -> Outcome {
    let input = Input(&case["in"]);
    let context = HostContext {
        entries: input.as_("sq_size"),
        sq: input.at("sq_pa"),
        cookie: 0,
        protocol: match input.get("protocol_used") {
            0 => Protocol::Any,
            1 => Protocol::Iwarp,
            _ => Protocol::Roce,
        },
        profile: match input.get("hmc_profile") {
            1 => HmcProfile::Default,
            2 => HmcProfile::FavourVf,
            _ => HmcProfile::Equal,
        },
        structure_version: input.as_("struct_ver"),
        hardware_major: input.as_("hw_maj_ver"),
        hardware_minor: input.as_("hw_min_ver"),
        enabled_vfs: input.as_("ena_vf_count"),
        ceqs_per_vf: input.as_("ceqs_per_vf"),
        disable_packed: input.is("disable_packed"),
        roce_rto_policy: input.is("rocev2_rto_policy"),
    };
    let expected = hex::words(case["host_ctx_hex_qword3_zeroed"].as_str().unwrap());
    Outcome::all([
        Outcome::same(
            "hw_sq_size",
            cqp_size_code(context.entries).map(u64::from),
            Ok(case.u64("hw_sq_size")),
        ),
        Outcome::same("context", context.encode().map(Vec::from), Ok(expected)),
        create_registers(case),
    ])
}

/// A CCQ entry: case `ccq_cqe_<n>` is about entry and WQE index *n*.
fn ccq_entry(case: &Case<'_>) -> Outcome {
    let words = hex::words(case["cqe_hex_ctx_zeroed"].as_str().unwrap());
    let index = case
        .name
        .rsplit('_')
        .next()
        .unwrap()
        .parse::<usize>()
        .unwrap();
    let machine = Machine::default();
    let (entries, shadow) = (memory(64 * 4), memory(8));
    let mut ring = CompletionRing::new(64).unwrap();
    for _ in 0..index {
        ring.advance(&shadow[..], &machine);
    }
    for (cell, word) in entries[index * 4..].iter().zip(words) {
        cell.set(word);
    }
    let Some(entry) = ring.peek(&entries[..], &machine) else {
        return Outcome::Failed("no entry seen".to_owned());
    };
    ring.advance(&shadow[..], &machine);
    let info = &case["info"];
    Outcome::all([
        Outcome::same("index", u64::from(entry.index) + 1, case.u64("cqp_sq_tail")),
        Outcome::same("error", u64::from(entry.error), number(info, "error")),
        Outcome::same("major", u64::from(entry.major), number(info, "major")),
        Outcome::same("minor", u64::from(entry.minor), number(info, "minor")),
        Outcome::same(
            "op_ret_val",
            u64::from(entry.ret_val),
            number(info, "op_ret_val"),
        ),
        Outcome::same("shadow", shadow[0].get(), case.u64("shadow_qword0")),
    ])
}

#[test]
fn bring_up() {
    report::file("cqp_bringup.json", |file| {
        file.each("cases", |case| match case.name.as_str() {
            name if name.starts_with("cqp_create") => Some(host_context(case)),
            name if name.starts_with("ccq_cqe") => Some(ccq_entry(case)),
            // Interrupt registers belong to the event queues.
            _ => None,
        });
    });
}
