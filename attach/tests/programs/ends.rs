//! Programs that end without a word.

use std::sync::Arc;

use e810::Iova;
use e810_attach::messages::{
    Asked, CreateCq, DeallocPd, DestroyQp, Forgotten, Operation, Token, encode,
};
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

/// Destroys its queue pairs and dies before it can say that it has forgotten them.
#[derive(Clone, Copy)]
struct DiesLater;

impl Scenario for DiesLater {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        for _ in 0..DEAD {
            let client = Client::attached(owner, function);
            let pd = client.pd();
            let cq = client.cq(8);
            let made: Vec<_> = (0..16).map(|_| client.qp(pd, &cq)).collect();
            for qp in made {
                client.destroy_qp(qp);
            }
            client.die();
        }
        assert_eq!(owner.programs(), []);
    }
}

#[test]
fn numbers_of_the_dead_come_back() {
    with_function(DiesLater);
}

#[derive(Clone, Copy)]
struct NamesMemory;

impl Scenario for NamesMemory {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let victim = Client::attached(owner, function);
        let rings = victim.program.rings();
        let theirs = rings.cq_memory(64).unwrap().place();
        let attacker = Client::attached(owner, function);
        let own = attacker.program.rings().cq_memory(64).unwrap().place();
        let cq = |place| {
            attacker.ask(CreateCq {
                place,
                vector: 0,
                token: Token::next(),
            })
        };
        let beyond = |iova: Iova, bytes: u64| Iova(iova.0 + bytes);
        let mut wrong = vec![theirs];
        for ring in [
            theirs.ring.ring,
            Iova(1 << 20),
            Iova(u64::MAX - 255),
            // More than a file for rings has.
            beyond(own.ring.ring, 1 << 20),
        ] {
            let mut place = own;
            place.ring.ring = ring;
            wrong.push(place);
        }
        let mut place = own;
        place.ring.entries = 1 << 19;
        wrong.push(place);
        place = own;
        place.shadow = theirs.shadow;
        wrong.push(place);
        for place in wrong {
            let refused = cq(place).unwrap_err();
            assert_eq!(refused.errno, libc::EFAULT, "{place:?}: {refused}");
        }
        cq(own).unwrap();
        // Nor may it say that another has forgotten something.
        let (pd, cq) = (victim.pd(), victim.cq(8));
        let qp = victim.qp(pd, &cq);
        let number = qp.number.get();
        victim.destroy_qp(qp);
        assert!(attacker.ask(Forgotten { number }).is_err());
    }
}

#[test]
fn rings_are_in_memory_that_their_program_has_lent() {
    with_function(NamesMemory);
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
