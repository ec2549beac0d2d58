//! Entries of shared tables (GID, ARP, queue sets) that paths and queue pairs use.

/// Entries of the GID and the ARP table that one path uses. The control path takes
/// and releases them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// Index in the GID table.
    pub(crate) gid: u8,
    /// Index in the device's ARP table.
    pub(crate) arp: u16,
}

/// Shared entries that a queue pair uses: those of its path, if it has one yet, and
/// the traffic class whose queue set it sends through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxPath {
    pub(crate) route: Option<Route>,
    pub(crate) class: u8,
}

/// The transmit paths of a queue pair. The device may use another path than the one the program
/// set last: a change in SQD reaches the device on the way back to RTS, and an unanswered command
/// may still be carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxPaths {
    /// The one that the program gave.
    now: TxPath,
    /// Another that the device may use.
    also: Option<TxPath>,
    /// The device may use `now` as well.
    now_in_use: bool,
}

impl TxPaths {
    /// Of a queue pair that is made without a path.
    pub(crate) const fn first(class: u8) -> Self {
        Self {
            now: TxPath { route: None, class },
            also: None,
            now_in_use: true,
        }
    }

    /// All of them.
    pub(crate) fn all(self) -> impl Iterator<Item = TxPath> {
        [Some(self.now), self.also].into_iter().flatten()
    }

    /// The device has taken a context with `now`, or with `new` if given; returns the paths that
    /// it no longer uses.
    pub(crate) fn taken(&mut self, new: Option<TxPath>) -> [Option<TxPath>; 2] {
        let before = new.map(|new| core::mem::replace(&mut self.now, new));
        self.now_in_use = true;
        [before, self.also.take()]
    }

    /// The program sets a path that reaches the device later; returns a path that never reached
    /// the device.
    pub(crate) fn planned(&mut self, new: TxPath) -> Option<TxPath> {
        let before = core::mem::replace(&mut self.now, new);
        let used = core::mem::replace(&mut self.now_in_use, false);
        if used {
            self.keep(before);
            return None;
        }
        Some(before)
    }

    /// A command with `now`, or with `new`, has not ended: the device may use the entries it
    /// names.
    pub(crate) fn open(&mut self, new: Option<TxPath>) {
        match new {
            Some(new) => self.keep(new),
            None => self.now_in_use = true,
        }
    }

    /// Keeps a path that the device may use. There is room for one; any further path keeps its
    /// entries for good, which takes two commands without an answer.
    fn keep(&mut self, tx_path: TxPath) {
        if let Some(lost) = self.also.replace(tx_path) {
            e810_hal::log_warn!("class {} and its path stay taken", lost.class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx_path(n: u8) -> TxPath {
        TxPath {
            route: Some(Route {
                gid: 0,
                arp: n.into(),
            }),
            class: n,
        }
    }

    #[test]
    fn what_the_device_uses_is_kept_until_it_took_another() {
        let mut tx_paths = TxPaths::first(0);
        let first = tx_paths.now;
        assert_eq!(tx_paths.taken(Some(tx_path(1))), [Some(first), None]);
        // In SQD: the second never reached the device.
        assert_eq!(tx_paths.planned(tx_path(2)), None);
        assert_eq!(tx_paths.planned(tx_path(3)), Some(tx_path(2)));
        assert_eq!(tx_paths.all().count(), 2);
        assert_eq!(tx_paths.taken(None), [None, Some(tx_path(1))]);
        assert!(tx_paths.all().eq([tx_path(3)]));
    }

    #[test]
    fn what_an_open_command_names_is_kept() {
        // To RTR, with a path.
        let mut tx_paths = TxPaths::first(0);
        let first = tx_paths.now;
        tx_paths.open(Some(tx_path(1)));
        assert!(tx_paths.all().eq([first, tx_path(1)]));
        assert_eq!(
            tx_paths.taken(Some(tx_path(2))),
            [Some(first), Some(tx_path(1))]
        );
        // Back to RTS, with a path that was planned: the device has one of two, and
        // a third comes.
        assert_eq!(tx_paths.planned(tx_path(3)), None);
        tx_paths.open(None);
        assert_eq!(tx_paths.planned(tx_path(4)), None);
        assert!(
            tx_paths.all().eq([tx_path(4), tx_path(3)]),
            "and 2 for good"
        );
        assert_eq!(tx_paths.taken(None), [None, Some(tx_path(3))]);
    }
}
