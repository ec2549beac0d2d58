//! Types that the queue crates (`e810-adminq`, `e810-cqp`, `e810-ceq`,
//! `e810-datapath`) exchange through the driver; MAC addresses and time for all crates.
//!
//! The queue crates do not depend on each other. A type that one of them
//! produces and another consumes is defined here once. A type has its meaning
//! and its name here, and its number where the number is the same everywhere;
//! words and fields are encoded by the crate that writes them.
//!
//! There is no dependency, apart from `defmt` under the feature of that name.
//! The simulator does not use this crate, but for the time of `e810-hal`: it has definitions of its
//! own, so that a mistake here is not repeated there.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod flush;
mod mac;
mod qp_state;
mod qp_type;
mod time;
mod work_queue;

pub use flush::FlushCode;
pub use mac::MacAddr;
pub use qp_state::{HwQpState, QpState};
pub use qp_type::QpType;
pub use time::Ns;
pub use work_queue::WorkQueue;

/// Flags as the number that their bits are; a bit that has no name is an error. For `serde`.
#[macro_export]
macro_rules! serde_flags {
    ($($name:ident: $bits:ty),+) => { $(
        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.bits().serialize(serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let bits = <$bits>::deserialize(from)?;
                Self::from_bits(bits).ok_or(serde::de::Error::custom("a flag without a name"))
            }
        }
    )+ };
}
