//! Which states and questions share which forward pass. Pure.

use std::ops::Range;

/// A state and its questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Tokens of the state that must be read; none if it is known from an earlier pass.
    pub state: Option<usize>,
    /// Tokens of each question.
    pub questions: Vec<usize>,
}

/// An item's share of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which item.
    pub item: usize,
    /// Whether the state is read in this pass.
    pub reads_state: bool,
    /// The questions that are answered in this pass.
    pub questions: Range<usize>,
}

/// Puts states and questions into passes of at most `budget` tokens, in order. What is larger than the budget has a pass for itself.
pub fn passes(items: &[Item], budget: usize) -> Vec<Vec<Part>> {
    let mut passes = Vec::new();
    let mut pass = Vec::new();
    let mut tokens = 0;
    for (index, item) in items.iter().enumerate() {
        let mut part = Part { item: index, reads_state: false, questions: 0..0 };
        if let Some(state) = item.state {
            if tokens > 0 && tokens + state > budget {
                passes.push(std::mem::take(&mut pass));
                tokens = 0;
            }
            tokens += state;
            part.reads_state = true;
        }
        for (question, length) in item.questions.iter().enumerate() {
            if tokens > 0 && tokens + length > budget {
                if part.reads_state || !part.questions.is_empty() {
                    pass.push(part);
                }
                passes.push(std::mem::take(&mut pass));
                tokens = 0;
                part = Part { item: index, reads_state: false, questions: question..question };
            }
            tokens += length;
            part.questions.end = question + 1;
        }
        if part.reads_state || !part.questions.is_empty() {
            pass.push(part);
        }
    }
    if !pass.is_empty() {
        passes.push(pass);
    }
    passes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_shares_a_pass() {
        let items =
            [Item { state: Some(50), questions: vec![10, 10] }, Item { state: None, questions: vec![20] }];
        let part = |item, reads_state, questions| Part { item, reads_state, questions };
        assert_eq!(passes(&items, 100), [[part(0, true, 0..2), part(1, false, 0..1)]]);
        assert_eq!(
            passes(&items, 60),
            [vec![part(0, true, 0..1)], vec![part(0, false, 1..2), part(1, false, 0..1)]]
        );
        assert_eq!(passes(&items, 1).len(), 4);
    }

    proptest! {
        #[test]
        fn everything_is_read_once_within_the_budget(
            items in prop::collection::vec(
                (prop::option::of(1usize..300), prop::collection::vec(1usize..80, 0..6)), 0..8),
            budget in 1usize..500,
        ) {
            let items: Vec<Item> =
                items.into_iter().map(|(state, questions)| Item { state, questions }).collect();
            let mut answered: Vec<usize> = items.iter().map(|_| 0).collect();
            let mut read: Vec<bool> = items.iter().map(|item| item.state.is_none()).collect();
            for pass in passes(&items, budget) {
                let mut sizes = Vec::new();
                for part in pass {
                    let item = &items[part.item];
                    if part.reads_state {
                        prop_assert!(!read[part.item]);
                        read[part.item] = true;
                        sizes.extend(item.state);
                    }
                    prop_assert!(read[part.item]);
                    prop_assert_eq!(part.questions.start, answered[part.item]);
                    answered[part.item] = part.questions.end;
                    sizes.extend(&item.questions[part.questions]);
                }
                prop_assert!(sizes.len() == 1 || sizes.iter().sum::<usize>() <= budget);
            }
            prop_assert!(read.iter().all(|read| *read));
            prop_assert!(items.iter().zip(answered).all(|(item, count)| item.questions.len() == count));
        }
    }
}
