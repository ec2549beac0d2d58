//! Payload of plain entries that is read ahead, where each access takes long.
//!
//! Entries are seen first and their payload is read then, as for one entry. The payload of an entry
//! that software adds meanwhile is read on its own.

use super::engine::Stop;
use super::host::{Access, Host, Right};
use super::ring::{first_send_quantum, send_slot};
use super::state::{Mode, QpRcState, Timer};
use crate::wqe::{Fragment, PlainSend};

/// Neighbours are in one page.
const PAGE: u64 = 4096;
/// Pages from which payload is read ahead at a time.
const PAGES: usize = 4;

/// Bytes of one page that have the payload of several entries.
#[derive(Clone, Copy, Debug)]
struct Span {
    stag: u32,
    first: u64,
    end: u64,
    entries: u32,
}

impl Span {
    fn of(fragment: &Fragment) -> Option<Self> {
        let first = fragment.addr;
        let end = first.checked_add(fragment.len.into())?;
        let is_in_page = end - first <= PAGE - first % PAGE;
        is_in_page.then_some(Self {
            stag: fragment.stag,
            first,
            end,
            entries: 1,
        })
    }

    /// Takes in a neighbour; false if that is none.
    fn join(&mut self, other: &Self) -> bool {
        let is_near = self.stag == other.stag && self.first / PAGE == other.first / PAGE;
        if is_near {
            self.first = self.first.min(other.first);
            self.end = self.end.max(other.end);
            self.entries += 1;
        }
        is_near
    }
}

/// Reads the payload of up to `most` entries that are to be sent next and are plain, in place of
/// what was read ahead before. Returns the position behind the last entry that was seen.
pub(super) fn read_ahead<H: Host + ?Sized>(
    state: &QpRcState,
    host: &mut H,
    most: u32,
) -> Result<u64, Stop> {
    host.forget_ahead();
    let QpRcState {
        config,
        requester,
        mode,
        ..
    } = state;
    let at = requester.next;
    let begun = requester.next_psn != at.first_psn || at.pos < requester.max_pos;
    if begun || *mode != Mode::Rts || matches!(requester.timer, Timer::NotReady(_)) {
        return Ok(at.pos);
    }
    let window = config.window.saturating_sub(requester.in_flight());
    let mut spans = [const { None }; PAGES];
    let mut seen = at.pos;
    'entries: for _ in 0..most.min(window) {
        let slot @ (_, polarity) = send_slot(config, seen);
        let Some(words) = first_send_quantum(slot, host)? else {
            break;
        };
        let plain = PlainSend::decode(&words, polarity);
        let Some(span) = plain.and_then(|plain| Span::of(&plain.fragment)) else {
            break;
        };
        for place in &mut spans {
            if place.get_or_insert(Span { entries: 0, ..span }).join(&span) {
                seen += 1;
                continue 'entries;
            }
        }
        break;
    }
    for span in spans.iter().flatten().filter(|span| span.entries > 1) {
        let access = Access {
            qpn: config.qpn,
            pd: config.pd,
            stag: span.stag,
            addr: span.first,
            right: Right::LocalRead,
        };
        // Inside a page.
        host.read_ahead(access, (span.end - span.first) as u32);
    }
    Ok(seen)
}
