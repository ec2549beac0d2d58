//! Checks who uses the other functions of a card before all of them are reset.

use anyhow::{Result, ensure};
use e810_backends::host::{Host, card};
use e810_backends::spec::Bdf;

/// Refuses a reset of the whole card, which `option` asks for, while others use functions of it.
///
/// # Errors
/// Names the users.
pub(crate) fn refuse_if_used(host: &Host, bdf: Bdf, option: &str) -> Result<()> {
    let users = card::users_beside(host, bdf);
    ensure!(
        users.is_empty(),
        "{option} resets all functions of the card, and these are in use: {}; end that first (`e810 bind` takes a function from its driver), or give --force",
        users.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use e810_backends::host::fake::{Tree, bdf};

    use super::*;

    #[test]
    fn a_card_that_others_use_is_not_reset() {
        let tree = Tree::with_card();
        let refused = refuse_if_used(tree.host(), bdf("3b:00.0"), "--reset-card").unwrap_err();
        let text = refused.to_string();
        for part in ["0000:3b:00.1 (driver ice)", "--force", "e810 bind"] {
            assert!(text.contains(part), "{text}");
        }
        tree.bind("0000:3b:00.1", "vfio-pci");
        refuse_if_used(tree.host(), bdf("3b:00.0"), "--reset-card").unwrap();
    }
}
