//! Messages between queue pairs that nobody else uses: every completion comes, and every byte is
//! where it belongs, and nowhere else.

use e810_verbs::abi::constants::qp_type::UD;

use crate::calls::cq::RECEIVE;
use crate::engine::Engine;

mod complete;
mod pair;
mod post;

use complete::{completions, event, notify};
pub(crate) use pair::Pair;
use post::{post, post_ex, receive};

/// Bytes of a message's place: a half that is sent from, and one that is received into.
const SLOT: usize = 1 << 15;
const SLOTS: usize = 3;
/// Bytes around what is received into, which stay as they are.
const GUARD: usize = 64;
/// What datagrams begin with.
const AREA: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Write = 0,
    WriteImm = 1,
    Send = 2,
    SendImm = 3,
    Read = 4,
}

/// Some messages from one side to the other.
pub(crate) fn transfer(engine: &mut Engine, at: usize) {
    let pair = engine.pairs[at].clone();
    let draw = &mut engine.run.draw;
    let from = draw.below(2);
    let (source, target) = (&pair.sides[from], &pair.sides[1 - from]);
    let count = 1 + draw.below(SLOTS);
    let message = match pair.kind {
        UD => draw.number(&[2, 3]),
        _ => draw.below(5),
    };
    let message = match message {
        0 => Message::Write,
        1 => Message::WriteImm,
        2 => Message::Send,
        3 => Message::SendImm,
        _ => Message::Read,
    };
    let most = if pair.kind == UD { 1000 } else { 12_000 };
    let sizes: Vec<usize> = (0..count)
        .map(|_| {
            draw.number(&[0, 1, 8, 63, 64, 200, 1000, 1024, 5000, most])
                .min(most)
        })
        .collect();
    let is_inline = message != Message::Read && sizes.iter().all(|size| *size <= 64);
    let is_inline = is_inline && draw.once_in(2);
    let with_event = draw.once_in(4);
    let stamp = draw.word();
    let has_area = if pair.kind == UD { AREA } else { 0 };
    let is_received = matches!(
        message,
        Message::WriteImm | Message::Send | Message::SendImm
    );
    // Where the bytes come from, and where they go.
    let (giver, taker) = match message {
        Message::Read => (target, source),
        _ => (source, target),
    };
    let to = |slot: usize| slot * SLOT + SLOT / 2 + GUARD;
    for (slot, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size)
            .map(|at| (stamp.rotate_left(at as u32 % 64) as u8) ^ at as u8 ^ slot as u8)
            .collect();
        giver.memory.put(slot * SLOT, &bytes);
        taker
            .memory
            .fill(to(slot) - GUARD, size + has_area + 2 * GUARD, 0xEE);
    }
    engine
        .run
        .about(|| format!("{message:?} of {sizes:?} on pair {at} from {from}, inline {is_inline}"));
    if with_event {
        notify(engine, target.cq);
        notify(engine, source.cq);
    }
    if is_received {
        for (slot, size) in sizes.iter().enumerate() {
            receive(engine, target, slot, to(slot), size + has_area);
        }
    }
    let targets: Vec<(usize, usize, usize)> = sizes
        .iter()
        .enumerate()
        .map(|(slot, size)| match message {
            Message::Read => (to(slot), slot * SLOT, *size),
            _ => (slot * SLOT, to(slot), *size),
        })
        .collect();
    let use_ex = engine.world.qps.get(source.qp).is_ex && engine.run.draw.once_in(2);
    if use_ex {
        post_ex(engine, [source, target], message, &targets, is_inline);
    } else {
        post(engine, [source, target], message, &targets, is_inline);
    }
    // Both sides of a pair have a queue each.
    let sent = completions(engine, source, count);
    for (slot, done) in sent.iter().enumerate() {
        if done.status != 0 || done.wr_id != slot as u64 + 1 {
            engine.run.fail(&format!("request {slot}: {done:?}"));
        }
    }
    if is_received {
        let received = completions(engine, target, count);
        for (slot, done) in received.iter().enumerate() {
            let length = (sizes[slot] + has_area) as u32;
            let has_imm = matches!(message, Message::WriteImm | Message::SendImm);
            let wrong_imm = has_imm && done.imm != (slot as u32 + 7).to_be();
            let wrong = done.status != 0 || done.wr_id != RECEIVE | slot as u64;
            if wrong || wrong_imm || done.length != length {
                engine
                    .run
                    .fail(&format!("receive {slot} of {length} bytes: {done:?}"));
            }
        }
    }
    if with_event {
        // Where nothing completes there is no event, and the request for one stays.
        if is_received {
            event(engine, target);
        }
        event(engine, source);
    }
    for (slot, size) in sizes.iter().enumerate() {
        let expected = giver.memory.bytes_at(slot * SLOT, *size);
        let start = to(slot) + has_area;
        let got = taker.memory.bytes_at(start, *size);
        let before = taker.memory.bytes_at(to(slot) - GUARD, GUARD);
        let behind = taker.memory.bytes_at(start + size, GUARD);
        if got != expected || before.iter().chain(&behind).any(|byte| *byte != 0xEE) {
            engine
                .run
                .fail(&format!("{message:?} of {size} bytes: they are wrong"));
        }
        engine.run.tally.bytes += *size as u64;
    }
    engine.run.tally.transfers[usize::from(pair.is_across)] += count as u64;
}
