//! What a person who must decide gets to see.

use super::*;

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(plain(text), shown, "for {text:?}");
}

#[test]
fn terminal_sequences_are_removed() {
    check("\u{1b}[31mred\u{1b}[0m", "red");
    check("\u{1b}[2K\u{1b}[1Gnew", "new");
    check("\u{1b}[38;2;1;2;3mx", "x");
    check("\u{9b}31mx", "x");
    check("\u{1b}(Bx\u{1b}7y\u{1b}8z\u{1b}c", "xyz");
    check("a\u{1b}", "a");
    check("a\u{1b}[", "a[");
    check("a\u{9b}", "a");
    check("a\u{9b}é\u{9b}1", "aé1");
}

#[test]
fn what_a_command_to_the_terminal_carries_stays_visible() {
    // A shell would run `$(rm -rf ~)` inside a title, so the person must see it.
    check("echo \"\u{1b}]0;$(rm -rf ~)\u{7}\"", "echo \"$(rm -rf ~)\"");
    check("\u{1b}]8;;https://evil.example\u{1b}\\click\u{1b}]8;;\u{1b}\\", "https://evil.exampleclick");
    check("\u{1b}Ppayload\u{1b}\\x", "payloadx");
}

#[test]
fn nothing_can_write_over_a_line() {
    check("rm -rf /\rls -la    ", "rm -rf /\nls -la    ");
    check("a\r\nb", "a\nb");
    check("a\u{8}\u{8}b", "ab");
    check("a\u{2028}b\u{2029}c\u{85}d", "a\nb\ncd");
    check("a\u{b}b\u{c}c", "abc");
    check("a\tb\nc", "a\tb\nc");
}

#[test]
fn characters_that_deceive_are_removed() {
    check("\u{202e}gpj.exe\u{202c}", "gpj.exe");
    check("\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}b", "ab");
    check("a\u{200b}b\u{200c}c\u{200d}d\u{2060}e\u{feff}f\u{ad}g", "abcdefg");
    check("a\u{115f}\u{1160}\u{3164}\u{ffa0}b\u{2800}c\u{34f}d\u{180e}e", "abcde");
    check("a\u{e0041}\u{e0042}\u{e007f}b\u{e0100}c", "abc");
    check("a\u{fe00}\u{fe0f}b", "ab");
    check("\0\u{7f}\u{80}x", "x");
}

#[test]
fn a_picture_may_choose_its_form_once() {
    check("❤\u{fe0f} ok", "❤\u{fe0f} ok");
    check("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}");
}

#[test]
fn other_writing_is_untouched() {
    for text in ["größer", "日本語 한국어", "שלום عربى", "👍🏽", "naïve – “quoted” … €", "e\u{301}"]
    {
        assert!(matches!(plain(text), Cow::Borrowed(_)), "{text}");
    }
}

#[test]
fn the_way_back_from_the_visible_text_is_exact() {
    let text = "a\u{200b}bé\u{1b}[31mc";
    let seen = visible(text);
    assert_eq!(seen.text, "abéc");
    for (at, char) in seen.text.char_indices() {
        assert!(text[seen.origin(at)..].starts_with(char));
    }
    assert_eq!(seen.origin(seen.text.len()), text.len());
    assert_eq!(seen.origin_of_end(1), 1);
    assert_eq!(seen.place_of(4), 1);
    assert_eq!(visible("a\u{1b}[3").cut_off, Some(1));
    assert_eq!(visible("a\u{1b}[3m").cut_off, None);
}
