//! What no sender should put into a packet, and receivers take or drop without a word. It is told of packets that were
//! sent in this world; what comes from outside is other people's. The partition is the driver's doing. Version, MigReq
//! and the solicited bit are the sending engine's: there it is this model that is checked.

use super::device::Device;
use super::env::{Class, Env};
use crate::wire::{Packet, Place, Verb};

/// The kind of these findings.
const KIND: &str = "wire-bits";

impl Device {
    /// Looks at the fields of the base header that do not depend on the queue pair.
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

    /// Records what is wrong with a packet, if it was sent here.
    pub(super) fn lint_packet(&self, packet: &Packet<'_>, wrong: &str, env: &mut dyn Env) {
        if !env.sent_here() {
            return;
        }
        let (bth, source) = (&packet.headers.bth, packet.path.src_mac);
        let text = format!(
            "a packet to QP {}, {:?} from {source:02x?}: {wrong}",
            bth.dest_qp, bth.opcode
        );
        env.finding(Class::Lint, KIND, text);
    }
}

/// Whether the packet can end a receive: the bit has no meaning elsewhere.
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
