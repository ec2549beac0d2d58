//! The CQP host context: 64 bytes the device reads at CQP creation
//! (control-path 4.2).

use e810_hal::regs::{PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CCQPSTATUS, PFPE_CQPDB, PFPE_CQPTAIL};
use e810_hal::{Bus, Iova};
use tock_registers::register_bitfields;

use crate::error::Result;
use crate::field::{aligned, at_most, bit, fit};
use crate::limits::{MAX_SQ_ENTRIES, SQ_ALIGN};
use crate::qpc::cqp_size_code;

register_bitfields![u64,
    Q0 [
        DISABLE_PFPDUS OFFSET(1) NUMBITS(1) [],
        ROCEV2_RTO_POLICY OFFSET(2) NUMBITS(1) [],
        PROTOCOL_USED OFFSET(3) NUMBITS(2) [],
        SQSIZE OFFSET(8) NUMBITS(4) [],
        SVER OFFSET(24) NUMBITS(8) [],
        CEQPERVF OFFSET(32) NUMBITS(8) []
    ],
    Q16 [
        HMC_PROFILE OFFSET(0) NUMBITS(3) [],
        ENABLED_VFS OFFSET(32) NUMBITS(6) []
    ],
    Q32 [
        HW_MINVER OFFSET(0) NUMBITS(16) [],
        HW_MAJVER OFFSET(16) NUMBITS(16) [],
        MIN_RATE OFFSET(48) NUMBITS(4) [],
        MIN_DEC_FACTOR OFFSET(56) NUMBITS(4) []
    ],
    Q48 [
        DCQCN_T OFFSET(0) NUMBITS(16) [],
        HAI_FACTOR OFFSET(32) NUMBITS(16) [],
        RAI_FACTOR OFFSET(48) NUMBITS(16) []
    ],
    Q56 [
        DCQCN_B OFFSET(0) NUMBITS(25) [],
        DCQCN_F OFFSET(25) NUMBITS(3) [],
        CC_CFG_VALID OFFSET(31) NUMBITS(1) [],
        RREDUCE_MPERIOD OFFSET(32) NUMBITS(32) []
    ]
];

/// PROTOCOL_USED.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Protocol {
    /// Any.
    Any = 0,
    /// iWARP only.
    Iwarp = 1,
    /// RoCEv2 only: what this driver uses.
    #[default]
    Roce = 2,
}

/// HMC_PROFILE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum HmcProfile {
    /// The default.
    #[default]
    Default = 1,
    /// Favour VFs.
    FavourVf = 2,
    /// Equal shares.
    Equal = 3,
}

/// Parameters of DCQCN congestion control, for all QPs of the function (control-path 4.2). Units
/// and the default values of Intel's driver come from its module parameters (recovery-congestion
/// 7). DCQCN changes the window of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dcqcn {
    /// MIN_RATE, 4 bits: MBit/s according to Intel's text, MB/s according to its name; 0.
    pub min_rate: u8,
    /// MIN_DEC_FACTOR, 4 bits: percent; 1. Values above 15 cannot be written.
    pub min_decrease_factor: u8,
    /// DCQCN_T: µs before the window grows; 55.
    pub timer: u16,
    /// HAI_FACTOR: MSS that hyper additive increase adds; 5.
    pub hyper_increase: u16,
    /// RAI_FACTOR: MSS that additive increase adds; 1.
    pub additive_increase: u16,
    /// DCQCN_B, 25 bits: bytes to send before the window grows; 150,000.
    pub byte_counter: u32,
    /// DCQCN_F, 3 bits: times in each stage; 5.
    pub fast_recovery: u8,
    /// RREDUCE_MPERIOD: least time in µs between two reductions; 50.
    pub reduce_period: u32,
}

/// All parameters of the CQP host context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostContext {
    /// Entries of the send queue, a power of two from 4 to 2048.
    pub entries: u32,
    /// The send queue, 512-aligned.
    pub sq: Iova,
    /// Comes back in q8 of every CCQ entry.
    pub cookie: u64,
    /// Protocol.
    pub protocol: Protocol,
    /// HMC profile.
    pub profile: HmcProfile,
    /// SVER: structure version; 0 in existing drivers.
    pub structure_version: u8,
    /// HW_MAJVER: 1 is GEN_2.
    pub hardware_major: u16,
    /// HW_MINVER.
    pub hardware_minor: u16,
    /// ENABLED_VFS, 6 bits.
    pub enabled_vfs: u8,
    /// CEQPERVF.
    pub ceqs_per_vf: u8,
    /// DISABLE_PFPDUS.
    pub disable_packed: bool,
    /// ROCEV2_RTO_POLICY.
    pub roce_rto_policy: bool,
    /// DCQCN parameters (CC_CFG_VALID); `None` in existing drivers, which leaves the device's
    /// own.
    pub congestion: Option<Dcqcn>,
}

impl HostContext {
    /// The context of a PF that does RoCEv2 (control-path 4.2, "Linux E810
    /// value").
    #[must_use]
    pub const fn roce(entries: u32, sq: Iova, cookie: u64) -> Self {
        Self {
            entries,
            sq,
            cookie,
            protocol: Protocol::Roce,
            profile: HmcProfile::Default,
            structure_version: 0,
            hardware_major: 1,
            hardware_minor: 0,
            enabled_vfs: 0,
            ceqs_per_vf: 0,
            disable_packed: false,
            roce_rto_policy: false,
            congestion: None,
        }
    }

    /// The eight words.
    ///
    /// # Errors
    /// [`Error`](crate::Error) naming the value that does not fit.
    pub fn encode(&self) -> Result<[u64; 8]> {
        at_most(
            "CQP entries",
            u64::from(self.entries),
            u64::from(MAX_SQ_ENTRIES),
        )?;
        let q0 = bit(Q0::DISABLE_PFPDUS, self.disable_packed)
            + bit(Q0::ROCEV2_RTO_POLICY, self.roce_rto_policy)
            + Q0::PROTOCOL_USED.val(self.protocol as u64)
            + Q0::SQSIZE.val(u64::from(cqp_size_code(self.entries)?))
            + Q0::SVER.val(u64::from(self.structure_version))
            + Q0::CEQPERVF.val(u64::from(self.ceqs_per_vf));
        let q8 = aligned("CQP send queue", self.sq, SQ_ALIGN as u64)?;
        let q16 = Q16::HMC_PROFILE.val(self.profile as u64)
            + fit("enabled VFs", Q16::ENABLED_VFS, self.enabled_vfs)?;
        let dcqcn = self.congestion.unwrap_or_default();
        let q32 = Q32::HW_MINVER.val(u64::from(self.hardware_minor))
            + Q32::HW_MAJVER.val(u64::from(self.hardware_major))
            + fit("DCQCN least rate", Q32::MIN_RATE, dcqcn.min_rate)?
            + fit(
                "DCQCN least decrease",
                Q32::MIN_DEC_FACTOR,
                dcqcn.min_decrease_factor,
            )?;
        let q48 = Q48::DCQCN_T.val(u64::from(dcqcn.timer))
            + Q48::HAI_FACTOR.val(u64::from(dcqcn.hyper_increase))
            + Q48::RAI_FACTOR.val(u64::from(dcqcn.additive_increase));
        let q56 = fit("DCQCN byte counter", Q56::DCQCN_B, dcqcn.byte_counter)?
            + fit("DCQCN fast recovery", Q56::DCQCN_F, dcqcn.fast_recovery)?
            + bit(Q56::CC_CFG_VALID, self.congestion.is_some())
            + Q56::RREDUCE_MPERIOD.val(u64::from(dcqcn.reduce_period));
        Ok([
            q0.value,
            q8,
            q16.value,
            self.cookie,
            q32.value,
            0,
            q48.value,
            q56.value,
        ])
    }
}

/// Clears the CQP registers before a CQP is created (control-path 3.1 step 8).
pub fn clear_registers(bus: &(impl Bus + ?Sized)) {
    PFPE_CQPTAIL.set(bus, 0);
    PFPE_CQPDB.set(bus, 0);
    PFPE_CCQPSTATUS.set(bus, 0);
}

/// Gives the device the address of the host context: high half first, the low
/// half starts the creation (control-path 3.1 step 9). Address 0 destroys the
/// CQP (control-path 3.4).
pub fn write_address(bus: &(impl Bus + ?Sized), context: Iova) {
    let (high, low) = (context.0 >> 32, context.0 & 0xFFFF_FFFF);
    // Both halves fit by construction.
    PFPE_CCQPHIGH.set(bus, high as u32);
    PFPE_CCQPLOW.set(bus, low as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_roce_function() {
        let context = HostContext::roce(2048, Iova(0x7000_0000_0000), 0x1234);
        assert_eq!(
            context.encode(),
            Ok([0xA10, 0x7000_0000_0000, 1, 0x1234, 0x1_0000, 0, 0, 0])
        );
    }

    #[test]
    fn arguments_are_checked() {
        let good = HostContext::roce(64, Iova(0x200), 1);
        assert!(good.encode().is_ok());
        let bad = [
            HostContext {
                entries: 63,
                ..good
            },
            HostContext {
                entries: 4096,
                ..good
            },
            HostContext {
                sq: Iova(0x100),
                ..good
            },
            HostContext {
                enabled_vfs: 64,
                ..good
            },
            HostContext {
                congestion: Some(Dcqcn {
                    min_rate: 16,
                    ..Dcqcn::default()
                }),
                ..good
            },
            HostContext {
                congestion: Some(Dcqcn {
                    byte_counter: 1 << 25,
                    ..Dcqcn::default()
                }),
                ..good
            },
        ];
        for context in bad {
            assert!(context.encode().is_err());
        }
    }
}
