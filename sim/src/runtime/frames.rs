//! Frames on their way from one function to another.

/// Frames for which there is room at once.
const COUNT: usize = 64;

/// Frames that one engine sends to another, in order.
///
/// They are copied here, one after another, from the buffers in which they were built. Those
/// buffers stay in the cache of the sending processor, which reads them again for the ICRC right
/// after writing them. Only this memory moves from one processor to the other.
#[derive(Debug)]
pub(super) struct Frames {
    from: Option<usize>,
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Frames {
    pub(super) fn new(from: Option<usize>) -> Self {
        Self {
            from,
            bytes: Vec::new(),
            ends: Vec::with_capacity(COUNT),
        }
    }

    /// The function that sent them; none if they come from the uplink.
    pub(super) const fn from(&self) -> Option<usize> {
        self.from
    }

    pub(super) fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .filter_map(|(start, end)| self.bytes.get(*start..*end))
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Empties the group and keeps its memory.
    pub(super) fn cleared(mut self) -> Self {
        self.bytes.clear();
        self.ends.clear();
        self
    }
}
