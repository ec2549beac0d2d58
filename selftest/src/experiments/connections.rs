//! Connections.

use anyhow::{Context, Result, bail};
use e810::hmc::Object;
use e810::{AccessFlags, Mtu, Path, QpAttr, QpInit, Qpn, Tuning, WcStatus, addr};
use e810_hal::{Clock as _, Ns};

use crate::bench::{Bench, Engine};
use crate::experiment::{Experiment, Risk, Seen};

/// Two values of RTOMIN, and the longest that a queue pair may take to give up.
const SHORT: u8 = 5;
const LONG: u8 = 20;
const GIVES_UP: Ns = Ns::from_ms(20_000);

/// The time after which a queue pair with this RTOMIN gives up on a peer that does not answer.
fn gives_up(bench: &Bench, engine: &mut Engine<'_>, cq: usize, rto_min: u8) -> Result<u64> {
    let qp = engine.qp_with(cq, |init| QpInit {
        tuning: Some(Tuning {
            rto_min,
            ..Tuning::LINUX
        }),
        ..init
    })?;
    let mac = engine.control.lan().mac;
    let path = Path::new(engine.gid, addr::link_local(mac).into(), mac);
    // The function has no such queue pair, and drops what is for it.
    let last = engine.control.hmc().count(Object::Qp).saturating_sub(1);
    let nobody = Qpn::new(last).context("no such number")?;
    let to_rts = QpAttr {
        retry_cnt: Some(1),
        ..QpAttr::to_rts(1)
    };
    for attr in [
        QpAttr::to_init(AccessFlags::empty()),
        QpAttr::to_rtr(path, Mtu::Mtu1024, nobody, 1),
        to_rts,
    ] {
        engine.modify(qp, &attr)?;
    }
    let begun = bench.device().now();
    engine.send_bytes(qp, 8)?;
    let done = engine.completions_within(cq, 1, GIVES_UP)?;
    let done = done.first();
    let done = done.with_context(|| format!("it does not give up within {GIVES_UP}"))?;
    let number = engine.get(qp)?.number().get();
    if (done.qp_num, done.status) != (number, WcStatus::RetryExcErr) {
        bail!("queue pair {} ends with {}", done.qp_num, done.status);
    }
    Ok(bench.device().now().0.saturating_sub(begun.0))
}

pub(super) const ACK_TIME: Experiment = Experiment {
    name: "ack_time",
    assumes: "the time until a packet is sent again is proportional to RTOMIN",
    does: "measures when queue pairs with RTOMIN 5 and 20 give up on a peer that does not answer",
    values: &["Proportional", "Fixed"],
    if_not: "`Tuning::rto_min` does not change how soon a packet is sent again, and the times that the driver shows are wrong.",
    seconds: 60,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let short = gives_up(bench, engine, cq, SHORT)?;
            let long = gives_up(bench, engine, cq, LONG)?;
            Ok(if long > short * 3 {
                Seen::Value("Proportional")
            } else if long < short * 3 / 2 {
                Seen::Value("Fixed")
            } else {
                Seen::Other(format!("{} with 5, {} with 20", Ns(short), Ns(long)))
            })
        })
    },
};
