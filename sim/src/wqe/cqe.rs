//! Completion queue entries as the device writes them (data-path 4.1, 4.2).

use super::bits::place;

/// What a UD receive reports in addition to the payload (data-path 4.2).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Sending QP, 24 bits.
    pub src_qp: u32,
    /// The datagram came over IPv4.
    pub ipv4: bool,
    /// Source MAC address, first octet first.
    pub src_mac: Option<[u8; 6]>,
    /// 802.1Q tag control word.
    pub vlan: Option<u16>,
}

/// The fields of one completion.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Cqe {
    /// PAYLDLEN: bytes received; 0 for a send queue completion.
    pub payload_len: u32,
    /// ROCEPSN.
    pub psn: u32,
    /// QPCTX: the completion context of the QP context.
    pub context: u64,
    /// QPID.
    pub qp_id: u32,
    /// INVSTAG with its valid bit (RC).
    pub invalidated: Option<u32>,
    /// Source of a datagram (UD); shares its fields with `invalidated`, which takes precedence.
    pub datagram: Option<Datagram>,
    /// MINERR.
    pub minor: u16,
    /// MAJERR.
    pub major: u16,
    pub error: bool,
    /// WQEIDX in quanta, 15 bits.
    pub wqe_index: u16,
    /// PSHDROP.
    pub push_dropped: bool,
    /// SOEVENT.
    pub solicited: bool,
    /// OP: WQE opcode for the send queue, wire opcode for the receive queue (6 bits).
    pub op: u8,
    /// SQ: the completion belongs to the send queue.
    pub send_queue: bool,
    /// Immediate data as a number, carried in the extension entry.
    pub immediate: Option<u32>,
}

/// The one or two ring entries of a completion.
///
/// Write the extension first and the valid word (word 3) of the main entry last: software that sees
/// the main entry reads the extension at once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CqeEntries {
    /// The entry itself.
    pub main: [u64; 4],
    /// The next ring entry, if the completion needs one.
    pub extension: Option<[u64; 4]>,
}

impl Cqe {
    /// Ring entries that the completion takes: 1 or 2.
    #[must_use]
    pub fn slots(&self) -> usize {
        if self.needs_extension() { 2 } else { 1 }
    }

    fn needs_extension(&self) -> bool {
        self.immediate.is_some()
            || self
                .datagram
                .is_some_and(|datagram| datagram.src_mac.is_some() || datagram.vlan.is_some())
    }

    /// The words to write. `polarity` is the valid bit of the main entry and `extension_polarity`
    /// that of the next ring entry: the inverse of `polarity` if the ring wraps between them.
    #[must_use]
    pub fn encode(&self, polarity: bool, extension_polarity: bool) -> CqeEntries {
        let datagram = self.datagram.unwrap_or_default();
        let (key, flag) = match self.invalidated {
            Some(stag) => (stag, true),
            None => (datagram.src_qp, self.datagram.is_some() && datagram.ipv4),
        };
        let header = place(self.minor.into(), 15, 0)
            | place(self.major.into(), 31, 16)
            | place(self.wqe_index.into(), 46, 32)
            | place(self.needs_extension().into(), 50, 50)
            | place(self.push_dropped.into(), 51, 51)
            | place(flag.into(), 53, 53)
            | place(self.solicited.into(), 54, 54)
            | place(self.error.into(), 55, 55)
            | place(self.op.into(), 61, 56)
            | place(self.send_queue.into(), 62, 62)
            | place(polarity.into(), 63, 63);
        let main = [
            u64::from(self.payload_len) | u64::from(self.psn) << 32,
            self.context,
            u64::from(key) | place(self.qp_id.into(), 55, 32),
            header,
        ];
        CqeEntries {
            main,
            extension: self
                .needs_extension()
                .then(|| self.extension(datagram, extension_polarity)),
        }
    }

    fn extension(&self, datagram: Datagram, polarity: bool) -> [u64; 4] {
        let [m0, m1, m2, m3, m4, m5] = datagram.src_mac.unwrap_or_default();
        // Most significant byte first in [47:40].
        let mac = u64::from_be_bytes([0, 0, m0, m1, m2, m3, m4, m5]);
        let header = place(datagram.vlan.is_some().into(), 60, 60)
            | place(datagram.src_mac.is_some().into(), 61, 61)
            | place(self.immediate.is_some().into(), 62, 62)
            | place(polarity.into(), 63, 63);
        [
            self.immediate.unwrap_or_default().into(),
            0,
            mac | place(datagram.vlan.unwrap_or_default().into(), 63, 48),
            header,
        ]
    }
}
