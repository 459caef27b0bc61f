//! Checksums of what is sent, as far as the store knows them.

use aws_sdk_s3::types::ChecksumAlgorithm;
use bytes::Bytes;

use super::direct::Call;
use super::server::PartChecks;
use super::shown::CRC32C;
use super::terms::Purpose;
use super::{S3, name};
use crate::capabilities::{Capability, Has, is_not_implemented};
use crate::http::Answer;
use crate::{Error, ErrorKind, Key, PutOptions, Result, UploadId};

impl S3 {
    /// Sends `bytes` with their checksum `crc32c`, unless the store does not know such a thing. What is sent
    /// without is in the hands of TLS, or of the signature.
    pub(super) async fn send_checked(
        &self,
        call: Call<'_>,
        bytes: Bytes,
        crc32c: &str,
    ) -> Result<Answer> {
        if self.learned.lacks(Capability::UploadChecksum) {
            return self.send(call.body(bytes)).await;
        }
        let checked = call.clone().header(CRC32C, crc32c).body(bytes.clone());
        match self.send(checked).await {
            Err(error) if self.may_be_the_checksum(&error) => {
                let answer = self.send(call.body(bytes)).await?;
                self.learned.learn(Capability::UploadChecksum, Has::No);
                Ok(answer)
            }
            Ok(answer) if answer.header(CRC32C).is_some() => {
                self.learned.learn(Capability::UploadChecksum, Has::Yes);
                Ok(answer)
            }
            sent => sent,
        }
    }

    /// Begins an upload in parts that announces checksums where that is of use and the store knows it.
    pub(super) async fn begin(
        &self,
        op: &'static str,
        key: &Key,
        options: &PutOptions,
    ) -> Result<UploadId> {
        match self.part_checks {
            PartChecks::Announced if !self.learned.lacks(Capability::UploadChecksum) => {
                let announced = Some(ChecksumAlgorithm::Crc32C);
                match self.begin_so(op, key, options, announced).await {
                    Err(error) if self.may_be_the_checksum(&error) => {
                        let upload = self.begin_so(op, key, options, None).await?;
                        self.learned.learn(Capability::UploadChecksum, Has::No);
                        Ok(upload)
                    }
                    begun => begun,
                }
            }
            PartChecks::Announced | PartChecks::Signature | PartChecks::Unannounced => {
                self.begin_so(op, key, options, None).await
            }
        }
    }

    /// Whether a request was refused for something that the store does not know, which its checksum
    /// may be.
    fn may_be_the_checksum(&self, error: &Error) -> bool {
        is_not_implemented(error) && self.learned.has(Capability::UploadChecksum).is_none()
    }

    async fn begin_so(
        &self,
        op: &'static str,
        key: &Key,
        options: &PutOptions,
        announced: Option<ChecksumAlgorithm>,
    ) -> Result<UploadId> {
        let (way, purpose) = (self.ways.now(), Purpose::New(key));
        let request = way
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(name(op, key)?)
            .set_checksum_algorithm(announced)
            .set_metadata(Some(options.metadata.clone().into_iter().collect()))
            .customize();
        let request = self.on_terms(request, purpose);
        let begun = self.ask((&way, purpose), (op, key), request.send()).await?;
        let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no id");
        begun.upload_id.map(UploadId).ok_or_else(missing)
    }
}
