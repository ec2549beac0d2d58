//! Input of the switch block.
//!
//! The tables of the reference do not have these; offsets and names are those
//! of `ice/ice_hw_autogen.h`, values those of its `ice_init_pkg_regs`.

use crate::bus::Index;

registers! {
    in Bar0;

    /// Mask of the part of a frame's second layer that a pre-extraction block takes, low 32 of 48
    /// bits; element [`SWITCH_BLOCK`] is the switch's. The block's recipes do not see a bit that
    /// is clear `[inf switch_mask_hides]`. The value after a reset is not in the sources; existing
    /// drivers write all ones whenever a package is active, no matter which function loaded it.
    GL_PREEXT_L2_PMASK0 = ReadWrite 0x20_F0FC [Index<2>; 4; 2], Corer, "ice/ice_hw_autogen.h" {
        BITMASK [31:0],
    }

    /// High 16 bits of that mask.
    GL_PREEXT_L2_PMASK1 = ReadWrite 0x20_F108 [Index<2>; 4; 2], Corer, "ice/ice_hw_autogen.h" {
        BITMASK [15:0],
    }
}

/// Element of the pre-extraction masks that the switch block uses
/// (`ICE_SW_BLK_IDX`).
pub const SWITCH_BLOCK: u16 = 0;
/// The whole low part of the mask (`ICE_SW_BLK_INP_MASK_L`).
pub const SWITCH_INPUT_LOW: u32 = 0xFFFF_FFFF;
/// The whole high part (`ICE_SW_BLK_INP_MASK_H`).
pub const SWITCH_INPUT_HIGH: u32 = 0x0000_FFFF;
