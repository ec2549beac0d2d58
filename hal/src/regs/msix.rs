//! MSI-X table and pending bits: **not in BAR0**.
//!
//! The offsets count from the start of the BAR that the MSI-X capability's table BIR names, so
//! these constants only give offsets. Under VFIO the kernel owns the table; a program that owns
//! it writes it through [`MsixTable`](crate::msix::MsixTable).

use crate::bus::{Index, Vector};

registers! {
    in MsixBar;

    /// Message address of a table entry, bits 31:0.
    MSIX_TADD1 = ReadWrite 0x0 [Vector; 16; 2047], Flr, "control-path 1.3" {
        MSIXTADD10 [1:0],
        MSIXTADD [31:2],
    }

    /// Message address of a table entry, bits 63:32.
    MSIX_TUADD1 = ReadWrite 0x4 [Vector; 16; 2047], Flr, "control-path 1.3" {
        MSIXTUADD [31:0],
    }

    /// Message data of a table entry.
    MSIX_TMSG = ReadWrite 0x8 [Vector; 16; 2047], Flr, "control-path 1.3" {
        MSIXTMSG [31:0],
    }

    /// Vector control of a table entry.
    MSIX_TVCTRL1 = ReadWrite 0xC [Vector; 16; 2047], Flr, "control-path 1.3" {
        MASK [0],
    }

    /// 32 pending bits.
    MSIX_PBA1 = ReadOnly 0x8000 [Index<63>; 4; 63], Flr, "control-path 1.3" {
        PENBIT [31:0],
    }
}
