//! Kinds of HMC object, their numbers, orders and buffer offsets
//! (control-path 6.2).

use core::fmt;

macro_rules! objects {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, commit $commit:literal, query $query:expr, size $size:expr;)+) => {
        /// A kind of HMC object. Long names are those of control-path 6.2, which are partly
        /// guesses.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(u8)]
        pub enum Object {
            $($(#[$doc])* $variant,)+
        }

        impl Object {
            /// All kinds, by number.
            pub const ALL: [Self; KINDS] = [$(Self::$variant),+];

            /// Name in the reference.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Byte offset of its word in the COMMIT_FPM_VAL buffer.
            #[must_use]
            pub const fn commit_offset(self) -> usize {
                match self { $(Self::$variant => $commit,)+ }
            }

            /// Byte offset of its word in the QUERY_FPM_VAL buffer, if it has one
            /// that this driver reads. The words of kinds that GEN_2 does not use
            /// in RoCE mode (SRQ at 24, OOISC at 160, OOISCFFL at 168) may hold
            /// anything: existing drivers do not read them either (control-path 6.3).
            #[must_use]
            pub const fn query_offset(self) -> Option<usize> {
                match self { $(Self::$variant => $query,)+ }
            }

            /// Bytes of one object where the format fixes them; for the others the query gives
            /// them.
            #[must_use]
            pub const fn fixed_bytes(self) -> Option<u32> {
                match self { $(Self::$variant => $size,)+ }
            }
        }
    };
}

/// Kinds of HMC object.
pub const KINDS: usize = 21;

objects! {
    /// QP contexts.
    Qp, "QP", commit 0, query Some(8), size None;
    /// CQ contexts.
    Cq, "CQ", commit 8, query Some(16), size None;
    /// SRQ contexts; GEN_2 commits none.
    Srq, "SRQ", commit 16, query None, size None;
    /// Hash table entries.
    Hte, "HTE", commit 24, query Some(32), size None;
    /// ARP entries.
    Arp, "ARP", commit 32, query Some(40), size None;
    /// Accelerated port bit vector: one of 8192 bytes.
    Apbvt, "APBVT", commit 40, query None, size Some(8192);
    /// Memory regions and windows.
    Mr, "MR", commit 48, query Some(48), size None;
    /// Transmit FIFO.
    Xf, "XF", commit 56, query Some(56), size None;
    /// Free list of XF.
    XfFl, "XFFL", commit 64, query Some(64), size Some(4);
    /// Inbound RDMA reads.
    Q1, "Q1", commit 72, query Some(72), size None;
    /// Free list of Q1.
    Q1Fl, "Q1FL", commit 80, query Some(80), size Some(4);
    /// Timers.
    Timer, "TIMER", commit 88, query Some(88), size None;
    /// Multicast groups.
    FsiMc, "FSIMC", commit 96, query Some(96), size None;
    /// Address vectors.
    FsiAv, "FSIAV", commit 104, query Some(104), size None;
    /// Physical buffer list entries.
    Pble, "PBLE", commit 112, query Some(112), size Some(8);
    /// RRF.
    Rrf, "RRF", commit 128, query Some(128), size None;
    /// Free list of RRF.
    RrfFl, "RRFFL", commit 136, query Some(136), size Some(4);
    /// HDR.
    Hdr, "HDR", commit 144, query Some(144), size None;
    /// MD.
    Md, "MD", commit 152, query Some(152), size None;
    /// OOISC; iWARP only.
    OoIsc, "OOISC", commit 160, query None, size None;
    /// Free list of OOISC; iWARP only.
    OoIscFl, "OOISCFFL", commit 168, query None, size Some(4);
}

impl Object {
    /// Whether its count follows from the number of queue pairs by a formula (control-path 6.5),
    /// without a check against the device's maximum. Q1's count follows too, but existing drivers
    /// check it.
    pub(super) const fn is_derived(self) -> bool {
        matches!(
            self,
            Self::Hte
                | Self::Xf
                | Self::XfFl
                | Self::Q1Fl
                | Self::Timer
                | Self::Rrf
                | Self::RrfFl
                | Self::Hdr
        )
    }

    /// Whether the driver, and not the device, chooses which of them are used. These are objects
    /// whose ids appear in commands, so their backing can wait until an id is used
    /// ([`Backing::OnDemand`](super::Backing::OnDemand)).
    ///
    /// ARP entries are addressed by id too; they are not included because a receive path may look
    /// one up that no command named `[inf arp_lookups]`.
    #[must_use]
    pub const fn is_deferrable(self) -> bool {
        matches!(
            self,
            Self::Qp | Self::Cq | Self::Mr | Self::FsiMc | Self::FsiAv
        )
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number for each kind of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PerObject<T>([T; KINDS]);

impl<T: Default + Copy> Default for PerObject<T> {
    fn default() -> Self {
        Self::all(T::default())
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "discriminants are 0 to KINDS - 1; `get` is not const"
)]
impl<T: Copy> PerObject<T> {
    /// `value` for each kind.
    #[must_use]
    pub const fn all(value: T) -> Self {
        Self([value; KINDS])
    }

    /// The value of `object`.
    #[must_use]
    pub const fn get(&self, object: Object) -> T {
        self.0[object as usize]
    }

    /// Sets the value of `object`.
    pub const fn set(&mut self, object: Object, value: T) {
        self.0[object as usize] = value;
    }

    /// All values with their kinds, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Object, T)> + '_ {
        Object::ALL.iter().copied().zip(self.0.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_offsets_are_distinct() {
        let mut values = PerObject::default();
        for (i, object) in Object::ALL.into_iter().enumerate() {
            assert_eq!(object as usize, i);
            assert!(object.commit_offset() < 176 && object.commit_offset() % 8 == 0);
            for other in &Object::ALL[i + 1..] {
                assert_ne!(object.commit_offset(), other.commit_offset());
                let (ours, theirs) = (object.query_offset(), other.query_offset());
                assert!(ours.is_none() || ours != theirs, "{object} and {other}");
            }
            values.set(object, i as u32 + 1);
        }
        for (i, (object, value)) in values.iter().enumerate() {
            assert_eq!(value, i as u32 + 1);
            assert_eq!(values.get(object), value);
        }
    }
}
