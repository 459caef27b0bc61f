//! Workload identity federation: who we are is said by somebody else, whom Google believes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Secret;
use crate::token::TokenFile;

use super::file_error::CredentialsFileError;

/// Where tokens of others are exchanged.
const EXCHANGE: &str = "https://sts.googleapis.com/v1/token";

/// Whose word is exchanged for a token, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Federation {
    /// The pool and provider at Google's that know whose word it is.
    pub audience: String,
    /// What kind of token the other one hands out.
    pub subject_type: String,
    /// Where it is exchanged.
    pub token_url: String,
    /// Where that token is.
    pub subject: Subject,
    /// How it is written there.
    pub format: SubjectFormat,
}

/// Where the other one's token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// In a file, which is read each time.
    File(TokenFile),
    /// At a URL, which is asked each time.
    Url {
        /// The URL.
        url: String,
        /// What goes with the request.
        headers: Vec<(String, Secret)>,
    },
}

/// How the other one's token is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectFormat {
    /// As it is.
    Text,
    /// In this field of an object.
    Json {
        /// The field.
        field: String,
    },
}

/// The parts of a credentials file that are about it.
#[derive(Deserialize)]
pub(super) struct File {
    audience: Option<String>,
    subject_token_type: Option<String>,
    token_url: Option<String>,
    credential_source: Option<SourceOfFile>,
}

#[derive(Deserialize)]
struct SourceOfFile {
    /// Of AWS: its credentials would have to be signed with.
    environment_id: Option<String>,
    file: Option<String>,
    url: Option<String>,
    /// A program to run.
    executable: Option<IgnoredAny>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    format: Option<FormatOfFile>,
}

#[derive(Deserialize)]
struct FormatOfFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    subject_token_field_name: Option<String>,
}

/// Why a source is of no use that has neither a file nor a URL for us.
fn unsupported(
    environment_id: Option<String>,
    program: Option<IgnoredAny>,
) -> CredentialsFileError {
    match (environment_id, program) {
        // Its own signatures would be needed.
        (Some(id), _) => {
            CredentialsFileError::Kind(format!("external_account of AWS (environment_id {id:?})"))
        }
        (None, Some(_)) => CredentialsFileError::Program,
        (None, None) => CredentialsFileError::Source,
    }
}

impl File {
    /// What it says; files are read by `read`.
    pub(super) fn federation(
        self,
        read: fn(&Path) -> io::Result<String>,
    ) -> Result<Federation, CredentialsFileError> {
        let missing = CredentialsFileError::Missing;
        let source = self.credential_source.ok_or(missing("credential_source"))?;
        let url = source.url.filter(|_| source.environment_id.is_none());
        let subject = match (source.file, url) {
            (Some(path), _) => Subject::File(TokenFile::new(path, read)),
            (None, Some(url)) => {
                let headers = source.headers.into_iter();
                let headers = headers.map(|(name, value)| (name, Secret::new(value))).collect();
                Subject::Url { url, headers }
            }
            (None, None) => return Err(unsupported(source.environment_id, source.executable)),
        };
        let format = match source.format {
            Some(FormatOfFile { kind: Some(kind), subject_token_field_name: field })
                if kind == "json" =>
            {
                let field = field.ok_or(missing("subject_token_field_name"))?;
                SubjectFormat::Json { field }
            }
            Some(_) | None => SubjectFormat::Text,
        };
        Ok(Federation {
            audience: self.audience.ok_or(missing("audience"))?,
            subject_type: self.subject_token_type.ok_or(missing("subject_token_type"))?,
            token_url: self.token_url.unwrap_or_else(|| EXCHANGE.to_owned()),
            subject,
            format,
        })
    }
}
