//! A message between two devices, and the event that says it has arrived.

use std::error::Error;

use e810::{
    AccessFlags, ConnectOptions, Control, Data, Event, EventSet, GidEntry, Notify, Op, Platform,
    RecvWr, SendFlags, SendWr, Sge, Wc, WcStatus, v4,
};
use e810_hal::{Ns, Vector, WaitError, poll_until};

use super::objects::Objects;
use super::payload::Payload;

/// One device of the two, ready for use.
#[derive(Debug)]
pub struct Party<P: Platform> {
    pub platform: P,
    /// Its control path.
    pub control: Control<P>,
    /// Its vectors.
    pub events: EventSet<P>,
    /// Its objects, all made.
    pub objects: Objects<P>,
    /// Memory that its region is on.
    pub payload: Payload,
}

/// How the arrival was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The vector whose queue had the event.
    pub vector: Vector,
    /// Bytes that the completion speaks of.
    pub bytes: u32,
}

type Failure = Box<dyn Error>;

const MESSAGE: &[u8] = b"an event, please";
/// Far above any retry time of the transport.
const LIMIT: Ns = Ns::from_ms(1_000);

/// Connects the parties, arms the receiver's completion queue, sends one
/// message and waits for the event; checks every byte.
///
/// # Errors
/// What the driver refused, a wait that ended, a completion that failed, or
/// what arrived instead.
pub fn arrival_event<P: Platform>(
    from: &mut Party<P>,
    to: &mut Party<P>,
) -> Result<Arrival, Failure> {
    connect(from, to)?;
    let memory = to.payload.bytes().window(0, MESSAGE.len())?;
    let mr = to.objects.mr.as_ref().ok_or("no region")?;
    let sges = [Sge {
        addr: memory.address(),
        length: MESSAGE.len() as u32,
        lkey: mr.lkey(),
    }];
    let qp = to.objects.qp.as_mut().ok_or("no queue pair")?;
    qp.post_recv(&[RecvWr {
        wr_id: 1,
        sges: &sges,
    }])?;
    let cq = to.objects.cq.as_mut().ok_or("no completion queue")?;
    let _ = cq.arm(Notify::Any);
    let sender = from.objects.qp.as_mut().ok_or("no queue pair")?;
    sender.post_send(&[SendWr {
        wr_id: 2,
        op: Op::Send {
            data: Data::Inline(&[MESSAGE]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    }])?;

    let wanted = Event::Completion { cq: cq.number() };
    let events = &mut to.events;
    let label = "completion event";
    let vector = poll_until(&to.platform, label, LIMIT, Ns(0), || {
        let mut reported = None;
        for part in &mut *events {
            let vector = part.vector();
            part.on_vector(&mut |event| {
                reported = reported.or((event == wanted).then_some(vector));
            });
        }
        Ok::<_, WaitError>(reported)
    })?;
    if !cq.take_event() {
        return Err("the completion queue does not know of its event".into());
    }
    let mut wcs = [Wc::default(); 2];
    let polled = cq.poll(&mut wcs);
    let [wc, _] = wcs;
    if polled != 1 || wc.status != WcStatus::Success || wc.wr_id != 1 {
        return Err(format!("{polled} completions, the first: {wc:?}").into());
    }
    let mut got = [0; MESSAGE.len()];
    memory.read(0, &mut got)?;
    if got != *MESSAGE {
        return Err(format!("{got:?} arrived").into());
    }
    Ok(Arrival {
        vector,
        bytes: wc.byte_len,
    })
}

fn connect<P: Platform>(from: &mut Party<P>, to: &mut Party<P>) -> Result<(), Failure> {
    let mut known = Vec::new();
    for (party, ip) in [(&mut *from, v4(10, 8, 10, 1)), (&mut *to, v4(10, 8, 10, 2))] {
        let gid = party.control.add_gid(GidEntry::untagged(ip))?;
        let qp = party.objects.qp.as_ref().ok_or("no queue pair")?;
        known.push((gid, qp.info(&party.control, gid)?));
    }
    let peers = known.iter().rev();
    for ((party, (sgid_index, _)), (_, peer)) in [from, to].into_iter().zip(&known).zip(peers) {
        let qp = party.objects.qp.as_mut().ok_or("no queue pair")?;
        let options = ConnectOptions {
            sgid_index: *sgid_index,
            access: AccessFlags::REMOTE_WRITE,
            ..ConnectOptions::default()
        };
        qp.connect(&mut party.control, peer, &options)?;
    }
    Ok(())
}
