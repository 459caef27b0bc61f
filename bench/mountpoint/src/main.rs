//! Mounts a bucket with the library of Mountpoint for Amazon S3, set up as its own program does by
//! default, and ends when it is unmounted.
//!
//! `quayfs-bench-mountpoint ENDPOINT BUCKET DIR [CACHE]`: with CACHE as with `--cache CACHE`. The keys
//! are in the environment.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mountpoint_s3_client::config::{AddressingStyle, S3ClientAuthConfig};
use mountpoint_s3_client::user_agent::UserAgent;
use mountpoint_s3_fs::data_cache::{
    CacheLimit, DataCacheConfig, DiskDataCacheConfig, ManagedCacheDir,
};
use mountpoint_s3_fs::fs::{CacheConfig, TimeToLive};
use mountpoint_s3_fs::fuse::config::{FuseOptions, FuseSessionConfig, MountPoint};
use mountpoint_s3_fs::memory::{CandidateSize, PagedPool, effective_total_memory};
use mountpoint_s3_fs::s3::config::{
    ClientConfig, MemoryLimitSetting, PartConfig, Region, TargetThroughputSetting,
};
use mountpoint_s3_fs::s3::{Bucket, Prefix, S3Path};
use mountpoint_s3_fs::{
    MountpointConfig, Runtime, S3FilesystemConfig, Superblock, SuperblockConfig,
};

/// The program's default, of reads as of writes.
const PART_BYTES: usize = 8 << 20;
const CACHE_BLOCK_BYTES: u64 = 1 << 20;
const THREADS: usize = 16;
/// How long names and attributes are believed once there is a cache.
const TTL_WITH_CACHE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [endpoint, bucket, dir] => serve(endpoint, bucket, Path::new(dir), None),
        [endpoint, bucket, dir, cache] => {
            serve(endpoint, bucket, Path::new(dir), Some(Path::new(cache)))
        }
        _ => bail!("usage: quayfs-bench-mountpoint ENDPOINT BUCKET DIR [CACHE]"),
    }
}

fn serve(endpoint: &str, bucket: &str, dir: &Path, cache: Option<&Path>) -> Result<()> {
    // As much of the memory as the program takes for itself.
    let memory_bytes = usize::try_from(effective_total_memory() / 100 * 95)?;
    let client = client(endpoint, memory_bytes)?;
    let pool = PagedPool::config()
        .with_candidate_sizes([CandidateSize::new(PART_BYTES)])
        .with_memory_limit(memory_bytes)
        .build();
    let place = S3Path::new(Bucket::new(bucket)?, Prefix::empty());
    let client = client.create_client(pool.clone(), Some(&place)).context("no client")?;
    let runtime = Runtime::new(client.event_loop_group());

    let ttl = cache.map_or(TimeToLive::Minimal, |_| TimeToLive::Duration(TTL_WITH_CACHE));
    let names = CacheConfig::new(ttl);
    let system = S3FilesystemConfig {
        cache_config: names.clone(),
        read_only: true,
        ..S3FilesystemConfig::default()
    };
    let superblock_config =
        SuperblockConfig { cache_config: names, s3_personality: system.s3_personality };
    let superblock = Superblock::new(client.clone(), place, superblock_config);

    // The program empties its cache at every start and at every end.
    let kept = cache
        .map(|cache| ManagedCacheDir::new_from_parent_with_cache_key(cache, None, true))
        .transpose()?;
    let disk_cache_config = kept.as_ref().map(|kept| DiskDataCacheConfig {
        cache_directory: kept.as_path_buf(),
        block_size: CACHE_BLOCK_BYTES,
        limit: CacheLimit::default(),
    });
    let options = FuseOptions { read_only: true, ..FuseOptions::default() };
    let session = FuseSessionConfig::new(MountPoint::new(dir)?, options, THREADS)?;
    let data = DataCacheConfig { disk_cache_config, express_cache_config: None };
    let session = MountpointConfig::new(session, system, data)?
        .create_fuse_session(superblock, client, runtime, pool)?;
    let ended = session.join();
    drop(kept);
    ended
}

fn client(endpoint: &str, memory_bytes: usize) -> Result<ClientConfig> {
    Ok(ClientConfig {
        region: Region::new_user_specified("us-east-1".to_owned()),
        endpoint_url: Some(endpoint.to_owned()),
        addressing_style: AddressingStyle::Path,
        dual_stack: false,
        transfer_acceleration: false,
        auth_config: S3ClientAuthConfig::Default,
        requester_pays: false,
        expected_bucket_owner: None,
        throughput_target: TargetThroughputSetting::Default,
        bind: None,
        part_config: PartConfig::with_part_size(PART_BYTES)
            .validate(MemoryLimitSetting::Default(memory_bytes))?,
        user_agent: UserAgent::new(None),
        tls_config: None,
    })
}
