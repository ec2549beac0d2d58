//! Both ends of a connection are of one function.

use e810_types::Ns;

use super::super::*;
use super::bench::GUID;
use super::rig::{accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, PortSpace};

#[test]
fn a_function_connects_with_itself() {
    let mut machine = machine(8, Config::new(GUID), 5);
    listen(&mut machine, PortSpace::Tcp);
    let connect = Connect {
        destination: own_address(1),
        ..connect_to(1, 0, 10)
    };
    let id = machine.connect(&connect).unwrap();
    let own = Origin {
        remote: ip::gid(own_address(1)),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    };
    let (mut mad, mut peer, mut established) = ([0; 256], None, 0);
    loop {
        if let Some((id, _)) = machine.unreached(0) {
            machine.reached(id, Ns::ZERO).unwrap();
        }
        while let Some(event) = machine.event() {
            match event {
                Event::Requested { id, .. } => {
                    peer = Some(id);
                    machine.accept(id, &accept_with(11)).unwrap();
                }
                Event::Accepted(which) => {
                    assert_eq!(which, id);
                    machine.ready(id).unwrap();
                    established += 1;
                }
                Event::Established(which) => {
                    assert_eq!(Some(which), peer);
                    established += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        if machine.transmit(Ns::ZERO, &mut mad).is_none() {
            break;
        }
        machine.receive(&mad, &own, Ns::ZERO);
    }
    assert_eq!(established, 2);
    assert_eq!(machine.queue_pairs(id), Some([10, 11]));
    assert_eq!(machine.queue_pairs(peer.unwrap()), Some([11, 10]));
}
