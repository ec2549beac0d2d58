//! The common part of one connection's packets: everything before the base transport header.
//!
//! A [`Template`] keeps these bytes, and the ICRC over them, for the packets that a queue pair
//! sends. [`KnownHeads`] keeps those of recently received packets. Both give the same results as
//! [`Frame::new`] and [`Packet::parse`], which provide what they keep.

use super::build::{BuildError, Frame, Known, MIN_FRAME, udp_len};
use super::headers::Headers;
use super::icrc::{self, Hasher};
use super::parse::{Packet, ParseError};
use super::path::{Addresses, Path};

/// Maximum bytes before the BTH: Ethernet with a tag, IPv6, UDP.
const HEAD: usize = 18 + 40 + 8;

/// The bytes before the BTH.
#[derive(Clone, Debug)]
struct Head {
    bytes: [u8; HEAD],
    len: usize,
    /// Offset of the IP header.
    ip: usize,
    ipv6: bool,
    /// The ICRC over IP and UDP headers.
    lower: Hasher,
    /// How masking the congestion bits changes the ICRC.
    effect: u32,
}

impl Head {
    /// The head of a frame between two IP addresses.
    fn of(frame: &[u8], path: &Path) -> Option<Self> {
        let ip = if path.vlan.is_some() { 18 } else { 14 };
        let ipv6 = matches!(path.ip, Addresses::V6 { .. });
        let len = ip + if ipv6 { 48 } else { 28 };
        let mut bytes = [0; HEAD];
        bytes.get_mut(..len)?.copy_from_slice(frame.get(..len)?);
        let lower = icrc::lower(frame.get(ip..)?, ipv6)?;
        let mut head = Self {
            bytes,
            len,
            ip,
            ipv6,
            lower,
            effect: 0,
        };
        head.effect = icrc::mask_effect(head.behind().checked_sub(icrc::LEN)?);
        Some(head)
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The two fields at the end of the UDP header: length and checksum.
    fn udp_end(&self) -> (u16, u16) {
        match self.as_slice().last_chunk() {
            Some(&[l0, l1, c0, c1]) => (u16::from_be_bytes([l0, l1]), u16::from_be_bytes([c0, c1])),
            None => (0, 0),
        }
    }

    /// Bytes after the UDP header, to the end of the ICRC.
    fn behind(&self) -> usize {
        usize::from(self.udp_end().0).saturating_sub(8)
    }

    /// Whether other packets can have the same head. The UDP checksum depends on the payload; over
    /// IPv4 it is not checked.
    fn recurs(&self) -> bool {
        !self.ipv6 || self.udp_end().1 == 0
    }
}

/// Builds the packets that a queue pair sends.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Heads for packets with this path and this length of the UDP part: the last one without
    /// payload, which is usually an acknowledge, and the last one with payload.
    kept: [Option<(Path, usize, Head)>; 2],
}

impl Template {
    /// Like [`Frame::new`], in `buffer`, whose contents do not matter. The payload is not
    /// initialized.
    ///
    /// # Errors
    /// Those of [`Frame::new`].
    pub fn frame(
        &mut self,
        path: &Path,
        headers: &Headers,
        payload_len: usize,
        mut buffer: Vec<u8>,
    ) -> Result<Frame, BuildError> {
        let udp_len = udp_len(headers, payload_len)?;
        let slot = self.kept.get_mut(usize::from(payload_len != 0));
        if let Some(Some((of, len, head))) = &slot
            && *len == udp_len
            && of == path
        {
            // The UDP header is counted twice; short frames are padded.
            let len = head.len + udp_len - 8;
            buffer.reserve_exact(len.max(MIN_FRAME).saturating_sub(buffer.len()));
            buffer.resize(len, 0);
            if let Some(start) = buffer.get_mut(..head.len) {
                start.copy_from_slice(head.as_slice());
            }
            return Ok(Frame {
                bytes: buffer,
                ip: head.ip,
                payload: 0,
                payload_len,
                ipv6: head.ipv6,
                known: Some(Known {
                    lower: head.lower.clone(),
                    effect: head.effect,
                    bth: head.len,
                }),
            }
            .behind(head.len, headers));
        }
        let frame = Frame::new(path, headers, payload_len)?;
        if let Some(slot) = slot {
            *slot = Head::of(frame.as_slice(), path).map(|head| (*path, udp_len, head));
        }
        Ok(frame)
    }
}

/// Heads kept, a power of two.
const KEPT: usize = 32;

/// Parses received packets.
#[derive(Debug)]
pub struct KnownHeads {
    kept: Box<[Option<(Path, Head)>]>,
}

impl Default for KnownHeads {
    fn default() -> Self {
        Self {
            kept: (0..KEPT).map(|_| None).collect(),
        }
    }
}

impl KnownHeads {
    /// The slot for the head of a frame: packets of different lengths, from different hosts or from
    /// different ports have different heads.
    fn place(frame: &[u8]) -> usize {
        // From the sender's address, and from the source port after IPv4 and after IPv6.
        let byte = |at: usize| usize::from(frame.get(at).copied().unwrap_or_default());
        (frame.len() ^ byte(11) << 1 ^ byte(35) ^ byte(55)) % KEPT
    }

    /// Like [`Packet::parse`].
    ///
    /// # Errors
    /// Those of [`Packet::parse`].
    pub fn parse<'a>(&mut self, frame: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let place = self.kept.get_mut(Self::place(frame));
        if let Some(Some((path, head))) = &place
            && let Some(behind) = frame.strip_prefix(head.as_slice())
            && let Some(packet) = behind
                .get(..head.behind())
                .and_then(|behind| Packet::behind(path, &head.lower, head.effect, behind))
        {
            return Ok(packet);
        }
        let packet = Packet::parse(frame)?;
        if let Some(place) = place {
            *place = Head::of(frame, &packet.path)
                .filter(Head::recurs)
                .map(|head| (packet.path, head));
        }
        Ok(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Aeth, Bth, Opcode, Syndrome};
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn paths() -> impl Strategy<Value = Path> {
        let v4 = (any::<u32>(), any::<u32>()).prop_map(|(src, dst)| Addresses::V4 {
            src: Ipv4Addr::from(src),
            dst: Ipv4Addr::from(dst),
        });
        let v6 = (any::<u128>(), any::<u128>()).prop_map(|(src, dst)| Addresses::V6 {
            src: Ipv6Addr::from(src),
            dst: Ipv6Addr::from(dst),
        });
        let tag = prop_oneof![Just(None), any::<u16>().prop_map(Some)];
        (any::<[u8; 6]>(), tag, prop_oneof![v4, v6], any::<u8>()).prop_map(
            |(src_mac, vlan, ip, tos)| Path {
                src_mac,
                vlan,
                ip,
                tos,
                ..Path::default()
            },
        )
    }

    fn headers(psn: u32, acknowledge: bool) -> Headers {
        let opcode = if acknowledge {
            Opcode::ACKNOWLEDGE
        } else {
            Opcode::SEND_ONLY
        };
        let mut headers = Headers::new(Bth::new(opcode, 0x12, psn));
        headers.aeth = acknowledge.then_some(Aeth {
            syndrome: Syndrome::Ack(3),
            msn: psn,
        });
        headers
    }

    fn seal(mut frame: Frame, payload: &[u8]) -> Vec<u8> {
        frame.payload_mut().copy_from_slice(payload);
        frame.seal()
    }

    proptest! {
        /// Frames built with and without a template have the same bytes. They are parsed alike with
        /// and without a known head, also with a wrong bit or a missing end.
        #[test]
        fn templates_and_known_heads_change_nothing(
            paths in prop::collection::vec(paths(), 1..3),
            packets in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..3_usize, any::<u32>(), any::<bool>()),
                1..20,
            ),
            damage in prop::collection::vec(any::<Option<prop::sample::Index>>(), 20),
            cut in prop::collection::vec(prop::option::weighted(0.1, any::<prop::sample::Index>()), 20),
        ) {
            let mut template = Template::default();
            let mut known = KnownHeads::default();
            for (((which, len, psn, acknowledge), damage), cut) in packets.into_iter().zip(damage).zip(cut) {
                let path = which.get(&paths);
                let payload: Vec<u8> = if acknowledge { Vec::new() } else { vec![psn as u8; 61 + len] };
                let headers = headers(psn, acknowledge);
                let plain = seal(Frame::new(path, &headers, payload.len()).unwrap(), &payload);
                let frame = template.frame(path, &headers, payload.len(), Vec::new()).unwrap();
                prop_assert_eq!(&seal(frame, &payload), &plain);
                prop_assert_eq!(known.parse(&plain), Packet::parse(&plain));
                let mut wrong = plain;
                if let Some(damage) = damage {
                    let bit = damage.index(wrong.len() * 8);
                    wrong[bit / 8] ^= 1 << (bit % 8);
                }
                if let Some(cut) = cut {
                    wrong.truncate(cut.index(wrong.len()));
                }
                prop_assert_eq!(known.parse(&wrong), Packet::parse(&wrong));
            }
        }
    }
}
