//! How far a share that was seen may lie from the true one.

/// z of a two-sided interval of 95 %.
const Z: f64 = 1.959_963_985;

/// Wilson's interval of 95 % for a share of `right` among `total`; all is possible of nothing.
pub fn wilson(right: usize, total: usize) -> [f64; 2] {
    if total == 0 {
        return [0.0, 1.0];
    }
    let (n, p) = (total as f64, right as f64 / total as f64);
    let centre = p + Z * Z / (2.0 * n);
    let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let width = 1.0 + Z * Z / n;
    [((centre - spread) / width).max(0.0), ((centre + spread) / width).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_known_interval_and_never_leaves_0_to_1() {
        // 8 of 10: 0.4902 to 0.9433, as printed in textbooks.
        let [low, high] = wilson(8, 10);
        assert!((low - 0.4902).abs() < 1e-4 && (high - 0.9433).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
        assert!(wilson(10, 10)[0] > 0.7 && wilson(10, 10)[1] <= 1.0);
        assert!(wilson(0, 10)[0] >= 0.0);
    }
}
