//! Directory buckets (S3 Express One Zone): how they are known, and where they are; pure.

/// What the name of a directory bucket ends in, and that of an access point of one. Nothing else may be called so
/// ("Directory bucket naming rules" of the S3 user guide).
const ENDS: [&str; 2] = ["--x-s3", "--xa-s3"];

/// What the names of zones begin with, and the regions that they are in ("Endpoints for directory buckets").
const REGIONS: [(&str, &str); 20] = [
    ("use1", "us-east-1"),
    ("use2", "us-east-2"),
    ("usw1", "us-west-1"),
    ("usw2", "us-west-2"),
    ("afs1", "af-south-1"),
    ("ape1", "ap-east-1"),
    ("apne1", "ap-northeast-1"),
    ("apne2", "ap-northeast-2"),
    ("apne3", "ap-northeast-3"),
    ("aps1", "ap-south-1"),
    ("apse1", "ap-southeast-1"),
    ("apse2", "ap-southeast-2"),
    ("cac1", "ca-central-1"),
    ("euc1", "eu-central-1"),
    ("eun1", "eu-north-1"),
    ("eus1", "eu-south-1"),
    ("euw1", "eu-west-1"),
    ("euw2", "eu-west-2"),
    ("euw3", "eu-west-3"),
    ("sae1", "sa-east-1"),
];

/// Whether `bucket` is a directory bucket.
pub(super) fn is_directory(bucket: &str) -> bool {
    ENDS.iter().any(|end| bucket.ends_with(end))
}

/// The region of the zone that the name of a directory bucket has in it: `name--usw2-az1--x-s3`.
pub(super) fn region(bucket: &str) -> Option<&'static str> {
    let name = ENDS.iter().find_map(|end| bucket.strip_suffix(end))?;
    let (_, zone) = name.rsplit_once("--")?;
    let (place, _) = zone.split_once('-')?;
    REGIONS.iter().find(|(found, _)| *found == place).map(|(_, region)| *region)
}

#[cfg(test)]
mod tests {
    use super::{is_directory, region};

    #[test]
    fn the_name_of_a_directory_bucket_says_where_it_is() {
        for (bucket, is_one, want) in [
            ("lab--usw2-az1--x-s3", true, Some("us-west-2")),
            ("lab--apne1-az4--xa-s3", true, Some("ap-northeast-1")),
            ("a--b--use1-az4--x-s3", true, Some("us-east-1")),
            ("lab--new9-az1--x-s3", true, None),
            ("--x-s3", true, None),
            ("lab--usw2-az1", false, None),
            ("lab", false, None),
        ] {
            assert_eq!((is_directory(bucket), region(bucket)), (is_one, want), "{bucket}");
        }
    }
}
