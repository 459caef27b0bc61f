//! What a file of Azure's credentials says: a connection string, or variables, one a line, as an
//! environment would have them. Pure.

/// What may stand in such a file: what Azure's own tools take from the environment as credentials.
const NAMES: [&str; 9] = [
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_AUTHORITY_HOST",
];

/// Those of them that nobody else is to know.
const SECRETS: [&str; 4] = [
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_SECRET",
];

/// Variables, each once.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AzureFile(Vec<(&'static str, String)>);

impl AzureFile {
    /// What `text` says; or what is wrong with it, without its words.
    pub(super) fn parse(text: &str) -> Result<AzureFile, String> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines: Vec<(&str, usize)> =
            lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).collect();
        if let [(line, _)] = lines[..]
            && is_connection_string(line)
        {
            return Ok(AzureFile(vec![(NAMES[0], line.to_owned())]));
        }
        let mut variables: Vec<(&'static str, String)> = Vec::new();
        for (line, number) in lines {
            let (name, value) = variable(line).ok_or_else(|| neither(number))?;
            if variables.iter().any(|(known, _)| *known == name) {
                return Err(format!("line {number}: {name} is there twice"));
            }
            variables.push((name, value.to_owned()));
        }
        if variables.is_empty() {
            return Err("there are no credentials in it".to_owned());
        }
        Ok(AzureFile(variables))
    }

    /// Whether it has more than names.
    pub(super) fn has_secret(&self) -> bool {
        SECRETS.iter().any(|name| self.variable(name).is_some())
    }

    /// The value of a variable, if it is there and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }
}

fn neither(line: usize) -> String {
    format!(
        "line {line}: neither a connection string nor a variable of Azure's tools, such as \
         AZURE_STORAGE_KEY=…"
    )
}

/// Whether the parts of a line are what Azure's portal gives out.
fn is_connection_string(line: &str) -> bool {
    let first = exported(line).split(';').next().and_then(|part| part.split_once('='));
    first.is_some_and(|(name, _)| !name.starts_with("AZURE_"))
}

/// What a shell is told to export.
fn exported(line: &str) -> &str {
    line.strip_prefix("export ").unwrap_or(line).trim_start()
}

/// `NAME=value`, with or without quotes, and as shells take it.
fn variable(line: &str) -> Option<(&'static str, &str)> {
    let (name, value) = exported(line).split_once('=')?;
    let name = NAMES.into_iter().find(|known| *known == name.trim())?;
    let value = value.trim();
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote)));
    Some((name, quoted.unwrap_or(value)))
}

#[cfg(test)]
mod tests {
    use super::AzureFile;

    fn check(text: &str, want: &[(&str, &str)]) {
        let Ok(file) = AzureFile::parse(text) else { panic!("{text}") };
        for (name, value) in want {
            assert_eq!(file.variable(name).as_deref(), Some(*value), "{text}");
        }
        assert_eq!(file.0.len(), want.len(), "{text}");
    }

    #[test]
    fn a_connection_string_or_variables_are_read() {
        let portal = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aHVzaA==";
        let connection = "AZURE_STORAGE_CONNECTION_STRING";
        check(&format!("{portal}\n"), &[(connection, portal)]);
        check(&format!("# ours\n\n{portal}"), &[(connection, portal)]);
        check(&format!("{connection}='{portal}'"), &[(connection, portal)]);
        for line in ["AZURE_STORAGE_KEY=aHVzaA==\n", "export AZURE_STORAGE_KEY='aHVzaA=='"] {
            check(line, &[("AZURE_STORAGE_KEY", "aHVzaA==")]);
        }
        check(
            "export AZURE_TENANT_ID=t\nAZURE_CLIENT_ID = \"c\"\r\nAZURE_CLIENT_SECRET='h=;#'\n",
            &[("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c"), ("AZURE_CLIENT_SECRET", "h=;#")],
        );
    }

    #[test]
    fn what_is_neither_is_refused_without_its_words() {
        for (text, want) in [
            ("", "no credentials"),
            ("# nothing\n", "no credentials"),
            ("hush", "line 1: neither"),
            ("AZURE_STORAGE_KEY=a\nhush\n", "line 2: neither"),
            ("AZURE_STORAGE_KEYS=hush", "line 1: neither"),
            (
                "AZURE_STORAGE_KEY=hush\nAZURE_STORAGE_KEY=hush",
                "line 2: AZURE_STORAGE_KEY is there twice",
            ),
            ("AccountName=hush\nAccountKey=hush", "line 1: neither"),
            ("AZURE_\u{fffd}=\u{0}hush", "line 1: neither"),
        ] {
            let said = AzureFile::parse(text).err().unwrap_or_default();
            assert!(said.contains(want) && !said.contains("hush"), "{text:?}: {said}");
        }
    }
}
