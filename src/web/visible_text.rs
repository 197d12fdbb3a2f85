//! Text as it is: what a reader cannot see, or would misread, becomes a visible mark. Pure.
//!
//! Used wherever a person decides by reading: nothing is cut, nothing is hidden, nothing reorders the line.

use std::collections::BTreeSet;
use std::fmt;

/// How a text is read.
#[derive(Clone, Copy)]
struct Reading {
    /// Letters of two scripts are odd anywhere in it, not only within a word.
    one_word: bool,
    /// Repeated spaces and line breaks from these numbers on are drawn as one counted mark, so that they push nothing
    /// out of sight.
    spaces: usize,
    breaks: usize,
    /// Each line break gets a mark.
    mark_breaks: bool,
}

const PROSE: Reading = Reading { one_word: false, spaces: 4, breaks: 3, mark_breaks: true };
const ADDRESS: Reading = Reading { one_word: true, ..PROSE };
const CODE: Reading = Reading { one_word: false, spaces: 41, breaks: 6, mark_breaks: false };

/// What a text does that its reader would not notice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Oddity {
    /// Control characters, terminal escapes among them.
    Control,
    /// Characters that turn the direction of writing.
    Bidirectional,
    /// Characters that take no room.
    Invisible,
    /// Characters of the tag block, which spell text that nobody sees.
    Tags,
    /// Blanks that are no plain space, or very many in a row.
    Blanks,
    /// Words whose letters come from different scripts and look alike.
    MixedScript,
}

impl Oddity {
    /// One sentence for the person who decides.
    pub(crate) const fn warning(self) -> &'static str {
        match self {
            Self::Control => "contains control characters",
            Self::Bidirectional => "contains characters that turn the direction of writing",
            Self::Invisible => "contains invisible characters",
            Self::Tags => "contains hidden text in tag characters",
            Self::Blanks => "contains long or unusual blanks",
            Self::MixedScript => "mixes letters of different scripts that look alike",
        }
    }
}

/// A piece of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Run {
    /// Shown as it is.
    Plain(String),
    /// Shown as a mark, in place of something that cannot be seen.
    Mark {
        /// What the mark says.
        label: String,
        /// What it stands for, in words.
        name: String,
    },
    /// A letter that looks like one of another script: shown as it is, and marked.
    Lookalike {
        /// The letter.
        letter: char,
        /// Its script and code point.
        name: String,
    },
}

/// A text in pieces that can all be seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct VisibleText {
    /// The pieces, in order.
    pub(crate) runs: Vec<Run>,
    /// Number of characters of the original.
    pub(crate) chars: usize,
    /// Number of lines of the original; 0 if it is empty.
    pub(crate) lines: usize,
    /// What there is to warn of.
    pub(crate) oddities: BTreeSet<Oddity>,
}

impl VisibleText {
    /// Takes a text apart. Looks for mixed scripts within each word.
    pub(crate) fn of(text: &str) -> Self {
        Scanner::scan(text, PROSE)
    }

    /// As [`Self::of`], for text that is laid out in lines: indentation and line breaks are plain until there are many.
    pub(crate) fn of_code(text: &str) -> Self {
        Scanner::scan(text, CODE)
    }

    /// As [`Self::of`], for an address (path, host, recipient): letters of two scripts anywhere in it are marked,
    /// since an address is one word.
    pub(crate) fn of_address(text: &str) -> Self {
        Scanner::scan(text, ADDRESS)
    }

    /// Whether anything in it would mislead a reader.
    pub(crate) fn is_odd(&self) -> bool {
        !self.oddities.is_empty()
    }

    /// Splits after about `head` characters' worth of pieces and before the last `tail`: what is shown at once,
    /// what must be opened, and the end. `None` if it is short enough to be shown whole.
    pub(crate) fn split(&self, head: usize, tail: usize) -> Option<(Self, Self, Self)> {
        let total: usize = self.runs.iter().map(Run::width).sum();
        if total <= head.saturating_add(tail) {
            return None;
        }
        let (first, rest) = cut(self.runs.clone(), head);
        let (middle, last) = cut(rest, total.saturating_sub(head).saturating_sub(tail));
        Some((Self::piece(first), Self::piece(middle), Self::piece(last)))
    }

    fn piece(runs: Vec<Run>) -> Self {
        let chars = runs.iter().map(Run::width).sum();
        Self { runs, chars, lines: 0, oddities: BTreeSet::new() }
    }

    /// Its length in words, for the person who decides.
    pub(crate) fn length(&self) -> String {
        let plural = |n: usize, one: &str, many: &str| {
            format!("{} {}", super::figures::grouped(n as u64), if n == 1 { one } else { many })
        };
        let chars = plural(self.chars, "character", "characters");
        if self.lines > 1 {
            format!("{chars}, {} lines", super::figures::grouped(self.lines as u64))
        } else {
            chars
        }
    }
}

impl fmt::Display for VisibleText {
    /// The text with its marks in brackets: for titles and labels, where no element can stand.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.runs.iter().try_for_each(|run| match run {
            Run::Plain(text) => f.write_str(text),
            Run::Mark { label, .. } => write!(f, "[{label}]"),
            Run::Lookalike { letter, .. } => write!(f, "{letter}"),
        })
    }
}

impl Run {
    /// Room that the piece takes, in characters.
    fn width(&self) -> usize {
        match self {
            Self::Plain(text) => text.chars().count(),
            Self::Mark { label, .. } => label.chars().count(),
            Self::Lookalike { .. } => 1,
        }
    }
}

/// The pieces up to `at` characters, and the rest; a plain piece may be divided, a mark stays whole.
fn cut(runs: Vec<Run>, at: usize) -> (Vec<Run>, Vec<Run>) {
    let (mut before, mut after, mut used) = (Vec::new(), Vec::new(), 0_usize);
    for run in runs {
        let room = at.saturating_sub(used);
        let width = run.width();
        used = used.saturating_add(width);
        match run {
            run if room == 0 => after.push(run),
            Run::Plain(text) if width > room => {
                before.push(Run::Plain(text.chars().take(room).collect()));
                after.push(Run::Plain(text.chars().skip(room).collect()));
            }
            run => before.push(run),
        }
    }
    (before, after)
}

struct Scanner {
    reading: Reading,
    out: VisibleText,
    plain: String,
}

impl Scanner {
    fn scan(text: &str, reading: Reading) -> VisibleText {
        let mut scanner = Self { reading, out: VisibleText::default(), plain: String::new() };
        scanner.out.chars = text.chars().count();
        scanner.out.lines = if text.is_empty() { 0 } else { text.matches('\n').count().saturating_add(1) };
        let whole = reading.one_word && mixes(text);
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let taken = match first {
                '\n' => scanner.blanks(rest, '\n'),
                ' ' => scanner.blanks(rest, ' '),
                c if is_tag(c) => scanner.tags(rest),
                c if c.is_alphabetic() && unseen(c).is_none() => scanner.word(rest, whole),
                c => scanner.single(c),
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        scanner.flush();
        scanner.out
    }

    fn flush(&mut self) {
        if !self.plain.is_empty() {
            self.out.runs.push(Run::Plain(std::mem::take(&mut self.plain)));
        }
    }

    fn mark(&mut self, label: String, name: String) {
        self.flush();
        self.out.runs.push(Run::Mark { label, name });
    }

    fn single(&mut self, c: char) -> usize {
        match unseen(c) {
            Some((oddity, label, name)) => {
                self.out.oddities.insert(oddity);
                self.mark(label, name);
            }
            None => self.plain.push(c),
        }
        c.len_utf8()
    }

    fn blanks(&mut self, rest: &str, blank: char) -> usize {
        let count = rest.chars().take_while(|c| *c == blank).count();
        let (limit, sign, what) = if blank == '\n' {
            (self.reading.breaks, "⏎", "line breaks")
        } else {
            (self.reading.spaces, "␠", "spaces")
        };
        if count >= limit {
            self.out.oddities.insert(Oddity::Blanks);
            self.mark(format!("{sign}×{count}"), format!("{count} {what}"));
            if blank == '\n' {
                self.plain.push('\n');
            }
        } else if blank == '\n' && self.reading.mark_breaks {
            for _ in 0..count {
                self.mark(sign.to_owned(), "line break".to_owned());
                self.plain.push('\n');
            }
        } else {
            self.plain.extend(std::iter::repeat_n(blank, count));
        }
        count.saturating_mul(blank.len_utf8())
    }

    /// Consecutive tag characters spell a hidden text: one mark that shows it.
    fn tags(&mut self, rest: &str) -> usize {
        let tags: Vec<char> = rest.chars().take_while(|c| is_tag(*c)).collect();
        let hidden: String = tags
            .iter()
            .map(|c| {
                let letter = u32::from(*c).checked_sub(0xE_0000).and_then(char::from_u32);
                letter.filter(|letter| matches!(letter, ' '..='~')).unwrap_or('·')
            })
            .collect();
        self.out.oddities.insert(Oddity::Tags);
        self.mark(format!("hidden: {hidden}"), format!("{} tag characters, normally not shown", tags.len()));
        tags.iter().map(|c| c.len_utf8()).sum()
    }

    fn word(&mut self, rest: &str, whole: bool) -> usize {
        let end = rest.find(|c: char| !c.is_alphanumeric() || unseen(c).is_some()).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        if !whole && !mixes(word) {
            self.plain.push_str(word);
            return end;
        }
        for c in word.chars() {
            match lookalike(c) {
                Some(script) => {
                    self.flush();
                    self.out.oddities.insert(Oddity::MixedScript);
                    let name = format!("{script} letter, U+{:04X}", u32::from(c));
                    self.out.runs.push(Run::Lookalike { letter: c, name });
                }
                None => self.plain.push(c),
            }
        }
        end
    }
}

fn is_tag(c: char) -> bool {
    matches!(c, '\u{E0000}'..='\u{E007F}')
}

/// Whether plain Latin letters stand together with letters that look like them.
fn mixes(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_alphabetic()) && text.chars().any(|c| lookalike(c).is_some())
}

/// The script of a letter that can be taken for a Latin one.
fn lookalike(c: char) -> Option<&'static str> {
    match c {
        '\u{0370}'..='\u{03FF}' | '\u{1F00}'..='\u{1FFF}' if c.is_alphabetic() => Some("Greek"),
        '\u{0400}'..='\u{052F}'
        | '\u{1C80}'..='\u{1C8F}'
        | '\u{2DE0}'..='\u{2DFF}'
        | '\u{A640}'..='\u{A69F}' => Some("Cyrillic"),
        '\u{0531}'..='\u{0587}' => Some("Armenian"),
        '\u{13A0}'..='\u{13FF}' | '\u{AB70}'..='\u{ABBF}' => Some("Cherokee"),
        '\u{0250}'..='\u{02AF}' => Some("phonetic"),
        '\u{2100}'..='\u{214F}' if c.is_alphabetic() => Some("letterlike"),
        '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}' => Some("full-width"),
        '\u{1D400}'..='\u{1D7FF}' => Some("mathematical"),
        _ => None,
    }
}

/// The mark of a character that cannot be seen; `None` if it can.
fn unseen(c: char) -> Option<(Oddity, String, String)> {
    let code = u32::from(c);
    let point = format!("U+{code:04X}");
    let (oddity, label, name) = match c {
        '\t' => return Some((Oddity::Blanks, "⇥".to_owned(), "tab".to_owned())),
        '\u{00}'..='\u{1F}' | '\u{7F}' => (Oddity::Control, ascii_control(code), "control character"),
        '\u{80}'..='\u{9F}' => (Oddity::Control, "", "control character"),
        '\u{2028}' => (Oddity::Control, "LS", "line separator"),
        '\u{2029}' => (Oddity::Control, "PS", "paragraph separator"),
        '\u{061C}' => (Oddity::Bidirectional, "ALM", "Arabic letter mark"),
        '\u{200E}' => (Oddity::Bidirectional, "LRM", "left-to-right mark"),
        '\u{200F}' => (Oddity::Bidirectional, "RLM", "right-to-left mark"),
        '\u{202A}' => (Oddity::Bidirectional, "LRE", "left-to-right embedding"),
        '\u{202B}' => (Oddity::Bidirectional, "RLE", "right-to-left embedding"),
        '\u{202C}' => (Oddity::Bidirectional, "PDF", "end of directional formatting"),
        '\u{202D}' => (Oddity::Bidirectional, "LRO", "left-to-right override"),
        '\u{202E}' => (Oddity::Bidirectional, "RLO", "right-to-left override"),
        '\u{2066}' => (Oddity::Bidirectional, "LRI", "left-to-right isolate"),
        '\u{2067}' => (Oddity::Bidirectional, "RLI", "right-to-left isolate"),
        '\u{2068}' => (Oddity::Bidirectional, "FSI", "first strong isolate"),
        '\u{2069}' => (Oddity::Bidirectional, "PDI", "end of directional isolate"),
        '\u{200B}' => (Oddity::Invisible, "ZWSP", "zero-width space"),
        '\u{200C}' => (Oddity::Invisible, "ZWNJ", "zero-width non-joiner"),
        '\u{200D}' => (Oddity::Invisible, "ZWJ", "zero-width joiner"),
        '\u{2060}' => (Oddity::Invisible, "WJ", "word joiner"),
        '\u{FEFF}' => (Oddity::Invisible, "BOM", "zero-width no-break space"),
        '\u{00AD}' => (Oddity::Invisible, "SHY", "soft hyphen"),
        '\u{034F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{2061}'..='\u{2065}'
        | '\u{206A}'..='\u{206F}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0080}'..='\u{E0FFF}' => (Oddity::Invisible, "", "invisible character"),
        '\u{FE00}'..='\u{FE0F}' => (Oddity::Invisible, "", "variation selector"),
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}' => {
            (Oddity::Invisible, "", "private-use character")
        }
        _ if code & 0xFFFE == 0xFFFE => (Oddity::Invisible, "", "not a character"),
        '\u{00A0}' => (Oddity::Blanks, "NBSP", "no-break space"),
        '\u{3000}' => (Oddity::Blanks, "", "full-width space"),
        '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' => {
            (Oddity::Blanks, "", "unusual space")
        }
        _ => return None,
    };
    let label = if label.is_empty() { point.clone() } else { label.to_owned() };
    Some((oddity, label, format!("{name}, {point}")))
}

fn ascii_control(code: u32) -> &'static str {
    const NAMES: [&str; 32] = [
        "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO",
        "SI", "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS",
        "RS", "US",
    ];
    usize::try_from(code).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("DEL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        VisibleText::of(text).to_string()
    }

    fn odd(text: &str) -> Vec<Oddity> {
        VisibleText::of(text).oddities.into_iter().collect()
    }

    /// F28: every kind of character that hides or misleads is drawn, with its warning.
    #[test]
    fn f28_hidden_characters_are_drawn() {
        use Oddity::*;
        let table: &[(&str, &str, &[Oddity])] = &[
            ("plain text", "plain text", &[]),
            ("naïve café", "naïve café", &[]),
            ("Привет, мир", "Привет, мир", &[]),
            ("日本語", "日本語", &[]),
            ("notes\u{202E}fdp.exe", "notes[RLO]fdp.exe", &[Bidirectional]),
            ("a\u{2067}b\u{2069}c", "a[RLI]b[PDI]c", &[Bidirectional]),
            ("pa\u{200B}th", "pa[ZWSP]th", &[Invisible]),
            ("\u{FEFF}x", "[BOM]x", &[Invisible]),
            ("ok\u{E0069}\u{E0067}\u{E006E}\u{E006F}\u{E0072}\u{E0065}", "ok[hidden: ignore]", &[Tags]),
            ("\u{E0001}\u{E0061}", "[hidden: ·a]", &[Tags]),
            ("a\0b", "a[NUL]b", &[Control]),
            ("\u{1B}[31mred", "[ESC][31mred", &[Control]),
            ("a\u{9B}31m", "a[U+009B]31m", &[Control]),
            ("a\rb", "a[CR]b", &[Control]),
            ("a\tb", "a[⇥]b", &[Blanks]),
            ("a\nb", "a[⏎]\nb", &[]),
            ("a\u{2028}b", "a[LS]b", &[Control]),
            ("a    b", "a[␠×4]b", &[Blanks]),
            ("a\u{A0}b", "a[NBSP]b", &[Blanks]),
            ("\u{F8FF}", "[U+F8FF]", &[Invisible]),
            ("x\u{FE0F}", "x[U+FE0F]", &[Invisible]),
            ("\u{FFFF}", "[U+FFFF]", &[Invisible]),
        ];
        for (text, drawn, oddities) in table {
            assert_eq!(shown(text), *drawn, "{text:?}");
            assert_eq!(odd(text), *oddities, "{text:?}");
        }
    }

    #[test]
    fn f28_blank_lines_cannot_push_the_end_out_of_sight() {
        let text = VisibleText::of(&format!("harmless{}rm -rf /", "\n".repeat(300)));
        assert_eq!(text.to_string(), "harmless[⏎×300]\nrm -rf /");
        assert_eq!(text.length(), "316 characters, 301 lines");
        assert!(text.is_odd());
    }

    #[test]
    fn code_keeps_its_lines_until_there_are_too_many() {
        assert_eq!(VisibleText::of_code("{\n    \"a\": 1\n\n}").to_string(), "{\n    \"a\": 1\n\n}");
        assert_eq!(VisibleText::of_code(&format!("a{}b", "\n".repeat(6))).to_string(), "a[⏎×6]\nb");
        assert_eq!(VisibleText::of_code("a\u{202E}b").to_string(), "a[RLO]b");
    }

    #[test]
    fn f28_mixed_scripts_are_flagged_by_word_and_in_addresses_as_a_whole() {
        let mixed = VisibleText::of("p\u{0430}ypal");
        assert_eq!(
            mixed.runs.get(1),
            Some(&Run::Lookalike { letter: '\u{0430}', name: "Cyrillic letter, U+0430".to_owned() })
        );
        assert_eq!(odd("p\u{0430}ypal"), [Oddity::MixedScript]);
        assert_eq!(odd("full \u{FF41}bc"), [Oddity::MixedScript]);
        // Two languages side by side are no trick in a sentence, and are one in a path.
        assert_eq!(odd("etc/\u{0440}\u{0430}\u{0440}\u{0430}"), []);
        let path = VisibleText::of_address("etc/\u{0440}\u{0430}\u{0440}\u{0430}");
        assert_eq!(path.oddities.into_iter().collect::<Vec<_>>(), [Oddity::MixedScript]);
        assert!(!VisibleText::of_address("папка/файл").is_odd());
    }

    #[test]
    fn f28_a_long_text_is_split_into_shown_and_opened_without_a_loss() {
        let text = format!("{}{}END", "a".repeat(5_000), "\u{200B}");
        let whole = VisibleText::of(&text);
        let (head, middle, tail) = whole.split(1_000, 200).unwrap();
        assert_eq!(format!("{head}{middle}{tail}"), whole.to_string());
        assert_eq!(head.chars, 1_000);
        assert!(tail.to_string().ends_with("a[ZWSP]END"), "{tail}");
        assert!(VisibleText::of("short").split(1_000, 200).is_none());
    }

    proptest! {
        #[test]
        fn nothing_unseen_is_left_and_nothing_is_lost(text in any::<String>()) {
            let visible = VisibleText::of(&text);
            prop_assert_eq!(visible.chars, text.chars().count());
            for run in &visible.runs {
                if let Run::Plain(plain) = run {
                    prop_assert!(plain.chars().all(|c| c == '\n' || unseen(c).is_none() && !is_tag(c)), "{:?}", plain);
                }
            }
            let kept: String = text.chars().filter(|c| !c.is_whitespace() && unseen(*c).is_none() && !is_tag(*c)).collect();
            let drawn: String = visible.runs.iter().map(|run| match run {
                Run::Plain(text) => text.clone(),
                Run::Lookalike { letter, .. } => letter.to_string(),
                Run::Mark { .. } => String::new(),
            }).collect();
            let drawn: String = drawn.chars().filter(|c| !c.is_whitespace()).collect();
            prop_assert_eq!(drawn, kept);
        }
    }
}
