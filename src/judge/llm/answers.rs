//! Asks for the answers to questions, and for the partition of claims, until they are complete or the tries are used up.

use std::sync::Arc;

use moka::future::Cache;
use tokio::time::{Instant, timeout_at};

use super::super::attempt::Said;
use super::super::config::Config;
use super::super::dialect::Shape;
use super::super::guard::Tally;
use super::super::prompt::{Open, Prompt, Prompts};
use super::super::reply::{self, Pick, Reading};
use super::super::sheet::{Item, Sheet};
use super::super::{
    BadReply, Flaw, JudgeError, JudgeErrorKind, Judged, Judgement, Unanswered, partition, schema,
};
use super::exchange::{Exchange, MAX_CUTS};
use crate::domain::{DecisionStatus, Inquiry, JudgedPartition};
use crate::metrics;

/// Shapes of questions are of one kind, those with a partition of another.
const QUESTIONS: u64 = 0;
const PARTITION: u64 = 1;

/// Answers, and those that are kept.
pub(super) struct Answering {
    /// Complete answers by the digest of the prompt, which holds no ids: equal questions share them whatever they are called.
    kept: Cache<[u8; 32], Arc<Found>>,
}

/// What was found so far.
#[derive(Debug, Clone)]
struct Found {
    picks: Reading,
    /// None if none was asked for.
    partition: Option<Result<JudgedPartition, BadReply>>,
    cuts: Vec<String>,
}

/// What is not kept for the next equal ask.
enum Unkept {
    Failed(JudgeErrorKind),
    Incomplete(Arc<Found>),
}

impl Answering {
    /// With the cache of `config`.
    pub fn new(config: &Config) -> Self {
        let kept = Cache::builder()
            .max_capacity(config.cache.max_bytes.0)
            .weigher(|_, found: &Arc<Found>| weight(found))
            .time_to_live(config.cache.keep.0)
            .build();
        Self { kept }
    }

    /// One call for these inquiries; `own` is the template to use in place of the usual one.
    pub async fn answered(
        &self,
        inquiries: &[&Inquiry],
        partition: bool,
        own: Option<&str>,
        prompts: &Prompts,
        exchange: &Exchange,
    ) -> Result<Judgement, JudgeError> {
        let sheet = Sheet::new(inquiries.iter().copied(), partition)?;
        if sheet.is_empty() {
            return Ok(Judgement::default());
        }
        let deadline = Instant::now() + exchange.deadline;
        let tally = Tally::new();
        let mut asked = false;
        let mut asking = Asking { sheet, own, prompts, exchange, deadline, tally: &tally };
        let first = asking.prompt(&Found::open(&asking.sheet), "")?;
        let key = first.0.digest();
        // Ids differ between equal asks: they are read from the sheet of each.
        let named: Vec<String> = asking.sheet.items.iter().map(|item| item.question.id.clone()).collect();
        let claims: Vec<(usize, String)> =
            asking.sheet.claims.iter().map(|claim| (claim.claim, claim.id.to_owned())).collect();
        let answered = self.kept.entry(key).or_try_insert_with(async {
            asked = true;
            asking.ask(first).await
        });
        // The calls above keep the deadline themselves; this holds for one that waits for an equal ask of another caller.
        let answered = timeout_at(deadline, answered).await;
        let found = match answered {
            Ok(Ok(entry)) => entry.into_value(),
            Ok(Err(unkept)) => match &*unkept {
                Unkept::Incomplete(found) => Arc::clone(found),
                Unkept::Failed(kind) => return Err(JudgeError { kind: kind.clone(), usage: tally.usage() }),
            },
            Err(_) => {
                let kind = JudgeErrorKind::Deadline { deadline: exchange.deadline, waiting: tally.waiting() };
                return Err(JudgeError { kind, usage: tally.usage() });
            }
        };
        let mut judgement = judgement(&named, &claims, &found);
        judgement.usage = tally.usage();
        judgement.cached = !asked;
        Ok(judgement)
    }
}

/// One ask on its way.
struct Asking<'a> {
    sheet: Sheet<'a>,
    own: Option<&'a str>,
    prompts: &'a Prompts,
    exchange: &'a Exchange,
    deadline: Instant,
    tally: &'a Tally,
}

impl Asking<'_> {
    /// The prompt for what is open, and the shape of its reply. Evidence is cut until it fits.
    fn prompt(&mut self, found: &Found, complaint: &str) -> Result<(Prompt, Shape), JudgeErrorKind> {
        let open = found.open_items();
        let partition = found.wants_partition();
        for _ in 0..=MAX_CUTS {
            let items: Vec<&Item> = open.iter().map(|position| &self.sheet.items[*position]).collect();
            let claims: &[_] = if partition { &self.sheet.claims } else { &[] };
            let kind = if partition { PARTITION } else { QUESTIONS };
            let shape = Shape { schema: schema::reply(&items, claims), strict: true, kind };
            let asked = Open { items: &open, partition, complaint };
            let prompt = self.prompts.questions(&self.sheet, &asked, self.own)?;
            match self.exchange.fits(&prompt, &shape, self.sheet.weight())? {
                None => return Ok((prompt, shape)),
                Some(room) => self.sheet.shrink(room),
            }
        }
        let message = "its evidence cannot be cut to fit".to_owned();
        Err(JudgeErrorKind::TooLong { tokens: 0, message })
    }

    /// Asks, and asks again for what is still open, as often as repairs are allowed.
    async fn ask(mut self, first: (Prompt, Shape)) -> Result<Arc<Found>, Unkept> {
        let mut found = Found::open(&self.sheet);
        let mut sent = first;
        let (mut tries, mut cuts) = (0, 0);
        loop {
            let said = self.exchange.send(&sent.0, &sent.1, self.deadline, self.tally).await;
            let reply = match said {
                Ok(Said::Text { text, cut }) => self.read(&text, cut, &mut found),
                Ok(Said::Declined { message }) => return found.settle(JudgeErrorKind::Declined { message }),
                Err(JudgeErrorKind::TooLong { tokens, message }) if cuts < MAX_CUTS => {
                    cuts += 1;
                    self.exchange.learn(tokens, &message);
                    match self.prompt(&found, "") {
                        Ok(shorter) => sent = shorter,
                        Err(_) => return found.settle(JudgeErrorKind::TooLong { tokens, message }),
                    }
                    continue;
                }
                Err(kind) => return found.settle(kind),
            };
            found.cuts.clone_from(&self.sheet.cuts);
            tries += 1;
            if found.is_complete() {
                return Ok(Arc::new(found));
            }
            if reply.is_some() {
                metrics::judge_request(self.exchange.provider(), "invalid");
            }
            if tries > self.exchange.repairs {
                return match reply {
                    Some(reply) => found.settle(JudgeErrorKind::Invalid { tries, reply }),
                    None => Err(Unkept::Incomplete(Arc::new(found))),
                };
            }
            let complaint = found.complaint(&self.sheet, reply.as_ref());
            sent = match self.prompt(&found, &complaint) {
                Ok(prompt) => prompt,
                Err(kind) => return found.settle(kind),
            };
        }
    }

    /// Puts what a text answers into `found`; what is wrong with the text if it answers nothing.
    fn read(&self, text: &str, cut: bool, found: &mut Found) -> Option<BadReply> {
        let open = found.open_items();
        let items: Vec<&Item> = open.iter().map(|position| &self.sheet.items[*position]).collect();
        let mut wrong = None;
        let mut right = false;
        if !items.is_empty() {
            match reply::read(text, cut, &items) {
                Ok(answers) => {
                    right = true;
                    for (position, answer) in open.into_iter().zip(answers) {
                        found.picks[position] = answer;
                    }
                }
                Err(reply) => wrong = Some(reply),
            }
        }
        if found.wants_partition() {
            let read = partition::read(text, cut, &self.sheet);
            match &read {
                Ok(_) => right = true,
                Err(reply) => wrong = wrong.or_else(|| Some(reply.clone())),
            }
            found.partition = Some(read);
        }
        wrong.filter(|_| !right)
    }
}

impl Found {
    /// Nothing yet.
    fn open(sheet: &Sheet) -> Self {
        let missing = BadReply::NoPartition { message: "it was not given".to_owned() };
        Self {
            picks: vec![Err(Flaw::Missing); sheet.items.len()],
            partition: (!sheet.claims.is_empty()).then_some(Err(missing)),
            cuts: sheet.cuts.clone(),
        }
    }

    fn open_items(&self) -> Vec<usize> {
        (0..self.picks.len()).filter(|position| self.picks[*position].is_err()).collect()
    }

    fn wants_partition(&self) -> bool {
        matches!(self.partition, Some(Err(_)))
    }

    fn is_complete(&self) -> bool {
        !self.wants_partition() && self.picks.iter().all(Result::is_ok)
    }

    /// What came before an error is kept.
    fn settle(self, kind: JudgeErrorKind) -> Result<Arc<Self>, Unkept> {
        if self.picks.iter().all(Result::is_err) && !matches!(self.partition, Some(Ok(_))) {
            return Err(Unkept::Failed(kind));
        }
        tracing::debug!(error = %kind, "the judge's first reply was incomplete, and asking again failed");
        Err(Unkept::Incomplete(Arc::new(self)))
    }

    /// What is wrong with what is open, for the judge to read; the first few are enough to learn from.
    fn complaint(&self, sheet: &Sheet, reply: Option<&BadReply>) -> String {
        if let Some(reply) = reply {
            return reply.to_string();
        }
        let flaws = sheet.items.iter().zip(&self.picks).filter_map(|(item, answer)| {
            let flaw = answer.as_ref().err()?;
            Some(format!("{} {flaw}", item.key))
        });
        let partition =
            self.partition.iter().filter_map(|partition| partition.as_ref().err()).map(BadReply::to_string);
        flaws.take(5).chain(partition).collect::<Vec<_>>().join("; ")
    }
}

fn judgement(named: &[String], claims: &[(usize, String)], found: &Found) -> Judgement {
    let mut judgement = Judgement { truncated: found.cuts.clone(), ..Judgement::default() };
    for (id, answer) in named.iter().zip(&found.picks) {
        let id = id.clone();
        match answer {
            Ok(Pick { label, reasoning }) => {
                judgement.answers.push(Judged { id, label: label.clone(), reasoning: reasoning.clone() })
            }
            Err(flaw) => judgement.unanswered.push(Unanswered { id, why: flaw.clone() }),
        }
    }
    let Some(partition) = &found.partition else { return judgement };
    for (claim, id) in claims {
        let placed = match partition {
            Ok(partition) if partition.status == DecisionStatus::Resolved => {
                partition.placed.iter().find(|placed| placed.claim == *claim).ok_or(Flaw::Missing)
            }
            Ok(partition) => Err(Flaw::Abstained {
                reason: partition.reason.clone().unwrap_or_else(|| "no reason".to_owned()),
            }),
            Err(reply) => Err(Flaw::Failed { error: reply.to_string() }),
        };
        match placed {
            Ok(placed) => judgement.answers.push(Judged {
                id: id.clone(),
                label: placed.standing.as_str().to_owned(),
                reasoning: placed.reasoning.clone(),
            }),
            Err(why) => judgement.unanswered.push(Unanswered { id: id.clone(), why }),
        }
    }
    judgement.partition = Some(match partition {
        Ok(partition) => partition.clone(),
        Err(reply) => JudgedPartition {
            asked: claims.iter().map(|(claim, _)| *claim).collect(),
            reason: Some(format!("malformed: {reply}")),
            ..JudgedPartition::default()
        },
    });
    judgement
}

/// Bytes that kept answers take, roughly.
fn weight(found: &Found) -> u32 {
    let picks: usize = found
        .picks
        .iter()
        .flatten()
        .map(|pick| pick.label.len() + pick.reasoning.as_ref().map_or(0, String::len))
        .sum();
    let listed = found.partition.iter().flatten().flat_map(|partition| &partition.placed);
    let listed: usize = listed
        .map(|placed| {
            let refs: usize = placed.refs.iter().map(String::len).sum();
            128 + refs + placed.reasoning.as_ref().map_or(0, String::len)
        })
        .sum();
    u32::try_from(256 + found.picks.len() * size_of::<Result<Pick, Flaw>>() + picks + listed)
        .unwrap_or(u32::MAX)
}
