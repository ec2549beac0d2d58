//! Flash contents as 0x0701 reads them: shadow RAM, followed by the NVM, option ROM and netlist
//! banks.
//!
//! Word offsets are those that `ice/ice_nvm.c` reads (`ice/ice_type.h ICE_SR_*`); the contents are
//! this model's own.

use super::descriptor::{Answer, Command};
use super::layout::{put, put_u16, put_u32};
use super::{AqCode, Cx};

/// Bytes of the shadow RAM; GLNVM_GENS.SR_SIZE gives it as a power of two of KiB.
pub(crate) const SHADOW_RAM_LOG2_KB: u32 = 6;
const SHADOW_RAM: usize = 1024 << SHADOW_RAM_LOG2_KB;
const SECTOR: usize = 4096;

/// First byte and length of the three modules: each has two consecutive banks.
const NVM: (usize, usize) = (0x1_0000, 0x2_0000);
const OROM: (usize, usize) = (0x5_0000, 0x4000);
const NETLIST: (usize, usize) = (0x5_8000, 0x2000);
/// Bytes of the flash.
const FLASH: usize = 0x10_0000;

/// Words of the shadow RAM.
mod word {
    pub(super) const CONTROL: usize = 0x00;
    pub(super) const DEV_STARTER: usize = 0x18;
    pub(super) const EETRACK: usize = 0x2d;
    pub(super) const PFA: usize = 0x40;
    pub(super) const NVM: usize = 0x42;
    pub(super) const OROM: usize = 0x44;
    pub(super) const NETLIST: usize = 0x46;
    /// Location of this card's preserved fields.
    pub(super) const PFA_HERE: usize = 0x1000;
}

/// Modules of the preserved fields: part number, link override, transmit topology.
const PBA: u16 = 0x16;
const LINK_OVERRIDE: u16 = 0x134;

/// Words of the CSS header of an NVM bank, without the authentication header
/// (`ice_get_nvm_css_hdr_len`).
const CSS_WORDS: usize = 322;
const AUTHENTICATION_WORDS: usize = 8;

/// Flags of 0x0701.
const FLASH_ONLY: u8 = 1 << 7;

/// The flash contents, made when first read.
#[derive(Debug, Default)]
pub(super) struct Flash {
    image: Vec<u8>,
}

fn set_word(image: &mut [u8], base: usize, word: usize, value: u16) {
    put_u16(image, base + word * 2, value);
}

/// A pointer in sectors.
fn in_sectors(bytes: usize) -> u16 {
    0x8000 | (bytes / SECTOR) as u16
}

fn shadow_ram() -> Vec<u8> {
    let mut ram = vec![0xff; SHADOW_RAM];
    let mut set = |word, value| set_word(&mut ram, 0, word, value);
    // Valid: 01b in [7:6]; first banks are active.
    set(word::CONTROL, 0x40);
    // Version 4.10.
    set(word::DEV_STARTER, 0x4010);
    set(word::EETRACK, 0x0001);
    set(word::EETRACK + 1, 0x8000);
    set(word::PFA, word::PFA_HERE as u16);
    for (at, (from, bytes)) in [
        (word::NVM, NVM),
        (word::OROM, OROM),
        (word::NETLIST, NETLIST),
    ] {
        set(at, in_sectors(from));
        set(at + 1, (bytes / SECTOR) as u16);
    }
    // Preserved fields: length, then type, length and value of each module, and one final word.
    let part_number = b"E81000-SIM";
    let mut next = word::PFA_HERE + 1;
    let words = part_number.len() / 2;
    set(next, PBA);
    set(next + 1, words as u16 + 1);
    set(next + 2, words as u16 + 1);
    for (index, pair) in part_number.chunks(2).enumerate() {
        let [high, low] = [0, 1].map(|at| u16::from(pair.get(at).copied().unwrap_or(0)));
        set(next + 3 + index, high << 8 | low);
    }
    next += 3 + words;
    // Ten words for each of eight ports: nothing is overridden.
    set(next, LINK_OVERRIDE);
    set(next + 1, 80);
    for word in 0..80 {
        set(next + 2 + word, 0);
    }
    next += 82;
    set(word::PFA_HERE, (next - word::PFA_HERE + 1) as u16);
    ram
}

/// Version data of the option ROM: `$CIV`, a sum of 0 over its 74 bytes.
fn option_rom_version() -> [u8; 74] {
    let mut civd = [0; 74];
    put(&mut civd, 0, b"$CIV");
    // 1.3.0.
    put_u32(&mut civd, 5, 0x0100_0300);
    let sum = civd.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    put(&mut civd, 4, &[sum.wrapping_neg()]);
    civd
}

fn image() -> Vec<u8> {
    let mut image = vec![0xff; FLASH];
    let ram = shadow_ram();
    put(&mut image, 0, &ram);
    for bank in [0, 1] {
        let nvm = NVM.0 + bank * NVM.1;
        set_word(&mut image, nvm, 2, (CSS_WORDS / 2) as u16);
        set_word(&mut image, nvm, 3, 0);
        let copy = (CSS_WORDS + AUTHENTICATION_WORDS).next_multiple_of(32);
        put(&mut image, nvm + copy * 2, &ram);
        put(
            &mut image,
            OROM.0 + bank * OROM.1 + 512,
            &option_rom_version(),
        );
        let netlist = NETLIST.0 + bank * NETLIST.1;
        // Link topology, its length, no nodes, then the id block.
        set_word(&mut image, netlist, 0, 0x011b);
        set_word(&mut image, netlist, 2, 0x0100);
        set_word(&mut image, netlist, 3, 0);
        for word in 0..0x30 {
            set_word(&mut image, netlist, 6 + word, 0);
        }
        // Version 4.0.
        set_word(&mut image, netlist, 6 + 2, 4);
    }
    image
}

impl Flash {
    fn image(&mut self) -> &[u8] {
        if self.image.is_empty() {
            self.image = image();
        }
        &self.image
    }
}

impl Cx<'_, '_> {
    /// 0x0701: module 0 is the whole flash; without FLASH_ONLY the shadow RAM.
    pub(super) fn read_nvm(&mut self, command: &Command) -> Answer {
        let offset = usize::from(command.param16(0)) | usize::from(command.param8(2)) << 16;
        let flags = command.param8(3);
        let (module, length) = (command.param16(4), usize::from(command.param16(6)));
        if module != 0 || length == 0 || length > command.room {
            return Err(AqCode::EINVAL);
        }
        let limit = if flags & FLASH_ONLY == 0 {
            SHADOW_RAM
        } else {
            FLASH
        };
        // A read of the shadow RAM must not cross a sector's end (`ice/ice_nvm.c
        // ice_read_flat_nvm`).
        let crosses = flags & FLASH_ONLY == 0 && offset % SECTOR + length > SECTOR;
        if offset + length > limit || crosses {
            return Err(AqCode::EINVAL);
        }
        let image = self.card.flash.image();
        let data = image.get(offset..offset + length).unwrap_or_default();
        command.answer(data.to_vec())
    }

    /// 0x0706: the checksum is always right.
    pub(super) fn nvm_checksum(&mut self, command: &Command) -> Answer {
        Ok(command.done().put16(2, 0xbaba))
    }
}
