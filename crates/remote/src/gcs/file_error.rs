//! What is wrong with a file of credentials.

/// Why a text holds no credentials. It does not repeat the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsFileError {
    /// Not the JSON that Google's tools write.
    #[error("the credentials file is not one of Google's")]
    NotJson,
    /// A field that such a file has is missing.
    #[error("the credentials file lacks {0}")]
    Missing(&'static str),
    /// A kind that we do not know.
    #[error(
        "credentials of the kind {0} are not supported: use a service account's file, or run \
         `gcloud auth application-default login`"
    )]
    Kind(String),
    /// Workload identity federation by a program that is to be run.
    #[error(
        "the credentials file (external_account) names a program to run, which quayfs does not do: have \
         the program write its token to a file that credential_source names, or set \
         CLOUDSDK_AUTH_ACCESS_TOKEN"
    )]
    Program,
    /// Workload identity federation by AWS's signatures, or by nothing at all.
    #[error(
        "the credentials file (external_account) has neither a file nor a URL as credential_source; \
         federation with AWS's own credentials is not supported: use a service account's file, or set \
         CLOUDSDK_AUTH_ACCESS_TOKEN"
    )]
    Source,
}
