use super::*;
use crate::bus::{BAR0_LEN, Bus, CeqId, Index, ItrIndex, RegIndex, RegOffset, Vector};
use crate::reg::AccessKind;
use core::cell::RefCell;
use std::collections::BTreeMap;
use std::format;
use std::string::ToString;
use std::vec::Vec;

/// Remembers what was written and answers reads with it.
#[derive(Default)]
struct Memory {
    words: RefCell<BTreeMap<u32, u32>>,
    log: RefCell<Vec<(char, u32, u32)>>,
}

impl Bus for Memory {
    fn read32(&self, off: RegOffset) -> u32 {
        let value = self.words.borrow().get(&off.get()).copied().unwrap_or(0);
        self.log.borrow_mut().push(('r', off.get(), value));
        value
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.words.borrow_mut().insert(off.get(), value);
        self.log.borrow_mut().push(('w', off.get(), value));
    }
}

/// Every element of `register`, or under Miri its corners.
fn elements(register: &RegInfo) -> Vec<u32> {
    let mut offsets = std::vec![register.offset];
    for dim in register.index {
        let indexes: Vec<u32> = if cfg!(miri) {
            std::vec![0, 1, dim.max]
        } else {
            (0..=dim.max).collect()
        };
        offsets = offsets
            .iter()
            .flat_map(|base| indexes.iter().map(move |i| base + i * dim.stride))
            .collect();
    }
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

#[test]
fn no_two_registers_share_an_address() {
    for space in [Space::Bar0, Space::MsixBar, Space::VfBar0] {
        let mut owner = BTreeMap::new();
        for register in ALL.iter().filter(|register| register.space == space) {
            for offset in elements(register) {
                let other = owner.insert(offset, register.name);
                assert_eq!(other, None, "{offset:#x} is also {}", register.name);
                assert!(offset.is_multiple_of(4));
                assert!(space != Space::Bar0 || offset < BAR0_LEN);
            }
        }
        assert!(!owner.is_empty());
    }
}

#[test]
fn names_are_unique_and_fields_have_bits_of_their_own() {
    let mut names: Vec<_> = ALL.iter().map(|register| register.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);

    for register in ALL {
        let mut taken = 0u32;
        for field in register.fields {
            assert!(field.hi >= field.lo && field.hi < 32, "{}", register.name);
            let mask = (u32::MAX >> (31 - (field.hi - field.lo))) << field.lo;
            // The one overlap there is: two readings of bit 30.
            if (register.name, field.name) != ("GL_MNG_FWSM", "FW_LOADING") {
                assert_eq!(taken & mask, 0, "{}.{}", register.name, field.name);
                taken |= mask;
            }
        }
        assert!(!register.source.is_empty());
    }
}

#[test]
fn elements_are_where_the_tables_say() {
    let v = |v| Vector::new(v).unwrap();
    assert_eq!(GLINT_DYN_CTL.at(v(0)).off(), RegOffset::new(0x16_0000));
    assert_eq!(GLINT_DYN_CTL.at(v(2047)).off(), RegOffset::new(0x16_1FFC));
    assert_eq!(
        GLINT_ITR.at(ItrIndex::new(2).unwrap(), v(3)).off(),
        RegOffset::new(0x15_4000 + 2 * 8192 + 3 * 4)
    );
    assert_eq!(
        GLQF_PEINSET
            .at(Index::new(31).unwrap(), Index::new(5).unwrap())
            .off(),
        RegOffset::new(0x41_5000 + 31 * 4 + 5 * 128)
    );
    assert_eq!(DB_WQE_ALLOC.off(), RegOffset::new(0x7F_0000));
    assert_eq!(DB_CQ_ARM.off(), RegOffset::new(0x7F_0040));
    assert_eq!(MSIX_TVCTRL1.offset(v(2047)), 0x7FFC);
    assert_eq!(VFPE_WQEALLOC1.offset(), 0xC000);
}

#[test]
fn an_element_is_found_again_by_its_offset() {
    for vector in [0, 1, 2046, 2047] {
        let v = Vector::new(vector).unwrap();
        assert_eq!(GLINT_DYN_CTL.locate(GLINT_DYN_CTL.at(v).off()), Some(v));
        for timer in 0..=2 {
            let t = ItrIndex::new(timer).unwrap();
            let off = GLINT_ITR.at(t, v).off();
            assert_eq!(GLINT_ITR.locate(off), Some((t, v)));
            assert_eq!(
                find(off).unwrap().to_string(),
                format!("GLINT_ITR({timer}, {vector})")
            );
        }
    }
    let (i, j) = (Index::new(7).unwrap(), Index::new(4).unwrap());
    let off = GLQF_PEINSET.at(i, j).off();
    assert_eq!(GLQF_PEINSET.locate(off), Some((i, j)));
    assert_eq!(find(off).unwrap().to_string(), "GLQF_PEINSET(7, 4)");

    // Neighbours are not elements.
    assert_eq!(GLINT_DYN_CTL.locate(RegOffset::new(0x15_FFFC)), None);
    assert_eq!(GLINT_DYN_CTL.locate(RegOffset::new(0x16_2000)), None);
    assert_eq!(GLINT_ITR.locate(RegOffset::new(0x15_3FFC)), None);
    assert_eq!(GLINT_ITR.locate(RegOffset::new(0x15_4000 + 3 * 8192)), None);
    // The device has GLINT_CEQCTL(1024), CEQ ids do not reach it.
    assert_eq!(
        GLINT_CEQCTL.locate(RegOffset::new(0x15_C000 + 4 * 1024)),
        None
    );
    assert_eq!(
        GLINT_CEQCTL.locate(RegOffset::new(0x15_C000 + 4 * 1023)),
        CeqId::new(1023)
    );
}

#[test]
fn every_element_has_a_name_and_other_offsets_have_none() {
    // Each search walks the table: under Miri only a few.
    let (step, enough) = if cfg!(miri) { (20, 20) } else { (1, 300) };
    let mut seen = 0;
    let in_bar0 = ALL.iter().filter(|register| register.space == Space::Bar0);
    for register in in_bar0.step_by(step) {
        let all = elements(register);
        for offset in [all[0], all[all.len() / 2], all[all.len() - 1]] {
            let element = find(RegOffset::new(offset)).unwrap();
            assert_eq!(element.register.name, register.name);
            seen += 1;
        }
    }
    assert!(seen > enough);
    assert_eq!(
        find(RegOffset::new(0x50_0800)).unwrap().to_string(),
        "PFPE_CQPDB"
    );
    assert_eq!(
        find(RegOffset::new(0x16_0014)).unwrap().to_string(),
        "GLINT_DYN_CTL(5)"
    );
    assert_eq!(find(RegOffset::new(0x50_0804)), None);
    assert_eq!(
        find(RegOffset::new(0)),
        None,
        "MSI-X and VF registers are elsewhere"
    );
}

#[test]
fn programmed_values_are_those_of_the_tables() {
    assert_eq!(DYN_CTL_ENABLE, 0x3);
    assert_eq!(DYN_CTL_ENABLE_KEEP_ITR, 0x1B);
    assert_eq!(DYN_CTL_OTHER_CAUSE_SETUP, 0x8600_0000);
    assert_eq!(DYN_CTL_WRITE_BACK, 0xC000_0018);
    assert_eq!(CAUSE_ENABLED, 0x4000_1800);
    assert_eq!(CAUSE_DISABLED, 0x1800);
    assert_eq!(ITR_GRAN_ALL, 0x2222_0000);
    assert_eq!(OICR_ENABLED, 0x3C39_0000);
    assert_eq!(OICR_RDMA, 0x1C00_0000);
    assert_eq!(ULD_DONE, 0x33B);
    assert_eq!(ULD_DONE_RDMA, 0x73B);
    assert_eq!(RXDID_FLEX_NIC, 0xB02);
}

#[test]
fn accesses_are_the_ones_asked_for_and_no_others() {
    let memory = Memory::default();
    let v = Vector::new(5).unwrap();
    GLINT_DYN_CTL.at(v).write(
        &memory,
        GLINT_DYN_CTL::INTENA::SET + GLINT_DYN_CTL::CLEARPBA::SET,
    );
    PFINT_OICR_ENA.set(&memory, OICR_ENABLED);
    PFINT_OICR_CTL.set(&memory, CAUSE_ENABLED | 7);
    PFINT_OICR_CTL.modify(&memory, PFINT_OICR_CTL::MSIX_INDX.val(9));
    let ctl = PFINT_OICR_CTL.read(&memory);
    assert_eq!(ctl.read(PFINT_OICR_CTL::MSIX_INDX), 9);
    assert!(ctl.is_set(PFINT_OICR_CTL::CAUSE_ENA));
    assert!(ctl.matches_all(PFINT_OICR_CTL::ITR_INDX::NoTimer));
    assert_eq!(PFINT_OICR_ENA.get(&memory), OICR_ENABLED);
    PFINT_OICR.write(&memory, PFINT_OICR::TSYN_TX::SET);
    assert!(PFINT_OICR.read_clear(&memory).is_set(PFINT_OICR::TSYN_TX));
    assert_eq!(
        *memory.log.borrow(),
        [
            ('w', 0x16_0014, 0x3),
            ('w', 0x16_C900, 0x3C39_0000),
            ('w', 0x16_CA80, 0x4000_1807),
            ('r', 0x16_CA80, 0x4000_1807),
            ('w', 0x16_CA80, 0x4000_1809),
            ('r', 0x16_CA80, 0x4000_1809),
            ('r', 0x16_C900, 0x3C39_0000),
            ('w', 0x16_CA00, 1 << 11),
            ('r', 0x16_CA00, 1 << 11),
        ]
    );
}

#[test]
fn the_table_tells_access_and_reset() {
    let named = |name| ALL.iter().find(|register| register.name == name).unwrap();
    assert_eq!(named("PFINT_OICR").access, AccessKind::ReadClears);
    assert_eq!(named("PFPE_CQPDB").access, AccessKind::WriteOnly);
    assert_eq!(named("GLPE_CPUSTATUS0").access, AccessKind::ReadOnly);
    assert_eq!(named("PFGEN_CTRL").access, AccessKind::Trigger);
    assert_eq!(named("PFPE_CQPDB").reset.name(), "PFR");
    assert_eq!(named("GLPE_CRITERR").reset, Reset::Unknown);
    assert_eq!(named("MSIX_TMSG").space, Space::MsixBar);
    assert_eq!(named("GLINT_CEQCTL").index[0].max, 2047);
    assert_eq!(CeqId::MAX, 1023);
}

#[test]
fn registers_of_each_lan_queue_are_known_as_such() {
    let per_queue: Vec<_> = ALL.iter().filter(|info| is_per_queue(info)).collect();
    assert_eq!(per_queue.len(), 8);
    assert!(per_queue.iter().all(|info| info.name.starts_with('Q')));
}

#[test]
fn elements_are_those_of_the_array_in_order() {
    let itr = ALL.iter().find(|info| info.name == "GLINT_ITR").unwrap();
    let elements: Vec<_> = itr.elements().collect();
    assert_eq!(elements.len(), 3 * 2048);
    let (timer, vector) = (ItrIndex::new(1).unwrap(), Vector::new(5).unwrap());
    let element = elements[2048 + 5];
    assert_eq!(element.to_string(), "GLINT_ITR(1, 5)");
    assert_eq!(element.offset(), GLINT_ITR.at(timer, vector).off().get());
    let alone = ALL.iter().find(|info| info.name == "PFPE_CQPDB").unwrap();
    assert_eq!(alone.elements().count(), 1);
    assert!(!alone.is_read_pure() && itr.is_read_pure());
    let oicr = ALL.iter().find(|info| info.name == "PFINT_OICR").unwrap();
    assert!(!oicr.is_read_pure());
}
