//! Pause frames of the port.
//!
//! The generated list does not have these; offsets and fields are those of
//! `ice/ice_hw_autogen.h`, read by its `ice_fill_tx_timer_and_fc_thresh`.

use crate::bus::Index;

registers! {
    in Bar0;

    /// Time of a pause, for each priority; element
    /// [`LINK_FLOW_CONTROL`] is link flow control's.
    PRTMAC_HSEC_CTL_TX_PAUSE_QUANTA = ReadOnly 0x1E_36E0 [Index<8>; 32; 8], Corer, "ice/ice_hw_autogen.h" {
        HSEC_CTL_TX_PAUSE_QUANTA [15:0],
    }

    /// When a pause is renewed, for each priority; as above.
    PRTMAC_HSEC_CTL_TX_PAUSE_REFRESH_TIMER = ReadOnly 0x1E_3800 [Index<8>; 32; 8], Corer, "ice/ice_hw_autogen.h" {
        HSEC_CTL_TX_PAUSE_REFRESH_TIMER [15:0],
    }
}

/// Element of the pause registers that link flow control uses.
pub const LINK_FLOW_CONTROL: u16 = 8;
