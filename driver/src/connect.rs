//! Connecting a queue pair in one step, and what its peer needs to know for it.

use e810_hal::Platform;
use e810_types::QpType;

use crate::addr::{Gid, MacAddr, Mtu, Path};
use crate::attr::{QpAttr, Qpn};
use crate::control::Control;
use crate::error::{Error, Object, Result};
use crate::mr::AccessFlags;
use crate::qp::QpControl;

/// Q_Key of the datagram queue pairs that [`QpControl::connect`] starts; existing tools use the
/// same one.
pub const DATAGRAM_QKEY: u32 = 0x1111_1111;

/// First packet sequence number of a queue pair: 24 bits, different for any two queue pairs of a
/// function. Verbs leave it to the program.
const fn first_psn(qpn: Qpn) -> u32 {
    0x10_0000 | qpn.get()
}

/// What two programs exchange about their queue pairs before they connect them (verbs have
/// no such structure: each program defines its own).
///
/// The driver does not send it. The program delivers it to the peer: over a socket, in a file, or
/// in a variable where both are in one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInfo {
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// First packet sequence number that it sends, 24 bits.
    pub psn: u32,
    /// Q_Key that datagrams to it carry; a connection does not use it.
    pub qkey: u32,
    /// Address that its packets come from.
    pub gid: Gid,
    /// Ethernet address of its port. If there is a router in between, the program puts the
    /// router's address here.
    pub mac: MacAddr,
    /// Largest path MTU that its interface takes; a connection uses the smaller one of both ends.
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
    /// The path to use instead of the peer's own address: for a traffic class, a priority, a flow
    /// label or a hop limit other than those of [`Path::new`].
    pub path: Option<Path>,
    /// Upper limit of the path MTU, for interfaces that would take more.
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
    /// What a peer needs to know to connect to this queue pair, which sends from entry
    /// `sgid_index` of the GID table.
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

    /// Takes a queue pair from RESET to RTS with three calls of [`Control::modify_qp`]. A
    /// reliable queue pair is connected to `remote`; a datagram queue pair has no peer and takes
    /// datagrams with [`DATAGRAM_QKEY`] from anywhere. The peer does the same with
    /// [`QpControl::info`] of this queue pair.
    ///
    /// The connection has the timers and retries of [`QpAttr::to_rtr`] and [`QpAttr::to_rts`];
    /// for others, call [`Control::modify_qp`] directly.
    ///
    /// # Errors
    /// The transition that failed, as [`Control::modify_qp`]. The queue pair then stays in the
    /// previous state.
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

    /// Takes a datagram queue pair from RESET to RTS; it then accepts datagrams that carry
    /// `qkey`.
    ///
    /// # Errors
    /// The transition that failed: as [`Control::modify_qp`].
    pub fn start_datagrams(&mut self, control: &mut Control<P>, qkey: u32) -> Result<()> {
        let mut to_init = QpAttr::ud_to_init(qkey);
        if self.qp_type() == QpType::Gsi {
            // It is the port's own, and takes none.
            to_init.port = None;
        }
        for attr in [
            to_init,
            QpAttr::ud_to_rtr(),
            QpAttr::ud_to_rts(first_psn(self.number())),
        ] {
            control.modify_qp(self, &attr)?;
        }
        Ok(())
    }
}
