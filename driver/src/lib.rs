//! RDMA on the Intel E810, from user space or a unikernel.
//!
//! # A whole program
//!
//! On two simulated functions (`cargo run --release --example send_recv` in the repository). On a
//! card, use a function of `e810-backends` as the platform instead of `SimPlatform`; the rest is
//! the same.
//!
//! ```ignore
#![doc = include_str!("../../examples/send_recv.rs")]
//! ```
//!
//! # Step by step
//!
//! 1. **A platform.** Everything is generic over [`Platform`]: register access, DMA memory,
//!    host memory, a clock, barriers and interrupt vectors. `e810-backends` has platforms for
//!    Linux, `e810-sim` a simulated card; a unikernel implements the traits of `e810-hal`.
//! 2. **A bring-up.** [`bring_up_cold`] takes a function from its reset on: AdminQ, package,
//!    VSI, link, then the RDMA engine. [`bring_up()`] uses a LAN side (MAC, VSI, scheduler
//!    tree, packet filters) that another driver has set up; [`Lan`] describes it. [`Device`]
//!    has the stages one by one. [`Config`] says how much memory the card gets.
//! 3. **Three parts** that need no lock between them ([`Device::split`]): [`Control`] creates
//!    and destroys objects; [`VectorEvents`], one for each interrupt vector, takes events and
//!    may be called from an interrupt handler; and each [`Qp`] and [`Cq`] is used by the
//!    thread that owns it.
//! 4. **Objects.** [`Control::alloc_pd`], [`Control::reg_mr`] (memory as [`SharedBytes`]),
//!    [`Control::create_cq`], [`Control::create_qp`] with a [`QpInit`].
//! 5. **A connection.** Two programs exchange a [`QpInfo`] each ([`QpControl::info`]) and call
//!    [`QpControl::connect`]. [`Control::modify_qp`] with a [`QpAttr`] is the same, state by state.
//!    Datagrams need no peer: [`QpControl::start_datagrams`], then [`Control::create_ah`].
//! 6. **Requests.** [`Qp::post_recv`] and [`Qp::post_send`] with an [`Op`]; a request that is
//!    refused is in [`Refused`]. [`Cq::poll`] returns completions as [`Wc`].
//! 7. **Progress.** A program that polls calls [`progress()`] in its loop; one with interrupts
//!    calls [`VectorEvents::on_vector`] in its handlers and [`Control::progress`] in its loop.
//!    Without it a queue pair that failed completes nothing. [`Cq::arm`] asks for an event;
//!    [`Channel`] waits for one.
//! 8. **Failures.** A failed queue pair is reported by an [`AsyncEvent`] with cause and remedy,
//!    and its requests complete with an error; [`Control::reset_qp`] makes it usable again.
//!    [`Error`] names what failed, which object, and what to do.
//! 9. **The end.** [`Control::shutdown_with`] destroys objects in order and undoes the
//!    bring-up. A handle that is dropped instead leaks its memory: the card may still write
//!    there.
//!
//! # Without a device behind it
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
//! Names of libibverbs find their counterparts in the search of this page.

#![warn(missing_docs)]
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
mod cq_memory;
pub mod errno;
mod error;
mod events;
mod fast_reg;
mod handover;
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
pub mod program_queues;
mod progress;
mod qp;
mod ref_counts;
mod rings;
mod route;
mod stage;
mod stats;
pub mod tuning;
mod unsupported;

pub use addr::{Gid, GidEntry, MacAddr, Mtu, Path, Vlan, link_local, v4};
pub use ah::Ah;
pub use attr::{GSI_QKEY, QpAttr, QpCaps, QpInit, Qpn};
pub use bring_up::{
    AdminqUp, AeqUp, Attached, CcqUp, CeqsUp, Cold, ColdStart, CqpUp, Device, EngineReady, Failed,
    FunctionReset, HmcUp, Identified, LanReady, LinkPolicy, LinkUp, PackageLoaded, PackageSource,
    Reached, Ready, TreeFound, VsiUp, bring_up, bring_up_cold, reset_card,
};
pub use channel::{CHANNELS, Channel, ChannelClosed, CqEvent, Next};
pub use config::{Config, CpuHints, Lan, MAX_CEQS, Quirks};
pub use connect::{ConnectOptions, DATAGRAM_QKEY, QpInfo};
pub use control::{Control, Memory, Progress, QueriedInit, QueriedQp, Remaining, ShutdownError};
pub use cq::{Cq, CqControl, CqInit, CqRing};
pub use cq_memory::{CqMemory, CqPlace, CqRingMemory, CqRingPlace};
pub use error::{Error, Object, Result, StageError};
pub use events::{Event, EventSet, LOGGED, Polled, VectorEvents};
pub use fast_reg::{FastMr, Mw, MwType};
pub use handover::{CqDestroyed, CqResized, QpDestroyed, QpReopened, QpResetting};
pub use lan::{
    Identity, LAN_EVENTS, LAN_GROUPS, LanEvent, LanHook, LanPort, LanPortKey, LanSide, NoLanHook,
};
pub use limits::GIDS;
pub use memory_budget::{HOST_ALLOCATIONS, cq_dma_bytes};
pub use moderation::{Adaptive, CqModeration, Moderated};
pub use monitoring::{Depth, Timing};
pub use mr::{AccessFlags, Mr, MrChange, MrMemory, ReregError};
pub use pd::Pd;
pub use port::{DeviceAttr, PortAttr, PortState};
pub use program_queues::{ProgramLimits, ProgramQueues};
pub use progress::progress;
pub use qp::{Qp, QpControl, QpRecv, QpRecvList, QpSend, QpSendList};
pub use rings::{CqGrant, NotMade, QpGrant, QpMemory, QpPlace, Rings};
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
pub use e810_ceq::ae::QpEvent;
pub use e810_ceq::aeqe::Object as AsyncObject;
pub use e810_ceq::event::Entry as LoggedEvent;
pub use e810_ceq::irq::Doubled;
pub use e810_ceq::{AsyncEvent, EventLog, Timer};
pub use e810_cqp::hmc;
pub use e810_datapath::slot::QpChange;
pub use e810_datapath::state::{AttrMask, TransitionError, query, timing};
pub use e810_datapath::{
    Atomic, Counters as CqCounters, CqKey, Data, DroppedWrs, Error as DatapathError, FastRegister,
    FastRegisterParts, MwBind, Notify, OneSge, Op, PostError, RecvWr, Refused, Remote, SendFlags,
    SendPlan, SendWr, Sender, Sge, SlotError, UdTarget, Wc, WcFlags, WcOpcode, WcStatus,
};
pub use e810_hal::bus::VsiId;
pub use e810_hal::{Clock, Iova, Ns, Platform, SharedBytes};
pub use e810_lan::{Error as LanError, LanInit, RxCounts as LanRxCounts, TxCounts as LanTxCounts};
pub use e810_types::{QpState, QpType, WorkQueue};
