//! The handshake of libibverbs' `ibv_rc_pingpong` (rdma-core,
//! `libibverbs/examples/rc_pingpong.c`), so that this program on any RDMA host is a peer.
//!
//! Each side sends one text of 52 bytes, `LID:QPN:PSN:GID` in hexadecimal digits with a zero byte
//! at its end: the client first, and the server when its queue pair can receive. The client then
//! sends `done` with a zero byte. Nothing more is said: the server closes the connection there,
//! before the messages. The program does not say its Ethernet address, its path MTU (1024, unless
//! `-m` is given), how many messages there are, or how it ended.

use e810::{Gid, MacAddr, Qpn};

use super::shown;
use crate::measure::endpoint::RemoteQp;

/// Bytes of the first text, with its zero byte.
pub(super) const TEXT: usize = "0000:000000:000000:00000000000000000000000000000000".len() + 1;
/// What the client says last.
pub(super) const DONE: &[u8; 5] = b"done\0";

/// The first text of a side.
pub(super) fn text(qp: &RemoteQp, gid: Gid) -> Vec<u8> {
    let gid: String = gid.0.iter().map(|byte| format!("{byte:02x}")).collect();
    // RoCE has no LIDs.
    format!("0000:{:06x}:{:06x}:{gid}\0", qp.qpn.get(), qp.psn).into_bytes()
}

/// The queue pair and the GID of a peer's first text.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(bytes: &[u8]) -> Result<(RemoteQp, Gid), String> {
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
    // 0 and 1 are those of management, and all ones stands for multicast.
    let usual = |qpn: &u32| (2..0xFF_FFFF).contains(qpn);
    let number_of_qp = Some(number(qpn)?).filter(usual).and_then(Qpn::new);
    let gid = u128::from_str_radix(gid, 16).map_err(|_| wrong())?;
    let qp = RemoteQp {
        qpn: number_of_qp.ok_or_else(|| format!("queue pair {qpn}"))?,
        psn: number(psn)?,
        qkey: 0,
        rkey: 0,
        address: 0,
    };
    Ok((qp, Gid(gid.to_be_bytes())))
}

/// The Ethernet address that a link-local address was made of (EUI-64 with its U/L bit inverted, as
/// Linux reads it in `rdma_get_ll_mac`).
pub(super) fn mac_of(gid: Gid) -> Option<MacAddr> {
    match gid.0 {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] => {
            Some(MacAddr([a ^ 2, b, c, d, e, f]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_the_program_reads() {
        let qp = RemoteQp {
            qpn: Qpn::new(0x2A).unwrap(),
            psn: 0xABC,
            qkey: 1,
            rkey: 2,
            address: 3,
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
