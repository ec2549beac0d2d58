//! Lines of the kernel's log about E810 functions.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use super::Host;

/// A line must contain one of these, as a separate word.
const ABOUT: [&str; 5] = ["ice", "irdma", "vfio", "vfio-pci", "AER"];
/// The number of lines kept, the newest ones.
const MOST: usize = 400;

/// The newest lines of the kernel's log about ice, irdma, vfio and AER, and about the
/// functions that `also` names, oldest first.
///
/// # Errors
/// Why the log cannot be read.
pub fn lines(host: &Host, also: &[String]) -> Result<Vec<String>, String> {
    let path = host.path("/dev/kmsg");
    let mut file = OpenOptions::new()
        .read(true)
        // At the end of the log, a blocking read would wait for the next line.
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = String::new();
    let mut record = [0; 8192];
    // Each read gives one record; the limit is far above what a kernel's buffer holds.
    for _ in 0..1_000_000 {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(bytes) => {
                text.push_str(&String::from_utf8_lossy(
                    record.get(..bytes).unwrap_or_default(),
                ));
            }
            // EPIPE: this record was overwritten; the next read continues.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(_) => break,
        }
    }
    Ok(chosen(&text, also))
}

/// The relevant lines, from `flags,number,time;message` to `[seconds] message`.
fn chosen(text: &str, also: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let (head, message) = line.split_once(';')?;
            let micros: u64 = head.split(',').nth(2)?.parse().ok()?;
            is_about(message, also).then(|| format!("[{:>12.6}] {message}", micros as f64 / 1e6))
        })
        .collect();
    lines.drain(..lines.len().saturating_sub(MOST));
    lines
}

fn is_about(message: &str, also: &[String]) -> bool {
    let is_part = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let mut words = message.split(is_part);
    words.any(|word| ABOUT.contains(&word)) || also.iter().any(|name| message.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    #[test]
    fn lines_about_the_card_are_kept() {
        let tree = Tree::with_card();
        assert!(lines(tree.host(), &[]).unwrap_err().contains("kmsg"));
        tree.file(
            "/dev/kmsg",
            "6,1,1000000,-;ice 0000:3b:00.0: PTP init successful\n SUBSYSTEM=pci\n\
             6,2,1500000,-;device eth0 is a nice one\n\
             4,3,2000000,-;pcieport 0000:3a:00.0: AER: Correctable error\n\
             6,4,2500000,-;pci 0000:3b:00.1: enabling\nrubbish\n",
        );
        let kept = lines(tree.host(), &["0000:3b:00.1".to_owned()]).unwrap();
        assert_eq!(
            kept,
            [
                "[    1.000000] ice 0000:3b:00.0: PTP init successful",
                "[    2.000000] pcieport 0000:3a:00.0: AER: Correctable error",
                "[    2.500000] pci 0000:3b:00.1: enabling",
            ]
        );
    }

    #[test]
    fn the_newest_are_kept() {
        let text: String = (0..1000)
            .map(|n| format!("6,{n},{n}000000,-;irdma: {n}\n"))
            .collect();
        let kept = chosen(&text, &[]);
        assert_eq!(kept.len(), MOST);
        assert!(kept.last().unwrap().ends_with("irdma: 999"));
    }
}
