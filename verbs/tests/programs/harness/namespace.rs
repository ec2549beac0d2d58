//! A network namespace with a TAP interface, where those can be made.

use std::env;
use std::process::{Command, Stdio};

use e810_verbs::device::DEVICES;

use super::folder;

/// Set in the namespace.
const IN_NAMESPACE: &str = "E810_VERBS_NAMESPACE";

/// Whether this process is in one; else the test `this` is run in one, with these devices.
pub(crate) fn is_inside(this: &str, devices: &str) -> bool {
    if env::var_os(IN_NAMESPACE).is_some() {
        return true;
    }
    let namespace = |command: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["--map-root-user", "--net", "--mount", "sh", "-c", command]);
        shell.arg(env::current_exe().unwrap());
        shell.env(IN_NAMESPACE, "1");
        shell.env(DEVICES, devices);
        shell.env("E810_LOCKS", folder().join(this));
        shell
    };
    // /sys shows the interfaces of the namespace that it was mounted in.
    const SYS: &str = "mount -t sysfs sysfs /sys && test -c /dev/net/tun && ip link show lo";
    let mut can_be = namespace(SYS);
    let can_be = can_be.stderr(Stdio::null()).stdout(Stdio::null()).status();
    if !can_be.is_ok_and(|status| status.success()) {
        println!("NOT RUN: no namespace with a TAP interface can be made here (unshare(1), ip(8))");
        return false;
    }
    let run = format!("{SYS} && exec \"$0\" --exact {this} --nocapture");
    let output = namespace(&run).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_well = output.status.success() && text.contains("1 passed");
    assert!(is_well, "{text}{errors}");
    for line in text.lines().filter(|line| line.contains("NOT RUN")) {
        println!("{line}");
    }
    false
}

/// `ip` with these words.
pub(crate) fn ip(words: &str) {
    assert!(try_ip(words), "ip {words}");
}

/// The same, where the kernel may not have it.
pub(crate) fn try_ip(words: &str) -> bool {
    let ip = Command::new("ip").args(words.split(' ')).status();
    ip.unwrap().success()
}
