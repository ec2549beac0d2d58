//! Register values, access classes and reset domains.

use super::*;

use e810_hal::bus::{BAR0_LEN, Vector, VsiId};
use e810_hal::regs::{ALL, Space};

fn file() -> RegisterFile {
    RegisterFile::new(
        Identity {
            pf: 3,
            vectors: 5,
            vsi: 11,
            pe_db_size: 2,
        },
        Start::Warm,
    )
}

#[test]
fn a_warm_function_is_what_a_bring_up_waits_for() {
    let file = file();
    assert_eq!(file.get(regs::GLPE_CPUSTATUS0.off()), 0x80);
    assert_eq!(file.get(regs::GLPE_CPUSTATUS1.off()), 0x80);
    assert_eq!(file.get(regs::GLPE_CPUSTATUS2.off()), 0x80);
    assert_eq!(file.get(regs::GLPCI_LBARCTRL.off()) >> 4 & 3, 2);
    assert_eq!(file.get(regs::GLNVM_ULD.off()) & 0x73b, 0x73b);
    assert_eq!(file.get(regs::GLGEN_RSTAT.off()) & 3, 0);
    assert_eq!(file.get(regs::PF_FUNC_RID.off()) & 7, 3);
    assert_eq!(file.get(regs::PRTDCB_TUP2TC.off()), 0);
    assert_eq!(file.get(regs::GLINT_CTL.off()), 0x2222_0000);
    let alloc = file.get(regs::PFINT_ALLOC.off());
    assert_eq!(
        (alloc & 0x7ff, alloc >> 12 & 0x7ff, alloc >> 31),
        (768, 772, 1)
    );
    let vsi = VsiId::new(11).unwrap();
    assert_eq!(file.get(regs::VSIQF_PE_CTL1.at(vsi).off()), 1);
    let vector = Vector::new(4).unwrap();
    assert_eq!(file.get(regs::GLINT_VECT2FUNC.at(vector).off()), 0x1_3000);
}

/// The registers that FreeBSD's driver of the engine writes at its start (field-evidence 7).
#[test]
fn what_another_driver_writes_at_its_start_is_there() {
    let mut file = file();
    let rdpu = regs::GL_RDPU_CNTRL.off();
    for (off, name) in [
        (rdpu, "GL_RDPU_CNTRL"),
        (RegOffset::try_new(0x50_e000).unwrap(), "GLPE_WQMTXIDXADDR"),
        (RegOffset::try_new(0x50_e004).unwrap(), "GLPE_WQMTXIDXDATA"),
    ] {
        let element = file.element(off).unwrap();
        assert_eq!(super::name(off), name);
        assert!(is_readable(&element) && is_writable(&element), "{name}");
        file.set(off, 3 << 10);
    }
    file.clear(ResetSource::Pfr);
    assert_eq!(file.get(rdpu), 3 << 10);
    file.clear(ResetSource::Corer);
    assert_eq!(file.get(rdpu), 0);
}

#[test]
fn functions_with_many_vectors_share_the_card() {
    for (vectors, pf, first) in [(5, 3, 768), (256, 7, 1792), (512, 3, 1536), (1024, 1, 1024)] {
        let identity = Identity {
            pf,
            vectors,
            vsi: 11,
            pe_db_size: 2,
        };
        let file = RegisterFile::new(identity, Start::Warm);
        let alloc = file.get(regs::PFINT_ALLOC.off());
        let last = first + u32::from(vectors) - 1;
        assert_eq!((alloc & 0x7ff, alloc >> 12 & 0x7ff), (first, last));
    }
}

#[test]
fn both_addresses_of_a_pfhmc_register_are_one_register() {
    let mut file = file();
    file.set(regs::PFHMC_ERRORINFO.off(), 0x8000_0001);
    assert_eq!(file.get(regs::PFHMC_ERRORINFO_FPMAT.off()), 0x8000_0001);
    for (one, other) in [
        (regs::PFHMC_PDINV.off(), regs::PFHMC_PDINV_FPMAT.off()),
        (regs::PFHMC_SDCMD.off(), regs::PFHMC_SDCMD_FPMAT.off()),
        (
            regs::PFHMC_ERRORDATA.off(),
            regs::PFHMC_ERRORDATA_FPMAT.off(),
        ),
    ] {
        assert_eq!(canonical(one), canonical(other));
    }
}

/// Each register of BAR0 is cleared by its own reset and by wider ones, and by no other reset.
#[test]
fn resets_clear_their_domains() {
    use e810_hal::regs::Reset;
    let sources = [
        ResetSource::Pfr,
        ResetSource::Corer,
        ResetSource::Globr,
        ResetSource::Empr,
    ];
    for source in sources {
        let mut file = file();
        // Miri is slow, and more registers would show nothing new.
        let every = if cfg!(miri) { 9 } else { 1 };
        let in_bar0 = || {
            let all = ALL.iter().filter(|info| info.space == Space::Bar0);
            all.step_by(every)
        };
        for info in in_bar0() {
            file.set(RegOffset::new(info.offset), 0xabcd);
        }
        file.clear(source);
        for info in in_bar0() {
            let cleared = file.get(RegOffset::new(info.offset)) == 0;
            let expected = match (info.reset, source) {
                (Reset::Pfr, _) => true,
                (Reset::Corer | Reset::Vfr | Reset::Unknown, ResetSource::Pfr) => false,
                (Reset::Corer | Reset::Vfr | Reset::Unknown, _) => true,
                (Reset::Empr, ResetSource::Empr) => true,
                _ => false,
            };
            assert_eq!(cleared, expected, "{} after {source:?}", info.name);
        }
    }
}

#[test]
fn after_a_reset_the_function_is_warm_again() {
    let mut warm = file();
    let before = warm.values.clone();
    warm.set(regs::PFPE_CQPTAIL.off(), 5);
    warm.clear(ResetSource::Corer);
    assert_eq!(warm.get(regs::GLPE_CPUSTATUS0.off()), 0);
    warm.load_again(ResetSource::Corer);
    assert_eq!(warm.values, before);
}

#[test]
fn names_are_for_people() {
    let vector = Vector::new(3).unwrap();
    assert_eq!(
        name(regs::GLINT_DYN_CTL.at(vector).off()),
        "GLINT_DYN_CTL(3)"
    );
    assert_eq!(name(regs::PFPE_CQPDB.off()), "PFPE_CQPDB");
    assert_eq!(name(regs::DB_CQ_ARM.off()), "DOORBELL_PAGE+0x40");
    assert_eq!(name(RegOffset::new(0x7F_1000)), "0x7f1000");
}

#[test]
fn named_bits_are_those_of_the_reference() {
    let mut file = file();
    let bits = |file: &mut RegisterFile, off| named_bits(&file.element(off).unwrap());
    assert_eq!(bits(&mut file, regs::PFPE_CQPTAIL.off()), 0x8000_07ff);
    assert_eq!(bits(&mut file, regs::PFPE_CQPERRCODES.off()), u32::MAX);
    assert_eq!(bits(&mut file, regs::PFINT_AEQCTL.off()), 0xc000_1fff);
    assert!(file.element(RegOffset::new(0x7F_1000)).is_none());
}

#[test]
fn every_element_of_every_register_is_found_at_its_offset() {
    let mut elements = 0;
    for register in lookup::all() {
        for element in register.elements() {
            let off = RegOffset::try_new(element.offset()).unwrap();
            assert_eq!(find_element(off), Some(element), "{element}");
            elements += 1;
        }
    }
    assert!(elements > 100_000, "{elements}");
}

#[test]
fn between_registers_there_is_none() {
    // Behind the last element of an array, before all registers and behind all.
    let last = regs::VSIQF_PE_CTL1.at(VsiId::new(767).unwrap());
    for off in [last.off().get() + 4, 4, BAR0_LEN - 4] {
        let off = RegOffset::try_new(off).unwrap();
        assert_eq!(find_element(off), None, "{off:?}");
    }
}
