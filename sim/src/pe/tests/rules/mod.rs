//! Rules that a driver can break, each identified by the text of its finding (docs/findings.md).

mod hmc;
mod qps;
mod queues;
mod requests;
mod stags;
mod tables;

use super::test_driver::TestDriver;
use crate::findings::Class;

/// Opcode and words of a command.
type Words = (u64, [u64; 8]);

/// Findings since the last call.
fn found(driver: &mut TestDriver) -> Vec<(Class, &'static str, String)> {
    std::mem::take(&mut driver.env.findings)
}

/// A command that fails, with this fault and no other.
fn refuses(driver: &mut TestDriver, (opcode, words): Words, kind: &'static str, text: &str) {
    let done = driver.command(opcode, words);
    let fault = (Class::Fault, kind, text.to_owned());
    assert_eq!((done.error, found(driver)), (true, vec![fault]));
}

/// A command that is executed, with this lint and no other.
fn warns(driver: &mut TestDriver, (opcode, words): Words, kind: &'static str, text: &str) {
    let done = driver.command(opcode, words);
    assert!(!done.error, "{text}: {done:x?}");
    finds(driver, kind, text);
}

/// This lint was found, and nothing else.
fn finds(driver: &mut TestDriver, kind: &'static str, text: &str) {
    let lint = (Class::Lint, kind, text.to_owned());
    assert_eq!(found(driver), [lint]);
}
