//! Text that others chose, for a line of ours.

/// Whether a character moves the cursor, ends a line, is not seen, or changes the
/// direction of the text after it: the controls, and Unicode's format characters
/// of these kinds (Bidi_Control, separators, zero width).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

/// Text from somebody else, for a terminal: at most `most` characters, with a `?` for each that
/// moves the cursor, or hides or reorders text.
#[must_use]
pub fn printable(text: &str, most: usize) -> String {
    let shown = text.chars().map(|c| if is_unsafe(c) { '?' } else { c });
    shown.take(most).collect()
}
