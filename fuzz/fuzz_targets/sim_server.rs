//! Bytes of a user of the server of simulated functions: headers, then whatever they
//! say follows.
//!
//! Configuration space and interrupts are the ones that are served. Registers and
//! mappings are not there, and no descriptors come: those are for `tests/hostile/run`.

#![no_main]

use std::fs::File;

use e810_sim_server::config_space::ConfigSpace;
use e810_sim_server::interrupts::Interrupts;
use e810_sim_server::messages::{DmaMap, HEADER, Header, KIND, NO_REPLY, REPLY, SetIrqs};
use e810_sim_server::protocol::{self, Function, LONGEST};
use libfuzzer_sys::fuzz_target;
use zerocopy::FromBytes;

/// Configuration space and interrupts as they are served, and accesses held to the
/// bounds of their regions.
struct Target {
    config: ConfigSpace,
    interrupts: Interrupts,
}

fn check(region: u32, offset: u64, bytes: usize) {
    let end = offset.checked_add(bytes as u64);
    assert!(end.is_some_and(|end| end <= protocol::region_len(region)));
}

impl Function for Target {
    fn vectors(&self) -> u32 {
        64
    }

    fn read(&mut self, region: u32, offset: u64, into: &mut [u8]) {
        check(region, offset, into.len());
        self.config.read(offset, into);
    }

    fn write(&mut self, region: u32, offset: u64, from: &[u8]) {
        check(region, offset, from.len());
        self.config.write(offset, from);
    }

    fn map(&mut self, _: &DmaMap, _: Option<File>) {}

    fn unmap(&mut self, _: u64, _: u64) {}

    fn set_irqs(&mut self, set: &SetIrqs, fds: Vec<File>) {
        self.interrupts.set(set.flags, set.start, set.count, fds);
    }

    fn reset(&mut self) {
        self.config.reset();
    }
}

fuzz_target!(|bytes: &[u8]| {
    let place = e810_sim_server::config_space::Place {
        card: [2, 0, 0, 0, 0, 1],
        function: 0,
        functions: 2,
        vectors: 64,
    };
    let mut target = Target {
        config: ConfigSpace::new(&place),
        interrupts: Interrupts::new(64),
    };
    let mut reply = Vec::new();
    let mut rest = bytes;
    while let Ok((header, behind)) = Header::read_from_prefix(rest) {
        let Ok(bytes) = protocol::body_len(&header) else {
            return;
        };
        assert!(bytes <= LONGEST);
        // A user that stops in the middle of a message is waited for.
        let Some((body, behind)) = behind.split_at_checked(bytes) else {
            return;
        };
        rest = behind;
        protocol::answer(&mut target, &header, body, Vec::new(), &mut reply);
        assert!(reply.capacity() <= 2 * (HEADER + LONGEST));
        match Header::read_from_prefix(&reply) {
            Ok((first, _)) => {
                assert_eq!(first.size as usize, reply.len());
                assert_eq!((first.id, first.flags & KIND), (header.id, REPLY));
            }
            Err(_) => assert!(reply.is_empty() && header.flags & NO_REPLY != 0),
        }
    }
});
