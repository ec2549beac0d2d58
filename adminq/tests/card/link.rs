//! The PHY and the link.

use e810_adminq::link::{self, NoLink};
use e810_adminq::{AdminQ, Error};
use e810_hal::Ns;

use super::fake::{Fake, Fault, FirmwareFake, Reply};
use super::{finish, started};

#[test]
fn a_phy_is_configured_only_where_it_is_not() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    assert!(link::watch(&mut queue, 0).unwrap().is_up());
    assert_eq!(fake.opcodes()[1..], [0x0613, 0x0607]);
    let configure = |queue: &mut AdminQ<Fake>| {
        let before = fake.opcodes().len();
        let changed = link::configure(queue, 0).unwrap();
        (changed, fake.opcodes()[before..].to_vec())
    };
    assert_eq!(configure(&mut queue), (false, vec![0x0600, 0x0600]));
    fake.device_mut().state.phy_enabled = false;
    assert_eq!(configure(&mut queue), (true, vec![0x0600, 0x0600, 0x0601]));
    assert!(fake.device_mut().state.phy_enabled);
    // Active without error correction, the module with.
    let caps = |fec: u8| {
        let mut caps = [0; 560];
        (caps[0], caps[16], caps[34]) = (7, 8, fec);
        Fault::Answer(Reply::default().data(caps))
    };
    fake.device_mut().fault(0x0600, caps(0));
    fake.device_mut().fault(0x0600, caps(4));
    assert!(configure(&mut queue).0);
    // Refusals are no failure, and counted.
    let before = queue.counters().tolerated;
    fake.device_mut().fault(0x0600, Fault::Code(5));
    assert_eq!(configure(&mut queue), (false, vec![0x0600]));
    fake.device_mut().state.phy_enabled = false;
    fake.device_mut().fault(0x0601, Fault::Code(21));
    assert!(!configure(&mut queue).0);
    assert_eq!(queue.counters().tolerated - before, 2);
    finish(&fake, queue);
}

#[test]
fn a_link_is_restarted_once_and_not_early() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().state.link = false;
    fake.device_mut().state.link_in = Some(4);
    link::wait_up(&mut queue, 0, Ns::from_ms(2_000)).unwrap();
    assert!(!fake.opcodes().contains(&0x0605), "it was coming up");
    // In its first three seconds it may yet be, however short the wait.
    fake.device_mut().state.link = false;
    fake.device_mut().state.link_in = Some(40);
    for _ in 0..2 {
        link::wait_up(&mut queue, 0, Ns::from_ms(1_000)).unwrap_err();
    }
    assert!(!fake.opcodes().contains(&0x0605));
    for refused in [false, true] {
        fake.device_mut().state.link = false;
        fake.device_mut().state.link_in = Some(50);
        if refused {
            fake.device_mut().fault(0x0605, Fault::Code(21));
        }
        let before = fake.opcodes().len();
        link::wait_up(&mut queue, 0, Ns::from_ms(8_000)).unwrap();
        let sent = fake.opcodes()[before..].to_vec();
        let restarts = sent.iter().filter(|opcode| **opcode == 0x0605);
        assert_eq!(restarts.count(), 1, "{sent:x?}");
    }
    finish(&fake, queue);
}

#[test]
fn a_port_without_a_module_says_so() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    (fake.device_mut().state.link, fake.device_mut().state.media) = (false, false);
    let error = link::wait_up(&mut queue, 0, Ns::from_ms(500)).unwrap_err();
    assert_eq!(
        error,
        Error::NoLink {
            reason: NoLink::NoMedia
        }
    );
    assert!(error.to_string().contains("no module or cable"));
    assert!(!fake.opcodes().contains(&0x0605), "nothing to restart");
    finish(&fake, queue);
}
