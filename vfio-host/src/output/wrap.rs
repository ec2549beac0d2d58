//! Lines broken to the width of a terminal, between words.

/// Minimum width of text after the indent.
const LEAST: usize = 20;

/// Wraps `text` to lines of at most `width`, except for longer words.
///
/// A wrapped line continues below the text it belongs to: after the last gap of two spaces in the
/// first three fifths of the line, where a column begins.
#[must_use]
pub fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        wrap_line(line, width, &mut out);
    }
    out
}

/// Characters of `text` on a terminal, without its control sequences (ESC [ .. letter).
#[must_use]
pub fn length(text: &str) -> usize {
    let mut length = 0;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == '\x1b' {
            // Up to the letter that ends it; the bracket is not a letter.
            characters.find(char::is_ascii_alphabetic);
        } else if c != '\n' {
            length += 1;
        }
    }
    length
}

fn wrap_line(line: &str, width: usize, out: &mut String) {
    if length(line) <= width {
        return out.push_str(line);
    }
    let indent = indent(line, width);
    let mut used = 0;
    let mut is_first = true;
    // Words with the spaces before them.
    for word in words(line.trim_end_matches('\n')) {
        let long = length(word);
        if !is_first && used + long > width {
            let word = word.trim_start();
            let indent = indent.min(width.saturating_sub(length(word)));
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(word);
            used = indent + length(word);
        } else {
            out.push_str(word);
            used += long;
        }
        is_first = false;
    }
    if line.ends_with('\n') {
        out.push('\n');
    }
}

/// The indent of the rest of a line.
fn indent(line: &str, width: usize) -> usize {
    let leading = line.len() - line.trim_start().len();
    let mut indent = leading;
    let mut column = 0;
    let mut gap = 0;
    for word in words(line) {
        let spaces = word.len() - word.trim_start().len();
        column += spaces;
        if spaces >= 2 && column > leading && column <= width * 3 / 5 {
            gap = column;
        }
        column += length(word.trim_start());
    }
    if gap > 0 {
        indent = gap;
    }
    indent.min(width.saturating_sub(LEAST))
}

/// The words of a line, each with the spaces before it.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.find(|c| c != ' ')?;
        let end = rest
            .get(start..)?
            .find(' ')
            .map_or(rest.len(), |end| start + end);
        let (word, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_goes_on_below_its_column() {
        assert_eq!(wrap("short\n", 20), "short\n");
        let line = "transport   one two three four five six seven\n";
        let expected = "transport   one two three four\n            five six seven\n";
        assert_eq!(wrap(line, 34), expected);
        let line = "      -s, --size <BYTES>  Bytes of a message of any kind\n";
        let expected =
            "      -s, --size <BYTES>  Bytes of a message of\n                          any kind\n";
        assert_eq!(wrap(line, 50), expected);
        // A gap that leaves too little room is none.
        let line = "    a-very-long-name-of-a-thing  and what it is for\n";
        let expected = "    a-very-long-name-of-a-thing  and\n    what it is for\n";
        assert_eq!(wrap(line, 40), expected);
    }

    #[test]
    fn no_line_is_longer_than_its_words_need() {
        let text = "a bb ccc dddd eeeee ".repeat(20);
        for width in 40..100 {
            let wrapped = wrap(&text, width);
            assert!(
                wrapped.lines().all(|line| length(line) <= width),
                "{wrapped}"
            );
            let words = |text: &str| text.split_whitespace().count();
            assert_eq!(words(&wrapped), words(&text));
        }
        let word = "x".repeat(50);
        assert_eq!(wrap(&word, 40), word);
    }

    #[test]
    fn colours_take_no_room() {
        assert_eq!(length("\x1b[31merror\x1b[0m: é"), 8);
        let line = "\x1b[31merror\x1b[0m    driver         ";
        assert_eq!(wrap(line, 40), line);
    }
}
