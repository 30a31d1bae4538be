//! Gated full attention.

use rayon::prelude::*;

use super::super::super::config::TorsoConfig;
use super::super::super::error::LoadError;
use super::super::super::weights::Weights;
use super::linear::load;
use super::mixing::Mixing;
use super::norm::{norm_in_place, zero_centred};
use super::place::Places;
use super::{LayerState, gather};
use crate::decide::kernels::{
    Linear, Precision, Rows, RowsMut, Threads, exp, sigmoid, times, times_transposed, vectorised,
};

/// Query rows that one task takes.
const QUERY_ROWS: usize = 64;

/// The weights of a full-attention layer.
pub struct Attention {
    /// Query and gate of each head, interleaved by head.
    query: Linear,
    /// Keys, then values.
    key_value: Linear,
    query_norm: Vec<f32>,
    key_norm: Vec<f32>,
    output: Linear,
    /// RoPE's angle per position, for each pair of rotating dimensions.
    frequencies: Vec<f32>,
}

/// A stretch of keys and values.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    /// From one row of `values` to the next.
    value_stride: usize,
    rows: usize,
}

/// Queries of one segment for one key head.
struct Task {
    segment: usize,
    kv_head: usize,
    /// Positions in the list of queries.
    from: usize,
    to: usize,
}

impl Attention {
    pub fn load(
        config: &TorsoConfig,
        weights: &Weights,
        path: &str,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        let path = format!("{path}self_attn.");
        let query_width = config.heads * config.head_dim;
        let kv_width = config.kv_heads * config.head_dim;
        let norm = |name: &str| {
            weights.values(&format!("{path}{name}.weight"), &[config.head_dim]).map(zero_centred)
        };
        let pairs = config.rotary / 2;
        Ok(Self {
            query: load(weights, &path, &[("q_proj", 2 * query_width)], config.hidden, precision)?,
            key_value: load(
                weights,
                &path,
                &[("k_proj", kv_width), ("v_proj", kv_width)],
                config.hidden,
                precision,
            )?,
            query_norm: norm("q_norm")?,
            key_norm: norm("k_norm")?,
            output: load(weights, &path, &[("o_proj", config.hidden)], query_width, precision)?,
            frequencies: (0..pairs)
                .map(|pair| 1.0 / config.rope_theta.powf(2.0 * pair as f32 / config.rotary as f32))
                .collect(),
        })
    }

    /// Adds the mixed rows to `stream`: all of them, or the wanted ones. Gives the state after each segment that is to be kept.
    pub fn mix(
        &self,
        mixing: &Mixing<'_, '_>,
        stream: &mut [f32],
        see: &mut dyn FnMut(&str, &[f32]),
    ) -> Vec<Option<LayerState>> {
        let Mixing { config, normed, places, wanted, .. } = *mixing;
        let (head_dim, kv_width) = (config.head_dim, config.kv_heads * config.head_dim);
        let query_width = config.heads * head_dim;
        let mut key_value = vec![0.0; places.rows * 2 * kv_width];
        self.key_value.apply(normed, &mut key_value);
        let keys = self.keys(config, places, &key_value, see);

        let all: Vec<usize>;
        let chosen;
        let (query_rows, query_input) = match wanted {
            Some(wanted) => {
                chosen = gather(normed, wanted, config.hidden);
                (wanted, chosen.as_slice())
            }
            None => {
                all = (0..places.rows).collect();
                (all.as_slice(), normed)
            }
        };
        let mut queries = vec![0.0; query_rows.len() * 2 * query_width];
        self.query.apply(query_input, &mut queries);
        see("q_proj", &queries);
        self.turn_queries(config, places, query_rows, &mut queries);

        let mut mixed = vec![0.0; query_rows.len() * query_width];
        let tasks = tasks(config, places, query_rows);
        let results: Vec<Vec<f32>> = tasks
            .par_iter()
            .map(|task| {
                let stretches = stretches(mixing, task.segment, &keys, &key_value);
                attend(config, places, task, query_rows, &queries, &stretches)
            })
            .collect();
        let group = config.heads / config.kv_heads;
        for (task, result) in tasks.iter().zip(results) {
            let width = group * head_dim;
            for (row, values) in (task.from..task.to).zip(result.chunks_exact(width)) {
                mixed[row * query_width + task.kv_head * width..][..width].copy_from_slice(values);
            }
        }
        gate(config, &queries, &mut mixed);
        see("o_proj.in", &mixed);
        self.output.apply_adding(&mixed, stream);

        (0..places.places.len())
            .map(|segment| {
                let stretches = || stretches(mixing, segment, &keys, &key_value);
                places.places[segment].keep.then(|| keep(&stretches(), kv_width))
            })
            .collect()
    }

    /// Keys of all rows, normed and turned.
    fn keys(
        &self,
        config: &TorsoConfig,
        places: &Places<'_>,
        key_value: &[f32],
        see: &mut dyn FnMut(&str, &[f32]),
    ) -> Vec<f32> {
        let (head_dim, kv_width) = (config.head_dim, config.kv_heads * config.head_dim);
        let mut keys = vec![0.0; places.rows * kv_width];
        for place in &places.places {
            let range = place.rows.start * kv_width..place.rows.end * kv_width;
            let sources = &key_value[2 * range.start..2 * range.end];
            keys[range].par_chunks_mut(kv_width).zip(sources.par_chunks(2 * kv_width)).enumerate().for_each(
                |(offset, (row, source))| {
                    row.copy_from_slice(&source[..kv_width]);
                    let turn = self.turn(place.prefix + offset);
                    for head in row.chunks_exact_mut(head_dim) {
                        vectorised(
                            #[inline(always)]
                            || norm_in_place(head, &self.key_norm, config.eps),
                        );
                        rotate(head, &turn);
                    }
                },
            );
        }
        see("k_turned", &keys);
        keys
    }

    /// Norms and turns the queries in place.
    fn turn_queries(
        &self,
        config: &TorsoConfig,
        places: &Places<'_>,
        query_rows: &[usize],
        queries: &mut [f32],
    ) {
        let scale = (config.head_dim as f32).powf(-0.5);
        let positions = positions(places);
        let width = 2 * config.heads * config.head_dim;
        queries.par_chunks_mut(width).zip(query_rows.par_iter()).for_each(|(row, place)| {
            let turn = self.turn(positions[*place]);
            for head in row.chunks_exact_mut(2 * config.head_dim) {
                let query = &mut head[..config.head_dim];
                vectorised(
                    #[inline(always)]
                    || norm_in_place(query, &self.query_norm, config.eps),
                );
                rotate(query, &turn);
                query.iter_mut().for_each(|value| *value *= scale);
            }
        });
    }

    /// Cosine and sine of each pair's angle at a position.
    fn turn(&self, position: usize) -> Vec<(f32, f32)> {
        self.frequencies
            .iter()
            .map(|frequency| {
                let angle = position as f32 * frequency;
                (angle.cos(), angle.sin())
            })
            .collect()
    }
}

/// Turns the leading dimensions of a head: dimension `j` is paired with `j + rotary/2`.
fn rotate(head: &mut [f32], turn: &[(f32, f32)]) {
    let (first, second) = head[..2 * turn.len()].split_at_mut(turn.len());
    for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(turn) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

/// Each row's position in its whole prompt.
fn positions(places: &Places<'_>) -> Vec<usize> {
    places.places.iter().flat_map(|place| (0..place.rows.len()).map(|offset| place.prefix + offset)).collect()
}

fn tasks(config: &TorsoConfig, places: &Places<'_>, query_rows: &[usize]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (segment, place) in places.places.iter().enumerate() {
        // Wanted rows of a segment lie together, but not always in order.
        let first = query_rows.iter().position(|row| place.rows.contains(row));
        let count = query_rows.iter().filter(|row| place.rows.contains(row)).count();
        let Some(first) = first else { continue };
        for from in (first..first + count).step_by(QUERY_ROWS) {
            let to = (from + QUERY_ROWS).min(first + count);
            tasks.extend((0..config.kv_heads).map(|kv_head| Task { segment, kv_head, from, to }));
        }
    }
    tasks
}

/// All keys and values that a segment sees, its own last.
fn stretches<'b, 'a: 'b>(
    mixing: &Mixing<'_, 'a>,
    segment: usize,
    keys: &'b [f32],
    key_value: &'b [f32],
) -> Vec<Stretch<'b>> {
    let kv_width = mixing.config.kv_heads * mixing.config.head_dim;
    let line = mixing.places.line(segment);
    let mut stretches = Vec::with_capacity(line.len() + 1);
    if let Some(LayerState::Attention { keys, values }) = mixing.kept(line[0]) {
        let rows = keys.len() / kv_width;
        stretches.push(Stretch { keys, values, value_stride: kv_width, rows });
    }
    for ancestor in line {
        let rows = &mixing.places.places[ancestor].rows;
        stretches.push(Stretch {
            keys: &keys[rows.start * kv_width..rows.end * kv_width],
            // Starts at the first row's values and ends with the last row's.
            values: &key_value[rows.start * 2 * kv_width + kv_width..rows.end * 2 * kv_width],
            value_stride: 2 * kv_width,
            rows: rows.len(),
        });
    }
    stretches
}

/// What the heads of one key head see, `[queries, group · head_dim]`.
fn attend(
    config: &TorsoConfig,
    places: &Places<'_>,
    task: &Task,
    query_rows: &[usize],
    queries: &[f32],
    stretches: &[Stretch<'_>],
) -> Vec<f32> {
    let head_dim = config.head_dim;
    let kv_width = config.kv_heads * head_dim;
    let group = config.heads / config.kv_heads;
    let count = task.to - task.from;
    let place = &places.places[task.segment];
    let own = stretches.len() - 1;
    let offset = |query: usize| query_rows[query] - place.rows.start;
    let furthest = (task.from..task.to).map(offset).max().unwrap_or(0) + 1;
    let seen = |index: usize| if index == own { furthest } else { stretches[index].rows };
    let columns: usize = (0..stretches.len()).map(seen).sum();

    // Query rows of the group's heads below each other: one product for all of them.
    let mut block = Vec::with_capacity(group * count * head_dim);
    for query in task.from..task.to {
        for head in 0..group {
            let at = (query * config.heads + task.kv_head * group + head) * 2 * head_dim;
            block.extend_from_slice(&queries[at..at + head_dim]);
        }
    }
    let rows = group * count;
    let mut scores = vec![0.0; rows * columns];
    let mut column = 0;
    for (index, stretch) in stretches.iter().enumerate() {
        let width = seen(index);
        times_transposed(
            RowsMut::new(&mut scores[column..], rows, width, columns),
            Rows::new(&block, rows, head_dim, head_dim),
            Rows::new(&stretch.keys[task.kv_head * head_dim..], width, head_dim, kv_width),
            false,
            Threads::One,
        );
        column += width;
    }
    for (row, scores) in scores.chunks_exact_mut(columns).enumerate() {
        let visible = columns - furthest + offset(task.from + row / group) + 1;
        vectorised(
            #[inline(always)]
            || softmax(scores, visible),
        );
    }
    let mut out = vec![0.0; rows * head_dim];
    let mut column = 0;
    for (index, stretch) in stretches.iter().enumerate() {
        let width = seen(index);
        times(
            RowsMut::new(&mut out, rows, head_dim, head_dim),
            Rows::new(&scores[column..], rows, width, columns),
            Rows::new(&stretch.values[task.kv_head * head_dim..], width, head_dim, stretch.value_stride),
            index > 0,
            Threads::One,
        );
        column += width;
    }
    out
}

/// Softmax over the visible scores; the others become 0.
#[inline(always)]
fn softmax(scores: &mut [f32], visible: usize) {
    let (visible, hidden) = scores.split_at_mut(visible);
    let mut most = [f32::NEG_INFINITY; 16];
    let (blocks, rest) = visible.as_chunks::<16>();
    for block in blocks {
        for lane in 0..16 {
            most[lane] = if block[lane] > most[lane] { block[lane] } else { most[lane] };
        }
    }
    let most = most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    for score in visible.iter_mut() {
        *score = exp(*score - most);
    }
    let mut sums = [0.0_f32; 16];
    let (blocks, rest) = visible.as_chunks::<16>();
    for block in blocks {
        for lane in 0..16 {
            sums[lane] += block[lane];
        }
    }
    let scale = 1.0 / (sums.iter().sum::<f32>() + rest.iter().sum::<f32>());
    visible.iter_mut().for_each(|score| *score *= scale);
    hidden.fill(0.0);
}

/// `mixed *= sigmoid(gate)`
fn gate(config: &TorsoConfig, queries: &[f32], mixed: &mut [f32]) {
    let head_dim = config.head_dim;
    mixed.par_chunks_mut(head_dim).zip(queries.par_chunks(2 * head_dim)).for_each(|(mixed, query)| {
        vectorised(
            #[inline(always)]
            || {
                for (value, gate) in mixed.iter_mut().zip(&query[head_dim..]) {
                    *value *= sigmoid(*gate);
                }
            },
        );
    });
}

fn keep(stretches: &[Stretch<'_>], kv_width: usize) -> LayerState {
    let rows: usize = stretches.iter().map(|stretch| stretch.rows).sum();
    let mut keys = Vec::with_capacity(rows * kv_width);
    let mut values = Vec::with_capacity(rows * kv_width);
    for stretch in stretches {
        keys.extend_from_slice(stretch.keys);
        for row in 0..stretch.rows {
            values.extend_from_slice(&stretch.values[row * stretch.value_stride..][..kv_width]);
        }
    }
    LayerState::Attention { keys, values }
}
