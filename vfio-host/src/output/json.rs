//! The JSON objects of commands: each says what it is, and in which version.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// Version of the objects that commands print with `--json`. It changes when a field gets another
/// meaning or goes; a new field is no new version.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Object<'a, T> {
    version: u32,
    report: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Writes `content` as an object, in a line: what `report` is the name of.
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
