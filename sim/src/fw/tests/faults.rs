//! Injected firmware faults.

use super::client::Client;
use crate::fw::AqCode;
use crate::{AqFault, ResetSource, Sim};
use e810_hal::regs as hw;
use e810_hal::{Clock, Ns};

fn order(client: &Client, nth: u32, fault: AqFault) {
    client
        .sim
        .configure_firmware(0, |fw| fw.fault(0x000a, nth, fault));
}

fn ask(client: &mut Client) -> Option<super::client::Reply> {
    client.try_send(0x000a, [0; 16], None, 4096)
}

#[test]
fn silence_lasts_until_the_queues_are_set_up_again() {
    let mut client = Client::new();
    order(&client, 2, AqFault::Silence);
    assert!(ask(&mut client).is_some());
    assert_eq!(ask(&mut client), None);
    assert_eq!(hw::PF_FW_ATQLEN.get(&client.nic) >> 30, 2, "not critical");
    let mut client = client.start();
    ask(&mut client).unwrap().ok();
}

#[test]
fn a_critical_error_shows_in_both_lengths() {
    let mut client = Client::new();
    order(&client, 1, AqFault::CriticalError);
    assert_eq!(ask(&mut client), None);
    assert_eq!(hw::PF_FW_ATQLEN.get(&client.nic) >> 30, 3);
    assert_eq!(hw::PF_FW_ARQLEN.get(&client.nic) >> 30, 3);
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn replies_can_be_wrong() {
    let mut client = Client::new();
    order(&client, 1, AqFault::Error(AqCode::EBUSY));
    order(&client, 2, AqFault::DataLen(5000));
    order(&client, 3, AqFault::Truncated(40));
    ask(&mut client).unwrap().refused(AqCode::EBUSY);
    assert_eq!(ask(&mut client).unwrap().ok().datalen, 5000);
    assert_eq!(ask(&mut client).unwrap().ok().datalen, 40);
    assert!(ask(&mut client).unwrap().ok().datalen > 200);
}

#[test]
fn events_come_before_and_after() {
    let mut client = Client::new();
    order(&client, 1, AqFault::EventBefore(0x1001));
    ask(&mut client).unwrap().ok();
    order(&client, 1, AqFault::EventAfter(0x1002));
    ask(&mut client).unwrap().ok();
    client.nic.delay(Ns(100_000));
    let opcodes: Vec<u16> = client.said().iter().map(|event| event.opcode).collect();
    assert_eq!(opcodes, [0x1001, 0x1002]);
}

#[test]
fn resets_come_in_the_middle_of_a_command() {
    let sources = [
        ResetSource::Pfr,
        ResetSource::Corer,
        ResetSource::Globr,
        ResetSource::Empr,
    ];
    for source in sources {
        let mut client = Client::of(Sim::builder().seed(source as u64));
        order(&client, 1, AqFault::Reset(source));
        assert_eq!(ask(&mut client), None, "{source:?}");
        let counts = client.sim.reset_counts(0);
        let all = [counts.pfr, counts.corer, counts.globr, counts.empr];
        let mut expected = [0; 4];
        expected[source as usize] = 1;
        assert_eq!(all, expected);
        let mut client = client.start();
        ask(&mut client).unwrap().ok();
    }
}
