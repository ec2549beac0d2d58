//! Makes text that others chose fit for a line of ours.

/// Whether a character moves the cursor, ends a line, is invisible, or changes what is around it:
/// those that Rust escapes in debug output, and letters that look like nothing.
fn is_unsafe(c: char) -> bool {
    let is_plain = c.escape_debug().count() == 1 || matches!(c, '"' | '\'' | '\\');
    !is_plain || matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// Text from somebody else, for a terminal: at most `most` characters, with a `?` for each that
/// moves the cursor, or hides or reorders text.
#[must_use]
pub fn printable(text: &str, most: usize) -> String {
    let shown = text.chars().map(|c| if is_unsafe(c) { '?' } else { c });
    shown.take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_shown() {
        let plain = "a \"b\" 'c' \\d größer 数 ➜";
        assert_eq!(printable(plain, 100), plain);
        for hidden in [
            '\n',
            '\u{1b}',
            '\u{ad}',
            '\u{180e}',
            '\u{200b}',
            '\u{202e}',
            '\u{2028}',
            '\u{2066}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0041}',
        ] {
            assert_eq!(printable(&format!("a{hidden}b"), 100), "a?b", "{hidden:?}");
        }
    }
}
