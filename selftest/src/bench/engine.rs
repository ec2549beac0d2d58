//! The engine of a function that is up, and objects of it.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::{
    AccessFlags, Ah, ConnectOptions, Control, Cq, DATAGRAM_QKEY, Data, EventSet, LinkPolicy,
    MacAddr, Mr, Mtu, Op, Path, Pd, Qp, QpAttr, QpCaps, QpInit, QpType, RecvWr, Remote, SendFlags,
    SendWr, Sge, SharedBytes, UdTarget, Wc, addr, progress,
};
use e810_backends::buffer::{Buffer, Payload as _};
use e810_backends::observed::Observed;
use e810_card::record::words_from_hex;
use e810_cqp::op::{Command, HEADER, VALID, Wqe, opcode_of};
use e810_cqp::{Completion, Opcode};
use e810_hal::{Clock as _, Ns};
use e810_node::start::LINK;
use e810_trace::Event as Line;

use super::Bench;

/// Time within which an answer has to come that does not depend on a peer.
const PATIENCE: Ns = Ns::from_ms(2_000);
/// Pause between two looks.
const PAUSE: Ns = Ns::from_us(20);
/// Destination of a datagram to a group.
const GROUP_QPN: u32 = 0xFF_FFFF;
/// Bytes of payload memory.
const BYTES: usize = 64 << 10;

/// A command of the Control QP by its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Raw(pub(crate) Wqe);

impl Command for Raw {
    fn encode(&self) -> e810_cqp::Result<Wqe> {
        let mut words = self.0;
        if let Some(header) = words.get_mut(HEADER) {
            *header &= !VALID;
        }
        Ok(words)
    }
}

/// The commands among lines of a recording, and the words of the memory that each names.
fn commands(lines: &[Line]) -> impl DoubleEndedIterator<Item = (Raw, Vec<u64>)> {
    lines.iter().filter_map(|line| {
        let Line::CqpCommand { bytes, memory, .. } = line else {
            return None;
        };
        let words: Wqe = words_from_hex(bytes)?.try_into().ok()?;
        let named = memory.first();
        let named = named.and_then(|found| words_from_hex(&found.bytes));
        Some((Raw(words), named.unwrap_or_default()))
    })
}

impl Raw {
    /// The last command with this opcode among lines of a recording.
    pub(crate) fn last(lines: &[Line], opcode: Opcode) -> Result<Self> {
        Ok(Self::last_that(lines, opcode, |_| true)?.0)
    }

    /// The last one whose header is right, and the words of the memory that it names.
    pub(crate) fn last_that(
        lines: &[Line],
        opcode: Opcode,
        is_it: impl Fn(u64) -> bool,
    ) -> Result<(Self, Vec<u64>)> {
        let mut found = commands(lines).filter(|(command, _)| {
            let header = command.word(HEADER);
            opcode_of(header) == opcode && is_it(header)
        });
        let last = found.next_back();
        last.with_context(|| format!("the recording has no {opcode}"))
    }

    /// A word of it.
    pub(crate) fn word(self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// The same with bits of a word changed.
    pub(crate) fn with(mut self, word: usize, clear: u64, set: u64) -> Self {
        if let Some(word) = self.0.get_mut(word) {
            *word = *word & !clear | set;
        }
        self
    }
}

/// The engine, with a protection domain and a region; queue pairs are added to it.
pub(crate) struct Engine<'a> {
    bench: &'a Bench,
    pub(crate) control: Control<Observed>,
    events: EventSet<Observed>,
    pub(crate) pd: Pd,
    _memory: Buffer,
    pub(crate) bytes: SharedBytes,
    pub(crate) mr: Mr<Observed>,
    pub(crate) gid: u8,
    /// Bytes of host memory that the device had when it was up.
    pub(crate) backed_at_start: u64,
    /// The address handle of a group.
    group: Option<Ah>,
    pub(crate) cqs: Vec<Cq<Observed>>,
    pub(crate) qps: Vec<Qp<Observed>>,
}

impl<'a> Engine<'a> {
    pub(super) fn start(bench: &'a Bench) -> Result<Self> {
        let device = bench.device();
        // Most experiments need no link, and a card may not have any.
        let link = LinkPolicy::GoOn;
        let backing = e810::hmc::Backing::Full;
        let up = bench
            .start
            .bring_up(device.clone(), backing, link, &mut |_| {});
        let (mut control, events) = up.context("bringing the function up")?.split();
        if !bench.has_no_link.get()
            && let Err(error) = control.wait_link(LINK)
        {
            log::warn!("experiments that need a link fail: {error}");
            bench.has_no_link.set(true);
        }
        let backed_at_start = control.hmc().backed_bytes();
        let pd = control.alloc_pd()?;
        let memory = device.payload(BYTES)?;
        let bytes = memory.bytes();
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let mr = control.reg_mr(&pd, bytes, access)?;
        let ip = addr::link_local(control.lan().mac);
        let gid = control
            .find_gid(IpAddr::V6(ip), None)
            .context("the function has no link-local address")?;
        Ok(Self {
            bench,
            control,
            events,
            pd,
            _memory: memory,
            bytes,
            mr,
            gid,
            backed_at_start,
            group: None,
            cqs: Vec::new(),
            qps: Vec::new(),
        })
    }

    /// Gives everything back after a reset of the function: an experiment may have left what a driver
    /// cannot undo.
    pub(super) fn release_after_reset(self) {
        for qp in self.qps {
            qp.release_after_reset();
        }
        for cq in self.cqs {
            cq.release_after_reset();
        }
        self.mr.release_after_reset(self.bench.device());
        self.control.release_after_reset(self.events);
    }

    /// What has happened since this was called the last time.
    pub(crate) fn happened(&self) -> Vec<Line> {
        self.bench.happened()
    }

    /// A completion queue of at least `entries` entries; its index in [`Engine::cqs`].
    pub(crate) fn cq(&mut self, entries: u32) -> Result<usize> {
        self.cqs.push(self.control.create_cq(entries, 0)?);
        Ok(self.cqs.len() - 1)
    }

    /// A queue pair on this completion queue; its index in [`Engine::qps`].
    pub(crate) fn qp(&mut self, cq: usize) -> Result<usize> {
        self.qp_with(cq, |init| init)
    }

    /// The same, made as `change` says.
    pub(crate) fn qp_with(
        &mut self,
        cq: usize,
        change: impl for<'b> FnOnce(QpInit<'b>) -> QpInit<'b>,
    ) -> Result<usize> {
        let cq = self.cqs.get(cq).context("no such completion queue")?;
        let init = change(QpInit::rc(cq, cq, QpCaps::default()));
        self.qps.push(self.control.create_qp(&self.pd, &init)?);
        Ok(self.qps.len() - 1)
    }

    /// Two queue pairs that are connected with each other, through the function's own address.
    pub(crate) fn pair(&mut self, cq: usize) -> Result<[usize; 2]> {
        let pair = [self.qp(cq)?, self.qp(cq)?];
        self.connect(pair, None)?;
        Ok(pair)
    }

    /// Connects two queue pairs with each other; packets are no longer than `mtu` says.
    pub(crate) fn connect(&mut self, pair: [usize; 2], mtu: Option<Mtu>) -> Result<()> {
        let mut infos = Vec::new();
        for index in pair {
            let qp = self.qps.get(index).context("no such queue pair")?;
            infos.push(qp.info(&self.control, self.gid)?);
        }
        let options = ConnectOptions {
            sgid_index: self.gid,
            access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
            mtu,
            ..ConnectOptions::default()
        };
        for (index, info) in pair.into_iter().zip(infos.iter().rev()) {
            let Self { qps, control, .. } = self;
            let qp = qps.get_mut(index).context("no such queue pair")?;
            qp.connect(control, info, &options)?;
        }
        Ok(())
    }

    /// A datagram queue pair on this completion queue that is ready; its index in [`Engine::qps`].
    pub(crate) fn datagrams(&mut self, cq: usize) -> Result<usize> {
        let index = self.qp_with(cq, |init| QpInit {
            qp_type: QpType::Ud,
            ..init
        })?;
        for attr in [
            QpAttr::ud_to_init(DATAGRAM_QKEY),
            QpAttr::ud_to_rtr(),
            QpAttr::ud_to_rts(1),
        ] {
            self.modify(index, &attr)?;
        }
        Ok(index)
    }

    /// Has a datagram queue pair join a group.
    pub(crate) fn join(&mut self, index: usize, group: IpAddr) -> Result<()> {
        let Self {
            qps, control, gid, ..
        } = self;
        let qp = qps.get(index).context("no such queue pair")?;
        Ok(control.attach_mcast(qp, *gid, group)?)
    }

    /// Sends a datagram to a group.
    pub(crate) fn send_to_group(&mut self, index: usize, group: IpAddr) -> Result<()> {
        if self.group.is_none() {
            // The group's address gives the Ethernet address.
            let path = Path::new(self.gid, group, MacAddr([0; 6]));
            self.group = Some(self.control.create_ah(&self.pd, &path)?);
        }
        let ah = self.group.as_ref().context("no address handle")?.number();
        let sges = [self.sge(0, 8)];
        let to = UdTarget {
            ah,
            qpn: GROUP_QPN,
            qkey: DATAGRAM_QKEY,
        };
        let data = Data::Sges(&sges);
        self.send(
            index,
            Op::UdSend {
                data,
                imm: None,
                to,
            },
        )
    }

    /// The counters of a queue pair that has its own.
    pub(crate) fn counted_by(&mut self, index: usize) -> Result<e810::Stats> {
        let Self { qps, control, .. } = self;
        let qp = qps.get(index).context("no such queue pair")?;
        Ok(control.gather_qp_stats(qp)?)
    }

    /// What the function's counters have grown by while `act` was done.
    pub(crate) fn counted(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<e810::Stats> {
        let before = self.control.gather_stats()?;
        act(self)?;
        Ok(self.control.gather_stats()?.since(&before))
    }

    pub(crate) fn get(&mut self, index: usize) -> Result<&mut Qp<Observed>> {
        self.qps.get_mut(index).context("no such queue pair")
    }

    /// `length` bytes of the region, from `offset` on.
    pub(crate) fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.mr.address() + offset,
            length,
            lkey: self.mr.lkey(),
        }
    }

    /// Changes a queue pair.
    pub(crate) fn modify(&mut self, index: usize, attr: &QpAttr) -> Result<()> {
        let Self { qps, control, .. } = self;
        let qp = qps.get_mut(index).context("no such queue pair")?;
        Ok(control.modify_qp(qp, attr)?)
    }

    /// Moves a queue pair to ERR.
    pub(crate) fn fail(&mut self, index: usize) -> Result<()> {
        self.modify(index, &QpAttr::to_error())
    }

    pub(crate) fn send(&mut self, index: usize, op: Op<'_>) -> Result<()> {
        let request = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
        };
        Ok(self.get(index)?.post_send(&[request])?)
    }

    /// Sends `length` bytes of the region.
    pub(crate) fn send_bytes(&mut self, index: usize, length: u32) -> Result<()> {
        let sges = [self.sge(0, length)];
        let op = Op::Send {
            data: Data::Sges(&sges),
            imm: None,
        };
        self.send(index, op)
    }

    /// Writes a few bytes to the peer's memory.
    pub(crate) fn write(&mut self, index: usize) -> Result<()> {
        let sges = [self.sge(0, 8)];
        let remote = Remote {
            addr: self.mr.address() + 4096,
            rkey: self.mr.rkey(),
        };
        let op = Op::Write {
            data: Data::Sges(&sges),
            remote,
            imm: None,
        };
        self.send(index, op)
    }

    /// Has a queue pair write to its peer's memory with a key that does not exist, which stops both.
    pub(crate) fn break_in(&mut self, index: usize) -> Result<()> {
        let sges = [self.sge(0, 8)];
        let remote = Remote {
            addr: self.mr.address(),
            rkey: !self.mr.rkey(),
        };
        let op = Op::Write {
            data: Data::Sges(&sges),
            remote,
            imm: None,
        };
        self.send(index, op)
    }

    pub(crate) fn receive(&mut self, index: usize) -> Result<()> {
        let sges = [self.sge(BYTES as u64 / 2, 4096)];
        let request = RecvWr {
            wr_id: 2,
            sges: &sges,
        };
        Ok(self.get(index)?.post_recv(&[request])?)
    }

    /// A LAN frame of `bytes` bytes, without FCS, that nobody but the function gets: to itself, of an
    /// Ethertype for local experiments (IEEE 802).
    pub(crate) fn own_frame(&self, bytes: usize) -> Vec<u8> {
        let mac = self.control.lan().mac.0;
        let mut frame = [mac.as_slice(), &mac, &[0x88, 0xB5]].concat();
        frame.resize(bytes, 0);
        frame
    }

    /// A command past the driver's objects.
    pub(crate) fn execute(&mut self, command: &dyn Command) -> e810::Result<Completion> {
        self.control.execute(command)
    }

    /// Serves the driver and polls this completion queue until `wanted` completions have come.
    pub(crate) fn completions(&mut self, cq: usize, wanted: usize) -> Result<Vec<Wc>> {
        let all = self.completions_within(cq, wanted, PATIENCE)?;
        if all.len() < wanted {
            bail!(
                "{} of {wanted} completions came within {PATIENCE}",
                all.len()
            );
        }
        Ok(all)
    }

    /// The same, as many as come within `limit`.
    pub(crate) fn completions_within(
        &mut self,
        cq: usize,
        wanted: usize,
        limit: Ns,
    ) -> Result<Vec<Wc>> {
        let mut all = Vec::new();
        let begun = self.bench.device().now();
        while all.len() < wanted && self.bench.device().now().0.saturating_sub(begun.0) <= limit.0 {
            self.serve()?;
            let mut found = [Wc::default(); 8];
            let queue = self.cqs.get_mut(cq).context("no such completion queue")?;
            let count = queue.poll(&mut found);
            all.extend(found.into_iter().take(count));
            self.pause();
        }
        Ok(all)
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, time: Ns) -> Result<()> {
        let begun = self.bench.device().now();
        while self.bench.device().now().0.saturating_sub(begun.0) < time.0 {
            self.serve()?;
            self.pause();
        }
        Ok(())
    }

    fn pause(&self) {
        self.bench.device().delay(PAUSE);
    }

    fn serve(&mut self) -> Result<()> {
        progress(&mut self.control, &mut self.events, |_| {})?;
        Ok(())
    }
}
