//! What an answer says without stating anything: questions, greetings, thanks, offers of help, announcements.
//!
//! General rules, strongest in English. A sentence of another language, or one that no rule knows, counts as a statement:
//! a claim too many costs a question, a claim too few hides an error.

/// Whole openings after which no statement of fact comes.
const OPENINGS: &[&str] = &[
    "let me know",
    "feel free",
    "please feel free",
    "please let",
    "please don't hesitate",
    "don't hesitate",
    "do not hesitate",
    "please do not hesitate",
    "please reach out",
    "please contact us if",
    "thank you for",
    "thanks for",
    "i hope",
    "hope this",
    "hope that",
    "happy to help",
    "glad to help",
    "i'm happy to",
    "i am happy to",
    "i'd be happy",
    "i would be happy",
    "i'd be glad",
    "i'm glad to",
    "i'm here to",
    "i am here to",
    "i'd love to",
    "just let me know",
    "just ask",
    "good luck",
    "have a great",
    "have a nice",
    "have a good",
    "take care",
    "you're welcome",
    "you are welcome",
    "it was a pleasure",
    "my pleasure",
    "is there anything",
    "anything else",
    "wish you",
    "as an ai",
    "let me",
    "let's",
    "allow me",
    "i'd recommend reaching",
    "looking forward",
    "dear customer",
    "best regards",
    "kind regards",
    "warm regards",
    "sincerely",
    "yours sincerely",
    "cheers",
    "no problem",
    "great question",
    "good question",
    "that's a great question",
    "i understand your",
    "i understand how",
    "i understand that you",
    "i apologize",
    "i apologise",
    "my apologies",
    "sorry to hear",
    "i'm sorry to hear",
    "i am sorry to hear",
    "sorry for the",
    "i'm sorry for the",
    "we apologize",
    "we apologise",
    "wenn sie fragen",
    "falls sie",
    "bei fragen",
    "lassen sie mich wissen",
    "n'hésitez pas",
    "no dude en",
    "si tienes alguna",
    "si tiene alguna",
    "gracias por",
    "merci de",
    "merci pour",
    "danke für",
    "vielen dank",
    "fico à disposição",
    "se precisar",
    "resto a disposizione",
    "如有",
    "如果您有",
    "如果你有",
    "希望这",
    "何かご不明",
    "ご質問",
    "إذا كان لديك",
    "لا تتردد",
    "אם יש לך",
    "если у вас",
    "обращайтесь",
];

/// Greetings and thanks. With a few words more, such as a name, they state nothing.
const GREETINGS: &[&str] = &[
    "hi",
    "hello",
    "hey",
    "dear",
    "greetings",
    "welcome",
    "thanks",
    "thank",
    "bye",
    "goodbye",
    "good morning",
    "good afternoon",
    "good evening",
    "hola",
    "gracias",
    "bonjour",
    "merci",
    "hallo",
    "guten tag",
    "danke",
    "ciao",
    "grazie",
    "olá",
    "obrigado",
    "obrigada",
    "привет",
    "здравствуйте",
    "спасибо",
    "你好",
    "您好",
    "谢谢",
    "こんにちは",
    "ありがとうございます",
    "안녕하세요",
    "감사합니다",
    "مرحبا",
    "مرحبًا",
    "شكرا",
    "شكرًا",
    "أهلا",
    "שלום",
    "תודה",
    "hej",
    "tack",
    "takk",
    "tak",
    "cześć",
    "dziękuję",
    "merhaba",
    "teşekkürler",
];

/// Words of assent and regret. What follows them after a comma or a dash is a sentence of its own.
const ASSENTS: &[&str] = &[
    "sure",
    "certainly",
    "absolutely",
    "of course",
    "okay",
    "ok",
    "great",
    "perfect",
    "understood",
    "got it",
    "alright",
    "yes",
    "no",
    "yep",
    "nope",
    "indeed",
    "right",
    "correct",
    "sorry",
    "apologies",
    "done",
    "noted",
    "sí",
    "claro",
    "por supuesto",
    "oui",
    "non",
    "bien sûr",
    "d'accord",
    "ja",
    "nein",
    "gerne",
    "natürlich",
    "certo",
    "sim",
    "да",
    "нет",
    "好的",
    "是的",
    "はい",
    "いいえ",
    "네",
    "نعم",
    "כן",
];

/// Openings of announcements: they say that something follows.
const ANNOUNCEMENTS: &[&str] = &[
    "here is",
    "here's",
    "here are",
    "below is",
    "below are",
    "the following",
    "this is what",
    "these are the",
    "based on the",
    "according to the",
    "i found the following",
    "i've found the following",
    "hier ist",
    "hier sind",
    "voici",
    "aquí está",
    "aquí tienes",
    "ecco",
    "segue",
    "以下",
    "вот",
    "إليك",
    "להלן",
];

/// Openings of hedges that state nothing by themselves.
const HEDGES: &[&str] = &[
    "i'm not sure",
    "i am not sure",
    "i don't know",
    "i do not know",
    "i can't say",
    "i cannot say",
    "i'm afraid i",
    "it depends",
    "i think so",
    "i don't think so",
    "i can help",
    "i can assist",
    "i'll",
    "i will",
    "i'm going to",
    "i am going to",
    "i need to",
    "i'd need",
    "i would need",
    "please provide",
    "please share",
    "please note that i",
    "could you",
    "can you",
    "would you",
    "please confirm",
    "please check",
];

/// After "if you …": an offer of help.
const OFFERS: &[&str] = &[
    "let me know",
    "feel free",
    "happy to",
    "glad to",
    "just ask",
    "reach out",
    "hesitate",
    "i can help",
    "i'd be",
    "ask me",
    "tell me",
    "i'm here",
    "i am here",
    "any question",
    "any other question",
    "any further",
    "contact us",
    "contact support",
    "more help",
    "further help",
    "further assistance",
    "more information",
    "more details",
    "anything else",
];

/// Greetings are followed by few words: "Hello Jane, nice to meet you".
const SHORT: usize = 4;

/// Whether a sentence is a question.
pub(super) fn is_question(sentence: &str) -> bool {
    let end = sentence.trim_end_matches(|c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」' | '*' | '_' | '!' | '！')
            || is_picture(c)
    });
    end.ends_with(['?', '？', '؟', '\u{37E}', '՞', '፧'])
}

/// Whether a sentence only announces what follows it: a colon at its end and no figure of its own.
pub(super) fn is_lead_in(sentence: &str) -> bool {
    let end = sentence.trim_end_matches(['*', '_', ' ']);
    end.ends_with([':', '：'])
}

/// Whether a sentence says anything that evidence could support.
pub(super) fn states_something(sentence: &str) -> bool {
    let plain = plain(sentence);
    if !plain.chars().any(char::is_alphanumeric) || is_question(sentence) {
        return false;
    }
    let starts = |openings: &[&str]| openings.iter().any(|opening| begins_with(&plain, opening));
    if starts(OPENINGS) && !begins_with(&plain, "thanks to") {
        return false;
    }
    let conditional =
        begins_with(&plain, "if you") || begins_with(&plain, "if there") || begins_with(&plain, "should you");
    if conditional && OFFERS.iter().any(|offer| plain.contains(offer)) {
        return false;
    }
    // From here on a figure or an identifier says that there is a fact in it.
    if plain.chars().any(char::is_numeric) {
        return true;
    }
    let lead_in = is_lead_in(sentence);
    if lead_in || (starts(ANNOUNCEMENTS) && is_bare_announcement(&plain)) {
        return false;
    }
    if starts(HEDGES) {
        return false;
    }
    let after =
        |words: &[&str]| words.iter().find(|word| begins_with(&plain, word)).map(|word| &plain[word.len()..]);
    if let Some(rest) = after(GREETINGS) {
        return rest.split_whitespace().count() > SHORT;
    }
    match after(ASSENTS) {
        Some(rest) if !rest.trim_start().starts_with(char::is_alphanumeric) => states_something(rest),
        _ => true,
    }
}

/// "Here is what I found", "Based on the search results, here are the details": announcements that end without a fact.
fn is_bare_announcement(plain: &str) -> bool {
    const THINGS: &[&str] = &[
        "what i found",
        "what i know",
        "the details",
        "the information",
        "the answer",
        "a summary",
        "the summary",
        "an overview",
        "the results",
        "the steps",
        "some",
        "a few",
        "your answer",
        "what you",
        "the key",
        "a breakdown",
        "the breakdown",
        "a quick",
    ];
    let announces =
        ["here is", "here's", "here are", "below is", "below are", "this is what", "voici", "hier ist"];
    let at = announces.iter().find_map(|opening| plain.find(opening).map(|at| at + opening.len()));
    at.is_some_and(|at| THINGS.iter().any(|thing| plain[at..].trim_start().starts_with(thing)))
}

/// Whether the text begins with the phrase and the phrase ends there with a word. Scripts without spaces always do.
fn begins_with(text: &str, phrase: &str) -> bool {
    let Some(rest) = text.strip_prefix(phrase) else { return false };
    let joined = phrase.chars().next_back().is_some_and(|c| c.is_alphabetic() && (c as u32) < 0x2E80);
    !joined || !rest.starts_with(char::is_alphanumeric)
}

/// Lower case, plain apostrophes, and without marks of emphasis, quotation or pictures at its start.
fn plain(sentence: &str) -> String {
    sentence
        .trim_start_matches(|c: char| !c.is_alphanumeric())
        .chars()
        .map(|c| if c == '’' { '\'' } else { c })
        .filter(|c| !matches!(c, '*' | '_' | '`'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Emoji and the marks that join them.
fn is_picture(c: char) -> bool {
    matches!(c as u32, 0x1F000..=0x1FAFF | 0x2600..=0x27BF | 0xFE0F | 0x200D)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn talk_states_nothing() {
        let talk = [
            "Hi Jane!",
            "Hello, and welcome!",
            "Thank you for contacting us about order NW-48213.",
            "Thanks!",
            "Sure!",
            "**Great question!**",
            "Let me know if you need anything else by 5 pm.",
            "I hope this helps! 😊",
            "If you have any further questions, feel free to ask.",
            "If you need more help, just let me know.",
            "Would you like me to file it?",
            "Does that help? 🙂",
            "可以吗？",
            "هل هذا واضح؟",
            "Here is what I found:",
            "Here are the details.",
            "Based on the search results, here's a summary:",
            "I'll check.",
            "Yes.",
            "---",
            "🚚",
            "I'm not sure.",
            "I'm sorry to hear that.",
            "您好！",
            "Guten Tag!",
            "Merci !",
            "Bonjour Jeanne,",
            "Could you share the order number, please.",
        ];
        for sentence in talk {
            assert!(!states_something(sentence), "{sentence}");
        }
    }

    #[test]
    fn statements_are_kept() {
        let statements = [
            "Your order NW-48213 was delivered on 6 November 2026.",
            "Sure, your order was delivered on 6 November.",
            "Hi Jane, your parcel is in customs at Oslo.",
            "Thanks to the new pool, latency fell to 310 ms.",
            "If you cancel within 14 days, you get the full amount back.",
            "Yes, it ships from Lyon to Gdansk.",
            "I have refunded the duplicate charge ch_7793.",
            "No refunds.",
            "No, it is closed.",
            "No exception is allowed without approval.",
            "Then you can cancel the upgrade and get everything back.",
            "Lyon has none until the restock.",
            "退款需要30天。",
            "غرامة التأخير هي 0.5%.",
            "There are 3 plans:",
            "Unworn shoes can be returned.",
            "I couldn't find any order with this number.",
            "The following exception applies to footwear.",
            "Refunds go to the original payment method.",
            "Okonomiyaki is served daily in Osaka.",
        ];
        for sentence in statements {
            assert!(states_something(sentence), "{sentence}");
        }
    }
}
