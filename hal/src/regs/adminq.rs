//! AdminQ: the two rings between the driver and the firmware.
//!
//! Programmed in the order head 0, tail 0, length with ENABLE, low and high
//! address; the low address is read back and compared (control-path 9.1).

registers! {
    in Bar0;

    /// Address of the command queue (ATQ), bits 31:0.
    PF_FW_ATQBAL = ReadWrite 0x8_0000, Empr, "control-path 9.1" {
        /// Zero: the ring is 64-byte aligned.
        ATQBAL_LSB [5:0],
        /// Address bits 31:6.
        ATQBAL [31:6],
    }

    /// Address of the command queue (ATQ), bits 63:32.
    PF_FW_ATQBAH = ReadWrite 0x8_0100, Empr, "control-path 9.1" {
        ATQBAH [31:0],
    }

    /// Length and state of the command queue (ATQ).
    PF_FW_ATQLEN = ReadWrite 0x8_0200, Empr, "control-path 9.1" {
        /// Number of descriptors.
        ATQLEN [9:0],
        /// VF error.
        ATQVFE [28],
        /// Overflow.
        ATQOVFL [29],
        /// Critical firmware error.
        ATQCRIT [30],
        /// The queue is on.
        ATQENABLE [31],
    }

    /// Head of the command queue (ATQ): the firmware's index.
    PF_FW_ATQH = ReadWrite 0x8_0300, Empr, "control-path 9.1" {
        ATQH [9:0],
    }

    /// Tail of the command queue (ATQ): the driver's index.
    PF_FW_ATQT = ReadWrite 0x8_0400, Empr, "control-path 9.1" {
        ATQT [9:0],
    }

    /// Address of the event queue (ARQ), bits 31:0.
    PF_FW_ARQBAL = ReadWrite 0x8_0080, Empr, "control-path 9.1" {
        /// Zero: the ring is 64-byte aligned.
        ARQBAL_LSB [5:0],
        /// Address bits 31:6.
        ARQBAL [31:6],
    }

    /// Address of the event queue (ARQ), bits 63:32.
    PF_FW_ARQBAH = ReadWrite 0x8_0180, Empr, "control-path 9.1" {
        ARQBAH [31:0],
    }

    /// Length and state of the event queue (ARQ).
    PF_FW_ARQLEN = ReadWrite 0x8_0280, Empr, "control-path 9.1" {
        /// Number of descriptors.
        ARQLEN [9:0],
        /// VF error.
        ARQVFE [28],
        /// Overflow.
        ARQOVFL [29],
        /// Critical firmware error.
        ARQCRIT [30],
        /// The queue is on.
        ARQENABLE [31],
    }

    /// Head of the event queue (ARQ): the firmware's index.
    PF_FW_ARQH = ReadWrite 0x8_0380, Empr, "control-path 9.1" {
        ARQH [9:0],
    }

    /// Tail of the event queue (ARQ): the driver's index.
    PF_FW_ARQT = ReadWrite 0x8_0480, Empr, "control-path 9.1" {
        ARQT [9:0],
    }
}
