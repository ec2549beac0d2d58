//! Tables of peers that are full, which an error number does not name.

use std::sync::atomic::{AtomicU8, Ordering};

use e810::{Error, Object};
use e810_node::station::Unresolved;

use crate::control::Refused;
use crate::device::complain::complain;

/// One line on standard error that names the table, the first time in a process for each.
pub(super) fn complain_of(refused: &Refused) {
    static SAID: AtomicU8 = AtomicU8::new(0);
    if let Some((table, line)) = full(refused)
        && SAID.fetch_or(table, Ordering::Relaxed) & table == 0
    {
        complain(&line);
    }
}

/// The table that is full, as a bit, and what to say of it.
fn full(refused: &Refused) -> Option<(u8, String)> {
    match refused {
        Refused::Unresolved(error @ Unresolved::NoRoom { .. }) => Some((1, error.to_string())),
        Refused::Unresolved(error @ Unresolved::KernelTableFull { .. }) => {
            Some((2, error.to_string()))
        }
        Refused::Driver(Error::Exhausted {
            object: Object::Arp,
            limit,
        }) => {
            let line = format!(
                "the card's ARP table is full: queue pairs and address handles go to {limit} addresses; use fewer peers, or destroy those that are not needed"
            );
            Some((4, line))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno;

    #[test]
    fn full_tables_are_named_and_others_are_not_spoken_of() {
        let destination = [10, 8, 1, 1].into();
        let arp = Error::Exhausted {
            object: Object::Arp,
            limit: 4095,
        };
        let family = "ipv4";
        let neighbours = 4096;
        let named = [
            (
                Unresolved::NoRoom {
                    destination,
                    neighbours,
                }
                .into(),
                "the table of neighbours is full",
            ),
            (
                Unresolved::KernelTableFull {
                    destination,
                    family,
                }
                .into(),
                "net.ipv4.neigh.default.gc_thresh3",
            ),
            (Refused::Driver(arp), "the card's ARP table is full"),
        ];
        let mut bits = 0;
        for (refused, name) in named {
            let (bit, line) = full(&refused).unwrap();
            assert!(line.contains(name), "{line}");
            assert_eq!(errno::of(&refused), libc::ENOBUFS, "{line}");
            bits += bit;
        }
        assert_eq!(bits, 7, "each its own");
        let ahs = Error::Exhausted {
            object: Object::Ah,
            limit: 1024,
        };
        assert_eq!(full(&Refused::Driver(ahs)), None);
        assert_eq!(errno::of(&Refused::Driver(ahs)), libc::ENOMEM);
        let no_route = Refused::from(Unresolved::NoRoute { destination });
        assert_eq!(full(&no_route), None);
        assert_eq!(errno::of(&no_route), libc::ENETUNREACH);
        let limit = e810_hal::Ns::from_ms(3000);
        let via = destination;
        let no_answer = Unresolved::NoAnswer {
            destination,
            via,
            limit,
        };
        assert_eq!(errno::of(&no_answer.into()), libc::ETIMEDOUT);
    }
}
