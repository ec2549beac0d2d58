//! RDMA on the Intel E810, from user space or a unikernel.
//!
//! ```
//! use e810::{Config, Lan, Platform, bring_up};
//!
//! fn up<P: Platform>(platform: P, lan: Lan) -> Result<(), e810::StageError> {
//!     let device = bring_up(platform, &Config::new(lan), &mut |reached| {
//!         let _ = reached.stage.name();
//!     })?;
//!     let (mut control, events) = device.split();
//!     // control.create_cq(..), control.reg_mr(..), control.create_qp(..)
//!     control.service().ok();
//!     control.shutdown(events).ok();
//!     Ok(())
//! }
//! ```
//!
//! A device is brought up stage by stage ([`Device`], or [`bring_up`] for all
//! of them), then split into parts that need no lock between them:
//!
//! - [`Control`] owns the control QP and every table: it makes and destroys
//!   objects and finishes what events mark ([`Control::service`]).
//! - [`Events`], one a vector, may be called from an interrupt handler.
//! - [`Qp`] posts, [`Cq`] polls, each on the thread that holds it.
//!
//! The engine stands on the function's LAN side: MAC, VSI, link, scheduler tree
//! and packet filters. [`bring_up_cold`] makes it ready, from a reset on, on a
//! function that no other driver has set up, and undoes it in the end;
//! [`bring_up`] takes one that is ready, and [`Lan`] says what was set up.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod addr;
mod attr;
pub mod channel;
mod cold;
mod completion;
mod config;
mod control;
mod device;
pub mod errno;
mod error;
mod events;
mod fast;
mod handle;
mod ids;
mod lack;
mod limits;
mod memory;
mod moderation;
mod needs;
mod pair;
pub mod polling;
mod port;
mod stage;
mod stats;
pub mod tuning;
mod users;
mod watch;

pub use addr::{Gid, GidEntry, MacAddr, Mtu, Path, Vlan, v4};
pub use attr::{QpAttr, QpCaps, QpInit, Qpn};
pub use channel::{CHANNELS, Channel, ChannelClosed, CqEvent, Next};
pub use cold::{
    AdminqUp, Cold, FunctionReset, Identified, Identity, LAN_EVENTS, LanEvent, LanReady,
    LinkPolicy, LinkUp, PackageLoaded, PackageSource, TreeFound, VsiUp, reset_card,
};
pub use completion::{Cq, CqInit};
pub use config::{Config, CpuHints, Lan, MAX_CEQS, Quirks};
pub use control::{Control, LanHook, NoLanHook, QueriedInit, QueriedQp, Served, ShutdownError};
pub use device::{
    AeqUp, Attached, CcqUp, CeqsUp, ColdStart, CqpUp, Device, EngineReady, Failed, HmcUp, Memory,
    Reached, Ready, bring_up, bring_up_cold,
};
pub use error::{Error, Object, Result, StageError};
pub use events::{Event, EventSet, Events, LOGGED, Polled};
pub use fast::{FastMr, Mw, MwType};
pub use handle::Ah;
pub use lack::Lack;
pub use limits::GIDS;
pub use memory::{AccessFlags, Mr, MrChange, Pd, ReregError};
pub use moderation::{Adaptive, CqModeration};
pub use needs::{HOST_ALLOCATIONS, cq_dma_bytes};
pub use pair::Qp;
pub use port::{DeviceAttr, PortAttr, PortState};
pub use stage::Stage;
pub use stats::{Counter, Stats};
pub use tuning::Tuning;
pub use watch::{Depth, Moderated, Timing};

pub use e810_adminq::Error as AdminqError;
pub use e810_adminq::link::NoLink;
pub use e810_adminq::oicr::{Causes, CriticalError, Demand, Details as ErrorDetails, HmcError};
pub use e810_adminq::op::{LinkFec, LinkStatus};
pub use e810_adminq::package::{LoadFailed, Loaded, LoadedBy, Package, PackageError};
pub use e810_ceq::event::Entry as LoggedEvent;
pub use e810_ceq::{AsyncEvent, EventLog, Timer};
pub use e810_cqp::hmc;
pub use e810_datapath::state::{AttrMask, TransitionError, query, timing};
pub use e810_datapath::{
    Atomic, Counters as CqCounters, CqKey, Data, Discarded, FastRegister, FastRegisterParts,
    MwBind, Notify, Op, PostError, RecvWr, Refused, Remote, SendFlags, SendWr, Sender, Sge,
    UdTarget, Wc, WcFlags, WcOpcode, WcStatus,
};
pub use e810_hal::bus::VsiId;
pub use e810_hal::{Platform, SharedBytes};
pub use e810_types::{QpState, QpType};
