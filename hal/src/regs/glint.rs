//! Interrupt vectors: enabling, moderation, and which cause goes to which.
//!
//! A vector is enabled by one write of [`GLINT_DYN_CTL`](const@GLINT_DYN_CTL);
//! a CEQ is bound to it by [`GLINT_CEQCTL`](const@GLINT_CEQCTL).

use crate::bus::{CeqId, ItrIndex, Vector};

registers! {
    in Bar0;

    /// Control of one interrupt vector. With automasking (see GLINT_CTL) the
    /// vector masks itself when it fires and is enabled again by writing
    /// [`DYN_CTL_ENABLE`].
    GLINT_DYN_CTL = Trigger 0x16_0000 [Vector; 4; 2047], Corer, "control-path 2.2, 2.4" {
        /// Enables the vector.
        INTENA [0],
        /// Clears the pending bit.
        CLEARPBA [1],
        /// Triggers a software interrupt.
        SWINT_TRIG [2],
        /// Timer that this write gives INTERVAL; 3 for none.
        ITR_INDX [4:3] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// New interval of that timer, in units of the ITR granularity.
        INTERVAL [16:5],
        /// The software interrupt uses SW_ITR_INDX.
        SW_ITR_INDX_ENA [24],
        /// Timer of the software interrupt.
        SW_ITR_INDX [26:25],
        /// Write back on ITR (LAN queues).
        WB_ON_ITR [30],
        /// This write leaves INTENA alone.
        INTENA_MSK [31],
    }

    /// Vector of a completion event queue. Indexed by CEQ id, as existing
    /// drivers use it.
    GLINT_CEQCTL = ReadWrite 0x15_C000 [CeqId; 4; 2047], Corer, "control-path 2.2, 2.4" {
        /// PF-relative MSI-X vector.
        MSIX_INDX [10:0],
        /// Which throttling timer delays the interrupt; 3 for none.
        ITR_INDX [12:11] = [Itr0 = 0, Itr1 = 1, Itr2 = 2, NoTimer = 3],
        /// The cause may interrupt.
        CAUSE_ENA [30],
        /// Event pending (meaning from the name); written 0.
        INTEVENT [31],
    }

    /// Interval of throttling timer n of vector v.
    GLINT_ITR = ReadWrite 0x15_4000 [ItrIndex; 8192; 2] [Vector; 4; 2047], Corer, "control-path 2.5" {
        /// Interval in units of the ITR granularity.
        INTERVAL [11:0],
    }

    /// Least time between two interrupts of a vector, whatever their cause
    /// (INTRL; meaning from the name).
    GLINT_RATE = ReadWrite 0x15_A000 [Vector; 4; 2047], Corer, "control-path 2.2, 2.5" {
        /// Interval in units of the INTRL granularity.
        INTERVAL [5:0],
        /// The limit is on.
        INTRL_ENA [6],
    }

    /// Automasking and the units of the throttling timers, for the whole
    /// device. One unit field for each aggregate bandwidth that
    /// GL_PWR_MODE_CTL.CAR_MAX_BW can name.
    GLINT_CTL = ReadWrite 0x16_CC54, Corer, "control-path 2.5" {
        /// 0: a vector masks itself when it fires.
        DIS_AUTOMASK [0],
        RSVD [15:1],
        /// ITR unit in µs on a card of 200 Gb/s.
        ITR_GRAN_200 [19:16],
        /// ITR unit in µs on a card of 100 Gb/s.
        ITR_GRAN_100 [23:20],
        /// ITR unit in µs on a card of 50 Gb/s.
        ITR_GRAN_50 [27:24],
        /// ITR unit in µs on a card of 25 Gb/s.
        ITR_GRAN_25 [31:28],
    }

    /// Function that owns a vector. Written by drivers that have VFs.
    GLINT_VECT2FUNC = ReadOnly 0x16_2000 [Vector; 4; 2047], Corer, "control-path 1.3, 2.6" {
        VF_NUM [7:0],
        PF_NUM [14:12],
        /// The vector belongs to the PF itself.
        IS_PF [16],
    }
}

/// GLINT_DYN_CTL: enable the vector, clear its pending bit, set no interval
/// beyond timer 0's 0: value 0x3. Also re-enables it after each interrupt.
/// An interval for timer 0 is added with `INTERVAL` (control-path 2.4).
pub const DYN_CTL_ENABLE: u32 =
    GLINT_DYN_CTL::INTENA::SET.value | GLINT_DYN_CTL::CLEARPBA::SET.value;

/// GLINT_DYN_CTL: as [`DYN_CTL_ENABLE`] but leaving all intervals alone, which
/// have been set through GLINT_ITR: value 0x1B, used for the other-cause and
/// LAN vectors (control-path 2.4).
pub const DYN_CTL_ENABLE_KEEP_ITR: u32 = DYN_CTL_ENABLE | GLINT_DYN_CTL::ITR_INDX::NoTimer.value;

/// GLINT_DYN_CTL: descriptors of LAN queues are written back at each interval, also
/// while the vector is masked, and its enable bit stays as it is: value 0xC0000018
/// (lan-path 4.3, 6).
pub const DYN_CTL_WRITE_BACK: u32 = GLINT_DYN_CTL::WB_ON_ITR::SET.value
    | GLINT_DYN_CTL::INTENA_MSK::SET.value
    | GLINT_DYN_CTL::ITR_INDX::NoTimer.value;

/// GLINT_DYN_CTL: disable the vector (control-path 2.4).
pub const DYN_CTL_DISABLE: u32 = 0;

/// GLINT_DYN_CTL: prepare the other-cause vector, leaving its enable bit
/// alone: value 0x86000000 (control-path 2.4, 2.6).
pub const DYN_CTL_OTHER_CAUSE_SETUP: u32 =
    GLINT_DYN_CTL::SW_ITR_INDX::SET.value | GLINT_DYN_CTL::INTENA_MSK::SET.value;

/// GLINT_CEQCTL and PFINT_AEQCTL without vector and CAUSE_ENA: not delayed by a
/// timer, value 0x1800. This is what stays programmed when the cause is
/// disabled (control-path 2.4, 8).
pub const CAUSE_DISABLED: u32 = GLINT_CEQCTL::ITR_INDX::NoTimer.value;

/// GLINT_CEQCTL and PFINT_AEQCTL without vector: enabled, not delayed by a
/// timer, value 0x40001800 (control-path 2.4, 8).
pub const CAUSE_ENABLED: u32 = CAUSE_DISABLED | GLINT_CEQCTL::CAUSE_ENA::SET.value;

/// Unit of GLINT_ITR and DYN_CTL intervals in µs, once GLINT_CTL holds
/// [`ITR_GRAN_ALL`] (control-path 2.5).
pub const ITR_UNIT_US: u32 = 2;

/// GLINT_CTL with automasking and a unit of [`ITR_UNIT_US`] at every bandwidth:
/// value 0x22220000, what existing drivers write if it holds anything else
/// (control-path 2.5).
pub const ITR_GRAN_ALL: u32 = GLINT_CTL::ITR_GRAN_200.val(ITR_UNIT_US).value
    | GLINT_CTL::ITR_GRAN_100.val(ITR_UNIT_US).value
    | GLINT_CTL::ITR_GRAN_50.val(ITR_UNIT_US).value
    | GLINT_CTL::ITR_GRAN_25.val(ITR_UNIT_US).value;

/// Longest interval existing drivers program, in µs (control-path 2.5).
pub const ITR_MAX_US: u32 = 8160;

/// Unit of GLINT_RATE intervals in µs where GL_PWR_MODE_CTL.CAR_MAX_BW names
/// 200, 100 or 50 Gb/s (control-path 2.5).
pub const INTRL_UNIT_US: u32 = 4;

/// Unit of GLINT_RATE intervals in µs where GL_PWR_MODE_CTL.CAR_MAX_BW names
/// 25 Gb/s (control-path 2.5).
pub const INTRL_UNIT_25G_US: u32 = 8;
