//! Lints on packets: header fields that no sender should set and that receivers accept or drop
//! silently. Only packets sent by the engine of a function of this simulator are checked. A wrong
//! partition is an error of the driver; version, MigReq and the solicited bit are set by the
//! sending engine, so those checks test this model.

use super::device::Device;
use super::env::Env;
use crate::findings::kind;
use crate::wire::{Packet, Place, Verb};

impl Device {
    /// Checks the fields of the base header that do not depend on the queue pair.
    pub(super) fn lint_header(&self, packet: &Packet<'_>, env: &mut dyn Env) {
        let bth = &packet.headers.bth;
        if bth.version != 0 {
            self.lint_packet(
                packet,
                "a version of the transport header other than 0",
                env,
            );
        }
        if !bth.migration {
            self.lint_packet(packet, "MigReq 0, and this path never migrates", env);
        }
        if bth.solicited && !may_be_solicited(packet) {
            self.lint_packet(packet, "a solicited event where no receive ends", env);
        }
    }

    /// Records the mistakes in a packet, if an engine here sent it.
    pub(super) fn lint_packet(&self, packet: &Packet<'_>, wrong: &str, env: &mut dyn Env) {
        if !env.sent_here() {
            return;
        }
        let (bth, source) = (&packet.headers.bth, packet.path.src_mac);
        let text = format!(
            "a packet to QP {}, {:?} from {source:02x?}: {wrong}",
            bth.dest_qp, bth.opcode
        );
        env.finding(kind::WIRE_BITS, text);
    }
}

/// Whether the packet can end a receive: elsewhere the bit has no meaning.
fn may_be_solicited(packet: &Packet<'_>) -> bool {
    if packet.headers.deth.is_some() {
        return true;
    }
    match packet.headers.bth.opcode.rc() {
        Some((Verb::Send, place)) => matches!(place, Place::Last | Place::Only),
        Some((Verb::Write, _)) => packet.headers.immediate.is_some(),
        _ => false,
    }
}
