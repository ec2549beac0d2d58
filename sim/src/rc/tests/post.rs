//! Builds ring entries without a driver.

use super::node::{BASE, LKEY, Node, RKEY};

/// A scatter/gather element: offset in the node's memory and length, through [`LKEY`].
pub(super) type Sge = (usize, u32);

/// What to post on the send queue.
#[derive(Clone, Debug)]
pub(super) struct Post {
    opcode: u64,
    fragments: Vec<(u64, u32, u32)>,
    inline: Option<Vec<u8>>,
    immediate: Option<u32>,
    word2: u64,
    low: u32,
    flags: u64,
    body: Option<[u64; 2]>,
}

const SIGNALED: u64 = 1 << 62;
const LOCAL_FENCE: u64 = 1 << 61;
const READ_FENCE: u64 = 1 << 60;

impl Post {
    fn new(opcode: u64) -> Self {
        Self {
            opcode,
            fragments: Vec::new(),
            inline: None,
            immediate: None,
            word2: 0,
            low: 0,
            flags: SIGNALED,
            body: None,
        }
    }

    fn data(opcode: u64, sges: &[Sge]) -> Self {
        let fragments = sges
            .iter()
            .map(|&(offset, len)| (BASE + offset as u64, len, LKEY))
            .collect();
        Self {
            fragments,
            ..Self::new(opcode)
        }
    }

    pub(super) fn send(sges: &[Sge]) -> Self {
        Self::data(0x03, sges)
    }

    pub(super) fn send_inline(data: &[u8]) -> Self {
        Self {
            inline: Some(data.to_vec()),
            ..Self::new(0x03)
        }
    }

    pub(super) fn write(sges: &[Sge], remote: usize) -> Self {
        Self {
            word2: BASE + remote as u64,
            low: RKEY,
            ..Self::data(0x00, sges)
        }
    }

    pub(super) fn read(sges: &[Sge], remote: usize) -> Self {
        Self {
            word2: BASE + remote as u64,
            low: RKEY,
            ..Self::data(0x01, sges)
        }
    }

    pub(super) fn nop() -> Self {
        Self {
            body: Some([0, 0]),
            ..Self::new(0x0c)
        }
    }

    pub(super) fn local_invalidate(stag: u32) -> Self {
        Self {
            body: Some([0, stag.into()]),
            ..Self::new(0x0a)
        }
    }

    pub(super) fn opcode(self, opcode: u64) -> Self {
        Self { opcode, ..self }
    }

    pub(super) fn immediate(self, immediate: u32) -> Self {
        Self {
            immediate: Some(immediate),
            ..self
        }
    }

    /// Low half of the header: rkey, or the STag to invalidate.
    pub(super) fn low(self, low: u32) -> Self {
        Self { low, ..self }
    }

    pub(super) fn lkey(mut self, lkey: u32) -> Self {
        for fragment in &mut self.fragments {
            fragment.2 = lkey;
        }
        self
    }

    pub(super) fn solicited(self) -> Self {
        // For send, send with invalidate and write, the opcode of the solicited form is 2, 2 and 13
        // higher.
        let opcode = if self.opcode == 0 {
            0x0d
        } else {
            self.opcode + 2
        };
        self.opcode(opcode)
    }

    pub(super) fn unsignaled(self) -> Self {
        Self {
            flags: self.flags & !SIGNALED,
            ..self
        }
    }

    pub(super) fn read_fence(self) -> Self {
        Self {
            flags: self.flags | READ_FENCE,
            ..self
        }
    }

    pub(super) fn local_fence(self) -> Self {
        Self {
            flags: self.flags | LOCAL_FENCE,
            ..self
        }
    }

    /// Extra header bits.
    pub(super) fn flags(self, flags: u64) -> Self {
        Self {
            flags: self.flags | flags,
            ..self
        }
    }

    /// The words of the entry.
    fn words(&self, polarity: bool) -> Vec<u64> {
        let valid = u64::from(polarity) << 63;
        let mut header = valid | self.opcode << 32 | u64::from(self.low) | self.flags;
        if let Some(data) = &self.inline {
            let mut bytes = vec![0; 32 * (1 + data.len().saturating_sub(8).div_ceil(31))];
            let (first, rest) = data.split_at(data.len().min(8));
            bytes[8..8 + first.len()].copy_from_slice(first);
            for (chunk, quantum) in rest.chunks(31).zip(bytes[32..].chunks_mut(32)) {
                quantum[..chunk.len()].copy_from_slice(chunk);
                quantum[31] = u8::from(polarity) << 7;
            }
            header |= 1 << 57 | (data.len() as u64) << 48;
            let mut words: Vec<u64> = bytes
                .as_chunks()
                .0
                .iter()
                .map(|word| u64::from_le_bytes(*word))
                .collect();
            words[2] = self.word2;
            words[3] = header;
            return words;
        }
        if let Some([word0, word1]) = self.body {
            return vec![word0, word1, self.word2, header];
        }
        let pair = |&(addr, len, stag): &(u64, u32, u32)| {
            [addr, valid | u64::from(len) << 32 | u64::from(stag)]
        };
        let mut pairs: Vec<[u64; 2]> = self.fragments.iter().map(pair).collect();
        if let Some(immediate) = self.immediate {
            header |= 1 << 47;
            pairs.insert(0, [immediate.into(), 0x5555_5555_5555_5555]);
        }
        if pairs.len().is_multiple_of(2) {
            pairs.push([0, valid]);
        }
        header |= (pairs.len() as u64 - 1) << 38;
        let mut words = vec![self.word2, header];
        words.splice(0..0, pairs[0]);
        words.extend(pairs[1..].iter().flatten());
        words
    }
}

/// Software's position in its rings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Software {
    send_head: usize,
    receive_head: usize,
    slot_quanta: usize,
}

impl Software {
    pub(super) fn new(slot_quanta: usize) -> Self {
        Self {
            send_head: 0,
            receive_head: 0,
            slot_quanta,
        }
    }

    /// Posts an entry, with pad NOPs in front if it would cross a chunk. Returns its quantum index.
    pub(super) fn post(&mut self, node: &mut Node, post: &Post) -> u16 {
        let quanta = post.words(true).len() / 4;
        while self.send_head % 8 + quanta > 8 {
            self.place(node, &Post::nop().unsignaled());
        }
        self.place(node, post)
    }

    fn place(&mut self, node: &mut Node, post: &Post) -> u16 {
        let size = node.sq.len() / 4;
        let index = self.send_head % size;
        let words = post.words((self.send_head / size).is_multiple_of(2));
        self.send_head += words.len() / 4;
        // The memory behind the entry must not look valid; this stands for the driver's
        // clear-ahead.
        let next = self.send_head % size;
        node.sq[next * 4 + 3] = u64::from(!(self.send_head / size).is_multiple_of(2)) << 63;
        node.sq[index * 4..index * 4 + words.len()].copy_from_slice(&words);
        index as u16
    }

    /// Posts raw words at the head.
    pub(super) fn post_raw(&mut self, node: &mut Node, words: &[u64]) {
        let index = self.send_head % (node.sq.len() / 4);
        node.sq[index * 4..index * 4 + words.len()].copy_from_slice(words);
        self.send_head += words.len() / 4;
    }

    /// Posts a receive. Returns its quantum index.
    pub(super) fn receive(&mut self, node: &mut Node, sges: &[Sge]) -> u16 {
        self.receive_with(node, sges, LKEY)
    }

    pub(super) fn receive_with(&mut self, node: &mut Node, sges: &[Sge], lkey: u32) -> u16 {
        let slots = node.rq.len() / 4 / self.slot_quanta;
        let index = self.receive_head % slots * self.slot_quanta;
        let polarity = (self.receive_head / slots).is_multiple_of(2);
        let mut post = Post::data(0, sges).lkey(lkey).unsignaled();
        if sges.is_empty() {
            post.fragments.push((0, 0, 0));
        }
        let words = post.words(polarity);
        assert!(words.len() <= self.slot_quanta * 4);
        node.rq[index * 4..index * 4 + words.len()].copy_from_slice(&words);
        self.receive_head += 1;
        index as u16
    }
}
