//! Questions to the kernel's network stack, over a netlink socket (rtnetlink(7)).
//!
//! When a send returns, the kernel has answered: no call waits for anything but the kernel's locks.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// The most datagrams of one answer: a host's neighbours take 32 KiB for about 300.
const DATAGRAMS: usize = 4096;
/// Multicast groups that report changes: links, neighbours, addresses of both families
/// (`enum rtnetlink_groups`).
const CHANGES: [u32; 4] = [1, 3, 5, 9];
/// The most datagrams of changes that are discarded in a row: more come later.
const AT_ONCE: usize = 256;

/// A socket for questions.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// # Errors
    /// The system's error.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Asks for one object, or makes a change.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(message, NLM_F_ACK | flags)
    }

    /// Asks for all objects of a kind.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn dump(
        &mut self,
        message: RouteNetlinkMessage,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(message, NLM_F_DUMP)
    }

    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        let mut answer = Vec::new();
        for _ in 0..DATAGRAMS {
            let (datagram, _) = self.socket.recv_from_full()?;
            if take(&datagram, self.sequence, &mut answer)? {
                return Ok(answer);
            }
        }
        Err(io::Error::other("the answer has no end"))
    }
}

/// Takes the messages of a datagram that answer question `sequence`; returns whether the answer is
/// complete.
fn take(
    mut datagram: &[u8],
    sequence: u32,
    answer: &mut Vec<RouteNetlinkMessage>,
) -> io::Result<bool> {
    while let Some((length, message)) = first(datagram) {
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) {
            // The rest of the answer to a question that was given up.
            Ok(message) if message.header.sequence_number != sequence => {}
            Ok(message) => match message.payload {
                NetlinkPayload::InnerMessage(inner) => answer.push(inner),
                NetlinkPayload::Error(error) => match error.code {
                    Some(_) => return Err(error.to_io()),
                    None => return Ok(true),
                },
                NetlinkPayload::Done(_) => return Ok(true),
                _ => {}
            },
            // An interface of a kind newer than this program; ours are of old kinds.
            Err(error) => log::debug!("a message of the kernel is passed over: {error}"),
        }
        datagram = datagram.get(length..).unwrap_or_default();
    }
    Ok(false)
}

/// The first message of a datagram, and the bytes up to the next one (`NLMSG_ALIGN`).
fn first(datagram: &[u8]) -> Option<(usize, &[u8])> {
    let length = u32::from_ne_bytes(*datagram.first_chunk()?) as usize;
    let message = datagram.get(..length).filter(|_| length >= 16)?;
    Some((length.next_multiple_of(4), message))
}

/// A socket that reports that something has changed. What has changed is then asked for anew, so
/// lost messages do no harm.
pub(super) struct Changes(Socket);

impl Changes {
    /// # Errors
    /// The system's error.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        for group in CHANGES {
            socket.add_membership(group)?;
        }
        Ok(Self(socket))
    }

    /// Whether something has changed since the last call.
    pub(super) fn take(&self) -> bool {
        let mut has_changed = false;
        for _ in 0..AT_ONCE {
            let mut datagram = [0; 16];
            match self.0.recv(&mut &mut datagram[..], 0) {
                Ok(_) => has_changed = true,
                Err(error) => {
                    // ENOBUFS: there were so many changes that messages were lost.
                    return has_changed || error.kind() != io::ErrorKind::WouldBlock;
                }
            }
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::ErrorMessage;
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    fn bytes(sequence: u32, payload: NetlinkPayload<RouteNetlinkMessage>) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.sequence_number = sequence;
        let mut packet = NetlinkMessage::new(header, payload);
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len().next_multiple_of(4)];
        packet.serialize(&mut bytes);
        bytes
    }

    fn link(sequence: u32, index: u32) -> Vec<u8> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        bytes(sequence, RouteNetlinkMessage::NewLink(message).into())
    }

    fn ended(sequence: u32, code: i32) -> Vec<u8> {
        let mut error = ErrorMessage::default();
        error.code = core::num::NonZeroI32::new(code);
        error.header = vec![0; 16];
        bytes(sequence, NetlinkPayload::Error(error))
    }

    #[test]
    fn an_answer_has_messages_and_an_end() {
        let mut answer = Vec::new();
        let datagram = [link(7, 2), link(6, 3), link(7, 4)].concat();
        assert!(!take(&datagram, 7, &mut answer).unwrap());
        let index = |message: &RouteNetlinkMessage| match message {
            RouteNetlinkMessage::NewLink(link) => link.header.index,
            _ => 0,
        };
        assert_eq!(answer.iter().map(index).collect::<Vec<_>>(), [2, 4]);
        assert!(take(&ended(7, 0), 7, &mut answer).unwrap());
        // The end of another question's answer does not end this one.
        assert!(!take(&ended(6, 0), 7, &mut answer).unwrap());
        let refused = take(&ended(7, -libc::EPERM), 7, &mut answer).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn a_message_that_cannot_be_read_is_passed_over() {
        let mut answer = Vec::new();
        // A link's message without its header.
        let mut short = bytes(7, NetlinkPayload::Noop);
        let length = short.len() as u32;
        short[..4].copy_from_slice(&length.to_ne_bytes());
        short[4..6].copy_from_slice(&16u16.to_ne_bytes());
        let datagram = [short, link(7, 4)].concat();
        assert!(!take(&datagram, 7, &mut answer).unwrap());
        assert_eq!(answer.len(), 1);
        for cut in 0..datagram.len() {
            let _ = take(&datagram[..cut], 7, &mut answer);
        }
        assert_eq!(first(&[0; 20]), None, "a length that goes nowhere");
    }
}
