//! The descriptor follows the channel. The events come from a queue pair that is stopped: its
//! receives complete then, and no other side is needed.

use super::*;
use e810::{
    AccessFlags, Config, Control, Cq, Lan, MacAddr, Notify, Pd, Qp, QpAttr, QpCaps, QpInit, RecvWr,
    VsiId, Wc, bring_up,
};
use e810_hal::Clock;
use e810_sim::{Sim, SimPlatform};

const CAPS: QpCaps = QpCaps {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 0,
};

struct Bench {
    sim: Sim,
    control: Control<SimPlatform>,
    events: e810::EventSet<SimPlatform>,
    pd: Pd,
    channel: HostChannel<SimPlatform>,
}

impl Bench {
    fn new() -> Self {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let lan = Lan {
            vsi: VsiId::new(nic.vsi()).unwrap(),
            mac: MacAddr(nic.mac()),
            mtu: 1500,
        };
        let device = bring_up(nic, &Config::new(lan), &mut |_| {}).unwrap();
        let (mut control, events) = device.split();
        let pd = control.alloc_pd().unwrap();
        let channel = HostChannel::new(control.create_channel().unwrap()).unwrap();
        Self {
            sim,
            control,
            events,
            pd,
            channel,
        }
    }

    fn is_readable(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.channel.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, alive for the call, which does not wait.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    fn queue(&mut self) -> Cq<SimPlatform> {
        let channel = self.channel.channel();
        self.control.create_cq_on(channel, 16, 0).unwrap()
    }

    /// A queue pair on `cq` that takes receives.
    fn pair(&mut self, cq: &Cq<SimPlatform>) -> Qp<SimPlatform> {
        let init = QpInit::rc(cq, cq, CAPS);
        let mut qp = self.control.create_qp(&self.pd, &init).unwrap();
        let attr = QpAttr::to_init(AccessFlags::empty());
        self.control.modify_qp(&mut qp, &attr).unwrap();
        qp
    }

    /// Stops a queue pair with one receive; its completion queue gets the completion.
    fn stop(&mut self, qp: &mut Qp<SimPlatform>, cq: &mut Cq<SimPlatform>) {
        qp.post_recv(&[RecvWr {
            wr_id: 1,
            sges: &[],
        }])
        .unwrap();
        assert!(!cq.arm(Notify::Any));
        self.control.modify_qp(qp, &QpAttr::to_error()).unwrap();
        let nic = self.sim.function(0);
        while !cq.take_event() {
            self.control.progress().unwrap();
            for events in &mut self.events {
                let _ = events.poll(&mut |_| {});
            }
            nic.relax();
        }
    }

    fn finish(mut self, qps: Vec<Qp<SimPlatform>>, cqs: Vec<Cq<SimPlatform>>) {
        for qp in qps {
            self.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        }
        for cq in cqs {
            self.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
        }
        self.control
            .dealloc_pd(self.pd)
            .map_err(|(_, e)| e)
            .unwrap();
        self.control.close_channel(self.channel.channel()).unwrap();
        self.control
            .shutdown(self.events)
            .map_err(|e| e.error)
            .unwrap();
        assert_eq!(self.sim.findings(), []);
    }
}

#[test]
fn the_descriptor_is_readable_while_there_are_events() {
    let mut bench = Bench::new();
    assert!(!bench.is_readable());
    assert_eq!(bench.channel.try_next(), Ok(None));
    let mut queues = Vec::new();
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let mut cq = bench.queue();
        let mut qp = bench.pair(&cq);
        bench.stop(&mut qp, &mut cq);
        pairs.push(qp);
        queues.push(cq);
    }
    for left in [1, 0] {
        assert!(bench.is_readable(), "{left} behind this one");
        let event = bench.channel.next(Duration::ZERO).unwrap();
        let cq = queues.iter_mut().find(|cq| cq.key() == event.cq()).unwrap();
        assert_eq!(cq.poll(&mut [Wc::default(); 2]), 1);
        bench.channel.channel().acknowledge(event, 1).unwrap();
    }
    assert!(!bench.is_readable());
    assert!(matches!(
        bench.channel.next(Duration::from_millis(1)),
        Err(ChannelError::Timeout(_))
    ));
    bench.finish(pairs, queues);
}

/// A wait without limit lasts until there is an event.
#[test]
fn a_limit_may_be_longer_than_any_clock_runs() {
    let mut bench = Bench::new();
    let mut cq = bench.queue();
    let mut qp = bench.pair(&cq);
    bench.stop(&mut qp, &mut cq);
    let event = bench.channel.next(Duration::MAX).unwrap();
    assert_eq!(event.cq(), cq.key());
    bench.channel.channel().acknowledge(event, 1).unwrap();
    bench.finish(vec![qp], vec![cq]);
}

#[test]
fn closing_wakes_a_thread_that_waits() {
    let Bench {
        mut control,
        events,
        pd,
        channel,
        ..
    } = Bench::new();
    let shared = Arc::new(channel);
    let waiter = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.next(Duration::from_secs(300))
    });
    control.close_channel(shared.channel()).unwrap();
    let woken = waiter.join().unwrap();
    assert!(matches!(woken, Err(ChannelError::Closed(_))), "{woken:?}");
    assert_eq!(shared.try_next(), Err(ChannelClosed), "and stays so");
    assert!(matches!(
        shared.next(Duration::ZERO),
        Err(ChannelError::Closed(_))
    ));
    control.dealloc_pd(pd).map_err(|(_, e)| e).unwrap();
    control.shutdown(events).map_err(|e| e.error).unwrap();
}
