use e810::*;
use e810_hal::SharedBytes;

struct Side<P: Platform> {
    control: Control<P>,
    events: EventSet<P>,
    pd: Pd,
    mr: Mr<P>,
    cq: Cq<P>,
    qp: Qp<P>,
}

/// The first half of `memory` is sent from, the second received into.
fn make<P: Platform>(device: Device<P, Ready<P>>, memory: SharedBytes) -> Result<Side<P>> {
    let (mut control, events) = device.split();
    let pd = control.alloc_pd()?;
    let mr = control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)?;
    let cq = control.create_cq(64, 0)?;
    let caps = QpCaps {
        max_send_wr: 32,
        max_recv_wr: 32,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    };
    let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, caps))?;
    Ok(Side {
        control,
        events,
        pd,
        mr,
        cq,
        qp,
    })
}

/// `peer` is what `qp.info(&control, 0)` gives on the other side: told by other means.
fn connect<P: Platform>(side: &mut Side<P>, peer: &QpInfo) -> Result<()> {
    let Side { control, qp, .. } = side;
    // From entry 0 of the GID table, the function's own link-local address.
    qp.connect(control, peer, &ConnectOptions::default())
}

/// Part of the registered memory, `at` bytes from its start.
fn part<P: Platform>(side: &Side<P>, at: u64, length: u32) -> Sge {
    Sge {
        addr: side.mr.address() + at,
        length,
        lkey: side.mr.lkey(),
    }
}

fn receive<P: Platform>(side: &mut Side<P>) -> Result<(), Refused> {
    let sges = [part(side, 2048, 2048)];
    side.qp.post_recv(&[RecvWr {
        wr_id: 1,
        sges: &sges,
    }])
}

fn send<P: Platform>(side: &mut Side<P>, length: u32) -> Result<(), Refused> {
    let sges = [part(side, 0, length)];
    let op = Op::Send {
        data: Data::Sges(&sges),
        imm: None,
    };
    let flags = SendFlags::SIGNALED;
    side.qp.post_send(&[SendWr {
        wr_id: 2,
        op,
        flags,
    }])
}

/// A turn of the program's loop: a completion, if there is one. The caller bounds the
/// turns.
fn turn<P: Platform>(side: &mut Side<P>) -> Result<Option<Wc>> {
    // Without this a queue pair that failed completes nothing.
    progress(&mut side.control, &mut side.events, |event| {
        if let Event::Async(event) = event {
            // Name, cause and remedy, for a log: `event.to_string()`.
            let _ = event;
        }
    })?;
    let mut wc = [Wc::default()];
    Ok((side.cq.poll(&mut wc) == 1).then_some(wc[0]))
}

fn end<P: Platform>(side: Side<P>) -> Result<()> {
    let objects = Remaining {
        qps: [side.qp],
        ahs: [],
        cqs: [side.cq],
        mrs: [side.mr],
        pds: [side.pd],
    };
    side.control.shutdown_with(side.events, objects)
}
