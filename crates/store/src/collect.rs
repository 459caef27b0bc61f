//! Drops what [`evict`](crate::evict) chooses, in bounded steps.

use std::sync::Arc;

use base::Counter;

use crate::backing::{BackingFile, Moving};
use crate::cached::Cached;
use crate::error::{Error, Result};
use crate::evict::{self, Candidate, Habit, Standing};
use crate::granule::{GRANULE_BYTES, STRIPE_GRANULES};
use crate::ground::Ground;
use crate::layout::VersionName;
use crate::lock::Mode;
use crate::state::versions::IdlePage;
use crate::strangers;
use crate::table::{Open, Table, is_idle};

/// How many unused versions of each habit are looked at in one round.
const IDLE_VERSIONS_MAX: u32 = 256;

/// An incomplete file that takes more than this is dropped by stripes, a smaller one whole.
const WHOLE_BYTES_MAX: u64 = 128 << 20;

/// How often younger files are looked for because older ones are in use, here or in another process.
const ROUNDS_MAX: usize = 64;

/// What came of a wish to drop a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// So much of the disk is free now.
    Freed(u64),
    /// Somebody has it open, here or in another process.
    InUse,
    /// It is pinned.
    Pinned,
}

/// What can be dropped.
#[derive(Clone, Debug)]
enum Victim {
    /// A whole file that nobody uses.
    Whole(VersionName),
    /// A stripe of an incomplete file.
    Stripe(Arc<Cached>, u64),
}

impl Victim {
    /// Whether it is a stripe of `cached`.
    fn is_of(&self, cached: &Arc<Cached>) -> bool {
        match self {
            Victim::Whole(_) => false,
            Victim::Stripe(other, _) => Arc::ptr_eq(other, cached),
        }
    }
}

/// Drops clean data of about `need_bytes`; returns how many bytes that freed. The caller holds
/// neither the table nor a cached file.
pub(crate) fn collect(table: &Table, ground: &Ground, need_bytes: u64) -> u64 {
    // What is not recorded yet cannot be weighed; without it the rest still can.
    if let Err(error) = table.save() {
        tracing::warn!(%error, "cannot record what is in the cache");
    }
    let mut freed = 0;
    if let Err(error) = collect_by_age(table, ground, (need_bytes, &mut freed)) {
        tracing::warn!(%error, "cannot drop from the cache");
    }
    freed
}

/// Drops the oldest that can go, and then those that are behind others which are in use.
fn collect_by_age(
    table: &Table,
    ground: &Ground,
    (need_bytes, freed): (u64, &mut u64),
) -> Result<()> {
    let mut page = IdlePage::first();
    let (closed, _) = gather_closed(table, ground, &mut page)?.unwrap_or_default();
    let mut found = gather_open(table, ground, |_| true)?;
    found.extend(closed);
    for _ in 0..ROUNDS_MAX {
        let (more, refused) = round(table, ground, (&mut found, need_bytes - *freed))?;
        *freed += more;
        if need_bytes <= *freed {
            break;
        }
        if 0 < refused {
            // The next ones are younger: what is older is to go before them the next time.
            ground.space.want_room();
            continue;
        }
        if 0 < *freed {
            // That may do: many small files at a time would keep everyone waiting.
            break;
        }
        let Some((closed, opened)) = gather_closed(table, ground, &mut page)? else { break };
        found.extend(closed);
        if !opened.is_empty() {
            found.extend(gather_open(table, ground, |name| opened.contains(&name))?);
        }
    }
    Ok(())
}

/// Drops what is to go first, about `need_bytes` of it, and takes it from what was found; how many bytes that freed, and
/// how many files others did not let go of.
fn round(
    table: &Table,
    ground: &Ground,
    (found, need_bytes): (&mut Found, u64),
) -> Result<(u64, usize)> {
    let candidates: Vec<Candidate> = found.iter().map(|(_, candidate)| *candidate).collect();
    let mut chosen = evict::choose(&candidates, ground.stamp(), need_bytes);
    chosen.sort_unstable();
    let mut whole = Vec::new();
    let mut stripes: Vec<(Arc<Cached>, Vec<u64>)> = Vec::new();
    for at in chosen.into_iter().rev() {
        let (victim, candidate) = found.swap_remove(at);
        match victim {
            Victim::Whole(name) => whole.push((name, candidate.disk_bytes)),
            Victim::Stripe(cached, stripe) => {
                match stripes.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &cached)) {
                    Some((_, chosen)) => chosen.push(stripe),
                    None => stripes.push((cached, vec![stripe])),
                }
            }
        }
    }
    let (mut freed, mut refused) = drop_whole(table, ground, whole)?;
    for (cached, mut chosen) in stripes {
        chosen.sort_unstable();
        let turn = ground.turn();
        let more = cached.guard("evict")?.drop_stripes(&turn, &chosen)?;
        freed += more;
        if more == 0 {
            refused += 1;
            // Nor will the other stripes go, however many there are.
            found.retain(|(victim, _)| !victim.is_of(&cached));
        }
    }
    Ok((freed, refused))
}

/// Drops the stripes that lie wholly below `below`, however lately they were used, unless they are pinned.
pub(crate) fn let_go(ground: &Ground, cached: &Arc<Cached>, below: u64) -> Result<u64> {
    if ground.db.is_pinned(cached.name())? {
        return Ok(0);
    }
    // The last stripe may be short.
    let is_all = cached.size() <= below;
    let end = if is_all { u64::MAX } else { below / (STRIPE_GRANULES * GRANULE_BYTES) };
    // Nobody records what is here until it is gone.
    let turn = ground.turn();
    let guard = cached.guard("let go")?;
    let stripes = guard.body().presence.stripes().into_iter().map(|used| used.stripe);
    let stripes: Vec<u64> = stripes.filter(|stripe| *stripe < end).collect();
    guard.drop_all_of(&turn, &stripes)
}

/// All that is here of a version is wrong: nobody reads it here any more, nor learns of it. Pinned or not.
pub(crate) fn forget(ground: &Ground, cached: &Arc<Cached>) -> Result<u64> {
    // What came from staging a moment ago has its place then.
    let settled = ground.db.settle();
    let turn = ground.turn();
    let mut guard = cached.guard("forget")?;
    let presence = &guard.body().presence;
    let stripes = presence.stripes().into_iter().map(|used| used.stripe);
    let granules: Vec<u64> = stripes.flat_map(|stripe| presence.present_in(stripe)).collect();
    let freed = guard.disown(&turn, &granules)?;
    settled?;
    // Others who have learned of these bytes would record them again, with sums that match.
    guard.begin_anew(&turn)?;
    Ok(freed)
}

/// Drops all that is here of a version because somebody asked for that.
pub(crate) fn drop_version(
    table: &Table,
    ground: &Ground,
    (identity, size): (&[u8], u64),
) -> Result<Dropped> {
    let name = VersionName::of(identity, size);
    if ground.db.is_pinned(name)? {
        return Ok(Dropped::Pinned);
    }
    // What is in memory only would come back with the next record.
    table.save()?;
    let open = table.lock().get(name).map(Arc::clone);
    let disk_bytes = match &open {
        Some(cached) => cached.here("evict").map_or(0, |body| body.presence.disk_bytes()),
        None => ground.db.version_disk_bytes(name)?,
    };
    drop(open);
    if disk_bytes == 0 && !is_on_disk(ground, name)? {
        return Ok(Dropped::Freed(0));
    }
    match drop_whole(table, ground, vec![(name, disk_bytes)])? {
        (_, 1..) => {
            // It may be open elsewhere only since it was used a moment ago.
            ground.space.want_room();
            Ok(Dropped::InUse)
        }
        (freed, _) => Ok(Dropped::Freed(freed)),
    }
}

/// Whether there is a file of a version: what another process fetched a moment ago is not recorded yet.
fn is_on_disk(ground: &Ground, name: VersionName) -> Result<bool> {
    let path = ground.layout.object(name);
    let found = ground.disk.inode(&path).map_err(|error| Error::io("look for", &path, error))?;
    Ok(found.is_some())
}

/// What could go.
type Found = Vec<(Victim, Candidate)>;

/// The next versions that are not open and could go as a whole, and the names of those that were opened
/// because their stripes are to be weighed; `None` if there are no more.
fn gather_closed(
    table: &Table,
    ground: &Ground,
    page: &mut IdlePage,
) -> Result<Option<(Found, Vec<VersionName>)>> {
    let versions = ground.db.idle_versions(page, IDLE_VERSIONS_MAX)?;
    if versions.is_empty() {
        return Ok(None);
    }
    let (mut found, mut opened) = (Vec::new(), Vec::new());
    for idle in versions {
        if table.lock().get(idle.name).is_some() {
            continue;
        }
        if idle.is_complete || idle.disk_bytes <= WHOLE_BYTES_MAX {
            let candidate = Candidate {
                disk_bytes: idle.disk_bytes,
                last_use: idle.last_use,
                habit: habit(idle.uses),
                standing: Standing::Idle,
            };
            found.push((Victim::Whole(idle.name), candidate));
        } else {
            table.version(&idle.identity, idle.size)?;
            opened.push(idle.name);
        }
    }
    Ok(Some((found, opened)))
}

/// What could go of the versions that are open and `wanted`.
fn gather_open(
    table: &Table,
    ground: &Ground,
    wanted: impl Fn(VersionName) -> bool,
) -> Result<Found> {
    let pinned = ground.db.pinned_names()?;
    let open = table.lock();
    let weighed = open.files().filter(|cached| wanted(cached.name()));
    Ok(weighed.filter(|cached| !pinned.contains(&cached.name())).flat_map(victims_of).collect())
}

/// What of an open version could go. The caller holds the table.
fn victims_of(cached: &Arc<Cached>) -> Found {
    let is_idle = is_idle(cached);
    let used = cached.used();
    let habit = habit(used.uses);
    let Ok(body) = cached.here("evict") else { return Vec::new() };
    let disk_bytes = body.presence.disk_bytes();
    if disk_bytes == 0 {
        return Vec::new();
    }
    let is_complete = body.presence.has_all();
    if is_idle && (is_complete || disk_bytes <= WHOLE_BYTES_MAX) {
        let last_use = used.last_use;
        let candidate = Candidate { disk_bytes, last_use, habit, standing: Standing::Idle };
        return vec![(Victim::Whole(cached.name()), candidate)];
    }
    if is_complete {
        return Vec::new();
    }
    let mut stripes = body.presence.stripes();
    stripes.sort_unstable_by_key(|stripe| std::cmp::Reverse(stripe.last_use));
    let weigh = |(newer, stripe): (usize, crate::presence::StripeUse)| {
        let standing = if is_idle { Standing::Idle } else { Standing::InUse { newer } };
        let candidate =
            Candidate { disk_bytes: stripe.disk_bytes, last_use: stripe.last_use, habit, standing };
        (Victim::Stripe(Arc::clone(cached), stripe.stripe), candidate)
    };
    stripes.into_iter().enumerate().map(weigh).collect()
}

fn habit(uses: u64) -> Habit {
    if uses <= 1 { Habit::Once } else { Habit::Often }
}

/// Removes whole files that nobody uses: records first, then names, then the space. How many bytes that freed, and
/// how many files are in use.
fn drop_whole(
    table: &Table,
    ground: &Ground,
    chosen: Vec<(VersionName, u64)>,
) -> Result<(u64, usize)> {
    if chosen.is_empty() {
        return Ok((0, 0));
    }
    let wanted = chosen.len();
    let names: Vec<VersionName> = chosen.iter().map(|(name, _)| *name).collect();
    let mut open = table.lock_for(&names);
    // What came from staging a moment ago has its place then.
    ground.db.settle()?;
    let _turn = ground.turn();
    let mut claimed = Vec::new();
    for (name, disk_bytes) in chosen {
        if let Some(claim) = claim(&mut open, ground, (name, disk_bytes))? {
            claimed.push((name, claim));
        }
    }
    let refused = wanted - claimed.len();
    if claimed.is_empty() {
        return Ok((0, refused));
    }
    let names: Vec<VersionName> = claimed.iter().map(|(name, _)| *name).collect();
    ground.db.forget_versions(&names)?;
    let mut freed = 0;
    for (name, claim) in claimed {
        let path = ground.layout.object(name);
        if !strangers::is_stranger(&path) {
            ground.disk.unlink(&path).map_err(|error| Error::io("evict", &path, error))?;
        }
        freed += claim.disk_bytes;
    }
    ground.space.give_back(freed);
    ground.metrics.add(Counter::EvictedBytes, freed);
    Ok((freed, refused))
}

/// A file that is being removed: while this lives it cannot be opened, nor was anyone using it.
#[derive(Debug)]
struct Claim {
    /// What goes with it.
    disk_bytes: u64,
    /// `None` where there is no file of ours.
    #[expect(dead_code, reason = "held, not looked at")]
    moving: Option<Moving>,
}

/// Claims the file of a version, and closes it here; `None` if somebody uses it, here or in another process.
fn claim(
    open: &mut Open,
    ground: &Ground,
    (name, disk_bytes): (VersionName, u64),
) -> Result<Option<Claim>> {
    let Some(cached) = open.get(name) else { return claim_closed(ground, name, disk_bytes) };
    if !is_idle(cached) {
        return Ok(None);
    }
    let guard = cached.guard("evict")?;
    let moving = guard.moving()?;
    let is_current = guard.is_current()?;
    if is_current && !guard.claim(Mode::Exclusive)? {
        return Ok(None);
    }
    drop(guard);
    open.remove(name);
    if is_current {
        return Ok(Some(Claim { disk_bytes, moving: Some(moving) }));
    }
    // Another process has put a file of its own in the place of ours.
    claim_closed(ground, name, ground.db.version_disk_bytes(name)?)
}

/// Claims the file of a version that is not open; `None` if another process uses it.
fn claim_closed(ground: &Ground, name: VersionName, disk_bytes: u64) -> Result<Option<Claim>> {
    let nothing = Some(Claim { disk_bytes, moving: None });
    let path = ground.layout.object(name);
    let io = |error| Error::io("evict", &path, error);
    if strangers::is_stranger(&path) {
        return Ok(nothing);
    }
    let Some(file) = ground.disk.open(&path).map_err(io)? else { return Ok(nothing) };
    let file = Arc::new(BackingFile::new(file, Arc::clone(&ground.disk)).map_err(io)?);
    let moving = file.moving().map_err(io)?;
    let is_claimed = file.claim(Mode::Exclusive).map_err(io)?;
    let is_current = ground.disk.inode(&path).map_err(io)? == Some(file.inode());
    Ok((is_claimed && is_current).then_some(Claim { disk_bytes, moving: Some(moving) }))
}
