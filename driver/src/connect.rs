//! Connecting a queue pair in one step, and what its peer has to know for it.

use e810_hal::Platform;

use crate::addr::{Gid, MacAddr, Mtu, Path};
use crate::attr::{QpAttr, Qpn};
use crate::control::Control;
use crate::error::{Error, Object, Result};
use crate::mr::AccessFlags;
use crate::qp::QpControl;

/// Q_Key of the datagram queue pairs that [`QpControl::connect`] starts; the one that existing
/// tools use.
pub const DATAGRAM_QKEY: u32 = 0x1111_1111;

/// First packet sequence number of a queue pair: 24 bits, and not the same for two queue
/// pairs of a function. Verbs leave it to the program.
const fn first_psn(qpn: Qpn) -> u32 {
    0x10_0000 | qpn.get()
}

/// What two programs exchange about their queue pairs before they connect them
/// (`[inf]` no such structure is in verbs: each program defines one of its own).
///
/// The driver does not send it. How it reaches the peer is the program's business: a
/// socket, a file, or a variable where both are in one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInfo {
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// First packet sequence number that it sends, 24 bits.
    pub psn: u32,
    /// Q_Key that datagrams to it carry; of no meaning for a connection.
    pub qkey: u32,
    /// Address that its packets come from.
    pub gid: Gid,
    /// Ethernet address of its port. A router in between has another one, which a
    /// program then puts here.
    pub mac: MacAddr,
    /// Largest path MTU that its interface takes; a connection has the smaller one of
    /// both ends.
    pub mtu: Mtu,
}

/// How [`QpControl::connect`] connects; the default is entry 0 of the GID table, no access for
/// the peer, and the peer's own address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectOptions {
    /// Index of our address in the GID table.
    pub sgid_index: u8,
    /// What the peer may do to memory through this queue pair.
    pub access: AccessFlags,
    /// Where packets go, in place of the peer's own address: for a traffic class, a
    /// priority, a flow label or a hop limit other than those of [`Path::new`].
    pub path: Option<Path>,
    /// Largest path MTU to use, if the interfaces of both ends would take more.
    pub mtu: Option<Mtu>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            sgid_index: 0,
            access: AccessFlags::empty(),
            path: None,
            mtu: None,
        }
    }
}

impl QpInfo {
    /// The path to this peer from entry `sgid_index` of our GID table, without a
    /// router in between.
    #[must_use]
    pub fn path(&self, sgid_index: u8) -> Path {
        Path::new(sgid_index, self.gid.ip(), self.mac)
    }
}

impl<P: Platform> QpControl<P> {
    /// What a peer has to know to connect to this queue pair, whose packets come from
    /// entry `sgid_index` of the GID table.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn info(&self, control: &Control<P>, sgid_index: u8) -> Result<QpInfo> {
        let lan = control.lan();
        let Some(gid) = control.query_gid(sgid_index) else {
            return Err(Error::NoSuch {
                object: Object::Gid,
                id: sgid_index.into(),
            });
        };
        Ok(QpInfo {
            qpn: self.number(),
            psn: first_psn(self.number()),
            qkey: DATAGRAM_QKEY,
            gid: gid.gid,
            mac: lan.mac,
            mtu: Mtu::fitting(lan.mtu).unwrap_or(Mtu::Mtu256),
        })
    }

    /// Takes a queue pair from RESET to RTS, which are three calls of
    /// [`Control::modify_qp`]: a reliable connection towards `remote`; or a datagram
    /// queue pair, which has no peer and takes datagrams from anywhere with
    /// [`DATAGRAM_QKEY`]. The peer does the same with [`QpControl::info`] of this one.
    ///
    /// The connection has the timers and retries of [`QpAttr::to_rtr`] and
    /// [`QpAttr::to_rts`]; a program that wants others calls
    /// [`Control::modify_qp`] itself.
    ///
    /// # Errors
    /// The transition that failed: as [`Control::modify_qp`]. The queue pair is then in
    /// the state before it.
    pub fn connect(
        &mut self,
        control: &mut Control<P>,
        remote: &QpInfo,
        options: &ConnectOptions,
    ) -> Result<()> {
        if self.qp_type().is_datagram() {
            return self.start_datagrams(control, DATAGRAM_QKEY);
        }
        let path = options.path.unwrap_or(remote.path(options.sgid_index));
        let own = Mtu::fitting(control.lan().mtu).unwrap_or(Mtu::Mtu256);
        let mtu = own.min(remote.mtu).min(options.mtu.unwrap_or(Mtu::Mtu4096));
        for attr in [
            QpAttr::to_init(options.access),
            QpAttr::to_rtr(path, mtu, remote.qpn, remote.psn),
            QpAttr::to_rts(first_psn(self.number())),
        ] {
            control.modify_qp(self, &attr)?;
        }
        Ok(())
    }

    /// Takes a datagram queue pair from RESET to RTS: it takes datagrams that carry
    /// `qkey`.
    ///
    /// # Errors
    /// The transition that failed: as [`Control::modify_qp`].
    pub fn start_datagrams(&mut self, control: &mut Control<P>, qkey: u32) -> Result<()> {
        for attr in [
            QpAttr::ud_to_init(qkey),
            QpAttr::ud_to_rtr(),
            QpAttr::ud_to_rts(first_psn(self.number())),
        ] {
            control.modify_qp(self, &attr)?;
        }
        Ok(())
    }
}
