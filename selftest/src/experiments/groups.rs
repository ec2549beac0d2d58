//! Multicast groups.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Result, bail};
use e810::WcOpcode;
use e810_cqp::Opcode;
use e810_cqp::op::HEADER;

use super::STOPS;
use crate::bench::{Engine, Raw};
use crate::experiment::{Experiment, Risk, Seen};

/// A group of this link that nobody else has.
const GROUP: IpAddr = IpAddr::V6(Ipv6Addr::new(0xFF12, 0, 0, 0, 0, 0, 0xE810, 0xE810));

/// Sends to the group; the queue pairs that receive it, among those of `cq`.
fn receivers(engine: &mut Engine<'_>, cq: usize, sender: usize) -> Result<Vec<u32>> {
    engine.send_to_group(sender, GROUP)?;
    let all = engine.completions_within(cq, 3, STOPS)?;
    let received = all.iter().filter(|wc| wc.opcode == WcOpcode::Recv);
    Ok(received.map(|wc| wc.qp_num).collect())
}

pub(super) const GROUP_ECHO: Experiment = Experiment {
    name: "group_echo",
    assumes: "a member of a group that sends to the group does not receive what it sends",
    does: "sends to a group with two members, one of them the sender",
    values: &["Others", "Sender"],
    if_not: "A program that sends to a group of which it is a member gets its own datagrams.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let members = [engine.datagrams(cq)?, engine.datagrams(cq)?];
            for member in members {
                engine.join(member, GROUP)?;
                engine.receive(member)?;
            }
            let [sender, other] = members;
            let other = engine.get(other)?.number().get();
            let sender_number = engine.get(sender)?.number().get();
            let received = receivers(engine, cq, sender)?;
            if !received.contains(&other) {
                bail!("the other member does not receive either");
            }
            Ok(match received.contains(&sender_number) {
                true => Seen::Value("Sender"),
                false => Seen::Value("Others"),
            })
        })
    },
};

/// The opcode of a command's header, and QS_HANDLE (control-path 4.14).
const OPCODE: u64 = 0x3F << 32;
const HANDLE_WORD: usize = 2;
const HANDLE: u64 = 0x3FF;

pub(super) const GROUP_QUEUE_SET: Experiment = Experiment {
    name: "group_queue_set",
    assumes: "members of a group receive only while the group's queue set is one of the LAN's scheduler",
    does: "gives a group a queue set that does not exist, and sends to it",
    values: &["Needed", "Ignored"],
    if_not: "Nothing: the queue set of the driver's groups is there as long as they have a member.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [sender, member] = [engine.datagrams(cq)?, engine.datagrams(cq)?];
            engine.join(member, GROUP)?;
            let number = engine.get(member)?.number().get();
            let made = Raw::last(&engine.happened(), Opcode::CreateMcastGrp)?;
            let modify = u64::from(Opcode::ModifyMcastGrp.code()) << 32;
            let same = made.with(HEADER, OPCODE, modify);
            engine.receive(member)?;
            if receivers(engine, cq, sender)? != [number] {
                bail!("the member does not receive with the right queue set either");
            }
            engine.execute(&same.with(HANDLE_WORD, HANDLE, HANDLE))?;
            engine.receive(member)?;
            let received = receivers(engine, cq, sender)?;
            engine.execute(&same)?;
            Ok(match received.contains(&number) {
                true => Seen::Value("Ignored"),
                false => Seen::Value("Needed"),
            })
        })
    },
};
