//! Programs that end without a word.

use std::sync::Arc;

use e810_attach::messages::{Asked, DeallocPd, DestroyQp, Operation, encode};
use e810_attach::owner::{Held, Owner};
use e810_backends::HostDevice;

use crate::program::Client;
use crate::talk::{message, pair};
use crate::{Scenario, with_function};

/// More than the function has queue pairs, if those of the dead did not come back.
const DEAD: usize = 80;

#[derive(Clone, Copy)]
struct Dies;

impl Scenario for Dies {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let [mut a, mut b] = pair(owner, function);
        let before = owner.programs();
        for n in 0..DEAD {
            let [mut c, d] = pair(owner, function);
            let pd = c.client.pd();
            let more: Vec<_> = (0..16).map(|_| c.client.qp(pd, &c.cq)).collect();
            assert_eq!(owner.programs().len(), 4);
            // In the middle of messages, of which half are never taken.
            for id in 0..16 {
                c.qp.receive(id, c.region.sge(1024, 64));
                c.qp.send(id, c.region.sge(0, 64));
            }
            c.client.die();
            drop(more);
            message(&mut a, &mut b, n as u64);
            d.client.die();
            message(&mut b, &mut a, n as u64);
            assert_eq!(owner.programs(), before, "nothing is left of them");
        }
    }
}

#[test]
fn a_program_that_dies_takes_nothing_along_and_leaves_nothing() {
    with_function(Dies);
}

#[derive(Clone, Copy)]
struct Misbehaves;

impl Scenario for Misbehaves {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let [mut a, mut b] = pair(owner, function);
        // What is another's is not there.
        let stranger = Client::new(owner, function);
        let number = a.qp.number.get();
        let refused = stranger.ask(DestroyQp { number }).unwrap_err();
        assert_eq!(refused.errno, libc::EINVAL, "{refused}");
        let number = stranger.pd();
        let taken = b.client.ask(DeallocPd { number }).unwrap_err();
        assert_eq!(taken.errno, libc::EINVAL, "{taken}");
        message(&mut a, &mut b, 1);
        let held = |n: usize| owner.programs()[n].1;
        assert_eq!(
            held(2),
            Held {
                pds: 1,
                ..Held::default()
            }
        );
        // What is no message ends its program alone.
        stranger.send_and_end(&[0xFF; 100]);
        let good = encode(&Asked {
            number: 1,
            command: DeallocPd { number }.command(),
        });
        for end in 0..good.len() {
            let stranger = Client::new(owner, function);
            stranger.pd();
            stranger.send_and_end(&good[..end]);
            assert_eq!(owner.programs().len(), 2);
        }
        message(&mut b, &mut a, 2);
    }
}

#[test]
fn a_program_that_misbehaves_harms_itself_alone() {
    with_function(Misbehaves);
}
