//! Lexical tokens for selection and features (not word pieces): numbers in a normal form, negations, stems of words.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::text::{has_lower, is_word};

static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "a an the of in on at to for from by with and or but as is are was were be been being it its this that these those \
     there their they he she his her him them we you your our i my me do does did has have had will would can could may \
     might should shall than then so such into about over under after before between during through up down out off if \
     when while which who whom whose what where how all any each both more most some also just only very not no nor \
     never without none neither cannot"
        .split(' ')
        .collect()
});

static NEGATIONS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "no not nor never without none neither cannot nobody nothing isnt arent wasnt werent doesnt dont didnt cant couldnt \
     wont wouldnt hasnt havent hadnt shouldnt"
        .split(' ')
        .collect()
});

const NUMBER_WORDS: [&str; 11] =
    ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// What a token is. In the order of the reference's letters `n`, `w`, `x`: sums run in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenKind {
    /// A number, in digits or as a word.
    Number,
    /// A word's stem.
    Word,
    /// A word that negates.
    Negation,
}

/// A lexical token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Its normal form.
    pub key: String,
    /// A word with a capital letter that does not start a sentence.
    pub capital: bool,
}

/// The tokens of `text`; stop words and one-letter words are left out.
pub fn tokens(text: &str) -> Vec<Token> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut first) = (0, true);
    while at < characters.len() {
        let start = at;
        if !is_word(characters[at]) {
            first |= matches!(characters[at], '.' | '!' | '?' | '\n');
            at += 1;
            continue;
        }
        at = end_of_run(&characters, start);
        let run = &characters[start..at];
        if run.iter().all(char::is_ascii_digit) {
            let number;
            (number, at) = number_from(&characters, start, at);
            tokens.push(Token { kind: TokenKind::Number, key: normal_number(&number), capital: false });
        } else {
            tokens.extend(word(run, first));
        }
        first = false;
    }
    tokens
}

/// Word characters, and the apostrophe of `n't`.
fn end_of_run(characters: &[char], start: usize) -> usize {
    let mut end = start;
    while let Some(c) = characters.get(end) {
        let is_not = matches!(c, '\'' | '’')
            && end > start
            && matches!(characters[end - 1], 'n' | 'N')
            && matches!(characters.get(end + 1), Some('t' | 'T'));
        if !is_word(*c) && !is_not {
            break;
        }
        end += 1;
    }
    end
}

/// The number whose first digits are `start..end`, with its thousands and its fraction; and where it ends.
fn number_from(characters: &[char], start: usize, mut end: usize) -> (String, usize) {
    let is_digit = |at: usize| characters.get(at).is_some_and(char::is_ascii_digit);
    let mut number: String = characters[start..end].iter().collect();
    if end - start <= 3 {
        while characters.get(end) == Some(&',')
            && (1..=3).all(|offset| is_digit(end + offset))
            && !is_digit(end + 4)
        {
            number.extend(&characters[end + 1..end + 4]);
            end += 4;
        }
    }
    if characters.get(end) == Some(&'.') && is_digit(end + 1) {
        let fraction = end;
        end += 1;
        while is_digit(end) {
            end += 1;
        }
        number.extend(&characters[fraction..end]);
    }
    (number, end)
}

fn normal_number(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

fn word(run: &[char], first: bool) -> Option<Token> {
    let mut lower = run.iter().collect::<String>().to_lowercase();
    lower.retain(|c| c != '\'' && c != '’');
    if NEGATIONS.contains(lower.as_str()) {
        return Some(Token { kind: TokenKind::Negation, key: lower, capital: false });
    }
    if let Some(index) = NUMBER_WORDS.iter().position(|word| *word == lower) {
        return Some(Token { kind: TokenKind::Number, key: (index + 2).to_string(), capital: false });
    }
    if STOP.contains(lower.as_str()) || lower.chars().nth(1).is_none() {
        return None;
    }
    let capital = has_lower(run[0]) && !first;
    stem(&mut lower);
    Some(Token { kind: TokenKind::Word, key: lower, capital })
}

fn stem(word: &mut String) {
    let mut length = word.chars().count();
    let drop = if length > 4 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
        length -= 2;
        0
    } else if length > 5 && word.ends_with("ing") {
        3
    } else if length > 4 && (word.ends_with("ed") || word.ends_with("es")) {
        2
    } else if length > 3 && word.ends_with('s') && !word.ends_with("ss") {
        1
    } else {
        0
    };
    word.truncate(word.len() - drop);
    length -= drop;
    if length > 4 && word.ends_with('e') {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let shown = tokens(text).into_iter().map(|token| {
            let kind = match token.kind {
                TokenKind::Number => "n",
                TokenKind::Word => "w",
                TokenKind::Negation => "x",
            };
            format!("{kind}:{}{}", token.key, if token.capital { "^" } else { "" })
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_have_one_form() {
        assert_eq!(
            shown("1,080.50 05 0.0 2,1234 12345,678 1,234,567 3.x three 0007"),
            "n:1080.5 n:5 n:0 n:2 n:1234 n:12345 n:678 n:1234567 n:3 n:3 n:7"
        );
        assert_eq!(shown("v2 3kg 1.2.3"), "w:v2 w:3kg n:1.2 n:3");
    }

    #[test]
    fn words_are_stemmed_and_capitals_inside_a_sentence_noticed() {
        assert_eq!(
            shown("Paris loves Berlin. Rome stories running baked boxes class"),
            "w:pari w:lov w:berlin^ w:rome w:story w:runn w:bak w:box w:class"
        );
        assert_eq!(shown("The a I x"), "");
    }

    #[test]
    fn negations_are_their_own_kind() {
        assert_eq!(shown("isn't DON’T no nothing can't"), "x:isnt x:dont x:no x:nothing x:cant");
        assert_eq!(shown("Kim's o'clock n'est"), "w:kim w:clock w:est");
    }

    #[test]
    fn letters_of_other_scripts_are_words() {
        assert_eq!(shown("Größe 東京 µm naïve ΟΔΟΣ"), "w:größ w:東京 w:naïv w:οδος^");
    }
}
