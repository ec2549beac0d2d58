//! Register values of a warm function: its LAN side is ready, as a bring-up of the RDMA engine
//! expects.
//!
//! Values after power-up are not in the sources. These are the values that existing drivers wait
//! for, or that the names imply. Registers not listed are 0.

use e810_hal::bus::{Vector, VsiId};
use e810_hal::regs;

/// What distinguishes one function from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// PF number, 0..7.
    pub(crate) pf: u8,
    /// MSI-X vectors of the function.
    pub(crate) vectors: u16,
    /// Hardware number of the main VSI.
    pub(crate) vsi: u16,
    /// GLPCI_LBARCTRL.PE_DB_SIZE: 1 (4 MiB) or 2 (8 MiB).
    pub(crate) pe_db_size: u32,
}

/// Minimum device-global vectors of a PF: the card's 2048 in equal parts.
const VECTORS_OF_A_PF: u32 = 256;

/// LAN queues of a PF in each direction.
const QUEUES_OF_A_PF: u32 = 256;

/// Offset and value of each register that is not 0.
pub(super) fn values(id: &Identity) -> impl Iterator<Item = (u32, u32)> + use<> {
    let pf = u32::from(id.pf);
    let part = u32::from(id.vectors.next_power_of_two()).max(VECTORS_OF_A_PF);
    let first = pf * part;
    let last = first + u32::from(id.vectors).saturating_sub(1);
    // FIRST [10:0], LAST [22:12], VALID [31].
    let alloc = first | last << 12 | 1 << 31;
    // FIRSTQ and LASTQ [26:16] or [29:16], VALID [31]; the values of capabilities 0x41 and 0x42.
    let first_queue = pf * QUEUES_OF_A_PF;
    let queues = first_queue | (first_queue + QUEUES_OF_A_PF - 1) << 16 | 1 << 31;
    let single = [
        (regs::PFLAN_RX_QALLOC.off(), queues),
        (regs::PFLAN_TX_QALLOC.off(), queues),
        // The only ready value in the sources (control-path 3.1).
        (regs::GLPE_CPUSTATUS0.off(), 0x80),
        (regs::GLPE_CPUSTATUS1.off(), 0x80),
        (regs::GLPE_CPUSTATUS2.off(), 0x80),
        (regs::GLPCI_LBARCTRL.off(), id.pe_db_size << 4),
        // All done bits, including those of the HLP units.
        (regs::GLNVM_ULD.off(), regs::ULD_DONE_RDMA | 0x1800),
        // GRSTDEL: one unit of 100 ms.
        (regs::GLGEN_RSTCTL.off(), 1),
        // Bus 0x17, device 0.
        (regs::PF_FUNC_RID.off(), 0x1700 | pf),
        // PFPEEN and PFLINKEN.
        (regs::PFGEN_STATE.off(), 0b101),
        (regs::PFGEN_PORTNUM.off(), pf),
        // CAR_MAX_BW 1: a card of 100 Gb/s.
        (regs::GL_PWR_MODE_CTL.off(), 1 << 30),
        // As the LAN driver leaves it: automask, 2 µs (control-path 2.5).
        (regs::GLINT_CTL.off(), regs::ITR_GRAN_ALL),
        (regs::PFINT_ALLOC.off(), alloc),
        (regs::PFINT_ALLOC_PCI.off(), alloc),
        // The AdminQ command that lets packets into the PE has set these (control-path 2.10, 9.9,
        // [inf filter_register]).
        (regs::PFQF_PE_FILTERING_ENA.off(), 1),
    ];
    let filter = VsiId::new(id.vsi).map(|vsi| (regs::VSIQF_PE_CTL1.at(vsi).off(), 1));
    // PF_NUM [14:12], IS_PF [16].
    let owner = pf << 12 | 1 << 16;
    let vectors = (0..id.vectors)
        .filter_map(Vector::new)
        .map(move |v| (regs::GLINT_VECT2FUNC.at(v).off(), owner));
    single
        .into_iter()
        .chain(filter)
        .chain(vectors)
        .map(|(off, value)| (off.get(), value))
}
