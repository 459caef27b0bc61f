//! What somebody may have meant.

/// How alike a name must be, of 1, to be told. With less, what is told is rarely what was meant.
const LIKENESS_MIN: f64 = 0.8;

/// The name most like `word`, if one is like it at all.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('_', "-");
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&word, name), name))
        .filter(|(likeness, _)| LIKENESS_MIN <= *likeness)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// `; did you mean NAME?`, or nothing.
pub(crate) fn hint<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, names).map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_is_mistyped_is_recognized_and_what_is_not_alike_is_not() {
        let names = ["cache-size", "cache-dir", "metadata-ttl", "uid"];
        for (word, want) in [
            ("cache_size", Some("cache-size")),
            ("cahce-size", Some("cache-size")),
            ("Cache-Dirr", Some("cache-dir")),
            ("metadata-tll", Some("metadata-ttl")),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, names), want, "{word}");
        }
    }
}
