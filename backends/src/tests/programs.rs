//! Programs in other processes that map their memory themselves.

use std::sync::atomic::Ordering;

use e810_hal::{Access, DmaError, DmaMap, ProgramBytes};

use super::Rig;
use crate::Shares as _;

#[test]
fn a_program_registers_what_lies_in_its_own_addresses() {
    let rig = Rig::new(|_| {});
    let (one, other) = (rig.function.admit().unwrap(), rig.function.admit().unwrap());
    let ((first, last), (other_first, other_last)) = (one.addresses, other.addresses);
    assert!(last < other_first || other_last < first);
    assert!(last - first >= 1 << 30);
    assert_ne!(one.program, other.program);
    let map = |program, address, len| {
        let memory = ProgramBytes {
            program,
            address,
            len,
        };
        let mapping = rig.function.dma_map_program(memory, Access::ReadWrite)?;
        let run = rig.function.dma_segment(&mapping, 0).unwrap();
        assert_eq!(
            (run.iova.0, run.bytes, mapping.segments),
            (address, len as u64, 1)
        );
        assert_eq!(rig.function.dma_segment(&mapping, 1), None);
        rig.function.dma_unmap(mapping);
        assert_eq!(rig.function.dma_segment(&mapping, 0), None);
        Ok::<_, DmaError>(())
    };
    let all = usize::try_from(last - first + 1).unwrap();
    for (address, len) in [(first, 1), (first, all), (last, 1), (first + 4095, 2)] {
        map(one.program, address, len).unwrap();
    }
    for (address, len) in [
        (first, 0),
        (first - 1, 1),
        (first - 1, 2),
        (last, 2),
        (first, all + 1),
        (last + 1, 1),
        (u64::MAX, 2),
        (first, usize::MAX),
        (other_first, 1),
    ] {
        assert!(
            map(one.program, address, len).is_err(),
            "{address:#x} {len}"
        );
    }
    assert!(map(0, first, 1).is_err(), "nobody has this number");
    // The platform itself has mapped nothing.
    assert_eq!(rig.mapped(), 0);

    rig.function.dismiss(one.program).unwrap();
    let unmapped = format!("unmap all {first:#x} {last:#x}");
    assert_eq!(rig.books.lock().unwrap().log.last(), Some(&unmapped));
    assert!(map(one.program, first, 1).is_err(), "it is gone");
    map(other.program, other_first, 1).unwrap();
    // Its addresses are the next one's, its number is not.
    let next = rig.function.admit().unwrap();
    assert_eq!(next.addresses, one.addresses);
    assert!(![one.program, other.program].contains(&next.program));
}

#[test]
fn addresses_that_the_device_may_still_reach_are_nobodys() {
    let rig = Rig::new(|_| {});
    let one = rig.function.admit().unwrap();
    rig.refuse_unmap.store(true, Ordering::Relaxed);
    assert!(rig.function.dismiss(one.program).is_err());
    rig.refuse_unmap.store(false, Ordering::Relaxed);
    rig.function.dismiss(one.program).unwrap();
    assert_ne!(rig.function.admit().unwrap().addresses, one.addresses);
}

#[test]
fn there_is_room_for_many_programs_and_an_end_to_it() {
    let rig = Rig::new(|properties| properties.iova_ranges = vec![(1 << 20, (1 << 39) - 1)]);
    let mut all = Vec::new();
    let refused = loop {
        match rig.function.admit() {
            Ok(admitted) => all.push(admitted),
            Err(error) => break error.to_string(),
        }
    };
    assert!((64..256).contains(&all.len()), "{}", all.len());
    assert!(refused.contains("no free I/O addresses"), "{refused}");
    for admitted in all {
        rig.function.dismiss(admitted.program).unwrap();
    }
    rig.function.admit().unwrap();
}
