//! Numbers as people read them.

/// Three digits that count.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size < 0.001 => format!("{value:.0}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!([0.0, 1.234, 56.78, 910.1].map(figure), ["0", "1.23", "56.8", "910"]);
    }
}
