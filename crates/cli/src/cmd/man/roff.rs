//! One manual page in the language of `man`.

use clap::{Arg, Command};

/// The page called `name` for `command`.
pub(super) fn page(name: &str, command: &Command, see_also: &[String]) -> String {
    let mut page = String::new();
    let version = mount::VERSION;
    line(&mut page, &format!(".TH \"{}\" 1 \"\" \"quayfs {version}\"", name.to_uppercase()));
    // No hyphens and no blanks that are not in the text: people copy flags and URLs from it.
    line(&mut page, ".nh\n.ad l");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    section(&mut page, "NAME");
    line(&mut page, &format!("{} \\- {}", plain(name), plain(about.trim_end_matches('.'))));
    section(&mut page, "SYNOPSIS");
    line(&mut page, &plain(&usage(command)));
    if let Some(long) = command.get_long_about() {
        section(&mut page, "DESCRIPTION");
        line(&mut page, &plain(&long.to_string()));
    }
    commands(&mut page, command);
    arguments(&mut page, command);
    if let Some(after) = command.get_after_help() {
        after_help(&mut page, &after.to_string());
    }
    section(&mut page, "SEE ALSO");
    let pages: Vec<String> = see_also.iter().map(|page| format!("{}(1)", plain(page))).collect();
    line(&mut page, &pages.join(", "));
    page
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().to_owned()
}

fn commands(page: &mut String, command: &Command) {
    let shown: Vec<&Command> = shown(command).collect();
    if shown.is_empty() {
        return;
    }
    section(page, "COMMANDS");
    for command in shown {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        item(page, command.get_name(), &about);
    }
}

/// The commands that people are told of.
pub(super) fn shown(program: &Command) -> impl Iterator<Item = &Command> {
    program
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// Arguments and flags, under the headings of the help, in its order.
fn arguments(page: &mut String, command: &Command) {
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let mut headings: Vec<&str> = Vec::new();
    for heading in shown.iter().map(|argument| heading(argument)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for wanted in headings {
        section(page, &wanted.to_uppercase());
        for argument in shown.iter().filter(|argument| heading(argument) == wanted) {
            item(page, &names(argument), &help(argument));
        }
    }
}

fn heading(argument: &Arg) -> &str {
    let usual = if argument.is_positional() { "Arguments" } else { "Options" };
    argument.get_help_heading().unwrap_or(usual)
}

/// `-f, --foreground`, `--cache-size <BYTES>`, `<URL>`.
fn names(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    match (short, argument.get_long()) {
        // With its value, as the help writes it.
        (None, _) | (_, None) => argument.to_string(),
        (Some(short), Some(_)) => format!("{short}, {argument}"),
    }
}

fn help(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let default = argument.get_default_values().first();
    match default.filter(|_| argument.get_action().takes_values()) {
        Some(value) if !argument.is_hide_default_value_set() && !help.contains("[default") => {
            format!("{help} [default: {}]", value.display())
        }
        Some(_) | None => help,
    }
}

/// `Examples:` and the like become sections; what is indented stays as it is written.
fn after_help(page: &mut String, text: &str) {
    let mut is_example = false;
    section(page, if text.starts_with("Example") { "EXAMPLES" } else { "NOTES" });
    for text in text.lines().skip(usize::from(text.starts_with("Example"))) {
        let is_indented = text.starts_with("  ");
        match (is_indented, is_example) {
            (true, false) => line(page, ".PP\n.RS 4\n.nf"),
            (false, true) => line(page, ".fi\n.RE"),
            (true, true) | (false, false) => {}
        }
        is_example = is_indented;
        if text.is_empty() { line(page, ".PP") } else { line(page, &plain(text.trim_start())) }
    }
    if is_example {
        line(page, ".fi\n.RE");
    }
}

fn section(page: &mut String, title: &str) {
    line(page, &format!(".SH \"{title}\""));
}

fn item(page: &mut String, name: &str, text: &str) {
    line(page, &format!(".TP\n\\fB{}\\fR\n{}", plain(name), plain(text)));
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

/// Text that means itself: no escapes, no requests at the beginning of a line, dashes that can be copied.
fn plain(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| {
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::{names, plain};

    #[test]
    fn a_flag_stands_with_its_value_however_it_is_written() {
        let o = Arg::new("o").short('o').value_name("OPTIONS");
        let both = Arg::new("both").short('b').long("both").value_name("OPTIONS");
        let size = Arg::new("size").long("size").value_name("BYTES");
        let mut command = clap::Command::new("program").args([o, both, size]);
        command.build();
        for (id, want) in
            [("o", "-o <OPTIONS>"), ("both", "-b, --both <OPTIONS>"), ("size", "--size <BYTES>")]
        {
            let argument = command.get_arguments().find(|argument| argument.get_id() == id);
            assert_eq!(names(argument.unwrap()), want);
        }
    }

    #[test]
    fn what_is_copied_from_a_page_is_what_was_written() {
        let command = clap::Command::new("program").about("does");
        let page = super::page("program", &command, &[]);
        let first = page.lines().take(4).collect::<Vec<_>>();
        assert_eq!(&first[1..], [".nh", ".ad l", ".SH \"NAME\""]);
    }

    #[test]
    fn text_means_itself() {
        assert_eq!(plain(".so file\n'x \\fB --a"), "\\&.so file\n\\&'x \\efB \\-\\-a");
    }
}
