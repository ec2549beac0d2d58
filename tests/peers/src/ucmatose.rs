//! ucmatose (`librdmacm/examples/cmatose.c`): connections; when all of them are there, the server
//! sends messages on each, the client sends as many back, and the server ends them.

use std::net::SocketAddr;

use anyhow::Result;
use e810_backends::HostDevice;
use e810_cm::machine::Connect;
use e810_node::attended::Grant;

use crate::channel::Channel;
use crate::rig::{LIMIT, Rig};
use crate::role::{Counts, Role};

/// Messages that are received lie on each other: nobody reads them.
pub(crate) const fn room(counts: &Counts) -> usize {
    2 * counts.size as usize
}

fn channel<P: HostDevice>(rig: &Rig<P>, counts: &Counts) -> Result<Channel<P>> {
    let mut channel = rig.channel(counts.messages.max(1))?;
    for _ in 0..counts.messages {
        channel.receive(rig.sge(counts.size as usize, counts.size))?;
    }
    Ok(channel)
}

fn send_all<P: HostDevice>(
    rig: &Rig<P>,
    channels: &mut [Channel<P>],
    counts: &Counts,
) -> Result<()> {
    for channel in channels {
        for _ in 0..counts.messages {
            channel.send(rig.sge(0, counts.size))?;
        }
    }
    Ok(())
}

fn serve<P: HostDevice>(rig: &Rig<P>, port: u16, counts: &Counts) -> Result<Vec<Channel<P>>> {
    let listener = rig.listen(port, counts.connections)?;
    let mut channels = Vec::new();
    for _ in 0..counts.connections {
        let request = listener.next(LIMIT)?;
        let mut channel = channel(rig, counts)?;
        channel.connection.accept(&request, &Grant::default())?;
        channels.push(channel);
    }
    for channel in &mut channels {
        channel.connection.established(LIMIT)?;
    }
    send_all(rig, &mut channels, counts)?;
    for channel in &mut channels {
        channel.take(counts.messages, counts.messages, counts.size)?;
    }
    for channel in &mut channels {
        channel.connection.disconnect()?;
    }
    Ok(channels)
}

fn ask<P: HostDevice>(rig: &Rig<P>, peer: SocketAddr, counts: &Counts) -> Result<Vec<Channel<P>>> {
    let ask = Connect {
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 5,
        rnr_retry_count: 0,
        ..rig.function.ask(peer)?
    };
    let mut channels = Vec::new();
    for _ in 0..counts.connections {
        let mut channel = channel(rig, counts)?;
        channel.connection.connect(&ask)?;
        channels.push(channel);
    }
    for channel in &mut channels {
        channel.connection.established(LIMIT)?;
    }
    for channel in &mut channels {
        channel.take(counts.messages, 0, counts.size)?;
    }
    send_all(rig, &mut channels, counts)?;
    Ok(channels)
}

pub(crate) fn run<P: HostDevice>(rig: Rig<P>, counts: Counts) -> Result<()> {
    let mut channels = match counts.role.role()? {
        Role::Server(port) => serve(&rig, port, &counts)?,
        Role::Client(peer) => ask(&rig, peer, &counts)?,
    };
    for channel in &mut channels {
        channel.gone()?;
    }
    for channel in &mut channels {
        channel.connection.over(LIMIT)?;
    }
    let Counts {
        connections,
        messages,
        ..
    } = counts;
    println!("{connections} connections with {messages} messages each way");
    rig.close(channels)
}
