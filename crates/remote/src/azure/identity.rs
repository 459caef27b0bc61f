//! As whom Azure is asked.

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use base::Timestamp;

use super::connect::{AzureCredentials, AzureOptions};
use super::entra::Entra;
use crate::identity::Identity;

/// What may be told of whom `options` name.
///
/// A token of theirs, if there is one, ends at `token_ends_secs`.
pub(super) fn identity(options: &AzureOptions, token_ends_secs: Option<i64>) -> Identity {
    let (kind, expires) = match &options.credentials {
        AzureCredentials::Anonymous => return Identity::anonymous(),
        AzureCredentials::SharedKey(_) => ("key of the account", None),
        AzureCredentials::Sas(text) => ("signature for the account", end(text.reveal())),
        AzureCredentials::Entra(entra) => {
            let expires = token_ends_secs.map(|secs| Timestamp { secs, nanos: 0 });
            let (kind, name) = match entra {
                Entra::Application { client_id, .. } => ("application", client_id.clone()),
                Entra::Machine { client_id, .. } | Entra::App { client_id, .. } => {
                    let of_machine = || "of this machine".to_owned();
                    ("managed identity", client_id.clone().unwrap_or_else(of_machine))
                }
            };
            return Identity { kind, name, expires };
        }
    };
    Identity { kind, name: options.account.clone(), expires }
}

/// When a shared access signature ends, which is said in it.
fn end(signature: &str) -> Option<Timestamp> {
    let end = signature.split('&').find_map(|part| part.strip_prefix("se="))?;
    let end = end.replace("%3A", ":").replace("%3a", ":");
    let time = DateTime::from_str(&end, Format::DateTimeWithOffset).ok()?;
    Some(Timestamp { secs: time.secs(), nanos: 0 })
}

#[cfg(test)]
mod tests {
    use super::identity;
    use crate::{AzureCredentials, AzureOptions, Secret};

    #[test]
    fn a_signature_says_until_when_it_is_good_and_nothing_else() {
        let signature = "sv=2024-11-04&se=2026-01-02T03%3A04%3A05Z&sr=c&sp=rl&sig=hush";
        let credentials = AzureCredentials::Sas(Secret::new(signature));
        let found = identity(&AzureOptions::new("lab", "slides", credentials), None);
        assert_eq!((found.name.as_str(), found.expires.unwrap().secs), ("lab", 1_767_323_045));
        assert!(!format!("{found:?}").contains("hush"));
    }
}
