//! The register definitions against a list from a third source, both ways.
//!
//! `registers.json` was taken by script from a machine-generated register list
//! (BSD licence; names, offsets, strides and field bits only). The definitions
//! were written from the reference. Nothing may be missing, nothing different;
//! what the list does not have is named in [`NOT_LISTED`] with the reason.
//!
//! `E810_VECTORS` names another directory to read the list from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use e810_hal::regs::{ALL, RegInfo};
use serde::Deserialize;

/// Registers defined beyond the list: the reason, and the names.
const NOT_LISTED: &[(&str, &[&str])] = &[
    (
        "control-path 2.2: absent from the generated list, its offset comes from a driver",
        &["GLPE_CRITERR"],
    ),
    (
        "input of the switch block: offsets from Linux' ice (`ice_init_pkg_regs`), reset source [inf mask_reset]",
        &["GL_PREEXT_L2_PMASK0", "GL_PREEXT_L2_PMASK1"],
    ),
    (
        "pause frames of the port: offsets and fields from a driver, reset source [inf pause_reset]",
        &[
            "PRTMAC_HSEC_CTL_TX_PAUSE_QUANTA",
            "PRTMAC_HSEC_CTL_TX_PAUSE_REFRESH_TIMER",
        ],
    ),
    (
        "field-evidence 7: from Intel's FreeBSD driver, which writes it",
        &["GL_RDPU_CNTRL"],
    ),
    (
        "lan-path 2.2: LAN queues, taken from the same generated list, which this extract leaves out",
        &[
            "PFLAN_RX_QALLOC",
            "PFLAN_TX_QALLOC",
            "QINT_RQCTL",
            "QINT_TQCTL",
            "QRXFLXP_CNTXT",
            "QRX_CONTEXT",
            "QRX_CTRL",
            "QRX_TAIL",
            "QTX_COMM_DBELL",
            "QTX_COMM_HEAD",
        ],
    ),
    (
        "control-path 2.3: second addresses of the PFHMC registers, given in the text",
        &[
            "PFHMC_PDINV_FPMAT",
            "PFHMC_SDCMD_FPMAT",
            "PFHMC_SDDATALOW_FPMAT",
            "PFHMC_SDDATAHIGH_FPMAT",
            "PFHMC_ERRORINFO_FPMAT",
            "PFHMC_ERRORDATA_FPMAT",
        ],
    ),
    (
        "control-path 2.3: views of a VF, offsets given in the text, fields those of the PF [inf vf_fields]",
        &[
            "VFPE_CQPDB1",
            "VFPE_CCQPSTATUS1",
            "VFPE_CCQPHIGH1",
            "VFPE_CCQPLOW1",
            "VFPE_CQARM1",
            "VFPE_CQACK1",
            "VFPE_AEQALLOC1",
            "VFPE_CQPERRCODES1",
            "VFPE_WQEALLOC1",
        ],
    ),
    (
        "control-path 2.8, second table: HMC objects, listed there by object and column",
        &[
            "GLHMC_APBVT_BASE",
            "GLHMC_ARP_BASE",
            "GLHMC_ARP_CNT",
            "GLHMC_ARP_MAX",
            "GLHMC_ARP_OBJSZ",
            "GLHMC_CQ_BASE",
            "GLHMC_CQ_CNT",
            "GLHMC_CQ_OBJSZ",
            "GLHMC_FSIAV_BASE",
            "GLHMC_FSIAV_CNT",
            "GLHMC_FSIAV_MAX",
            "GLHMC_FSIAV_OBJSZ",
            "GLHMC_FSIMC_BASE",
            "GLHMC_FSIMC_CNT",
            "GLHMC_FSIMC_MAX",
            "GLHMC_FSIMC_OBJSZ",
            "GLHMC_HDR_BASE",
            "GLHMC_HDR_CNT",
            "GLHMC_HDR_MAX",
            "GLHMC_HDR_OBJSZ",
            "GLHMC_HTE_BASE",
            "GLHMC_HTE_CNT",
            "GLHMC_HTE_MAX",
            "GLHMC_HTE_OBJSZ",
            "GLHMC_MD_BASE",
            "GLHMC_MD_CNT",
            "GLHMC_MD_MAX",
            "GLHMC_MD_OBJSZ",
            "GLHMC_MR_BASE",
            "GLHMC_MR_CNT",
            "GLHMC_MR_MAX",
            "GLHMC_MR_OBJSZ",
            "GLHMC_OOISCFFL_BASE",
            "GLHMC_OOISCFFL_CNT",
            "GLHMC_OOISCFFL_MAX",
            "GLHMC_OOISC_BASE",
            "GLHMC_OOISC_CNT",
            "GLHMC_OOISC_MAX",
            "GLHMC_OOISC_OBJSZ",
            "GLHMC_PBLE_BASE",
            "GLHMC_PBLE_CNT",
            "GLHMC_PBLE_MAX",
            "GLHMC_Q1FL_BASE",
            "GLHMC_Q1FL_MAX",
            "GLHMC_Q1_BASE",
            "GLHMC_Q1_CNT",
            "GLHMC_Q1_MAX",
            "GLHMC_Q1_OBJSZ",
            "GLHMC_QP_BASE",
            "GLHMC_QP_CNT",
            "GLHMC_QP_OBJSZ",
            "GLHMC_RRFFL_BASE",
            "GLHMC_RRFFL_CNT",
            "GLHMC_RRFFL_MAX",
            "GLHMC_RRF_BASE",
            "GLHMC_RRF_CNT",
            "GLHMC_RRF_MAX",
            "GLHMC_RRF_OBJSZ",
            "GLHMC_TIMER_BASE",
            "GLHMC_TIMER_CNT",
            "GLHMC_TIMER_MAX",
            "GLHMC_TIMER_OBJSZ",
            "GLHMC_XFFL_BASE",
            "GLHMC_XFFL_MAX",
            "GLHMC_XF_BASE",
            "GLHMC_XF_CNT",
            "GLHMC_XF_MAX",
            "GLHMC_XF_OBJSZ",
        ],
    ),
];

#[derive(Clone, Deserialize)]
struct List {
    registers: BTreeMap<String, Listed>,
}

#[derive(Clone, Deserialize)]
struct Listed {
    offset: u32,
    #[serde(default)]
    index: Vec<ListedIndex>,
    reset: String,
    /// Highest and lowest bit, inclusive.
    fields: BTreeMap<String, [u32; 2]>,
}

#[derive(Clone, Deserialize)]
struct ListedIndex {
    stride: u32,
    max: u32,
}

fn list() -> Result<List, String> {
    let directory = std::env::var_os("E810_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors"),
        PathBuf::from,
    );
    let path = directory.join("registers.json");
    std::fs::read_to_string(&path)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Everything in which `ours` and `list` disagree, a line each.
fn differences(ours: &[RegInfo], list: &List) -> Vec<String> {
    let mut found = Vec::new();
    let extra: BTreeSet<&str> = NOT_LISTED
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    let defined: BTreeSet<&str> = ours.iter().map(|register| register.name).collect();

    for name in list.registers.keys() {
        if !defined.contains(name.as_str()) {
            found.push(format!("{name}: not defined"));
        }
        if extra.contains(name.as_str()) {
            found.push(format!(
                "{name}: listed after all, take it out of NOT_LISTED"
            ));
        }
    }
    for name in extra.difference(&defined) {
        found.push(format!("{name}: in NOT_LISTED, but not defined"));
    }
    for register in ours {
        match list.registers.get(register.name) {
            Some(listed) => compare(register, listed, &mut found),
            None if extra.contains(register.name) => {}
            None => found.push(format!(
                "{}: neither listed nor in NOT_LISTED",
                register.name
            )),
        }
    }
    found
}

fn compare(register: &RegInfo, listed: &Listed, found: &mut Vec<String>) {
    let name = register.name;
    if register.offset != listed.offset {
        found.push(format!(
            "{name}: at {:#x}, listed at {:#x}",
            register.offset, listed.offset
        ));
    }
    let ours: Vec<_> = register.index.iter().map(|i| (i.stride, i.max)).collect();
    let theirs: Vec<_> = listed.index.iter().map(|i| (i.stride, i.max)).collect();
    if ours != theirs {
        found.push(format!(
            "{name}: (stride, greatest index) {ours:?}, listed {theirs:?}"
        ));
    }
    if register.reset.name() != listed.reset {
        found.push(format!(
            "{name}: cleared by {}, listed {}",
            register.reset.name(),
            listed.reset
        ));
    }
    for field in register.fields {
        match listed.fields.get(field.name) {
            Some(&[hi, lo]) if (hi, lo) == (field.hi, field.lo) => {}
            Some([hi, lo]) => found.push(format!(
                "{name}.{}: bits [{}:{}], listed [{hi}:{lo}]",
                field.name, field.hi, field.lo
            )),
            None => found.push(format!("{name}.{}: not listed", field.name)),
        }
    }
    for field in listed.fields.keys() {
        if !register.fields.iter().any(|ours| ours.name == field) {
            found.push(format!("{name}.{field}: not defined"));
        }
    }
    let mut names: Vec<_> = register.fields.iter().map(|field| field.name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair.first() == pair.last()) {
        found.push(format!("{name}: defines a field twice"));
    }
}

#[test]
fn every_definition_agrees_with_the_list() {
    let list = list().unwrap();
    let found = differences(ALL, &list);
    assert!(
        found.is_empty(),
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    );

    let fields: usize = list
        .registers
        .values()
        .map(|register| register.fields.len())
        .sum();
    println!(
        "{} registers of the list with {fields} fields: all defined, none different",
        list.registers.len()
    );
    for (reason, names) in NOT_LISTED {
        println!("{} more: {reason}", names.len());
    }
    println!("{} registers defined", ALL.len());
}

/// Each kind of mistake in the definitions is one line of difference.
#[test]
fn the_comparison_sees_each_kind_of_mistake() {
    type Change = fn(&mut List);
    let changes: &[(Change, &str)] = &[
        (
            |list| drop(list.registers.remove("PFPE_CQPDB")),
            "PFPE_CQPDB: neither listed nor in NOT_LISTED",
        ),
        (
            |list| {
                let one = list.registers["PFPE_CQPDB"].clone();
                list.registers.insert("PFPE_NEW".into(), one);
            },
            "PFPE_NEW: not defined",
        ),
        (
            |list| edit(list, "PFPE_CQPDB", |register| register.offset += 4),
            "PFPE_CQPDB: at 0x500800, listed at 0x500804",
        ),
        (
            |list| edit(list, "GLINT_ITR", |register| register.index[1].max = 1023),
            "GLINT_ITR: (stride, greatest index) [(8192, 2), (4, 2047)], \
             listed [(8192, 2), (4, 1023)]",
        ),
        (
            |list| edit(list, "GLINT_ITR", |register| register.index.swap(0, 1)),
            "GLINT_ITR: (stride, greatest index) [(8192, 2), (4, 2047)], \
             listed [(4, 2047), (8192, 2)]",
        ),
        (
            |list| edit(list, "GLINT_CTL", |register| register.reset = "PFR".into()),
            "GLINT_CTL: cleared by CORER, listed PFR",
        ),
        (
            |list| {
                edit(list, "PFPE_CQPTAIL", |register| {
                    register.fields.insert("WQTAIL".into(), [11, 0]);
                });
            },
            "PFPE_CQPTAIL.WQTAIL: bits [10:0], listed [11:0]",
        ),
        (
            |list| {
                edit(list, "PFPE_CQPTAIL", |register| {
                    register.fields.remove("CQP_OP_ERR");
                });
            },
            "PFPE_CQPTAIL.CQP_OP_ERR: not listed",
        ),
        (
            |list| {
                edit(list, "PFPE_CQPTAIL", |register| {
                    register.fields.insert("OTHER".into(), [12, 12]);
                });
            },
            "PFPE_CQPTAIL.OTHER: not defined",
        ),
    ];
    let list = list().unwrap();
    for (change, expected) in changes {
        let mut changed = list.clone();
        change(&mut changed);
        assert_eq!(differences(ALL, &changed), [*expected]);
    }
}

fn edit(list: &mut List, name: &str, change: impl FnOnce(&mut Listed)) {
    list.registers.entry(name.into()).and_modify(change);
}
