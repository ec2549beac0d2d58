//! Any messages and any calls, in any order: nothing is lost, and nothing stays.

use std::vec::Vec;

use proptest::prelude::*;

use e810_types::Ns;

use super::super::*;
use super::rig::{accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, IpHeader, PortSpace};
use crate::{Drep, Dreq, Header, Message, Mra, Reason, Rej, Rep, Req, Rtu, SidrRep, SidrReq};

const SLOTS: usize = 8;

/// One thing that happens. Small numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Connect {
        space: u8,
    },
    Message {
        kind: u8,
        of: u8,
        remote: u8,
        detail: u16,
    },
    Bytes(Vec<u8>),
    Call {
        which: u8,
        of: u8,
    },
    Pass {
        ms: u32,
    },
    Send,
    Unlisten,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0_u8..3).prop_map(|space| Step::Connect { space }),
        6 => (0_u8..10, any::<u8>(), 0_u8..4, any::<u16>())
            .prop_map(|(kind, of, remote, detail)| Step::Message { kind, of, remote, detail }),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Step::Bytes),
        5 => (0_u8..9, any::<u8>()).prop_map(|(which, of)| Step::Call { which, of }),
        2 => (0_u32..100_000).prop_map(|ms| Step::Pass { ms }),
        3 => Just(Step::Send),
        1 => Just(Step::Unlisten),
    ]
}

struct Rig {
    machine: Machine<'static>,
    listeners: Vec<ListenerId>,
    /// Ids that a peer could know, and some that nobody has.
    ids: Vec<ConnectionId>,
    now: Ns,
}

impl Rig {
    fn id(&self, of: u8) -> u32 {
        let at = usize::from(of) % (self.ids.len() + 1);
        self.ids.get(at).map_or(0x1234, |id| id.number())
    }

    fn message(&self, kind: u8, of: u8, remote: u8, detail: u16) -> Message {
        let remote_comm_id = self.id(of);
        let local_comm_id = 0x7000 + u32::from(remote);
        let qpn = 40 + u32::from(detail % 4);
        let space = [PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib][usize::from(detail % 3)];
        let service_id = space.service_id(super::rig::PORT);
        let ip = IpHeader {
            port: 1,
            source: own_address(0),
            destination: own_address(1),
        };
        let header = ip.encode();
        let mut req = [0; 92];
        req[..ip::HEADER].copy_from_slice(&header);
        let mut sidr = [0; 216];
        sidr[..ip::HEADER].copy_from_slice(&header);
        match kind {
            0 | 1 => Req {
                local_comm_id,
                service_id,
                local_ca_guid: 0xB,
                local_qpn: qpn,
                local_cm_response_timeout: (detail % 32) as u8,
                max_cm_retries: (detail % 16) as u8,
                primary_local_ack_timeout: (detail % 32) as u8,
                private_data: req,
                ..Req::default()
            }
            .into(),
            2 => Mra {
                local_comm_id,
                remote_comm_id,
                message_mraed: (detail % 3) as u8,
                service_timeout: (detail % 32) as u8,
                ..Mra::default()
            }
            .into(),
            3 => {
                let mut rej = Rej {
                    local_comm_id,
                    remote_comm_id,
                    message_rejected: (detail % 3) as u8,
                    reason: detail % 40,
                    ..Rej::default()
                };
                rej.ari[..8].copy_from_slice(&0xB_u64.to_be_bytes());
                rej.into()
            }
            4 => Rep {
                local_comm_id,
                remote_comm_id,
                local_qpn: qpn,
                local_ca_guid: 0xB,
                target_ack_delay: (detail % 32) as u8,
                ..Rep::default()
            }
            .into(),
            5 => Rtu {
                local_comm_id,
                remote_comm_id,
                ..Rtu::default()
            }
            .into(),
            6 => Dreq {
                local_comm_id,
                remote_comm_id,
                remote_qpn_eecn: 40 + u32::from(detail % 2),
                ..Dreq::default()
            }
            .into(),
            7 => Drep {
                local_comm_id,
                remote_comm_id,
                ..Drep::default()
            }
            .into(),
            8 => SidrReq {
                request_id: local_comm_id,
                service_id,
                private_data: sidr,
                ..SidrReq::default()
            }
            .into(),
            _ => SidrRep {
                request_id: remote_comm_id,
                status: (detail % 3) as u8,
                ..SidrRep::default()
            }
            .into(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let origin = Origin {
            remote: ip::gid(own_address(0)),
            local: ip::gid(own_address(1)),
            ..Origin::NOWHERE
        };
        self.machine.receive(bytes, &origin, self.now);
    }

    fn call(&mut self, which: u8, of: u8) {
        let id = ConnectionId(self.id(of));
        let (machine, now) = (&mut self.machine, self.now);
        // Whatever the state; refusals are answers.
        match which {
            0 => drop(machine.reached(id, now)),
            1 => drop(machine.accept(id, &accept_with(41))),
            2 => drop(machine.reject(id, Reason::CONSUMER_DEFINED, &[], now)),
            3 => drop(machine.ready(id)),
            4 => machine.data_arrived(id),
            5 => drop(machine.disconnect(id, now)),
            6 => drop(machine.release(id, now)),
            7 => drop(machine.ignore(id)),
            _ => drop(machine.answer(id, Ok((5, 6)), &[])),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Connect { space } => {
                let space = [PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib][usize::from(*space)];
                let connect = Connect {
                    space,
                    ..connect_to(1, 0, 40)
                };
                self.ids.extend(self.machine.connect(&connect));
            }
            Step::Message {
                kind,
                of,
                remote,
                detail,
            } => {
                let message = self.message(*kind, *of, *remote, *detail);
                let tid = (*detail).into();
                self.take(&message.encode(Header { tid, attr_mod: 0 }));
            }
            Step::Bytes(bytes) => self.take(bytes),
            Step::Call { which, of } => self.call(*which, *of),
            Step::Pass { ms } => self.now = self.now + Ns::from_ms((*ms).into()),
            Step::Send => {
                let mut mad = [0; 256];
                self.machine.transmit(self.now, &mut mad);
            }
            Step::Unlisten => {
                if let Some(listener) = self.listeners.pop() {
                    self.machine.unlisten(listener);
                } else {
                    self.listeners
                        .push(listen(&mut self.machine, PortSpace::Tcp));
                }
            }
        }
        while self.machine.poll(self.now) {}
    }

    /// All that is known is found, and nothing else is in a chain.
    fn check_chains(&self) {
        let machine = &self.machine;
        let [mut ids, mut qps] = [0, 0];
        for (index, slot) in (0..).zip(machine.slots.0.iter()) {
            ids += usize::from(slot.is_id_known);
            qps += usize::from(slot.is_qp_known);
            let (guid, id) = (slot.remote_guid, slot.remote_comm_id);
            let found = match slot.unreached {
                NONE => machine.by_remote_id(guid, id),
                _ => machine.unreached_twin(guid, id, &slot.origin.remote),
            };
            assert_eq!(found == Some(index), slot.is_id_known);
            if slot.is_qp_known && slot.state != State::SidrReqReceived {
                assert_eq!(machine.by_remote_qp(guid, slot.remote_qpn), Some(index));
            }
        }
        let length = |first: &u32, next: fn(&Slot) -> u32| {
            std::iter::successors(machine.slot(*first), |slot| machine.slot(next(slot))).count()
        };
        let in_ids = machine.by_id.iter();
        let in_qps = machine.by_qp.iter();
        let found: [usize; 2] = [
            in_ids
                .map(|first| length(first, |slot| slot.next_by_id))
                .sum(),
            in_qps
                .map(|first| length(first, |slot| slot.next_by_qp))
                .sum(),
        ];
        assert_eq!(found, [ids, qps]);
    }

    fn check(&self) {
        let used = self.machine.slots.0.iter().filter(|slot| slot.comm_id != 0);
        assert_eq!(used.count() + self.machine.free_slots(), SLOTS);
        let waiting = |slot: &&Slot| slot.comm_id != 0 && slot.unreached != NONE;
        let unreached = self.machine.slots.0.iter().filter(waiting).count();
        assert_eq!(unreached, self.machine.unreached.len());
        self.check_chains();
        let counted: u16 = self.machine.of_source.iter().sum();
        assert_eq!(usize::from(counted), unreached);
        for (index, place) in self.machine.listeners.iter().enumerate() {
            let of_listener = |slot: &&Slot| {
                slot.comm_id != 0 && slot.is_in_backlog && slot.listener == index as u32
            };
            let waiting = self.machine.slots.0.iter().filter(of_listener).count();
            if place.listen.is_some() {
                assert_eq!(waiting, place.waiting as usize);
            }
        }
    }
}

proptest! {
    #[test]
    fn everything_is_given_back(steps in prop::collection::vec(step(), 1..120)) {
        let mut machine = machine(SLOTS, Config::new(0xA), 3);
        let listeners = [PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib]
            .map(|space| listen(&mut machine, space));
        let mut rig = Rig {
            machine,
            listeners: listeners.into(),
            ids: Vec::new(),
            now: Ns::from_secs(1),
        };
        for step in &steps {
            rig.step(step);
            rig.check();
            let unreached = (0..rig.machine.unreached_len()).map(|place| {
                rig.machine.unreached(place).unwrap().0
            });
            let unreached: Vec<_> = unreached.collect();
            rig.ids.extend(unreached);
            rig.ids.dedup();
            while let Some(event) = rig.machine.event() {
                let id = match event {
                    Event::Requested { id, .. } | Event::Rejected { id, .. } => id,
                    Event::Accepted(id)
                    | Event::Established(id)
                    | Event::Unreachable(id)
                    | Event::Disconnected(id)
                    | Event::Over(id) => id,
                };
                rig.ids.push(id);
                // Only of what there is.
                prop_assert!(rig.machine.state(id).is_some(), "{event:?}");
            }
            rig.check();
        }
        // The programs go, and the peers do not answer.
        for id in rig.ids.clone() {
            let _ = rig.machine.release(id, rig.now);
        }
        let mut mad = [0; 256];
        for _ in 0..100_000 {
            while rig.machine.transmit(rig.now, &mut mad).is_some() {}
            let Some(at) = rig.machine.deadline() else {
                break;
            };
            rig.now = rig.now.max(at);
            while rig.machine.poll(rig.now) {}
            prop_assert_eq!(rig.machine.event(), None);
        }
        prop_assert_eq!(rig.machine.free_slots(), SLOTS);
    }
}
