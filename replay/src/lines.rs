//! The lines of several recordings in one order.

use e810_trace::Event;
use e810_trace::record::Record;

use crate::Recording;

/// A line of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The function that it is of: recordings and their devices are numbered in their order.
    pub(crate) function: usize,
    pub(crate) recording: usize,
    /// From 1 on.
    pub(crate) number: usize,
    /// Its time, or that of the line before if it has none.
    pub(crate) ns: u64,
    pub(crate) event: &'a Event,
}

/// All lines by time, and how many functions they are of.
pub(crate) fn merged(recordings: &[Recording]) -> (Vec<Line<'_>>, usize) {
    let mut lines = Vec::new();
    let mut functions = 0;
    for (recording, Recording { trace, .. }) in recordings.iter().enumerate() {
        let mut last = 0;
        let devices = trace.records.iter().map(|record| record.device).max();
        for (number, Record { ns, device, event }) in (1..).zip(&trace.records) {
            // Threads of a program may put their lines a little late.
            last = last.max(*ns);
            lines.push(Line {
                function: functions + usize::from(*device),
                recording,
                number,
                ns: last,
                event,
            });
        }
        functions += devices.map_or(0, |last| usize::from(last) + 1);
    }
    // Stable: lines of one recording keep their order.
    lines.sort_by_key(|line| line.ns);
    (lines, functions)
}

/// Whether a driver or its machine does this at the device, so that the device may answer.
pub(crate) const fn is_access(event: &Event) -> bool {
    matches!(
        event,
        Event::Read { .. }
            | Event::Write { .. }
            | Event::ConfigRead { .. }
            | Event::ConfigWrite { .. }
            | Event::Mapped { .. }
            | Event::Unmapped { .. }
            | Event::Connected { .. }
            | Event::Reset
            | Event::User { .. }
    )
}

/// Whether a driver has written this to memory that the device may read without being told.
pub(crate) fn is_posted(event: &Event) -> bool {
    matches!(
        event,
        Event::Wqe { .. } | Event::Memory { .. } | Event::Shadow { .. }
    ) && event.answer().is_none()
}

/// For each line that is a read, whether the next line of its function but its repetitions reads the same:
/// then a poll goes on. Where the device's answers were found in between, it does not.
pub(crate) fn repeated(lines: &[Line<'_>], functions: usize) -> Vec<bool> {
    let mut repeated = vec![false; lines.len()];
    let mut next: Vec<Option<&Event>> = vec![None; functions];
    for (line, repeated) in lines.iter().zip(&mut repeated).rev() {
        let Some(next) = next.get_mut(line.function) else {
            continue;
        };
        if let (Event::Read { offset, .. }, Some(Event::Read { offset: behind, .. })) =
            (line.event, *next)
        {
            *repeated = offset == behind;
        }
        if !matches!(line.event, Event::Again { .. }) {
            *next = Some(line.event);
        }
    }
    repeated
}

#[cfg(test)]
mod tests {
    use e810_trace::Trace;
    use e810_trace::record::Hex;

    use super::*;

    fn read(offset: u64) -> Event {
        Event::Read {
            register: String::new(),
            offset: Hex(offset),
            value: Hex(0),
        }
    }

    fn recording(lines: Vec<(u64, u8, Event)>) -> Recording {
        let record = |(ns, device, event)| Record { ns, device, event };
        let records = lines.into_iter().map(record).collect();
        Recording {
            name: String::new(),
            trace: Trace {
                records,
                unknown: 0,
                is_cut: false,
            },
        }
    }

    #[test]
    fn lines_are_in_the_order_of_time_and_of_their_recording() {
        let one = recording(vec![
            (5, 0, read(1)),
            // Late, by a thread that was not run; it stays behind the one before it.
            (4, 1, read(2)),
            (0, 0, Event::Reset),
        ]);
        let other = recording(vec![(1, 0, read(3)), (5, 0, read(4))]);
        let recordings = [one, other];
        let (lines, functions) = merged(&recordings);
        assert_eq!(functions, 3);
        let found: Vec<_> = lines
            .iter()
            .map(|line| (line.function, line.number, line.ns))
            .collect();
        assert_eq!(
            found,
            [(2, 1, 1), (0, 1, 5), (1, 2, 5), (0, 3, 5), (2, 2, 5)]
        );
    }

    #[test]
    fn a_poll_ends_with_another_access_or_with_an_answer() {
        let answer = Event::Aeqe {
            index: 0,
            bytes: String::new(),
        };
        let one = recording(vec![
            (1, 0, read(1)),
            (2, 0, Event::Again { times: 7 }),
            (3, 0, read(1)),
            (4, 0, answer),
            (5, 0, read(1)),
            // Of another function.
            (6, 1, read(1)),
            (7, 0, read(1)),
            (8, 0, read(2)),
        ]);
        let recordings = [one];
        let (lines, functions) = merged(&recordings);
        assert_eq!(
            repeated(&lines, functions),
            [true, false, false, false, true, false, false, false]
        );
    }
}
