//! The decision model itself: states and questions of many inquiries in shared passes, over a cache of prefix states.

use std::collections::HashMap;
use std::sync::Arc;

use super::encoder::{Prompt, StrandsEncoder, Work, refused};
use super::head::{PointerHead, softmax};
use super::prefix::PrefixCache;
use super::schedule::{Item, Part, passes};
use super::torso::{After, Segment, Torso};
use crate::decide::{DecideError, Decider, Encoder, Layout, ModelInfo, Reply};
use crate::domain::{Decision, Nobody};
use crate::metrics;

/// A Strands Decider over any torso.
pub struct Strands<T: Torso> {
    pub(super) torso: T,
    pub(super) head: PointerHead,
    pub(super) encoder: Arc<StrandsEncoder>,
    pub(super) info: ModelInfo,
    pub(super) cache: PrefixCache<T::State>,
    /// Tokens of one pass.
    pub(super) budget: usize,
    /// Threads of a pass; none: the process's pool.
    pub(super) pool: Option<rayon::ThreadPool>,
}

/// A distinct state of a batch, and who asks about it.
struct Shared<'a, S> {
    tokens: &'a Arc<[u32]>,
    state: Option<Arc<S>>,
    askers: Vec<Asker<'a>>,
}

/// A question of a batch.
struct Asker<'a> {
    prompt: &'a Prompt,
    place: Place,
}

/// Which inquiry of a batch, and which of its questions.
#[derive(Clone, Copy)]
struct Place {
    inquiry: usize,
    question: usize,
}

impl<T: Torso> Decider for Strands<T> {
    type Work = Work;

    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn encoder(&self) -> Arc<dyn Encoder<Work>> {
        Arc::clone(&self.encoder) as Arc<dyn Encoder<Work>>
    }

    fn layout(&self) -> Layout {
        Layout::Ragged
    }

    fn decide(&mut self, batch: &[Work]) -> Result<Vec<Reply>, DecideError> {
        let mut replies: Vec<Reply> = batch.iter().map(unanswered).collect();
        let mut shared = self.share(batch);
        let items: Vec<Item> = shared
            .iter()
            .map(|shared| Item {
                state: shared.state.is_none().then_some(shared.tokens.len()),
                questions: shared.askers.iter().map(|asker| asker.prompt.tokens.len()).collect(),
            })
            .collect();
        for parts in passes(&items, self.budget) {
            for (place, decision) in self.pass(&parts, &mut shared)? {
                replies[place.inquiry].decisions[place.question] = Ok(decision);
            }
        }
        let misses = items.iter().filter(|item| item.state.is_some()).count();
        metrics::decide_prefix(items.len() - misses, misses, self.cache.bytes());
        Ok(replies)
    }

    fn warm_up(&mut self) -> Result<(), DecideError> {
        let tokens = [0; 8];
        let segment = Segment { tokens: &tokens, after: After::Nothing, wanted: vec![7], keep: false };
        let rows = self.forward(&[segment])?.rows;
        if rows.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(DecideError::NotFinite) }
    }

    fn recover(&mut self) {
        self.cache.clear();
    }
}

impl<T: Torso> Strands<T> {
    /// The batch's distinct states, with what the cache knows of them.
    fn share<'a>(&mut self, batch: &'a [Work]) -> Vec<Shared<'a, T::State>> {
        let mut shared: Vec<Shared<'a, T::State>> = Vec::new();
        let mut places: HashMap<&'a [u32], usize> = HashMap::new();
        for (inquiry, work) in batch.iter().enumerate() {
            let mut question = 0;
            for chunk in &work.chunks {
                for prompt in &chunk.questions {
                    if let Ok(prompt) = prompt {
                        let place = *places.entry(&chunk.state).or_insert_with(|| {
                            let state = self.cache.find(&chunk.state);
                            shared.push(Shared { tokens: &chunk.state, state, askers: Vec::new() });
                            shared.len() - 1
                        });
                        shared[place].askers.push(Asker { prompt, place: Place { inquiry, question } });
                    }
                    question += 1;
                }
            }
        }
        shared
    }

    /// Runs one pass. Gives the decisions by place, and keeps the states that it read.
    fn pass(
        &mut self,
        parts: &[Part],
        shared: &mut [Shared<'_, T::State>],
    ) -> Result<Vec<(Place, Decision)>, DecideError> {
        let known: Vec<Option<Arc<T::State>>> =
            parts.iter().map(|part| shared[part.item].state.clone()).collect();
        let mut segments = Vec::new();
        let mut askers = Vec::new();
        let mut read = Vec::new();
        for (part, known) in parts.iter().zip(&known) {
            let item = &shared[part.item];
            let state_at = segments.len();
            if part.reads_state {
                read.push((part.item, state_at));
                segments.push(Segment {
                    tokens: item.tokens,
                    after: After::Nothing,
                    wanted: Vec::new(),
                    keep: true,
                });
            }
            for asker in &item.askers[part.questions.clone()] {
                let after = match known {
                    Some(state) => After::Kept(&**state),
                    None => After::Segment(state_at),
                };
                let last = asker.prompt.tokens.len() - 1;
                let wanted = asker.prompt.options.iter().copied().chain([last]).collect();
                segments.push(Segment { tokens: &asker.prompt.tokens, after, wanted, keep: false });
                askers.push((asker.prompt, asker.place));
            }
        }
        let mut pass = self.forward(&segments)?;
        let mut rows = pass.rows.as_slice();
        let mut decisions = Vec::with_capacity(askers.len());
        for (prompt, place) in askers {
            let (own, rest) = rows.split_at((prompt.options.len() + 1) * self.torso.hidden());
            rows = rest;
            decisions.push((place, self.decision(prompt, own)?));
        }
        for (item, segment) in read {
            if let Some(state) = pass.states[segment].take() {
                let state = Arc::new(state);
                let bytes = self.torso.weight(&state);
                self.cache.insert(Arc::clone(shared[item].tokens), Arc::clone(&state), bytes);
                shared[item].state = Some(state);
            }
        }
        Ok(decisions)
    }

    fn decision(&self, prompt: &Prompt, rows: &[f32]) -> Result<Decision, DecideError> {
        let probabilities = softmax(&self.head.logits(rows), prompt.temperature);
        if !probabilities.iter().all(|p| p.is_finite()) {
            return Err(DecideError::NotFinite);
        }
        Ok(Decision { probabilities, tokens: u32::try_from(prompt.tokens.len()).unwrap_or(u32::MAX) })
    }

    fn forward(
        &mut self,
        segments: &[Segment<'_, T::State>],
    ) -> Result<super::torso::Pass<T::State>, DecideError> {
        let torso = &mut self.torso;
        let pass = match &self.pool {
            Some(pool) => pool.install(|| torso.forward(segments)),
            None => torso.forward(segments),
        };
        pass.map_err(DecideError::forward)
    }
}

/// A reply whose questions are refused, or not answered yet.
fn unanswered(work: &Work) -> Reply {
    let prompts = work.chunks.iter().flat_map(|chunk| &chunk.questions);
    Reply {
        decisions: prompts
            .map(|prompt| match prompt {
                Ok(_) => Err(Nobody::Failed("not reached".to_owned())),
                Err(refusal) => refused(refusal),
            })
            .collect(),
        input_tokens: work.tokens() as u64,
        truncated: work.truncated,
    }
}
