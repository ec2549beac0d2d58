//! Host contexts: those of QPs, and the CQP's own.

use e810_hal::Ns;

use super::fields::Fields;
use super::{BRING_UP, CONTEXTS, Case};
use crate::pe::config::{Config, TransportLimits};
use crate::pe::cqp::Cqp;
use crate::pe::device::Device;
use crate::pe::host_context::undefined_bits;
use crate::pe::qp::{HOST_WORDS, Qp, QpType};
use crate::pe::ring::Memory;
use crate::pe::tests::env::TestEnv;
use crate::pe::word::{bits, bits8};
use crate::rc::{QpConfig, RNR_TIMER_CODE, retransmit_ns};
use crate::variation::AckCredits;
use crate::wire::Addresses;

/// Fields that every kind of context has: rings, CQs, queue set.
fn rings(qp: &Qp, made: &mut Fields<'_>, inputs: &mut Fields<'_>) {
    let (send, receive) = (made.number("sq_pa"), made.number("rq_pa"));
    made.same("SQADDR", qp.send_memory(), Memory::Contiguous(send));
    made.same("RQADDR", qp.receive_memory(), Memory::Contiguous(receive));
    if qp.kind == QpType::Uda {
        made.unused(
            "only the codes of a UDA queue were recorded",
            &["sq_ring_quanta", "rq_slots"],
        );
    } else {
        made.field("sq_ring_quanta", qp.send_quanta());
        made.field("rq_slots", qp.receive_quanta() / qp.receive_slot_quanta());
    }
    made.field("rq_wqe_shift", qp.receive_slot_quanta().ilog2());
    made.field("qs_handle", qp.queue_set());
    made.field("hw_sq_size", qp.send_quanta().ilog2() - 2);
    made.field("hw_rq_size", qp.receive_quanta().ilog2() - 2);
    made.field("qp_type", qp.kind as u64);
    made.unused("iWARP's own", &["q2_pa", "ieq_qp"]);
    made.unused(
        "push is dormant: requests come through memory",
        &["push_idx"],
    );
    if inputs.has("cq_id") {
        inputs.field("cq_id", qp.send_cq());
        inputs.field("cq_id", qp.receive_cq());
    } else {
        inputs.field("send_cq_num", qp.send_cq());
        inputs.field("rcv_cq_num", qp.receive_cq());
    }
}

/// The statistics instance.
fn statistics(qp: &Qp, inputs: &mut Fields<'_>) {
    let instance = inputs.number("stats_idx") as u8;
    let used = inputs.is_set("stats_idx_valid");
    inputs.same(
        "statistics instance",
        qp.statistics_instance(),
        used.then_some(instance),
    );
}

/// Addresses and headers of a connection.
fn path(config: &QpConfig, inputs: &mut Fields<'_>) {
    let path = &config.path;
    let mac = inputs.mac("mac_addr");
    let octets = path.src_mac.iter();
    let got = octets.fold(0_u64, |mac, octet| mac << 8 | u64::from(*octet));
    inputs.same("MAC", got, mac);
    let v4 = inputs.is_set("ipv4");
    let expected = (
        inputs.context_ip("local_ipaddr", v4),
        inputs.context_ip("dest_ip_addr", v4),
    );
    let got = match path.ip {
        Addresses::V4 { src, dst } => (src.into(), dst.into()),
        Addresses::V6 { src, dst } => (src.into(), dst.into()),
    };
    inputs.same("addresses", got, expected);
    let tag = inputs.number("vlan_tag") as u16;
    let tagged = inputs.is_set("insert_vlan_tag");
    inputs.same("VLAN tag", path.vlan, tagged.then_some(tag));
    // DCQCN and DCTCP mark packets as ECN capable: the recorded software adds that to a TOS without
    // ECN bits.
    let marks = inputs.is_set("dcqcn_en") || inputs.is_set("dctcp_en");
    let tos = inputs.number("tos") as u8;
    let ecn = if marks && tos & 3 == 0 { 2 } else { 0 };
    inputs.same("TOS", path.tos, tos | ecn);
    inputs.field("ttl", path.ttl);
    inputs.field("flow_label", path.flow_label);
    inputs.field("src_port", path.src_port);
    inputs.field("dst_port", path.dst_port);
}

fn roce(qp: &Qp, inputs: &mut Fields<'_>) {
    let config = qp.rc_config(77, &Config::default()).unwrap();
    path(&config, inputs);
    inputs.field("arp_idx", qp.arp_index());
    inputs.field("qp_compl_ctx", qp.completion_context());
    inputs.field("pd_id", config.pd);
    inputs.field("p_key", config.pkey);
    inputs.field("dest_qp", config.dest_qpn);
    inputs.field("snd_mss", config.mtu.bytes());
    inputs.field("ord_size", config.ord);
    // IRDSIZE is a code: the device returns its value, which is at least the requested one.
    let ird = inputs.number("ird_size");
    let given = u64::from(config.ird);
    inputs.same("IRD", given >= ird && given < 4 * ird.max(2), true);
    inputs.field("rexmit_thresh", config.retry);
    inputs.field("rnr_nak_thresh", config.rnr_retry);
    inputs.field("wr_rdresp_en", config.write_ok);
    inputs.field("rd_en", config.read_ok);
    inputs.field("cwnd", config.window);
    inputs.field("ack_credits", config.credits);
    let least = inputs.number("rtomin") as u8;
    inputs.same("time-out", config.retransmit_ns, retransmit_ns(least));
    inputs.same("RNR timer", config.rnr_timer, RNR_TIMER_CODE);
    let allowed = qp.allowed(77);
    inputs.field("priv_mode_en", allowed.privileged);
    inputs.field("fast_reg_en", allowed.fast_register);
    inputs.field("bind_en", allowed.bind);
    inputs.field("pd_id", allowed.pd);
    let (next, expected) = qp.psns();
    inputs.field("psn_nxt", next);
    inputs.field("epsn", expected);
    inputs.unused(
        "a name of software: the device has the queue set of the priority",
        &["user_pri"],
    );
    inputs.unused(
        "the model has no congestion control",
        &[
            "dcqcn_en",
            "dctcp_en",
            "fw_cc_enable",
            "timely_en",
            "t_high",
            "t_low",
        ],
    );
    inputs.unused(
        "kept and handed back by UPLOAD_CONTEXT; what the device does with it is not in the sources",
        &[
            "rem_endpoint_idx", "is_qp1", "udprivcq_en", "rcv_no_icrc", "err_rq_idx_valid", "err_rq_idx", "lsn",
        ],
    );
    inputs.unused(
        "the next PSN stands for both when a connection starts",
        &["psn_max", "psn_una"],
    );
    inputs.unused("of datagrams: compared there", &["qkey"]);
}

#[test]
fn contexts_mean_what_went_in() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for case in Case::all(CONTEXTS).step_by(if cfg!(miri) { 5 } else { 1 }) {
        let host = case.words::<HOST_WORDS>("ctx_hex").unwrap();
        let value = case.value();
        let (mut made, mut inputs) = (Fields::new(&value["qp"]), Fields::new(&value["in"]));
        let kind = QpType::new(made.number("qp_type") as u8).unwrap();
        let qp = Qp::new(kind, host, false, 0);
        rings(&qp, &mut made, &mut inputs);
        match kind {
            QpType::RoceRc | QpType::RoceUd => {
                made.same("undefined bits", undefined_bits(&host), None);
                statistics(&qp, &mut inputs);
                roce(&qp, &mut inputs);
                // Datagrams are checked by their Q_Key.
                inputs.field("qkey", qp.host[8] >> 32);
            }
            // The model carries no traffic of these types; only the common fields of all contexts
            // are compared.
            QpType::Iwarp | QpType::Uda => {
                let members = value["in"].members().iter();
                let keys: Vec<&str> = members.map(|(key, _)| *key).collect();
                inputs.unused("iWARP's own", &keys);
            }
        }
        let complaints = made.complaints().into_iter().chain(inputs.complaints());
        wrong.extend(complaints.map(|text| format!("{}: {text}", case.name())));
        seen += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen == 20 || cfg!(miri), "{seen}");
}

/// Some of its fields can be overridden by a choice.
#[test]
fn choices_take_the_place_of_what_a_context_says() {
    let case = Case::all(CONTEXTS)
        .find(|case| case.name().starts_with("roce"))
        .unwrap();
    let host = case.words::<HOST_WORDS>("ctx_hex").unwrap();
    let qp = Qp::new(QpType::RoceRc, host, false, 0);
    let mut choices = Config {
        transport: TransportLimits {
            ack_timeout: Some(Ns::from_ms(500)),
            window: Some(32),
            rnr_timer: Some(1),
            ack_credits: Some(31),
        },
        ..Config::default()
    };
    let other = qp.rc_config(77, &choices).unwrap();
    assert_eq!((other.retransmit_ns, other.window), (500_000_000, 32));
    assert_eq!((other.rnr_timer, other.credits), (1, 31));
    choices = Config::default();
    choices.variation.ack_credits = AckCredits::Unlimited;
    assert_eq!(qp.rc_config(77, &choices).unwrap().credits, 31);
}

#[test]
fn the_context_of_the_cqp_means_what_went_in() {
    let cases = Case::all(BRING_UP).filter(|case| case.name().starts_with("cqp_create"));
    let mut seen = 0;
    for case in cases {
        let (value, mut env) = (case.value(), TestEnv::new(3));
        let mut inputs = Fields::new(&value["in"]);
        let address = inputs.number("host_ctx_pa");
        let words = case.words::<8>("host_ctx_hex_qword3_zeroed").unwrap();
        env.map(address, 64);
        env.set_words(address, &words);
        let context = Cqp::default().read_context(address, &mut env).unwrap();
        inputs.field("sq_size", context.entries);
        inputs.field("sq_pa", context.base);
        let status = u64::from(context.status);
        inputs.field("hmc_profile", bits(status, 6, 4));
        inputs.field("ena_vf_count", bits(status, 21, 16));
        inputs.same("cookie", context.cookie, 0);
        // Refused unless it is of this generation.
        inputs.field("hw_maj_ver", 1_u64);
        inputs.unused(
            "changes nothing in the model",
            &[
                "ceqs_per_vf",
                "struct_ver",
                "hw_min_ver",
                "protocol_used",
                "rocev2_rto_policy",
                "disable_packed",
            ],
        );
        inputs.unused(
            "the model has no congestion control",
            &[
                "cc_cfg_valid",
                "min_rate",
                "min_dec_factor",
                "dcqcn_t",
                "rai_factor",
                "hai_factor",
                "dcqcn_b",
                "dcqcn_f",
                "rreduce_mperiod",
            ],
        );
        let complaints = inputs.complaints();
        assert!(complaints.is_empty(), "{}: {complaints:?}", case.name());
        assert!(env.findings.is_empty(), "{:?}", env.findings);
        // A CQP created from it has the rings that it describes.
        let mut device = Device::new(Config::default(), 1);
        Cqp::default().create(address, &mut device, &mut env);
        let size = bits8(words[0], 11, 8);
        assert_eq!(u64::from(context.entries), 2 << size);
        seen += 1;
    }
    assert_eq!(seen, 3);
}
