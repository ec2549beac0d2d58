//! The handshake of libibverbs' `ibv_rc_pingpong` (rdma-core,
//! `libibverbs/examples/rc_pingpong.c`), so that this program on any RDMA host is a peer.
//!
//! Each side sends one text of 52 bytes, `LID:QPN:PSN:GID` in hexadecimal digits with a zero byte
//! at its end: the client first, and the server when its queue pair can receive. The client then
//! sends `done` with a zero byte. Nothing more is said: the server closes the connection there,
//! before the messages. The program does not say its Ethernet address, its path MTU (1024, unless
//! `-m` is given), how many messages there are, or how it ended.

use std::net::SocketAddr;
use std::time::Duration;

use e810::{Gid, MacAddr, Mtu};

use super::{HandshakeError, Lines, Offer, Peer, QpRecord, Role, shown};
use crate::handshake::RemoteQp;
use crate::stop::StopView;

/// Bytes of the first text, with its zero byte.
const TEXT: usize = "0000:000000:000000:00000000000000000000000000000000".len() + 1;
/// The client's last message.
const DONE: &[u8; 5] = b"done\0";

/// A side of this handshake.
#[derive(Debug)]
pub(super) struct Texts {
    lines: Lines,
    /// Which side this is.
    role: Role,
    /// How long the peer may be silent.
    wait: Duration,
    /// The peer's first text.
    first: Option<(RemoteQp, Gid)>,
    /// The server's text, until its queue pair can receive.
    unsent: Option<Vec<u8>>,
}

impl Texts {
    /// The side `role` of a new connection.
    pub(super) const fn new(role: Role, lines: Lines, wait: Duration) -> Self {
        Self {
            lines,
            role,
            wait,
            first: None,
            unsent: None,
        }
    }

    /// The peer's address.
    pub(super) const fn peer(&self) -> SocketAddr {
        self.lines.peer()
    }

    /// Makes waits end when the run is asked to end.
    pub(super) fn hear(&mut self, stop: StopView) {
        self.lines.hear(stop);
    }

    /// Whether the peer's text has arrived. Does not wait.
    pub(super) fn has_text(&mut self) -> Result<bool, HandshakeError> {
        if let Some(text) = self.lines.try_receive_bytes(TEXT)? {
            self.first = Some(self.parse(&text)?);
        }
        Ok(self.first.is_some())
    }

    /// Exchanges texts. A server sends its text later.
    pub(super) fn exchange(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        let [qp] = offer.places.as_slice() else {
            return Err(self.malformed("it has one queue pair, and this side has more"));
        };
        let qp = qp.remote();
        let qp = qp.ok_or_else(|| self.malformed("our own queue pair"))?;
        let ours = text(&qp, offer.gid.into());
        if self.role == Role::Client {
            self.lines.send_bytes(&ours, self.wait)?;
        }
        let (theirs, gid) = match self.first.take() {
            Some(first) => first,
            None => {
                let text = self.lines.receive_bytes(TEXT, self.wait)?;
                self.parse(&text)?
            }
        };
        match self.role {
            Role::Client => self.lines.send_bytes(DONE, self.wait)?,
            // The client sends messages as soon as it has this.
            Role::Server => self.unsent = Some(ours),
        }
        let mtu = Mtu::of_bytes(offer.mtu);
        Ok(Peer {
            mac: mac_of(gid),
            gid,
            mtu: mtu.ok_or_else(|| self.malformed("our own path MTU"))?,
            endpoints: vec![theirs],
        })
    }

    /// Tells the client that this side's queue pair can receive, and waits for its `done`.
    pub(super) fn ready(&mut self) -> Result<(), HandshakeError> {
        let Some(text) = self.unsent.take() else {
            return Ok(());
        };
        self.lines.send_bytes(&text, self.wait)?;
        let done = self.lines.receive_bytes(DONE.len(), self.wait)?;
        match done == DONE {
            true => Ok(()),
            false => Err(self.malformed("not done")),
        }
    }

    fn parse(&self, text: &[u8]) -> Result<(RemoteQp, Gid), HandshakeError> {
        parse(text).map_err(|why| self.malformed(why))
    }

    fn malformed(&self, why: impl Into<String>) -> HandshakeError {
        HandshakeError::malformed(self.peer(), why)
    }
}

/// The first text of a side.
fn text(qp: &RemoteQp, gid: Gid) -> Vec<u8> {
    let gid: String = gid.0.iter().map(|byte| format!("{byte:02x}")).collect();
    // RoCE has no LIDs.
    format!("0000:{:06x}:{:06x}:{gid}\0", qp.qpn.get(), qp.psn).into_bytes()
}

/// The queue pair and the GID of a peer's first text.
///
/// # Errors
/// What is wrong with it.
fn parse(bytes: &[u8]) -> Result<(RemoteQp, Gid), String> {
    let text = bytes
        .strip_suffix(b"\0")
        .and_then(|text| str::from_utf8(text).ok());
    let wrong = || {
        format!(
            "`{}` is not LID:QPN:PSN:GID",
            shown(&String::from_utf8_lossy(bytes))
        )
    };
    let fields: Vec<&str> = text.ok_or_else(wrong)?.split(':').collect();
    let [lid, qpn, psn, gid] = fields.as_slice() else {
        return Err(wrong());
    };
    let widths = [(lid, 4), (qpn, 6), (psn, 6), (gid, 32)];
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !widths
        .iter()
        .all(|(text, width)| text.len() == *width && is_hex(text))
    {
        return Err(wrong());
    }
    let number = |text: &str| u32::from_str_radix(text, 16).map_err(|_| wrong());
    let gid = u128::from_str_radix(gid, 16).map_err(|_| wrong())?;
    let record = QpRecord {
        qpn: number(qpn)?,
        psn: number(psn)?,
        qkey: 0,
        rkey: 0,
        address: 0,
        invalidate: None,
    };
    let qp = record.remote().ok_or_else(|| format!("queue pair {qpn}"))?;
    Ok((qp, Gid(gid.to_be_bytes())))
}

/// The Ethernet address that a link-local address was made of (EUI-64 with its U/L bit inverted, as
/// Linux reads it in `rdma_get_ll_mac`).
fn mac_of(gid: Gid) -> Option<MacAddr> {
    match gid.0 {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] => {
            Some(MacAddr([a ^ 2, b, c, d, e, f]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use e810::Qpn;

    use super::*;

    #[test]
    fn a_text_is_what_the_program_reads() {
        let qp = RemoteQp {
            qpn: Qpn::new(0x2A).unwrap(),
            psn: 0xABC,
            qkey: 1,
            rkey: 2,
            address: 3,
            invalidate: None,
        };
        let gid = Gid::from(std::net::IpAddr::from([10, 8, 10, 1]));
        let sent = text(&qp, gid);
        assert_eq!(
            sent,
            b"0000:00002a:000abc:00000000000000000000ffff0a080a01\0"
        );
        assert_eq!(sent.len(), TEXT);
        let (theirs, there) = parse(&sent).unwrap();
        assert_eq!((theirs.qpn, theirs.psn, there), (qp.qpn, qp.psn, gid));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            &b"0000:00002a:000abc:00000000000000000000ffff0a080a01 "[..],
            b"0000:00002a:000abc:00000000000000000000ffff0a080a0g\0",
            b"0000:+0002a:000abc:00000000000000000000ffff0a080a01\0",
            b"0000:000001:000abc:00000000000000000000ffff0a080a01\0",
            b"0000:ffffff:000abc:00000000000000000000ffff0a080a01\0",
            b"00000:0002a:000abc:00000000000000000000ffff0a080a01\0",
            b"0000:00002a:000abc00000000000000000000000ffff0a080a01\0",
            &[0xFF; TEXT],
            b"",
        ] {
            assert!(parse(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn only_a_link_local_address_has_an_ethernet_address() {
        let mac = MacAddr([0x52, 0x54, 0, 0, 0, 2]);
        assert_eq!(
            mac_of(std::net::IpAddr::from(e810::addr::link_local(mac)).into()),
            Some(mac)
        );
        assert_eq!(mac_of(std::net::IpAddr::from([10, 0, 0, 1]).into()), None);
    }
}
