//! The library's commands as CQP commands.

use std::ffi::c_uint;
use std::net::Ipv4Addr;

use e810_cqp::hmc::Object;
use e810_cqp::op::{
    Access as Rights, AddressHandle, CqAttributes, CreateAh, CreateCq, CreateQp, DeallocStag,
    DestroyAh, DestroyCq, DestroyQp, Extent, HwQpType, IpPair, PageSize, Pages, QueueMemory,
    RegisterMr, StagKind, TagBase,
};
use e810_cqp::qpc::{RoceContext, RqContext, SqContext};
use e810_datapath::sizing::wqe_shift;
use e810_hal::Iova;
use e810_hal::bus::CeqId;
use e810_types::{HwQpState, MacAddr};
use e810_verbs::abi::constants::{access, qp_type};
use e810_verbs::abi::state::AhAttr;

use super::connect::modify;
use super::mapped::PAGE;
use super::{Pair, Simulated};
use crate::kernel::{Answer, CqRequest, Errno, Kernel, Purpose, QpRequest, Region, Registration};

/// Indexes of regions that are handed out, then used again.
const REGIONS: u32 = 1000;

fn rights(flags: i32) -> Rights {
    let flags = flags as c_uint;
    let mut rights = Rights::LOCAL_READ;
    rights.set(Rights::LOCAL_WRITE, flags & access::LOCAL_WRITE != 0);
    rights.set(Rights::REMOTE_WRITE, flags & access::REMOTE_WRITE != 0);
    rights.set(Rights::REMOTE_READ, flags & access::REMOTE_READ != 0);
    rights
}

/// Whether the rings of a context are in page lists.
pub(super) const fn is_listed(context: &RoceContext) -> bool {
    matches!(context.sq.memory, QueueMemory::Pbles(_))
}

impl Simulated {
    /// Registers payload with the device: its key.
    fn register_payload(&mut self, registration: &Registration, pages: Pages) -> Answer<(u32, u8)> {
        let (index, key) = (self.next.region, self.next.key);
        self.next.region = index % REGIONS + 1;
        self.next.key = key.wrapping_add(7);
        self.back(Object::Mr, index)?;
        self.command(&RegisterMr {
            index,
            key,
            pd: registration.pd,
            address: registration.address,
            base: TagBase::Va,
            extent: Extent::Bytes(registration.length as u64),
            page_size: PageSize::Kib4,
            pages,
            access: rights(registration.access),
            remote_atomics: false,
            hmc_function: None,
        })?;
        Ok((index, key))
    }

    /// Pages of both rings of a queue pair whose memory is at `buffer`.
    fn queue_memory(&self, request: &QpRequest) -> Answer<(SqContext, RqContext, Iova)> {
        let cap = &request.cap;
        let sq_shift = wqe_shift(cap.max_send_sge + 1, cap.max_inline_data);
        let rq_shift = wqe_shift(cap.max_recv_sge, 0);
        let sq_quanta = cap.max_send_wr << sq_shift;
        let rq_quanta = cap.max_recv_wr << rq_shift;
        // Each ring takes whole pages; the shadow area follows (data-path 3).
        let sq_bytes = (u64::from(sq_quanta) * 32).next_multiple_of(PAGE);
        let rq_bytes = (u64::from(rq_quanta) * 32).next_multiple_of(PAGE);
        let rq = request.buffer + sq_bytes;
        let sq = SqContext {
            memory: self.ring(request.buffer)?,
            quanta: sq_quanta,
            cq: request.send_cq,
        };
        let rq_context = RqContext {
            memory: self.ring(rq)?,
            quanta: rq_quanta,
            wqe_shift: rq_shift,
            cq: request.recv_cq,
        };
        Ok((sq, rq_context, self.iova(rq + rq_bytes)?))
    }
}

impl Kernel for Simulated {
    fn alloc_pd(&mut self) -> Answer<u32> {
        let id = self.next.pd;
        self.next.pd += 1;
        Ok(id)
    }

    fn register(&mut self, registration: &Registration) -> Answer<Region> {
        let mut mapped = self.map(registration)?;
        let handle = self.next.handle;
        self.next.handle += 1;
        let mut key = 0;
        if registration.purpose == Purpose::Payload {
            let registered = mapped
                .region_pages()
                .and_then(|pages| self.register_payload(registration, pages));
            match registered {
                Ok((index, byte)) => {
                    key = index << 8 | u32::from(byte);
                    mapped.region = Some((index, registration.pd));
                }
                Err(error) => {
                    self.unmap(mapped);
                    return Err(error);
                }
            }
        }
        self.mapped.insert(handle, mapped);
        Ok(Region { handle, key })
    }

    fn deregister(&mut self, handle: u32) -> Answer<()> {
        let mapped = self.mapped.remove(&handle).ok_or(Errno::MISSING)?;
        if let Some((index, pd)) = mapped.region {
            self.command(&DeallocStag {
                index,
                pd,
                kind: StagKind::Region,
            })?;
        }
        self.unmap(mapped);
        Ok(())
    }

    fn create_cq(&mut self, request: &CqRequest) -> Answer<u32> {
        let id = self.next.cq;
        let (ring, shadow) = (self.ring(request.ring)?, self.iova(request.shadow)?);
        self.back(Object::Cq, id)?;
        let attributes = CqAttributes {
            memory: ring,
            ..CqAttributes::new(id, request.entries, Iova(0), shadow, CeqId::ZERO)
        };
        self.command(&CreateCq::new(attributes, self.vsi))?;
        self.next.cq += 1;
        self.cqs.insert(id, attributes);
        Ok(id)
    }

    fn destroy_cq(&mut self, id: u32) -> Answer<()> {
        let cq = self.cqs.remove(&id).ok_or(Errno::MISSING)?;
        self.command(&DestroyCq { cq }).map(drop)
    }

    fn create_qp(&mut self, request: &QpRequest) -> Answer<u32> {
        let id = self.next.qp;
        let kind = match request.qp_type {
            qp_type::RC => HwQpType::RoceRc,
            qp_type::UD => HwQpType::RoceUd,
            _ => return Err(Errno::UNSUPPORTED),
        };
        self.back(Object::Qp, id)?;
        let (sq, rq, shadow) = self.queue_memory(request)?;
        let mut context = RoceContext::new(sq, rq, MacAddr(self.address.mac), self.queue_set);
        context.completion_context = request.context;
        context.pd = request.pd;
        let address = self.write_context(id, &context)?;
        let command = CreateQp {
            virtual_queues: is_listed(&context),
            ..CreateQp::new(id, kind, address, shadow)
        };
        self.command(&command)?;
        self.next.qp += 1;
        let pair = Pair {
            kind,
            context,
            shadow,
        };
        self.pairs.insert(id, pair);
        Ok(id)
    }

    fn destroy_qp(&mut self, id: u32) -> Answer<()> {
        let pair = self.pairs.remove(&id).ok_or(Errno::MISSING)?;
        let context = self.context_of(id)?;
        // To ERROR first; what the device answers to that Linux does not look at.
        let _ = self.command(&modify(id, &pair, context, HwQpState::Error));
        self.command(&DestroyQp::new(id, pair.kind, context, pair.shadow))
            .map(drop)
    }

    fn create_ah(&mut self, pd: u32, attr: &AhAttr) -> Answer<u32> {
        let index = self.next.ah;
        self.back(Object::FsiAv, index)?;
        // An IPv4-mapped GID: the last four bytes.
        let [.., a, b, c, d] = attr.grh.dgid.raw;
        let destination = Ipv4Addr::new(a, b, c, d);
        let (_, arp_index) = *self.neighbours.get(&destination).ok_or(Errno::MISSING)?;
        let handle = AddressHandle {
            index,
            pd,
            source_mac: MacAddr(self.address.mac),
            addresses: IpPair::V4 {
                source: self.address.ip,
                destination,
            },
            arp_index,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
            flow_label: attr.grh.flow_label,
            vlan: None,
            loopback: destination == self.address.ip,
        };
        self.command(&CreateAh(handle))?;
        self.next.ah += 1;
        self.handles.insert(index, handle);
        Ok(index)
    }

    fn destroy_ah(&mut self, index: u32) -> Answer<()> {
        let handle = self.handles.remove(&index).ok_or(Errno::MISSING)?;
        self.command(&DestroyAh(handle)).map(drop)
    }
}
