//! Place and number of each kind of object in the host memory cache.
//!
//! Firmware and the CQP commands write them, not the driver; a device model may keep them. The
//! reference lists object and column but not the register's name; the names here combine those
//! two. BASE counts blocks of 512 bytes and OBJSZ is the binary logarithm of bytes, both
//! `[inf hmc_base_units]`. The MAX registers of QP and CQ are GLHMC_DBQPMAX and GLHMC_DBCQMAX.

use crate::bus::PfId;

registers! {
    in Bar0;

    /// Where the QP objects of a PF begin.
    GLHMC_QP_BASE = ReadOnly 0x52_4000 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of QP objects of a PF.
    GLHMC_QP_CNT = ReadOnly 0x52_4100 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Size of a QP object.
    GLHMC_QP_OBJSZ = ReadOnly 0x52_201C, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the CQ objects of a PF begin.
    GLHMC_CQ_BASE = ReadOnly 0x52_4200 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of CQ objects of a PF.
    GLHMC_CQ_CNT = ReadOnly 0x52_4300 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Size of a CQ object.
    GLHMC_CQ_OBJSZ = ReadOnly 0x52_2020, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the HTE objects of a PF begin.
    GLHMC_HTE_BASE = ReadOnly 0x52_4600 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of HTE objects of a PF.
    GLHMC_HTE_CNT = ReadOnly 0x52_4700 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of HTE objects.
    GLHMC_HTE_MAX = ReadOnly 0x52_2030, Corer, "control-path 2.8" { MAX [20:0] }

    /// Size of a HTE object.
    GLHMC_HTE_OBJSZ = ReadOnly 0x52_202C, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the ARP objects of a PF begin.
    GLHMC_ARP_BASE = ReadOnly 0x52_4800 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of ARP objects of a PF.
    GLHMC_ARP_CNT = ReadOnly 0x52_4900 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of ARP objects.
    GLHMC_ARP_MAX = ReadOnly 0x52_2038, Corer, "control-path 2.8" { MAX [16:0] }

    /// Size of a ARP object.
    GLHMC_ARP_OBJSZ = ReadOnly 0x52_2034, Corer, "control-path 2.8" { OBJSZ [2:0] }

    /// Where the APBVT objects of a PF begin.
    GLHMC_APBVT_BASE = ReadOnly 0x52_4A00 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Where the MR objects of a PF begin.
    GLHMC_MR_BASE = ReadOnly 0x52_4C00 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of MR objects of a PF.
    GLHMC_MR_CNT = ReadOnly 0x52_4D00 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of MR objects.
    GLHMC_MR_MAX = ReadOnly 0x52_2040, Corer, "control-path 2.8" { MAX [22:0] }

    /// Size of a MR object.
    GLHMC_MR_OBJSZ = ReadOnly 0x52_203C, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the XF objects of a PF begin.
    GLHMC_XF_BASE = ReadOnly 0x52_4E00 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of XF objects of a PF.
    GLHMC_XF_CNT = ReadOnly 0x52_4F00 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of XF objects.
    GLHMC_XF_MAX = ReadOnly 0x52_2048, Corer, "control-path 2.8" { MAX [27:0] }

    /// Size of a XF object.
    GLHMC_XF_OBJSZ = ReadOnly 0x52_2044, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the XFFL objects of a PF begin.
    GLHMC_XFFL_BASE = ReadOnly 0x52_5000 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Greatest number of XFFL objects.
    GLHMC_XFFL_MAX = ReadOnly 0x52_204C, Corer, "control-path 2.8" { MAX [27:0] }

    /// Where the Q1 objects of a PF begin.
    GLHMC_Q1_BASE = ReadOnly 0x52_5200 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of Q1 objects of a PF.
    GLHMC_Q1_CNT = ReadOnly 0x52_5300 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of Q1 objects.
    GLHMC_Q1_MAX = ReadOnly 0x52_2054, Corer, "control-path 2.8" { MAX [27:0] }

    /// Size of a Q1 object.
    GLHMC_Q1_OBJSZ = ReadOnly 0x52_2050, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the Q1FL objects of a PF begin.
    GLHMC_Q1FL_BASE = ReadOnly 0x52_5400 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Greatest number of Q1FL objects.
    GLHMC_Q1FL_MAX = ReadOnly 0x52_2058, Corer, "control-path 2.8" { MAX [25:0] }

    /// Where the TIMER objects of a PF begin.
    GLHMC_TIMER_BASE = ReadOnly 0x52_5A00 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of TIMER objects of a PF.
    GLHMC_TIMER_CNT = ReadOnly 0x52_5B00 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of TIMER objects.
    GLHMC_TIMER_MAX = ReadOnly 0x52_2084, Corer, "control-path 2.8" { MAX [28:0] }

    /// Size of a TIMER object.
    GLHMC_TIMER_OBJSZ = ReadOnly 0x52_2080, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the FSIMC objects of a PF begin.
    GLHMC_FSIMC_BASE = ReadOnly 0x52_6000 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of FSIMC objects of a PF.
    GLHMC_FSIMC_CNT = ReadOnly 0x52_6100 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of FSIMC objects.
    GLHMC_FSIMC_MAX = ReadOnly 0x52_2060, Corer, "control-path 2.8" { MAX [13:0] }

    /// Size of a FSIMC object.
    GLHMC_FSIMC_OBJSZ = ReadOnly 0x52_205C, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the FSIAV objects of a PF begin.
    GLHMC_FSIAV_BASE = ReadOnly 0x52_5600 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of FSIAV objects of a PF.
    GLHMC_FSIAV_CNT = ReadOnly 0x52_5700 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of FSIAV objects.
    GLHMC_FSIAV_MAX = ReadOnly 0x52_2068, Corer, "control-path 2.8" { MAX [17:0] }

    /// Size of a FSIAV object.
    GLHMC_FSIAV_OBJSZ = ReadOnly 0x52_2064, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the PBLE objects of a PF begin.
    GLHMC_PBLE_BASE = ReadOnly 0x52_5800 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [23:0] }

    /// Number of PBLE objects of a PF.
    GLHMC_PBLE_CNT = ReadOnly 0x52_5900 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of PBLE objects.
    GLHMC_PBLE_MAX = ReadOnly 0x52_206C, Corer, "control-path 2.8" { MAX [28:0] }

    /// Where the RRF objects of a PF begin.
    GLHMC_RRF_BASE = ReadOnly 0x52_6800 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [31:0] }

    /// Number of RRF objects of a PF.
    GLHMC_RRF_CNT = ReadOnly 0x52_6900 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [31:0] }

    /// Greatest number of RRF objects.
    GLHMC_RRF_MAX = ReadOnly 0x52_209C, Corer, "control-path 2.8" { MAX [27:0] }

    /// Size of a RRF object.
    GLHMC_RRF_OBJSZ = ReadOnly 0x52_2098, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the RRFFL objects of a PF begin.
    GLHMC_RRFFL_BASE = ReadOnly 0x52_6A00 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [31:0] }

    /// Number of RRFFL objects of a PF.
    GLHMC_RRFFL_CNT = ReadOnly 0x52_6B00 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of RRFFL objects.
    GLHMC_RRFFL_MAX = ReadOnly 0x52_20A0, Corer, "control-path 2.8" { MAX [25:0] }

    /// Where the HDR objects of a PF begin.
    GLHMC_HDR_BASE = ReadOnly 0x52_6200 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [31:0] }

    /// Number of HDR objects of a PF.
    GLHMC_HDR_CNT = ReadOnly 0x52_6300 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [31:0] }

    /// Greatest number of HDR objects.
    GLHMC_HDR_MAX = ReadOnly 0x52_2008, Corer, "control-path 2.8" { MAX [18:0] }

    /// Size of a HDR object.
    GLHMC_HDR_OBJSZ = ReadOnly 0x52_2004, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the MD objects of a PF begin.
    GLHMC_MD_BASE = ReadOnly 0x52_6400 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [31:0] }

    /// Number of MD objects of a PF.
    GLHMC_MD_CNT = ReadOnly 0x52_6500 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [31:0] }

    /// Greatest number of MD objects.
    GLHMC_MD_MAX = ReadOnly 0x52_2010, Corer, "control-path 2.8" { MAX [23:0] }

    /// Size of a MD object.
    GLHMC_MD_OBJSZ = ReadOnly 0x52_200C, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the OOISC objects of a PF begin.
    GLHMC_OOISC_BASE = ReadOnly 0x52_6600 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [31:0] }

    /// Number of OOISC objects of a PF.
    GLHMC_OOISC_CNT = ReadOnly 0x52_6700 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [31:0] }

    /// Greatest number of OOISC objects.
    GLHMC_OOISC_MAX = ReadOnly 0x52_2018, Corer, "control-path 2.8" { MAX [18:0] }

    /// Size of a OOISC object.
    GLHMC_OOISC_OBJSZ = ReadOnly 0x52_2014, Corer, "control-path 2.8" { OBJSZ [3:0] }

    /// Where the OOISCFFL objects of a PF begin.
    GLHMC_OOISCFFL_BASE = ReadOnly 0x52_6C00 [PfId; 4; 7], Corer, "control-path 2.8" { BASE [31:0] }

    /// Number of OOISCFFL objects of a PF.
    GLHMC_OOISCFFL_CNT = ReadOnly 0x52_6D00 [PfId; 4; 7], Corer, "control-path 2.8" { CNT [28:0] }

    /// Greatest number of OOISCFFL objects.
    GLHMC_OOISCFFL_MAX = ReadOnly 0x52_20A4, Corer, "control-path 2.8" { MAX [18:0] }
}
