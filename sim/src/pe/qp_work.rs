//! Processing of queue pairs: doorbells, packets, timers, drains.

use std::sync::atomic::{Ordering, fence};

use super::aeq::{Event, Named};
use super::device::{Device, Unreachable};
use super::env::Env;
use super::fpm::Kind;
use super::qp::{Qp, QpType};
use super::rc_host::QpHost;
use super::stats::Direction;
use super::ud_multicast::GROUP_QP;
use super::word::{bits32, replace};
use crate::findings::kind;
use crate::rc::{self, Mode, QpRcState};
use crate::wire::{Opcode, Packet};

/// QP_SUSPEND_COMPLETE (control-path 7.5).
const SUSPEND_COMPLETE: u16 = 0x0900;
/// LCE_QP_CATASTROPHIC: the QP's context is unusable.
const LCE_QP_CATASTROPHIC: u16 = 0x0700;

impl Device {
    /// The context of a QP; the id must be below the committed count.
    pub(crate) fn qp(
        &mut self,
        id: u32,
        env: &mut dyn Env,
    ) -> Result<Option<Box<Qp>>, Unreachable> {
        let found = self.qps.get(id.into(), &mut self.hmc, env);
        self.reached(found, env)
    }

    /// Stores the context of a QP that exists.
    pub(crate) fn put_qp(
        &mut self,
        id: u32,
        qp: Box<Qp>,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        let stored = self.qps.put(id.into(), qp, &mut self.hmc, env);
        self.reached(stored, env)
    }

    /// Takes the QP with this number, if it exists; the caller puts it back after use.
    fn lend_qp(&mut self, id: u32, env: &mut dyn Env) -> Option<Box<Qp>> {
        if u64::from(id) >= self.hmc.count(Kind::Qp) {
            return None;
        }
        let found = self.qps.lend(id.into(), &mut self.hmc, env);
        self.reached(found, env).ok().flatten()
    }

    /// Whether a QP with this number exists.
    fn has_qp(&mut self, id: u32, env: &mut dyn Env) -> bool {
        u64::from(id) < self.hmc.count(Kind::Qp) && {
            let found = self.qps.exists(id.into(), &mut self.hmc, env);
            self.reached(found, env).unwrap_or(false)
        }
    }

    /// Takes the QP that a packet names, if it exists; the caller puts it back after use.
    ///
    /// Peers send to any number at any time: between COMMIT_FPM_VAL and the first SD, after the
    /// last SD was cleared, and to ids that do not exist. Existing drivers take the HMC down
    /// without closing the port first. So a number whose context has no backing counts as one that
    /// does not exist, and causes no HMC error `[inf packet_without_backing]`. If the queue pair
    /// does exist, its other work detects the missing backing.
    pub(super) fn qp_of_packet(&mut self, id: u32, env: &mut dyn Env) -> Option<Box<Qp>> {
        if u64::from(id) >= self.hmc.count(Kind::Qp) {
            return None;
        }
        let found = self.qps.lend(id.into(), &mut self.hmc, env);
        found.ok().flatten()
    }

    /// PFPE_WQEALLOC. The state of the QP does not matter: software may post at any time (data-path
    /// 8.5). So may a program that does not know yet that a kernel has destroyed its QP: the kernel
    /// takes the doorbell page away only later.
    pub(crate) fn ring_qp(&mut self, value: u32, env: &mut dyn Env) {
        let id = bits32(value.into(), 17, 0);
        if !self.has_qp(id, env) {
            if self.destroyed_qps.contains(&id) {
                return;
            }
            env.finding(
                kind::DOORBELL_QP,
                format!("PFPE_WQEALLOC = {id}: there is no such QP"),
            );
            return;
        }
        self.schedule.wake(id);
    }

    /// Does a QP's pending work (`connected` for a connection, `datagram` for a datagram QP) and
    /// stores the result. Each of the two returns whether there is more.
    fn serve(
        &mut self,
        id: u32,
        mut qp: Box<Qp>,
        env: &mut dyn Env,
        connected: impl FnOnce(&mut QpRcState, &mut QpHost<'_>) -> bool,
        datagram: impl FnOnce(&mut Self, &mut Qp, &mut dyn Env) -> bool,
    ) {
        let more = match (qp.kind, qp.rc.take()) {
            (QpType::RoceRc, Some(rc)) => self.serve_connected(id, &mut qp, rc, env, connected),
            (QpType::RoceRc, None) => return self.lost_context(id, qp, env),
            (QpType::RoceUd, _) => datagram(self, &mut qp, env),
            // iWARP and UDA QPs have states, but no traffic here.
            (QpType::Iwarp | QpType::Uda, _) => false,
        };
        self.drained(id, &mut qp, env);
        let has_moved = self.update_shadow(&mut qp, env);
        if more || has_moved {
            self.schedule.wake(id);
        }
        // The failure is already reported.
        let _ = self.put_qp(id, qp, env);
    }

    /// Runs `work` on the RC state of a QP.
    fn serve_connected(
        &mut self,
        id: u32,
        qp: &mut Qp,
        mut rc: Box<QpRcState>,
        env: &mut dyn Env,
        work: impl FnOnce(&mut QpRcState, &mut QpHost<'_>) -> bool,
    ) -> bool {
        let mut host = QpHost {
            device: self,
            env,
            id,
            qp,
            stopped: false,
            no_arp: false,
            sent: 0,
            has_ahead: false,
        };
        let more = work(&mut rc, &mut host);
        rc::Host::forget_ahead(&mut host);
        if host.no_arp && rc.mode() != Mode::Error {
            rc.set_mode(Mode::Error);
            host.report_no_arp();
        }
        let stopped = host.stopped;
        qp.stopped |= stopped;
        self.schedule.set_deadline(id, rc.next_deadline());
        qp.rc = Some(rc);
        more
    }

    /// The stored RC state does not decode: something else wrote to the backing.
    fn lost_context(&mut self, id: u32, mut qp: Box<Qp>, env: &mut dyn Env) {
        if qp.stopped {
            let _ = self.put_qp(id, qp, env);
            return;
        }
        env.finding(
            kind::HMC_CONTEXT,
            format!("QP {id}: its context in HMC backing is damaged"),
        );
        let context = Named::Qp(qp.completion_context());
        let event = Event {
            code: LCE_QP_CATASTROPHIC,
            id,
            context,
            state: Mode::Error as u8,
            ..Event::default()
        };
        self.async_event(event, env);
        qp.stopped = true;
        let _ = self.put_qp(id, qp, env);
    }

    /// AE 0x0900 when a drain has finished.
    fn drained(&mut self, id: u32, qp: &mut Qp, env: &mut dyn Env) {
        let busy = qp
            .rc
            .as_ref()
            .is_some_and(|rc| rc.mode() == Mode::Sqd && !rc.send_queue_idle());
        if !qp.draining || busy {
            return;
        }
        qp.draining = false;
        let context = Named::Qp(qp.completion_context());
        let state = qp.state() as u8;
        let event = Event {
            code: SUSPEND_COMPLETE,
            id,
            context,
            state,
            ..Event::default()
        };
        self.async_event(event, env);
    }

    /// HW_SQ_TAIL in the QP's shadow area; true when it was written. The sources do not say when the
    /// card writes it.
    ///
    /// Drivers that elide doorbells read it (data-path 1.10): while it is behind what they rang for
    /// last, the card has yet to come to the entries that they add, and they do not ring again. So
    /// the send queue is looked at once more after each write: an entry that became valid before
    /// the driver could see the new tail has no doorbell.
    fn update_shadow(&mut self, qp: &mut Qp, env: &mut dyn Env) -> bool {
        let (tail, _) = qp.send_head();
        let is_new = tail != qp.shadow_tail;
        if is_new {
            qp.shadow_tail = tail;
            // A refused write is recorded and has no other effect.
            let _ = env.store(qp.shadow, replace(0, tail.into(), 14, 0));
            // The tail first, then the entry: the driver writes and reads them the other way round.
            fence(Ordering::SeqCst);
        }
        is_new
    }

    /// Serves the next QP in turn.
    pub(crate) fn serve_next(&mut self, env: &mut dyn Env) {
        if let Some(id) = self.schedule.next()
            && let Some(qp) = self.lend_qp(id, env)
        {
            let datagram =
                |device: &mut Self, qp: &mut Qp, env: &mut dyn Env| device.serve_ud(id, qp, env);
            self.serve(id, qp, env, |rc, host| rc::poll(rc, host), datagram);
        }
    }

    /// Handles one deadline that has come.
    pub(crate) fn expire(&mut self, env: &mut dyn Env) {
        if let Some(id) = self.schedule.expired(env.now())
            && let Some(qp) = self.lend_qp(id, env)
        {
            // Datagrams have no deadlines.
            self.serve(id, qp, env, |rc, host| rc::timer(rc, host), |_, _, _| false);
        }
    }

    /// Receives a frame. One that is not a packet for a QP of this function is dropped, as on the
    /// wire.
    pub(crate) fn receive(&mut self, frame: &[u8], env: &mut dyn Env) {
        let packet = if self.config.shortcuts {
            self.known_heads.parse(frame)
        } else {
            Packet::parse(frame)
        };
        let Ok(packet) = packet else {
            return;
        };
        self.lint_header(&packet, env);
        let id = packet.headers.bth.dest_qp;
        if id == GROUP_QP {
            let choices = self.config.variation;
            self.statistics.frame(frame, Direction::Receive, &choices);
            self.receive_group(&packet, frame, None, env);
            return;
        }
        let Some(qp) = self.qp_of_packet(id, env) else {
            let choices = self.config.variation;
            self.statistics.frame(frame, Direction::Receive, &choices);
            return;
        };
        let is_notification = packet.headers.bth.opcode == Opcode::CNP;
        self.count(&qp, |counters, choices| {
            counters.frame(frame, Direction::Receive, choices);
            if is_notification {
                counters.congestion_notified(qp.handles_congestion());
            }
        });
        let connected = |rc: &mut QpRcState, host: &mut QpHost<'_>| {
            let outcome = rc::handle_packet(rc, &packet, host);
            host.dropped(&packet, outcome);
            // The next poll sends the response.
            true
        };
        let datagram = |device: &mut Self, qp: &mut Qp, env: &mut dyn Env| {
            device.receive_ud(id, qp, &packet, frame, env);
            false
        };
        self.serve(id, qp, env, connected, datagram);
    }
}
