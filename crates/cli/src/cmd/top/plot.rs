//! Values over time as columns of block characters. Pure.

/// An eighth of a character's height, two of them, and so on.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last `columns` of `values` as `rows` lines, the newest at the right; the highest reaches the top.
pub(super) fn plot(values: &[f64], columns: usize, rows: usize) -> Vec<String> {
    let shown = &values[values.len().saturating_sub(columns)..];
    let highest = shown.iter().copied().fold(0.0, f64::max);
    let steps: Vec<usize> = shown.iter().map(|&value| steps(value, highest, rows)).collect();
    let blank = " ".repeat(columns - shown.len());
    let row = |above: usize| {
        let from = 8 * (rows - 1 - above);
        let blocks = steps.iter().map(|&steps| BLOCKS[steps.saturating_sub(from).min(8)]);
        blank.clone() + &blocks.collect::<String>()
    };
    (0..rows).map(row).collect()
}

/// How many eighths of rows a value is high: what is there at all is seen.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a few hundred eighths"
)]
fn steps(value: f64, highest: f64, rows: usize) -> usize {
    if value <= 0.0 || highest <= 0.0 {
        return 0;
    }
    ((value / highest * (8 * rows) as f64).round() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::plot;

    #[test]
    fn the_highest_reaches_the_top_and_the_newest_is_right() {
        assert_eq!(plot(&[1.0, 2.0, 4.0], 4, 1), [" ▂▄█"]);
        assert_eq!(plot(&[9.0, 0.0, 8.0, 4.0, 0.01], 4, 2), [" █  ", " ██▁"]);
        assert_eq!(plot(&[], 3, 2), ["   ", "   "]);
        assert_eq!(plot(&[0.0, 0.0], 2, 1), ["  "]);
    }
}
