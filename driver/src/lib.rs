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
//!     control.progress().ok();
//!     control.shutdown(events).ok();
//!     Ok(())
//! }
//! ```
//!
//! A device is brought up stage by stage ([`Device`], or [`bring_up()`] for all
//! of them), then split into parts that need no lock between them:
//!
//! - [`Control`] owns the control QP and all tables. It creates and destroys objects,
//!   and recovers queue pairs that failed ([`Control::progress`]).
//! - [`VectorEvents`], one for each interrupt vector, takes events. An interrupt
//!   handler may call it.
//! - [`Qp`] posts work requests, [`Cq`] polls completions, each on the thread that
//!   owns it.
//!
//! The RDMA engine needs the function's LAN side: MAC, VSI, link, scheduler tree and
//! packet filters. [`bring_up_cold`] sets it up from a reset, on a function that no
//! other driver has, and undoes it at shutdown. [`bring_up()`] uses a LAN side that
//! another driver has set up; [`Lan`] describes it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod addr;
mod ah;
mod attr;
mod bring_up;
pub mod channel;
mod config;
mod connect;
mod control;
mod cq;
pub mod errno;
mod error;
mod events;
mod fast_reg;
mod ids;
mod lan;
mod limits;
mod memory_budget;
mod moderation;
mod monitoring;
mod mr;
mod pd;
pub mod polling;
mod port;
mod progress;
mod qp;
mod ref_counts;
mod route;
mod stage;
mod stats;
pub mod tuning;
mod unsupported;

pub use addr::{Gid, GidEntry, MacAddr, Mtu, Path, Vlan, v4};
pub use ah::Ah;
pub use attr::{QpAttr, QpCaps, QpInit, Qpn};
pub use bring_up::{
    AdminqUp, AeqUp, Attached, CcqUp, CeqsUp, Cold, ColdStart, CqpUp, Device, EngineReady, Failed,
    FunctionReset, HmcUp, Identified, LanReady, LinkPolicy, LinkUp, PackageLoaded, PackageSource,
    Reached, Ready, TreeFound, VsiUp, bring_up, bring_up_cold, reset_card,
};
pub use channel::{CHANNELS, Channel, ChannelClosed, CqEvent, Next};
pub use config::{Config, CpuHints, Lan, MAX_CEQS, Quirks};
pub use connect::{ConnectOptions, DATAGRAM_QKEY, QpInfo};
pub use control::{Control, Memory, Progress, QueriedInit, QueriedQp, Remaining, ShutdownError};
pub use cq::{Cq, CqInit};
pub use error::{Error, Object, Result, StageError};
pub use events::{Event, EventSet, LOGGED, Polled, VectorEvents};
pub use fast_reg::{FastMr, Mw, MwType};
pub use lan::{Identity, LAN_EVENTS, LanEvent, LanHook, LanSide, NoLanHook};
pub use limits::GIDS;
pub use memory_budget::{HOST_ALLOCATIONS, cq_dma_bytes};
pub use moderation::{Adaptive, CqModeration, Moderated};
pub use monitoring::{Depth, Timing};
pub use mr::{AccessFlags, Mr, MrChange, ReregError};
pub use pd::Pd;
pub use port::{DeviceAttr, PortAttr, PortState};
pub use progress::progress;
pub use qp::Qp;
pub use stage::Stage;
pub use stats::{Counter, Stats};
pub use tuning::Tuning;
pub use unsupported::Unsupported;

pub use e810_adminq::Error as AdminqError;
pub use e810_adminq::link::NoLink;
pub use e810_adminq::oicr::{
    Causes, CriticalError, Details as ErrorDetails, HmcError, RequiredReset,
};
pub use e810_adminq::op::{LinkFec, LinkStatus};
pub use e810_adminq::package::{LoadFailed, Loaded, LoadedBy, Package, PackageError};
pub use e810_ceq::event::Entry as LoggedEvent;
pub use e810_ceq::{AsyncEvent, EventLog, Timer};
pub use e810_cqp::hmc;
pub use e810_datapath::state::{AttrMask, TransitionError, query, timing};
pub use e810_datapath::{
    Atomic, Counters as CqCounters, CqKey, Data, DroppedWrs, FastRegister, FastRegisterParts,
    MwBind, Notify, Op, PostError, RecvWr, Refused, Remote, SendFlags, SendWr, Sender, Sge,
    UdTarget, Wc, WcFlags, WcOpcode, WcStatus,
};
pub use e810_hal::bus::VsiId;
pub use e810_hal::{Clock, Ns, Platform, SharedBytes};
pub use e810_types::{QpState, QpType};
