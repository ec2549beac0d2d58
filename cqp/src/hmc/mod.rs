//! Host memory cache: what the device keeps in the host's memory.
//!
//! The device has an address space of its own for its objects. Bring-up asks for its limits
//! ([`FpmQuery`]) and chooses counts ([`Plan`]). [`Hmc::create`] commits them, backs them with
//! memory and tells the device. After that the HMC allocates PBLE lists, grows, and is destroyed
//! at the end.
//!
//! # Memory
//!
//! [`Backing::Full`], the default, is what existing drivers do: direct segments of 2 MiB for
//! everything except PBLEs. Objects that share a segment share its memory, because the device
//! lays them out one after another. So [`Capacity::DEFAULT`] takes only a few segments without
//! anything unproven. [`Backing::OnDemand`] takes pages instead of segments, and fewer of them;
//! it is `[inf backing_on_demand]` and says why.

mod backing;
mod bitmap;
mod buffer;
mod cache;
mod capacity;
mod derived;
mod features;
mod layout;
mod lists;
mod max_backing;
mod need;
mod object;
mod pble;
mod plan;
mod query;
mod segments;
mod store;
#[cfg(test)]
mod testing;

pub use cache::Hmc;
pub use capacity::{Backing, Capacity};
pub use derived::derived_counts;
pub use features::{Features, query_features};
pub use layout::{
    Area, Layout, MAX_SEGMENTS, PAGE_BYTES, PAGES_PER_SEGMENT, SEGMENT_BYTES, commit_request,
};
pub use object::{KINDS, Object, PerObject};
pub use pble::{PbleList, PbleUse};
pub use plan::{Footprint, Plan};
pub use query::{FpmQuery, ObjectLimits};
