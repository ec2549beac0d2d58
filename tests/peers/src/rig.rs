//! A function that is up, with memory that it and peers may use.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use e810::{AccessFlags, Ah, Cq, Mr, Pd, Qp, QpCaps, QpInit, Remaining, Sge, SharedBytes};
use e810_backends::HostDevice;
use e810_backends::buffer::Buffer;
use e810_node::address::addresses_of;
use e810_node::attended::{Attended, Connection, Listener};
use e810_node::start::{MTU, Sizes, Start};
use e810_node::station::Network;

use crate::Cli;
use crate::channel::Channel;

/// How long a peer may take for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// READs of a peer that are answered at once.
const READS: u8 = 16;

/// The function of a program.
pub(crate) struct Rig<P: HostDevice> {
    pub(crate) function: Attended<P>,
    pub(crate) pd: Pd,
    mr: Mr<P>,
    memory: Buffer,
    pub(crate) own: IpAddr,
}

impl<P: HostDevice> Rig<P> {
    /// Brings the function of the options up, with so many bytes of memory, and for so many queue
    /// pairs.
    pub(crate) fn open(device: P, cli: &Cli, bytes: usize, queue_pairs: u32) -> Result<Self> {
        let memory = device.payload(bytes.max(4096))?;
        let network = Network {
            addresses: addresses_of(&cli.device).map_err(Error::msg)?,
            gateways: cli.device.gateways.clone(),
            vlan: cli.vlan,
            ..Network::default()
        };
        let own = network.addresses.first().context("no address")?.ip;
        let start = Start::usual(&device, cli.device.mtu.unwrap_or(MTU))?;
        let sizes = Sizes::of_queue_pairs(queue_pairs, QpCaps::default());
        let function = Attended::start(device, &start, sizes, network)?;
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        let (pd, mr) = function.control(|control| {
            let pd = control.alloc_pd()?;
            let mr = control.reg_mr(&pd, memory.bytes(), access)?;
            Ok::<_, e810::Error>((pd, mr))
        })?;
        Ok(Self {
            function,
            pd,
            mr,
            memory,
            own,
        })
    }

    pub(crate) fn memory(&self) -> SharedBytes {
        self.memory.bytes()
    }

    pub(crate) fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge {
            addr: self.mr.address() + offset as u64,
            length,
            lkey: self.mr.lkey(),
        }
    }

    /// The key of the memory for a peer.
    pub(crate) fn rkey(&self) -> u32 {
        self.mr.rkey()
    }

    /// A listener; says so, for whoever starts the peer.
    pub(crate) fn listen(&self, port: u16, backlog: u32) -> Result<Listener<P>> {
        let listener = self.function.listen(self.own, port, backlog)?;
        println!("listening on {}, port {}", self.own, listener.port());
        Ok(listener)
    }

    /// The same for questions for a UD queue pair.
    pub(crate) fn listen_datagrams(&self, port: u16, backlog: u32) -> Result<Listener<P>> {
        let listener = self.function.listen_datagrams(self.own, port, backlog)?;
        println!("listening on {}, port {}", self.own, listener.port());
        Ok(listener)
    }

    /// A queue pair with so many requests each way, and its completion queue.
    pub(crate) fn queue_pair(&self, depth: u32, is_datagram: bool) -> Result<(Qp<P>, Cq<P>)> {
        let caps = QpCaps {
            max_send_wr: depth,
            max_recv_wr: depth,
            ..QpCaps::default()
        };
        Ok(self.function.control(|control| {
            let cq = control.create_cq(2 * depth, 0)?;
            let init = match is_datagram {
                true => QpInit::ud(&cq, &cq, caps),
                false => QpInit::rc(&cq, &cq, caps),
            };
            let qp = control.create_qp(&self.pd, &init)?;
            Ok::<_, e810::Error>((qp, cq))
        })?)
    }

    /// A connection to be.
    pub(crate) fn channel(&self, depth: u32) -> Result<Channel<P>> {
        let (qp, cq) = self.queue_pair(depth, false)?;
        let connection = Connection::new(&self.function, qp, READS).map_err(|(_, error)| error)?;
        Ok(Channel::new(connection, cq))
    }

    /// Gives a connection that is over back.
    pub(crate) fn destroy(&self, channel: Channel<P>) -> Result<()> {
        let (qp, mut cq) = channel.end();
        self.function.control(|control| {
            control.destroy_qp(qp).map_err(|(_, error)| error)?;
            cq.forget_gone();
            control.destroy_cq(cq).map_err(|(_, error)| error)
        })?;
        Ok(())
    }

    /// Ends all of it.
    pub(crate) fn close(self, channels: Vec<Channel<P>>) -> Result<()> {
        let (qps, cqs) = channels.into_iter().map(Channel::end).unzip();
        self.close_with(qps, cqs, Vec::new())
    }

    pub(crate) fn close_with(self, qps: Vec<Qp<P>>, cqs: Vec<Cq<P>>, ahs: Vec<Ah>) -> Result<()> {
        let (mrs, pds) = ([self.mr], [self.pd]);
        let objects = Remaining {
            qps,
            ahs,
            cqs,
            mrs,
            pds,
        };
        self.function.close_with(objects)
    }
}
