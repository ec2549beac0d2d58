//! Identity and configuration of the function and the card.

registers! {
    in Bar0;

    /// PCI address of the function, which holds its PF number.
    PF_FUNC_RID = ReadOnly 0x9_E880, Pcir, "control-path 2.7" {
        /// Number of this PF.
        FUNCTION_NUMBER [2:0],
        DEVICE_NUMBER [7:3],
        BUS_NUMBER [15:8],
    }

    /// Port of the PF.
    PFGEN_PORTNUM = ReadOnly 0x1D_2400, Corer, "control-path 2.7" {
        PORT_NUM [2:0],
    }

    /// What is enabled for the PF.
    PFGEN_STATE = ReadOnly 0x8_8000, Corer, "control-path 2.7" {
        /// Protocol engine enabled for this PF (meaning from the name).
        PFPEEN [0],
        RSVD [1],
        PFLINKEN [2],
        PFSCEN [3],
    }

    /// Layout of BAR0. Without a known doorbell size there is no RDMA.
    GLPCI_LBARCTRL = ReadOnly 0x9_DE74, Por, "control-path 1.2, 2.2" {
        /// Prefetchable BAR (meaning from the name).
        PREFBAR [0],
        /// 32-bit BAR (meaning from the name).
        BAR32 [1],
        PAGES_SPACE_EN_PF [2],
        FLASH_EXPOSE [3],
        /// Size of the protocol engine's doorbell space; other values than
        /// these two mean no RDMA.
        PE_DB_SIZE [5:4] = [Mib4 = 1, Mib8 = 2],
        PAGES_SPACE_EN_VF [9],
        EXROM_SIZE [13:11],
        VF_PE_DB_SIZE [15:14],
    }

    /// Traffic class of each user priority.
    PRTDCB_TUP2TC = ReadOnly 0x1D_26C0, Corer, "control-path 2.7" {
        /// Traffic class of user priority 0.
        UP0TC [2:0],
        /// Traffic class of user priority 1.
        UP1TC [5:3],
        /// Traffic class of user priority 2.
        UP2TC [8:6],
        /// Traffic class of user priority 3.
        UP3TC [11:9],
        /// Traffic class of user priority 4.
        UP4TC [14:12],
        /// Traffic class of user priority 5.
        UP5TC [17:15],
        /// Traffic class of user priority 6.
        UP6TC [20:18],
        /// Traffic class of user priority 7.
        UP7TC [23:21],
    }

    /// Power mode, and the bandwidth class of the card.
    GL_PWR_MODE_CTL = ReadOnly 0xB_820C, Por, "control-path 2.5, 2.7" {
        SWITCH_PWR_MODE_EN [0],
        NIC_PWR_MODE_EN [1],
        S5_PWR_MODE_EN [2],
        CAR_MAX_SW_CONFIG [4:3],
        /// Greatest aggregate bandwidth: decides the units of interrupt
        /// moderation.
        CAR_MAX_BW [31:30] = [Gbps200 = 0, Gbps100 = 1, Gbps50 = 2, Gbps25 = 3],
    }

    /// Clock sources.
    GLGEN_CLKSTAT_SRC = ReadOnly 0xB_826C, Por, "control-path 2.7" {
        U_CLK_SRC [1:0],
        L_CLK_SRC [3:2],
        PSM_CLK_SRC [5:4],
        RXCTL_CLK_SRC [7:6],
        UANA_CLK_SRC [11:8],
    }

    /// Which malicious-driver events of the transmit unit do not interrupt. Has
    /// no bearing on RDMA.
    GL_MDCK_TX_TDPU = ReadWrite 0x4_9348, Corer, "control-path 2.6; registers.json" {
        TTL_ERR_ITR_DIS [0],
        /// No interrupt on anti-spoof events; existing drivers set it.
        RCU_ANTISPOOF_ITR_DIS [1],
        PCIE_UR_ITR_DIS [2],
        MAL_OFFSET_ITR_DIS [3],
        MAL_CMD_ITR_DIS [4],
        BIG_PKT_SIZE_ITR_DIS [5],
        L2_ACCEPT_FAIL_ITR_DIS [6],
        NIC_DSI_ITR_DIS [7],
        MAL_IPSEC_CMD_ITR_DIS [8],
        DSCP_CHECK_FAIL_ITR_DIS [9],
        NIC_IPSEC_ITR_DIS [10],
    }

    /// What non-volatile memory there is.
    GLNVM_GENS = ReadOnly 0xB_6100, Por, "registers.json" {
        NVM_PRES [0],
        SR_SIZE [7:5],
        BANK1VAL [8],
        ALT_PRST [23],
        FL_AUTO_RD [25],
    }

    /// Flash access.
    GLNVM_FLA = ReadOnly 0xB_6108, Por, "registers.json" {
        LOCKED [6],
    }
}
