//! What the scripted firmware answers, and the little it remembers.

use std::collections::BTreeMap;

/// A reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) retval: u16,
    pub(crate) params: [u8; 16],
    pub(crate) data: Vec<u8>,
    /// Length to claim, if it is not that of the data.
    pub(crate) len: Option<u16>,
}

impl Reply {
    pub(crate) fn code(retval: u16) -> Self {
        Self {
            retval,
            ..Self::default()
        }
    }

    pub(crate) fn params(at: usize, bytes: &[u8]) -> Self {
        let mut params = [0; 16];
        params[at..at + bytes.len()].copy_from_slice(bytes);
        Self {
            params,
            ..Self::default()
        }
    }

    pub(crate) fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }
}

/// What is remembered.
#[derive(Debug)]
pub(crate) struct State {
    /// API version that Get Version gives.
    pub(crate) api: [u8; 2],
    /// Layers of the scheduler tree.
    pub(crate) layers: u8,
    /// Elements: TEID to (parent, type).
    pub(crate) elements: BTreeMap<u32, (u32, u8)>,
    next: u32,
    /// The port has a second traffic class, number 3.
    pub(crate) second_class: bool,
    /// Queue sets one group may have.
    pub(crate) siblings: u8,
    /// Replies that the lock gives before it is free.
    pub(crate) busy: u32,
    /// Another function has loaded a package.
    pub(crate) done: bool,
    pub(crate) locked: bool,
    pub(crate) hunks: Vec<u8>,
    /// The active package.
    pub(crate) active: Option<[u8; 4]>,
    /// The NVM's package format.
    pub(crate) nvm: [u8; 4],
    /// Link up, module there.
    pub(crate) link: bool,
    pub(crate) media: bool,
    /// Get Link Status this many times more until the link is up.
    pub(crate) link_in: Option<u32>,
    pub(crate) phy_enabled: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            api: [1, 5],
            layers: 9,
            elements: BTreeMap::new(),
            next: 100,
            second_class: false,
            siblings: 8,
            busy: 0,
            done: false,
            locked: false,
            hunks: Vec::new(),
            active: None,
            nvm: [1, 0, 2, 0],
            link: true,
            media: true,
            link_in: None,
            phy_enabled: true,
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..at + 4).map(|bytes| bytes.try_into().unwrap());
    field.map_or(0, u32::from_le_bytes)
}

const ENOENT: u16 = 2;
const EPERM: u16 = 1;
const EBUSY: u16 = 12;
const EINVAL: u16 = 14;

impl State {
    pub(crate) fn answer(&mut self, opcode: u16, params: [u8; 16], sent: &[u8]) -> Reply {
        match opcode {
            0x0001 => Reply::params(13, &self.api),
            0x0008 => self.lock(),
            0x0009 => {
                self.locked = false;
                Reply::default()
            }
            0x020C if !self.locked => Reply::code(EPERM),
            0x020D => Reply::default().data([0; 100]),
            0x0400 => self.topology(),
            0x0401 => self.add(sent),
            0x0404 => self.get(sent),
            0x040F => self.delete(sent),
            0x040E if self.second_class => {
                // Class 0 is element 2, class 3 is 50.
                let mut data = [0; 64];
                (data[0], data[32], data[44]) = (9, 2, 50);
                Reply::default().data(data)
            }
            0x040E => Reply::code(ENOENT),
            0x0412 => self.resources(),
            0x0600 => {
                let mut caps = vec![0; 560];
                caps[0] = 7;
                caps[16] = u8::from(self.phy_enabled) << 3;
                Reply::default().data(caps)
            }
            0x0601 => {
                self.phy_enabled = sent[16] & 8 != 0;
                Reply::default()
            }
            0x0607 => self.link_status(),
            0x0C31 => self.remove_set(sent),
            // One queue or queue set: the same places of parent and TEID.
            0x0C30 | 0x0C33 => self.add_set(sent),
            0x0C40 => self.download(params, sent),
            0x0C43 => self.packages(),
            _ => Reply::default(),
        }
    }

    fn lock(&mut self) -> Reply {
        if self.done {
            return Reply::params(12, &[2]);
        }
        if self.busy > 0 {
            self.busy -= 1;
            let mut reply = Reply::params(12, &[1]);
            reply.retval = EBUSY;
            return reply;
        }
        self.locked = true;
        Reply::params(4, &3000u32.to_le_bytes())
    }

    fn download(&mut self, params: [u8; 16], sent: &[u8]) -> Reply {
        if !self.locked {
            return Reply::code(EPERM);
        }
        self.hunks.push(params[0]);
        if sent.len() != 4096 {
            return Reply::code(EINVAL);
        }
        if params[0] & 1 != 0 {
            self.active = Some([1, 3, 30, 0]);
        }
        Reply::default()
    }

    fn packages(&self) -> Reply {
        let mut data = vec![0; 4];
        let mut entry = |version: [u8; 4], nvm, active| {
            data[0] += 1;
            let mut bytes = [0; 40];
            bytes[..4].copy_from_slice(&version);
            (bytes[36], bytes[37]) = (nvm, active);
            data.extend(bytes);
        };
        entry(self.nvm, 1, u8::from(self.active.is_none()));
        if let Some(version) = self.active {
            entry(version, 0, 1);
        }
        Reply::default().data(data)
    }

    fn resources(&self) -> Reply {
        let mut data = vec![0; 320];
        data[2] = self.layers;
        for layer in 0..9 {
            data[32 * (layer + 1) + 10] = self.siblings;
        }
        Reply::default().data(data)
    }

    /// Root 1, class 2, then the default chain from the entry point on.
    fn topology(&mut self) -> Reply {
        let mut data = vec![0; 8];
        data[4] = self.layers;
        for layer in 0..self.layers {
            let (teid, parent) = (u32::from(layer) + 1, u32::from(layer));
            let kind = match layer {
                0 => 1,
                1 => 2,
                2 => 4,
                _ if layer + 1 == self.layers => 5,
                _ => 3,
            };
            self.elements.insert(teid, (parent, kind));
            let mut element = [0; 24];
            element[..4].copy_from_slice(&parent.to_le_bytes());
            element[4..8].copy_from_slice(&teid.to_le_bytes());
            element[8] = kind;
            data.extend(element);
        }
        data.resize(224, 0);
        if self.second_class {
            let mut branch = vec![0; 8];
            branch[4] = 3;
            for (teid, parent, kind) in [(1u32, 0u32, 1), (50, 1, 2), (51, 50, 4)] {
                self.elements.insert(teid, (parent, kind));
                let mut element = [0; 24];
                element[..4].copy_from_slice(&parent.to_le_bytes());
                element[4..8].copy_from_slice(&teid.to_le_bytes());
                element[8] = kind;
                branch.extend(element);
            }
            branch.resize(224, 0);
            data.extend(branch);
        }
        Reply::params(1, &[1 + u8::from(self.second_class)]).data(data)
    }

    fn make(&mut self, parent: u32, kind: u8) -> Option<u32> {
        self.elements.get(&parent)?;
        self.next += 1;
        self.elements.insert(self.next, (parent, kind));
        Some(self.next)
    }

    fn add(&mut self, sent: &[u8]) -> Reply {
        match self.make(u32_at(sent, 0), 3) {
            Some(teid) => {
                let mut data = sent.to_vec();
                data[12..16].copy_from_slice(&teid.to_le_bytes());
                Reply::params(2, &[1]).data(data)
            }
            None => Reply::code(ENOENT),
        }
    }

    fn get(&self, sent: &[u8]) -> Reply {
        let teid = u32_at(sent, 4);
        match self.elements.get(&teid) {
            Some((parent, kind)) => {
                let mut data = vec![0; 24];
                data[..4].copy_from_slice(&parent.to_le_bytes());
                data[4..8].copy_from_slice(&teid.to_le_bytes());
                data[8] = *kind;
                Reply::params(2, &[1]).data(data)
            }
            None => Reply::code(ENOENT),
        }
    }

    fn delete(&mut self, sent: &[u8]) -> Reply {
        let (parent, teid) = (u32_at(sent, 0), u32_at(sent, 8));
        let below = self.elements.values().any(|(above, _)| *above == teid);
        match self.elements.get(&teid) {
            Some((above, _)) if *above == parent && !below => {
                self.elements.remove(&teid);
                Reply::params(2, &[1])
            }
            Some(_) => Reply::code(EBUSY),
            None => Reply::code(ENOENT),
        }
    }

    fn add_set(&mut self, sent: &[u8]) -> Reply {
        match self.make(u32_at(sent, 0), 5) {
            Some(teid) => {
                let mut data = sent.to_vec();
                data[12..16].copy_from_slice(&teid.to_le_bytes());
                Reply::default().data(data)
            }
            None => Reply::code(ENOENT),
        }
    }

    fn remove_set(&mut self, sent: &[u8]) -> Reply {
        let parent = u32_at(sent, 0);
        let leaf = self.elements.iter().find(|(_, e)| **e == (parent, 5));
        match leaf.map(|(teid, _)| *teid) {
            Some(teid) => {
                self.elements.remove(&teid);
                Reply::default()
            }
            None => Reply::code(ENOENT),
        }
    }

    fn link_status(&mut self) -> Reply {
        if let Some(left) = &mut self.link_in {
            if *left == 0 {
                self.link = true;
            } else {
                *left -= 1;
            }
        }
        Reply::default().data(link_data(self.link, self.media))
    }
}

pub(crate) fn link_data(up: bool, media: bool) -> Vec<u8> {
    let mut data = vec![0; 56];
    data[2] = u8::from(up) | u8::from(media) << 6;
    data[11] = 4;
    data
}
