//! The JSON objects of commands. Each has its name and a version.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// Version of the objects that commands print with `--json`. It changes when a field changes its
/// meaning or is removed, not when one is added.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Object<'a, T> {
    version: u32,
    report: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Writes `content` as an object with the name `report`, on one line.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_line<T: Serialize>(
    out: &mut dyn Write,
    report: &str,
    content: &T,
) -> Result<()> {
    let object = Object {
        version: VERSION,
        report,
        content,
    };
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_says_what_it_is() {
        #[derive(Serialize)]
        struct Content {
            size: u64,
        }
        let mut out = Vec::new();
        write_line(&mut out, "perf", &Content { size: u64::MAX }).unwrap();
        let text = "{\"version\":1,\"report\":\"perf\",\"size\":18446744073709551615}\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
