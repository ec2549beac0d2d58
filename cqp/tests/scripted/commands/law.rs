//! Any sequence of commands, against a list.

use e810_cqp::{Error, Ticket};
use e810_hal::{Clock, Ns};
use proptest::prelude::*;

use super::{arp, close, with_ccq};
use crate::fake::Script;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Against a list: every posted command is reported once, in the order of
    /// posting, whatever is given up, delayed or malformed in between.
    #[test]
    fn every_command_is_reported_once(
        steps in prop::collection::vec((0u8..7, any::<u16>()), 1..120),
        delay in 0u32..4,
    ) {
        let (fake, mut cqp) = with_ccq(Script { steps: delay, ..Script::default() });
        let mut open: Vec<Ticket> = Vec::new();
        let mut given_up = 0u64;
        for (action, value) in steps {
            match action {
                0 | 1 => match cqp.submit(&arp(value & 0xFFF)) {
                    Ok(ticket) => open.push(ticket),
                    Err(error) => prop_assert_eq!(error, Error::RingFull { entries: 7 }),
                },
                2 => {
                    if let Some(done) = cqp.poll().unwrap() {
                        prop_assert!(!open.is_empty());
                        prop_assert_eq!(done.ticket, open.remove(0));
                    }
                }
                3 => fake.delay(Ns(1)),
                4 => {
                    if !open.is_empty() {
                        let ticket = open.remove(value as usize % open.len());
                        prop_assert_eq!(cqp.wait(ticket).unwrap().ticket, ticket);
                    }
                }
                5 if !open.is_empty() => {
                    // Too short for a slow device: the ticket is void then.
                    let ticket = open.remove(value as usize % open.len());
                    match cqp.wait_within(ticket, Ns::from_us(20)) {
                        Ok(done) => prop_assert_eq!(done.ticket, ticket),
                        Err(error) => {
                            prop_assert!(error.leaves_command_open(), "{}", error);
                            prop_assert_eq!(cqp.wait(ticket), Err(Error::UnknownTicket));
                            given_up += 1;
                        }
                    }
                }
                _ if value % 2 == 0 => {
                    if !open.is_empty() {
                        cqp.forget(open.remove(value as usize % open.len()));
                        given_up += 1;
                    }
                }
                _ => fake.device_mut().script.bad_entries.push_back((1, u64::from(value & 7))),
            }
            prop_assert!(cqp.outstanding() <= 7);
        }
        for ticket in open {
            prop_assert_eq!(cqp.wait(ticket).unwrap().ticket, ticket);
        }
        // Each delay is one step of the device.
        for _ in 0..64 {
            fake.delay(Ns(1));
            prop_assert_eq!(cqp.poll().unwrap(), None);
        }
        prop_assert_eq!(cqp.outstanding(), 0);
        prop_assert!(cqp.counters().late <= given_up);
        close(&fake, cqp);
    }
}
