//! Events that have to come.

use std::time::{Duration, Instant};

use e810_rdmacm::abi::event;

use super::engine::{CmEngine, LOST};
use super::events::pump;
use super::world::Phase;

/// How long what has to come may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// What an id still has to be told.
fn awaits(engine: &CmEngine, at: usize, waits_long: bool) -> Option<&'static str> {
    let id = engine.world.ids.get(at);
    match id.phase {
        // Who asks for what nobody has is told seconds later, or weeks.
        Phase::Resolving if id.is_lost && !id.is_hasty => return None,
        Phase::Resolving if id.is_lost && !engine.run.seed.is_multiple_of(LOST) => return None,
        Phase::Resolving => return Some("an address"),
        Phase::Routing => return Some("a route"),
        _ if id.groups.iter().any(|group| !group.is_told) => return Some("a group"),
        _ => {}
    }
    let conn = engine.world.conns.get(id.conn?);
    let peer = conn.ends[1 - id.side];
    let peer_phase = peer.map(|peer| engine.world.ids.get(peer).phase);
    if id.is_datagrams() {
        let is_answered = conn.reply.is_some() || conn.refusal.is_some();
        let is_alone =
            conn.listener.is_none() && !conn.is_requested || conn.is_requested && peer.is_none();
        let waits = id.phase == Phase::Asked && (is_answered || is_alone);
        return waits.then_some("an answer");
    }
    if conn.odd {
        // A request whose id was destroyed is refused.
        let waits = id.phase == Phase::Asked && conn.is_requested && peer.is_none();
        return waits.then_some("a refusal");
    }
    match id.phase {
        Phase::Asked if conn.refusal.is_some() => Some("a refusal"),
        Phase::Asked if conn.reply.is_some() => Some("an acceptance"),
        Phase::Asked if conn.listener.is_none() && !conn.is_requested => Some("an answer"),
        Phase::Accepted if matches!(peer_phase, Some(Phase::Connected | Phase::Ended)) => {
            Some("that its peer is ready")
        }
        Phase::Connected if conn.is_down[1 - id.side] => Some("its end"),
        Phase::Ended if waits_long && conn.is_down == [true; 2] => {
            (!id.has_seen(event::TIMEWAIT_EXIT)).then_some("the end of all")
        }
        _ => None,
    }
}

/// Takes events until none has to come.
pub(super) fn settle(engine: &mut CmEngine, waits_long: bool) {
    let since = Instant::now();
    loop {
        let all: Vec<usize> = engine.world.ids.iter().map(|(at, _)| at).collect();
        let waiting = all
            .iter()
            .find_map(|at| Some((*at, awaits(engine, *at, waits_long)?)));
        let Some((at, what)) = waiting else {
            return;
        };
        if since.elapsed() > PATIENCE {
            engine.wrong(at, &format!("{what} does not come"));
        }
        pump(engine, 2);
    }
}
