//! Names of objects that outlive them: generation and id.

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident;)+) => { $(
        $(#[$doc])*
        ///
        /// Bits 23:0 are the id, bits 62:32 the generation, which is never 0;
        /// the rest is 0. No two objects of a table have the same key until
        /// the generations of one id have been through all 31 bits.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub struct $name(u64);

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let key = Self::from_bits(u64::deserialize(from)?);
                key.ok_or(serde::de::Error::custom("no such key"))
            }
        }

        impl $name {
            pub(super) const fn new(id: u32, generation: u32) -> Self {
                Self((generation as u64) << 32 | (id & ID_MASK) as u64)
            }

            /// The key in `bits`; `None` when they are none.
            #[must_use]
            pub const fn from_bits(bits: u64) -> Option<Self> {
                let unused = !(GENERATIONS as u64) << 32 | (u32::MAX & !ID_MASK) as u64;
                if bits & unused != 0 || bits >> 32 == 0 {
                    return None;
                }
                Some(Self(bits))
            }

            /// The key as the completion context that the device is given.
            #[must_use]
            #[inline(always)]
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// The id, as the device knows the object.
            #[must_use]
            #[inline(always)]
            pub const fn id(self) -> u32 {
                self.0 as u32 & ID_MASK
            }

            /// The generation, 1 to 2^31 - 1.
            #[must_use]
            pub const fn generation(self) -> u32 {
                (self.0 >> 32) as u32
            }
        }
    )+ };
}

/// The id in a completion context, valid or not.
#[inline(always)]
pub(crate) const fn id_in(context: u64) -> u32 {
    context as u32 & ID_MASK
}

/// Bits of an id.
pub(crate) const ID_MASK: u32 = 0xFF_FFFF;
const GENERATIONS: u32 = 0x7FFF_FFFF;

keys! {
    /// A QP: the completion context to put into its QP context, and what comes
    /// back in CQE q1 and in AEQE q0.
    QpKey;
    /// A CQ: the context to give CREATE_CQ, and what comes back in a CEQE.
    CqKey;
}

/// The generation after `generation`: 1 to 2^31 - 1, and round again.
pub(super) const fn next_generation(generation: u32) -> u32 {
    let next = generation.wrapping_add(1) & GENERATIONS;
    if next == 0 { 1 } else { next }
}
