//! One device with its objects.

use std::net::IpAddr;

use e810::{
    AsyncEvent, Channel, Control, Cq, Device, Event, EventSet, GidEntry, Lan, Mr, Pd, Platform,
    Polled, Qp, QpInit, Ready, RecvWr, Refused, Remaining, SendWr, Sge, Wc, bring_up,
};

use super::{Buffer, Room, Setup};

/// A completion, and which CQ of the side gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Index in [`Side::cqs`].
    pub cq: usize,
    pub wc: Wc,
}

/// One device with its objects; a test may use any of them directly.
#[derive(Debug)]
pub struct Side<P: Platform> {
    /// Index of its address.
    pub gid: u8,
    /// What it runs on.
    pub platform: P,
    /// The control path.
    pub control: Control<P>,
    /// Its event queues.
    pub events: EventSet<P>,
    /// The protection domain of everything.
    pub pd: Pd,
    /// Where the CQs tell their events.
    pub channel: Option<Channel<P>>,
    /// One CQ, or the send and the receive CQ.
    pub cqs: Vec<Cq<P>>,
    pub qps: Vec<Qp<P>>,
    /// The region over the whole buffer, with all rights.
    pub mr: Mr<P>,
    /// Payload memory.
    pub buffer: Buffer,
    /// Completions polled and not taken.
    pub done: Vec<Done>,
    /// Asynchronous events so far.
    pub reported: Vec<AsyncEvent>,
    /// Queue pairs whose send queue was reported drained.
    pub drained: Vec<u32>,
    /// What serving the control path failed with; empty at the end.
    pub failed: Vec<e810::Error>,
    /// Entries of event queues that were skipped so far.
    pub skipped: u32,
    /// Whether [`Side::poll_cqs`] polls the CQs.
    pub polling: bool,
    setup: Setup,
}

impl<P: Room> Side<P> {
    /// Brings the device up and makes its objects.
    #[must_use]
    pub fn new(platform: P, lan: Lan, setup: &Setup) -> Self {
        let device = bring_up(platform.clone(), &setup.config(lan), &mut |_| {}).expect("up");
        Self::on(device, platform, setup)
    }

    /// Makes the objects of a device that is up.
    #[must_use]
    pub fn on(device: Device<P, Ready<P>>, platform: P, setup: &Setup) -> Self {
        let (mut control, events) = device.split();
        let pd = control.alloc_pd().expect("a PD");
        let channel = setup
            .channel
            .then(|| control.create_channel().expect("a channel"));
        let cqs: Vec<Cq<P>> = (0..1 + u16::from(setup.separate_cqs))
            .map(|vector| {
                // A function may have one vector only.
                let there = control.interrupt_vector(vector).is_some();
                let vector = if there { vector } else { 0 };
                let made = match &channel {
                    Some(channel) => control.create_cq_on(channel, setup.cqe, vector),
                    None => control.create_cq(setup.cqe, vector),
                };
                made.expect("a CQ")
            })
            .collect();
        let buffer = platform.room(setup.buffer);
        let mr = control
            .reg_mr(&pd, buffer.bytes(), Setup::ACCESS)
            .expect("a region");
        let mac = control.lan().mac;
        let entry = GidEntry {
            gid: setup.ip(mac).into(),
            vlan: setup.vlan.map(|vlan| vlan.id),
        };
        let gid = control.add_gid(entry).expect("a GID");
        let mut side = Self {
            gid,
            platform,
            control,
            events,
            pd,
            channel,
            cqs,
            qps: Vec::new(),
            mr,
            buffer,
            done: Vec::new(),
            reported: Vec::new(),
            drained: Vec::new(),
            failed: Vec::new(),
            skipped: 0,
            polling: true,
            setup: *setup,
        };
        for _ in 0..setup.queue_pairs {
            side.add_qp();
        }
        side
    }
}

impl<P: Platform> Side<P> {
    /// Makes one more queue pair, in RESET.
    pub fn add_qp(&mut self) {
        let (Some(send_cq), Some(recv_cq)) = (self.cqs.first(), self.cqs.last()) else {
            return;
        };
        let init = QpInit {
            fast_register: self.setup.fast_register,
            counters: self.setup.counters,
            ..QpInit::new(self.setup.qp_type, send_cq, recv_cq, self.setup.caps)
        };
        let qp = self.control.create_qp(&self.pd, &init).expect("a QP");
        self.qps.push(qp);
    }

    /// Where received bytes begin in the buffer.
    #[must_use]
    pub fn incoming(&self) -> usize {
        self.setup.buffer / 2
    }

    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.setup.ip(self.control.lan().mac)
    }

    /// An SGE over a part of the buffer.
    #[must_use]
    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge {
            addr: self.mr.address() + offset as u64,
            length: length as u32,
            lkey: self.mr.lkey(),
        }
    }

    /// Posts to the send queue of queue pair `qp`.
    ///
    /// # Errors
    /// As [`Qp::post_send`].
    pub fn post_send(&mut self, qp: usize, requests: &[SendWr<'_>]) -> Result<(), Refused> {
        self.qps.get_mut(qp).expect("a QP").post_send(requests)
    }

    /// Posts a receive to queue pair `qp`.
    ///
    /// # Errors
    /// As [`Qp::post_recv`].
    pub fn post_recv(&mut self, qp: usize, wr_id: u64, sges: &[Sge]) -> Result<(), Refused> {
        let qp = self.qps.get_mut(qp).expect("a QP");
        qp.post_recv(&[RecvWr { wr_id, sges }])
    }

    /// Looks once at everything; whether there was something.
    pub fn poll_cqs(&mut self) -> bool {
        let before = self.done.len();
        let mut wcs = [Wc::default(); 16];
        let cqs = self.cqs.iter_mut().enumerate();
        for (index, cq) in cqs.take(if self.polling { usize::MAX } else { 0 }) {
            let polled = cq.poll(&mut wcs);
            let polled = wcs.iter().take(polled);
            self.done
                .extend(polled.map(|wc| Done { cq: index, wc: *wc }));
        }
        self.done.len() > before
    }

    /// Takes its events away, for another thread to have meanwhile.
    #[must_use]
    pub fn lend_events(&mut self) -> EventSet<P> {
        let none = EventSet::new(self.platform.clone(), 0).expect("an empty list");
        core::mem::replace(&mut self.events, none)
    }

    /// Looks once at the event queues, and serves the control path.
    pub fn progress(&mut self) -> Polled {
        let mut all = Polled::default();
        let (reported, drained) = (&mut self.reported, &mut self.drained);
        for events in &mut self.events {
            let polled = events.poll(&mut |event| match event {
                Event::Async(event) => reported.push(event),
                Event::SqDrained { qp } => drained.push(qp),
                _ => {}
            });
            all.events += polled.events;
            all.skipped += polled.skipped;
            all.more |= polled.more;
        }
        self.skipped += all.skipped;
        self.failed.extend(self.control.progress().err());
        all
    }

    /// Takes the completions so far.
    pub fn take(&mut self) -> Vec<Wc> {
        self.done.drain(..).map(|done| done.wc).collect()
    }

    /// Takes the completions of one queue pair.
    pub fn take_of(&mut self, number: u32) -> Vec<Wc> {
        let taken = self.done.extract_if(.., |done| done.wc.qp_num == number);
        taken.map(|done| done.wc).collect()
    }

    /// Gives everything back, in order, and shuts the device down.
    pub fn close(mut self) {
        assert_eq!(self.failed, []);
        for qp in self.qps {
            self.control.destroy_qp(qp).map_err(|(_, e)| e).expect("QP");
        }
        for cq in self.cqs {
            self.control.destroy_cq(cq).map_err(|(_, e)| e).expect("CQ");
        }
        if let Some(channel) = &self.channel {
            self.control.close_channel(channel).expect("a channel");
        }
        let objects = Remaining {
            qps: [],
            ahs: [],
            cqs: [],
            mrs: [self.mr],
            pds: [self.pd],
        };
        let ended = self.control.shutdown_with(self.events, objects);
        ended.expect("a shutdown");
    }
}
