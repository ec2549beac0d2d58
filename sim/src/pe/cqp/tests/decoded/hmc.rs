//! HMC commands: limits, object counts, segment descriptors.

use super::{Case, Run};
use crate::pe::cqp::command::Command;
use crate::pe::fpm::{COMMIT_BYTES, Kind};
use crate::pe::word::{bit, bits16, mask};

/// PARTSEL of an SD command: every SD command of Linux has it; the recorder made its own without.
const PARTSEL: u64 = 1 << 15;
/// Counts to commit: (byte offset, count, type).
const COUNTS: [(u64, u64, Kind); 4] = [
    (0, 77, Kind::Qp),
    (8, 131, Kind::Cq),
    (48, 1009, Kind::Mr),
    (112, 4096, Kind::Pble),
];

/// Puts PARTSEL into the entries of UPDATE_PE_SDS that the command itself holds.
pub(super) fn select_pe_part(c: &mut Command) {
    c.0[0] |= PARTSEL;
    for word in [4, 6] {
        if bit(c.0[word], 63) {
            c.0[word] |= PARTSEL;
        }
    }
}

/// The recorded buffer of UPDATE_PE_SDS, at the address in the inputs.
pub(super) fn recorded_buffer(case: &Case, run: &mut Run<'_>) {
    let Some(hex) = case.text("sdbuf_hex").filter(|hex| !hex.is_empty()) else {
        return;
    };
    let at = run.inputs.number("sdbuf_pa");
    run.env.map(at, 4096);
    for (n, text) in (0..hex.len() / 16).map(|n| (n, &hex[16 * n..16 * n + 16])) {
        let bytes: [u8; 8] =
            std::array::from_fn(|b| u8::from_str_radix(&text[2 * b..2 * b + 2], 16).unwrap());
        let word = u64::from_le_bytes(bytes) | if n % 2 == 0 { PARTSEL } else { 0 };
        run.env.set_word(at + 8 * n as u64, word);
    }
}

impl Run<'_> {
    pub(super) fn before_hmc(&mut self) {
        match self.c.opcode() {
            0x20 => {
                let at = self.inputs.number("buf_pa");
                self.env.set_words(at, &[0; 4]);
            }
            0x21 => {
                self.device.hmc.announced = false;
                let at = self.inputs.number("buf_pa");
                self.env.set_words(at, &[0; COMMIT_BYTES[0] / 8]);
                for (offset, count, _) in COUNTS {
                    self.env.set_word(at + offset, count);
                }
            }
            0x2b => self.device.hmc.announced = false,
            _ => {}
        }
    }

    pub(super) fn after_hmc(&mut self) {
        match self.c.opcode() {
            0x1f => self.after_sds(),
            0x20 => {
                let at = self.inputs.number("buf_pa");
                let config = &self.device.config;
                let expected = config.profile.query_reply(&config.variation);
                let got = std::array::from_fn(|n| self.env.word(at + 8 * n as u64));
                self.inputs.same("reply", got, expected);
            }
            0x21 => {
                let at = self.inputs.number("buf_pa");
                for (offset, count, kind) in COUNTS {
                    let committed = self.device.hmc.count(kind);
                    self.inputs.same(kind.name(), committed, count);
                    let got = self.env.word(at + offset) & mask(31, 0);
                    self.inputs.same("count in the reply", got, count);
                }
            }
            _ => {
                let announced = self.device.hmc.announced;
                self.inputs.same("announced", announced, true);
            }
        }
    }

    fn after_sds(&mut self) {
        let entries = self.inputs.value("entries").list();
        self.inputs.field("cnt", entries.len() as u64);
        for entry in entries {
            let number = |key: &str| entry[key].number().unwrap();
            let (index, data) = (number("cmd") & mask(11, 0), number("data"));
            let sd = self.device.hmc.sd(index);
            let got = sd.map(|sd| (sd.address, sd.direct, sd.pages));
            // Address [63:12], BPCOUNT [11:2], TYPE [1], VALID [0].
            let expected = (data & mask(63, 12), bit(data, 1), bits16(data, 11, 2));
            self.inputs
                .same("SD", got, bit(data, 0).then_some(expected));
        }
        self.inputs
            .unused("three entries are in the command itself", &["sdbuf_pa"]);
    }
}
