//! LAN queues: doorbell, context, enable and interrupt cause of each.
//!
//! Indexes are queue numbers of the function, from 0 on ("PF space", lan-path 2.1): the device
//! adds the function's first queue `[inf queue_numbers]`. An AdminQ command makes a transmit queue,
//! which has no enable register; context registers make a receive queue, and QRX_CTRL switches it
//! on.

use crate::bus::{Index, RxQueueId, TxQueueId};

use super::info::RegInfo;

registers! {
    in Bar0;

    /// Doorbell of a transmit queue: the index after its last descriptor
    /// (lan-path 3.4).
    QTX_COMM_DBELL = WriteOnly 0x2C_0000 [TxQueueId; 4; 16383], Corer, "lan-path 2.2" {
        /// Index after the last descriptor.
        QTX_COMM_DBELL [31:0],
    }

    /// Where the device is in a transmit queue. Existing drivers read it for the
    /// text of a time-out only, never for completion (lan-path 3.4).
    QTX_COMM_HEAD = ReadOnly 0xE_0000 [TxQueueId; 4; 16383], Corer, "lan-path 2.2" {
        /// Index of the next descriptor.
        HEAD [12:0],
        /// A report is pending (meaning from the name).
        RS_PENDING [16],
    }

    /// Interrupt cause of a transmit queue.
    QINT_TQCTL = ReadWrite 0x14_0000 [TxQueueId; 4; 16383], Corer, "lan-path 2.2, 6" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Interrupt cause of a receive queue.
    QINT_RQCTL = ReadWrite 0x15_0000 [RxQueueId; 4; 2047], Corer, "lan-path 2.2, 6" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Switches a receive queue on and off (lan-path 5.4). A PF reset clears it,
    /// and nothing else of the queue.
    QRX_CTRL = ReadWrite 0x12_0000 [RxQueueId; 4; 2047], Pfr, "lan-path 2.2, 5.4" {
        /// Wanted: on.
        QENA_REQ [0],
        /// Fast disable (meaning from the name); not used.
        FAST_QDIS [1],
        /// The device's answer: on.
        QENA_STAT [2],
        /// Not used by existing drivers.
        CDE [3],
        /// Not used by existing drivers.
        CDS [4],
    }

    /// Context of a receive queue, a 32-bit word an element of the first index
    /// (lan-path 5.1).
    QRX_CONTEXT = ReadWrite 0x28_0000 [Index<7>; 8192; 7] [RxQueueId; 4; 2047], Corer, "lan-path 2.2, 5.1" {
        /// Word of the context.
        QRX_CONTEXT [31:0],
    }

    /// Index after the last descriptor that the device may fill; it ignores the
    /// lower three bits (lan-path 5.3).
    QRX_TAIL = WriteOnly 0x29_0000 [RxQueueId; 4; 2047], Corer, "lan-path 2.2, 5.3" {
        TAIL [12:0],
    }

    /// Which format a receive queue's descriptors are written back in.
    QRXFLXP_CNTXT = ReadWrite 0x48_0000 [RxQueueId; 4; 2047], Corer, "lan-path 2.2, 5.2" {
        /// Profile; 2 is the flex NIC format (lan-path 5.6).
        RXDID_IDX [5:0],
        /// Priority of the profile.
        RXDID_PRIO [10:8],
        /// Timestamps in the descriptor.
        TS [11],
    }

    /// Receive queues of the function, by numbers of the device.
    PFLAN_RX_QALLOC = ReadOnly 0x1D_2500, Corer, "lan-path 2.1" {
        FIRSTQ [10:0],
        LASTQ [26:16],
        VALID [31],
    }

    /// Transmit queues of the function, by numbers of the device.
    PFLAN_TX_QALLOC = ReadOnly 0x1D_2580, Corer, "lan-path 2.1" {
        FIRSTQ [13:0],
        LASTQ [29:16],
        VALID [31],
    }
}

/// QRXFLXP_CNTXT: descriptor format 2 with priority 3, so that it is taken if the
/// context before had the same, and timestamps allowed: value 0xB02, as existing
/// drivers write it (lan-path 5.2).
pub const RXDID_FLEX_NIC: u32 = QRXFLXP_CNTXT::RXDID_IDX.val(2).value
    | QRXFLXP_CNTXT::RXDID_PRIO.val(3).value
    | QRXFLXP_CNTXT::TS::SET.value;

/// Whether the register has an element for each queue of the device. The effect of an access for
/// a queue that the function does not have is NITS (foreign_queue), so such registers are not read
/// without a reason.
#[must_use]
pub fn is_per_queue(register: &RegInfo) -> bool {
    let mut own = TABLE.iter().filter(|own| !own.index.is_empty());
    own.any(|own| own.offset == register.offset && own.space == register.space)
}
