//! udaddy (`librdmacm/examples/udaddy.c`): as ucmatose, with UD queue pairs that the client asks for.
//! The client begins. Immediate data is the number of the sender's queue pair, by which the server
//! finds the way back.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use e810_backends::HostDevice;
use e810_cm::ip::UDP_QKEY;

use crate::datagrams::{GRH, Side};
use crate::rig::{LIMIT, Rig};
use crate::role::{Counts, Role};

pub(crate) const fn room(counts: &Counts) -> usize {
    counts.size as usize + counts.connections as usize * (GRH + counts.size as usize)
}

fn serve<P: HostDevice>(rig: &Rig<P>, port: u16, counts: &Counts) -> Result<Vec<Side<P>>> {
    let listener = rig.listen_datagrams(port, counts.connections)?;
    let mut sides = Vec::new();
    for number in 0..counts.connections as usize {
        let question = listener.next(LIMIT)?;
        let side = Side::new(rig, counts, number)?;
        listener.answer(&question, side.qp.number(), UDP_QKEY, &[])?;
        sides.push(side);
    }
    for side in &mut sides {
        side.take(rig, counts.messages, 0)?;
    }
    for side in &mut sides {
        side.send(rig.sge(0, counts.size), counts.messages)?;
        side.take(rig, 0, counts.messages)?;
    }
    Ok(sides)
}

fn ask<P: HostDevice>(rig: &Rig<P>, peer: SocketAddr, counts: &Counts) -> Result<Vec<Side<P>>> {
    let mut sides = Vec::new();
    for number in 0..counts.connections as usize {
        let mut side = Side::new(rig, counts, number)?;
        let found = rig.function.resolve(&rig.function.ask(peer)?, LIMIT)?;
        ensure!(found.qkey == UDP_QKEY, "Q_Key {:#x}", found.qkey);
        side.aim(rig, &found.path, found.qpn, found.qkey)?;
        sides.push(side);
    }
    for side in &mut sides {
        side.send(rig.sge(0, counts.size), counts.messages)?;
    }
    for side in &mut sides {
        side.take(rig, counts.messages, counts.messages)?;
    }
    Ok(sides)
}

pub(crate) fn run<P: HostDevice>(rig: Rig<P>, counts: Counts) -> Result<()> {
    let sides = match counts.role.role()? {
        Role::Server(port) => serve(&rig, port, &counts)?,
        Role::Client(peer) => ask(&rig, peer, &counts)?,
    };
    println!(
        "{} queue pairs with {} datagrams each way",
        counts.connections, counts.messages
    );
    let mut objects = (Vec::new(), Vec::new(), Vec::new());
    for Side { qp, cq, peer, .. } in sides {
        objects.0.push(qp);
        objects.1.push(cq);
        objects.2.extend(peer.map(|(ah, _)| ah));
    }
    let (qps, cqs, ahs) = objects;
    rig.close_with(qps, cqs, ahs)
}
