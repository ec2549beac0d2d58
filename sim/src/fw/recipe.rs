//! Switch recipes and their association with profiles (0x0290 to 0x0293).

use std::collections::BTreeMap;

use super::descriptor::{Answer, Command};
use super::layout::{put, put_u16, u8_at};
use super::{AqCode, Cx};

/// Bytes of a recipe in a buffer.
const LEN: usize = 64;
/// Recipes that exist before a driver starts. No others fit: rules with other recipes are not
/// modelled, so a driver that requests a recipe is refused, as by a card whose recipes are all
/// taken.
pub(super) const RECIPES: u16 = 16;

/// All recipes of a card.
#[derive(Debug, Default)]
pub(super) struct Recipes {
    changed: BTreeMap<u16, Vec<u8>>,
    profiles: BTreeMap<u16, [u8; 8]>,
}

impl Recipes {
    fn get(&self, index: u16) -> Option<Vec<u8>> {
        if let Some(recipe) = self.changed.get(&index) {
            return Some(recipe.clone());
        }
        if index >= RECIPES {
            return None;
        }
        // A recipe of the firmware itself: it matches on the switch id first.
        let mut recipe = vec![0; LEN];
        put(&mut recipe, 0, &[index as u8]);
        put(&mut recipe, 4, &(1_u64 << index).to_le_bytes());
        const ROOT: u8 = 1 << 7;
        put(&mut recipe, 16, &[index as u8 | ROOT]);
        put_u16(&mut recipe, 22, 0x00ff);
        Some(recipe)
    }
}

impl Cx<'_, '_> {
    /// 0x0290: changes existing recipes.
    pub(super) fn add_recipe(&mut self, command: &Command) -> Answer {
        let count = usize::from(command.param16(0));
        let data = command.input(count * LEN)?.to_vec();
        for recipe in data.chunks_exact(LEN).take(count) {
            let index = u16::from(u8_at(recipe, 0));
            if index >= RECIPES {
                return Err(AqCode::EINVAL);
            }
            self.card.recipes.changed.insert(index, recipe.to_vec());
        }
        command.answer(data)
    }

    /// 0x0292.
    pub(super) fn get_recipe(&mut self, command: &Command) -> Answer {
        let recipe = self.card.recipes.get(command.param16(2));
        let recipe = recipe.ok_or(AqCode::ENOENT)?;
        Ok(command.answer(recipe)?.put16(0, 1))
    }

    /// 0x0291.
    pub(super) fn recipe_to_profile(&mut self, command: &Command) -> Answer {
        let mut bits = [0; 8];
        put(&mut bits, 0, command.params.get(8..).unwrap_or_default());
        let profile = command.param16(0);
        self.card.recipes.profiles.insert(profile, bits);
        Ok(command.done())
    }

    /// 0x0293.
    pub(super) fn get_recipe_to_profile(&mut self, command: &Command) -> Answer {
        let profile = command.param16(0);
        let bits = self.card.recipes.profiles.get(&profile).copied();
        Ok(command.done().put(8, &bits.unwrap_or_default()))
    }
}
