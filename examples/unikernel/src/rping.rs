//! rping's peer (`rping` of librdmacm's programs), first as its server and then as its client. The
//! client names its text; the server READs it and says so. Then the client names other memory; the
//! server WRITEs the text there and says so.

use core::fmt::{self, Write as _};
use core::net::{Ipv4Addr, SocketAddr};

use e810::{
    AccessFlags, Data, Mr, Notify, Op, Qp, Remote, Sge, SharedBytes, Wc, WcOpcode, WcStatus,
};
use e810_cm::Reason;
use e810_connect::Phase;
use e810_hal::Ns;
use metal::{Metal, say};

use crate::end::{End, until};
use crate::node::Which;
use crate::nvme;
use crate::report::{Failure, Report};
use crate::{Parts, down, objects};

/// Where the other rping is, and the port of both.
pub(crate) const PEER: Ipv4Addr = Ipv4Addr::new(10, 8, 10, 2);
const PORT: u16 = 7174;
/// The rows of the clients that are served.
const SERVED: [&str; 2] = ["rping, served", "rping, served again"];
/// Pings of our own, and the bytes of their text.
const PINGS: u32 = 20;
const LENGTH: usize = 3000;
/// How long the other side may take.
const LIMIT: Ns = Ns::from_ms(150_000);
/// How long to wait for a server that does not listen yet.
const AGAIN: Ns = Ns::from_ms(500);

/// The longest text.
const TEXT: usize = 1 << 16;
/// What is said about memory: its address, key and length, big-endian.
const NAME: usize = 16;
/// Places in the memory: the text, where it comes back to, what is said and what is heard.
const BACK: usize = TEXT;
const SAID: usize = 2 * TEXT;
const HEARD: usize = SAID + NAME;
const ROOM: usize = HEARD + NAME;
/// Bytes that are compared at once.
const PIECE: usize = 512;

/// Serves, asks, and gives everything back.
#[inline(never)] // What it has on the stack, the bring-up has not.
pub(crate) fn meet<'m>(
    metal: Metal<'m>,
    parts: Parts<'m>,
    mut report: Report<'m>,
) -> Result<(), Failure> {
    let mut in_pool = objects(metal, parts, &mut report)?;
    let node = &mut *in_pool;
    let machine = metal.machine();
    let end = machine.now() + LIMIT;
    while !node.lan.is_ready() {
        node.progress(None)?;
        if machine.now() > end {
            return Err(Failure::Silence("addresses that nobody else has"));
        }
    }
    let memory = metal.payload(ROOM)?;
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    let mr = node.control.reg_mr(&node.pd, memory, access)?;
    let mut qp = node.make_qp()?;
    let mut side = Side {
        end: [End::open(node)?],
        mr,
        memory,
    };
    let [end] = &mut side.end;
    end.listen(PORT)?;
    say!("rping is served on port {PORT}");
    for row in SERVED {
        side.begin(qp)?;
        let pings = side.serve()?;
        qp = side.finish()?;
        report.row(row, pings);
    }
    // The other one may not listen yet.
    let give_up = machine.now() + LIMIT;
    loop {
        side.begin(qp)?;
        if side.ask()? {
            break;
        }
        qp = side.finish()?;
        if machine.now() > give_up {
            return Err(Failure::Silence("a server of rping"));
        }
        side.rest(AGAIN)?;
    }
    side.ping()?;
    qp = side.finish()?;
    report.row("rping, asked", PINGS.into());
    let Side { mut end, mr, .. } = side;
    let blocks = nvme::read_disk(&mut end)?;
    report.row("NVMe, blocks read", blocks);
    let [end] = end;
    let gone = end.node.control.destroy_qp(qp);
    gone.map_err(|(_, error)| error)?;
    end.close()?;
    let gone = in_pool.control.dereg_mr(mr);
    gone.map_err(|(_, error)| error)?;
    down(in_pool)?;
    report.row("shutting down", 1);
    report.end()
}

/// One side of rping: its end, and its memory.
struct Side<'a, 'm> {
    end: [End<'a, 'm>; 1],
    mr: Mr<Metal<'m>>,
    memory: SharedBytes,
}

impl<'m> Side<'_, 'm> {
    /// Takes a queue pair for a connection, and is ready to hear.
    fn begin(&mut self, qp: Qp<Metal<'m>>) -> Result<(), Failure> {
        let [end] = &mut self.end;
        end.begin(qp)?;
        self.listen()
    }

    fn finish(&mut self) -> Result<Qp<Metal<'m>>, Failure> {
        let [end] = &mut self.end;
        end.finish()
    }

    /// Serves a client; how many pings it has sent.
    fn serve(&mut self) -> Result<u64, Failure> {
        until(&mut self.end, ("a client of rping", LIMIT), |[end]| {
            Ok(end.is_asked().then_some(()))
        })?;
        let [end] = &mut self.end;
        end.accept()?;
        let mut pings = 0;
        while let Some((source, length)) = self.named()? {
            let text = Text::new(pings, length as usize)?;
            let into = [self.sge(0, length)];
            self.post(Op::Read {
                into: &into,
                remote: source,
            })?;
            self.completion(WcOpcode::RdmaRead)?
                .ok_or(Failure::NotRping)?;
            text.compare(&self.memory, 0)?;
            self.name(0, 0)?;
            let (remote, room) = self.named()?.ok_or(Failure::NotRping)?;
            if room != length {
                return Err(Failure::NotRping);
            }
            self.post(Op::Write {
                data: Data::Sges(&into),
                remote,
                imm: None,
            })?;
            self.completion(WcOpcode::RdmaWrite)?
                .ok_or(Failure::NotRping)?;
            self.name(0, 0)?;
            pings += 1;
        }
        self.over()?;
        Ok(pings.into())
    }

    /// Asks the server; `false` if there is none.
    fn ask(&mut self) -> Result<bool, Failure> {
        let [end] = &mut self.end;
        end.ask(SocketAddr::new(PEER.into(), PORT), &[])?;
        until(&mut self.end, ("a server of rping", LIMIT), |[end]| {
            if end.phase()? == Phase::Refused(Reason::INVALID_SERVICE_ID) {
                return Ok(Some(false));
            }
            Ok(end.is(Phase::Established)?.then_some(true))
        })
    }

    /// All pings of a client, and the end of its connection.
    fn ping(&mut self) -> Result<(), Failure> {
        for ping in 0..PINGS {
            let text = Text::new(ping, LENGTH)?;
            text.write(&self.memory)?;
            self.name(0, LENGTH as u32)?;
            self.named()?.ok_or(Failure::NotRping)?;
            self.name(BACK, LENGTH as u32)?;
            self.named()?.ok_or(Failure::NotRping)?;
            text.compare(&self.memory, BACK)?;
        }
        let [end] = &mut self.end;
        end.disconnect()?;
        self.over()
    }

    /// Waits until nothing of the connection can arrive any more.
    fn over(&mut self) -> Result<(), Failure> {
        until(
            &mut self.end,
            ("the end of a connection", LIMIT),
            |[end]| Ok(end.is(Phase::Over)?.then_some(())),
        )
    }

    /// Does nothing for a while.
    fn rest(&mut self, time: Ns) -> Result<(), Failure> {
        let [end] = &self.end;
        let machine = end.node.metal.machine();
        let then = machine.now() + time;
        until(&mut self.end, ("time", LIMIT), |_| {
            Ok((machine.now() > then).then_some(()))
        })
    }

    fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge {
            addr: self.mr.address() + offset as u64,
            length,
            lkey: self.mr.lkey(),
        }
    }

    fn post(&mut self, op: Op<'_>) -> Result<(), Failure> {
        let [end] = &mut self.end;
        end.node.post(Which::Port, 0, op)
    }

    fn listen(&mut self) -> Result<(), Failure> {
        let sge = self.sge(HEARD, NAME as u32);
        let [end] = &mut self.end;
        end.node.post_recv_to(Which::Port, 0, sge)
    }

    /// Names memory of this side to the peer; a server names none.
    fn name(&mut self, offset: usize, length: u32) -> Result<(), Failure> {
        let Sge { addr, .. } = self.sge(offset, length);
        let rkey = self.mr.rkey();
        let name = u128::from(addr) << 64 | u128::from(rkey) << 32 | u128::from(length);
        self.memory.write(SAID, &name.to_be_bytes())?;
        let said = [self.sge(SAID, NAME as u32)];
        self.post(Op::Send {
            data: Data::Sges(&said),
            imm: None,
        })
    }

    /// What the peer names; of a server that counts for nothing. `None` when the peer has ended the
    /// connection.
    fn named(&mut self) -> Result<Option<(Remote, u32)>, Failure> {
        let Some(wc) = self.completion(WcOpcode::Recv)? else {
            return Ok(None);
        };
        if wc.byte_len as usize != NAME {
            return Err(Failure::NotRping);
        }
        let mut name = [0; NAME];
        self.memory.read(HEARD, &mut name)?;
        self.listen()?;
        let name = u128::from_be_bytes(name);
        let remote = Remote {
            addr: (name >> 64) as u64,
            rkey: (name >> 32) as u32,
        };
        Ok(Some((remote, name as u32)))
    }

    /// The next completion of a kind; others are of messages that this side has sent. `None` when the
    /// peer has ended the connection.
    fn completion(&mut self, wanted: WcOpcode) -> Result<Option<Wc>, Failure> {
        until(&mut self.end, ("the other rping", LIMIT), |[end]| {
            loop {
                let mut wc = [Wc::default()];
                while end.node.cq.poll(&mut wc) > 0 {
                    let [wc] = wc;
                    let is_ended = matches!(end.phase()?, Phase::Ending | Phase::Over);
                    match wc.status {
                        WcStatus::Success if wc.opcode == wanted => {
                            end.arrived()?;
                            return Ok(Some(Some(wc)));
                        }
                        WcStatus::Success => {}
                        WcStatus::WrFlushErr if is_ended => return Ok(Some(None)),
                        status => return Err(Failure::Completion(status, wc.vendor_err)),
                    }
                }
                if !end.node.cq.arm(Notify::Any) {
                    return Ok(None);
                }
            }
        })
    }
}

/// The text of a ping: its number, then letters, from another one on for each ping, and a zero.
struct Text {
    head: [u8; 24],
    head_len: usize,
    ping: u32,
    length: usize,
}

impl Text {
    fn new(ping: u32, length: usize) -> Result<Self, Failure> {
        if !(1..=TEXT).contains(&length) {
            return Err(Failure::NotRping);
        }
        let mut this = Self {
            head: [0; 24],
            head_len: 0,
            ping,
            length,
        };
        // It fits.
        let _ = write!(this, "rdma-ping-{ping}: ");
        Ok(this)
    }

    fn byte(&self, at: usize) -> u8 {
        const LETTERS: usize = 58;
        if at + 1 >= self.length {
            return 0;
        }
        match at.checked_sub(self.head_len) {
            Some(behind) => b'A' + ((self.ping as usize + behind) % LETTERS) as u8,
            None => self.head.get(at).copied().unwrap_or_default(),
        }
    }

    /// A piece of it, and how long that is.
    fn piece(&self, from: usize) -> ([u8; PIECE], usize) {
        let piece = core::array::from_fn(|at| self.byte(from + at));
        (piece, PIECE.min(self.length - from))
    }

    /// Writes it to where a client has its text.
    fn write(&self, memory: &SharedBytes) -> Result<(), Failure> {
        for from in (0..self.length).step_by(PIECE) {
            let (piece, length) = self.piece(from);
            memory.write(from, piece.get(..length).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Compares it with what is there.
    fn compare(&self, memory: &SharedBytes, offset: usize) -> Result<(), Failure> {
        for from in (0..self.length).step_by(PIECE) {
            let (piece, length) = self.piece(from);
            let mut there = [0; PIECE];
            let there = there.get_mut(..length).unwrap_or_default();
            memory.read(offset + from, there)?;
            if piece.get(..length) != Some(there) {
                return Err(Failure::Wrong {
                    number: self.ping.into(),
                });
            }
        }
        Ok(())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.head.get_mut(self.head_len).ok_or(fmt::Error)? = byte;
            self.head_len += 1;
        }
        Ok(())
    }
}
