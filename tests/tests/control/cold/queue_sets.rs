//! The RDMA queue set of the first queue pair: registered, removed, refused.

use e810::{Control, Cq, Error, EventSet, Pd, Qp, QpCaps, QpInit, Vlan};
use e810_sim::variation::QueueSetHandles;
use e810_sim::{AqCode, AqFault, PortLink, Sim, SimPlatform, Variation};
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};

use crate::cold::world::{assert_as_found, assert_vectors_back, builder, card, up};

struct Up {
    sim: Sim,
    nic: SimPlatform,
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    pd: Pd,
    cq: Cq<SimPlatform>,
}

const CAPS: QpCaps = QpCaps {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 0,
};

impl Up {
    fn new(layers: u8) -> Self {
        let (sim, nic) = card(move |config| config.layers = layers);
        Self::on(sim, nic)
    }

    fn on(sim: Sim, nic: SimPlatform) -> Self {
        let (mut control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
        let pd = control.alloc_pd().unwrap();
        let cq = control.create_cq(16, 0).unwrap();
        Self {
            sim,
            nic,
            control,
            events,
            pd,
            cq,
        }
    }

    fn commands(&self) -> u64 {
        self.control.lan_side().unwrap().counters().commands
    }

    fn queue_pair(&mut self) -> Result<Qp<SimPlatform>, Error> {
        let init = QpInit::rc(&self.cq, &self.cq, CAPS);
        self.control.create_qp(&self.pd, &init)
    }

    fn destroy(&mut self, qp: Qp<SimPlatform>) {
        self.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    }

    fn fault(&self, opcode: u16, nth: u32, fault: AqFault) {
        self.sim
            .configure_firmware(0, |config| config.fault(opcode, nth, fault));
    }

    fn end(self) -> (Sim, SimPlatform, Option<Error>) {
        let Self {
            sim,
            nic,
            mut control,
            events,
            pd,
            cq,
        } = self;
        control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
        control.dealloc_pd(pd).map_err(|(_, e)| e).unwrap();
        let end = control.shutdown(events).map_err(|failed| failed.error);
        (sim, nic, end.err())
    }
}

/// Elements of the chain below the VSI's, then the set, then its element read
/// back. A second queue pair needs no command.
#[test]
fn one_queue_set_a_class() {
    for (layers, elements) in [(9, 2), (5, 0)] {
        let mut up = Up::new(layers);
        for round in 0..3 {
            let before = up.commands();
            let first = up.queue_pair().unwrap();
            let expected = if round == 0 { elements + 2 } else { 2 };
            assert_eq!(up.commands() - before, expected, "{layers} layers");
            let second = up.queue_pair().unwrap();
            assert_eq!(up.commands() - before, expected);
            up.destroy(first);
            assert_eq!(up.commands() - before, expected);
            up.destroy(second);
            assert_eq!(up.commands() - before, expected + 1);
        }
        let (sim, _, error) = up.end();
        assert_eq!(error, None);
        assert_as_found(&sim);
    }
}

#[test]
fn a_refused_queue_set_leaves_nothing_behind() {
    for (opcode, nth) in [(0x0401, 1), (0x0401, 2), (0x0C33, 1), (0x0404, 1)] {
        for fault in [
            AqFault::Error(AqCode::ENOSPC),
            AqFault::Truncated(0),
            AqFault::DataLen(u16::MAX),
        ] {
            let what = format!("{opcode:#06x} use {nth}: {fault:?}");
            let mut up = Up::new(9);
            up.fault(opcode, nth, fault);
            let error = up.queue_pair().err();
            assert!(matches!(error, Some(Error::Adminq(_))), "{what}: {error:?}");
            // The next try goes on from there, unless an element is lost.
            let lost = opcode == 0x0401 && !matches!(fault, AqFault::Error(_));
            match up.queue_pair() {
                Ok(qp) => up.destroy(qp),
                Err(error) => assert!(lost, "{what}: {error}"),
            }
            let (sim, _, error) = up.end();
            assert_eq!(error, None, "{what}");
            assert_as_found(&sim);
        }
    }
}

#[test]
fn a_queue_set_that_cannot_be_removed_is_left_to_the_reset() {
    let mut up = Up::new(9);
    let qp = up.queue_pair().unwrap();
    up.fault(0x0C31, 1, AqFault::Error(AqCode::EIO));
    up.destroy(qp);
    let (sim, nic, _) = up.end();
    assert!(sim.memory(0).nothing_held());
    assert_vectors_back(&nic);
    // Nothing of it is in the way of the next start.
    let _ = sim.take_findings();
    crate::cold::world::up(nic, &mut |_| {})
        .unwrap()
        .shutdown()
        .unwrap();
    assert_as_found(&sim);
}

/// A leaf whose handle is that of a queue set that is left: the old one goes first, or there is none.
#[test]
fn a_queue_set_that_is_left_is_not_taken_for_the_next_of_its_handle() {
    for refusals in [1, 2] {
        let variation = Variation {
            queue_set_handles: QueueSetHandles::Lowest,
            ..Variation::default()
        };
        let sim = builder(1).variation(variation).build();
        let nic = sim.function(0);
        let mut up = Up::on(sim, nic);
        let qp = up.queue_pair().unwrap();
        for nth in 1..=refusals {
            up.fault(0x0C31, nth, AqFault::Error(AqCode::EIO));
        }
        up.destroy(qp);
        if refusals > 1 {
            let error = up.queue_pair().unwrap_err();
            assert!(matches!(error, Error::Adminq(_)), "{error:?}");
        }
        let qp = up.queue_pair().unwrap();
        up.destroy(qp);
        let (sim, _, error) = up.end();
        assert_eq!(error, None);
        assert_as_found(&sim);
    }
}

#[test]
fn a_silent_firmware_does_not_take_the_queue_pairs_along() {
    let mut up = Up::new(9);
    let first = up.queue_pair().unwrap();
    up.fault(0x0C31, 1, AqFault::Silence);
    up.destroy(first);
    let error = up.queue_pair().err();
    assert!(matches!(error, Some(Error::Adminq(_))), "{error:?}");
    let (sim, nic, error) = up.end();
    assert!(matches!(error, Some(Error::Adminq(_))), "{error:?}");
    let held = sim.memory(0);
    assert_eq!(
        (held.host_blocks, held.mappings, held.dma_blocks),
        (0, 0, 1)
    );
    assert_vectors_back(&nic);
}

/// Frames that cannot leave must not keep the set: the pipe is flushed.
#[test]
fn a_queue_set_goes_without_a_link() {
    for layers in [9, 5] {
        let mut up = Up::new(layers);
        let qp = up.queue_pair().unwrap();
        up.sim
            .configure_firmware(0, |config| config.link = PortLink::Down);
        up.destroy(qp);
        assert_eq!(up.sim.refused_commands(0), []);
        let again = up.queue_pair().unwrap();
        up.destroy(again);
        let (sim, _, error) = up.end();
        assert_eq!(error, None);
        assert_as_found(&sim);
    }
}

/// A port with the classes 0 and 3: the second branch of its tree is not class 1.
#[test]
fn messages_pass_in_a_class_with_a_number_of_its_own() {
    for layers in [9, 5] {
        let sim = builder(2)
            .firmware(move |_, config| {
                (config.classes, config.layers) = (0b1001, layers);
            })
            .build();
        let setup = Setup {
            vlan: Some(Vlan { id: 5, priority: 3 }),
            ..Setup::default()
        };
        let mut pair = Pair::cold(&sim, setup);
        for side in [0, 1] {
            pair.transfer(End { side, qp: 0 }, &Transfer::new(Kind::Send, 5_000));
        }
        pair.finish(&sim);
    }
}
