//! Commands that Linux's own functions wrote, byte for byte: a fault found in them would be a wrong rule here.

mod prepared;

use super::command::{Command, Format, Outcome};
use crate::pe::config::{Config, WireLimits};
use crate::pe::env::Class;
use crate::pe::host_context::undefined_bits;
use crate::pe::qp::{HOST_WORDS, Qp, QpType};
use crate::pe::tests::env::TestEnv;
use crate::pe::word::bits8;
use crate::rc::{RNR_TIMER_CODE, retransmit_ns};
use crate::variation::AckCredits;
use e810_hal::Ns;
use prepared::{clear, device, prepare};

const COMMANDS: &str = include_str!("../../../../tests/vectors/cqp_wqes.json");
const CONTEXTS: &str = include_str!("../../../../tests/vectors/qp_contexts.json");

/// A recorded case: one line of the file.
struct Case(&'static str);

impl Case {
    fn all(file: &'static str) -> impl Iterator<Item = Self> {
        file.lines()
            .filter(|line| line.starts_with("{\"name\""))
            .map(Case)
    }

    /// The value of `"key":"value"`.
    fn text(&self, key: &str) -> Option<&'static str> {
        let (_, rest) = self.0.split_once(&format!("\"{key}\":\""))?;
        rest.split('"').next()
    }

    fn name(&self) -> &'static str {
        self.text("name").unwrap()
    }

    fn words<const N: usize>(&self, key: &str) -> Option<[u64; N]> {
        let hex = self.text(key)?;
        let byte = |n: usize| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap();
        Some(std::array::from_fn(|w| {
            u64::from_le_bytes(std::array::from_fn(|b| byte(8 * w + b)))
        }))
    }

    fn command(&self) -> Option<Command> {
        self.words("wqe_hex").map(Command)
    }
}

#[test]
fn linux_sets_only_bits_that_the_formats_define() {
    let mut seen = 0;
    for case in Case::all(COMMANDS) {
        let Some(command) = case.command() else {
            continue;
        };
        let format = Format::of(command.opcode());
        let format =
            format.unwrap_or_else(|| panic!("{}: opcode {:#x}", case.name(), command.opcode()));
        assert_eq!(format.undefined(&command), None, "{}", case.name());
        seen += 1;
    }
    assert_eq!(seen, 113);
}

#[test]
fn each_opcode_has_one_format() {
    for opcode in 0..64 {
        let Some(format) = Format::of(opcode) else {
            continue;
        };
        assert_eq!(format.opcode, opcode);
        // A bit that no format has: [39] of the header, above the opcode.
        let mut command = Command([0; 8]);
        command.0[3] = u64::from(opcode) << 32 | 1 << 39;
        if opcode != 0x21 && opcode != 0x12 {
            assert_eq!(
                format.undefined(&command),
                Some((24, 1 << 39)),
                "{}",
                format.name
            );
        }
    }
}

#[test]
fn linux_contexts_have_no_undefined_bits_and_mean_what_went_in() {
    let mut roce = 0;
    for case in Case::all(CONTEXTS).filter(|case| case.name().starts_with("roce")) {
        let host = case.words::<HOST_WORDS>("ctx_hex").unwrap();
        assert_eq!(undefined_bits(&host), None, "{}", case.name());
        let number = |key: &str| -> u64 {
            let (_, rest) = case.0.split_once(&format!("\"{key}\":")).unwrap();
            rest.split(&[',', '}'][..]).next().unwrap().parse().unwrap()
        };
        let qp = Qp::new(QpType::RoceRc, host, false, 0);
        let config = qp.rc_config(77, &Config::default()).unwrap();
        assert_eq!(u64::from(qp.send_cq()), number("send_cq_num"));
        assert_eq!(u64::from(qp.receive_cq()), number("rcv_cq_num"));
        assert_eq!(u64::from(qp.queue_set()), number("qs_handle"));
        assert_eq!(u64::from(qp.arp_index()), number("arp_idx"));
        assert_eq!(qp.completion_context(), number("qp_compl_ctx"));
        assert_eq!(qp.psns(), (number("psn_nxt") as u32, number("epsn") as u32));
        assert_eq!(u64::from(config.pd), number("pd_id"));
        assert_eq!(u64::from(config.dest_qpn), number("dest_qp"));
        assert_eq!(u64::from(config.mtu.bytes()), number("snd_mss"));
        assert_eq!(u64::from(config.sq_quanta), number("sq_ring_quanta"));
        assert_eq!(
            u64::from(config.rq_slot_quanta),
            1 << number("rq_wqe_shift")
        );
        assert_eq!(u64::from(config.ord), number("ord_size"));
        assert!(u64::from(config.ird) >= number("ird_size"));
        assert_eq!(u64::from(config.retry), number("rexmit_thresh"));
        assert_eq!(u64::from(config.rnr_retry), number("rnr_nak_thresh"));
        assert_eq!(u64::from(config.window), number("cwnd"));
        assert_eq!(u64::from(config.credits), number("ack_credits"));
        assert_eq!(config.retransmit_ns, retransmit_ns(number("rtomin") as u8));
        assert_eq!(config.rnr_timer, RNR_TIMER_CODE);
        let wire = WireLimits {
            ack_timeout: Some(Ns::from_ms(500)),
            window: Some(32),
            rnr_timer: Some(1),
            ack_credits: Some(31),
        };
        let choices = Config {
            wire,
            ..Config::default()
        };
        let other = qp.rc_config(77, &choices).unwrap();
        assert_eq!((other.retransmit_ns, other.window), (500_000_000, 32));
        assert_eq!((other.rnr_timer, other.credits), (1, 31));
        let mut choices = Config::default();
        choices.variation.ack_credits = AckCredits::Unlimited;
        assert_eq!(qp.rc_config(77, &choices).unwrap().credits, 31);
        assert_eq!(u64::from(config.path.src_port), number("src_port"));
        assert_eq!(config.path.src_mac, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);
        assert_eq!(config.path.vlan.is_some(), number("insert_vlan_tag") == 1);
        match config.path.ip {
            crate::wire::Addresses::V4 { src, dst } => {
                assert_eq!(
                    (src.to_string(), dst.to_string()),
                    ("192.168.1.1".into(), "192.168.1.2".into())
                );
            }
            crate::wire::Addresses::V6 { src, .. } => {
                assert_eq!(src.to_string(), "fe80::5:0:6:0:7");
            }
        }
        roce += 1;
    }
    assert!(roce >= 8, "{roce}");
}

/// Recorded commands that a device has to refuse, because the recorder's inputs cannot be in a real device.
const IMPOSSIBLE: [(&str, &str); 3] = [
    ("cq_create_3_ov0", "CEQ 1023, and MAX_CEQS is at most 1023"),
    ("cq_create_3_ov1", "CEQ 1023, and MAX_CEQS is at most 1023"),
    (
        "mr_reg_ps0_lvl1_va0",
        "16 TiB in pages of 4 KiB need more PBLEs than there can be",
    ),
];

#[test]
fn linux_commands_run_without_a_fault() {
    let mut env = TestEnv::new(7);
    let mut device = device(&mut env);
    let host = Case::all(CONTEXTS)
        .next()
        .unwrap()
        .words::<HOST_WORDS>("ctx_hex")
        .unwrap();
    let (mut run, mut wrong) = (0, Vec::new());
    let step = if cfg!(miri) { 12 } else { 1 };
    for (n, case) in Case::all(COMMANDS).enumerate().step_by(step) {
        let Some(command) = case.command() else {
            continue;
        };
        // COMMIT and SHMC change the layout that the others stand on, and belong to a device that has not begun.
        let c = &command;
        if matches!(c.opcode(), 0x21 | 0x1f)
            || IMPOSSIBLE.iter().any(|(name, _)| *name == case.name())
        {
            continue;
        }
        clear(&mut device, 2 + n as u32);
        device.config.pf = bits8(c.q(16), 5, 0);
        if matches!(c.opcode(), 0x2d..=0x2f) {
            device.config.pf = bits8(c.q(40), 15, 0);
        }
        if matches!(c.opcode(), 0x26..=0x28) {
            device.config.pf = bits8(c.q(8), 5, 0);
        }
        prepare(&mut device, &mut env, c, host);
        let outcome: Outcome = device.execute(c, &mut env);
        env.findings.retain(|(class, ..)| *class == Class::Fault);
        if outcome.is_err() || !env.findings.is_empty() {
            wrong.push((case.name(), outcome, std::mem::take(&mut env.findings)));
        }
        run += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#x?}");
    assert!(run > 100 / step, "{run}");
}
