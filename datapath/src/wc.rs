//! Work completions: what polling a completion queue returns.

use bitflags::bitflags;

use crate::status::{WcOpcode, WcStatus};

/// Further facts about a completion; numbers of GRH, IMM and INV are those of `ibv_wc_flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "ibv_wc_flags")]
pub struct WcFlags(u16);

bitflags! {
    impl WcFlags: u16 {
        /// The first 40 bytes of a UD receive are the GRH area.
        #[doc(alias = "IBV_WC_GRH")]
        const GRH = 1 << 0;
        /// [`Wc::imm`] is immediate data.
        #[doc(alias = "IBV_WC_WITH_IMM")]
        const WITH_IMM = 1 << 1;
        /// [`Wc::imm`] is the local key that the peer's send invalidated.
        #[doc(alias = "IBV_WC_WITH_INV")]
        const WITH_INV = 1 << 3;
        /// The sender asked for an event (SOEVENT).
        const SOLICITED = 1 << 8;
        /// A UD message came over IPv4 (CQE bit 53).
        const IPV4 = 1 << 9;
    }
}

/// A completed work request: 32 bytes.
///
/// After an error only `wr_id`, `status`, `qp_num` and `vendor_err` mean
/// something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[doc(alias = "ibv_wc")]
pub struct Wc {
    /// The request's `wr_id`.
    pub wr_id: u64,
    /// Bytes received, or bytes of the request.
    pub byte_len: u32,
    /// The local QP.
    pub qp_num: u32,
    /// The peer's QP for UD receives, else the local QP (data-path 4.5).
    pub src_qp: u32,
    /// Immediate data as a number, or the invalidated key: see
    /// [`WcFlags`].
    pub imm: u32,
    /// Major code in the upper, minor code in the lower half; 0 on success.
    pub vendor_err: u32,
    /// What else is known.
    pub flags: WcFlags,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
}

const _: () = assert!(size_of::<Wc>() == 32);

/// Where a received datagram came from, in addition to its GRH area
/// ([`CompletionQueue::poll_with_sender`](crate::CompletionQueue::poll_with_sender)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sender {
    /// Ethernet address of the sender, or of the last router.
    pub mac: [u8; 6],
    /// VLAN tag of the packet, if it had one: \[15:13\] priority, \[11:0\] id.
    pub vlan_tag: Option<u16>,
}

impl Sender {
    /// VLAN id, 1..=4095; a tag with the id 0 is a priority on no VLAN.
    #[must_use]
    pub fn vlan(&self) -> Option<u16> {
        let id = self.vlan_tag.map(|tag| tag & 0xFFF);
        id.filter(|id| *id != 0)
    }

    /// Priority (service level), 0..=7; 0 without a tag.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.vlan_tag.map_or(0, |tag| (tag >> 13) as u8)
    }
}
