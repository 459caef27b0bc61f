//! The tags that a task's files are to have, as Nextflow names them, in our own words; pure.
//!
//! ```text
//!   [.command.*|.exitcode](nextflow.io/metadata=true),[*](nextflow.io/temporary=true)
//! ```
//!
//! (nextflow.io/docs, `fusion.tags`.) A file gets the tags of all patterns that it fits.

/// As `--tags` takes them; `None` if they are not understood or none are wanted.
pub(super) fn rules(text: &str) -> Option<String> {
    let mut rules = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (patterns, after) = rest.strip_prefix('[')?.split_once("](")?;
        let (tags, after) = after.split_once(')')?;
        for tag in tags.split(['&', ',']).map(str::trim) {
            tag.split_once('=')?;
            rules.extend(patterns.split('|').map(|pattern| format!("{}={tag}", pattern.trim())));
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    (!rules.is_empty()).then(|| rules.join(";"))
}

#[cfg(test)]
mod tests {
    use mount::Tags;

    use super::rules;

    #[test]
    fn patterns_and_their_tags_become_rules() {
        let usual = "[.command.*|.exitcode|.fusion.*](nextflow.io/metadata=true),\
                     [*](nextflow.io/temporary=true)";
        for (text, want) in [
            (
                usual,
                Some(
                    ".command.*=nextflow.io/metadata=true;.exitcode=nextflow.io/metadata=true;\
                     .fusion.*=nextflow.io/metadata=true;*=nextflow.io/temporary=true",
                ),
            ),
            ("[*.bam](kind=alignment&by=me)", Some("*.bam=kind=alignment;*.bam=by=me")),
            ("false", None),
            ("[*](", None),
            ("", None),
        ] {
            assert_eq!(rules(text).as_deref(), want, "{text}");
            if let Some(rules) = want {
                Tags::parse(rules).unwrap();
            }
        }
    }
}
