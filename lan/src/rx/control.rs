//! Registers of a receive queue: its context, and on and off (lan-path 5.2, 5.4).

use e810_hal::bus::{Index, RxQueueId};
use e810_hal::clock::live;
use e810_hal::regs::{QINT_RQCTL, QRX_CONTEXT, QRX_CTRL, QRX_TAIL, QRXFLXP_CNTXT, RXDID_FLEX_NIC};
use e810_hal::{Bus, Clock, Ns, poll_until};

use crate::error::{Error, Result};

/// Pause between two looks at QENA_STAT, and limit in all: existing drivers wait 50 times 20 to
/// 40 µs, or 100 times 100 µs (lan-path 5.4). Simulated devices and those of virtual machines may
/// have no processor for that long.
const PAUSE: Ns = Ns::from_us(20);
const LIMIT: Ns = Ns::from_ms(1_000);

const ON: &str = "receive queue on (QRX_CTRL.QENA_STAT)";
const OFF: &str = "receive queue off (QRX_CTRL.QENA_STAT)";

/// Writes format and context of a queue that is off (lan-path 5.2). All eight words
/// are written: they survive a PF reset (lan-path 2.2).
pub(super) fn program(bus: &impl Bus, queue: RxQueueId, words: &[u32; 8]) -> Result<()> {
    let format = QRXFLXP_CNTXT.at(queue);
    let before = live("QRXFLXP_CNTXT", format.get(bus))?;
    let ours = QRXFLXP_CNTXT::RXDID_IDX::SET.mask()
        | QRXFLXP_CNTXT::RXDID_PRIO::SET.mask()
        | QRXFLXP_CNTXT::TS::SET.mask();
    format.set(bus, before & !ours | RXDID_FLEX_NIC);
    for (place, word) in (0..).zip(words) {
        if let Some(place) = Index::new(place) {
            QRX_CONTEXT.at(place, queue).set(bus, *word);
        }
    }
    QRX_TAIL.at(queue).set(bus, 0);
    Ok(())
}

/// Switches the queue on or off, and waits until the device confirms it. Writes nothing if the
/// queue is already in that state.
pub(super) fn switch<P: Bus + Clock>(platform: &P, queue: RxQueueId, on: bool) -> Result<()> {
    let label = if on { ON } else { OFF };
    let control = QRX_CTRL.at(queue);
    let now = control.read(platform);
    live(label, now.get())?;
    let is_on = now.is_set(QRX_CTRL::QENA_STAT);
    if is_on == on && now.is_set(QRX_CTRL::QENA_REQ) == on {
        return Ok(());
    }
    control.modify(platform, QRX_CTRL::QENA_REQ.val(on.into()));
    poll_until(platform, label, LIMIT, PAUSE, || {
        let value = live(label, control.get(platform))?;
        let is_on = QRX_CTRL::QENA_STAT.is_set(value);
        Ok::<_, Error>((is_on == on).then_some(()))
    })
}

/// Switches the queue's cause off.
pub(super) fn unbind(bus: &impl Bus, queue: RxQueueId) {
    QINT_RQCTL.at(queue).set(bus, 0);
}
