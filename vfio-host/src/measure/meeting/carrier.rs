//! The queue pair that carries the handshake, and the thread that moves bytes between it and a
//! socket.

use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use e810::{
    AccessFlags, Control, Cq, Data, Mr, Op, Pd, Qp, QpCaps, QpInit, QpState, RecvWr, SendFlags,
    SendWr, Sge, Wc, WcOpcode,
};
use e810_backends::buffer::Buffer;
use e810_backends::interrupts::HostPlatform;
use e810_connect::{Connection, Phase};

use super::{Left, Reach, lock};

/// Bytes of a message, at most.
const ROOM: usize = 4096;
/// Receives that are posted.
const RECEIVES: usize = 8;
/// How long the thread waits for bytes before it looks for completions.
const PAUSE: Duration = Duration::from_millis(1);
/// Pause between two looks for the completion of a message.
const SENDING: Duration = Duration::from_micros(100);
/// After this time without a message, an empty one is sent: it fails when the peer is gone.
const SILENCE: Duration = Duration::from_secs(1);
/// How long a message may take. The peer's thread takes it at once, whatever else the peer does.
const LOST: Duration = Duration::from_secs(10);
/// The same, when the function is about to be shut down.
const LAST: Duration = Duration::from_secs(2);

/// The queue pair with its connection, completion queue and memory.
#[derive(Debug)]
pub(super) struct Carrier<P: HostPlatform> {
    connection: Option<Connection<P>>,
    /// The queue pair, while it has no connection.
    qp: Option<Qp<P>>,
    /// Its number.
    number: Option<u32>,
    cq: Option<Cq<P>>,
    mr: Option<Mr<P>>,
    buffer: Option<Buffer>,
    is_sending: bool,
    /// A message has come.
    pub(super) has_received: bool,
    /// The handshake has ended, and the function is about to be shut down.
    pub(super) is_ending: bool,
    /// The queue pair carries nothing any more.
    is_broken: bool,
    /// Bytes that came and were not passed on yet.
    received: Vec<u8>,
}

impl<P: HostPlatform> Carrier<P> {
    /// Bytes of memory: those of the receives, then those of the message that is sent.
    pub(super) const BYTES: usize = (RECEIVES + 1) * ROOM;

    pub(super) const fn new(buffer: Buffer) -> Self {
        Self {
            connection: None,
            qp: None,
            number: None,
            cq: None,
            mr: None,
            buffer: Some(buffer),
            is_sending: false,
            has_received: false,
            is_ending: false,
            is_broken: false,
            received: Vec::new(),
        }
    }

    /// Makes the objects.
    ///
    /// # Errors
    /// The device's refusal; what was made until then is kept for [`end`](Self::end).
    pub(super) fn make(&mut self, control: &mut Control<P>, pd: &Pd) -> Result<()> {
        let Some(buffer) = &self.buffer else {
            return Ok(());
        };
        let mr = control.reg_mr(pd, buffer.bytes(), AccessFlags::LOCAL_WRITE)?;
        self.mr = Some(mr);
        let cq = self.cq.insert(control.create_cq(64, 0)?);
        let qp = control.create_qp(pd, &QpInit::rc(cq, cq, QpCaps::default()))?;
        self.number = Some(qp.number().get());
        self.qp = Some(qp);
        Ok(())
    }

    /// The number of the queue pair.
    pub(super) const fn number(&self) -> Option<u32> {
        self.number
    }

    /// The connection; [`renew`](Self::renew) makes it.
    pub(super) const fn connection(&mut self) -> Option<&mut Connection<P>> {
        self.connection.as_mut()
    }

    /// Where the connection stands.
    pub(super) fn phase(&self) -> Phase {
        self.connection
            .as_ref()
            .map_or(Phase::Over, Connection::phase)
    }

    /// Forgets the connection, if there is one, and prepares the queue pair for the next.
    ///
    /// # Errors
    /// The device's refusal.
    pub(super) fn renew(&mut self, reach: &mut Reach<'_, P>) -> Result<()> {
        if let Some(connection) = self.connection.take() {
            self.qp = Some(connection.end(reach));
        }
        let (Some(mut qp), Some(cq)) = (self.qp.take(), &mut self.cq) else {
            return Ok(());
        };
        if qp.state() != QpState::Reset
            && let Err(error) = reach.control.reset_qp(&mut qp, &mut [cq])
        {
            self.qp = Some(qp);
            return Err(error.into());
        }
        match Connection::new(reach, qp, 0) {
            Ok(connection) => self.connection = Some(connection),
            Err((qp, error)) => {
                self.qp = Some(qp);
                return Err(error.into());
            }
        }
        self.is_sending = false;
        self.has_received = false;
        self.is_broken = false;
        self.received.clear();
        (0..RECEIVES).for_each(|slot| self.post_receive(slot));
        Ok(())
    }

    fn sge(&self, slot: usize, length: usize) -> Option<Sge> {
        let mr = self.mr.as_ref()?;
        Some(Sge {
            addr: mr.address() + (slot * ROOM) as u64,
            length: length as u32,
            lkey: mr.lkey(),
        })
    }

    fn post_receive(&mut self, slot: usize) {
        let (Some(sge), Some(connection)) = (self.sge(slot, ROOM), &mut self.connection) else {
            return;
        };
        let receive = RecvWr {
            wr_id: slot as u64,
            sges: &[sge],
        };
        self.is_broken |= connection.qp().post_recv(&[receive]).is_err();
    }

    /// Sends at most [`ROOM`] bytes, when the message before is completed.
    fn send(&mut self, bytes: &[u8]) {
        let (Some(sge), Some(buffer)) = (self.sge(RECEIVES, bytes.len()), &self.buffer) else {
            return;
        };
        self.is_broken |= buffer.bytes().write(RECEIVES * ROOM, bytes).is_err();
        let sges = [sge];
        let data = match bytes.is_empty() {
            true => Data::Sges(&[]),
            false => Data::Sges(&sges),
        };
        let request = SendWr {
            wr_id: 0,
            op: Op::Send { data, imm: None },
            flags: SendFlags::SIGNALED,
        };
        if let Some(connection) = &mut self.connection {
            self.is_broken |= connection.qp().post_send(&[request]).is_err();
            self.is_sending = true;
        }
    }

    /// Takes completions.
    pub(super) fn poll(&mut self) {
        let mut wcs = [Wc::default(); RECEIVES];
        let found = match &mut self.cq {
            Some(cq) => cq.poll(&mut wcs),
            None => 0,
        };
        for wc in wcs.iter().take(found) {
            // Immediate data without a message is nothing that an e810 sends.
            if !wc.status.is_success() || wc.opcode == WcOpcode::RecvRdmaWithImm {
                self.is_broken = true;
                continue;
            }
            if wc.opcode != WcOpcode::Recv {
                self.is_sending = false;
                continue;
            }
            self.has_received = true;
            let (slot, length) = (wc.wr_id as usize, (wc.byte_len as usize).min(ROOM));
            let before = self.received.len();
            self.received.resize(before + length, 0);
            if let (Some(buffer), Some(into)) = (&self.buffer, self.received.get_mut(before..)) {
                self.is_broken |= buffer.bytes().read(slot * ROOM, into).is_err();
            }
            self.post_receive(slot);
        }
    }

    /// Ends the connection and gives everything back.
    pub(super) fn end(&mut self, reach: &mut Reach<'_, P>) -> Left<P> {
        let connection = self.connection.take();
        let qp = connection.map(|connection| connection.end(reach));
        Left {
            qp: qp.or_else(|| self.qp.take()),
            cq: self.cq.take(),
            mr: self.mr.take(),
            buffer: self.buffer.take(),
        }
    }
}

/// Moves bytes both ways until the handshake closes its end of the socket, or the queue pair has
/// failed; then `stream` is closed.
pub(super) fn carry<P: HostPlatform>(mut stream: UnixStream, carrier: &Mutex<Carrier<P>>) {
    if stream.set_read_timeout(Some(PAUSE)).is_err() {
        return;
    }
    let mut chunk = [0; ROOM];
    let mut is_closed = false;
    let mut last = Instant::now();
    loop {
        let mut shared = lock(carrier);
        shared.poll();
        let received = mem::take(&mut shared.received);
        let (is_sending, is_broken) = (shared.is_sending, shared.is_broken);
        let limit = match shared.is_ending {
            true => LAST,
            false => LOST,
        };
        drop(shared);
        if !received.is_empty() && !is_closed {
            is_closed = stream.write_all(&received).is_err();
        }
        if is_broken || (is_closed && !is_sending) || (is_sending && last.elapsed() > limit) {
            return;
        }
        if is_sending {
            thread::sleep(SENDING);
            continue;
        }
        let bytes = match stream.read(&mut chunk) {
            Ok(0) => {
                is_closed = true;
                continue;
            }
            Ok(count) => chunk.get(..count).unwrap_or_default(),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut if last.elapsed() >= SILENCE => &[],
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                _ => return,
            },
        };
        last = Instant::now();
        lock(carrier).send(bytes);
    }
}
