//! Objects of directory buckets get another name in one step ([RenameObject]).
//!
//! A rename whose answer is lost is asked for again under the same token, by which the store knows it and does
//! nothing more. A token that is asked with again after the object has come back to its old name would be taken for
//! that as well; so where a token was used before, the object must be gone from its old name.
//!
//! [RenameObject]: https://docs.aws.amazon.com/AmazonS3/latest/API/API_RenameObject.html

use http::Method;

use super::named::name;
use super::renames::{Token, What};
use super::terms::Purpose;
use super::{S3, conditions, fault};
use crate::capabilities::is_not_implemented;
use crate::http::encode_path;
use crate::{Condition, Error, ErrorKind, Key, Meta, Original, Remote as _, Result, Version};

const OP: &str = "rename";

impl S3 {
    /// Gives `original` the key `to`.
    pub(super) async fn rename_object(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let what = What {
            from: original.key.clone(),
            version: original.version.clone(),
            to: to.clone(),
            condition: condition.clone(),
        };
        if [original.key, to].iter().any(|key| key.as_bytes().ends_with(b"/")) {
            let error = Error::new(ErrorKind::Unsupported, OP, original.key);
            return Err(error.because("a key that ends in a slash is not renamed"));
        }
        let renamed = self.rename_once(original, &what).await;
        let is_unclear =
            renamed.as_ref().is_err_and(|error| matches!(error.kind, ErrorKind::Transient { .. }));
        if !is_unclear {
            self.renames.settled(&what);
        }
        renamed
    }

    async fn rename_once(&self, original: Original<'_>, what: &What) -> Result<Version> {
        let source = encode_path(name(OP, &what.from)?.as_bytes());
        let (if_match, if_none_match) = conditions(&what.condition);
        let nothing =
            |_| Error::new(ErrorKind::Unsupported, OP, &what.from).because("no randomness");
        let token = self.renames.token(what).map_err(nothing)?;
        let (Token::New(text) | Token::Again(text)) = &token;
        let call = self
            .call(OP, Method::PUT, &what.to, Purpose::Other)
            .resource("renameObject")
            .header("x-amz-rename-source", source)
            .header("x-amz-rename-source-if-match", what.version.as_str())
            .header("x-amz-client-token", text)
            .maybe("if-match", if_match)
            .maybe("if-none-match", if_none_match);
        if let Err(error) = self.send(call).await {
            if is_not_implemented(&error) {
                self.renames.learn_unknown();
            }
            return Err(error);
        }
        if let Token::Again(_) = token {
            self.check_gone(what).await?;
        }
        self.arrived(original, what).await
    }

    /// The answer may be that to another rename of the same object, which has come back since.
    async fn check_gone(&self, what: &What) -> Result<()> {
        match self.head(&what.from).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(Meta { version, .. }) if version != what.version => Ok(()),
            Ok(_) => {
                // Under another token.
                self.renames.settled(what);
                let error = Error::new(ErrorKind::Unsupported, OP, &what.from);
                Err(fault::in_passing(error.because("it was not renamed under this token")))
            }
        }
    }

    /// The answer does not tell the version.
    async fn arrived(&self, original: Original<'_>, what: &What) -> Result<Version> {
        match self.head(&what.to).await {
            Ok(there) if there.size == original.size => Ok(there.version),
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            // It was there for a moment.
            Ok(_) | Err(_) => Err(Error::new(ErrorKind::Changed, OP, &what.to)),
        }
    }
}
