//! Level 1: every register that this driver knows and that a read does not change.

use e810_hal::RegOffset;
use e810_hal::regs::{ALL, Element, PF_FUNC_RID, RegInfo, Space, is_per_queue};

use crate::journal::{Journal, JournalError, Medium};
use crate::record::{Record, State, runs};

/// The registers of a report, in the order of the tables.
pub fn readable() -> impl Iterator<Item = &'static RegInfo> {
    ALL.iter()
        .filter(|info| info.space == Space::Bar0 && is_readable(info))
}

/// Registers of BAR 0 that are not in a report, because a read of them acts, or says
/// nothing, or is of a LAN queue that the function may not have.
pub fn left_out() -> impl Iterator<Item = &'static RegInfo> {
    ALL.iter()
        .filter(|info| info.space == Space::Bar0 && !is_readable(info))
}

fn is_readable(info: &RegInfo) -> bool {
    info.is_read_pure() && !is_per_queue(info)
}

/// Elements of an array that are one access in the report: each access waits for the disk.
const AT_ONCE: usize = 64;

/// `GLNVM_ULD at 0x0b6008`, `GLINT_DYN_CTL(0) to GLINT_DYN_CTL(63) at 0x160000`.
fn named(group: &[Element]) -> String {
    match group {
        [] => String::new(),
        [only] => format!("{only} at {:#08x}", only.offset()),
        [first, .., last] => format!("{first} to {last} at {:#08x}", first.offset()),
    }
}

/// Reads all registers of a function in `state`, by `read`.
///
/// # Errors
/// [`JournalError::Gone`] when the function stops to answer; the file.
pub fn sweep<M: Medium>(
    journal: &mut Journal<M>,
    state: State,
    read: &dyn Fn(RegOffset) -> u32,
) -> Result<(), JournalError> {
    journal.put(&Record::State { state })?;
    for info in readable() {
        let elements: Vec<Element> = info.elements().collect();
        let mut values = Vec::new();
        for group in elements.chunks(AT_ONCE) {
            let what = format!("read {} {}", named(group), state.name());
            let read_all = || -> Vec<u32> {
                let offsets = group.iter().map(|element| RegOffset::new(element.offset()));
                offsets.map(read).collect()
            };
            let Some(got) = journal.access(&what, read_all)? else {
                values.extend(group.iter().map(|_| None));
                continue;
            };
            if got.contains(&u32::MAX) && read(PF_FUNC_RID.off()) == u32::MAX {
                return Err(JournalError::Gone { what });
            }
            values.extend(got.into_iter().map(Some));
        }
        journal.put(&Record::Register {
            name: info.name.to_owned(),
            offset: info.offset,
            values: runs(values),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::io::Cursor;

    use super::*;
    use crate::document::Document;
    use crate::record::{Header, Run};

    fn journal() -> Journal<Cursor<Vec<u8>>> {
        let header = Record::Report(Header {
            version: 1,
            program: "test".to_owned(),
            device: "sim".to_owned(),
            transport: "simulated".to_owned(),
            level: 1,
            identities: false,
        });
        Journal::new(Cursor::new(Vec::new()), BTreeSet::new(), header).unwrap()
    }

    #[test]
    fn every_register_has_all_its_elements() {
        let mut journal = journal();
        sweep(&mut journal, State::Opened, &|off| off.get()).unwrap();
        let medium = journal.finish(None).unwrap();
        let document = Document::parse(medium.get_ref()).unwrap();
        let mut found = 0;
        for record in &document.records {
            let Record::Register {
                name,
                values,
                offset,
            } = record
            else {
                continue;
            };
            let info = readable().find(|info| info.name == name).unwrap();
            let count: u32 = values.iter().map(|run| run.count).sum();
            assert_eq!(count as usize, info.elements().count(), "{name}");
            assert_eq!(values[0].value, Some(*offset), "{name}");
            found += 1;
        }
        assert_eq!(found, readable().count());
        assert!(left_out().any(|info| info.name == "PFINT_OICR"));
        assert!(left_out().count() < 28);
    }

    #[test]
    fn registers_that_act_on_a_read_are_not_read() {
        let all: Vec<RegOffset> = left_out()
            .flat_map(RegInfo::elements)
            .map(|element| RegOffset::new(element.offset()))
            .collect();
        let read = |off| {
            assert!(!all.contains(&off), "{off} was read");
            0
        };
        sweep(&mut journal(), State::AsFound, &read).unwrap();
    }

    #[test]
    fn a_device_that_disappears_ends_it_in_order() {
        let total: usize = readable().map(|info| info.elements().count()).sum();
        for last in [0, 1, 57, total / 2, total - 1] {
            let reads = Cell::new(0);
            let read = |_| {
                reads.set(reads.get() + 1);
                if reads.get() > last { u32::MAX } else { 0 }
            };
            let mut journal = journal();
            let error = sweep(&mut journal, State::Opened, &read).unwrap_err();
            assert!(
                matches!(error, JournalError::Gone { .. }),
                "{last}: {error}"
            );
            let medium = journal.finish(Some(error.to_string())).unwrap();
            let document = Document::parse(medium.get_ref()).unwrap();
            let end = document.records.last().unwrap();
            assert!(
                matches!(
                    end,
                    Record::End {
                        complete: false,
                        ..
                    }
                ),
                "{end:?}"
            );
        }
    }

    #[test]
    fn a_register_of_ones_is_no_device_that_is_gone() {
        let ones = ALL.iter().find(|info| info.name == "GLNVM_ULD").unwrap();
        let read = |off: RegOffset| {
            if off.get() == ones.offset {
                u32::MAX
            } else {
                3
            }
        };
        let mut journal = journal();
        sweep(&mut journal, State::Opened, &read).unwrap();
        let medium = journal.finish(None).unwrap();
        let document = Document::parse(medium.get_ref()).unwrap();
        let expected = vec![Run {
            value: Some(u32::MAX),
            count: 1,
        }];
        let found = document.records.iter().any(|record| {
            matches!(record, Record::Register { name, values, .. } if name == "GLNVM_ULD" && *values == expected)
        });
        assert!(found);
    }
}
