//! Protocol engine of the function: control QP and doorbells.

registers! {
    in Bar0;

    /// Consumer index of the control QP. Written 0 when the CQP is set up; read
    /// to learn that a command is done before the CCQ exists.
    PFPE_CQPTAIL = ReadWrite 0x50_0880, Pfr, "control-path 2.2" {
        /// Index of the next WQE the device takes.
        WQTAIL [10:0],
        /// The last command failed: read PFPE_CQPERRCODES.
        CQP_OP_ERR [31],
    }

    /// Producer index of the control QP: the doorbell of its commands. Written
    /// 0 when the CQP is set up.
    PFPE_CQPDB = WriteOnly 0x50_0800, Pfr, "control-path 2.2" {
        /// Index after the last valid WQE.
        WQHEAD [10:0],
    }

    /// State of the control QP. Written 0 when it is set up; non-zero after
    /// creation; CCQP_DONE is 0 again after destruction.
    PFPE_CCQPSTATUS = ReadWrite 0x50_A000, Pfr, "control-path 2.2" {
        /// The CQP exists.
        CCQP_DONE [0],
        HMC_PROFILE [6:4],
        RDMA_EN_VFS [21:16],
        /// Creation failed: read PFPE_CQPERRCODES.
        CCQP_ERR [31],
    }

    /// Address of the CQP host context, bits 63:32. Written before
    /// PFPE_CCQPLOW.
    PFPE_CCQPHIGH = WriteOnly 0x50_A100, Pfr, "control-path 2.2" {
        PECCQPHIGH [31:0],
    }

    /// Address of the CQP host context, bits 31:0. Writing it starts the
    /// creation; 0 in both halves destroys the CQP.
    PFPE_CCQPLOW = WriteOnly 0x50_A080, Pfr, "control-path 2.2" {
        PECCQPLOW [31:0],
    }

    /// Why a command or the creation of the CQP failed. Valid with CQP_OP_ERR,
    /// CCQP_ERR or the error bit of a CCQ entry.
    PFPE_CQPERRCODES = ReadOnly 0x50_A200, Pfr, "control-path 2.2" {
        /// Minor code (control-path 4.5).
        CQP_MINOR_CODE [15:0],
        /// Major code (control-path 4.5).
        CQP_MAJOR_CODE [31:16],
    }

    /// Arms a CQ, after its shadow area was written.
    PFPE_CQARM = WriteOnly 0x50_2C00, Pfr, "control-path 2.2" {
        /// CQ id.
        PECQID [18:0],
    }

    /// Acknowledges the CEQE of a CQ.
    PFPE_CQACK = WriteOnly 0x50_2C80, Pfr, "control-path 2.2" {
        /// CQ id.
        PECQID [18:0],
    }

    /// Returns consumed entries of the asynchronous event queue.
    PFPE_AEQALLOC = WriteOnly 0x50_2D00, Pfr, "control-path 2.2" {
        /// Number of AEQEs consumed.
        AECOUNT [31:0],
    }

    /// Doorbell of a send queue.
    PFPE_WQEALLOC = WriteOnly 0x50_4400, Pfr, "control-path 2.2" {
        /// QP id.
        PEQPID [17:0],
        /// 0, except after a push: WQE index >> 3 (control-path 2.9).
        WQE_DESC_INDEX [31:20],
    }

    /// IP identification and UDP source port (meaning from the names); not used
    /// by existing drivers.
    PFPE_IPCONFIG0 = ReadOnly 0x50_A180, Pfr, "control-path 2.3" {
        PEIPID [15:0],
        USEENTIREIDRANGE [16],
        UDP_SRC_PORT_MASK_EN [17],
    }

    /// TCP clock (meaning from the name); not used by existing drivers.
    PFPE_TCPNOWTIMER = ReadOnly 0x50_A280, Pfr, "control-path 2.3" {
        TCP_NOW [31:0],
    }

    /// Memory region table index mask; its meaning is not in the sources.
    /// Drivers compute the STag index mask themselves (control-path 3.2).
    PFPE_MRTEIDXMASK = ReadOnly 0x50_A300, Pfr, "control-path 2.3" {
        MRTEIDXMASKBITS [4:0],
    }
}
