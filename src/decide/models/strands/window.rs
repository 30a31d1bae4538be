//! How a state and its questions are fitted into the model's window, and which token stands for which option. Pure.

/// Questions that share a window calculation, as in the reference.
pub const CHUNK: usize = 32;

/// Why a question cannot be asked. The message is the reference's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The question was cut so far that an option has no token left.
    #[error(
        "option span ({start},{end}) has no tokens left; the prompt was truncated through its option list"
    )]
    OptionCut {
        /// First character of the option's line in the question's text.
        start: usize,
        /// The character after its last.
        end: usize,
    },
    /// State and question are longer than the window, and cutting is not allowed.
    #[error("prompt of {tokens} tokens exceeds the context window of {window} tokens")]
    TooLong {
        /// Tokens of the state and of the longest question of the chunk.
        tokens: usize,
        /// The window.
        window: usize,
    },
}

/// A question's tokens and their places in its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Per token: Unicode scalar values of the text, from and up to.
    pub offsets: Vec<(usize, usize)>,
}

/// How many tokens of the state and of each question fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// The first so many tokens of the state stay.
    pub state: usize,
    /// The last so many tokens of each question stay.
    pub question: usize,
}

/// Fits a chunk: the longest question (up to three quarters of the window) decides how much of the state stays.
pub fn fit(window: usize, state: usize, questions: impl Iterator<Item = usize>) -> Fit {
    let longest = questions.max().unwrap_or(0);
    let most = (window * 3 / 4).max(1);
    let reserve = longest.min(most);
    Fit { state: state.min(window.saturating_sub(reserve).max(1)), question: reserve }
}

/// Refuses a chunk that would have to be cut.
pub fn fit_strictly(
    window: usize,
    state: usize,
    questions: impl Iterator<Item = usize>,
) -> Result<Fit, Refusal> {
    let longest = questions.max().unwrap_or(0);
    let tokens = state + longest;
    if tokens > window {
        return Err(Refusal::TooLong { tokens, window });
    }
    Ok(Fit { state, question: longest })
}

impl Encoded {
    /// Keeps the last `length` tokens.
    pub fn keep_last(&mut self, length: usize) {
        let cut = self.ids.len().saturating_sub(length);
        self.ids.drain(..cut);
        self.offsets.drain(..cut);
    }

    /// For each span, the last token that lies wholly inside it.
    pub fn option_tokens(&self, spans: &[(usize, usize)]) -> Result<Vec<usize>, Refusal> {
        spans
            .iter()
            .map(|&(start, end)| {
                self.offsets
                    .iter()
                    .rposition(|&(low, high)| low < high && low >= start && high <= end)
                    .ok_or(Refusal::OptionCut { start, end })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_question_takes_at_most_three_quarters() {
        assert_eq!(fit(640, 2000, [30, 62].into_iter()), Fit { state: 578, question: 62 });
        assert_eq!(fit(640, 2000, [900].into_iter()), Fit { state: 160, question: 480 });
        assert_eq!(fit(640, 10, [900].into_iter()), Fit { state: 10, question: 480 });
        assert_eq!(fit(1, 10, [9].into_iter()), Fit { state: 1, question: 1 });
    }

    #[test]
    fn a_strict_window_cuts_nothing() {
        assert_eq!(fit_strictly(100, 60, [40, 3].into_iter()), Ok(Fit { state: 60, question: 40 }));
        assert_eq!(
            fit_strictly(100, 61, [40].into_iter()),
            Err(Refusal::TooLong { tokens: 101, window: 100 })
        );
    }

    #[test]
    fn the_last_token_inside_a_span_stands_for_its_option() {
        let encoded =
            Encoded { ids: vec![1, 2, 3, 4, 5], offsets: vec![(0, 2), (2, 4), (4, 4), (3, 4), (4, 6)] };
        assert_eq!(encoded.option_tokens(&[(0, 5), (4, 6)]), Ok(vec![3, 4]));
        assert_eq!(encoded.option_tokens(&[(5, 9)]), Err(Refusal::OptionCut { start: 5, end: 9 }));
    }

    proptest! {
        #[test]
        fn what_fits_stays_within_the_window(
            window in 2usize..5000,
            state in 1usize..9000,
            questions in proptest::collection::vec(1usize..9000, 1..5),
        ) {
            let fit = fit(window, state, questions.iter().copied());
            prop_assert!(fit.state >= 1 && fit.question >= 1);
            prop_assert!(fit.state + fit.question <= window.max(fit.question + 1));
        }
    }
}
