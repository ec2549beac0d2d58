//! cmtime (`librdmacm/examples/cmtime.c` of rdma-core 56): a connection, then as many as are asked
//! for, twice; the client ends them without a message. The second time the peer's queue pairs are
//! but numbers. Both sides wait for each other by a byte on a TCP connection, the client first.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use e810_backends::HostDevice;
use e810_cm::machine::Connect;
use e810_node::attended::{Grant, Listener};

use crate::channel::Channel;
use crate::rig::{LIMIT, Rig};
use crate::role::{Counts, Role};

/// What the byte says.
const BEGUN: u8 = 0;
const CONNECTED: u8 = 12;
const DISCONNECTED: u8 = 14;

/// The TCP connection to the peer, where there is one.
struct Wait(Option<TcpStream>);

impl Wait {
    fn at(&mut self, step: u8) -> Result<()> {
        let Some(stream) = &mut self.0 else {
            return Ok(());
        };
        let mut back = [0];
        stream.write_all(&[step])?;
        stream.read_exact(&mut back).context("the peer's byte")?;
        ensure!(
            back == [step],
            "the peer is at step {}, not {step}",
            back[0]
        );
        Ok(())
    }
}

fn serve<P: HostDevice>(rig: &Rig<P>, listener: &Listener<P>, count: u32) -> Result<()> {
    let mut channels = Vec::new();
    for _ in 0..count {
        let request = listener.next(LIMIT)?;
        let mut channel = rig.channel(1)?;
        channel.connection.accept(&request, &Grant::default())?;
        channels.push(channel);
    }
    for channel in &mut channels {
        channel.gone()?;
    }
    over(rig, channels)
}

fn ask<P: HostDevice>(rig: &Rig<P>, peer: SocketAddr, wait: &mut Wait, count: u32) -> Result<()> {
    wait.at(BEGUN)?;
    let ask = Connect {
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 0,
        rnr_retry_count: 0,
        ..rig.function.ask(peer)?
    };
    let mut channels = Vec::new();
    for _ in 0..count {
        let mut channel = rig.channel(1)?;
        channel.connection.connect(&ask)?;
        channels.push(channel);
    }
    for channel in &mut channels {
        channel.connection.established(LIMIT)?;
    }
    wait.at(CONNECTED)?;
    for channel in &mut channels {
        channel.connection.disconnect()?;
    }
    over(rig, channels)?;
    wait.at(DISCONNECTED)
}

fn over<P: HostDevice>(rig: &Rig<P>, channels: Vec<Channel<P>>) -> Result<()> {
    for mut channel in channels {
        channel.connection.over(LIMIT)?;
        rig.destroy(channel)?;
    }
    Ok(())
}

pub(crate) fn run<P: HostDevice>(
    rig: Rig<P>,
    counts: Counts,
    wait_at: Option<SocketAddr>,
) -> Result<()> {
    let rounds = [1, counts.connections, counts.connections];
    match counts.role.role()? {
        Role::Server(port) => {
            let listener = rig.listen(port, counts.connections)?;
            for count in rounds {
                serve(&rig, &listener, count)?;
            }
        }
        Role::Client(peer) => {
            let mut wait = Wait(wait_at.map(TcpStream::connect).transpose()?);
            for count in rounds {
                ask(&rig, peer, &mut wait, count)?;
            }
        }
    }
    println!("{} connections", rounds.iter().sum::<u32>());
    rig.close(Vec::new())
}
