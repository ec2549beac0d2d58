//! DDP package state: download, sections, versions (0x0C40 to 0x0C43; control-path 9.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::PackageStart;
use super::descriptor::{Answer, Command};
use super::hash_profiles::HashProfiles;
use super::layout::{part, put, put_u16, put_u32, u16_at, u32_at};
use super::{AqCode, Cx};
use crate::findings::kind;

/// The command that carries a buffer.
pub(super) const DOWNLOAD: u16 = 0x0c40;

/// Bytes of a buffer, and of the header in front of its section entries.
const BUFFER: usize = 4096;
const HEADER: usize = 4;
const ENTRY: usize = 8;
/// The section with the package's name: version, name, track id.
const METADATA: u32 = 1;
const NAME: usize = 28;
/// Bit in the type of a buffer's first section: the buffer is not for the card (control-path 9.10).
const METADATA_ONLY: u32 = 1 << 31;
/// Bytes of a package in the list.
const INFO: usize = 40;
/// The section that says, among other things, whether two VLAN tags are supported (`ice/ice_ddp.h
/// ICE_SID_RXPARSER_METADATA_INIT`), and the bytes of an entry (`ice/ice_flex_type.h
/// ICE_META_INIT_BITS`).
const METADATA_INIT: u32 = 58;
const METADATA_INIT_ENTRY: usize = 24;

/// Sections of the RDMA engine: ICE_SID_XLT0_PE to ICE_SID_CDID_REDIR_PE (control-path 9.10).
const OF_ENGINE: std::ops::RangeInclusive<u32> = 80..=88;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Info {
    version: [u8; 4],
    name: [u8; NAME],
    track: u32,
    /// The package has sections of the RDMA engine.
    for_engine: bool,
}

/// The package of a card.
#[derive(Debug, Default)]
pub(super) struct Package {
    active: Option<Info>,
    in_nvm: Option<Info>,
    modified: bool,
    refuses: Option<AqCode>,
    /// Contents of the current download so far.
    incoming: Info,
    /// A buffer has arrived, but none marked as the last.
    unfinished: bool,
    /// End time of the lock hold under which the download runs; none before the first buffer.
    under: Option<u64>,
    /// Entries of the parser's metadata, by number: the only section that can be read back.
    metadata_init: BTreeMap<u16, [u8; METADATA_INIT_ENTRY]>,
    hash_profiles: Arc<HashProfiles>,
}

fn named(version: [u8; 4], name: &str) -> Info {
    let mut info = Info {
        version,
        for_engine: true,
        ..Info::default()
    };
    put(&mut info.name, 0, name.as_bytes());
    info
}

impl Package {
    pub(super) fn start(&mut self, start: &PackageStart) {
        *self = Self::default();
        match start {
            PackageStart::None => {}
            PackageStart::InNvm(version) => {
                let info = named(*version, "Package of the simulator's NVM");
                self.active = Some(info.clone());
                self.in_nvm = Some(info);
            }
            PackageStart::Active(version) => {
                self.active = Some(named(*version, "Simulated package"));
            }
            PackageStart::Refused(code) => self.refuses = Some(*code),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// Whether the parser knows packets of the RDMA engine.
    pub(super) fn serves_engine(&self) -> bool {
        self.active.as_ref().is_some_and(|info| info.for_engine)
    }

    pub(super) const fn hash_profiles(&self) -> &Arc<HashProfiles> {
        &self.hash_profiles
    }

    /// A function starts over: its hash profiles are removed.
    pub(super) fn forget_hashes_of(&mut self, pf: u8) {
        Arc::make_mut(&mut self.hash_profiles).forget(pf);
    }

    /// Takes a buffer that arrives while the lock is held until `until`. The first buffer under a
    /// new hold of the lock discards what came before. A buffer after a "last" one under the same
    /// hold does not, because a signed file of the older kind ends each of its ranges that way
    /// (control-path 9.10).
    fn take(&mut self, buffer: &[u8], until: u64) -> Result<(), u32> {
        if self.under.replace(until) != Some(until) {
            self.incoming = Info::default();
            self.metadata_init.clear();
            self.hash_profiles = Arc::default();
        }
        for (kind, data) in sections(buffer)? {
            self.incoming.for_engine |= OF_ENGINE.contains(&kind);
            match kind {
                METADATA if data.len() >= 4 + NAME + 4 => {
                    put(&mut self.incoming.version, 0, data);
                    put(&mut self.incoming.name, 0, part(data, 4, NAME));
                    self.incoming.track = u32_at(data, 4 + NAME);
                }
                METADATA_INIT => self.take_metadata_init(data),
                _ => {
                    let profiles = Arc::make_mut(&mut self.hash_profiles);
                    profiles.take(kind, data).map_err(|_| 0_u32)?;
                }
            }
        }
        Ok(())
    }

    /// Changes the hash profiles of an active package: applies a whole buffer, or nothing.
    fn update(&mut self, buffer: &[u8]) -> Result<(), AqCode> {
        let mut profiles = HashProfiles::clone(&self.hash_profiles);
        for (kind, data) in sections(buffer).map_err(|_| AqCode::EINVAL)? {
            profiles.take(kind, data).map_err(|_| AqCode::EINVAL)?;
        }
        if !profiles.can_do_what_is_new_since(&self.hash_profiles) {
            return Err(AqCode::EINVAL);
        }
        self.hash_profiles = Arc::new(profiles);
        self.modified = true;
        Ok(())
    }

    /// A section with count, first number, and entries; takes the entries that are there. If a
    /// number occurs twice, the first entry counts.
    fn take_metadata_init(&mut self, section: &[u8]) {
        let (count, first) = (u16_at(section, 0), u16_at(section, 2));
        let (entries, _) = part(section, HEADER, section.len()).as_chunks::<METADATA_INIT_ENTRY>();
        for (number, entry) in (first..first.saturating_add(count)).zip(entries) {
            self.metadata_init.entry(number).or_insert(*entry);
        }
    }

    /// Whether a last buffer was still missing. Called when the lock is released, or when a buffer
    /// failed, after which the driver gives up.
    pub(super) fn is_left_unfinished(&mut self) -> bool {
        std::mem::take(&mut self.unfinished)
    }

    /// The last buffer of the package, or of a range of it, has come.
    fn finish(&mut self) {
        self.unfinished = false;
        self.active = Some(self.incoming.clone());
    }
}

/// Kind and bytes of the sections of a buffer; on an error, the offset of the wrong value. Sections
/// do not share bytes, and none overlaps the list of sections `[inf package_sections]`: no package
/// has such sections, and so a buffer never means more data than its size.
fn sections(buffer: &[u8]) -> Result<Vec<(u32, &[u8])>, u32> {
    let (count, end) = (
        usize::from(u16_at(buffer, 0)),
        usize::from(u16_at(buffer, 2)),
    );
    let list = HEADER + count * ENTRY;
    if count == 0 || !(HEADER + ENTRY..=BUFFER).contains(&end) {
        return Err(0);
    }
    let mut taken = BTreeMap::new();
    let mut found = Vec::new();
    for at in (HEADER..list).step_by(ENTRY) {
        let (offset, size) = (u16_at(buffer, at + 4), u16_at(buffer, at + 6));
        let (offset, size) = (usize::from(offset), usize::from(size));
        let after = offset + size;
        let below = taken.range(..after).next_back();
        let apart = offset >= list && below.is_none_or(|(_, last)| *last <= offset);
        if at + ENTRY > end || after > end || (size > 0 && !apart) {
            return Err(at as u32);
        }
        if size > 0 {
            taken.insert(offset, after);
        }
        found.push((u32_at(buffer, at), part(buffer, offset, size)));
    }
    Ok(found)
}

impl Cx<'_, '_> {
    /// 0x0C40: a buffer of 4096 bytes; the last one of the package is marked.
    pub(super) fn download_package(&mut self, command: &Command) -> Answer {
        const LAST: u8 = 1;
        let mut data = command.input(BUFFER)?.to_vec();
        let (pf, now) = (self.pf(), self.now());
        let Some(until) = self.card.locks.held_until(super::locks::GLOBAL, pf, now) else {
            return Err(AqCode::EPERM);
        };
        let first = u32_at(&data, HEADER);
        if first & METADATA_ONLY != 0 {
            let text = format!("a buffer is downloaded whose first section is {first:#x}");
            self.env.found(kind::ADMINQ_BITS, text);
        }
        let package = &mut self.card.package;
        package.unfinished = true;
        let wrong = match package.refuses {
            Some(code) => Some((code, 0)),
            None => package
                .take(&data, until)
                .err()
                .map(|at| (AqCode::EINVAL, at)),
        };
        if let Some((code, at)) = wrong {
            // The offset, and the kind of error (`ice/ice_adminq_cmd.h ice_aqc_download_pkg_resp`).
            put_u32(&mut data, 0, at);
            put_u32(&mut data, 4, u32::from(code.0));
            return Ok(command.answer(data)?.refused(code));
        }
        if command.param8(0) & LAST != 0 {
            package.finish();
        }
        command.answer(data)
    }

    /// 0x0C41: returns the section that the buffer names.
    pub(super) fn upload_section(&mut self, command: &Command) -> Answer {
        let mut data = command.input(HEADER + ENTRY)?.to_vec();
        let (kind, offset) = (u32_at(&data, HEADER), u16_at(&data, HEADER + 4));
        let offset = usize::from(offset);
        if kind != METADATA_INIT {
            return Err(AqCode::ENOENT);
        }
        // Count and first entry come from the driver.
        let number = u16_at(&data, offset + 2);
        let entry = self.card.package.metadata_init.get(&number);
        put(&mut data, offset + 4, entry.ok_or(AqCode::ENOENT)?);
        command.answer(data)
    }

    /// 0x0C42: only for the holder of the change lock, or of the global lock while it downloads.
    pub(super) fn update_package(&mut self, command: &Command) -> Answer {
        let data = command.input(HEADER + ENTRY)?.to_vec();
        let (pf, now) = (self.pf(), self.now());
        let locks = &mut self.card.locks;
        let holds = locks.is_held(super::locks::CHANGE, pf, now)
            || locks.is_held(super::locks::GLOBAL, pf, now);
        if !holds {
            return Err(AqCode::EPERM);
        }
        if self.card.package.active.is_none() {
            return Err(AqCode::EMODE);
        }
        self.card.package.update(&data)?;
        command.answer(data)
    }

    /// 0x0C43.
    pub(super) fn package_list(&mut self, command: &Command) -> Answer {
        let package = &self.card.package;
        let mut data = vec![0; 4];
        let mut count = 0;
        let mut add = |info: &Info, in_nvm: bool, active: bool, modified: bool| {
            let mut entry = [0; INFO];
            put(&mut entry, 0, &info.version);
            put(&mut entry, 4, &info.name);
            put_u32(&mut entry, 32, info.track);
            let flags = [in_nvm, active, in_nvm && active, modified].map(u8::from);
            put(&mut entry, 36, &flags);
            data.extend(entry);
            count += 1;
        };
        if let Some(info) = &package.active {
            let in_nvm = package.in_nvm.as_ref() == Some(info);
            add(info, in_nvm, true, package.modified);
        }
        if let Some(info) = &package.in_nvm
            && package.active.as_ref() != Some(info)
        {
            add(info, true, false, false);
        }
        put_u32(&mut data, 0, count);
        command.answer(data)
    }
}

/// A buffer with one section.
fn buffer(kind: u32, section: &[u8]) -> [u8; BUFFER] {
    let mut bytes = [0; BUFFER];
    let at = HEADER + ENTRY;
    put_u16(&mut bytes, 0, 1);
    put_u16(&mut bytes, 2, (at + section.len()) as u16);
    put_u32(&mut bytes, HEADER, kind);
    put_u16(&mut bytes, HEADER + 4, at as u16);
    put_u16(&mut bytes, HEADER + 6, section.len() as u16);
    put(&mut bytes, at, section);
    bytes
}

/// A small, well-formed, unsigned package for the E810: metadata, and three buffers, the first of
/// which names the package. For tests and for simulated devices; nothing in it configures a card.
#[must_use]
pub fn test_package() -> Vec<u8> {
    const VERSION: [u8; 4] = [1, 3, 0, 0];
    const SEGMENT_HEADER: usize = 44;
    let segment = |kind: u32, name: &str, state: &[u8]| {
        let mut bytes = vec![0; SEGMENT_HEADER];
        put_u32(&mut bytes, 0, kind);
        put(&mut bytes, 4, &[1]);
        put_u32(&mut bytes, 8, (SEGMENT_HEADER + state.len()) as u32);
        put(&mut bytes, 12, name.as_bytes());
        bytes.extend_from_slice(state);
        bytes
    };
    // Package version, nothing, name.
    let mut global = vec![0; 40];
    put(&mut global, 0, &VERSION);
    put(&mut global, 8, b"Simulated package");
    let mut metadata = [0; 4 + NAME + 4];
    put(&mut metadata, 0, &VERSION);
    put(&mut metadata, 4, b"Simulated package");
    put_u32(&mut metadata, 4 + NAME, 0xe810);
    // Names no device and no NVM; three buffers.
    let mut state = vec![0; 12];
    put_u32(&mut state, 8, 3);
    state.extend(buffer(METADATA, &metadata));
    // A switch section and one of the RDMA engine's (ICE_SID_XLT0_PE).
    state.extend(buffer(10, &[0x5a; 64]));
    state.extend(buffer(80, &[0xa5; 128]));
    let segments = [
        segment(0x01, "Global Metadata", &global),
        segment(0x10, "CPK Configuration Data", &state),
    ];
    let mut file = vec![0; 8 + 4 * segments.len()];
    put(&mut file, 0, &[1]);
    put_u32(&mut file, 4, segments.len() as u32);
    for (index, segment) in segments.iter().enumerate() {
        let at = file.len() as u32;
        put_u32(&mut file, 8 + 4 * index, at);
        file.extend_from_slice(segment);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endless series of commands leaves no more data than the firmware can use.
    #[test]
    fn the_store_is_bounded() {
        let mut package = Package::default();
        for number in 0..200u16 {
            let fill = number as u8;
            let mut data = vec![fill; 4 + 150 * METADATA_INIT_ENTRY];
            put_u16(&mut data, 0, 150);
            put_u16(&mut data, 2, number % 4);
            package.take(&buffer(METADATA_INIT, &data), 1).unwrap();
            let of_others = [fill; BUFFER - HEADER - ENTRY];
            package
                .take(&buffer(u32::from(number % 8) + 2, &of_others), 1)
                .unwrap();
        }
        assert_eq!(package.metadata_init.len(), 153);
    }
}
