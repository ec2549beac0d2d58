//! What a side sends first: its addresses, queue pairs and parameters.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use e810::{Gid, MacAddr, Mtu, Qpn};
use e810_hal::Ns;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{HandshakeError, VERSION, shown};
use e810_sim::link::parse_mac;

/// A queue pair and its memory, as a side describes them to its peer before they connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteQp {
    /// Queue pair number.
    pub qpn: Qpn,
    /// First packet sequence number that it sends.
    pub psn: u32,
    /// Q_Key of datagrams to it.
    pub qkey: u32,
    /// Address of the buffer that the peer may read and write.
    pub address: u64,
    /// Its remote key.
    pub rkey: u32,
    /// A key that the first message to this queue pair must invalidate.
    pub invalidate: Option<u32>,
}

/// A queue pair in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QpRecord {
    /// Queue pair number.
    pub qpn: u32,
    /// First packet sequence number.
    pub psn: u32,
    /// Q_Key of datagrams.
    pub qkey: u32,
    /// Remote key of the memory for messages.
    pub rkey: u32,
    pub address: u64,
    /// Key that the first message must invalidate, if messages invalidate keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalidate: Option<u32>,
}

impl From<RemoteQp> for QpRecord {
    fn from(endpoint: RemoteQp) -> Self {
        Self {
            qpn: endpoint.qpn.get(),
            psn: endpoint.psn,
            qkey: endpoint.qkey,
            rkey: endpoint.rkey,
            address: endpoint.address,
            invalidate: endpoint.invalidate,
        }
    }
}

impl QpRecord {
    /// The queue pair, if it can be connected to.
    pub(super) fn remote(&self) -> Option<RemoteQp> {
        // 0 and 1 are for management, and the last number means multicast.
        let usual = (2..Qpn::MULTICAST.get()).contains(&self.qpn);
        Some(RemoteQp {
            qpn: Qpn::new(self.qpn).filter(|_| usual)?,
            psn: self.psn,
            qkey: self.qkey,
            address: self.address,
            rkey: self.rkey,
            invalidate: self.invalidate,
        })
    }
}

/// The first message of each side.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Version of the protocol.
    pub e810: u32,
    /// The command and its options, which must be the same on both sides.
    pub terms: Map<String, Value>,
    /// Ethernet address.
    pub mac: String,
    /// GID, as an IP address.
    pub gid: IpAddr,
    /// Largest path MTU of this side, in bytes.
    pub mtu: u32,
    /// Queue pairs.
    pub places: Vec<QpRecord>,
}

/// A peer whose offer was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Ethernet address, if the peer sends it or its GID contains it.
    pub mac: Option<MacAddr>,
    /// GID.
    pub gid: Gid,
    /// The smaller of the two path MTUs.
    pub mtu: Mtu,
    /// Queue pairs, as many as on this side.
    pub endpoints: Vec<RemoteQp>,
}

impl Offer {
    /// The offer of this side.
    #[must_use]
    pub fn new(
        terms: Map<String, Value>,
        mac: MacAddr,
        gid: Gid,
        mtu: Mtu,
        endpoints: impl IntoIterator<Item = RemoteQp>,
    ) -> Self {
        Self {
            e810: VERSION,
            terms,
            mac: mac.to_string(),
            gid: gid.ip(),
            mtu: mtu.bytes(),
            places: endpoints.into_iter().map(QpRecord::from).collect(),
        }
    }

    /// Checks the offer of a peer at `from` against this one.
    ///
    /// # Errors
    /// Parameters that differ, or values that are not valid.
    pub(super) fn check(&self, theirs: Self, from: SocketAddr) -> Result<Peer, HandshakeError> {
        if theirs.e810 != VERSION {
            return Err(HandshakeError::Version {
                peer: from,
                theirs: theirs.e810.into(),
            });
        }
        self.agree(&theirs, from)?;
        let wrong = |what: &str, value: &dyn Display| {
            HandshakeError::malformed(from, shown(&format!("{what} {value}")))
        };
        let mac = parse_mac(&theirs.mac).map_err(|_| wrong("Ethernet address", &theirs.mac))?;
        let gid = theirs.gid;
        let broadcast = IpAddr::from(Ipv4Addr::BROADCAST);
        if gid.is_unspecified() || gid.is_multicast() || gid == broadcast {
            return Err(wrong("GID", &gid));
        }
        let (Some(mtu), Some(own)) = (Mtu::of_bytes(theirs.mtu), Mtu::of_bytes(self.mtu)) else {
            return Err(wrong("path MTU", &theirs.mtu));
        };
        if theirs.places.len() != self.places.len() {
            return Err(wrong("number of queue pairs", &theirs.places.len()));
        }
        let endpoint = |place: &QpRecord| {
            if place.psn >> 24 != 0 {
                return Err(wrong("PSN", &place.psn));
            }
            // A side with such messages has a key itself.
            if let Some(key) = place.invalidate
                && !self.places.iter().any(|own| own.invalidate.is_some())
            {
                return Err(wrong("key to invalidate", &key));
            }
            place
                .remote()
                .ok_or_else(|| wrong("queue pair", &place.qpn))
        };
        Ok(Peer {
            mac: Some(MacAddr(mac)),
            gid: gid.into(),
            mtu: mtu.min(own),
            endpoints: theirs
                .places
                .iter()
                .map(endpoint)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether `peer` is this side itself: PSNs are random.
    pub(super) fn is_of(&self, peer: &Peer) -> bool {
        let own = self.places.iter().map(|place| (place.qpn, place.psn));
        let theirs = peer.endpoints.iter();
        self.gid == peer.gid.ip() && own.eq(theirs.map(|qp| (qp.qpn.get(), qp.psn)))
    }

    /// Checks that both have the same parameters.
    fn agree(&self, theirs: &Self, from: SocketAddr) -> Result<(), HandshakeError> {
        let names = self.terms.keys().chain(theirs.terms.keys());
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        // Terms that determine others come first, so that both sides name the same one.
        names.sort_by_key(|name| (FIRST.iter().position(|first| first == name), *name));
        names.sort_by_key(|name| !FIRST.contains(name));
        // If only one side names a wire, the other one's server may be on it.
        let has_both = |name: &&str| {
            let sides = [&self.terms, &theirs.terms];
            *name != WIRE || sides.iter().all(|terms| terms.contains_key(WIRE))
        };
        for name in names.into_iter().filter(has_both) {
            let [ours, other] = [self, theirs].map(|offer| given(name, offer.terms.get(name)));
            if ours != other {
                return Err(HandshakeError::Differs {
                    peer: from,
                    theirs: other,
                    ours,
                });
            }
        }
        Ok(())
    }
}

/// Terms that are compared first, in this order.
const FIRST: [&str; 4] = ["command", "--test", "--transport", "--op"];

/// A term as it was given on the command line.
fn given(name: &str, value: Option<&Value>) -> String {
    let named = |value: &dyn Display| shown(&format!("{name} {value}"));
    match value {
        None | Some(Value::Null | Value::Bool(false)) => shown(&format!("no {name}")),
        Some(Value::Bool(true)) => shown(name),
        Some(Value::String(command)) if name == "command" => shown(&format!("`e810 {command}`")),
        Some(Value::String(text)) => named(text),
        Some(Value::Array(sizes)) if name == SIZES => match sizes.as_slice() {
            [size] => shown(&format!("--size {size}")),
            _ => "--all".to_owned(),
        },
        Some(value) => named(value),
    }
}

/// The term for the name of the simulated wire.
pub(crate) const WIRE: &str = "--device sim:wire";

/// The term for the sizes of `e810 perf`, which two options set.
pub(crate) const SIZES: &str = "--size or --all";

/// The term for how long messages are exchanged; null if they are counted.
pub(crate) const DURATION: &str = "--duration";

/// A time in seconds, whole or with a fraction.
pub(crate) fn seconds_term(time: Ns) -> Value {
    let ms = time.0 / 1_000_000;
    match ms % 1000 {
        0 => Value::from(ms / 1000),
        _ => Value::from(ms as f64 / 1000.0),
    }
}
