//! The engine of a function that is up, and objects of it.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::{
    AccessFlags, ConnectOptions, Control, Cq, Data, EventSet, LinkPolicy, Mr, Op, Pd, Qp, QpAttr,
    QpCaps, QpInit, RecvWr, Remaining, Remote, SendFlags, SendWr, Sge, SharedBytes, Wc, addr,
    progress,
};
use e810_backends::buffer::{Buffer, Payload as _};
use e810_backends::observed::Observed;
use e810_cqp::op::{Command, HEADER, VALID, Wqe};
use e810_cqp::{Completion, Opcode};
use e810_hal::{Clock as _, Ns};
use e810_node::start::LINK;
use e810_trace::Event as Line;

use super::Bench;

/// Time within which an answer has to come that does not depend on a peer.
const PATIENCE: Ns = Ns::from_ms(2_000);
/// Pause between two looks.
const PAUSE: Ns = Ns::from_us(20);
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

impl Raw {
    /// The last command with this opcode among lines of a recording.
    pub(crate) fn last(lines: &[Line], opcode: Opcode) -> Result<Self> {
        let words = |line: &Line| {
            let Line::CqpCommand { bytes, .. } = line else {
                return None;
            };
            let words: Wqe = e810_card::record::words_from_hex(bytes)?.try_into().ok()?;
            let header = words.get(HEADER).copied().unwrap_or(0);
            (e810_cqp::op::opcode_of(header) == opcode).then_some(words)
        };
        let found = lines.iter().rev().find_map(words);
        found
            .map(Self)
            .with_context(|| format!("the recording has no {opcode}"))
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
    pub(crate) cqs: Vec<Cq<Observed>>,
    pub(crate) qps: Vec<Qp<Observed>>,
}

impl<'a> Engine<'a> {
    pub(super) fn start(bench: &'a Bench) -> Result<Self> {
        let device = bench.device();
        let link = LinkPolicy::Wait(LINK);
        let backing = e810::hmc::Backing::Full;
        let up = bench
            .start
            .bring_up(device.clone(), backing, link, &mut |_| {});
        let (mut control, events) = up.context("bringing the function up")?.split();
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
            cqs: Vec::new(),
            qps: Vec::new(),
        })
    }

    pub(super) fn end(self) -> Result<()> {
        let remaining = Remaining {
            qps: self.qps,
            ahs: [],
            cqs: self.cqs,
            mrs: [self.mr],
            pds: [self.pd],
        };
        Ok(self.control.shutdown_with(self.events, remaining)?)
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

    /// A connected queue pair on this completion queue; its index in [`Engine::qps`].
    pub(crate) fn qp(&mut self, cq: usize) -> Result<usize> {
        let cq = self.cqs.get(cq).context("no such completion queue")?;
        let qp = self
            .control
            .create_qp(&self.pd, &QpInit::rc(cq, cq, QpCaps::default()))?;
        self.qps.push(qp);
        Ok(self.qps.len() - 1)
    }

    /// Two queue pairs that are connected with each other, through the function's own address.
    pub(crate) fn pair(&mut self, cq: usize) -> Result<[usize; 2]> {
        let pair = [self.qp(cq)?, self.qp(cq)?];
        let mut infos = Vec::new();
        for index in pair {
            let qp = self.qps.get(index).context("no such queue pair")?;
            infos.push(qp.info(&self.control, self.gid)?);
        }
        let options = ConnectOptions {
            sgid_index: self.gid,
            access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
            ..ConnectOptions::default()
        };
        for (index, info) in pair.into_iter().zip(infos.iter().rev()) {
            let Self { qps, control, .. } = self;
            let qp = qps.get_mut(index).context("no such queue pair")?;
            qp.connect(control, info, &options)?;
        }
        Ok(pair)
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

    /// A command past the driver's objects.
    pub(crate) fn execute(&mut self, command: &dyn Command) -> e810::Result<Completion> {
        self.control.execute(command)
    }

    /// Serves the driver and polls this completion queue until `wanted` completions have come.
    pub(crate) fn completions(&mut self, cq: usize, wanted: usize) -> Result<Vec<Wc>> {
        let mut all = Vec::new();
        let begun = self.bench.device().now();
        while all.len() < wanted {
            self.serve()?;
            let mut found = [Wc::default(); 8];
            let queue = self.cqs.get_mut(cq).context("no such completion queue")?;
            let count = queue.poll(&mut found);
            all.extend(found.into_iter().take(count));
            if self.is_late(begun) {
                bail!(
                    "{} of {wanted} completions came within {PATIENCE}",
                    all.len()
                );
            }
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

    fn is_late(&self, begun: Ns) -> bool {
        self.bench.device().now().0.saturating_sub(begun.0) > PATIENCE.0
    }

    fn pause(&self) {
        self.bench.device().delay(PAUSE);
    }

    fn serve(&mut self) -> Result<()> {
        progress(&mut self.control, &mut self.events, |_| {})?;
        Ok(())
    }
}
