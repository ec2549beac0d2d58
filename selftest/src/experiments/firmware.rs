//! Questions to the firmware.

use anyhow::{Context, Result, bail};
use e810::MacAddr;
use e810_adminq::AdminQ;
use e810_adminq::op::{
    AddRule, AddVsi, ClearPf, ClearPxe, Command as _, Data, ElementKind, FreeVsi,
    GetDefaultTopology, GetSwitchConfig, SwitchPort, VlanMode, VsiContext,
};
use e810_backends::observed::Observed;
use e810_hal::regs::{GL_RDPU_CNTRL, PF_FUNC_RID, PF_FW_ATQLEN};

use crate::bench::Bench;
use crate::experiment::{Experiment, Risk, Seen};

/// EEXIST.
const EXISTS: u16 = 13;
/// The type of a VSI in a switch element (control-path 9.6).
const VSI: u16 = 2;
/// Bytes of a switch element.
const ELEMENT: usize = 6;
/// Pages of switch elements that are asked for at most.
const PAGES: usize = 64;

pub(super) const PXE_CLEARED_AGAIN: Experiment = Experiment {
    name: "pxe_cleared_again",
    assumes: "a card that has left PXE mode answers Clear PXE Mode (0x0110) with EEXIST",
    does: "sends 0x0110 twice",
    values: &["Exists", "Done"],
    if_not: "Nothing: the driver takes any answer as done.",
    seconds: 2,
    risk: Risk::None,
    run: |bench| {
        bench.firmware(|adminq| {
            let mut clear = || -> Result<u16> {
                let answer = adminq.exchange(ClearPxe.opcode(), ClearPxe.params(), Data::None)?;
                Ok(answer.descriptor().retval)
            };
            clear()?;
            Ok(match clear()? {
                EXISTS => Seen::Value("Exists"),
                0 => Seen::Value("Done"),
                other => Seen::Other(format!("the second one is answered with {other}")),
            })
        })
    },
};

/// A page of switch elements: number, switch and function of each, and where the next page begins.
fn switch_page(adminq: &mut AdminQ<Observed>, first: u16) -> Result<(Vec<[u16; 3]>, u16)> {
    let ask = GetSwitchConfig { first };
    let answer = adminq.exchange(ask.opcode(), ask.params(), ask.data())?;
    if answer.descriptor().failed() {
        bail!("0x0200 is answered with {}", answer.descriptor().retval);
    }
    let half = |at| u16::from_le_bytes([answer.param(at), answer.param(at + 1)]);
    let (next, count) = (half(2), half(4));
    let mut elements = Vec::new();
    for number in 0..usize::from(count) {
        let mut bytes = [0; ELEMENT];
        answer.fill(number * ELEMENT, "switch elements", &mut bytes)?;
        let [a, b, c, d, e, f] = bytes;
        elements.push([[a, b], [c, d], [e, f]].map(u16::from_le_bytes));
    }
    Ok((elements, next))
}

fn switch_elements(adminq: &mut AdminQ<Observed>) -> Result<Vec<[u16; 3]>> {
    let (mut all, mut next) = switch_page(adminq, 0)?;
    for _ in 0..PAGES {
        if next == 0 {
            return Ok(all);
        }
        let (more, then) = switch_page(adminq, next)?;
        all.extend(more);
        next = then;
    }
    bail!("the switch's elements do not end after {PAGES} pages")
}

pub(super) const SWITCH_PAGES: Experiment = Experiment {
    name: "switch_pages",
    assumes: "a reply to Get Switch Configuration (0x0200) has as many elements as its buffer holds",
    does: "asks for the switch's elements",
    values: &["Full", "OneElement"],
    if_not: "Nothing: the driver asks for all pages.",
    seconds: 2,
    risk: Risk::None,
    run: |bench| {
        bench.firmware(|adminq| {
            let (elements, next) = switch_page(adminq, 0)?;
            Ok(match (elements.len(), next) {
                (0, _) => bail!("the switch has no element"),
                (1, 0) => bail!("the switch has one element, so one page says nothing"),
                (_, 0) => Seen::Value("Full"),
                (1, _) => Seen::Value("OneElement"),
                (count, _) => Seen::Other(format!("{count} elements, and more")),
            })
        })
    },
};

/// How many VSIs the switch has for the function.
fn own_vsis(bench: &Bench, adminq: &mut AdminQ<Observed>) -> Result<usize> {
    let function = PF_FUNC_RID::FUNCTION_NUMBER.read(PF_FUNC_RID.get(bench.device()));
    let elements = switch_elements(adminq)?;
    let is_own = |[number, _, of]: &&[u16; 3]| number >> 14 == VSI && u32::from(*of) == function;
    Ok(elements.iter().filter(is_own).count())
}

pub(super) const OWN_VSI: Experiment = Experiment {
    name: "own_vsi",
    assumes: "Clear PF Configuration (0x02A4) leaves the VSI that the firmware has for the function",
    does: "lists the function's VSIs, sends 0x02A4, and lists them again",
    values: &["Stays", "Goes"],
    if_not: "Nothing: the driver makes a VSI of its own.",
    seconds: 2,
    risk: Risk::None,
    run: |bench| {
        bench.firmware(|adminq| {
            let before = own_vsis(bench, adminq)?;
            if before == 0 {
                bail!("the firmware has no VSI for the function");
            }
            adminq.execute(&ClearPf)?;
            Ok(match own_vsis(bench, adminq)? {
                0 => Seen::Value("Goes"),
                after if after == before => Seen::Value("Stays"),
                after => Seen::Other(format!("{before} VSIs before, {after} after")),
            })
        })
    },
};

/// The function's logical port.
pub(super) fn lport(adminq: &mut AdminQ<Observed>) -> Result<u8> {
    Ok(port(adminq)?.lport)
}

fn port(adminq: &mut AdminQ<Observed>) -> Result<SwitchPort> {
    let mut first = 0;
    for _ in 0..PAGES {
        let page = adminq.execute(&GetSwitchConfig { first })?;
        if let Some(port) = page.port {
            return Ok(port);
        }
        first = page.next.context("the switch has no port")?;
    }
    bail!("the switch's elements do not end after {PAGES} pages")
}

pub(super) const DEFAULT_BRANCH: Experiment = Experiment {
    name: "default_branch",
    assumes: "the default branch of the transmit scheduler (0x0400) ends in an element that is no leaf",
    does: "asks for the default tree",
    values: &["Group", "Leaf"],
    if_not: "Nothing: the driver takes either.",
    seconds: 2,
    risk: Risk::None,
    run: |bench| {
        bench.firmware(|adminq| {
            let lport = lport(adminq)?;
            let tree = adminq.execute(&GetDefaultTopology { lport })?;
            let last = tree.first().and_then(|branch| branch.last());
            Ok(match last.context("the default tree is empty")?.kind {
                ElementKind::Leaf => Seen::Value("Leaf"),
                ElementKind::Generic | ElementKind::EntryPoint => Seen::Value("Group"),
                other => Seen::Other(format!("it ends in {other:?}")),
            })
        })
    },
};

/// An Ethernet address of local administration.
const SOMEBODY: MacAddr = MacAddr([0x02, 0xE8, 0x10, 0xE8, 0x10, 1]);

pub(super) const RULES_OF_VSI: Experiment = Experiment {
    name: "rules_of_vsi",
    assumes: "the rules of a VSI go when the VSI is freed (0x0213)",
    does: "frees a VSI with a rule, and makes the same rule for a new VSI",
    values: &["Go", "Stay"],
    if_not: "Nothing: the driver removes its rules first. A driver that does not, such as DPDK's, leaves rules until the function is reset.",
    seconds: 2,
    risk: Risk::None,
    run: |bench| {
        bench.firmware(|adminq| {
            let port = port(adminq)?;
            let context = VsiContext::main(port.swid, VlanMode::Single);
            let first = adminq.execute(&AddVsi(context))?.vsi;
            adminq.execute(&AddRule::mac(first, SOMEBODY))?;
            adminq.execute(&FreeVsi(first))?;
            let second = adminq.execute(&AddVsi(context))?.vsi;
            let rule = AddRule::mac(second, SOMEBODY);
            let answer = adminq.exchange(rule.opcode(), rule.params(), rule.data())?;
            let code = answer.descriptor().retval;
            adminq.execute(&FreeVsi(second))?;
            Ok(match code {
                0 => Seen::Value("Go"),
                EXISTS => Seen::Value("Stay"),
                other => Seen::Other(format!("the rule is answered with {other}")),
            })
        })
    },
};

/// ACK_REQ_PM_TH of GL_RDPU_CNTRL, and what Intel's FreeBSD driver writes there (field-evidence 7).
const THRESHOLD: u32 = 0x3F;
const OF_FREEBSD: u32 = 3;

pub(super) const ACK_THRESHOLD: Experiment = Experiment {
    name: "ack_threshold",
    assumes: "GL_RDPU_CNTRL [15:10] is 0 unless a driver writes it",
    does: "reads the register; a driver of FreeBSD may have written it since the power came",
    values: &["Zero", "Three"],
    if_not: "Nothing: the driver does not write it. It is the first suspect where rates differ from those of FreeBSD.",
    seconds: 1,
    risk: Risk::None,
    run: |bench| {
        let found = GL_RDPU_CNTRL.get(bench.device());
        // A device that is gone does not come back.
        bench.reset()?;
        Ok(match found >> 10 & THRESHOLD {
            0 => Seen::Value("Zero"),
            OF_FREEBSD => Seen::Value("Three"),
            other => Seen::Other(format!("{other}")),
        })
    },
};

pub(super) const ADMINQ_REGISTERS: Experiment = Experiment {
    name: "adminq_registers",
    assumes: "a reset of the function leaves the registers of the AdminQ, so its queues stay on",
    does: "resets the function while the AdminQ is on, and reads PF_FW_ATQLEN",
    values: &["Stay", "Cleared"],
    if_not: "Nothing: the driver switches the queues off by itself.",
    seconds: 2,
    risk: Risk::None,
    run: |bench| {
        bench.reset()?;
        let adminq = AdminQ::start(bench.device().clone())?;
        let reset = bench.reset();
        let length = PF_FW_ATQLEN.get(bench.device());
        // Before its memory is freed.
        adminq.release_after_reset()?;
        reset?;
        Ok(match length >> 31 {
            0 => Seen::Value("Cleared"),
            _ => Seen::Value("Stay"),
        })
    },
};
