//! Events: what has happened to an id, and what a program gets of it.

use core::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use e810_connect::PrivateData;
use e810_verbs::abi::state::AhAttr;

use crate::abi::{CmEvent, ConnParam, Param, UdParam, event};
use crate::id::Id;

/// What has happened, before a program has taken it.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) id: Arc<Id>,
    /// The listener of a request.
    pub(crate) listener: Option<Arc<Id>>,
    pub(crate) event: c_int,
    /// 0, a reason, or a negative error.
    pub(crate) status: c_int,
    pub(crate) with: With,
    pub(crate) private_data: PrivateData,
}

/// What it has beside that.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With {
    Nothing,
    Connection {
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: bool,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: bool,
        qpn: u32,
    },
    Datagrams {
        address: AhAttr,
        qpn: u32,
        qkey: u32,
        /// The program's word, in place of private data.
        context: usize,
    },
}

impl Happening {
    /// Without anything else.
    pub(crate) fn of(id: Arc<Id>, event: c_int, status: c_int) -> Self {
        Self {
            id,
            listener: None,
            event,
            status,
            with: With::Nothing,
            private_data: PrivateData::new(),
        }
    }

    /// The id that is not destroyed while a program has the event.
    pub(crate) fn reported(&self) -> &Arc<Id> {
        self.listener.as_ref().unwrap_or(&self.id)
    }

    /// A program takes it, and it counts as taken. What has to be done first is done; null if nothing is left to tell.
    pub(crate) fn give(&self) -> *mut CmEvent {
        let (event, status) = match self.event {
            event::CONNECT_RESPONSE => self.id.responded(),
            // As librdmacm does. At DISCONNECTED it does nothing: the program may have destroyed its
            // queue pair without a word to the id.
            event::MULTICAST_JOIN => match self.with {
                With::Datagrams { address, .. } => self.id.has_joined(address.grh.dgid),
                _ => (self.event, self.status),
            },
            event::REJECTED if self.listener.is_none() => {
                self.id.stop();
                (self.event, self.status)
            }
            event => (event, self.status),
        };
        let given = Box::new(Given {
            abi: CmEvent {
                id: self.id.shown(),
                listen_id: self
                    .listener
                    .as_ref()
                    .map_or(ptr::null_mut(), |listener| listener.shown()),
                event,
                status,
                param: Param {
                    ud: UdParam {
                        private_data: ptr::null(),
                        private_data_len: 0,
                        ah_attr: AhAttr::default(),
                        qp_num: 0,
                        qkey: 0,
                    },
                },
            },
            private_data: self.private_data.clone(),
            reported: self.reported().clone(),
        });
        let given = Box::into_raw(given);
        // SAFETY: made just now; the private data stays where it is as long as the box lives.
        unsafe { (*given).abi.param = self.param(&(*given).private_data) };
        given.cast()
    }

    fn param(&self, data: &PrivateData) -> Param {
        let private_data = match data.is_empty() {
            true => ptr::null(),
            false => data.as_ptr().cast::<c_void>(),
        };
        let private_data_len = data.len() as u8;
        let plain = ConnParam {
            private_data,
            private_data_len,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            srq: 0,
            qp_num: 0,
        };
        match self.with {
            With::Nothing => Param { conn: plain },
            With::Connection {
                responder_resources,
                initiator_depth,
                flow_control,
                retry_count,
                rnr_retry_count,
                srq,
                qpn,
            } => Param {
                conn: ConnParam {
                    responder_resources,
                    initiator_depth,
                    flow_control: flow_control.into(),
                    retry_count,
                    rnr_retry_count,
                    srq: srq.into(),
                    qp_num: qpn,
                    ..plain
                },
            },
            With::Datagrams {
                address,
                qpn,
                qkey,
                context,
            } => Param {
                ud: UdParam {
                    private_data: match context {
                        0 => private_data,
                        context => ptr::with_exposed_provenance(context),
                    },
                    private_data_len,
                    ah_attr: address,
                    qp_num: qpn,
                    qkey,
                },
            },
        }
    }
}

/// An event that a program has.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Given {
    abi: CmEvent,
    private_data: PrivateData,
    /// The id that is not destroyed before this is taken back.
    reported: Arc<Id>,
}

impl Given {
    /// # Safety
    /// `event` came from [`Happening::give`], and is not used any more.
    pub(crate) unsafe fn take_back(event: *mut CmEvent) {
        // SAFETY: the caller's.
        let given = unsafe { Box::from_raw(event.cast::<Self>()) };
        given.reported.events().acknowledge(1);
    }
}
